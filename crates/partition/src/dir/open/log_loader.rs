//! One log on its way back at a start: its files as the checkpoint vouches for them, then what the journal adds.
//!
//! Owns the files of its partition until it becomes a [`Partition`]. Bytes that were durable and cannot be read become a [`Hole`], and the
//! log ends behind it even where nothing follows: an acknowledged offset is never given to another record. Batches that a full disk has no
//! room for stay in memory and become the partition's unwritten tail.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Disk, Env};
use log::checkpoint;
use log::config::LogConfig;
use log::journal::{Entry, Lost, Step, What};
use log::restart::Carried;
use log::store::{Known, Read, Store, StoreError};
use log::{Epochs, FilePool};
use model::{LeaderEpoch, Offset, PartitionIndex, Position, Timestamp};
use wire::Uuid;
use wire::records::{Batch, BatchError, Source};

use super::error::OpenError;
use crate::cuts::{FileCut, Marks};
use crate::derived::{self, Derived};
use crate::dir::durable::Key;
use crate::dir::names::{aside_name, restart_name};
use crate::dir::residents::Residents;
use crate::dir::rows;
use crate::partition::{Hole, Partition, Start};

/// The metadata's facts about a partition whose files or journal rounds were found.
#[derive(Clone)]
pub struct Found {
    pub topic: Arc<str>,
    pub epoch: LeaderEpoch,
    pub config: Arc<LogConfig>,
    /// Other brokers have replicas: what this one lost is fetched again.
    pub has_others: bool,
}

/// How much of a partition a directory has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub end: Offset,
    /// Offsets between the log start and the end that cannot be read.
    pub lost_count: i64,
}

/// One partition on its way back.
pub(super) struct Log {
    key: Key,
    pub(super) found: Found,
    pub(super) path: PathBuf,
    pub(super) store: Option<Store>,
    pub(super) log_start: Offset,
    local_start: Offset,
    /// The tier has everything up to here: what the files lack below is no loss.
    restart_point: Offset,
    /// Where the log restarts, or did, whose file no checkpoint covers.
    carried_at: Option<Offset>,
    committed: Offset,
    restarted_at: Offset,
    pub(super) derived: Derived,
    pub(super) epochs: Epochs,
    /// Lost offsets; the holes that the checkpoint knows come first.
    pub(super) holes: Vec<Hole>,
    holes_known: usize,
    /// Where the next batch is, if it is not at the end.
    gap_to: Option<Offset>,
    /// Below this offset there may be gaps between pending batches.
    gaps_end: Offset,
    /// Where the log was cut last, in a gap behind its last batch.
    goes_on_at: Offset,
    /// Where the files end, if no checkpoint says that and they verify to their end.
    sound_end: Option<Offset>,
    /// Where files that are not there yet begin, if in front of the first batch.
    begins_at: Option<Offset>,
    /// Batches that are not in the files yet.
    pending: Vec<Batch>,
    pending_bytes: usize,
    pub(super) is_changed: bool,
    /// True if some of what was pending is in the files.
    pub(super) is_written: bool,
    /// Set if the files cannot be read: `store` is another one then, at this path, for what the journal has.
    pub(super) unread: Option<(PathBuf, checkpoint::Row)>,
    /// True if the files cannot be read because their directory is not there.
    pub(super) is_missing: bool,
    /// True if the files are of no use to this broker, and may be set aside where other brokers have what is in them.
    pub(super) may_be_lost: bool,
}

/// How a log gets along with its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrote {
    All,
    /// No room: the rest waits in memory.
    Some,
}

/// Replayed batches are written in runs of this.
pub(super) const PENDING_BYTES_MAX: usize = 1 << 20;

