//! The cases of each preset: what is done, how often, with what numbers.
//!
//! Record sizes, partitions, batch sizes, copies and connections are those of the sources; record counts are scaled down so that a
//! case takes seconds on a small machine. What the command line says replaces them.

use std::time::Duration;

use super::arguments::BenchArgs;
use super::preset::Preset;
use crate::produce::Acks;

/// The work of one case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    Produce {
        producers: u32,
        batch: Batching,
        watch: Watch,
    },
    /// `fetch_bytes`: upper bound of one answer; the client's own when `None`.
    Consume {
        consumers: u32,
        fetch_bytes: Option<usize>,
    },
    ProduceAndConsume {
        batch: Batching,
    },
    EndToEnd,
    Append {
        connections: u32,
        appenders: u32,
    },
    /// Once through the partition; an answer is decoded before the next is asked for.
    FetchInTurn,
    /// Answers of so many bytes, again and again, not decoded.
    Fetch {
        bytes: usize,
    },
    /// The segments as plain files, in reads of so many bytes.
    ReadFiles {
        piece: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Batching {
    Bytes(usize),
    Records(u64),
}

/// Measured while a producer writes, besides its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    Rate,
    /// The rate as the topic grows.
    Stored,
    /// The rate as time passes; the case ends by time.
    Seconds,
    /// Bytes in the log and on the wire.
    Overhead,
}

