//! A log directory: one journal, one lock, and its failure.
//!
//! Owns the way from *queued* to *durable*, for any log that is [`Durable`]. Invariant: once a sync or write of the journal failed the
//! directory is offline for the life of the process; every waiting append fails, no later one is accepted, and the sync is never tried
//! again. Keeps no log alive.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use env::{Bell, Env};
use log::FilePool;
use log::journal::{self, CommitError};
use model::{BrokerId, Instant, Offset, PartitionIndex, Ticket};
use wire::Uuid;

use super::backlog::Backlog;
use super::counters::Counters;
use super::damages::{Damage, Damages};
use super::durable::{Durable, Key, NeverDurable};
use super::flight::{Flight, Flights, Point, Untold};
use super::linger::{Stamp, Wait};
use super::queue::{Push, Queue, Round, Slot};
use super::settings::DirSettings;
use super::slowness::Slowness;
use crate::news::News;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering};

/// Journal pieces kept for later rounds; more are deleted.
pub(super) const SPARE_PIECES_MAX: usize = 8;

/// A sync of the volume between the segment writer, which asks for it, and the syncer.
#[derive(Default)]
pub(super) enum VolumeSync {
    #[default]
    Idle,
    Asked,
    Running,
    Done(io::Result<()>),
}

/// Syncs up to this are nothing that the watch for slow directories asks about.
const SHORT_SYNC_MAX: Duration = Duration::from_millis(500);

/// The outcome of a call of [`LogDir::begin_commit`].
pub enum Begun {
    /// Nothing is queued that could be committed now.
    Idle,
    /// The most rounds that may be are on their way to the disk; the thread that ends one will look at the queue again.
    Busy,
    /// A round is written.
    Written(Flight),
    /// The directory failed, as the news say.
    Failed,
}

/// The outcome of a call of [`LogDir::commit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// Nothing is queued that could be committed now.
    Idle,
    /// Other threads are committing; they will look at the queue again.
    Busy,
    /// A round is durable, or the directory failed; the news say which. Look whether more is queued.
    Done,
}

pub struct LogDir {
    pub id: Uuid,
    pub path: PathBuf,
    /// True if the volume takes names that differ in case alone for one.
    pub folds_names: bool,
    pub(crate) env: Env,
    pub(crate) settings: DirSettings,
    pub(crate) files: Arc<FilePool>,
    /// Logs that live here, to be notified when the directory fails.
    pub(super) logs: Mutex<BTreeMap<Key, Weak<dyn Durable>>>,
    pub(super) queue: Mutex<Queue>,
    /// News for replicas that waited for an append, and got one.
    pub(super) woken: Mutex<Vec<News>>,
    /// Held from taking a round until it is written.
    pub(super) journal: Mutex<journal::Writer>,
    pub(super) flights: Mutex<Flights>,
    /// Held by the thread that notifies logs of rounds, or of the failure: one at a time and in the order of the rounds, so `point` never
    /// runs ahead of a log that was not notified yet, and nothing is reported durable after a sync failed.
    pub(super) telling: Mutex<()>,
    /// The last round that had a sync of its own and was reported: a round without one may be reported and not be on the disk.
    pub(super) synced: AtomicU64,
    pub(super) failed: AtomicBool,
    /// True if the oldest round waits for a journal piece that the volume had no room for.
    pub(super) lacks_piece: AtomicBool,
    /// True if the volume is (almost) full: appends are refused, everything else continues.
    pub(super) full: AtomicBool,
    /// Batches that are durable and not in segment files.
    pub(crate) backlog: Backlog,
    /// The last committed round whose logs all know of it.
    pub(super) point: Mutex<Point>,
    /// Pieces whose rounds are all up to this one may be used again.
    pub(super) release_to: AtomicU64,
    pub(super) spares: journal::Spares,
    pub(super) stopping: AtomicBool,
    pub(super) slowness: Mutex<Slowness>,
    /// Damaged places that readers or the scrub met in this life.
    pub(super) rot_found: AtomicU64,
    /// Damaged places that were written over with what another replica had.
    pub(super) rot_repaired: AtomicU64,
    pub(crate) damages: Damages,
    /// True if someone waits for a checkpoint that knows what the one before does not.
    pub(super) checkpoint_wanted: AtomicBool,
    /// A row of the checkpoint changed without an entry of the journal.
    pub(super) has_new_row: AtomicBool,
    pub(super) writer_bell: Arc<dyn Bell>,
    pub(super) maker_bell: Arc<dyn Bell>,
    pub(super) volume_sync: Mutex<VolumeSync>,
    pub(super) syncer_bell: Arc<dyn Bell>,
    pub counters: Counters,
    pub(super) _lock: Box<dyn env::disk::Lock>,
}

