//! From an event to a line on standard error: text for people, JSON for collectors.
//!
//! A line that nobody can take is lost, and the process lives on. Whatever peers put into a message, a line stays one line: control
//! characters are written as escapes.

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write};
use std::str::FromStr;
use std::sync::Arc;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Context, Filter, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry, fmt as lines};

use super::{Level, Loggers};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    Json,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        match text.to_ascii_lowercase().as_str() {
            "text" => Ok(Format::Text),
            "json" => Ok(Format::Json),
            _ => Err(format!("{text} is no format of lines: text or json")),
        }
    }
}

/// The time in front of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamps {
    /// That of the wall clock of the machine.
    Wall,
    /// None: the lines of a simulator are the same in every run.
    None,
}

/// Writes the lines of this process to standard error from now on. Only the first call of a process counts.
pub fn subscribe(loggers: Arc<Loggers>, format: Format, stamps: Stamps) {
    let levels = Levels(loggers);
    let form = Form {
        format,
        stamps,
        has_colours: format == Format::Text && is_terminal_with_colours(),
    };
    let layer = lines::layer()
        .event_format(form)
        .with_writer(|| Unheard)
        .log_internal_errors(false)
        .with_filter(levels);
    // A second one would write every line twice.
    drop(tracing::subscriber::set_global_default(
        Registry::default().with(layer),
    ));
}

fn is_terminal_with_colours() -> bool {
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
    io::stderr().is_terminal() && !is_plain
}

/// Disabled events are refused by one comparison; that is computed anew.
pub(super) fn on_levels_changed() {
    tracing::callsite::rebuild_interest_cache();
}

/// Standard error, for lines that may be lost.
struct Unheard;

impl Write for Unheard {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // A full disk or a log collector that ended costs the line.
        let _ = io::stderr().write_all(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Levels(Arc<Loggers>);

fn least(level: Level) -> LevelFilter {
    match level {
        Level::Trace => LevelFilter::TRACE,
        Level::Debug => LevelFilter::DEBUG,
        Level::Info => LevelFilter::INFO,
        Level::Warn => LevelFilter::WARN,
        Level::Error => LevelFilter::ERROR,
        Level::Fatal => LevelFilter::OFF,
    }
}

impl<S> Filter<S> for Levels {
    fn enabled(&self, about: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        *about.level() <= least(self.0.level_of(about.target()))
    }

    fn callsite_enabled(&self, _: &'static Metadata<'static>) -> Interest {
        // Levels change.
        Interest::sometimes()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let levels = self.0.all().map(|(_, level)| least(level));
        levels.max()
    }
}

/// `2026-03-01T10:00:00.000000Z  WARN broker.connections: connection closed peer=10.0.0.7:4000`, or the same as an object of JSON.
struct Form {
    format: Format,
    stamps: Stamps,
    has_colours: bool,
}

impl<S, N> FormatEvent<S, N> for Form
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        line: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        match self.format {
            Format::Text => self.write_text(line, event),
            Format::Json => self.write_json(line, event),
        }
    }
}

impl Form {
    fn write_text(&self, mut line: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        if self.stamps == Stamps::Wall {
            SystemTime.format_time(&mut line)?;
            line.write_char(' ')?;
        }
        let level = *event.metadata().level();
        let colour = match level {
            tracing::Level::ERROR => 31,
            tracing::Level::WARN => 33,
            tracing::Level::INFO => 32,
            _ => 2,
        };
        if self.has_colours {
            write!(line, "\x1b[{colour}m{level:>5}\x1b[0m")?;
        } else {
            write!(line, "{level:>5}")?;
        }
        write!(line, " {}: ", event.metadata().target())?;
        let mut words = Words::default();
        event.record(&mut words);
        words.message.push_str(&words.fields);
        escape(&mut line, &words.message)?;
        line.write_char('\n')
    }

    fn write_json(&self, mut line: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        line.write_char('{')?;
        if self.stamps == Stamps::Wall {
            line.write_str("\"timestamp\":\"")?;
            SystemTime.format_time(&mut line)?;
            line.write_str("\",")?;
        }
        let about = event.metadata();
        write!(line, "\"level\":\"{}\",\"target\":", about.level())?;
        write_json_text(&mut line, about.target())?;
        let mut members = Members {
            line,
            written: Ok(()),
        };
        event.record(&mut members);
        members.written?;
        members.line.write_str("}\n")
    }
}

/// The fields of an event as members of an object, the message among them.
struct Members<'a> {
    line: Writer<'a>,
    written: fmt::Result,
}

