//! `esker produce`: lines of files or of standard input become records, byte for byte; or rows of CSV, or lines of JSON.
//!
//! A pipe is written as it comes. While nothing comes, what was read before is sent again until brokers acknowledge it.

mod csv;
mod framing;
mod pipe;
mod row;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use client::{Outages, Producer, ProducerOptions, Record, TopicRef};
use env::Env;
use flate2::read::MultiGzDecoder;
use indicatif::{ProgressBar, ProgressStyle};
use wire::ErrorCode;
use wire::records::Codec;

use crate::arguments::{Global, Pair};
use crate::connect::{connect, connect_for_once, outages};
use crate::failure::Failure;
use crate::table::bytes;
use csv::CsvArgs;
use framing::Framing;
use pipe::Pipe;
use row::{Row, Shape, split};

#[derive(Args, Debug)]
pub(crate) struct ProduceArgs {
    pub(crate) topic: String,
    /// Files to load, one record per line, those that end in .gz unpacked; standard input when there are none
    pub(crate) files: Vec<PathBuf>,
    /// Form of the input: lines, rows of CSV, or objects as `esker consume --json` writes them
    #[arg(
        short,
        long,
        value_enum,
        default_value = "lines",
        value_name = "FORMAT"
    )]
    pub(crate) input: Input,
    /// Text between key and value on a line; a line without it has no key
    #[arg(short = 'k', long, visible_short_alias = 'K', value_name = "TEXT", value_parser = separator)]
    pub(crate) key_separator: Option<Separator>,
    /// Text that ends a record instead of a line feed
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
    /// With --input json: write each record to the partition that it names
    #[arg(long, conflicts_with = "partition")]
    pub(crate) keep_partition: bool,
    #[command(flatten, next_help_heading = "Input of CSV")]
    pub(crate) csv: CsvArgs,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Lines,
    Csv,
    Json,
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

/// A pipe that brings nothing for so long is waited for with everything acknowledged.
const PIPE_IDLE: Duration = Duration::from_millis(20);
/// Bytes of a file that are read at once.
const READ_BYTES: usize = 1 << 20;

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

/// Refuses flags that mean nothing to the form of the input.
fn check_flags(args: &ProduceArgs) -> Result<(), Failure> {
    let csv = &args.csv;
    let has_csv_flags = csv.no_header
        || csv.separator != b','
        || !csv.headers.is_empty()
        || [&csv.key, &csv.value, &csv.time]
            .iter()
            .any(|it| it.is_some());
    let wrong = if args.input != Input::Csv && has_csv_flags {
        "the flags that begin with --csv- need --input csv"
    } else if args.input != Input::Json && args.keep_partition {
        "--keep-partition needs --input json"
    } else if args.input != Input::Lines && args.key_separator.is_some() {
        "--key-separator is for lines; CSV names its key with --csv-key, JSON has a member `key`"
    } else if args.input != Input::Lines && args.delimiter.0 != b"\n" {
        "--delimiter is for lines"
    } else {
        return Ok(());
    };
    Err(Failure::usage(wrong))
}

