//! Checkpoints: the segment files alone become sufficient up to a point of the journal, and the pieces below it free.
//!
//! Committed batches are written, the files are synced, one file says so, and the journal lets go. A volume with many changed files takes
//! long to sync, so the syncer does it while the segment writer continues. Invariants: what a checkpoint says was true when its sync began,
//! and bytes written since are behind it; one is under way at a time, so none is stored over a later one; journal pieces are let go only
//! when it is stored.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use env::Turn;
use log::Syncing;
use log::checkpoint::{self, Checkpoint, LoadError};
use log::store::{Store, StoreError};
use model::{Instant, Offset, Position, Timestamp};

use super::chore::{Chore, Flow, Moment};
use super::ledger::{Covered, Ledger, is_passing};
use crate::dir::durable::Key;
use crate::dir::flight::Point;
use crate::dir::log_dir::VolumeSync;
use crate::dir::names::restart_name;
use crate::partition::{Home, Partition};
use crate::sync::Ordering;

/// Continues a checkpoint that was begun, before anything else is written.
pub(super) struct GoOnWithCheckpoint;

impl Chore for GoOnWithCheckpoint {
    /// The turn that began it asks for another.
    fn due(&self, _: &Ledger, _: Instant) -> Option<Instant> {
        None
    }

    fn runs(&self, ledger: &Ledger, _: Instant) -> bool {
        ledger.prepared.is_some()
    }

    fn run(&mut self, ledger: &mut Ledger, moment: &mut Moment) -> Result<Flow, StoreError> {
        moment.went_on = ledger.go_on_with_checkpoint()?;
        Ok(Flow::Continue(()))
    }
}

/// Ends the checkpoint under way when its sync has ended.
pub(super) struct EndCheckpoint;

impl Chore for EndCheckpoint {
    /// The syncer rings.
    fn due(&self, _: &Ledger, _: Instant) -> Option<Instant> {
        None
    }

    fn runs(&self, ledger: &Ledger, _: Instant) -> bool {
        ledger.under_way.is_some()
    }

    fn run(&mut self, ledger: &mut Ledger, _: &mut Moment) -> Result<Flow, StoreError> {
        ledger.end_checkpoint()?;
        Ok(Flow::Continue(()))
    }
}

/// Begins a checkpoint when the journal is large or somebody wants one, and takes the last one of all.
pub(super) struct BeginCheckpoint;

impl Chore for BeginCheckpoint {
    /// The events that make a checkpoint due ring.
    fn due(&self, _: &Ledger, _: Instant) -> Option<Instant> {
        None
    }

    fn runs(&self, _: &Ledger, _: Instant) -> bool {
        true
    }

    fn run(&mut self, ledger: &mut Ledger, moment: &mut Moment) -> Result<Flow, StoreError> {
        let dir = &ledger.dir;
        let point = *dir.point.lock();
        if ledger.under_way.is_some() {
            // The checkpoint under way may have begun too early for the one who wants one.
            return Ok(if moment.is_stopping {
                Flow::Break(Turn::Sleep { until: None })
            } else {
                Flow::Continue(())
            });
        }
        let is_large = point.live_bytes >= dir.settings.checkpoint_bytes;
        // The journal may be what fills a full disk: no append will come that would make a checkpoint due.
        let is_short = dir.is_full() && ledger.retry_at.is_none();
        let is_wanted = dir.checkpoint_wanted.swap(false, Ordering::AcqRel);
        if moment.is_stopping {
            ledger.checkpoint(moment.wall)?;
            ledger.trim_segments();
            return Ok(Flow::Break(Turn::Done));
        }
        let has_news =
            point.sequence > ledger.checkpointed || dir.has_new_row.load(Ordering::Acquire);
        let is_due = (is_large || is_short || is_wanted) && has_news;
        // The checkpoint that ended may have found no room: then there is none for another.
        if is_due && !moment.went_on && ledger.begin_checkpoint(moment.wall)? {
            ledger.dir.has_new_row.store(false, Ordering::Release);
            return Ok(Flow::Break(Turn::Again));
        }
        Ok(Flow::Continue(()))
    }
}

impl Ledger {
    /// Begins to make the segment files alone sufficient for everything up to the journal's present point; true if the disk had room for
    /// that. The rest is another turn: what is committed and trimmed between the two, the simulator does too.
    pub(super) fn begin_checkpoint(&mut self, wall: Timestamp) -> Result<bool, StoreError> {
        let point: Point = *self.dir.point.lock();
        let is_prepared = self.prepare(wall)?;
        self.prepared = is_prepared.then_some(point);
        Ok(is_prepared)
    }

