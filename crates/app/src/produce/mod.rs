//! `esker produce`: lines of files or of standard input become records, byte for byte.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use client::{Producer, ProducerOptions, Record, TopicRef};
use env::Env;
use indicatif::{ProgressBar, ProgressStyle};
use wire::ErrorCode;
use wire::records::Codec;

use crate::arguments::{Global, Pair};
use crate::connect::connect;
use crate::failure::Failure;
use crate::table::bytes;

#[derive(Args, Debug)]
pub(crate) struct ProduceArgs {
    pub(crate) topic: String,
    /// Files to load, one record per line; standard input when there are none
    pub(crate) files: Vec<PathBuf>,
    /// What stands between key and value on a line; a line without it has no key
    #[arg(short = 'k', long, visible_short_alias = 'K', value_name = "TEXT", value_parser = separator)]
    pub(crate) key_separator: Option<Separator>,
    /// What ends a record instead of a line feed
    #[arg(short = 'D', long, value_name = "TEXT", default_value = "\\n", value_parser = separator)]
    pub(crate) delimiter: Separator,
    /// A header that every record gets; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME=VALUE")]
    pub(crate) headers: Vec<Pair>,
    /// Send an empty value as null (a tombstone), and an empty key as no key
    #[arg(short = 'Z', long)]
    pub(crate) null: bool,
    /// Write to this partition instead of choosing by key
    #[arg(short, long, value_name = "NUMBER", allow_negative_numbers = true, value_parser = crate::arguments::partition)]
    pub(crate) partition: Option<i32>,
    /// Compress batches
    #[arg(
        short = 'z',
        long,
        visible_alias = "compression-codec",
        value_enum,
        default_value = "none"
    )]
    pub(crate) codec: CodecName,
    /// When a record counts as written: `all` synced replicas, the leader alone (`1`), or when it was sent (`0`)
    #[arg(long, value_enum, default_value = "all")]
    pub(crate) acks: Acks,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Separator(pub(crate) Vec<u8>);