pub(crate) fn produce(global: &Global, args: &ProduceArgs) -> Result<(), Failure> {
    check_flags(args)?;
    let env = Env::real();
    // Files are opened first: a wrong name should not leave half of the others written.
    let files = args
        .files
        .iter()
        .map(|path| open(path))
        .collect::<Result<Vec<_>, _>>()?;
    // A file can be loaded again; a pipe cannot.
    let outages = if args.files.is_empty() {
        outages(global)
    } else {
        Outages::Bounded
    };
    let client = match outages {
        Outages::Bounded => connect_for_once(&env, global)?,
        Outages::Outlived(_) => connect(&env, global)?,
    };
    let options = ProducerOptions {
        acks: args.acks.into(),
        compression: Codec::from(args.codec).into(),
        idempotent: args.acks == Acks::All,
        outages,
        ..ProducerOptions::default()
    };
    let mut producer = Producer::new(client, options);
    let topic = producer.topic(&args.topic)?;
    let mut sink = Sink {
        producer,
        topic,
        args,
        shape: Shape::of(args),
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
    shape: Shape,
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
            Some(ErrorCode::InvalidTimestamp) => {
                let clock = crate::moment::odd_clock(Env::real().clock.wall_ms().0);
                let failure = Failure::from(error);
                match clock {
                    Some(odd) => failure.hint(odd),
                    None => failure.hint(
                        "the times of the records, or the clock of the broker, are too far from now",
                    ),
                }
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
        let unit = match (self.args.input, &self.args.delimiter.0[..]) {
            (Input::Lines | Input::Json, b"\n") => "line",
            (Input::Csv, _) => "row",
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
            let is_packed = source.name.ends_with(".gz");
            let file = bar.wrap_read(source.file);
            let mut reader: Box<dyn Read> = if is_packed {
                Box::new(MultiGzDecoder::new(file))
            } else {
                Box::new(file)
            };
            let mut chunk = vec![0; READ_BYTES];
            self.load(&source.name, |_, framing| {
                loop {
                    match reader.read(&mut chunk) {
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(unreadable(&source.name, &error)),
                        Ok(len) => {
                            framing.feed(&chunk[..len]);
                            return Ok(len > 0);
                        }
                    }
                }
            })?;
        }
        bar.finish_and_clear();
        Ok(())
    }

    fn load_stdin(&mut self) -> Result<(), Failure> {
        const NAME: &str = "standard input";
        let pipe = Pipe::open(io::stdin());
        self.load(NAME, |sink, framing| {
            let chunk = sink.wait_for(&pipe)?;
            let chunk = chunk.map_err(|error| unreadable(NAME, &error))?;
            framing.feed(chunk.as_deref().unwrap_or_default());
            Ok(chunk.is_some())
        })
    }

    /// The next chunk of a pipe. What was read before is on its way while the pipe is asked, and acknowledged while it is waited
    /// for: its writer may not say anything for days.
    fn wait_for(&mut self, pipe: &Pipe) -> Result<pipe::Chunk, Failure> {
        if let Some(chunk) = pipe.ready() {
            return Ok(chunk);
        }
        self.written(Producer::dispatch)?;
        if let Some(chunk) = pipe.within(PIPE_IDLE) {
            return Ok(chunk);
        }
        self.written(Producer::flush)?;
        let clock = Env::real().clock;
        let began = clock.now();
        let chunk = pipe.wait();
        self.producer.forgive(clock.now().since(began));
        Ok(chunk)
    }

    /// Sends every record of one source. `more` feeds what comes next, and returns false at the end.
    fn load(
        &mut self,
        name: &str,
        mut more: impl FnMut(&mut Self, &mut Framing) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        self.at = At {
            source: name.to_owned(),
            line: 0,
        };
        self.shape.begin();
        let mut framing = match &self.shape {
            Shape::Csv(csv) => Framing::csv(csv.separator()),
            _ => Framing::delimited(&self.args.delimiter.0),
        };
        loop {
            while let Some(record) = framing.next().map_err(|error| unreadable(name, &error))? {
                self.at.line += 1;
                self.send(record)?;
            }
            if !more(self, &mut framing)? {
                break;
            }
        }
        if let Some(record) = framing.rest() {
            self.at.line += 1;
            self.send(record)?;
        }
        Ok(())
    }

    fn send(&mut self, record: &[u8]) -> Result<(), Failure> {
        let row = match &mut self.shape {
            Shape::Lines => return self.send_line(record),
            Shape::Csv(csv) => csv.row(record),
            Shape::Json { keeps_partition } => row::of_json(record, *keeps_partition),
        };
        match row.map_err(Failure::new)? {
            Some(row) => self.send_row(&row, record.len()),
            None => Ok(()),
        }
    }

    fn send_row(&mut self, row: &Row, size: usize) -> Result<(), Failure> {
        let null = |bytes: &&[u8]| !(self.args.null && bytes.is_empty());
        let own = self.args.headers.iter();
        let own = own.map(|pair| (pair.name.as_str(), Some(pair.value.as_bytes())));
        let headers: Vec<(&str, Option<&[u8]>)> = row
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_deref()))
            .chain(own)
            .collect();
        let record = Record {
            key: row.key.as_deref().filter(null),
            value: row.value.as_deref().filter(null),
            headers: &headers,
            timestamp: row.timestamp,
        };
        let (topic, partition) = (self.topic, self.args.partition.or(row.partition));
        self.written(|producer| producer.send(topic, partition, &record))?;
        self.totals.records += 1;
        self.totals.bytes += size as u64;
        Ok(())
    }

    fn send_line(&mut self, line: &[u8]) -> Result<(), Failure> {
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

fn unreadable(name: &str, error: &io::Error) -> Failure {
    Failure::new(format!("cannot read {name}: {error}"))
}
