//! The presets: which published benchmark each repeats.
//!
//! Owns names, sources and titles; the numbers of their cases are in [`super::case`]. Refuses to run what our protocol has no words
//! for: such a preset says what it needs.

use clap::ValueEnum;

/// L: Kreps, "Benchmarking Apache Kafka: 2 Million Writes Per Second" (2014). N: Kreps, Narkhede and Rao, "Kafka: a Distributed
/// Messaging System for Log Processing" (2011). A: the notes of the Akutan project on Kafka as a replicated log (2018).
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preset {
    /// One producer, 100-byte records, 6 partitions
    L11,
    /// The same with three copies, acknowledged by the leader alone
    L12,
    /// The same with three copies, acknowledged by the leader alone and by all
    L13,
    /// Three producers, 100-byte records, 6 partitions
    L14,
    /// One producer: the rate over what is stored already
    L15,
    /// One producer: the rate of every second, and how far it strays
    L16,
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
    /// Bytes beside the value of a 100-byte record, in the log and on the wire
    L22,
    /// One producer, 200-byte messages, batches of 1 and of 50
    N36,
    /// Bytes beside the value of a 200-byte message, in batches of 1 and of 50
    N37,
    /// One consumer of 200-byte messages
    N38,
    /// One consumer reading by 128 KiB to 8 MiB; with --cold also the plain files
    A15,
    /// One consumer of one partition of 2 KiB records; with --cold also the plain files
    A16,
    /// The same from memory, and with --cold from disk
    A17,
    /// Fetches one after the other, and with the next one under way
    A18,
    /// Needs a native API: a client that decodes while the answer arrives
    A19,
    /// Needs a native API: an answer that has its number of records first
    A20,
    /// Needs a native API: a fetch bounded by records
    A21,
    /// Time of one fetch of 8 MiB
    A22,
    /// Needs a native API: a stream with flow control
    A23,
    /// 128 appenders of 2 KiB over 1 to 128 connections
    A24,
}