impl Log {
    pub(super) fn new(
        key: Key,
        path: PathBuf,
        found: Found,
        row: Option<&checkpoint::Row>,
        holes: Vec<Hole>,
    ) -> Log {
        Log {
            key,
            epochs: Epochs::default(),
            derived: Derived::default(),
            store: None,
            log_start: row.map_or(Offset::ZERO, |row| row.log_start),
            local_start: row.map_or(Offset::ZERO, |row| row.local_start),
            restart_point: row.map_or(Offset::ZERO, |row| row.restart_point),
            carried_at: None,
            committed: row.map_or(Offset::ZERO, |row| row.committed),
            restarted_at: row.map_or(Offset::ZERO, |row| row.restarted_at),
            holes_known: holes.len(),
            holes,
            gap_to: None,
            gaps_end: Offset::ZERO,
            goes_on_at: Offset::ZERO,
            sound_end: None,
            begins_at: None,
            pending: Vec::new(),
            pending_bytes: 0,
            is_changed: false,
            is_written: false,
            unread: None,
            is_missing: false,
            may_be_lost: false,
            found,
            path,
        }
    }

    /// Opens a partition's files and cuts them back to the checkpoint: what lies behind it was not synced, and is in the journal.
    pub(super) fn open(
        env: &Env,
        files: &Arc<FilePool>,
        key: Key,
        path: PathBuf,
        found: Found,
        row: Option<&checkpoint::Row>,
        holes: Vec<Hole>,
    ) -> Result<Log, OpenError> {
        let mut log = Log::new(key, path, found, row, holes);
        let Some(row) = row.filter(|row| row.has_files) else {
            // A restart whose files never had room.
            if let Some(row) = row.filter(|row| row.log_start < row.restarted_at) {
                log.carry(row.restarted_at, &*env.disk)?;
            }
            return Ok(log);
        };
        let known = Known {
            local_start: row.local_start,
            log_end: row.log_end,
            active_base: row.active_base,
            active_len: row.active_len.0,
        };
        derived::cut_files(&*env.disk, &log.path, &known).map_err(|error| OpenError::Io {
            path: log.path.clone(),
            error,
        })?;
        let (store, state) =
            Store::open(files, &log.path, Arc::clone(&log.found.config), Some(known))?;
        store.belongs_to(key.0, key.1);
        if state.known_is_stale || !state.is_clean() {
            store.truncate_to(row.log_end)?;
        }
        // The files may have lost their begin, and their end. Files below a log start that is still to come from the journal may be
        // gone too: that part of a hole is in nobody's log.
        let start = row.local_start;
        let start = start.max(store.files_start().min(row.restart_point));
        store.advance_local_start(start);
        log.local_start = start;
        log.find_lost(start, store.files_start());
        log.find_lost(state.log_end, row.log_end);
        log.sound_end = (state.known_is_stale && state.damage.is_none()).then_some(state.log_end);
        log.derived = derived::load(env, &store, row, log.found.has_others)?;
        log.epochs = Epochs::clone(&store.epochs());
        log.store = Some(store);
        Ok(log)
    }

    /// Offsets `from..to` were durable, and the files do not have them.
    fn find_lost(&mut self, from: Offset, to: Offset) {
        let mut known = self.holes.iter();
        if from < to && !known.any(|hole| hole.from <= from && to <= hole.to) {
            self.holes.push(Hole { from, to });
        }
    }

    /// The next offset to give out: behind everything that is written, pending, lost or trimmed.
    fn end(&self) -> Offset {
        self.told_end().max(self.log_start)
    }

    pub(super) fn extent(&self) -> Extent {
        let end = self.end();
        let holes = self.holes.iter();
        let needed = self.log_start.max(self.restart_point);
        let lost = holes.map(|hole| (hole.to.0 - hole.from.max(needed).0).max(0));
        Extent {
            end,
            lost_count: match self.unread {
                Some(_) => end.0 - needed.0,
                None => lost.sum(),
            },
        }
    }

    pub(super) fn has_records(&self) -> bool {
        let is_stored = |store: &Store| store.files_start() < store.log_end();
        !self.pending.is_empty() || self.store.as_ref().is_some_and(is_stored)
    }

    /// End of everything written, pending or lost. The log start may be ahead of it, in the middle of a batch that is still to
    /// come: a checkpoint knows of trims that lie behind its point.
    fn told_end(&self) -> Offset {
        let batches = self.pending.last().map(|batch| batch.next_offset());
        let holes = self.holes.iter().map(|hole| hole.to).max();
        let known = batches.max(holes).unwrap_or(Offset::ZERO);
        let unread = self.unread.as_ref().map(|(_, row)| row.log_end);
        known
            .max(self.restarted_at)
            .max(self.restart_point)
            .max(self.goes_on_at)
            .max(self.written_end())
            .max(unread.unwrap_or(Offset::ZERO))
    }