    /// Continues a checkpoint that was begun, before anything else is written; with many files the syncer does the longest part of it. True
    /// if there was one.
    pub(super) fn go_on_with_checkpoint(&mut self) -> Result<bool, StoreError> {
        let Some(point) = self.prepared.take() else {
            return Ok(false);
        };
        let covered = self.cover(point);
        match covered.syncing {
            Syncing::Now => drop(self.sync_and_store(covered)?),
            Syncing::WithVolume => {
                *self.dir.volume_sync.lock() = VolumeSync::Asked;
                self.dir.syncer_bell.ring();
                self.under_way = Some(covered);
            }
        }
        Ok(true)
    }

    /// Ends the checkpoint under way if its sync has ended, or waits for us to do it.
    pub(super) fn end_checkpoint(&mut self) -> Result<(), StoreError> {
        let mut stage = self.dir.volume_sync.lock();
        let is_ours = match &*stage {
            VolumeSync::Done(_) => true,
            // The syncer may have ended.
            VolumeSync::Asked => self.is_stopping(),
            VolumeSync::Idle | VolumeSync::Running => false,
        };
        let Some(covered) = self.under_way.take_if(|_| is_ours) else {
            return Ok(());
        };
        let ended = std::mem::take(&mut *stage);
        drop(stage);
        match ended {
            VolumeSync::Done(synced) => self.store_checkpoint(covered, synced).map(drop),
            _ => self.sync_and_store(covered).map(drop),
        }
    }

    /// A whole checkpoint, unless nothing has changed.
    pub(super) fn checkpoint(&mut self, wall: Timestamp) -> Result<(), StoreError> {
        let point: Point = *self.dir.point.lock();
        let has_new_row = self.dir.has_new_row.swap(false, Ordering::AcqRel);
        if point.sequence == self.checkpointed && self.unsynced.is_empty() && !has_new_row {
            return Ok(());
        }
        self.checkpoint_anyway(point, wall).map(drop)
    }

    /// Takes a checkpoint though nothing may have changed. True if one was stored: a full disk may have no room for it. No other may be under way.
    pub(super) fn checkpoint_anyway(
        &mut self,
        point: Point,
        wall: Timestamp,
    ) -> Result<bool, StoreError> {
        if !self.prepare(wall)? {
            return Ok(false);
        }
        let covered = self.cover(point);
        self.sync_and_store(covered)
    }

    /// Writes all that was committed up to the journal's point of a moment ago. False when the disk has no room for that.
    fn prepare(&mut self, wall: Timestamp) -> Result<bool, StoreError> {
        // Everything committed up to the point is on the list or written: commits notify their partitions before the point moves.
        self.take_dirty()?;
        let all = self.write_pending(self.dir.env.clock.now(), wall)?;
        if !all || self.removals.has_waiting() {
            return Ok(false);
        }
        match self.write_derived() {
            Ok(()) => Ok(true),
            Err(error) => self.unless_full(error).map(|()| false),
        }
    }

    /// Writes what lies beside the segments. Comes before the syncs, because a full disk may stop it and it can be repeated; a
    /// sync cannot.
    fn write_derived(&self) -> Result<(), StoreError> {
        let syncing = self.syncing();
        for partition in self.unsynced.values().filter(|of| !of.is_deleted()) {
            let home = self.home_of(partition);
            let store = home.as_ref().and_then(|home| home.store.get());
            if let (Some(home), Some(store)) = (&home, store) {
                partition.store_derived(home, syncing)?;
                store.write_long_indexes()?;
            }
        }
        Ok(())
    }

    /// Each file is synced while there are few partitions, the volume when there are many.
    fn syncing(&self) -> Syncing {
        if self.dir.files.expects_volume_sync() {
            Syncing::WithVolume
        } else {
            Syncing::Now
        }
    }

