//! A log directory: one journal, one lock, the partitions that live there, and its failure.
//!
//! Owns the way from *queued* to *durable*. Invariant: once a sync or write of the journal failed the directory is offline for
//! the life of the process; every waiting append is told, no later one is accepted, and the sync is never tried again.

mod build;
mod checkpoints;
mod cleaner;
mod flight;
pub mod linger;
mod r#move;
mod open;
mod pieces;
mod queue;
mod writer;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use env::{Bell, Env};
use log::FilePool;
use log::journal::{self, CommitError};
use model::{Instant, PartitionIndex};
use wire::Uuid;

pub use checkpoints::Syncer;
pub use cleaner::{Cleaner, CleanerSettings, Cleaning};
pub use flight::Flight;
pub use linger::{Stamp, Wait};
pub(crate) use r#move::Pause;
pub use r#move::{Move, MoveError, MoveStep, Moved};
pub use open::{
    Extent, Found, Identity, OpenError, Opened, Recovery, Restored, Told, accept_loss, unnamed_loss,
};
pub use pieces::PieceMaker;
pub(crate) use queue::{Push, Slot};
pub use writer::{Announce, SegmentWriter};

use crate::news::News;
use crate::partition::{Home, Partition};
use crate::sync::{AtomicBool, AtomicIsize, AtomicU64, Mutex, Ordering};
use checkpoints::VolumeSync;
use flight::{Flights, Untold};
use r#move::arrival::{Arrival, Guest};
use queue::{Queue, Round};

/// Names a partition.
pub type Key = (Uuid, PartitionIndex);

/// Settings of a log directory.
#[derive(Clone, Copy, Debug)]
pub struct DirSettings {
    pub journal_piece_bytes: u64,
    /// The first piece is small, so that the first start is quick.
    pub journal_first_piece_bytes: u64,
    /// A checkpoint begins when the journal holds this much.
    pub checkpoint_bytes: u64,
    /// Recent batches kept in memory after they were written to segments.
    pub hot_tail_bytes: usize,
    /// Appends are refused when the volume has less than this left.
    pub reserve_bytes: u64,
    pub segment_files_open_max: usize,
    pub retention_check: Duration,
    pub producer_expiration_ms: i64,
    pub producer_expiration_check: Duration,
}

/// Committed batches that wait for the segment writer; past it the shards stop reading sockets, so clients slow down first.
const UNWRITTEN_BYTES_MAX: isize = 128 << 20;
/// The segment writer is rung early at this much, at least.
const UNWRITTEN_BYTES_RING: isize = 4 << 20;
/// And at most, however many partitions share it: the last quarter is for what comes while they are written.
const UNWRITTEN_BYTES_GATHERED_MAX: isize = UNWRITTEN_BYTES_MAX / 4 * 3;

/// Journal pieces kept for later rounds; more are deleted.
const SPARE_PIECES_MAX: usize = 8;

/// Where the journal stands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Point {
    pub(crate) sequence: u64,
    pub(crate) checksum: u32,
    pub(crate) piece: u64,
    pub(crate) live_bytes: u64,
    /// Bytes that the newest piece still takes.
    pub(crate) room: u64,
}

/// A partition whose files go.
struct Doomed {
    partition: Arc<Partition>,
    /// `None` for one that did not come to live here.
    home: Option<Arc<Home>>,
}

/// What a call of [`LogDir::begin_commit`] did.
pub enum Begun {
    /// Nothing is queued that could be committed now.
    Idle,
    /// As many rounds as may be are on their way to the disk; who ends one will look at the queue again.
    Busy,
    /// A round is written.
    Written(Flight),
    /// The directory failed, as the news say.
    Failed,
}

/// What a call of [`LogDir::commit`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// Nothing is queued that could be committed now.
    Idle,
    /// Other threads are committing; they will look at the queue again.
    Busy,
    /// A round is durable, or the directory failed; the news say which. Look whether more is queued.
    Done,
}