/// Text with the escapes of a format string; `\t` is what most people want and cannot easily type.
fn separator(text: &str) -> Result<Separator, String> {
    let bytes = crate::template::unescape(text)?;
    if bytes.is_empty() {
        Err("it must not be empty".to_owned())
    } else {
        Ok(Separator(bytes))
    }
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodecName {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acks {
    #[value(alias = "-1")]
    All,
    #[value(name = "1")]
    One,
    #[value(name = "0")]
    Zero,
}

/// Longest record that is read; brokers accept far less unless they are told to.
const RECORD_BYTES_MAX: u64 = 256 << 20;

impl From<CodecName> for Codec {
    fn from(name: CodecName) -> Codec {
        match name {
            CodecName::None => Codec::None,
            CodecName::Gzip => Codec::Gzip,
            CodecName::Snappy => Codec::Snappy,
            CodecName::Lz4 => Codec::Lz4,
            CodecName::Zstd => Codec::Zstd,
        }
    }
}

impl From<Acks> for client::Acks {
    fn from(acks: Acks) -> client::Acks {
        match acks {
            Acks::All => client::Acks::All,
            Acks::One => client::Acks::Leader,
            Acks::Zero => client::Acks::None,
        }
    }
}

pub(crate) fn produce(global: &Global, args: &ProduceArgs) -> Result<(), Failure> {
    let env = Env::real();
    // Files are opened first: a wrong name should not leave half of the others written.
    let files = args
        .files
        .iter()
        .map(|path| open(path))
        .collect::<Result<Vec<_>, _>>()?;
    let client = connect(&env, global)?;
    let options = ProducerOptions {
        acks: args.acks.into(),
        compression: Codec::from(args.codec).into(),
        idempotent: args.acks == Acks::All,
        ..ProducerOptions::default()
    };
    let mut producer = Producer::new(client, options);
    let topic = producer.topic(&args.topic)?;
    let mut sink = Sink {
        producer,
        topic,
        args,
        totals: Totals::default(),
        at: At::default(),
    };
    let began = env.clock.now();
    let loaded = if files.is_empty() {
        sink.load_stdin()
    } else {
        sink.load_files(files)
    };
    let written = loaded.and_then(|()| sink.written(Producer::flush));
    if let Err(failure) = written {
        return Err(sink.stopped(failure, global.json));
    }
    let seconds = env.clock.now().since(began).as_secs_f64();
    sink.totals
        .report(seconds, global.json, !args.files.is_empty())
}

struct Source {
    name: String,
    file: File,
    len: u64,
}

// The user's own files, not the broker's: pipes and devices are welcome, so they are opened as any program would.
#[allow(clippy::disallowed_methods)]
fn open(path: &Path) -> Result<Source, Failure> {
    let unreadable =
        |error: io::Error| Failure::new(format!("cannot read {}: {error}", path.display()));
    let file = File::open(path).map_err(unreadable)?;
    let about = file.metadata().map_err(unreadable)?;
    if about.is_dir() {
        return Err(Failure::new(format!("{} is a directory", path.display())));
    }
    Ok(Source {
        name: path.display().to_string(),
        file,
        len: about.len(),
    })
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    records: u64,
    bytes: u64,
}

impl Totals {
    fn report(self, seconds: f64, json: bool, words: bool) -> Result<(), Failure> {
        let rate = |count: u64| count as f64 / seconds.max(1e-9);
        if json {
            let value = serde_json::json!({"records": self.records, "bytes": self.bytes, "seconds": seconds});
            crate::table::print_json(&mut io::stdout().lock(), &value)?;
        } else if words {
            let per_second = bytes(rate(self.bytes) as u64);
            env::tell!(
                "{} records, {} in {seconds:.2} s ({:.0} records/s, {per_second}/s)",
                self.records,
                bytes(self.bytes),
                rate(self.records)
            );
        }
        Ok(())
    }
}

/// The record that was read last.
#[derive(Default)]
struct At {
    source: String,
    /// From 1; 0 before the first.
    line: u64,
}

struct Sink<'a> {
    producer: Producer,
    topic: TopicRef,
    args: &'a ProduceArgs,
    totals: Totals,
    at: At,
}

impl Sink<'_> {
    /// Asks the producer for something; what the topic refuses comes with the topic's name.
    fn written(
        &mut self,
        ask: impl FnOnce(&mut Producer) -> Result<(), client::Error>,
    ) -> Result<(), Failure> {
        ask(&mut self.producer).map_err(|error| match error.code() {
            Some(ErrorCode::MessageTooLarge) => {
                let topic = &self.args.topic;
                Failure::from(error).hint(format!(
                    "allow more with `esker topic alter {topic} --set max.message.bytes=N`"
                ))
            }
            _ => error.into(),
        })
    }

    /// Says what was written before the failure: a later attempt has to know where to go on.
    fn stopped(&self, failure: Failure, json: bool) -> Failure {
        let (count, at) = (self.producer.records_acknowledged(), &self.at);
        if json {
            let value = serde_json::json!({
                "records": count, "error": failure.to_string(), "file": at.source, "line": at.line,
            });
            if let Err(error) = crate::table::print_json(&mut io::stdout().lock(), &value) {
                return error.into();
            }
        }
        let done = match self.args.acks {
            Acks::Zero => "sent",
            Acks::All | Acks::One => "acknowledged",
        };
        let unit = match self.args.delimiter.0[..] {
            [b'\n'] => "line",
            _ => "record",
        };
        let (line, source) = (at.line, &at.source);
        failure.after(format!(
            "{count} records {done}, stopped at {unit} {line} of {source}"
        ))
    }

    fn load_files(&mut self, sources: Vec<Source>) -> Result<(), Failure> {
        let total: u64 = sources.iter().map(|source| source.len).sum();
        // Draws nothing when standard error is not a terminal.
        let bar = ProgressBar::new(total);
        let style =
            ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
        bar.set_style(style.expect("the template is a constant"));
        for source in sources {
            let mut reader = BufReader::with_capacity(1 << 20, source.file);
            let mut shown = 0;
            self.load(&mut reader, &source.name, |sink, _| {
                if sink.totals.bytes - shown >= 1 << 18 {
                    shown = sink.totals.bytes;
                    bar.set_position(shown);
                }
                Ok(())
            })?;
        }
        bar.finish_and_clear();
        Ok(())
    }

    fn load_stdin(&mut self) -> Result<(), Failure> {
        let stdin = io::stdin();
        let typed = stdin.is_terminal();
        let mut reader = BufReader::with_capacity(1 << 20, stdin);
        self.load(&mut reader, "standard input", |sink, is_empty| {
            // The next read may wait for ever: what we have goes out first. A person at a keyboard wants to hear of errors at once.
            match (is_empty, typed) {
                (true, true) => sink.written(Producer::flush),
                (true, false) => sink.written(Producer::dispatch),
                (false, _) => Ok(()),
            }
        })
    }

    /// Sends every record of `reader`; calls `after` behind each, with whether more has to be read first.
    fn load<R: Read>(
        &mut self,
        reader: &mut BufReader<R>,
        name: &str,
        mut after: impl FnMut(&mut Self, bool) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut record = Vec::new();
        self.at = At {
            source: name.to_owned(),
            line: 0,
        };
        loop {
            record.clear();
            let read = read_record(reader, &self.args.delimiter.0, &mut record);
            let more =
                read.map_err(|error| Failure::new(format!("cannot read {name}: {error}")))?;
            if !more {
                return Ok(());
            }
            self.at.line += 1;
            self.send(&record)?;
            let is_empty = reader.buffer().is_empty();
            after(self, is_empty)?;
        }
    }

    fn send(&mut self, line: &[u8]) -> Result<(), Failure> {
        let (key, value) = split(line, self.args.key_separator.as_ref());
        let null = |bytes: &&[u8]| !(self.args.null && bytes.is_empty());
        let headers: Vec<(&str, Option<&[u8]>)> = self
            .args
            .headers
            .iter()
            .map(|pair| (pair.name.as_str(), Some(pair.value.as_bytes())))
            .collect();
        let record = Record {
            key: key.filter(null),
            value: Some(value).filter(null),
            headers: &headers,
            timestamp: None,
        };
        let (topic, partition) = (self.topic, self.args.partition);
        self.written(|producer| producer.send(topic, partition, &record))?;
        self.totals.records += 1;
        self.totals.bytes += line.len() as u64;
        Ok(())
    }
}