    /// The content of the files, which is all up to the point. A log start may be ahead of that: the journal has the trim, and the
    /// batches that it went through.
    fn cover(&mut self, point: Point) -> Covered {
        // First those that are about to live here: when one of them is here now, the list that is taken after has it.
        let guests: BTreeMap<_, _> = self.residents.guests.lock().clone();
        let partitions = self.residents.all();
        let mut rows: Vec<_> = partitions
            .iter()
            .filter_map(|partition| partition.checkpoint_row(&*self.home_of(partition)?))
            .collect();
        let has_row = |key: &Key| (rows.iter()).any(|row| (row.topic, row.partition) == *key);
        let of_guests = guests.iter().filter(|(key, _)| !has_row(key));
        let of_guests: Vec<_> = of_guests.filter_map(|(_, guest)| guest.row).collect();
        rows.extend(of_guests);
        let unsynced = std::mem::take(&mut self.unsynced);
        let covered_of = |partition: &Arc<Partition>| {
            let home = self.home_of(partition)?;
            let covered = home.store.get()?.before_volume_sync();
            Some((home, covered))
        };
        Covered {
            point,
            rows,
            lost: self.lost(),
            stores: unsynced.values().filter_map(covered_of).collect(),
            partitions: unsynced,
            syncing: self.syncing(),
            closed: self.dir.files.closed_unsynced(),
        }
    }

    /// Acknowledged offsets that cannot be read, of all partitions; the next start must report them too.
    fn lost(&self) -> Vec<checkpoint::Lost> {
        let guests: Vec<_> = (self.residents.guests.lock().values())
            .map(|guest| Arc::clone(&guest.partition))
            .collect();
        let mut partitions = self.residents.partitions.lock().clone();
        for guest in guests {
            partitions.insert((guest.topic_id, guest.index), guest);
        }
        partitions.values().flat_map(|of| of.lost()).collect()
    }

    fn sync_and_store(&mut self, covered: Covered) -> Result<bool, StoreError> {
        let synced = match covered.syncing {
            Syncing::WithVolume => self.dir.sync_volume(),
            Syncing::Now => match self.sync_files(&covered) {
                Ok(()) => self.dir.env.disk.sync_dir(&self.dir.path),
                Err(error) if is_passing(&error) => return self.put_back(covered, error),
                Err(error) => return Err(error),
            },
        };
        self.store_checkpoint(covered, synced)
    }

    fn sync_files(&self, covered: &Covered) -> Result<(), StoreError> {
        let partitions = covered.partitions.values();
        for partition in partitions.filter(|of| !of.is_deleted()) {
            let home = self.home_of(partition);
            if let Some(store) = home.as_ref().and_then(|of| of.store.get()) {
                store.sync()?;
            }
        }
        Ok(())
    }

    /// Everything covered is synced, or is not: the last step of a checkpoint.
    fn store_checkpoint(
        &mut self,
        covered: Covered,
        synced: io::Result<()>,
    ) -> Result<bool, StoreError> {
        match synced.map_err(|error| self.io(error)) {
            Err(error) if is_passing(&error) => return self.put_back(covered, error),
            synced => synced?,
        }
        if covered.syncing == Syncing::WithVolume {
            for (home, covered) in &covered.stores {
                if let Some(store) = home.store.get() {
                    store.on_volume_synced(covered);
                }
            }
            self.dir.files.on_volume_synced(covered.closed);
        }
        let checkpoint = Checkpoint {
            sequence: covered.point.sequence,
            checksum: covered.point.checksum,
            piece: covered.point.piece,
            rows: covered.rows,
            lost: covered.lost,
        };
        if let Err(error) = checkpoint.store(&*self.dir.env.disk, &self.dir.path) {
            return self.unless_full(self.io(error)).map(|()| false);
        }
        self.note_rows(&checkpoint.rows);
        self.checkpointed = checkpoint.sequence;
        let release_to = &self.dir.release_to;
        release_to.store(checkpoint.sequence, Ordering::Relaxed);
        let now = self.dir.env.clock.now();
        self.dir.counters.on_checkpoint(now);
        Ok(true)
    }

    /// A replica has left, and its files are removed: one that comes back under the same id gives their names to other records.
    pub(super) fn forget_row(&mut self, key: Key) -> Result<(), StoreError> {
        self.change_rows(|rows| {
            let before = rows.len();
            rows.retain(|row| (row.topic, row.partition) != key);
            rows.len() < before
        })
    }

    /// The files of a partition are cut: from `active_base` on, where nothing is written yet, they are to hold other records under the names
    /// that a checkpoint vouches for. Offsets that it knows and the files lack are lost to a start until it replays the cut.
    pub(super) fn trim_row(&mut self, key: Key, active_base: Offset) -> Result<(), StoreError> {
        self.change_rows(|rows| {
            let own = rows
                .iter_mut()
                .find(|row| (row.topic, row.partition) == key);
            let own = own.filter(|row| row.has_files && active_base <= row.active_base);
            own.is_some_and(|row| {
                (row.active_base, row.active_len) = (active_base, Position(0));
                true
            })
        })
    }