impl Members<'_> {
    fn put(&mut self, field: &Field, value: impl FnOnce(&mut Writer<'_>) -> fmt::Result) {
        if self.written.is_ok() {
            let name = write!(self.line, ",\"{}\":", field.name());
            self.written = name.and_then(|()| value(&mut self.line));
        }
    }
}

impl Visit for Members<'_> {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, |line| write!(line, "{value}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, |line| write!(line, "{value}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, |line| write!(line, "{value}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, |line| write_json_text(line, value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, |line| write_json_text(line, &format!("{value:?}")));
    }
}

fn write_json_text(line: &mut Writer<'_>, text: &str) -> fmt::Result {
    line.write_char('"')?;
    for letter in text.chars() {
        match letter {
            '"' => line.write_str("\\\"")?,
            '\\' => line.write_str("\\\\")?,
            '\n' => line.write_str("\\n")?,
            // Those beyond ASCII are in the first plane, so four digits are enough.
            letter if letter.is_control() => write!(line, "\\u{:04x}", u32::from(letter))?,
            letter => line.write_char(letter)?,
        }
    }
    line.write_char('"')
}

/// The message of an event, and its fields behind it.
#[derive(Default)]
struct Words {
    message: String,
    fields: String,
}

impl Visit for Words {
    fn record_str(&mut self, field: &Field, value: &str) {
        let is_bare = !value.is_empty() && !value.contains([' ', '"', '=']);
        match (field.name() == "message", is_bare) {
            (true, _) => self.message.push_str(value),
            (false, true) => self.record_debug(field, &format_args!("{value}")),
            (false, false) => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String does not fail.
        let _ = if field.name() == "message" {
            write!(self.message, "{value:?}")
        } else {
            write!(self.fields, " {}={value:?}", field.name())
        };
    }
}

fn escape(line: &mut Writer<'_>, text: &str) -> fmt::Result {
    for part in text.split_inclusive(char::is_control) {
        match part.chars().next_back().filter(|last| last.is_control()) {
            Some(last) => {
                line.write_str(&part[..part.len() - last.len_utf8()])?;
                write!(line, "{}", last.escape_default())?;
            }
            None => line.write_str(part)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(line);
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines, without times, that are written while `tell` runs.
    fn written(loggers: &Arc<Loggers>, format: Format, tell: impl FnOnce()) -> String {
        let page = Page::default();
        let writer = page.clone();
        let form = Form {
            format,
            stamps: Stamps::None,
            has_colours: false,
        };
        let layer = lines::layer()
            .event_format(form)
            .with_writer(move || writer.clone())
            .with_filter(Levels(Arc::clone(loggers)));
        tracing::subscriber::with_default(Registry::default().with(layer), tell);
        let bytes = page.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_line_has_level_logger_message_and_fields() {
        let line = written(&Arc::default(), Format::Text, || {
            tracing::warn!(target: super::super::CONNECTIONS, peer = %"10.0.0.7:4000", client = "a b", kept_back = None::<u64>, "closed");
        });
        assert_eq!(
            line,
            " WARN broker.connections: closed peer=10.0.0.7:4000 client=\"a b\"\n"
        );
    }

    #[test]
    fn what_a_peer_sends_stays_on_its_line() {
        let line = written(&Arc::default(), Format::Text, || {
            tracing::info!(target: super::super::REQUESTS, client = "x\n INFO broker: forged", "a\x1b[31mb\r\nc");
        });
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(line.contains("a\\u{1b}[31mb\\r\\nc"), "{line}");
    }

    #[test]
    fn json_has_a_member_for_each_field() {
        let line = written(&Arc::default(), Format::Json, || {
            tracing::error!(target: super::super::REQUESTS, version = 99, served = false, client = "a\"b\\\u{9b}", peer = ?Some(1), "cut\n{}", "off");
        });
        assert_eq!(
            line,
            "{\"level\":\"ERROR\",\"target\":\"broker.requests\",\"message\":\"cut\\noff\",\"version\":99,\"served\":false,\"client\":\"a\\\"b\\\\\\u009b\",\"peer\":\"Some(1)\"}\n"
        );
    }

    #[test]
    fn levels_hold_for_a_logger_and_those_below_it_at_once() {
        let loggers = Arc::new(Loggers::default());
        let tell = || {
            tracing::debug!(target: super::super::REQUESTS, "asked");
            tracing::error!(target: super::super::STORAGE, "broken");
        };
        assert_eq!(
            written(&loggers, Format::Text, tell),
            "ERROR storage: broken\n"
        );
        loggers.apply("broker=debug,storage=off").unwrap();
        assert_eq!(
            written(&loggers, Format::Text, tell),
            "DEBUG broker.requests: asked\n"
        );
    }
}
