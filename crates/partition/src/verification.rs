//! Which transactional batches may begin a transaction here (KIP-890).
//!
//! The broker takes a guard, asks the transaction coordinator whether the partition belongs to the producer's open
//! transaction, and appends with the guard. A marker that arrives in between takes the guard away: a batch that was delayed
//! past the end of its transaction would open another one that nobody ends.
//!
//! A refused batch comes again, and the ones its client has sent behind it may be let in meanwhile: verified, or sent when a full
//! disk has room again, enough replicas are in sync, or this broker leads. Nothing is known of a producer that is new here, so the lowest
//! sequence that was asked for is remembered: none above it begins.
//!
//! A producer has one guard, whatever the epoch of the request: only the coordinator knows whether that epoch is the producer's, so
//! none takes the guard away from another.

use std::collections::HashMap;

use log::producer::ProducerError;
use model::{ProducerEpoch, ProducerId, Sequence, Timestamp};

use crate::partition::Partition;

/// Names one verification of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard(u64);

/// Why a transactional batch may begin a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warrant {
    /// No warrant: the batch may only join a transaction that is open already.
    None,
    /// The coordinator confirmed that the partition belongs to the producer's open transaction.
    Verified(Guard),
    /// The coordinator took the partition in for this very batch. Each transaction of such a producer has its epoch, which counts
    /// from 0 in each partition.
    Added(Guard),
    /// `transaction.partition.verification.enable` is off.
    Waived,
}

/// Producers of a partition whose batches were refused and did not come again, about 64 bytes each. Past it all of them are
/// forgotten, and one whose later batch comes before its first is let in.
const REFUSED_MAX: usize = 1024;

struct Entry {
    /// The highest epoch that asked.
    epoch: ProducerEpoch,
    guard: Guard,
    /// Requests that are being verified under the guard.
    holders: u32,
    /// The lowest first sequence of the batches of this epoch that were verified or refused; `None` for offsets of a group.
    lowest: Option<Sequence>,
    /// When the log refused the last of them, or about when its coordinator did; [`Timestamp::NONE`] until somebody looks.
    refused: Timestamp,
}

/// Guards in use, each held by a request that waits, whose number the connections bound; and up to [`REFUSED_MAX`] that nobody
/// holds.
#[derive(Default)]
pub(crate) struct Guards {
    last: u64,
    known: HashMap<ProducerId, Entry>,
}

impl Guards {
    fn take(&mut self, id: ProducerId, epoch: ProducerEpoch, first: Option<Sequence>) -> Guard {
        if let Some(entry) = self.known.get_mut(&id) {
            entry.holders += 1;
            if entry.epoch < epoch {
                entry.epoch = epoch;
                entry.lowest = first;
                entry.refused = Timestamp::NONE;
            } else if entry.epoch == epoch {
                entry.lowest = [entry.lowest, first].into_iter().flatten().min();
            }
            return entry.guard;
        }
        self.last += 1;
        let guard = Guard(self.last);
        let entry = Entry {
            epoch,
            guard,
            holders: 1,
            lowest: first,
            refused: Timestamp::NONE,
        };
        self.known.insert(id, entry);
        guard
    }

    /// The log takes no batch for now, and refused one of a producer of which nothing else is known; it begins with the sequence `first`.
    pub(crate) fn on_refused(
        &mut self,
        (id, epoch): (ProducerId, ProducerEpoch),
        first: Sequence,
        wall: Timestamp,
    ) {
        if self.known.get(&id).is_some_and(|entry| entry.epoch > epoch) {
            // A newer incarnation was here; this one is not awaited.
            return;
        }
        let guard = self.take(id, epoch, Some(first));
        if let Some(entry) = self.known.get_mut(&id) {
            entry.refused = wall;
        }
        self.release(id, guard);
    }