/// Batches that are kept in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InMemory {
    /// Bytes that the segment files have as well, so that readers find them in memory.
    pub hot_bytes: usize,
    /// Bytes that they lack.
    pub unwritten_bytes: usize,
    /// Log directories with a round that is queued and not on its way.
    pub queues: usize,
}

impl std::ops::AddAssign for InMemory {
    fn add_assign(&mut self, other: InMemory) {
        self.hot_bytes += other.hot_bytes;
        self.unwritten_bytes += other.unwritten_bytes;
        self.queues += other.queues;
    }
}

pub struct LogDir {
    pub id: Uuid,
    pub path: PathBuf,
    pub(crate) env: Env,
    pub(crate) settings: DirSettings,
    /// As in the settings at first; what is set later counts from the next look on.
    producer_expiration_ms: AtomicU64,
    pub(crate) files: Arc<FilePool>,
    queue: Mutex<Queue>,
    /// Held from taking a round until it is written.
    journal: Mutex<journal::Writer>,
    flights: Mutex<Flights>,
    /// Held by whoever tells partitions of rounds, or of the failure: one at a time and in the order of the rounds, so `point`
    /// never runs ahead of a partition that was not told yet, and nothing is told to be durable after a sync failed.
    telling: Mutex<()>,
    /// The last round that was told after a sync of its own: one without may be told and not be on the disk.
    synced: AtomicU64,
    failed: AtomicBool,
    /// The oldest round waits for a journal piece that the volume had no room for.
    lacks_piece: AtomicBool,
    /// The volume is (almost) full: appends are refused, everything else goes on.
    full: AtomicBool,
    pub(crate) partitions: Mutex<BTreeMap<Key, Arc<Partition>>>,
    /// Partitions whose files are here, complete, and that are about to live here: checkpoints vouch for them already.
    guests: Mutex<BTreeMap<Key, Guest>>,
    /// Files of these are complete under another name; the segment writer takes them in.
    arrivals: Mutex<Vec<Arc<Arrival>>>,
    dirty: Mutex<Vec<Arc<Partition>>>,
    /// Committed and not yet in a segment. Below zero for moments: the segment writer may be done with a batch before the
    /// round that brought it is counted.
    unwritten_bytes: AtomicIsize,
    /// At how many of them the segment writer wants to be rung.
    ring_at: AtomicIsize,
    /// The last committed round whose partitions all know of it.
    point: Mutex<Point>,
    /// Pieces whose rounds are all up to this one may be used again.
    release_to: AtomicU64,
    spares: journal::Spares,
    doomed: Mutex<Vec<Doomed>>,
    /// Someone waits for what is committed to be in the segment files.
    hurried: AtomicBool,
    stopping: AtomicBool,
    /// Compaction waits for a checkpoint that knows its segments as closed.
    checkpoint_wanted: AtomicBool,
    writer_bell: Arc<dyn Bell>,
    writer_asleep: AtomicBool,
    maker_bell: Arc<dyn Bell>,
    volume_sync: Mutex<VolumeSync>,
    syncer_bell: Arc<dyn Bell>,
    _lock: Box<dyn env::disk::Lock>,
}

impl LogDir {
    /// The broker is gone. A directory and its partitions know each other, so they would stay in memory as long as the process.
    pub fn let_go(&self) {
        let partitions = std::mem::take(&mut *self.partitions.lock());
        let guests = std::mem::take(&mut *self.guests.lock());
        let arrivals = std::mem::take(&mut *self.arrivals.lock());
        let dirty = std::mem::take(&mut *self.dirty.lock());
        let doomed = std::mem::take(&mut *self.doomed.lock());
        // On a full disk rounds stay that were never committed, and of a broker that was killed those whose syncs never came.
        let rounds = (self.queue.lock().take_rounds(), self.flights.lock().take());
        drop((partitions, guests, arrivals, dirty, doomed, rounds));
    }

