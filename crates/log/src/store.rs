//! The log of one partition on disk: its segments in one directory.
//!
//! One writer appends at the end, rolls, truncates and retires; readers look at a published list and never wait for it.
//! Invariants: segments are in rising order of base offset, the last one is active; `local_start <= log_end`; bytes are in the
//! file before `log_end` shows them. The local start is the first offset that these files are to have. The log may begin below it,
//! which the partition knows and the store does not. Promises nothing about durability before [`Store::sync`], never cuts a tail by itself,
//! and after a failed write refuses all further ones: nothing is known about the file then. A write that a full disk refused
//! is no such failure: `log_end` shows what went before, and the rest may come again.

mod aside;
mod copy;
mod epochs;
mod mend;
mod open;
mod progress;
mod read;
mod repair;
mod reserve;
mod retire;
mod swap;
mod sync;
mod truncate;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use env::Disk;
use model::{Offset, PartitionIndex, Timestamp};
use parking_lot::Mutex;
use wire::Uuid;
use wire::records::Batch;

use crate::config::LogConfig;
use crate::epochs::Epochs;
use crate::file_name::file_name;
use crate::index::{Entry, OffsetEntry};
use crate::journal::is_full;
use crate::pool::FilePool;
use crate::scan::{Damage, ScanError};
use crate::segment::{Dir, Segment};
use crate::txn_index::AbortedTxn;

pub use copy::{CopyError, LogCopy};
pub(crate) use open::DELETED;
pub use open::{Found, Known};
pub use progress::FILE_NAME as COMPACTION_FILE;
pub use read::{Located, Read, ReadError};
pub use repair::{DamagedRange, RepairError};
use reserve::Reserved;
pub use retire::{Deleted, Reason, Retire};
pub use sync::Covered;
pub use truncate::Cut;

/// Bytes after which write-back of a segment is started, so that a sync finds little to do.
const WRITEBACK_BYTES: u64 = 1 << 20;

/// Bytes behind the last entry of the index files that a start may have to walk by their headers, once per log and when it
/// is first used: some hundred reads.
const UNINDEXED_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("segment {base} of {}: {damage}", dir.display())]
    Damaged {
        dir: PathBuf,
        base: Offset,
        damage: Damage,
    },
    /// An earlier write failed; the directory must be taken offline.
    #[error("{}: offline after a failed write", dir.display())]
    Offline { dir: PathBuf },
    /// The file holds bytes behind the log end; `truncate_to` comes first.
    #[error("{}: {bytes} bytes behind the log end were not cut", dir.display())]
    Uncut { dir: PathBuf, bytes: u64 },
    /// A bug of the caller, named instead of written.
    #[error("{}: batch at {got}, the log ends at {end}", dir.display())]
    OutOfOrder {
        dir: PathBuf,
        got: Offset,
        end: Offset,
    },
    #[error("{}: batch of {size} bytes fits no segment", dir.display())]
    TooLarge { dir: PathBuf, size: usize },
}

impl StoreError {
    /// The disk had no room, or the process no descriptor. What was not shown by `log_end` may be written again, at the same position.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, StoreError::Io { error, .. } if is_full(error))
    }

    /// After this nothing is known about the file.
    fn is_final(&self) -> bool {
        matches!(self, StoreError::Io { .. }) && !self.is_full()
    }
}

/// The result of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Next offset after the batches.
    pub log_end: Offset,
    /// Base of the last segment that was begun for them, if any: the moment to write a producer snapshot.
    pub rolled: Option<Offset>,
}

