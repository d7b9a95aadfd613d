//! The facts known of one transactional id, and its record.

use std::collections::BTreeSet;

use model::{Instant, ProducerEpoch, ProducerId, Timestamp};
use wire::transaction::transaction_log_value::PartitionsSchema;
use wire::transaction::{TransactionLogKey, TransactionLogValue, TransactionRecord};

use super::ask::{Described, Markers, Producer, TxnPartition};

/// Where a transaction stands; numbers and names are Kafka's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxnState {
    Empty,
    Ongoing,
    PrepareCommit,
    PrepareAbort,
    CompleteCommit,
    CompleteAbort,
}

const NAMES: [(TxnState, i8, &str); 6] = [
    (TxnState::Empty, 0, "Empty"),
    (TxnState::Ongoing, 1, "Ongoing"),
    (TxnState::PrepareCommit, 2, "PrepareCommit"),
    (TxnState::PrepareAbort, 3, "PrepareAbort"),
    (TxnState::CompleteCommit, 4, "CompleteCommit"),
    (TxnState::CompleteAbort, 5, "CompleteAbort"),
];

/// States that no transaction rests in here, but a filter may name.
const NEVER_SEEN: [&str; 2] = ["Dead", "PrepareEpochFence"];

impl TxnState {
    #[must_use]
    pub fn name(self) -> &'static str {
        let row = NAMES.iter().find(|(state, _, _)| *state == self);
        row.map_or("", |(_, _, name)| name)
    }

    #[must_use]
    pub fn named(name: &str) -> Option<TxnState> {
        let row = NAMES.iter().find(|(_, _, known)| *known == name);
        row.map(|(state, _, _)| *state)
    }

    /// A name of the protocol, whether or not a transaction can be found in that state.
    #[must_use]
    pub fn is_known(name: &str) -> bool {
        TxnState::named(name).is_some() || NEVER_SEEN.contains(&name)
    }

    fn number(self) -> i8 {
        let row = NAMES.iter().find(|(state, _, _)| *state == self);
        row.map_or(0, |(_, number, _)| *number)
    }

    fn numbered(number: i8) -> Option<TxnState> {
        let row = NAMES.iter().find(|(_, known, _)| *known == number);
        row.map(|(state, _, _)| *state)
    }

    /// Decided, and the markers are on their way.
    #[must_use]
    pub fn is_prepared(self) -> bool {
        matches!(self, TxnState::PrepareCommit | TxnState::PrepareAbort)
    }
}

/// One transactional id. All but `last_epoch` and `seen_open` is in its record.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Txn {
    pub(super) producer: Producer,
    /// The id whose epochs were used up, so that the present one took over; -1 as soon as the producer has gone on with that, and nobody
    /// repeats what it asked under the old one.
    pub(super) previous_id: ProducerId,
    /// Takes over when the transaction completes; -1 for none.
    pub(super) next_id: ProducerId,
    /// Of the incarnation that the present one was recovered from; -1 when unknown.
    pub(super) last_epoch: ProducerEpoch,
    pub(super) timeout_ms: i32,
    pub(super) state: TxnState,
    pub(super) places: BTreeSet<TxnPartition>,
    pub(super) start: Timestamp,
    pub(super) updated: Timestamp,
    pub(super) version: i16,
    /// When the open transaction was first looked at in this process.
    pub(super) seen_open: Option<Instant>,
}

pub(super) const NO_EPOCH: ProducerEpoch = ProducerEpoch(-1);
/// The last epoch is kept back, for the marker that ends the last transaction of a producer id.
const LAST_EPOCH: i16 = i16::MAX - 1;

pub(super) fn is_exhausted(epoch: ProducerEpoch) -> bool {
    epoch.0 >= LAST_EPOCH
}

/// The epoch of that marker: nobody writes with it, and no transaction follows under this id.
pub(super) fn is_for_marker(epoch: ProducerEpoch) -> bool {
    epoch.0 == i16::MAX
}

/// Never past the last number; an id whose epochs are used up is replaced.
pub(super) fn bumped(epoch: ProducerEpoch) -> ProducerEpoch {
    ProducerEpoch(epoch.0.saturating_add(1))
}

