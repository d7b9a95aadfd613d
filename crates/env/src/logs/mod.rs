//! Loggers: the names that lines are written under, and the level of each.
//!
//! Owns the one table of names; a line names its logger by a constant of this file. A logger without a level of its own has that of
//! the next name above (`broker.requests`, `broker`, `root`), as in Kafka's log4j. Levels change while the broker runs and are not
//! kept. [`subscribe`] writes the lines of a process; without it, as in most tests, nothing is written.

mod lines;

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU8, Ordering};

pub use lines::{Format, Stamps, subscribe};

/// Kafka's name of the logger above all others.
pub const ROOT: &str = "root";
/// Start, stop, health, settings.
pub const BROKER: &str = "broker";
/// Connections that come, go, or are cut off.
pub const CONNECTIONS: &str = "broker.connections";
/// Requests that cannot be read or answered.
pub const REQUESTS: &str = "broker.requests";
/// Groups and transactions.
pub const COORDINATORS: &str = "broker.coordinators";
/// The metadata log and what it publishes.
pub const METADATA: &str = "broker.metadata";
/// Partitions that this broker follows at others.
pub const REPLICATION: &str = "broker.replication";
/// Partitions on their way from one log directory to another.
pub const MOVES: &str = "broker.moves";
/// The HTTP port with metrics and health.
pub const HTTP: &str = "broker.http";
/// Log directories.
pub const STORAGE: &str = "storage";
/// What a start finds in a log directory.
pub const RECOVERY: &str = "storage.recovery";
/// Segment files and their indexes.
pub const SEGMENTS: &str = "storage.segments";
/// Compaction.
pub const COMPACTION: &str = "storage.compaction";

const NAMES: [&str; 13] = [
    ROOT,
    BROKER,
    CONNECTIONS,
    REQUESTS,
    COORDINATORS,
    METADATA,
    REPLICATION,
    MOVES,
    HTTP,
    STORAGE,
    RECOVERY,
    SEGMENTS,
    COMPACTION,
];

/// The least weight that a logger writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Trace = 1,
    Debug = 2,
    Info = 3,
    Warn = 4,
    Error = 5,
    /// No line has this weight: the logger is silent.
    Fatal = 6,
}

impl Level {
    /// Every level, in the order in which Kafka lists them.
    pub const ALL: [Level; 6] = [
        Level::Debug,
        Level::Error,
        Level::Fatal,
        Level::Info,
        Level::Trace,
        Level::Warn,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Level::Trace => "TRACE",
            Level::Debug => "DEBUG",
            Level::Info => "INFO",
            Level::Warn => "WARN",
            Level::Error => "ERROR",
            Level::Fatal => "FATAL",
        }
    }

    fn from_number(number: u8) -> Option<Level> {
        Level::ALL.into_iter().find(|level| *level as u8 == number)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Level {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Level, SpecError> {
        let is_named = |level: &Level| level.name().eq_ignore_ascii_case(text);
        // Silence has two names: Kafka's and that of other programs.
        if text.eq_ignore_ascii_case("off") {
            return Ok(Level::Fatal);
        }
        let found = Level::ALL.into_iter().find(is_named);
        found.ok_or_else(|| SpecError::NoLevel(text.to_owned()))
    }
}

/// The reason why levels cannot be set as a text says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecError {
    NoLevel(String),
    NoLogger(String),
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpecError::NoLevel(text) => write!(
                f,
                "{text} is no level: they are trace, debug, info, warn, error and off"
            ),
            SpecError::NoLogger(text) => {
                write!(f, "{text} is no logger: they are {}", NAMES.join(", "))
            }
        }
    }
}

impl std::error::Error for SpecError {}

/// The levels of one process, or of one simulated machine. Zero is a logger without a level of its own.
#[derive(Debug)]
pub struct Loggers([AtomicU8; NAMES.len()]);

impl Default for Loggers {
    /// Everything from INFO up.
    fn default() -> Loggers {
        let loggers = Loggers(std::array::from_fn(|_| AtomicU8::new(0)));
        loggers.0[0].store(Level::Info as u8, Ordering::Relaxed);
        loggers
    }
}