impl Preset {
    pub(super) fn name(self) -> &'static str {
        match self {
            Preset::L11 => "l11",
            Preset::L12 => "l12",
            Preset::L13 => "l13",
            Preset::L14 => "l14",
            Preset::L15 => "l15",
            Preset::L16 => "l16",
            Preset::L17 => "l17",
            Preset::L18 => "l18",
            Preset::L19 => "l19",
            Preset::L20 => "l20",
            Preset::L21 => "l21",
            Preset::L22 => "l22",
            Preset::N36 => "n36",
            Preset::N37 => "n37",
            Preset::N38 => "n38",
            Preset::A15 => "a15",
            Preset::A16 => "a16",
            Preset::A17 => "a17",
            Preset::A18 => "a18",
            Preset::A19 => "a19",
            Preset::A20 => "a20",
            Preset::A21 => "a21",
            Preset::A22 => "a22",
            Preset::A23 => "a23",
            Preset::A24 => "a24",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Preset::L11 => "one producer, 100 B, 6 partitions",
            Preset::L12 => "one producer, 100 B, 6 partitions, 3 copies, acks=1",
            Preset::L13 => "one producer, 100 B, 6 partitions, 3 copies, acks=1 and all",
            Preset::L14 => "three producers, 100 B, 6 partitions",
            Preset::L15 => "one producer, 100 B: rate over stored data",
            Preset::L16 => "one producer, 100 B: rate of every second",
            Preset::L17 => "one consumer, 100 B, 6 partitions",
            Preset::L18 => "three consumers, 100 B, 6 partitions",
            Preset::L19 => "producer and consumer, 100 B, 6 partitions",
            Preset::L20 => "one producer, 10 B to 1 MiB",
            Preset::L21 => "end-to-end latency",
            Preset::L22 => "bytes beside the value, 100 B",
            Preset::N36 => "one producer, 200 B, batches of 1 and 50",
            Preset::N37 => "bytes beside the value, 200 B, batches of 1 and 50",
            Preset::N38 => "one consumer, 200 B",
            Preset::A15 => "one consumer, 2 KiB, reads of 128 KiB to 8 MiB",
            Preset::A16 => "one consumer, one partition, 2 KiB",
            Preset::A17 => "one consumer, 2 KiB, from memory and from disk",
            Preset::A18 => "fetches in turn, and with the next one under way",
            Preset::A19 => "decoding while the answer arrives",
            Preset::A20 => "an answer that tells its number of records first",
            Preset::A21 => "a fetch bounded by records",
            Preset::A22 => "one fetch of 8 MiB",
            Preset::A23 => "a stream with flow control",
            Preset::A24 => "128 appenders, 2 KiB, 1 to 128 connections",
        }
    }

    /// Where the benchmark was published, and what was measured there.
    pub(super) fn source(self) -> &'static str {
        match self {
            Preset::L11 => "Kreps 2014, single producer, no replication: 821,557 records/s",
            Preset::L12 => "Kreps 2014, 3x asynchronous replication: 786,980 records/s",
            Preset::L13 => "Kreps 2014, 3x synchronous replication: 421,823 records/s",
            Preset::L14 => "Kreps 2014, three producers, 3x asynchronous: 2,024,032 records/s",
            Preset::L15 => "Kreps 2014, throughput versus stored data: no change over 1 TB",
            Preset::L16 => "Kreps 2014, variance from the flushes of Linux",
            Preset::L17 => "Kreps 2014, single consumer: 940,521 records/s",
            Preset::L18 => "Kreps 2014, three consumers: 2,615,968 records/s",
            Preset::L19 => "Kreps 2014, producer and consumer: 795,064 records/s",
            Preset::L20 => "Kreps 2014, effect of message size",
            Preset::L21 => "Kreps 2014, end-to-end latency: 2 ms median, 3 ms p99, 14 ms p99.9",
            Preset::L22 => "Kreps 2014: about 22 B beside each message",
            Preset::N36 => "Kreps et al. 2011, producer: 50,000/s by one, 400,000/s by fifty",
            Preset::N37 => "Kreps et al. 2011: 9 B beside each message",
            Preset::N38 => "Kreps et al. 2011, consumer: 22,000/s",
            Preset::A15 => "Akutan 2018, cat by readahead: 320 to 775 MiB/s",
            Preset::A16 => "Akutan 2018, cat as the baseline of a consumer",
            Preset::A17 => "Akutan 2018, clients cached and uncached: 150 to 895 MiB/s",
            Preset::A18 => "Akutan 2018: the broker idles while the client works",
            Preset::A19 => "Akutan 2018: clients buffer the whole reply",
            Preset::A20 => "Akutan 2018: the number of entries is not known at the start",
            Preset::A21 => "Akutan 2018: a fetch is bounded by bytes only",
            Preset::A22 => "Akutan 2018: 18 ms for a reply of 8 MiB",
            Preset::A23 => "Akutan 2018: server streaming with flow control",
            Preset::A24 => "Akutan 2018, 128 appenders: appends collapse over more connections",
        }
    }

    /// The quantity that the cases vary, where they vary one.
    pub(super) fn axis(self) -> Option<&'static str> {
        match self {
            Preset::L20 => Some("record bytes"),
            Preset::N36 | Preset::N37 | Preset::L22 => Some("records per batch"),
            Preset::A15 => Some("bytes of a read"),
            Preset::A24 => Some("connections"),
            _ => None,
        }
    }

    /// The missing feature that the preset waits for: the Kafka protocol has no words for it.
    pub(super) fn needs(self) -> Option<&'static str> {
        match self {
            Preset::A19 => Some(
                "needs a native API that sends batch by batch, which Esker does not have; with the Kafka protocol a18 measures what an early next fetch gains",
            ),
            Preset::A20 => Some(
                "needs a native API whose answers begin with their number of records, which Esker does not have; an answer to a Kafka fetch cannot say it",
            ),
            Preset::A21 => Some(
                "needs a native API with a bound of records, which Esker does not have; a Kafka fetch is bounded by bytes, see a15 and a22",
            ),
            Preset::A23 => Some(
                "needs a native API with streams and credits, which Esker does not have; with the Kafka protocol a slow reader asks for the next answer itself",
            ),
            _ => None,
        }
    }
}
