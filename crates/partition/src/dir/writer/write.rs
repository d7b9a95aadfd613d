//! Chore: pending batches are written to the segment files, gathered for a while, and what is too much in memory then is evicted.

use std::sync::Arc;
use std::time::Duration;

use log::AbortedTxn;
use log::store::{Store, StoreError};
use model::{Instant, Timestamp};
use wire::records::Batch;

use super::chore::{Chore, FULL_RETRY, Flow, Moment};
use super::ledger::{Ledger, is_passing};
use crate::dir::backlog::UNWRITTEN_BYTES_RING;
use crate::dir::syncer::VOLUME_SYNC_MIN;
use crate::partition::{Home, Partition};

/// Small appends are gathered for this long before they are written.
const WRITE_DELAY: Duration = Duration::from_millis(250);
/// The same when many partitions have little each.
const WRITE_DELAY_MANY: Duration = Duration::from_secs(2);
/// More partitions than this are many.
const PARTITIONS_MANY: usize = 100;
/// Bytes that a write to a segment should bring on average: each costs some microseconds and a place on the disk.
const WRITE_BYTES_WANTED: isize = 16 << 10;
/// Another thread writes a round: it is done soon.
const COMMIT_RETRY: Duration = Duration::from_millis(2);
/// Batches handed to one segment write.
const WRITE_BYTES: usize = 1 << 20;

/// How far a write of a partition came.
enum Wrote {
    All,
    /// All that was durable when the write began. More has become durable since, and waits for its turn.
    Enough,
    /// A cut of the log is not durable yet.
    Later,
}

#[derive(Default)]
pub(super) struct Writing {
    /// Since when the oldest on the list waits.
    waits_since: Option<Instant>,
}

impl Writing {
    /// Until when what is on the list may wait for more.
    fn write_at(&self, ledger: &Ledger) -> Option<Instant> {
        let unwritten = ledger.dir.backlog.unwritten_bytes();
        let is_much = ledger.gathered_bytes_min() <= unwritten;
        let delay = if !is_much && ledger.pending.len() > PARTITIONS_MANY {
            WRITE_DELAY_MANY
        } else {
            WRITE_DELAY
        };
        self.waits_since.map(|since| since.plus(delay))
    }

    fn is_write_due(&self, ledger: &Ledger, now: Instant) -> bool {
        ledger.gathered_bytes_min() <= ledger.dir.backlog.unwritten_bytes()
            || self.write_at(ledger).is_some_and(|at| at <= now)
    }
}

impl Chore for Writing {
    fn due(&self, ledger: &Ledger, now: Instant) -> Option<Instant> {
        let has_work = !ledger.pending.is_empty();
        let not_before = ledger.retry_at.max(ledger.later_at);
        has_work.then(|| not_before.max(self.write_at(ledger)).unwrap_or(now))
    }

    fn runs(&self, _: &Ledger, _: Instant) -> bool {
        true
    }

    fn run(&mut self, ledger: &mut Ledger, moment: &mut Moment) -> Result<Flow, StoreError> {
        let is_hurried = ledger.dir.backlog.take_hurry();
        let not_before = ledger.retry_at.max(ledger.later_at);
        let may_write = not_before.is_none_or(|at| at <= moment.now);
        if !ledger.pending.is_empty() && may_write {
            self.waits_since.get_or_insert(moment.now);
            if moment.is_stopping || is_hurried || self.is_write_due(ledger, moment.now) {
                self.waits_since = None;
                ledger.write_pending(moment.now, moment.wall)?;
            }
        }
        Ok(Flow::Continue(()))
    }
}

impl Ledger {
    /// Bytes from which on a write of all on the list is worth its calls.
    pub(super) fn gathered_bytes_min(&self) -> isize {
        (self.pending.len() as isize * WRITE_BYTES_WANTED)
            .clamp(UNWRITTEN_BYTES_RING, self.dir.backlog.gathered_bytes_max())
    }

