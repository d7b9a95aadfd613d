//! The segment writer of a log directory: what is committed goes to its segment files without haste.
//!
//! Writes committed batches from memory to the page cache, evicts them from memory later, and takes checkpoints. Also retention
//! and the removal of deleted partitions, so that each partition's files have one writer. Never touches a batch that is not
//! committed.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use env::{Turn, Worker};
use log::journal::lacks_descriptors;
use log::store::{Deleted, Store, StoreError};
use model::{Instant, Offset, Timestamp};
use wire::records::Batch;

use super::announce::Announce;
use super::backlog::{UNWRITTEN_BYTES_GATHERED_MAX, UNWRITTEN_BYTES_RING};
use super::checkpoints::Covered;
use super::durable::Key;
use super::log_dir::{Commit, LogDir, Point};
use super::names::grave_name;
use super::residents::{Doomed, Residents};
use crate::partition::{Home, Partition};
use crate::sync::Ordering;

/// Small appends are gathered for this long before they are written.
const WRITE_DELAY: Duration = Duration::from_millis(250);
/// And this long when many partitions have little each.
const WRITE_DELAY_MANY: Duration = Duration::from_secs(2);
/// More partitions than this are many.
const PARTITIONS_MANY: usize = 100;
/// Bytes that a write to a segment should bring on average: each costs some microseconds and a place on the disk.
const WRITE_BYTES_WANTED: isize = 16 << 10;
/// Batches handed to one segment write.
const WRITE_BYTES: usize = 1 << 20;
/// How soon a write that found the disk full is tried again.
const FULL_RETRY: Duration = Duration::from_secs(1);
/// How often the free space is looked at.
const SPACE_CHECK: Duration = Duration::from_secs(2);
/// With this many partitions to sync, one sync of the volume is cheaper than those of the files.
pub(super) const VOLUME_SYNC_MIN: usize = 16;

/// A written span that is still in memory.
struct Hot {
    partition: Arc<Partition>,
    up_to: Offset,
    bytes: usize,
}

pub struct SegmentWriter {
    pub(super) residents: Arc<Residents>,
    pub(super) dir: Arc<LogDir>,
    announce: Arc<dyn Announce>,
    pub(super) pending: VecDeque<Arc<Partition>>,
    is_backward: bool,
    hot: VecDeque<Hot>,
    hot_bytes: usize,
    /// Written since the last checkpoint began.
    pub(super) unsynced: BTreeMap<Key, Arc<Partition>>,
    /// Up to where a checkpoint was begun that nothing tells of yet.
    pub(super) prepared: Option<Point>,
    /// A checkpoint whose files the syncer syncs.
    pub(super) under_way: Option<Covered>,
    unlinks: VecDeque<(Instant, Arc<Home>, Deleted)>,
    /// Since when the oldest on the list waits.
    waits_since: Option<Instant>,
    /// Relaxed partitions whose `flush.ms` runs; one entry each at most.
    flushes: BTreeMap<Key, (Instant, Arc<Partition>)>,
    retry_at: Option<Instant>,
    space_at: Instant,
    /// Bytes of journal pieces among which none was large enough for the round that waits.
    spare_tried: u64,
    retention_at: Instant,
    producers_at: Instant,
    pub(super) checkpointed: u64,
}