impl Loggers {
    /// Every logger with the level it has, its own or that of a name above.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, Level)> + '_ {
        let names = NAMES.iter().enumerate();
        names.map(|(at, name)| (*name, self.effective(at)))
    }

    #[must_use]
    pub fn knows(&self, name: &str) -> bool {
        position(name).is_some()
    }

    /// The level of the lines under `name`. What libraries write is below the root.
    #[must_use]
    pub fn level_of(&self, name: &str) -> Level {
        self.effective(position(name).unwrap_or(0))
    }

    /// Gives a logger a level of its own; `None` takes it away.
    pub fn set(&self, name: &str, level: Option<Level>) -> Result<(), SpecError> {
        let at = position(name).ok_or_else(|| SpecError::NoLogger(name.to_owned()))?;
        let number = level.map_or(0, |level| level as u8);
        self.0[at].store(number, Ordering::Relaxed);
        lines::on_levels_changed();
        Ok(())
    }

    /// Sets what a text such as `info,broker=debug` says. Nothing is set when a part of it cannot be.
    pub fn apply(&self, text: &str) -> Result<(), SpecError> {
        let parts = text.split(',').map(str::trim);
        let mut wanted = Vec::new();
        for part in parts.filter(|part| !part.is_empty()) {
            let (name, level) = part.split_once('=').unwrap_or((ROOT, part));
            let name = name.trim();
            if !self.knows(name) {
                return Err(SpecError::NoLogger(name.to_owned()));
            }
            wanted.push((name, level.trim().parse()?));
        }
        (wanted.into_iter()).try_for_each(|(name, level)| self.set(name, Some(level)))
    }

    fn effective(&self, at: usize) -> Level {
        let own = |at: usize| Level::from_number(self.0[at].load(Ordering::Relaxed));
        let mut name = NAMES[at];
        let mut at = at;
        loop {
            if let Some(level) = own(at) {
                return level;
            }
            if at == 0 {
                // The root keeps a level whatever is asked, so that no line is left without one.
                return Level::Info;
            }
            name = name.rsplit_once('.').map_or(ROOT, |(above, _)| above);
            at = position(name).unwrap_or(0);
        }
    }
}

fn position(name: &str) -> Option<usize> {
    NAMES.iter().position(|known| *known == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logger_without_a_level_has_that_of_the_name_above() {
        let loggers = Loggers::default();
        assert_eq!(loggers.level_of(REQUESTS), Level::Info);
        loggers.set(BROKER, Some(Level::Debug)).unwrap();
        assert_eq!(loggers.level_of(REQUESTS), Level::Debug);
        assert_eq!(loggers.level_of(STORAGE), Level::Info);
        loggers.set(REQUESTS, Some(Level::Fatal)).unwrap();
        assert_eq!(loggers.level_of(REQUESTS), Level::Fatal);
        loggers.set(REQUESTS, None).unwrap();
        assert_eq!(loggers.level_of(REQUESTS), Level::Debug);
        assert_eq!(loggers.level_of("hyper::proto"), Level::Info, "a library");
        assert_eq!(loggers.all().count(), NAMES.len());
    }

    #[test]
    fn a_text_sets_all_it_names_or_nothing() {
        let loggers = Loggers::default();
        loggers.apply("warn, broker=debug,storage = off").unwrap();
        let level = |name| loggers.level_of(name);
        assert_eq!(
            [level(ROOT), level(BROKER), level(COMPACTION)],
            [Level::Warn, Level::Debug, Level::Fatal]
        );
        for (text, error) in [
            ("loud", SpecError::NoLevel("loud".into())),
            ("trace,brokr=debug", SpecError::NoLogger("brokr".into())),
        ] {
            assert_eq!(loggers.apply(text), Err(error));
        }
        assert_eq!(level(ROOT), Level::Warn);
        assert_eq!(loggers.apply(""), Ok(()));
    }
}