    pub fn set_producer_expiration(&self, ms: i64) {
        let ms = u64::try_from(ms).unwrap_or(0);
        self.producer_expiration_ms.store(ms, Ordering::Relaxed);
    }

    pub fn is_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// More is committed than the segment writer keeps up with: stop taking in requests for a moment.
    pub fn is_overloaded(&self) -> bool {
        // A full disk refuses appends, so nothing more comes, and reads must go on.
        !self.is_full() && self.unwritten_bytes.load(Ordering::Relaxed) > UNWRITTEN_BYTES_MAX
    }

    /// Something is queued that a commit would take.
    pub fn has_queued(&self) -> bool {
        self.can_commit() && !self.queue.lock().is_empty()
    }

    /// A round is queued that found no room for its journal piece.
    pub fn lacks_room(&self) -> bool {
        self.lacks_piece.load(Ordering::Acquire)
    }

    /// What the partitions that live here keep in memory.
    pub fn in_memory(&self) -> InMemory {
        let partitions: Vec<_> = self.partitions.lock().values().cloned().collect();
        let mut all = InMemory {
            queues: usize::from(!self.queue.lock().is_empty()),
            ..InMemory::default()
        };
        for partition in partitions {
            let state = partition.state.lock();
            let unwritten = state.tail.unwritten_bytes();
            all.hot_bytes += state.tail.bytes() - unwritten;
            all.unwritten_bytes += unwritten;
        }
        all
    }

    fn can_commit(&self) -> bool {
        !self.is_failed() && !self.lacks_piece.load(Ordering::Acquire)
    }