    fn written_end(&self) -> Offset {
        self.store.as_ref().map_or(Offset::ZERO, Store::log_end)
    }

    pub(super) fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    pub(super) fn apply(&mut self, step: Step, disk: &dyn Disk) -> Result<(), OpenError> {
        match step {
            Step::Lost(Lost { end, .. }) => self.lose(end),
            Step::Entry(Entry { what, .. }) => match what {
                What::Trim { start } => {
                    self.log_start = self.log_start.max(start);
                    self.local_start = self.local_start.max(start);
                }
                What::Batch(batch) => {
                    if self.is_cut_by(&batch) {
                        self.cut(batch.base_offset(), disk)?;
                    }
                    self.take(batch);
                }
                What::Gap { to } => self.gap_to = Some(to),
                What::Cut { to, .. } => self.cut(to, disk)?,
                What::Restart {
                    log_start,
                    at,
                    epoch,
                } => self.restart((log_start, at), epoch, disk)?,
            },
        }
        Ok(())
    }

    /// True if the batch is of a later leader than all there is, and lies in front of the end: a cut between them is lost.
    fn is_cut_by(&self, batch: &Batch) -> bool {
        let latest = self.epochs.latest();
        batch.base_offset() < self.told_end()
            && latest.is_some_and(|latest| latest.epoch < batch.leader_epoch())
    }

    /// The log ends at `to` from here on. Files that cannot be read stay as they are, and are cut by the start that can.
    fn cut(&mut self, to: Offset, disk: &dyn Disk) -> Result<(), OpenError> {
        let is_behind = |batch: &mut Batch| to < batch.next_offset();
        while self.pending.pop_if(is_behind).is_some() {}
        self.pending_bytes = self.pending.iter().map(|batch| batch.size()).sum();
        // A loss that this start still knows was not set aside yet (see `Partition::cut_lost`), nor was what an unclean election had cut.
        let is_loss = |hole: &Hole| to == hole.from.max(self.log_start);
        let is_lost = to < self.committed || self.holes.iter().any(is_loss);
        if let (Some(store), true) = (&self.store, is_lost)
            && self.unread.is_none()
            && let Some(dir) = self.path.parent()
        {
            store.set_aside(to, &dir.join(aside_name(&self.found.topic, self.key, to)))?;
        }
        let is_kept = |hole: &Hole| hole.from < to;
        let known = self.holes.iter().take(self.holes_known);
        self.holes_known = known.filter(|hole| is_kept(hole)).count();
        self.holes.retain(is_kept);
        for hole in &mut self.holes {
            hole.to = hole.to.min(to);
        }
        if let Some(store) = &self.store {
            let is_longer = to < store.log_end();
            if is_longer {
                store.truncate_to(to)?;
            }
            // A crash can leave files that are cut already beside the states of producers of before.
            let knows_more = to < self.derived.producers.end();
            if (is_longer || knows_more) && self.unread.is_none() {
                self.derived.cut(disk, store, FileCut::To(to), None)?;
            }
        }
        if let Some((_, row)) = &mut self.unread
            && to < row.log_end
        {
            row.log_end = to;
            // The start that can read them walks the files, and cuts them here.
            row.active_len = Position(u64::MAX);
        }
        self.epochs.truncate_from_end(to);
        self.committed = self.committed.min(to);
        self.local_start = self.local_start.min(to);
        self.restart_point = self.restart_point.min(to);
        let stored = self.store.as_ref().map(Store::gaps_end);
        if to <= self.gaps_end.max(stored.unwrap_or(Offset::ZERO)) {
            // The files know this cut already, and what they seem to have lost is the gap in front of it.
            let end = self.sound_end;
            (self.holes).retain(|hole| Some(hole.from) != end || hole.to != to);
            self.goes_on_at = to;
        } else {
            self.goes_on_at = self.goes_on_at.min(to);
        }
        self.lose(to);
        Ok(())
    }