    /// Writes what the partitions on the list have when their turn comes, and evicts what is too much in memory then; stops at the first
    /// that the disk has no room for. True if it came to the end of the list. A partition that is appended to as fast as it is written
    /// stays on it: the others and all other chores come first.
    pub(super) fn write_pending(
        &mut self,
        now: Instant,
        wall: Timestamp,
    ) -> Result<bool, StoreError> {
        self.later_at = None;
        // The order alternates: where there are more files than may be open, the last ones of one time are the first ones of the next.
        self.is_backward = !self.is_backward;
        if self.is_backward {
            self.pending.make_contiguous().reverse();
        }
        for _ in 0..self.pending.len() {
            let Some(partition) = self.pending.front().cloned() else {
                break;
            };
            match self.write_out(&partition, wall) {
                Ok(Wrote::All) => drop(self.pending.pop_front()),
                Ok(Wrote::Enough) => self.pending.rotate_left(1),
                Ok(Wrote::Later) => {
                    self.later_at = Some(now.plus(COMMIT_RETRY));
                    return Ok(false);
                }
                Err(error) if error.is_full() => {
                    self.dir.set_full(true, &error.to_string());
                    self.retry_at = Some(now.plus(FULL_RETRY));
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        if self.retry_at.take().is_some() {
            // There was room for everything again.
            self.space_at = now;
        }
        Ok(true)
    }

    fn write_out(
        &mut self,
        partition: &Arc<Partition>,
        wall: Timestamp,
    ) -> Result<Wrote, StoreError> {
        // A partition that has moved is on the list of the directory that has it.
        let Some(home) = self.home_of(partition) else {
            return Ok(Wrote::All);
        };
        let mut goal = None;
        loop {
            let (batches, local_start, gaps_end) = {
                let mut state = partition.state.lock();
                if !Arc::ptr_eq(&state.home, &home) {
                    return Ok(Wrote::All);
                }
                if state.is_deleted {
                    drop(state);
                    self.drop_unwritten(partition, &home);
                    return Ok(Wrote::All);
                }
                // A cut takes batches from memory that a checkpoint would call written. The journal has it before that.
                if state.cuts.are_pending() {
                    drop(state);
                    self.commit_queued();
                    if partition.state.lock().cuts.are_pending() {
                        return Ok(Wrote::Later);
                    }
                    continue;
                }
                if state.has_left() {
                    drop(state);
                    self.forget_row(partition.key())?;
                    if self.residents.dismiss(partition) {
                        // Before a checkpoint that has no row for them.
                        self.remove_doomed()?;
                    }
                    continue;
                }
                if let Some(cut) = state.cuts.due() {
                    drop(state);
                    self.cut_files(partition, &home, cut, wall)?;
                    continue;
                }
                let points = state.progress.points();
                let batches = state.tail.unwritten(points.durable, WRITE_BYTES);
                let has_spent = home.store.get().is_some_and(Store::has_spent)
                    && !self.removals.keeps_spent(partition);
                if batches.is_empty() && !state.has_trimmed && !has_spent {
                    // The next commit puts the partition on the list again.
                    state.dirty = false;
                    let flush_at = state.flush_at;
                    drop(state);
                    // The flush may have been set since the partition came on the list, where a flush had ended the time before.
                    self.note_flush(partition, flush_at);
                    return Ok(Wrote::All);
                }
                let goal = *goal.get_or_insert(points.durable);
                if !batches.is_empty() && goal <= state.tail.written() {
                    return Ok(Wrote::Enough);
                }
                state.has_trimmed = false;
                (batches, state.local_start, state.gaps_end)
            };
            let store = partition.store_or_create(&home)?;
            store.expect_gaps(gaps_end)?;
            self.unsynced
                .entry((partition.topic_id, partition.index))
                .or_insert_with(|| Arc::clone(partition));
            if self.unsynced.len() >= VOLUME_SYNC_MIN {
                self.dir.files.expect_volume_sync();
            }
            let appended = store.append(&batches, wall);
            // A disk that got full on the way took the first of them.
            let end = store.log_end();
            let count = batches.partition_point(|batch| batch.next_offset() <= end);
            self.on_written(partition, &home, &batches[..count])?;
            appended?;
            store.advance_local_start(local_start);
            if store.has_spent() && !self.removals.keeps_spent(partition) {
                self.retire(partition, &home, store, wall)?;
            }
        }
    }

    fn on_written(
        &mut self,
        partition: &Arc<Partition>,
        home: &Home,
        batches: &[Batch],
    ) -> Result<(), StoreError> {
        if batches.is_empty() {
            return Ok(());
        }
        partition.note_written(home, batches)?;
        let mut state = partition.state.lock();
        // Batches behind a cut that came meanwhile are in the files until these are cut, and nobody counts them any more.
        let kept = match state.cuts.files_end() {
            Some(end) => batches.partition_point(|batch| batch.next_offset() <= end),
            None => batches.len(),
        };
        let batches = &batches[..kept];
        let Some(last) = batches.last() else {
            return Ok(());
        };
        let bytes: usize = batches.iter().map(Batch::held).sum();
        state.tail.on_written(last.next_offset());
        drop(state);
        self.dir.backlog.remove(bytes);
        let now = self.dir.env.clock.now();
        self.hot.push(partition, (last.next_offset(), bytes), now);
        self.hot.evict(self.dir.settings.hot_tail_bytes);
        Ok(())
    }

    fn retire(
        &mut self,
        partition: &Arc<Partition>,
        home: &Arc<Home>,
        store: &Store,
        wall: Timestamp,
    ) -> Result<(), StoreError> {
        let mut deleted = store.retire(store.local_start(), wall)?;
        let stopped_by = deleted.stopped_by.take();
        if !deleted.paths.is_empty() {
            let delay = u64::try_from(store.config().file_delete_delay_ms).unwrap_or(0);
            let at = self.dir.env.clock.now().plus(Duration::from_millis(delay));
            self.spent.push_back((at, Arc::clone(home), deleted));
        }
        match stopped_by {
            Some(error) if !error.is_full() && !is_passing(&error) => {
                env::tell!("old segments stay as yet: {error}");
                let now = self.dir.env.clock.now();
                self.removals.on_spent_stuck(partition, now);
                Ok(())
            }
            stopped_by => stopped_by.map_or(Ok(()), Err),
        }
    }
}

impl Partition {
    /// Takes note of batches that are in a segment file now.
    fn note_written(&self, home: &Home, batches: &[Batch]) -> Result<(), StoreError> {
        let Some(store) = home.store.get() else {
            return Ok(());
        };
        let mut derived = home.derived.lock();
        derived.note(batches, store)?;
        let end = derived.producers.end();
        let is_written = |txn: &mut AbortedTxn| txn.last_offset < end;
        let mut state = self.state.lock();
        while state.aborted.pop_front_if(is_written).is_some() {}
        Ok(())
    }
}