pub struct Store {
    pool: Arc<FilePool>,
    dir: Arc<Dir>,
    config: ArcSwap<LogConfig>,
    segments: ArcSwap<Vec<Arc<Segment>>>,
    local_start: AtomicI64,
    log_end: AtomicI64,
    /// Those of the batches in the files, as far as they are known.
    epochs: ArcSwap<Epochs>,
    /// End of what the last sync covered.
    synced: AtomicI64,
    /// Counts cuts and restarts: a sync that began before one says nothing of what was written since.
    lives: AtomicU64,
    /// Counts up before and after files are cut or go away, so it is odd meanwhile; see `read::undisturbed`.
    upheavals: AtomicU64,
    /// Compaction: see `progress`.
    clean_end: AtomicI64,
    gaps_end: AtomicI64,
    /// Held by whoever renames or removes segment files, over all of their steps. Taken before `tail`.
    files: Mutex<()>,
    tail: Mutex<Tail>,
}

/// The part that only the writer touches.
struct Tail {
    failed: bool,
    /// Bytes behind the log end, and segments that begin there or above.
    uncut: u64,
    extra: Vec<Offset>,
    /// Written since their last sync, in order of base.
    dirty: Vec<Arc<Segment>>,
    /// Directory entries were added or removed.
    dir_dirty: bool,
    /// Up to where write-back of the active segment was started.
    written_back: u64,
    reserved: Reserved,
    /// When the active segment was begun, and the time of its first batch.
    begun: Option<Timestamp>,
    first_time: Option<Timestamp>,
}

impl Store {
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Says whose log this is, before anything is read or written: checksums of heads of another's do not count. Only the first
    /// word does.
    pub fn belongs_to(&self, topic: Uuid, partition: PartitionIndex) {
        self.dir.belongs_to(topic, partition);
    }

    #[must_use]
    pub fn config(&self) -> Arc<LogConfig> {
        self.config.load_full()
    }

    pub fn set_config(&self, config: Arc<LogConfig>) {
        self.config.store(config);
    }

    /// First offset that may be read here. Files below it are removed at leisure; files that are missing above it are lost.
    #[must_use]
    pub fn local_start(&self) -> Offset {
        Offset(self.local_start.load(Ordering::Acquire))
    }

    /// Next offset to be written here.
    #[must_use]
    pub fn log_end(&self) -> Offset {
        Offset(self.log_end.load(Ordering::Acquire))
    }

    /// End of what the last sync made durable; nothing is known of it right after a start.
    #[must_use]
    pub fn synced_end(&self) -> Offset {
        Offset(self.synced.load(Ordering::Acquire))
    }

    /// Where the files begin. Above the local start when its files are lost.
    #[must_use]
    pub fn files_start(&self) -> Offset {
        let segments = self.segments.load();
        let first = segments
            .first()
            .map_or(self.log_end(), |first| first.base());
        first.max(self.local_start())
    }

    /// Moves the local start up (`DeleteRecords`, retention, a leader's news); never down. Bounded by the log end.
    pub fn advance_local_start(&self, to: Offset) {
        let to = to.min(self.log_end());
        self.local_start.fetch_max(to.0, Ordering::AcqRel);
    }

    #[must_use]
    pub fn segments(&self) -> Arc<Vec<Arc<Segment>>> {
        self.segments.load_full()
    }

