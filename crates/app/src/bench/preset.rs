//! The presets: which published benchmark each repeats, and with what numbers.
//!
//! Record sizes, partitions, batch sizes and connections are those of the sources; record counts are scaled down so that a case
//! takes seconds on a small machine.

use clap::ValueEnum;

use super::BenchArgs;

/// L: Kreps, "Benchmarking Apache Kafka: 2 Million Writes Per Second" (2014). N: Kreps, Narkhede and Rao, "Kafka: a Distributed
/// Messaging System for Log Processing" (2011). A: the notes of the Akutan project on Kafka as a replicated log (2019).
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preset {
    /// One producer, 100-byte records, 6 partitions
    L11,
    /// Three producers, 100-byte records, 6 partitions
    L14,
    /// One consumer, 100-byte records, 6 partitions
    L17,
    /// Three consumers, each of the whole topic
    L18,
    /// A producer and a consumer together
    L19,
    /// One producer, records of 10 bytes to 1 MiB
    L20,
    /// End-to-end latency, one record at a time
    L21,
    /// One producer, 200-byte messages, batches of 1 and of 50
    N36,
    /// One consumer of 200-byte messages
    N38,
    /// One consumer of one partition of 2 KiB records
    A16,
    /// 128 appenders of 2 KiB over 1 to 128 connections
    A24,
}

/// What is done in one case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    Produce { producers: u32, batch: Batching },
    Consume { consumers: u32 },
    ProduceAndConsume { batch: Batching },
    EndToEnd,
    Append { connections: u32, appenders: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Batching {
    Bytes(usize),
    Records(u64),
}

impl Job {
    /// Whether the case leaves the topic as it found it.
    pub(super) fn reads_only(self) -> bool {
        matches!(self, Job::Consume { .. })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) label: String,
    /// Place on the axis of a chart.
    pub(super) x: f64,
    pub(super) job: Job,
    pub(super) partitions: i32,
    /// Bytes of a value.
    pub(super) size: usize,
    /// Of each producer, or in the topic that is read.
    pub(super) records: u64,
}

/// Batch size of the L presets' source.
const L_BATCH: Batching = Batching::Bytes(8196);
const APPENDERS: u32 = 128;

impl Preset {
    pub(super) fn name(self) -> &'static str {
        match self {
            Preset::L11 => "l11",
            Preset::L14 => "l14",
            Preset::L17 => "l17",
            Preset::L18 => "l18",
            Preset::L19 => "l19",
            Preset::L20 => "l20",
            Preset::L21 => "l21",
            Preset::N36 => "n36",
            Preset::N38 => "n38",
            Preset::A16 => "a16",
            Preset::A24 => "a24",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Preset::L11 => "one producer, 100 B, 6 partitions",
            Preset::L14 => "three producers, 100 B, 6 partitions",
            Preset::L17 => "one consumer, 100 B, 6 partitions",
            Preset::L18 => "three consumers, 100 B, 6 partitions",
            Preset::L19 => "producer and consumer, 100 B, 6 partitions",
            Preset::L20 => "one producer, 10 B to 1 MiB",
            Preset::L21 => "end-to-end latency",
            Preset::N36 => "one producer, 200 B, batches of 1 and 50",
            Preset::N38 => "one consumer, 200 B",
            Preset::A16 => "one consumer, one partition, 2 KiB",
            Preset::A24 => "128 appenders, 2 KiB, 1 to 128 connections",
        }
    }

    /// What the cases vary, where they vary something.
    pub(super) fn axis(self) -> Option<&'static str> {
        match self {
            Preset::L20 => Some("record bytes"),
            Preset::N36 => Some("records per batch"),
            Preset::A24 => Some("connections"),
            _ => None,
        }
    }

    pub(super) fn cases(self, args: &BenchArgs) -> Vec<Case> {
        let case =
            |label: &str, x: f64, job: Job, partitions: i32, size: usize, records: u64| Case {
                label: label.to_owned(),
                x,
                job,
                partitions: args.partitions.unwrap_or(partitions),
                size,
                records: args.records.unwrap_or(records),
            };
        let produce = |producers| Job::Produce {
            producers,
            batch: L_BATCH,
        };
        match self {
            Preset::L11 => vec![case("1 producer", 1.0, produce(1), 6, 100, 5_000_000)],
            Preset::L14 => vec![case("3 producers", 3.0, produce(3), 6, 100, 2_000_000)],
            Preset::L17 => vec![case(
                "1 consumer",
                1.0,
                Job::Consume { consumers: 1 },
                6,
                100,
                5_000_000,
            )],
            Preset::L18 => vec![case(
                "3 consumers",
                3.0,
                Job::Consume { consumers: 3 },
                6,
                100,
                5_000_000,
            )],
            Preset::L19 => vec![case(
                "together",
                1.0,
                Job::ProduceAndConsume { batch: L_BATCH },
                6,
                100,
                5_000_000,
            )],
            Preset::L20 => [10usize, 100, 1000, 10_000, 100_000, 1 << 20]
                .into_iter()
                .map(|size| {
                    let records = (256 << 20) / (size as u64 + 100);
                    case(
                        &format!("{size} B"),
                        size as f64,
                        produce(1),
                        6,
                        size,
                        records,
                    )
                })
                .collect(),
            Preset::L21 => vec![case("one at a time", 1.0, Job::EndToEnd, 1, 100, 5000)],
            Preset::N36 => [(1u64, 200_000), (50, 2_000_000)]
                .into_iter()
                .map(|(batch, records)| {
                    let job = Job::Produce {
                        producers: 1,
                        batch: Batching::Records(batch),
                    };
                    case(
                        &format!("batches of {batch}"),
                        batch as f64,
                        job,
                        1,
                        200,
                        records,
                    )
                })
                .collect(),
            Preset::N38 => vec![case(
                "1 consumer",
                1.0,
                Job::Consume { consumers: 1 },
                1,
                200,
                2_000_000,
            )],
            Preset::A16 => vec![case(
                "1 consumer",
                1.0,
                Job::Consume { consumers: 1 },
                1,
                2048,
                250_000,
            )],
            Preset::A24 => connections(args)
                .into_iter()
                .map(|count| {
                    let job = Job::Append {
                        connections: count,
                        appenders: APPENDERS.max(count),
                    };
                    case(
                        &format!("{count} connections"),
                        f64::from(count),
                        job,
                        1,
                        2048,
                        0,
                    )
                })
                .collect(),
        }
    }
}

fn connections(args: &BenchArgs) -> Vec<u32> {
    if args.connections.is_empty() {
        vec![1, 2, 4, 8, 16, 32, 64, 128]
    } else {
        args.connections.clone()
    }
}