    /// The log restarts at `at`, empty.
    fn restart(
        &mut self,
        (log_start, at): (Offset, Offset),
        epoch: LeaderEpoch,
        disk: &dyn Disk,
    ) -> Result<(), OpenError> {
        self.pending.clear();
        self.pending_bytes = 0;
        self.holes.clear();
        self.holes_known = 0;
        let carries = log_start < at;
        if let Some(store) = &self.store {
            store.restart_at(at)?;
            if self.unread.is_none() {
                let cut = FileCut::Restart { at, carries };
                self.derived.cut(disk, store, cut, None)?;
            }
        }
        if self.is_missing {
            // The directory was removed with the log that ended here, and what was put aside of that log is not needed either.
            if let Some(store) = self.store.take() {
                let dir = store.dir().to_path_buf();
                drop(store);
                let removed = disk.remove_dir_all(&dir);
                removed.map_err(|error| OpenError::Io { path: dir, error })?;
            }
            (self.unread, self.is_missing, self.may_be_lost) = (None, false, false);
        }
        if let Some((_, row)) = &mut self.unread {
            // Nobody needs the files any more.
            row.has_files = false;
            (row.log_end, row.active_base, row.active_len) = (at, at, Position(0));
        }
        self.epochs = Epochs::default();
        self.epochs.assign(epoch, at);
        self.log_start = log_start;
        (self.local_start, self.committed, self.restarted_at) = (at, at, at);
        (self.goes_on_at, self.sound_end) = (Offset::ZERO, None);
        (self.restart_point, self.carried_at) = (Offset::ZERO, None);
        if carries {
            self.carry(at, disk)?;
        }
        Ok(())
    }

    /// The log goes on at `at` with what is known of records that the tier has in front.
    fn carry(&mut self, at: Offset, disk: &dyn Disk) -> Result<(), OpenError> {
        self.restart_point = at;
        let Some(dir) = self.path.parent() else {
            return Ok(());
        };
        let path = dir.join(restart_name(self.key, at));
        let carried = Carried::read(disk, &path, at);
        let Some(carried) = carried.map_err(|error| OpenError::Io {
            path: path.clone(),
            error,
        })?
        else {
            tracing::error!(target: env::logs::RECOVERY,
                "{}: the epochs and producers of records in front of offset {at} are damaged: they are taken for unknown",
                path.display()
            );
            return Ok(());
        };
        self.carried_at = Some(at);
        self.begins_at = Some(at);
        self.epochs = carried.epochs;
        self.derived.producers = carried.producers;
        Ok(())
    }

    fn take(&mut self, batch: Batch) {
        // The files already hold the batch. A batch below the log start counts: its producers and the ends of its transactions do.
        if batch.base_offset() < self.told_end() {
            return;
        }
        match self.gap_to.take() {
            Some(to) if to == batch.base_offset() => {
                if self.pending.is_empty() {
                    self.begins_at = Some(self.end());
                }
                self.gaps_end = to;
            }
            Some(_) | None => self.lose(batch.base_offset()),
        }
        self.epochs
            .assign(batch.leader_epoch(), batch.base_offset());
        self.pending_bytes += batch.size();
        self.pending.push(batch);
    }

    /// Records that an earlier start put aside, because it could not read the files, come behind them.
    pub(super) fn take_back(&mut self, rescued: &Store) -> Result<(), OpenError> {
        for batch in read_all(rescued)? {
            self.take(batch);
        }
        self.is_changed = true;
        Ok(())
    }

    /// Leaves the log's files alone: what is pending, and what comes, is written to `path`, where `store` has some of it already.
    pub(super) fn do_without_files(
        &mut self,
        path: PathBuf,
        row: checkpoint::Row,
        store: Option<Store>,
    ) {
        let end = store.as_ref().map_or(Offset::ZERO, Store::log_end);
        self.pending.retain(|batch| end <= batch.base_offset());
        self.pending_bytes = self.pending.iter().map(|batch| batch.size()).sum();
        (self.derived, self.epochs) = Default::default();
        self.store = store;
        self.unread = Some((path, row));
    }