    /// Bytes of all segments.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.segments
            .load()
            .iter()
            .map(|segment| segment.len())
            .sum()
    }

    /// Where the active segment stands: what a checkpoint keeps for the next start.
    #[must_use]
    pub fn known(&self) -> Known {
        let _tail = self.tail.lock();
        let active = self.active();
        Known {
            local_start: self.local_start(),
            log_end: self.log_end(),
            active_base: active.base(),
            active_len: active.len(),
        }
    }

    fn disk(&self) -> &Arc<dyn Disk> {
        self.pool.disk()
    }

    fn active(&self) -> Arc<Segment> {
        let segments = self.segments.load();
        Arc::clone(segments.last().expect("a store has an active segment"))
    }

    /// Shows readers that files change under them until the guard is dropped.
    fn upheaval(&self) -> Upheaval<'_> {
        self.upheavals.fetch_add(1, Ordering::AcqRel);
        Upheaval(&self.upheavals)
    }

    pub(crate) fn io(&self, error: io::Error) -> StoreError {
        StoreError::Io {
            path: self.dir.to_path_buf(),
            error,
        }
    }

    fn scan(&self, base: Offset, error: ScanError) -> StoreError {
        match error {
            ScanError::Io(error) => StoreError::Io {
                path: self.dir.join(file_name(base, "log")),
                error,
            },
            ScanError::Damage(damage) => StoreError::Damaged {
                dir: self.dir.to_path_buf(),
                base,
                damage,
            },
        }
    }

    /// Writes batches at the end, in as few calls as segments allow. Offsets are set already and rise from `log_end`; a
    /// replica may leave holes. `now` drives rolling by time only.
    pub fn append(&self, batches: &[Batch], now: Timestamp) -> Result<Appended, StoreError> {
        let mut tail = self.tail.lock();
        self.check_writable(&tail)?;
        let done = self.append_locked(&mut tail, batches, now);
        tail.failed |= done.as_ref().is_err_and(StoreError::is_final);
        let appended = done?;
        self.relieve(&mut tail)?;
        Ok(appended)
    }

    fn check_writable(&self, tail: &Tail) -> Result<(), StoreError> {
        let dir = || self.dir.to_path_buf();
        match tail {
            Tail { failed: true, .. } => Err(StoreError::Offline { dir: dir() }),
            Tail { uncut, extra, .. } if *uncut > 0 || !extra.is_empty() => {
                Err(StoreError::Uncut {
                    dir: dir(),
                    bytes: *uncut,
                })
            }
            _ => Ok(()),
        }
    }

    fn append_locked(
        &self,
        tail: &mut Tail,
        batches: &[Batch],
        now: Timestamp,
    ) -> Result<Appended, StoreError> {
        let config = self.config.load();
        let mut end = self.log_end();
        for batch in batches {
            if batch.base_offset() < end {
                return Err(StoreError::OutOfOrder {
                    dir: self.dir.to_path_buf(),
                    got: batch.base_offset(),
                    end,
                });
            }
            end = batch.next_offset();
        }
        if tail.first_time.is_none() && !self.active().is_empty() {
            // A first batch that cannot be read is no reason to refuse new ones: the segment then rolls by their time.
            let first = self.active().first_time().ok().flatten();
            tail.first_time = first.or(batches.first().map(|batch| batch.latest_time()));
        }
        self.note_epochs(batches);
        let mut rolled = None;
        let mut rest = batches;
        while let Some(first) = rest.first() {
            let mut active = self.active();
            if self.must_roll(tail, &config, &active, first, now) {
                // Where the last one ends, so that a lost segment shows as a gap; only a leap of 2^31 offsets begins higher.
                let end = self.log_end();
                let base = if reaches(end, first) {
                    end
                } else {
                    first.base_offset()
                };
                active = self.roll_locked(tail, base, now)?;
                rolled = Some(active.base());
            }
            let count =
                fitting(&config, &active, rest).min(self.in_time(tail, &config, &active, rest));
            let (now_batches, later) = rest.split_at(count);
            if now_batches.is_empty() {
                return Err(StoreError::TooLarge {
                    dir: self.dir.to_path_buf(),
                    size: first.size(),
                });
            }
            self.write(tail, &config, &active, now_batches, now)?;
            rest = later;
        }
        Ok(Appended {
            log_end: self.log_end(),
            rolled,
        })
    }

    fn write(
        &self,
        tail: &mut Tail,
        config: &LogConfig,
        active: &Arc<Segment>,
        batches: &[Batch],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        if !tail.dirty.iter().any(|dirty| Arc::ptr_eq(dirty, active)) {
            tail.dirty.push(Arc::clone(active));
        }
        let bytes: usize = batches.iter().map(|batch| batch.size()).sum();
        tail.reserved
            .before_write(active, config, active.len() + bytes as u64);
        active
            .append(batches, config.index_interval_bytes)
            .map_err(|error| self.scan(active.base(), error.into()))?;
        tail.begun.get_or_insert(now);
        tail.first_time = tail
            .first_time
            .or(batches.first().map(|batch| batch.latest_time()));
        if let Some(last) = batches.last() {
            self.log_end.store(last.next_offset().0, Ordering::Release);
        }
        let whole = active.len() / WRITEBACK_BYTES * WRITEBACK_BYTES;
        if whole > tail.written_back {
            let file = active.file().map_err(|error| self.io(error))?;
            file.start_writeback(tail.written_back, whole - tail.written_back);
            tail.written_back = whole;
        }
        Ok(())
    }

    fn must_roll(
        &self,
        tail: &Tail,
        config: &LogConfig,
        active: &Segment,
        batch: &Batch,
        now: Timestamp,
    ) -> bool {
        if !reaches(active.base(), batch) {
            return true;
        }
        if active.is_empty() {
            return false;
        }
        let waited = match (tail.first_time, tail.begun) {
            (Some(first), _) if first.0 >= 0 && batch.latest_time().0 >= 0 => {
                batch.latest_time().0.saturating_sub(first.0)
            }
            (_, Some(begun)) => now.0.saturating_sub(begun.0),
            _ => 0,
        };
        let index_full =
            active.index_entries() >= config.segment_index_bytes / OffsetEntry::SIZE as u64;
        let segment_bytes = config.segment_bytes.min(i32::MAX as u64);
        active.len() + batch.size() as u64 > segment_bytes
            || index_full
            || waited > self.roll_after(config, active)
    }

    /// Time between the first batch of a segment and the first that begins another.
    fn roll_after(&self, config: &LogConfig, active: &Segment) -> i64 {
        let jitter = jitter(&self.dir, active.base(), config.segment_jitter_ms);
        config.roll_ms().saturating_sub(jitter).max(0)
    }

    /// How many of `batches`, which are written together, come before the time of the segment is over; the first does.
    fn in_time(
        &self,
        tail: &Tail,
        config: &LogConfig,
        active: &Segment,
        batches: &[Batch],
    ) -> usize {
        let times = batches.iter().map(|batch| batch.latest_time());
        let Some(first) = tail.first_time.or(times.clone().next()) else {
            return 0;
        };
        let roll_after = self.roll_after(config, active);
        let is_in_time = |time: Timestamp| {
            first.0 < 0 || time.0 < 0 || time.0.saturating_sub(first.0) <= roll_after
        };
        1 + times.skip(1).take_while(|time| is_in_time(*time)).count()
    }

    /// Seals the active segment and begins the next one; does nothing while the active one is empty.
    pub fn roll(&self, now: Timestamp) -> Result<Option<Offset>, StoreError> {
        let mut tail = self.tail.lock();
        self.check_writable(&tail)?;
        if self.active().is_empty() {
            return Ok(None);
        }
        let rolled = self.roll_locked(&mut tail, self.log_end(), now);
        tail.failed |= rolled.as_ref().is_err_and(StoreError::is_final);
        rolled.map(|segment| Some(segment.base()))
    }

    fn roll_locked(
        &self,
        tail: &mut Tail,
        base: Offset,
        now: Timestamp,
    ) -> Result<Arc<Segment>, StoreError> {
        let active = self.active();
        let config = self.config.load();
        let sealed = active
            .seal()
            .map_err(|error| self.scan(active.base(), error.into()));
        let begun = sealed.and_then(|()| {
            tail.reserved.on_seal(&active, &config);
            Segment::create(&self.pool, &self.dir, base)
                .map_err(|error| self.scan(base, error.into()))
        });
        let next = Arc::new(begun.inspect_err(|_| active.unseal())?);
        let mut segments = Vec::clone(&self.segments.load());
        segments.push(Arc::clone(&next));
        self.segments.store(Arc::new(segments));
        tail.begin(&next, &config, now);
        Ok(next)
    }

    /// Writes the indexes of the active segment, so that the next start finds them, and the aborted transactions of all (part of
    /// a checkpoint, not synced).
    pub fn write_indexes(&self) -> Result<(), StoreError> {
        self.write_checks()?;
        let active = self.active();
        active
            .write_indexes()
            .map(|_| ())
            .map_err(|error| self.scan(active.base(), error.into()))
    }

    /// The same, unless a walk of what was appended since is short: many small logs need not write two files each, again and
    /// again. Aborted transactions are always written: no walk of the active segment finds those of all.
    pub fn write_long_indexes(&self) -> Result<(), StoreError> {
        let short = UNINDEXED_BYTES_MAX.min(self.config.load().segment_bytes / 4);
        if self.active().unindexed_bytes() <= short {
            self.write_checks()
        } else {
            self.write_indexes()
        }
    }

    fn write_checks(&self) -> Result<(), StoreError> {
        for segment in self.segments.load().iter() {
            // A new file has to be told of also when the next one finds no room.
            for write in [Segment::write_txns, Segment::write_heads] {
                let is_new =
                    write(segment).map_err(|error| self.scan(segment.base(), error.into()))?;
                if is_new {
                    self.tail.lock().dir_dirty = true;
                }
            }
        }
        Ok(())
    }

    /// Batches at or behind `from` could not be read: transactions may have been aborted there, or have begun.
    pub fn doubt_txns(&self, from: Offset) -> Result<(), StoreError> {
        let segments = self.segments.load();
        let behind = segments.iter().filter(|segment| from < segment.end());
        behind.into_iter().try_for_each(|segment| {
            let doubted = segment.doubt_txns();
            doubted.map_err(|error| self.scan(segment.base(), error.into()))
        })
    }

    /// Notes an aborted transaction in the segment that holds its marker.
    pub fn add_aborted(&self, txn: AbortedTxn) -> Result<(), StoreError> {
        let segments = self.segments.load();
        let at = segments.partition_point(|segment| segment.base() <= txn.last_offset);
        match at.checked_sub(1).and_then(|at| segments.get(at)) {
            Some(segment) => segment
                .add_aborted(txn)
                .map_err(|error| self.scan(segment.base(), error.into())),
            None => Ok(()),
        }
    }
}