    /// The last round of which a sync told that it is durable.
    pub(crate) fn committed(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Usual time of a commit.
    pub fn commit_average(&self) -> Duration {
        self.queue.lock().linger.average()
    }

    /// The disk is so slow that several rounds may be on their way to it together.
    pub fn is_slow(&self) -> bool {
        self.queue.lock().linger.is_slow()
    }

    /// Whether the next commit should wait, for more appends or for the end of another.
    pub fn commit_wait(&self, now: Instant) -> Wait {
        self.queue.lock().linger.wait(now)
    }

    /// Whether it became one with a trim that was queued before.
    pub(crate) fn enqueue(
        &self,
        partition: &Arc<Partition>,
        slot: &mut Slot,
        push: Push,
        stamp: Option<(&mut Stamp, Instant)>,
    ) -> bool {
        let mut queue = self.queue.lock();
        if let Some((stamp, now)) = stamp {
            queue.linger.on_append(stamp, now);
        }
        queue.push(partition, slot, push)
    }

    /// Those with something that is not durable, some of them more than once: nobody waits for a commit of any other. Of a round
    /// that is just being written they may be missing.
    pub fn uncommitted(&self) -> Vec<Arc<Partition>> {
        let mut all: Vec<_> = self.queue.lock().partitions().cloned().collect();
        all.extend(self.flights.lock().partitions().cloned());
        all
    }

    /// Makes the oldest queued round durable and collects what its partitions have to tell.
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
            // Someone may have queued, or ended a round, (1) after we looked and (2) been told `Busy` because we still held the
            // journal. He relies on us to look again.
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
        let released = journal.release(self.release_to.load(Ordering::Relaxed), SPARE_PIECES_MAX);
        if let Err(error) = released {
            env::tell!(
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

    /// The sync of a round has ended: collects what the partitions of all rounds have to tell that are durable now. The caller
    /// looks at the queue again.
    pub fn finish(&self, flight: &Flight, synced: io::Result<()>, news: &mut Vec<News>) {
        let now = self.env.clock.now();
        let took = now.since(flight.started);
        let _telling = self.telling.lock();
        if self.is_failed() {
            return; // everyone was told
        }
        if let Err(error) = synced {
            self.fail(&error, news);
            return;
        }
        if flight.file.is_some() {
            self.queue.lock().linger.on_commit(took);
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
        let mut dirty = Vec::new();
        for member in &round.members {
            if member
                .partition
                .on_durable(member.up_to, member.trim.is_some(), news)
            {
                dirty.push(Arc::clone(&member.partition));
            }
        }
        self.add_dirty(round.bytes, dirty);
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
    fn release_pieces(&self) -> io::Result<()> {
        let released = self.release_to.load(Ordering::Relaxed);
        match self.journal.try_lock() {
            Some(mut journal) => journal.release(released, SPARE_PIECES_MAX),
            None => Ok(()), // whoever writes a round now does it
        }
    }

    /// Takes the directory offline: tells everyone who waits. The first error is the one that is logged.
    pub(crate) fn fail(&self, error: &io::Error, news: &mut Vec<News>) {
        self.failed.store(true, Ordering::Release);
        env::tell!("log dir {} offline: {error}", self.path.display());
        let partitions: Vec<_> = self.partitions.lock().values().cloned().collect();
        for partition in partitions {
            partition.on_dir_failed(self, news);
        }
    }

    fn set_full(&self, is_full: bool, why: &str) {
        if self.full.swap(is_full, Ordering::Relaxed) != is_full {
            let state = if is_full {
                "full, appends are refused"
            } else {
                "has room again"
            };
            env::tell!("log dir {} {state}: {why}", self.path.display());
            self.maker_bell.ring();
        }
    }

    /// Puts partitions with `bytes` to write on the segment writer's list.
    pub(crate) fn add_dirty(&self, bytes: usize, mut dirty: Vec<Arc<Partition>>) {
        if !dirty.is_empty() {
            self.dirty.lock().append(&mut dirty);
        }
        let before = self
            .unwritten_bytes
            .fetch_add(bytes as isize, Ordering::SeqCst);
        let ring_at = self.ring_at.load(Ordering::SeqCst);
        let crossed = before < ring_at && ring_at <= before + bytes as isize;
        if crossed || self.writer_asleep.swap(false, Ordering::AcqRel) {
            self.writer_bell.ring();
        }
    }

    pub(crate) fn add(&self, partition: Arc<Partition>) {
        self.partitions
            .lock()
            .insert((partition.topic_id, partition.index), partition);
    }

    /// A partition that lives here.
    pub fn partition(&self, topic: Uuid, index: PartitionIndex) -> Option<Arc<Partition>> {
        self.partitions.lock().get(&(topic, index)).cloned()
    }

    /// Where the files of a partition live.
    pub(crate) fn partition_path(&self, topic: &str, index: PartitionIndex) -> PathBuf {
        self.path.join(format!("{topic}-{index}"))
    }

    pub(crate) fn journal_path(path: &Path) -> PathBuf {
        path.join("journal")
    }

    /// A partition that was deleted, or lives elsewhere now.
    pub(crate) fn forget(&self, partition: &Partition) {
        let key = (partition.topic_id, partition.index);
        self.partitions.lock().remove(&key);
    }

    /// Removes the files of a partition in the background, before another one of its name writes any.
    pub(crate) fn doom(&self, partition: &Arc<Partition>, home: Option<Arc<Home>>) {
        let partition = Arc::clone(partition);
        self.doomed.lock().push(Doomed { partition, home });
        self.writer_bell.ring();
    }

    /// Asks the segment writer to write what is committed without gathering more.
    pub(crate) fn hurry(&self) {
        if !self.hurried.swap(true, Ordering::AcqRel) {
            self.writer_bell.ring();
        }
    }

    /// Asks the segment writer for a checkpoint soon.
    pub(crate) fn want_checkpoint(&self) {
        if !self.checkpoint_wanted.swap(true, Ordering::AcqRel) {
            self.writer_bell.ring();
        }
    }

    /// Asks the segment writer to write everything, checkpoint and end, and the syncer and the maker of pieces to end.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.writer_bell.ring();
        self.maker_bell.ring();
        self.syncer_bell.ring();
    }
}
