//! The removal of a replica from a broker that the metadata no longer assign it to.
//!
//! The journal gets a restart that empties the log; once that is durable the partition and its files are removed together. So a crash finds
//! the old log or none, and a replica that is assigned here again, under the same id, gets nothing of what the journal has of the old one.
//! Invariant: a log that knows a later leader than the metadata stays, since then the metadata are older than the log.

use std::sync::Arc;

use log::Epochs;
use log::journal::What;
use log::producer::ProducerStates;
use log::restart::Carried;
use log::tail::Tail;
use model::{LeaderEpoch, Offset};

use crate::cut::CutError;
use crate::cuts::FileCut;
use crate::life::Life;
use crate::news::News;
use crate::partition::{Partition, PartitionState};

impl Partition {
    /// Begins the removal of a replica that the metadata, which name `epoch` as that of the leader, assign to this broker no more. Returns
    /// false where the log knows a later leader epoch, or its files cannot be read: then the log stays.
    pub fn leave(self: &Arc<Self>, epoch: LeaderEpoch, news: &mut Vec<News>) -> bool {
        let mut state = self.state.lock();
        if state.is_deleted || state.is_leaving {
            return true;
        }
        let is_younger = (state.epochs.latest()).is_some_and(|latest| epoch < latest.epoch);
        if is_younger || self.unread.is_some() {
            return false;
        }
        state.is_leaving = true;
        state.release_all(news);
        let home = Arc::clone(&state.home);
        drop(state);
        if let Some(residents) = home.registry.upgrade() {
            residents.let_go(self.key());
        }
        true
    }

    /// The metadata assign the replica to this broker again. Returns false if this one is deleted already, and a new one has to be created.
    pub fn stay(&self) -> bool {
        let mut state = self.state.lock();
        if !std::mem::take(&mut state.is_leaving) {
            return !state.is_deleted;
        }
        // Files may still be due for truncation: the segment writer has to look at the partition.
        let is_first = !state.is_deleted && !std::mem::replace(&mut state.dirty, true);
        let is_there = !state.is_deleted;
        let home = Arc::clone(&state.home);
        drop(state);
        if is_first {
            home.dir.backlog.add(0, Some(self.key()));
        }
        is_there
    }

    /// True if the partition is deleted, or about to be removed.
    pub fn is_going(&self) -> bool {
        let state = self.state.lock();
        state.is_deleted || state.is_leaving
    }

    /// Restarts the log of a partition that leaves, empty, in the journal. Once the new life is durable a crash finds nothing of the old log.
    pub(crate) fn empty_out(self: &Arc<Self>) -> Result<(), CutError> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if !state.is_leaving {
            return Ok(());
        }
        self.check_cut(state, Offset(i64::MAX))?;
        // Pending trims belong to the log that ends here.
        state.trims.clear();
        state.cuts.keep(state.marks());
        let life = state.progress.on_emptied();
        let what = What::Restart {
            log_start: Offset::ZERO,
            at: Offset::ZERO,
            epoch: LeaderEpoch::NONE,
        };
        state.begin_at(Offset::ZERO, LeaderEpoch::NONE, life);
        self.push_cut(state, Offset::ZERO, life, what);
        Ok(())
    }
}

impl PartitionState {
    /// The log is empty, and ends at `at`, behind a record of `epoch`.
    pub(crate) fn begin_at(&mut self, at: Offset, epoch: LeaderEpoch, life: Life) {
        let mut epochs = Epochs::default();
        epochs.assign(epoch, at);
        let carried = Carried {
            epochs,
            producers: ProducerStates::new(at),
        };
        self.begin_behind(carried, false, life);
    }

    /// The log is empty, and ends where `carried` does; the tier has what is in front.
    pub(crate) fn begin_behind(&mut self, carried: Carried, is_tiered: bool, life: Life) {
        let at = carried.at();
        self.forget_unwritten(|tail| {
            let unwritten = tail.unwritten_bytes();
            *tail = Tail::new(at);
            unwritten
        });
        self.local_start = at;
        self.restart_point = if is_tiered { at } else { Offset::ZERO };
        self.restarted_at = at;
        self.epochs = carried.epochs;
        self.are_epochs_changed = true;
        self.aborted.clear();
        self.cut_off.append(&mut self.holes);
        self.begin_producers(at);
        self.cuts
            .carry(is_tiered.then(|| carried.producers.clone()));
        self.producers = carried.producers;
        self.producers.on_high_watermark(at);
        self.cuts.await_producers(false);
        let carries = is_tiered;
        self.cuts.push(life, FileCut::Restart { at, carries });
    }

    /// True if the partition leaves, and a crash would find nothing of its log.
    pub(crate) fn has_left(&self) -> bool {
        let is_emptied =
            matches!(self.cuts.due(), Some(FileCut::Restart { at, .. }) if at == Offset::ZERO);
        let is_empty = self.progress.points().end == Offset::ZERO;
        self.is_leaving && is_emptied && is_empty && !self.cuts.are_pending()
    }
}
