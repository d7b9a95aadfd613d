//! The writes of idempotent producers to one partition: the machine that distinguishes new batches from repeated and lost ones.
//!
//! Holds per producer its epoch, its last five batches and its open transaction; derived from the batches, so it can be made
//! again from a snapshot and the log behind it. Decides by batch headers alone, does no IO. Refuses gaps, old epochs and
//! markers of an old coordinator; a repeated batch is answered with the offsets of the first.

mod replay;
mod snapshot;

use std::collections::{BTreeMap, HashMap};

use model::{Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};
use wire::records::{EndTxn, Head};

pub use replay::{ReplayError, Unread, marker_of, rebuild, rebuild_readable};
pub use snapshot::{SnapshotError, path as snapshot_path, prune, read, write};

/// Batches remembered per producer: a client has at most five requests in flight.
pub const BATCHES_KEPT: usize = 5;

/// A batch that was appended, as a duplicate of it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub last_sequence: Sequence,
    pub last_offset: Offset,
    /// Last offset less first offset.
    pub offset_delta: i32,
    pub timestamp: Timestamp,
}

impl Written {
    #[must_use]
    pub fn base_offset(&self) -> Offset {
        self.last_offset.advance(-i64::from(self.offset_delta))
    }

    #[must_use]
    pub fn base_sequence(&self) -> Sequence {
        // Sequences wrap after the largest, also backwards.
        let modulus = i64::from(i32::MAX) + 1;
        let base =
            (i64::from(self.last_sequence.0) - i64::from(self.offset_delta)).rem_euclid(modulus);
        Sequence(base as i32)
    }
}

/// State of one producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Producer {
    pub epoch: ProducerEpoch,
    /// Oldest first, at most [`BATCHES_KEPT`].
    written: Vec<Written>,
    /// -1 before the first marker.
    pub coordinator_epoch: i32,
    pub last_timestamp: Timestamp,
    /// First offset of the open transaction.
    pub txn_start: Option<Offset>,
}

/// The origin of an append, which decides what is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A producer: everything.
    Client,
    /// A follower's fetch or a replay: what the leader decided stands.
    Replica,
    /// The transaction coordinator's marker.
    Coordinator,
}

/// The judgement of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    New,
    /// Appended before; the reply repeats these offsets once they are durable.
    Duplicate(Written),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProducerError {
    /// Client: fatal for this producer.
    #[error("producer {id} sent sequence {got}, {want} is next")]
    OutOfOrderSequence {
        id: ProducerId,
        got: Sequence,
        want: Sequence,
    },
    /// Client: a newer incarnation has taken over.
    #[error("producer {id} has epoch {got}, {current} was seen")]
    InvalidEpoch {
        id: ProducerId,
        got: ProducerEpoch,
        current: ProducerEpoch,
    },
    /// Client: a batch outside of the transaction that is open.
    #[error("producer {id} has an open transaction, the batch is not part of it")]
    InvalidTxnState { id: ProducerId },
    /// Coordinator: another one has taken over.
    #[error("marker of producer {id} is from coordinator epoch {got}, {current} was seen")]
    CoordinatorFenced {
        id: ProducerId,
        got: i32,
        current: i32,
    },
}

/// A transaction that a marker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletedTxn {
    pub producer_id: ProducerId,
    pub first_offset: Offset,
    /// Offset of the marker.
    pub last_offset: Offset,
    pub aborted: bool,
    /// The last stable offset right after the marker, seen from this transaction.
    pub last_stable_offset: Offset,
}

/// The producers of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducerStates {
    producers: HashMap<ProducerId, Producer>,
    /// Open transactions by their first offset.
    open: BTreeMap<Offset, ProducerId>,
    /// Ended ones whose marker is not yet below the high watermark: first offset to marker.
    unreplicated: BTreeMap<Offset, Offset>,
    /// Next offset to be applied.
    end: Offset,
}

impl ProducerStates {
    /// No producers, as of a log that begins at `start`.
    #[must_use]
    pub fn new(start: Offset) -> Self {
        ProducerStates {
            end: start,
            ..ProducerStates::default()
        }
    }

