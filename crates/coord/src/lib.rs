//! Coordinators: what becomes of consumer groups and of transactions.
//!
//! Machines only: a request and the time come in, records and answers go out. Each owns one partition of an internal topic
//! (`__consumer_offsets`, `__transaction_state`), and what it must not forget is in the records of that partition, in Kafka's
//! schemas. Does no IO, reads no clock, throws no dice, and never answers by itself: its driver does with each [`Step`]
//!
//! 1. append the records as one batch; if that is refused, every caller of the step gets a retriable error instead, except those who
//!    are answered anyway, and the effects are dropped;
//! 2. `replay` each record: the only place where durable state changes, and the same code as after a restart;
//! 3. send the answers and begin the effects once these records, and all that were appended before them, are committed.

#[macro_use]
mod question;

pub mod group;
mod pattern;
pub mod txn;

pub use pattern::Pattern;
pub use question::{Caller, Question, Reply};

use std::convert::Infallible;

use model::{Instant, ProducerEpoch, ProducerId, Timestamp};
use wire::Uuid;

/// When something happens: timers run on `now`, records carry `wall`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub now: Instant,
    pub wall: Timestamp,
}

/// The decision of a machine. Answers need not be for the one who asked: the last member to join answers for all.
#[derive(Clone, Debug, PartialEq)]
pub struct Step<R, A, E = Infallible> {
    pub records: Vec<R>,
    /// The records belong to a transaction of this producer: they count when its marker says so.
    pub producer: Option<(ProducerId, ProducerEpoch)>,
    pub answers: Vec<Reply<A>>,
    /// Answers that are given whether the records are written or not: they do not rest on them.
    pub anyway: Vec<Reply<A>>,
    /// Work for the driver, once the records are committed.
    pub effects: Vec<E>,
}

impl<R, A, E> Default for Step<R, A, E> {
    fn default() -> Self {
        Step {
            records: Vec::new(),
            producer: None,
            answers: Vec::new(),
            anyway: Vec::new(),
            effects: Vec::new(),
        }
    }
}

impl<R, A, E> Step<R, A, E> {
    /// Nothing is to be written, only said.
    #[must_use]
    pub fn answer<Q: Question<AnyAnswer = A>>(caller: Caller<Q>, answer: Q::Answer) -> Self {
        Step {
            answers: vec![caller.answer(answer)],
            ..Step::default()
        }
    }

    pub fn extend(&mut self, other: Step<R, A, E>) {
        assert!(
            other.producer == self.producer || other.records.is_empty(),
            "one step is one batch"
        );
        self.records.extend(other.records);
        self.answers.extend(other.answers);
        self.anyway.extend(other.anyway);
        self.effects.extend(other.effects);
    }
}

/// The topics of the cluster as a coordinator sees them.
pub trait Topics {
    /// Id and number of partitions.
    fn topic(&self, name: &str) -> Option<(Uuid, i32)>;
    fn name(&self, id: Uuid) -> Option<&str>;
    /// Every topic in name order, internal ones too: a pattern that the coordinator resolves may stand for them.
    fn names(&self) -> Vec<&str>;
    /// For each partition the racks of the brokers that have a replica of it; empty where none are known.
    fn racks(&self, name: &str) -> Vec<Vec<&str>>;
    /// Changes when a topic, a partition or a rack does: what was computed for the same number still holds.
    fn version(&self) -> u64;
    /// Changes when a topic comes or goes.
    fn names_version(&self) -> u64;
}

/// Which partition of an internal topic looks after `id`: Java's hash of the string, as in Kafka, so that every client and tool
/// comes to the same partition.
#[must_use]
pub fn partition_of(id: &str, partitions: i32) -> i32 {
    let hash = id.encode_utf16().fold(0_i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    });
    // `i32::MIN` has no absolute value; Kafka takes 0 there.
    hash.checked_abs().unwrap_or(0) % partitions.max(1)
}

/// The asker of `question` in a test.
#[cfg(test)]
fn caller<Q: Question>(question: &Q) -> Caller<Q> {
    Caller::of(question, ticket(1))
}

/// One of several questions of a test.
#[cfg(test)]
fn ticket(number: u64) -> model::Ticket {
    model::Ticket {
        inbox: model::InboxId(0),
        key: model::WaiterKey(number),
        part: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::partition_of;

    #[test]
    fn a_group_has_the_partition_that_kafka_gives_it() {
        // The values of `Utils.abs("...".hashCode()) % 50` on the JVM.
        for (id, partition) in [
            ("", 0),
            ("a", 47),
            ("my-group", 12),
            ("polygenelubricants", 0),
        ] {
            assert_eq!(partition_of(id, 50), partition, "{id:?}");
        }
    }
}