impl Txn {
    pub(super) fn new(id: ProducerId, timeout_ms: i32) -> Txn {
        Txn {
            producer: Producer {
                id,
                epoch: ProducerEpoch(0),
            },
            previous_id: ProducerId::NONE,
            next_id: ProducerId::NONE,
            last_epoch: NO_EPOCH,
            timeout_ms,
            state: TxnState::Empty,
            places: BTreeSet::new(),
            start: Timestamp::NONE,
            updated: Timestamp::NONE,
            version: 0,
            seen_open: None,
        }
    }

    pub(super) fn record(&self, transactional_id: &str) -> TransactionRecord {
        let mut topics: Vec<PartitionsSchema> = Vec::new();
        for (topic, partition) in &self.places {
            match topics.last_mut() {
                Some(last) if last.topic == *topic => last.partition_ids.push(*partition),
                _ => topics.push(PartitionsSchema {
                    topic: topic.clone(),
                    partition_ids: vec![*partition],
                }),
            }
        }
        let value = TransactionLogValue {
            producer_id: self.producer.id.0,
            previous_producer_id: self.previous_id.0,
            next_producer_id: self.next_id.0,
            producer_epoch: self.producer.epoch.0,
            next_producer_epoch: -1,
            transaction_timeout_ms: self.timeout_ms,
            transaction_status: self.state.number(),
            transaction_partitions: (self.state != TxnState::Empty).then_some(topics),
            transaction_last_update_timestamp_ms: self.updated.0,
            transaction_start_timestamp_ms: self.start.0,
            client_transaction_version: self.version,
        };
        TransactionRecord::TransactionLog(key(transactional_id), Some(value))
    }

    /// About how many bytes of a batch its record needs.
    pub(super) fn size(&self, transactional_id: &str) -> usize {
        let mut last = "";
        let places = self.places.iter().map(|(topic, _)| {
            let name = if std::mem::replace(&mut last, topic) == topic {
                0
            } else {
                8 + topic.len()
            };
            4 + name
        });
        128 + transactional_id.len() + places.sum::<usize>()
    }

    /// `None` for a state that no record holds.
    pub(super) fn from_value(value: &TransactionLogValue) -> Option<Txn> {
        let topics = value.transaction_partitions.iter().flatten();
        let places = topics.flat_map(|topic| {
            let numbers = topic.partition_ids.iter();
            numbers.map(|number| (topic.topic.clone(), *number))
        });
        Some(Txn {
            producer: Producer {
                id: ProducerId(value.producer_id),
                epoch: ProducerEpoch(value.producer_epoch),
            },
            previous_id: ProducerId(value.previous_producer_id),
            next_id: ProducerId(value.next_producer_id),
            last_epoch: NO_EPOCH,
            timeout_ms: value.transaction_timeout_ms,
            state: TxnState::numbered(value.transaction_status)?,
            places: places.collect(),
            start: Timestamp(value.transaction_start_timestamp_ms),
            updated: Timestamp(value.transaction_last_update_timestamp_ms),
            version: value.client_transaction_version,
            seen_open: None,
        })
    }

    /// True if this is the same open transaction as `before`, with more partitions.
    pub(super) fn goes_on(&self, before: &Txn) -> bool {
        let is_open = |txn: &Txn| txn.state == TxnState::Ongoing;
        is_open(self) && is_open(before) && self.producer == before.producer
    }

    /// The markers to write when the transaction is decided.
    pub(super) fn markers(&self, transactional_id: &str) -> Markers {
        Markers {
            transactional_id: transactional_id.to_owned(),
            producer: self.producer,
            committed: self.state == TxnState::PrepareCommit,
            places: self.places.iter().cloned().collect(),
            // Behind the last epoch no transaction begins that the marker might end instead, but one may have been begun with it, by
            // software that gave it out: a marker that has to be newer would never be taken there.
            version: if is_for_marker(self.producer.epoch) {
                0
            } else {
                self.version
            },
        }
    }

    pub(super) fn described(&self, transactional_id: &str) -> Described {
        Described {
            transactional_id: transactional_id.to_owned(),
            state: self.state,
            producer: self.producer,
            timeout_ms: self.timeout_ms,
            start: self.start,
            places: self.places.iter().cloned().collect(),
        }
    }
}

pub(super) fn key(transactional_id: &str) -> TransactionLogKey {
    TransactionLogKey {
        transactional_id: transactional_id.to_owned(),
    }
}

/// About how many bytes of a batch it needs to forget an id.
pub(super) fn gone_size(transactional_id: &str) -> usize {
    32 + transactional_id.len()
}