    pub(crate) fn holds(&self, id: ProducerId, guard: Guard) -> bool {
        self.known
            .get(&id)
            .is_some_and(|entry| entry.guard == guard && entry.holders > 0)
    }

    /// Since transactions version 2 a marker has the epoch of the next transaction, whose first batch may be verified already, and
    /// waits for this very marker (KAFKA-18575): its guard stays.
    pub(crate) fn on_marker(
        &mut self,
        id: ProducerId,
        epoch: ProducerEpoch,
        transaction_version: i16,
    ) {
        let is_next = |entry: &Entry| transaction_version >= 2 && entry.epoch >= epoch;
        if self.known.get(&id).is_some_and(|entry| !is_next(entry)) {
            self.known.remove(&id);
        }
    }

    /// The producer is known from now on: its sequences are judged by what it wrote.
    pub(crate) fn on_batch(&mut self, id: ProducerId) {
        if let Some(entry) = self.known.get_mut(&id) {
            entry.lowest = None;
            if entry.holders == 0 {
                self.known.remove(&id);
            }
        }
    }

    /// Forgets those that were refused and did not come again for `expiration_ms`, as producers are forgotten that were silent.
    pub(crate) fn expire(&mut self, now: Timestamp, expiration_ms: i64) {
        self.known.retain(|_, entry| {
            if entry.refused == Timestamp::NONE {
                entry.refused = now;
            }
            entry.holders > 0 || now.0.saturating_sub(entry.refused.0) < expiration_ms
        });
    }

    /// The sequence that a producer of which nothing else is known has to begin with, when `first` is above it.
    pub(crate) fn awaits(
        &self,
        id: ProducerId,
        epoch: ProducerEpoch,
        first: Sequence,
    ) -> Option<Sequence> {
        let entry = self.known.get(&id).filter(|entry| entry.epoch == epoch)?;
        entry.lowest.filter(|lowest| *lowest < first)
    }

    /// True if a producer of which nothing else is known was refused when it began with this very sequence, and with no lower one.
    pub(crate) fn has_refused(
        &self,
        id: ProducerId,
        epoch: ProducerEpoch,
        first: Sequence,
    ) -> bool {
        let entry = self.known.get(&id).filter(|entry| entry.epoch == epoch);
        entry.is_some_and(|entry| entry.lowest == Some(first))
    }

    /// Any producer of which nothing is known may begin anywhere.
    pub(crate) fn await_nobody(&mut self) {
        self.known.retain(|_, entry| entry.holders > 0);
        (self.known.values_mut()).for_each(|entry| entry.lowest = None);
    }

    fn release(&mut self, id: ProducerId, guard: Guard) {
        let Some(entry) = self.known.get_mut(&id).filter(|entry| entry.guard == guard) else {
            return;
        };
        entry.holders = entry.holders.saturating_sub(1);
        if entry.holders > 0 {
            return;
        }
        if entry.lowest.is_none() {
            self.known.remove(&id);
        } else if self.known.len() > REFUSED_MAX {
            self.known.retain(|_, entry| entry.holders > 0);
        }
    }
}

impl Partition {
    /// A guard to verify a batch under that begins with the sequence `first`; `None` when the transaction is open here already and nothing
    /// need be asked. A fenced producer gets none (KAFKA-18042).
    pub fn begin_verification(
        &self,
        id: ProducerId,
        epoch: ProducerEpoch,
        first: Option<Sequence>,
    ) -> Result<Option<Guard>, ProducerError> {
        let mut state = self.state.lock();
        if state.producers.has_open_txn(id, epoch) {
            return Ok(None);
        }
        state.producers.check_epoch(id, epoch)?;
        let first = first.filter(|_| state.producers.get(id).is_none());
        Ok(Some(state.guards.take(id, epoch, first)))
    }

    /// The request that took the guard is done with it.
    pub fn end_verification(&self, id: ProducerId, guard: Guard) {
        self.state.lock().guards.release(id, guard);
    }
}