struct Upheaval<'a>(&'a AtomicU64);

impl Drop for Upheaval<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

impl Tail {
    fn begin(&mut self, segment: &Arc<Segment>, config: &LogConfig, now: Timestamp) {
        self.dirty.push(Arc::clone(segment));
        self.dir_dirty = true;
        self.written_back = 0;
        self.reserved = Reserved::at_start(segment, config);
        self.begun = (now != Timestamp::NONE).then_some(now);
        self.first_time = None;
    }
}

/// Offsets of the batch can be told relative to `base`.
fn reaches(base: Offset, batch: &Batch) -> bool {
    batch.last_offset().0 - base.0 <= i64::from(i32::MAX)
}

/// How many of `batches` go into `segment`: at least one into an empty segment, however large.
fn fitting(config: &LogConfig, segment: &Segment, batches: &[Batch]) -> usize {
    let segment_bytes = config.segment_bytes.min(i32::MAX as u64);
    let mut len = segment.len();
    batches
        .iter()
        .take_while(|batch| {
            let first = len == 0;
            len += batch.size() as u64;
            reaches(segment.base(), batch) && (first || len <= segment_bytes)
        })
        .count()
}

/// Spreads the rolls of many partitions; the same for the same segment at every start.
fn jitter(dir: &Path, base: Offset, jitter_ms: i64) -> i64 {
    if jitter_ms <= 0 {
        return 0;
    }
    let seed = crc_fast::crc32_iscsi(dir.as_os_str().as_encoded_bytes()) ^ base.0 as u32;
    i64::from(seed) % jitter_ms
}
