//! Which transactional batches may begin a transaction here (KIP-890).
//!
//! The broker takes a guard, asks the transaction coordinator whether the partition belongs to the producer's open
//! transaction, and appends with the guard. A marker that arrives in between takes the guard away: a batch that was delayed
//! past the end of its transaction would open another one that nobody ends.

use std::collections::HashMap;

use model::{ProducerEpoch, ProducerId};

use crate::partition::Partition;

/// Names one verification of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard(u64);

/// Why a transactional batch may begin a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warrant {
    /// It may not: it may only join the one that is open.
    None,
    /// The coordinator knows of it.
    Verified(Guard),
    /// `transaction.partition.verification.enable` is off.
    Waived,
}

struct Entry {
    epoch: ProducerEpoch,
    guard: Guard,
    /// Requests that are being verified under it.
    holders: u32,
}

/// Guards in use; each is held by a request that waits, whose number the connections bound.
#[derive(Default)]
pub(crate) struct Guards {
    last: u64,
    known: HashMap<ProducerId, Entry>,
}

impl Guards {
    fn take(&mut self, id: ProducerId, epoch: ProducerEpoch) -> Guard {
        if let Some(entry) = self.known.get_mut(&id).filter(|entry| entry.epoch == epoch) {
            entry.holders += 1;
            return entry.guard;
        }
        self.last += 1;
        let guard = Guard(self.last);
        let entry = Entry {
            epoch,
            guard,
            holders: 1,
        };
        self.known.insert(id, entry);
        guard
    }

    pub(crate) fn holds(&self, id: ProducerId, guard: Guard) -> bool {
        self.known
            .get(&id)
            .is_some_and(|entry| entry.guard == guard)
    }

    pub(crate) fn on_marker(&mut self, id: ProducerId) {
        self.known.remove(&id);
    }
}

impl Partition {
    /// A guard to verify under; `None` when the transaction is open here already and nothing need be asked.
    pub fn begin_verification(&self, id: ProducerId, epoch: ProducerEpoch) -> Option<Guard> {
        let mut state = self.state.lock();
        if state.producers.has_open_txn(id, epoch) {
            None
        } else {
            Some(state.guards.take(id, epoch))
        }
    }

    /// The request that took the guard is done with it.
    pub fn end_verification(&self, id: ProducerId, guard: Guard) {
        let guards = &mut self.state.lock().guards;
        if let Some(entry) = guards
            .known
            .get_mut(&id)
            .filter(|entry| entry.guard == guard)
        {
            entry.holders -= 1;
            if entry.holders == 0 {
                guards.known.remove(&id);
            }
        }
    }
}