    /// Offset up to which batches were applied.
    #[must_use]
    pub fn end(&self) -> Offset {
        self.end
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.producers.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    #[must_use]
    pub fn get(&self, id: ProducerId) -> Option<&Producer> {
        self.producers.get(&id)
    }

    /// All producers, in no order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (ProducerId, &Producer)> {
        let producers = self.producers.iter();
        producers.map(|(id, producer)| (*id, producer))
    }

    /// All producers by id (`DescribeProducers`).
    #[must_use]
    pub fn sorted(&self) -> Vec<(ProducerId, &Producer)> {
        let mut all: Vec<_> = self.iter().collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        all
    }

    /// Judges a batch before it gets offsets. A batch without producer id is always new.
    pub fn check(&self, batch: &Head, origin: Origin) -> Result<Verdict, ProducerError> {
        let id = batch.producer_id();
        if !batch.has_producer_id() || origin == Origin::Replica {
            return Ok(Verdict::New);
        }
        let Some(producer) = self.producers.get(&id) else {
            // Nothing is known, perhaps because retention took it all: any sequence begins.
            return Ok(Verdict::New);
        };
        if origin == Origin::Client
            && let Some(first) = producer.duplicate_of(batch)
        {
            return Ok(Verdict::Duplicate(first));
        }
        producer.check_epoch(id, batch.producer_epoch())?;
        if origin == Origin::Client {
            producer.check_sequence(id, batch)?;
            // An open transaction of an older epoch was fenced; its marker is on the way.
            if producer.txn_start.is_some() && !batch.attributes().is_transactional() {
                return Err(ProducerError::InvalidTxnState { id });
            }
        }
        Ok(Verdict::New)
    }

    /// True if a newer incarnation of the producer was here.
    pub fn check_epoch(&self, id: ProducerId, epoch: ProducerEpoch) -> Result<(), ProducerError> {
        let producer = self.producers.get(&id);
        producer.map_or(Ok(()), |producer| producer.check_epoch(id, epoch))
    }

    /// Judges a marker. With transactions version 2 each transaction has an epoch of its own, so the marker's is higher.
    pub fn check_marker(
        &self,
        id: ProducerId,
        epoch: ProducerEpoch,
        end: EndTxn,
        transaction_version: i16,
    ) -> Result<(), ProducerError> {
        let Some(producer) = self.producers.get(&id) else {
            return Ok(());
        };
        let current = producer.epoch;
        let repeated = epoch == current
            && producer.txn_start.is_none()
            && end.coordinator_epoch >= producer.coordinator_epoch;
        let old = if transaction_version >= 2 {
            epoch <= current && !repeated
        } else {
            epoch < current
        };
        if old {
            return Err(ProducerError::InvalidEpoch {
                id,
                got: epoch,
                current,
            });
        }
        if end.coordinator_epoch < producer.coordinator_epoch {
            let (got, current) = (end.coordinator_epoch, producer.coordinator_epoch);
            return Err(ProducerError::CoordinatorFenced { id, got, current });
        }
        Ok(())
    }

    /// Takes note of a batch whose offsets are set. `marker` is what a control batch says. Returns the transaction it ended.
    pub fn apply(&mut self, batch: &Head, marker: Option<EndTxn>) -> Option<CompletedTxn> {
        self.end = self.end.max(batch.next_offset());
        if !batch.has_producer_id() {
            return None;
        }
        match marker {
            Some(marker) => self.apply_marker(batch, marker),
            None if batch.attributes().is_control() => None,
            None => {
                self.apply_data(batch);
                None
            }
        }
    }

    fn producer(&mut self, batch: &Head) -> &mut Producer {
        let producer = self
            .producers
            .entry(batch.producer_id())
            .or_insert_with(|| Producer {
                epoch: batch.producer_epoch(),
                written: Vec::new(),
                coordinator_epoch: -1,
                last_timestamp: Timestamp::NONE,
                txn_start: None,
            });
        if producer.epoch != batch.producer_epoch() {
            producer.epoch = batch.producer_epoch();
            producer.written.clear();
        }
        producer.last_timestamp = batch.max_timestamp();
        producer
    }

    fn apply_data(&mut self, batch: &Head) {
        let id = batch.producer_id();
        let producer = self.producer(batch);
        if producer.written.len() == BATCHES_KEPT {
            producer.written.remove(0);
        }
        producer.written.push(Written {
            last_sequence: batch.last_sequence(),
            last_offset: batch.last_offset(),
            offset_delta: batch.last_offset_delta(),
            timestamp: batch.max_timestamp(),
        });
        if batch.attributes().is_transactional() && producer.txn_start.is_none() {
            producer.txn_start = Some(batch.base_offset());
            self.open.insert(batch.base_offset(), id);
        }
    }

