//! The nouns of the log: offsets, epochs, sequences and identities, each a type of its own.
//!
//! Owns no behaviour beyond arithmetic that must not be got wrong twice. Ranges are half open unless a name says `last`.

pub mod lineage;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

pub mod histogram;
mod printable;
mod ticket;

pub use histogram::Histogram;
pub use printable::printable;
pub use ticket::{InboxId, Ticket, WaiterKey};

number! {
    /// Place of a record in its partition: starts at 0, grows by one, never changes.
    Offset(i64)
}
number! {
    /// Byte position in one file.
    Position(u64)
}
number! {
    /// Counts the leaders of a partition (KIP-101). -1 in a message means "not known".
    LeaderEpoch(i32)
}
number! {
    /// Identity of an idempotent producer (KIP-98).
    ProducerId(i64)
}
number! {
    /// Incarnation of a producer id; a higher one fences the lower.
    ProducerEpoch(i16)
}
number! {
    /// Number of a record within one producer, partition and epoch; wraps from `i32::MAX` to 0.
    Sequence(i32)
}
number! {
    /// A broker of the cluster, `node.id` in its settings.
    BrokerId(i32)
}
number! {
    /// Partition number within a topic, from 0.
    PartitionIndex(i32)
}
number! {
    /// Milliseconds since 1970, as records carry them. -1 means "none".
    Timestamp(i64)
}
number! {
    /// A monotonic instant in nanoseconds since an arbitrary start; never wall time.
    Instant(u64)
}

impl Offset {
    pub const ZERO: Offset = Offset(0);

    /// The offset `count` records later.
    #[must_use]
    pub fn advance(self, count: i64) -> Offset {
        Offset(self.0 + count)
    }
}

impl LeaderEpoch {
    pub const NONE: LeaderEpoch = LeaderEpoch(-1);
}

impl ProducerId {
    pub const NONE: ProducerId = ProducerId(-1);
}

impl Timestamp {
    pub const NONE: Timestamp = Timestamp(-1);
}

impl Sequence {
    /// The sequence `count` records later; sequences wrap to 0 after `i32::MAX`.
    #[must_use]
    pub fn advance(self, count: i32) -> Sequence {
        let next = i64::from(self.0) + i64::from(count);
        Sequence((next % (i64::from(i32::MAX) + 1)) as i32)
    }
}

impl Instant {
    #[must_use]
    pub fn plus(self, duration: std::time::Duration) -> Instant {
        Instant(
            self.0
                .saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)),
        )
    }

    /// Time since `earlier`; zero when `earlier` lies ahead.
    #[must_use]
    pub fn since(self, earlier: Instant) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_wraps_to_zero_after_the_largest() {
        assert_eq!(Sequence(i32::MAX).advance(1), Sequence(0));
        assert_eq!(Sequence(i32::MAX - 1).advance(3), Sequence(1));
        assert_eq!(Sequence(5).advance(10), Sequence(15));
    }

    #[test]
    fn time_never_runs_backwards() {
        let late = Instant(5);
        assert_eq!(Instant(3).since(late), std::time::Duration::ZERO);
    }
}