    /// Changes the rows of the stored checkpoint, durably, and of the one under way; `change` returns true if it changed any.
    fn change_rows(
        &mut self,
        change: impl Fn(&mut Vec<checkpoint::Row>) -> bool,
    ) -> Result<(), StoreError> {
        if let Some(covered) = &mut self.under_way {
            change(&mut covered.rows);
        }
        let disk = &*self.dir.env.disk;
        let stored = Checkpoint::load(disk, &self.dir.path);
        let stored = stored.map_err(|error| match error {
            LoadError::Io(error) => self.io(error),
            error => self.io(io::Error::other(error)),
        })?;
        let Some(mut stored) = stored else {
            return Ok(());
        };
        if !change(&mut stored.rows) {
            return Ok(());
        }
        (stored.store(disk, &self.dir.path)).map_err(|error| self.io(error))
    }

    /// Nothing was synced, nor lost: the next checkpoint covers it.
    fn put_back(&mut self, covered: Covered, error: StoreError) -> Result<bool, StoreError> {
        for (key, partition) in covered.partitions {
            self.unsynced.entry(key).or_insert(partition);
        }
        self.unless_full(error).map(|()| false)
    }

    /// Segments below the active ones of a checkpoint stay closed, so compaction may have them; and what the tier can stand for may go.
    fn note_rows(&self, rows: &[checkpoint::Row]) {
        let partitions = self.residents.partitions.lock();
        for row in rows.iter().filter(|row| row.has_files) {
            if let Some(partition) = partitions.get(&(row.topic, row.partition))
                && let Some(home) = self.home_of(partition)
            {
                // The log may have been cut since the checkpoint began.
                let segments = home.store.get().map(Store::segments);
                let now = segments.and_then(|of| of.last().map(|last| last.base()));
                let base = now.map_or(row.active_base, |now| now.min(row.active_base));
                home.checkpointed.store(base.0 as u64, Ordering::Release);
                let forgiven = row.restart_point.0 as u64;
                home.forgiven.store(forgiven, Ordering::Release);
                self.forget_carried(row, &home);
            }
        }
    }

    /// Removes the file of a restart that a checkpoint covers. One that stays is removed by the next start.
    fn forget_carried(&self, row: &checkpoint::Row, home: &Home) {
        let at = row.restarted_at.0 as u64;
        let (now, then) = (Ordering::AcqRel, Ordering::Acquire);
        let is_covered = 0 < at && home.carried_at.compare_exchange(at, 0, now, then).is_ok();
        if is_covered {
            let name = restart_name((row.topic, row.partition), row.restarted_at);
            let removed = self.dir.env.disk.remove_file(&self.dir.path.join(name));
            removed.unwrap_or_default();
        }
    }

    /// A checkpoint that found no room is taken later.
    fn unless_full(&self, error: StoreError) -> Result<(), StoreError> {
        if !error.is_full() {
            return Err(error);
        }
        self.dir.set_full(true, &error.to_string());
        Ok(())
    }
}

impl Partition {
    /// Stores what is derived from the written batches, for a checkpoint.
    fn store_derived(&self, home: &Home, syncing: Syncing) -> Result<(), StoreError> {
        let Some(store) = home.store.get() else {
            return Ok(());
        };
        let mut derived = home.derived.lock();
        let (epochs, needed_from) = {
            let mut state = self.state.lock();
            let is_due =
                !derived.are_epochs_stored || std::mem::take(&mut state.are_epochs_changed);
            let tiers = Offset::ZERO < state.restart_point;
            let committed = state.progress.points().committed;
            (
                is_due.then(|| state.epochs.clone()),
                tiers.then_some(committed),
            )
        };
        let disk = &*home.dir.env.disk;
        let stored = derived.store(
            disk,
            store.dir(),
            self.topic_id,
            epochs.as_ref(),
            needed_from,
            syncing,
        );
        if stored.is_err() && epochs.is_some() {
            // The disk may only have been full; then it is tried again.
            self.state.lock().are_epochs_changed = true;
        }
        stored.map_err(|error| StoreError::Io {
            path: store.dir().to_path_buf(),
            error,
        })
    }
}