    /// Gives up the files, which are where no start takes them for the partition's: all that they had is a hole.
    pub(super) fn give_up_files(&mut self) {
        let end = self.end();
        self.pending.clear();
        (self.pending_bytes, self.holes_known) = (0, 0);
        (self.derived, self.epochs) = Default::default();
        (self.store, self.unread) = (None, None);
        (self.is_missing, self.is_changed) = (false, false);
        self.local_start = self.log_start.max(self.restart_point);
        self.holes = vec![Hole {
            from: self.local_start,
            to: end,
        }];
        self.holes.retain(|hole| hole.from < hole.to);
    }

    /// Acknowledged offsets up to `end` have no bytes.
    fn lose(&mut self, end: Offset) {
        let hole = Hole {
            from: self.end(),
            to: end,
        };
        if hole.from < hole.to {
            self.holes.push(hole);
        }
    }

    /// Writes all that is pending and fits the disk.
    pub(super) fn write(
        &mut self,
        files: &Arc<FilePool>,
        wall: Timestamp,
    ) -> Result<Wrote, StoreError> {
        let appended = self.append(files, wall);
        if let Some(store) = &self.store {
            // A disk that got full on the way took the first of them.
            let end = store.log_end();
            let count = self
                .pending
                .partition_point(|batch| batch.next_offset() <= end);
            if self.unread.is_none() {
                self.derived.note(&self.pending[..count], store)?;
            }
            self.is_written |= count > 0;
            self.pending.drain(..count);
            self.pending_bytes = self.pending.iter().map(|batch| batch.size()).sum();
            let is_gap = self.pending.is_empty() && store.log_end() < self.goes_on_at;
            if is_gap && self.unread.is_none() {
                store.expect_gaps(self.gaps_end)?;
                if self.goes_on_at <= store.gaps_end() {
                    store.go_on_at(self.goes_on_at);
                }
            }
            store.advance_local_start(self.local_start);
        }
        match appended {
            Ok(()) => Ok(Wrote::All),
            Err(error) if error.is_full() => Ok(Wrote::Some),
            Err(error) => Err(error),
        }
    }

    fn append(&mut self, files: &Arc<FilePool>, wall: Timestamp) -> Result<(), StoreError> {
        let first = self.pending.first().map(|first| first.base_offset());
        // Files are made for the first batch, or to keep what the log goes on with.
        let Some(begin) = first.map_or(self.carried_at, |first| {
            Some(self.begins_at.unwrap_or(first))
        }) else {
            return Ok(());
        };
        let store = match &self.store {
            Some(store) => store,
            None => {
                let config = Arc::clone(&self.found.config);
                let path = self.unread.as_ref().map_or(&self.path, |(path, _)| path);
                let store = Store::create(files, path, config, begin)?;
                store.belongs_to(self.key.0, self.key.1);
                self.store.insert(store)
            }
        };
        store.expect_gaps(self.gaps_end)?;
        store.append(&self.pending, wall).map(drop)
    }

    /// A checkpoint covers the files that the log goes on with: the file of its restart is of no use any more.
    pub(super) fn forget_carried(&mut self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        match self.carried_at.take_if(|_| self.store.is_some()) {
            Some(at) => disk.remove_file(&dir.join(restart_name(self.key, at))),
            None => Ok(()),
        }
    }

    /// A snapshot of producers at or below is needed for cuts, where the tier has what the files lack.
    pub(super) fn needed_from(&self) -> Option<Offset> {
        (Offset::ZERO < self.restart_point).then_some(self.committed)
    }

    /// Where the log restarts with a file that no checkpoint covers yet.
    pub(super) fn carried_at(&self) -> Option<Offset> {
        self.carried_at
    }

    /// The end of what the last checkpoint knows to be committed.
    pub(super) fn committed(&self) -> Offset {
        self.committed
    }

    /// All there is, from the files and from memory.
    pub(super) fn batches(&self) -> Result<Vec<Batch>, OpenError> {
        let mut batches = match &self.store {
            Some(store) => read_all(store)?,
            None => Vec::new(),
        };
        batches.extend(self.pending.iter().cloned());
        Ok(batches)
    }