    fn apply_marker(&mut self, batch: &Head, marker: EndTxn) -> Option<CompletedTxn> {
        let producer = self.producer(batch);
        producer.coordinator_epoch = marker.coordinator_epoch;
        // A marker without records before it moves nothing.
        let first_offset = producer.txn_start.take()?;
        self.open.remove(&first_offset);
        let last_offset = batch.base_offset();
        self.unreplicated.insert(first_offset, last_offset);
        let last_stable_offset = self
            .open
            .keys()
            .next()
            .copied()
            .unwrap_or(last_offset.advance(1));
        Some(CompletedTxn {
            producer_id: batch.producer_id(),
            first_offset,
            last_offset,
            aborted: !marker.committed,
            last_stable_offset,
        })
    }

    /// Forgets ended transactions whose marker is below the high watermark.
    pub fn on_high_watermark(&mut self, high_watermark: Offset) {
        self.unreplicated
            .retain(|_, marker| *marker >= high_watermark);
    }

    /// First offset that a reader of committed data may not see yet; `None` when only the high watermark bounds it.
    #[must_use]
    pub fn first_unstable(&self) -> Option<Offset> {
        let open = self.open.keys().next();
        let unreplicated = self.unreplicated.keys().next();
        [open, unreplicated].into_iter().flatten().min().copied()
    }

    /// A transaction of this producer and epoch is open here.
    #[must_use]
    pub fn has_open_txn(&self, id: ProducerId, epoch: ProducerEpoch) -> bool {
        self.producers
            .get(&id)
            .is_some_and(|producer| producer.epoch == epoch && producer.txn_start.is_some())
    }

    /// Forgets producers that were silent for `expiration_ms`, but none with an open transaction. Returns how many.
    pub fn expire(&mut self, now: Timestamp, expiration_ms: i64) -> usize {
        let before = self.producers.len();
        self.producers.retain(|_, producer| {
            producer.txn_start.is_some()
                || now.0.saturating_sub(producer.last_timestamp.0) < expiration_ms
        });
        before - self.producers.len()
    }

    /// The log now begins at `start`: transactions that ended below are of no concern.
    pub fn on_log_start(&mut self, start: Offset) {
        self.unreplicated.retain(|_, marker| *marker >= start);
        self.end = self.end.max(start);
    }

    /// Adds a producer as a snapshot has it. False where another has its id, or an open transaction that began at the same offset.
    fn restore(&mut self, id: ProducerId, producer: Producer) -> bool {
        let start = producer.txn_start;
        let is_first_there = start.is_none_or(|start| self.open.insert(start, id).is_none());
        self.producers.insert(id, producer).is_none() && is_first_there
    }
}

impl Producer {
    #[must_use]
    pub fn written(&self) -> &[Written] {
        &self.written
    }

    #[must_use]
    pub fn last(&self) -> Option<&Written> {
        self.written.last()
    }

    fn duplicate_of(&self, batch: &Head) -> Option<Written> {
        if batch.producer_epoch() != self.epoch {
            return None;
        }
        let (first, last) = (batch.base_sequence(), batch.last_sequence());
        let same =
            |written: &&Written| written.base_sequence() == first && written.last_sequence == last;
        self.written.iter().find(same).copied()
    }

    fn check_epoch(&self, id: ProducerId, got: ProducerEpoch) -> Result<(), ProducerError> {
        let current = self.epoch;
        if got < current {
            Err(ProducerError::InvalidEpoch { id, got, current })
        } else {
            Ok(())
        }
    }

    fn check_sequence(&self, id: ProducerId, batch: &Head) -> Result<(), ProducerError> {
        let got = batch.base_sequence();
        let want = match self.last() {
            // Each epoch counts from 0.
            _ if batch.producer_epoch() != self.epoch => Sequence(0),
            Some(last) => last.last_sequence.advance(1),
            // Only a marker was seen in this epoch.
            None => Sequence(0),
        };
        if got == want {
            Ok(())
        } else {
            Err(ProducerError::OutOfOrderSequence { id, got, want })
        }
    }
}

#[cfg(test)]
mod tests;