impl LogDir {
    pub fn is_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Damaged places that readers or the scrub have met since the start; the same one may count more than once.
    pub fn rot_found(&self) -> u64 {
        self.rot_found.load(Ordering::Relaxed)
    }

    pub(crate) fn on_rot_found(&self) {
        self.rot_found.fetch_add(1, Ordering::Relaxed);
    }

    /// Damaged places that were repaired since the start.
    pub fn rot_repaired(&self) -> u64 {
        self.rot_repaired.load(Ordering::Relaxed)
    }

    pub(crate) fn on_rot_repaired(&self) {
        self.rot_repaired.fetch_add(1, Ordering::Relaxed);
    }

    /// Damaged places that no replica in sync has intact, as far as that was found out lately.
    pub fn rot_unrepaired(&self) -> usize {
        self.damages.given_up_count()
    }

    /// Keeps damage of logs that have other replicas for repair from now on; `repairer` is notified when there is some, or less.
    pub fn watch_damage(&self, repairer: Ticket) {
        self.damages.watch(repairer);
    }

    /// The damage that is to be repaired.
    pub fn damages(&self) -> Vec<Damage> {
        self.damages.all()
    }

    /// Another broker has these batches for the damage that begins at `at`.
    pub fn bring(&self, key: Key, at: Offset, from: BrokerId, records: Vec<Bytes>) {
        self.damages.bring(key, at, from, records);
        self.writer_bell.ring();
    }

    /// No replica has what was there: for a while readers get the error, and no repair is tried.
    pub fn give_up_damage(&self, key: Key, at: Offset) {
        self.damages.give_up(key, at, self.env.clock.now());
    }

    /// Somebody met damage of a log that has other replicas. True if it is to be repaired.
    pub(crate) fn on_damage(&self, key: Key, at: Offset) -> bool {
        let (is_hoped, is_new) = self.damages.on_met(key, at, self.env.clock.now());
        if is_new {
            self.writer_bell.ring();
        }
        is_hoped
    }

    /// Keeps news of an append until a loop takes them, which every loop does that appends.
    pub(crate) fn wake_later(&self, woken: impl Iterator<Item = News>) {
        self.woken.lock().extend(woken);
    }

    /// News of appends since the last call: other replicas get them before the round that makes them durable, so that all sync at once.
    pub fn take_woken(&self, news: &mut Vec<News>) {
        news.append(&mut self.woken.lock());
    }

    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// True if the directory works, but another broker should lead what is here if one can: it is full, or syncs take seconds.
    pub fn is_in_trouble(&self, now: Instant) -> bool {
        let waits = self.flights.lock().oldest().map(|since| now.since(since));
        let mut slowness = self.slowness.lock();
        slowness.on_sync(waits.unwrap_or_default(), now);
        self.is_full() || slowness.is_slow(now)
    }

    /// The process did not run between `from` and `to`: what syncs took meanwhile is not the disk's time.
    pub fn on_pause(&self, from: Instant, to: Instant) {
        self.slowness.lock().on_pause(from, to);
    }

    /// True if more is committed than the segment writer keeps up with: no records are taken in for a moment, neither of clients nor of
    /// leaders. Everything else continues.
    pub fn is_overloaded(&self) -> bool {
        // A directory that is full or has failed refuses appends, so nothing more comes, and others take theirs.
        let takes_records = !self.is_full() && !self.is_failed();
        takes_records && self.backlog.is_over_bound()
    }

    /// Bytes that wait for the segment writer, as the bound counts them.
    pub fn unwritten_bytes(&self) -> isize {
        self.backlog.unwritten_bytes()
    }

    /// Bytes of the journal that a start would replay.
    pub fn journal_live_bytes(&self) -> u64 {
        self.point.lock().live_bytes
    }

    /// True if something is queued that a commit would take.
    pub fn has_queued(&self) -> bool {
        self.can_commit() && !self.queue.lock().is_empty()
    }

    /// True if a round is queued that found no room for its journal piece.
    pub fn lacks_room(&self) -> bool {
        self.lacks_piece.load(Ordering::Acquire)
    }

    /// True if a round is queued, however long it may stay so.
    pub(super) fn has_rounds(&self) -> bool {
        !self.queue.lock().is_empty()
    }

    fn can_commit(&self) -> bool {
        !self.is_failed() && !self.lacks_piece.load(Ordering::Acquire)
    }