impl SegmentWriter {
    pub fn new(residents: Arc<Residents>, announce: Arc<dyn Announce>) -> SegmentWriter {
        let dir = Arc::clone(&residents.dir);
        let now = dir.env.clock.now();
        let checkpointed = dir.release_to.load(Ordering::Relaxed);
        let retention_at = now.plus(dir.settings.retention_check);
        let producers_at = now.plus(dir.settings.producer_expiration_check);
        SegmentWriter {
            residents,
            dir,
            announce,
            pending: VecDeque::new(),
            is_backward: false,
            hot: VecDeque::new(),
            hot_bytes: 0,
            unsynced: BTreeMap::new(),
            prepared: None,
            under_way: None,
            unlinks: VecDeque::new(),
            waits_since: None,
            flushes: BTreeMap::new(),
            retry_at: None,
            space_at: now,
            spare_tried: 0,
            retention_at,
            producers_at,
            checkpointed,
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.dir.stopping.load(Ordering::Acquire)
    }

    /// Takes the list of partitions to write.
    pub(super) fn take_dirty(&mut self) -> Result<(), StoreError> {
        let listed = self.dir.backlog.take_listed();
        let dirty = self.residents.named(&listed);
        for partition in &dirty {
            let flush_at = partition.state.lock().flush_at;
            self.note_flush(partition, flush_at);
        }
        // In this order: a topic that was deleted and made again (1) may be on the list already (2); its files would get into
        // the old directory, which then goes (3).
        let removed = self.remove_doomed();
        if removed.is_err() {
            self.dir.backlog.put_back(listed);
            return removed;
        }
        self.pending.extend(dirty);
        Ok(())
    }

    /// The oldest record that is not synced is to be at `at`.
    fn note_flush(&mut self, partition: &Arc<Partition>, at: Option<Instant>) {
        // Ten years are as good as never, and leave room to add.
        if let Some(at) = at.filter(|at| at.0 < u64::MAX / 2) {
            let key = (partition.topic_id, partition.index);
            self.flushes.insert(key, (at, Arc::clone(partition)));
        }
    }

    /// Writes what the partitions on the list have, and lets go of what is too much in memory then; stops at the first that the
    /// disk has no room for.
    pub(super) fn write_pending(
        &mut self,
        now: Instant,
        wall: Timestamp,
    ) -> Result<(), StoreError> {
        // To and fro: of more files than may be open, the last ones of one time are the first ones of the next.
        self.is_backward = !self.is_backward;
        if self.is_backward {
            self.pending.make_contiguous().reverse();
        }
        while let Some(partition) = self.pending.front().cloned() {
            match self.write_out(&partition, wall) {
                Ok(()) => {
                    self.pending.pop_front();
                    self.evict();
                }
                Err(error) if error.is_full() => {
                    self.dir.set_full(true, &error.to_string());
                    self.retry_at = Some(now.plus(FULL_RETRY));
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        if self.retry_at.take().is_some() {
            // There was room for everything again.
            self.space_at = now;
        }
        Ok(())
    }

    fn write_out(&mut self, partition: &Arc<Partition>, wall: Timestamp) -> Result<(), StoreError> {
        // What has moved is on the list of the directory that has it.
        let Some(home) = self.home_of(partition) else {
            return Ok(());
        };
        loop {
            let (batches, log_start) = {
                let mut state = partition.state.lock();
                if !Arc::ptr_eq(&state.home, &home) {
                    return Ok(());
                }
                if state.is_deleted {
                    drop(state);
                    self.drop_unwritten(partition, &home);
                    return Ok(());
                }
                let batches = state.tail.unwritten(state.high_watermark, WRITE_BYTES);
                let has_spent = home.store.get().is_some_and(Store::has_spent);
                if batches.is_empty() && !state.has_trimmed && !has_spent {
                    // From here on the next commit puts it on the list again.
                    state.dirty = false;
                    let flush_at = state.flush_at;
                    drop(state);
                    // Set since it came on the list, where a flush has ended the time before.
                    self.note_flush(partition, flush_at);
                    return Ok(());
                }
                state.has_trimmed = false;
                (batches, state.log_start)
            };
            let store = partition.store_or_create(&home)?;
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
            store.advance_log_start(log_start);
            if store.has_spent() {
                self.retire(&home, store, wall)?;
            }
        }
    }

    /// What a deleted partition has in memory is not written any more. Nothing comes after: its rounds are not counted.
    fn drop_unwritten(&self, partition: &Partition, home: &Arc<Home>) {
        let mut state = partition.state.lock();
        if !state.is_deleted || !Arc::ptr_eq(&state.home, home) {
            return;
        }
        let end = state.high_watermark;
        let gone = state.tail.unwritten(end, usize::MAX);
        let bytes: usize = gone.iter().map(|batch| batch.size()).sum();
        self.dir.backlog.remove(bytes);
        state.tail.on_written(end);
        state.tail.evict(end);
        state.dirty = false;
    }

    /// The files of a partition that lives here.
    pub(super) fn home_of(&self, partition: &Partition) -> Option<Arc<Home>> {
        let home = partition.home();
        Arc::ptr_eq(&home.dir, &self.dir).then_some(home)
    }

    fn on_written(
        &mut self,
        partition: &Arc<Partition>,
        home: &Home,
        batches: &[Batch],
    ) -> Result<(), StoreError> {
        let Some(last) = batches.last() else {
            return Ok(());
        };
        partition.note_written(home, batches)?;
        let bytes: usize = batches.iter().map(|batch| batch.size()).sum();
        partition.state.lock().tail.on_written(last.next_offset());
        self.dir.backlog.remove(bytes);
        self.hot.push_back(Hot {
            partition: Arc::clone(partition),
            up_to: last.next_offset(),
            bytes,
        });
        self.hot_bytes += bytes;
        Ok(())
    }

    fn evict(&mut self) {
        while self.hot_bytes > self.dir.settings.hot_tail_bytes {
            let Some(hot) = self.hot.pop_front() else {
                break;
            };
            hot.partition.state.lock().tail.evict(hot.up_to);
            self.hot_bytes -= hot.bytes;
        }
    }

    pub(super) fn io(&self, error: io::Error) -> StoreError {
        StoreError::Io {
            path: self.dir.path.clone(),
            error,
        }
    }

    pub(super) fn remove_doomed(&mut self) -> Result<(), StoreError> {
        let mut doomed = VecDeque::from(std::mem::take(&mut *self.residents.doomed.lock()));
        while let Some(Doomed { partition, home }) = doomed.pop_front() {
            let key = (partition.topic_id, partition.index);
            self.unsynced.remove(&key);
            self.flushes.remove(&key);
            self.hot
                .retain(|hot| !Arc::ptr_eq(&hot.partition, &partition));
            self.hot_bytes = self.hot.iter().map(|hot| hot.bytes).sum();
            // From here on nobody compacts it: the next topic of this name gets the same directory.
            let mut is_gone = home.as_ref().map(|home| home.cleaning.lock());
            if let (Some(home), Some(is_gone)) = (&home, &mut is_gone) {
                self.drop_unwritten(&partition, home);
                self.unlinks.retain(|(_, of, _)| !Arc::ptr_eq(of, home));
                **is_gone = true;
            }
            let has_files = match &home {
                Some(home) => home.store.get().is_some() || partition.unread.is_some(),
                // It did not come to live here, and may have left its files on the way.
                None => true,
            };
            if let Some(Err(error)) = has_files.then(|| self.bury(&partition)) {
                drop(is_gone);
                doomed.push_front(Doomed { partition, home });
                self.residents.doomed.lock().splice(0..0, doomed);
                return Err(self.io(error));
            }
            self.residents
                .guests
                .lock()
                .retain(|_, guest| !Arc::ptr_eq(&guest.partition, &partition));
        }
        Ok(())
    }

    /// Removes a partition's directory, so that a crash leaves its whole name or none.
    pub(super) fn bury(&self, partition: &Partition) -> io::Result<()> {
        let path = self.dir.partition_path(&partition.topic, partition.index);
        let disk = &self.dir.env.disk;
        let grave = grave_name(&partition.topic, partition.index, partition.topic_id);
        let grave = self.dir.path.join(grave);
        if disk.exists(&path)? {
            disk.rename(&path, &grave)?;
        } else if !disk.exists(&grave)? {
            return Ok(());
        }
        disk.sync_dir(&self.dir.path)?;
        disk.remove_dir_all(&grave)
    }

    fn check_space(&mut self, now: Instant) -> Result<(), StoreError> {
        if now < self.space_at {
            return Ok(());
        }
        self.space_at = now.plus(SPACE_CHECK);
        if self.dir.is_full() {
            self.dir.release_pieces().map_err(|error| self.io(error))?;
            // A commit that found the journal in our hands relies on us to look at the queue.
            self.commit_queued();
            self.trim_segments();
        }
        if let Ok(space) = self.dir.env.disk.space(&self.dir.path) {
            let mut needed = self.dir.settings.reserve_bytes;
            if self.dir.spares.count() == 0 {
                needed += self.dir.settings.journal_piece_bytes;
            }
            let is_full = space.available < needed || self.retry_at.is_some();
            let why = format!("{} bytes left, {needed} are needed", space.available);
            self.dir.set_full(is_full, &why);
        }
        Ok(())
    }

    /// Gives back the room that segments reserved ahead.
    fn trim_segments(&self) {
        let partitions = self.residents.all();
        for home in partitions.iter().filter_map(|of| self.home_of(of)) {
            if let Some(store) = home.store.get() {
                store.trim();
            }
        }
    }

    /// Commits the round that waited for room for a journal piece. One that a checkpoint gave back is as good, however full the
    /// volume: what waits may be what makes room.
    fn resume_commits(&mut self) {
        let spare = self.dir.spares.bytes();
        let is_hopeless = self.dir.is_full() && spare <= self.spare_tried;
        if is_hopeless || !self.dir.lacks_piece.swap(false, Ordering::AcqRel) {
            return;
        }
        self.commit_queued();
        self.spare_tried = match self.dir.lacks_room() {
            true => spare,
            false => 0,
        };
    }

    /// Retention: where the log may start now is committed like any trim; the files go once that is durable.
    fn enforce_retention(&mut self, now: Instant, wall: Timestamp) -> Result<(), StoreError> {
        if now < self.retention_at {
            return Ok(());
        }
        self.retention_at = now.plus(self.dir.settings.retention_check);
        for partition in &self.residents.all() {
            let home = self.home_of(partition);
            let Some(store) = home.as_ref().and_then(|home| home.store.get()) else {
                continue;
            };
            store.trim_idle();
            match store.retirable(wall, partition.bounds().high_watermark) {
                Ok(old) => {
                    if let Some(last) = old.last() {
                        partition.advance_start(last.next);
                    }
                }
                // Its age cannot be read, so it stays. Nothing was written: the other partitions have no part in it.
                Err(error) => env::tell!(
                    "no retention of {}-{}: {error}",
                    partition.topic,
                    partition.index
                ),
            }
        }
        self.commit_queued();
        Ok(())
    }

    fn expire_producers(&mut self, now: Instant, wall: Timestamp) {
        if now < self.producers_at {
            return;
        }
        self.producers_at = now.plus(self.dir.settings.producer_expiration_check);
        let expiration_ms = self.residents.producer_expiration_ms();
        for partition in &self.residents.all() {
            partition.expire_producers(wall, expiration_ms);
        }
    }

    /// Commits what this loop has queued itself; whoever else is committing takes it along.
    fn commit_queued(&self) {
        let mut news = Vec::new();
        while self.dir.commit(&mut news) == Commit::Done && self.dir.has_queued() {}
        self.announce.announce(news);
    }

    fn flush_due(&mut self, now: Instant) {
        let is_due = |_: &Key, (at, _): &mut (Instant, Arc<Partition>)| *at <= now;
        let mut due: Vec<_> = self.flushes.extract_if(.., is_due).collect();
        due.retain(|(_, (_, partition))| self.home_of(partition).is_some());
        if !due.is_empty() {
            due.iter().for_each(|(_, (_, partition))| partition.flush());
            self.commit_queued();
        }
    }

    fn retire(
        &mut self,
        home: &Arc<Home>,
        store: &Store,
        wall: Timestamp,
    ) -> Result<(), StoreError> {
        let log_start = store.log_start();
        let mut deleted = store.retire(log_start, wall)?;
        let stopped_by = deleted.stopped_by.take();
        if !deleted.paths.is_empty() {
            let delay = u64::try_from(store.config().file_delete_delay_ms).unwrap_or(0);
            let at = self.dir.env.clock.now().plus(Duration::from_millis(delay));
            self.unlinks.push_back((at, Arc::clone(home), deleted));
        }
        stopped_by.map_or(Ok(()), Err)
    }

    fn unlink_due(&mut self, now: Instant) -> Result<(), StoreError> {
        while let Some((_, home, deleted)) = self
            .unlinks
            .pop_front_if(|(at, _, _)| *at <= now || self.dir.is_full())
        {
            // What was removed as a whole has left this list.
            let unlinked = home.store.get().map_or(Ok(()), |of| of.unlink(&deleted));
            match unlinked {
                // A removal may need room too.
                Err(error) if error.is_full() => {
                    let at = now.plus(FULL_RETRY);
                    self.unlinks.push_front((at, home, deleted));
                    self.dir.set_full(true, &error.to_string());
                    return Ok(());
                }
                done => done?,
            }
        }
        Ok(())
    }

    fn work(&mut self, now: Instant) -> Result<Turn, StoreError> {
        let wall = self.dir.env.clock.wall_ms();
        let is_stopping = self.is_stopping();
        let went_on = self.go_on_with_checkpoint()?;
        self.take_dirty()?;
        self.end_checkpoint()?;
        if self.under_way.is_none() {
            self.take_in(wall)?;
        }
        let is_hurried = self.dir.backlog.take_hurry();
        if !self.pending.is_empty() && self.retry_at.is_none_or(|at| at <= now) {
            self.waits_since.get_or_insert(now);
            if is_stopping || is_hurried || self.is_write_due(now) {
                self.waits_since = None;
                self.write_pending(now, wall)?;
            }
        }
        let point = *self.dir.point.lock();
        // On a full disk the journal may be what takes the room: no append will come that would make a checkpoint due.
        let is_large = point.live_bytes >= self.dir.settings.checkpoint_bytes;
        let is_short = self.dir.is_full() && self.retry_at.is_none();
        // The one under way may have begun too early for who wants one.
        if self.under_way.is_none() {
            let is_wanted = self.dir.checkpoint_wanted.swap(false, Ordering::AcqRel);
            let is_due = (is_large || is_short || is_wanted) && point.sequence > self.checkpointed;
            if is_stopping {
                self.checkpoint(wall)?;
                self.trim_segments();
                return Ok(Turn::Done);
            }
            // The one that ended may have found no room: then there is none for another.
            if is_due && !went_on && self.begin_checkpoint(wall)? {
                return Ok(Turn::Again);
            }
        } else if is_stopping {
            return Ok(Turn::Sleep { until: None });
        }
        self.check_space(now)?;
        self.resume_commits();
        self.expire_producers(now, wall);
        self.enforce_retention(now, wall)?;
        self.unlink_due(now)?;
        self.flush_due(now);
        Ok(self.next_turn(now))
    }

    /// Until when what is on the list may wait for more.
    fn write_at(&self) -> Option<Instant> {
        let unwritten = self.dir.backlog.unwritten_bytes();
        let delay = match unwritten < self.gathered_bytes_min() {
            true if self.pending.len() > PARTITIONS_MANY => WRITE_DELAY_MANY,
            _ => WRITE_DELAY,
        };
        self.waits_since.map(|since| since.plus(delay))
    }

    fn is_write_due(&self, now: Instant) -> bool {
        let unwritten = self.dir.backlog.unwritten_bytes();
        self.gathered_bytes_min() <= unwritten || self.write_at().is_some_and(|at| at <= now)
    }

    /// Bytes from which on a write of all on the list is worth its calls.
    fn gathered_bytes_min(&self) -> isize {
        (self.pending.len() as isize * WRITE_BYTES_WANTED)
            .clamp(UNWRITTEN_BYTES_RING, UNWRITTEN_BYTES_GATHERED_MAX)
    }

    fn next_turn(&self, now: Instant) -> Turn {
        let has_work = !self.pending.is_empty();
        let ring_at = self.gathered_bytes_min();
        self.dir.backlog.ring_at(ring_at);
        // A commit that passed the new mark before it stood there did not ring.
        let unwritten = self.dir.backlog.unwritten_bytes();
        if has_work && self.retry_at.is_none() && ring_at <= unwritten {
            return Turn::Again;
        }
        let next_write = has_work.then(|| self.retry_at.max(self.write_at()).unwrap_or(now));
        let next_space = (self.dir.is_full() || has_work).then_some(self.space_at);
        let next_unlink = self.unlinks.front().map(|(at, _, _)| *at);
        let next_flush = self.flushes.values().map(|(at, _)| *at).min();
        let until = [next_write, next_space, next_unlink, next_flush]
            .into_iter()
            .flatten()
            .fold(self.retention_at.min(self.producers_at), Instant::min);
        if !has_work && !self.dir.backlog.fall_asleep() {
            return Turn::Again;
        }
        Turn::Sleep { until: Some(until) }
    }
}

/// Something could not be opened: that is tried again, and nothing is lost.
pub(super) fn is_passing(error: &StoreError) -> bool {
    matches!(error, StoreError::Io { error, .. } if lacks_descriptors(error))
}

impl Worker for SegmentWriter {
    fn turn(&mut self) -> Turn {
        if self.dir.is_failed() {
            return if self.is_stopping() {
                Turn::Done
            } else {
                Turn::Sleep { until: None }
            };
        }
        let now = self.dir.env.clock.now();
        self.work(now).unwrap_or_else(|error| {
            if is_passing(&error) {
                self.dir.set_full(true, &error.to_string());
                // The journal has what is not in the files.
                if self.is_stopping() {
                    return Turn::Done;
                }
                let until = Some(now.plus(FULL_RETRY));
                return Turn::Sleep { until };
            }
            let mut news = Vec::new();
            self.dir
                .fail(&io::Error::other(error.to_string()), &mut news);
            self.announce.announce(news);
            Turn::Again
        })
    }

    fn park(&mut self, until: Option<Instant>) {
        self.dir.writer_bell.wait(until);
    }
}