    pub(super) fn row(
        &self,
        (topic, partition): (Uuid, PartitionIndex),
    ) -> Option<checkpoint::Row> {
        if let Some((_, row)) = &self.unread {
            return Some(checkpoint::Row {
                log_start: self.log_start,
                local_start: self.local_start,
                restart_point: self.restart_point,
                committed: self.committed,
                restarted_at: self.restarted_at,
                ..*row
            });
        }
        let known = self.store.as_ref().map(Store::known);
        let has_producers = !self.derived.producers.is_empty();
        let marks = Marks {
            log_start: self.log_start,
            local_start: self.local_start,
            restart_point: self.restart_point,
            committed: self.committed,
            restarted_at: self.restarted_at,
        };
        rows::row(topic, partition, marks, known, has_producers)
    }

    /// Logs what this start found missing above the log start: segments below a log start that the journal has are gone anyway.
    fn tell_holes(&self) {
        let found = self.holes.iter().skip(self.holes_known);
        for hole in found.filter(|hole| self.log_start < hole.to) {
            tracing::error!(target: env::logs::RECOVERY,
                "{}: offsets {} to {} were durable and are damaged",
                self.path.display(),
                hole.from.max(self.log_start),
                hole.to
            );
        }
    }

    /// The tier has what is missing below the restart point: the local log begins behind it.
    pub(super) fn forgive_holes(&mut self) {
        let (from, point) = (self.log_start, self.restart_point);
        let forgiven = self
            .holes
            .iter()
            .filter(|hole| from < hole.to && hole.from < point);
        let start = forgiven.map(|hole| hole.to.min(point)).max();
        self.local_start = self.local_start.max(start.unwrap_or(Offset::ZERO));
        for hole in &mut self.holes {
            hole.from = hole.from.max(point);
        }
        self.holes.retain(|hole| hole.from < hole.to);
        if let Some(store) = &self.store {
            store.advance_local_start(self.local_start);
        }
    }

    pub(super) fn into_partition(
        self,
        (topic, index): (Uuid, PartitionIndex),
        residents: &Arc<Residents>,
        is_unsettled: bool,
    ) -> Arc<Partition> {
        self.tell_holes();
        let log_end = self.end();
        let unread = self.unread.as_ref().and_then(|_| self.row((topic, index)));
        // Epochs of the log have begun, whatever is known of the metadata.
        let latest = self.epochs.latest().map(|latest| latest.epoch);
        let start = Start {
            log_start: self.log_start,
            local_start: self.local_start,
            restart_point: self.restart_point,
            carried_at: self.carried_at.unwrap_or(Offset::ZERO),
            restarted_at: self.restarted_at,
            committed: self.committed,
            log_end,
            epoch: latest.map_or(self.found.epoch, |latest| latest.max(self.found.epoch)),
            epochs: self.epochs,
            derived: self.derived,
            config: self.found.config,
            store: self.store.filter(|_| unread.is_none()),
            holes: self.holes,
            unwritten: self.pending,
            gaps_end: self.gaps_end,
            is_unsettled: is_unsettled && self.is_changed && unread.is_none(),
            unread,
        };
        residents.create(topic, self.found.topic, index, start)
    }
}

fn read_all(store: &Store) -> Result<Vec<Batch>, OpenError> {
    let mut batches = Vec::new();
    let mut from = store.files_start();
    while let Read::Slice(slice) = store.read(from, store.log_end(), PENDING_BYTES_MAX)? {
        let bytes = slice.read().map_err(|error| OpenError::Io {
            path: store.dir().to_path_buf(),
            error,
        })?;
        let before = from;
        for batch in Batch::cut(&bytes, Source::Log) {
            let batch = match batch {
                Err(BatchError::Truncated { .. }) => break,
                batch => batch?,
            };
            if batch.next_offset() > from {
                from = batch.next_offset();
                batches.push(batch);
            }
        }
        if from == before {
            return Err(OpenError::Damaged {
                path: store.dir().to_path_buf(),
                what: format!("no batch at offset {from}"),
            });
        }
    }
    Ok(batches)
}