/// Key and value of a line; all of it is the value where the separator is missing.
fn split<'a>(line: &'a [u8], separator: Option<&Separator>) -> (Option<&'a [u8]>, &'a [u8]) {
    let Some(Separator(separator)) = separator else {
        return (None, line);
    };
    match line
        .windows(separator.len())
        .position(|window| window == separator)
    {
        Some(at) => (Some(&line[..at]), &line[at + separator.len()..]),
        None => (None, line),
    }
}

/// Appends the next record without its delimiter; `false` at the end. The last record needs no delimiter.
fn read_record(
    reader: &mut impl BufRead,
    delimiter: &[u8],
    record: &mut Vec<u8>,
) -> io::Result<bool> {
    let last = *delimiter.last().expect("a delimiter is not empty");
    loop {
        let room = RECORD_BYTES_MAX - record.len() as u64;
        let n = reader.by_ref().take(room).read_until(last, record)?;
        if n == 0 && room > 0 {
            return Ok(!record.is_empty());
        }
        if record.ends_with(delimiter) {
            record.truncate(record.len() - delimiter.len());
            return Ok(true);
        }
        if record.len() as u64 >= RECORD_BYTES_MAX {
            return Err(io::Error::other(format!(
                "a record is longer than {}",
                bytes(RECORD_BYTES_MAX)
            )));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(text: &[u8], delimiter: &str) -> Vec<Vec<u8>> {
        let delimiter = separator(delimiter).unwrap().0;
        // A tiny buffer, so that delimiters fall across reads.
        let mut reader = BufReader::with_capacity(3, text);
        let (mut all, mut record) = (Vec::new(), Vec::new());
        while read_record(&mut reader, &delimiter, &mut record).unwrap() {
            all.push(std::mem::take(&mut record));
        }
        all
    }

    #[test]
    fn lines_keep_every_byte_but_the_delimiter() {
        assert_eq!(
            records(b"a\r\n\n \xff\0b\nlast", "\\n"),
            [&b"a\r"[..], b"", b" \xff\0b", b"last"]
        );
        assert_eq!(records(b"", "\\n"), Vec::<Vec<u8>>::new());
        assert_eq!(records(b"a\n", "\\n"), [b"a"]);
        assert_eq!(records(b"a--b-c--", "--"), [&b"a"[..], b"b-c"]);
        assert_eq!(records(b"a\0b", "\\0"), [b"a", b"b"]);
    }

    #[test]
    fn the_key_ends_at_the_first_separator() {
        let tab = separator("\\t").unwrap();
        assert_eq!(
            split(b"k\tv\tw", Some(&tab)),
            (Some(&b"k"[..]), &b"v\tw"[..])
        );
        assert_eq!(split(b"no key", Some(&tab)), (None, &b"no key"[..]));
        assert_eq!(split(b"\tv", Some(&tab)), (Some(&b""[..]), &b"v"[..]));
        assert_eq!(split(b"a:b", None), (None, &b"a:b"[..]));
    }
}