    /// The last round that a sync of its own made durable.
    pub(crate) fn committed(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Usual time of a commit.
    pub fn commit_average(&self) -> Duration {
        self.queue.lock().linger.average()
    }

    /// True if the disk is so slow that several rounds may be on their way to it together.
    pub fn is_slow(&self) -> bool {
        self.queue.lock().linger.is_slow()
    }

    /// True if the next commit should wait, for more appends or for the end of another.
    pub fn commit_wait(&self, now: Instant) -> Wait {
        self.queue.lock().linger.wait(now)
    }

    /// A log lives here from now on: it is notified when the directory fails.
    pub fn join<D: Durable>(&self, key: Key, log: &Arc<D>) {
        let log: Weak<dyn Durable> = Arc::downgrade(log) as _;
        self.logs.lock().insert(key, log);
    }

    /// A log was deleted, or lives elsewhere now.
    pub fn leave(&self, key: Key) {
        self.logs.lock().remove(&key);
    }

    /// Queues an entry of `log` for the next round. Returns true if it was merged into a trim that was queued before.
    pub fn enqueue<D: Durable>(
        &self,
        log: &Arc<D>,
        slot: &mut Slot,
        push: Push,
        stamp: Option<(&mut Stamp, Instant)>,
    ) -> bool {
        let mut queue = self.queue.lock();
        if let Some((stamp, now)) = stamp {
            queue.linger.on_append(stamp, now);
        }
        queue.push(log, slot, push)
    }

    /// Logs with something that is not durable, some of them more than once: nobody waits for a commit of any other. Logs of a round that
    /// is just being written may be missing.
    pub fn uncommitted(&self) -> Vec<Key> {
        let mut all: Vec<_> = self.queue.lock().logs().collect();
        all.extend(self.flights.lock().logs());
        all
    }

    /// Makes the oldest queued round durable and collects what its logs have to report.
    pub fn commit(&self, news: &mut Vec<News>) -> Commit {
        match self.begin_commit(news) {
            Begun::Idle => Commit::Idle,
            Begun::Busy => Commit::Busy,
            Begun::Failed => Commit::Done,
            Begun::Written(flight) => {
                let synced = flight.sync();
                self.finish(&flight, synced, news);
                Commit::Done
            }
        }
    }

    /// Writes the oldest queued round. Its sync, and [`LogDir::finish`], are the caller's.
    pub fn begin_commit(&self, news: &mut Vec<News>) -> Begun {
        let (mut journal, round, descriptor) = loop {
            let Some(mut journal) = self.journal.try_lock() else {
                return Begun::Busy;
            };
            if !self.can_commit() {
                return Begun::Idle;
            }
            let mut must_be_alone = false;
            if let Some(round) = self.take_round() {
                let descriptor = self.flights.lock().free_descriptor();
                must_be_alone =
                    journal.prepare(&round.entries) || journal.descriptor(descriptor).is_none();
                let mut queue = self.queue.lock();
                if !must_be_alone || queue.linger.is_alone() {
                    break (journal, round, descriptor);
                }
                queue.put_back(round);
            }
            // Another thread may have queued, or ended a round, (1) after we looked and (2) got `Busy` because we still held the journal.
            // That thread relies on us to look again.
            drop(journal);
            let queue = self.queue.lock();
            if !self.can_commit() || queue.is_empty() {
                return Begun::Idle;
            }
            if queue.linger.is_busy() || must_be_alone && !queue.linger.is_alone() {
                return Begun::Busy;
            }
        };
        let started = self.env.clock.now();
        journal.on_synced(self.committed());
        match journal.write(&round.entries, round.sync) {
            Ok(()) => {}
            Err(CommitError::NoRoom(error)) => {
                self.queue.lock().put_back(round);
                self.lacks_piece.store(true, Ordering::Release);
                self.set_full(true, &error.to_string());
                // The segment writer tries again when there is room.
                self.writer_bell.ring();
                return Begun::Idle;
            }
            Err(CommitError::Failed(error)) => {
                // Nobody may write behind it.
                self.failed.store(true, Ordering::Release);
                drop(journal);
                let _telling = self.telling.lock();
                self.fail(&error, news);
                return Begun::Failed;
            }
        }
        self.counters.on_round(round.bytes);
        let released = journal.release(self.release_to.load(Ordering::Relaxed), SPARE_PIECES_MAX);
        if let Err(error) = released {
            tracing::error!(target: env::logs::STORAGE,
                "log dir {}: cannot remove a journal piece: {error}",
                self.path.display()
            );
        }
        let point = Point {
            sequence: journal.sequence(),
            checksum: journal.checksum(),
            piece: journal.piece_number(),
            live_bytes: journal.live_bytes(),
            room: journal.room(),
        };
        let file = round.sync.then(|| journal.descriptor(descriptor)).flatten();
        self.queue.lock().linger.on_begin();
        self.flights.lock().push(Untold {
            round,
            point,
            descriptor,
            is_synced: false,
            started,
        });
        Begun::Written(Flight {
            file,
            sequence: point.sequence,
            started,
        })
    }

    /// The oldest queued round, if one more may be under way.
    fn take_round(&self) -> Option<Round> {
        let mut queue = self.queue.lock();
        if queue.linger.is_busy() {
            return None;
        }
        queue.take()
    }

    /// The sync of a round has ended: collects what the logs of all rounds have to report that are durable now. The caller
    /// looks at the queue again.
    pub fn finish(&self, flight: &Flight, synced: io::Result<()>, news: &mut Vec<News>) {
        let now = self.env.clock.now();
        let took = now.since(flight.started);
        let _telling = self.telling.lock();
        if self.is_failed() {
            return; // everyone was notified
        }
        if let Err(error) = synced {
            self.fail(&error, news);
            return;
        }
        if flight.file.is_some() {
            self.queue.lock().linger.on_commit(took);
            self.counters.commits.record(took);
            if SHORT_SYNC_MAX < took {
                self.slowness.lock().on_sync(took, now);
            }
        }
        self.flights.lock().on_synced(flight.sequence);
        loop {
            let Some(untold) = self.flights.lock().next() else {
                return;
            };
            self.tell(untold, news);
        }
    }

    /// A round and all before it are durable.
    fn tell(&self, untold: Untold, news: &mut Vec<News>) {
        let Untold { round, point, .. } = untold;
        if round.sync {
            self.synced.store(point.sequence, Ordering::Release);
        }
        for member in &round.members {
            // A log that is gone waits for nothing.
            if let Some(log) = member.log.upgrade() {
                log.on_durable(Ok(member.reached), news);
            }
        }
        let before = std::mem::replace(&mut *self.point.lock(), point);
        let due = self.settings.checkpoint_bytes;
        if before.live_bytes < due && due <= point.live_bytes {
            self.writer_bell.ring();
        }
        if before.piece != point.piece {
            // A piece that was ready is in use now.
            self.maker_bell.ring();
        }
        let round = round.emptied();
        let mut queue = self.queue.lock();
        queue.linger.on_told(self.env.clock.now());
        queue.give_back(round);
    }

    /// Frees the journal pieces that a checkpoint made needless. Commits do that, but none comes while the disk is full.
    pub(super) fn release_pieces(&self) -> io::Result<()> {
        let released = self.release_to.load(Ordering::Relaxed);
        match self.journal.try_lock() {
            Some(mut journal) => journal.release(released, SPARE_PIECES_MAX),
            None => Ok(()), // whoever writes a round now does it
        }
    }

    /// Takes the directory offline: notifies everyone who waits. The first error is the one that is logged.
    pub(crate) fn fail(&self, error: &io::Error, news: &mut Vec<News>) {
        self.failed.store(true, Ordering::Release);
        tracing::error!(target: env::logs::STORAGE, "log dir {} offline: {error}", self.path.display());
        let logs: Vec<_> = self
            .logs
            .lock()
            .values()
            .filter_map(Weak::upgrade)
            .collect();
        for log in logs {
            log.on_durable(Err(NeverDurable), news);
        }
    }

    /// Free bytes of the volume without which it takes no appends: for checkpoints, indexes and metadata, and for the next piece of the
    /// journal where none is spare.
    pub fn needed_bytes(&self) -> u64 {
        let reserve = self.settings.reserve_bytes;
        if self.spares.count() == 0 {
            reserve + self.settings.journal_piece_bytes
        } else {
            reserve
        }
    }

    pub(super) fn set_full(&self, is_full: bool, why: &str) {
        if self.full.swap(is_full, Ordering::Relaxed) != is_full {
            // The volume, or the descriptors of the process: the reason has it.
            let path = self.path.display();
            if is_full {
                tracing::error!(
                    target: env::logs::STORAGE,
                    "log dir {path}: appends are refused: {why}. A directory takes them while {} bytes of its volume are free", self.needed_bytes(),
                );
            } else {
                tracing::info!(target: env::logs::STORAGE, "log dir {path}: appends are taken again: {why}");
            }
            self.maker_bell.ring();
        }
    }

    /// Where the files of a partition live.
    pub(crate) fn partition_path(&self, topic: &str, index: PartitionIndex) -> PathBuf {
        self.path.join(format!("{topic}-{index}"))
    }

    pub(crate) fn journal_path(path: &Path) -> PathBuf {
        path.join("journal")
    }

    /// Asks the segment writer for a checkpoint soon.
    pub(crate) fn want_checkpoint(&self) {
        if !self.checkpoint_wanted.swap(true, Ordering::AcqRel) {
            self.writer_bell.ring();
        }
    }

    /// Asks for a checkpoint soon though the journal may have nothing new: a row has.
    pub(crate) fn want_row(&self) {
        self.has_new_row.store(true, Ordering::Release);
        self.want_checkpoint();
    }

    /// Asks the segment writer to write everything, checkpoint and end, and the syncer and the maker of pieces to end.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.writer_bell.ring();
        self.maker_bell.ring();
        self.syncer_bell.ring();
    }
}