impl Job {
    /// True if the case leaves the topic as it found it.
    pub(super) fn reads_only(self) -> bool {
        match self {
            Job::Consume { .. } | Job::FetchInTurn | Job::Fetch { .. } | Job::ReadFiles { .. } => {
                true
            }
            Job::Produce { .. }
            | Job::ProduceAndConsume { .. }
            | Job::EndToEnd
            | Job::Append { .. } => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) label: String,
    /// Cases of one curve are joined in a chart.
    pub(super) curve: String,
    /// Place on the axis of a chart.
    pub(super) x: f64,
    pub(super) job: Job,
    pub(super) partitions: i32,
    pub(super) replication_factor: i16,
    pub(super) acks: Acks,
    /// Bytes of a value.
    pub(super) size: usize,
    /// Of each producer, or in the topic that is read.
    pub(super) records: u64,
    /// Measured time of a case that ends by time.
    pub(super) time: Duration,
    /// Read from memory, also where others are read from disk.
    pub(super) is_cached: bool,
}

/// Batch size of the L presets' source.
const L_BATCH: Batching = Batching::Bytes(8196);
const APPENDERS: u32 = 128;
const TIME: Duration = Duration::from_secs(5);
/// Enough seconds to tell what they have in common.
const TIME_OF_SECONDS: Duration = Duration::from_secs(30);
/// Readahead sizes of the source.
const READS: [usize; 7] = [
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    2 << 20,
    4 << 20,
    8 << 20,
];
/// Reads of `cat`.
const CAT_BYTES: usize = 128 << 10;

/// A preset's cases, for each number of partitions that was asked for.
pub(super) fn cases(preset: Preset, args: &BenchArgs) -> Vec<Case> {
    let mut cases = of(preset, args);
    let sweep = &args.partitions;
    if sweep.is_empty() {
        return cases;
    }
    let is_axis = sweep.len() > 1 && preset.axis().is_none();
    let with = |count: i32| {
        cases.iter().map(move |case| {
            let mut case = Case {
                partitions: count,
                ..case.clone()
            };
            if sweep.len() > 1 {
                case.label = format!("{}, {count} partitions", case.label);
                // Where the partitions are the axis, each case has its curve; else each number of them.
                let parts = if is_axis {
                    case.x = f64::from(count);
                    String::new()
                } else {
                    format!("{count} partitions")
                };
                case.curve = joined(&case.curve, &parts);
            }
            case
        })
    };
    cases = sweep.iter().flat_map(|count| with(*count)).collect();
    cases
}

fn joined(curve: &str, more: &str) -> String {
    let words = [curve, more];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    words.join(", ")
}

fn of(preset: Preset, args: &BenchArgs) -> Vec<Case> {
    let base = |label: &str, job: Job, partitions: i32, size: usize, records: u64| Case {
        label: label.to_owned(),
        curve: String::new(),
        x: 1.0,
        job,
        partitions,
        replication_factor: args.replication_factor.unwrap_or(1),
        acks: args.acks.unwrap_or(Acks::All),
        size,
        records: args.records.unwrap_or(records),
        time: args.seconds.unwrap_or(TIME),
        is_cached: false,
    };
    let produce = |label: &str, producers: u32, records: u64| {
        let job = producing(producers, L_BATCH, Watch::Rate);
        base(label, job, 6, 100, records)
    };
    let three_copies = |acks: Acks| {
        let label = if acks == Acks::One {
            "asynchronous"
        } else {
            "synchronous"
        };
        Case {
            replication_factor: args.replication_factor.unwrap_or(3),
            acks: args.acks.unwrap_or(acks),
            ..produce(label, 1, 5_000_000)
        }
    };
    let read = |label: &str, job: Job| base(label, job, 1, 2048, 250_000);
    let read_files = |piece: usize| Case {
        curve: "files".to_owned(),
        ..read(
            &format!("files, by {}", kib(piece)),
            Job::ReadFiles { piece },
        )
    };
    let one_consumer = consuming(1);
    match preset {
        Preset::L11 => vec![produce("1 producer", 1, 5_000_000)],
        Preset::L12 => vec![three_copies(Acks::One)],
        Preset::L13 if args.acks.is_some() => vec![three_copies(Acks::All)],
        Preset::L13 => vec![three_copies(Acks::One), three_copies(Acks::All)],
        Preset::L14 => vec![produce("3 producers", 3, 2_000_000)],
        Preset::L15 => vec![Case {
            job: producing(1, L_BATCH, Watch::Stored),
            ..produce("1 producer", 1, 20_000_000)
        }],
        Preset::L16 => vec![Case {
            job: producing(1, L_BATCH, Watch::Seconds),
            time: args.seconds.unwrap_or(TIME_OF_SECONDS),
            ..produce("1 producer", 1, u64::MAX)
        }],
        Preset::L17 => vec![base("1 consumer", one_consumer, 6, 100, 5_000_000)],
        Preset::L18 => vec![base("3 consumers", consuming(3), 6, 100, 5_000_000)],
        Preset::L19 => {
            let job = Job::ProduceAndConsume { batch: L_BATCH };
            vec![base("together", job, 6, 100, 5_000_000)]
        }
        Preset::L20 => [10usize, 100, 1000, 10_000, 100_000, 1 << 20]
            .into_iter()
            .map(|size| Case {
                x: size as f64,
                size,
                ..produce(&format!("{size} B"), 1, (256 << 20) / (size as u64 + 100))
            })
            .collect(),
        Preset::L21 => vec![base("one at a time", Job::EndToEnd, 1, 100, 5000)],
        Preset::L22 => {
            let by_bytes = Case {
                // As many as fit the source's batch.
                x: 80.0,
                job: producing(1, L_BATCH, Watch::Overhead),
                ..produce("batches of 8 KB", 1, 1_000_000)
            };
            let [one, _] = batches(&base, Watch::Overhead, 100);
            vec![one, by_bytes]
        }
        Preset::N36 => batches(&base, Watch::Rate, 200).into(),
        Preset::N37 => batches(&base, Watch::Overhead, 200).into(),
        Preset::N38 => vec![base("1 consumer", one_consumer, 1, 200, 2_000_000)],
        Preset::A15 => {
            let consumer = READS.into_iter().map(|bytes| Case {
                x: bytes as f64,
                curve: "consumer".to_owned(),
                ..read(
                    &format!("consumer, by {}", kib(bytes)),
                    Job::Consume {
                        consumers: 1,
                        fetch_bytes: Some(bytes),
                    },
                )
            });
            let files = READS.into_iter().map(|piece| Case {
                x: piece as f64,
                ..read_files(piece)
            });
            let files = files.filter(|_| args.cold.is_some());
            consumer.chain(files).collect()
        }
        Preset::A16 => {
            let files = args.cold.iter().map(|_| read_files(CAT_BYTES));
            [read("1 consumer", one_consumer)]
                .into_iter()
                .chain(files)
                .collect()
        }
        Preset::A17 => {
            let cached = Case {
                is_cached: true,
                ..read("cached", one_consumer)
            };
            let uncached = args.cold.iter().map(|_| read("uncached", one_consumer));
            [cached].into_iter().chain(uncached).collect()
        }
        Preset::A18 => vec![
            read("in turn", Job::FetchInTurn),
            read("next one under way", one_consumer),
        ],
        Preset::A22 => vec![Case {
            is_cached: true,
            ..base("8 MiB", Job::Fetch { bytes: 8 << 20 }, 1, 2048, 16_384)
        }],
        Preset::A19 | Preset::A20 | Preset::A21 | Preset::A23 => Vec::new(),
        Preset::A24 => connections(args)
            .into_iter()
            .map(|count| {
                let job = Job::Append {
                    connections: count,
                    appenders: APPENDERS.max(count),
                };
                Case {
                    x: f64::from(count),
                    ..base(&format!("{count} connections"), job, 1, 2048, 0)
                }
            })
            .collect(),
    }
}

fn producing(producers: u32, batch: Batching, watch: Watch) -> Job {
    Job::Produce {
        producers,
        batch,
        watch,
    }
}

fn consuming(consumers: u32) -> Job {
    Job::Consume {
        consumers,
        fetch_bytes: None,
    }
}

/// The N presets' batches, of one message and of fifty.
fn batches(
    base: &impl Fn(&str, Job, i32, usize, u64) -> Case,
    watch: Watch,
    size: usize,
) -> [Case; 2] {
    [(1, 200_000), (50, 2_000_000)].map(|(batch, records)| {
        let job = producing(1, Batching::Records(batch), watch);
        Case {
            x: batch as f64,
            ..base(&format!("batches of {batch}"), job, 1, size, records)
        }
    })
}

fn kib(bytes: usize) -> String {
    format!("{} KiB", bytes >> 10)
}

fn connections(args: &BenchArgs) -> Vec<u32> {
    if args.connections.is_empty() {
        vec![1, 2, 4, 8, 16, 32, 64, 128]
    } else {
        args.connections.clone()
    }
}
