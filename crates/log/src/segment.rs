//! One segment: a run of batches in a file named after its first offset, and the indexes into it.
//!
//! One writer appends; readers never wait for its writes. Invariant: `len` and `end` move together, under the short lock,
//! after the bytes are in the file; so what a reader finds below them is whole. Does not decide when to roll, sync or delete.

mod clean;
mod cut;
mod find;
mod find_error;
mod heads;
mod load;
mod repair;
mod times;
mod trust;
mod txns;

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use env::FileHandle;
use env::disk::Open;
use heads::Noted;
use model::{LeaderEpoch, Offset, PartitionIndex, Timestamp};
use parking_lot::{Mutex, RwLock};
use txns::Txns;
pub(crate) use txns::{Ended, Standing};
use wire::Uuid;
use wire::records::{Batch, Head};

use crate::file_name::file_name;
use crate::index::{OffsetEntry, TimeEntry};
use crate::pool::{FilePool, Slot};
use crate::scan::Damage;

/// Ends of the latest appends that are remembered, so that readers at the tail need no search: 3 KiB at most per partition.
const MARKS_MAX: usize = 128;

/// The index files may hold entries of bytes that were cut since.
const FOREIGN: u64 = u64::MAX;

/// A range of a segment file, to be sent or read.
#[derive(Clone)]
pub struct FileSlice {
    pub file: FileHandle,
    pub position: u64,
    pub len: usize,
    /// Base offset and size of the first batch inside.
    pub base_offset: Offset,
    pub first_size: usize,
    pub(crate) trust: Arc<Trust>,
}

impl FileSlice {
    /// The bytes could not be sent because the file does not give them: from now on they are read before they are promised
    /// to anyone, and whoever asks for them is told what is wrong.
    pub fn distrust(&self) {
        self.trust.withdraw();
    }

    /// True if its bytes were appended or verified in this life of the process.
    #[must_use]
    pub(crate) fn is_verified(&self) -> bool {
        self.trust
            .is_sound(self.position, self.position + self.len as u64)
    }

    /// Reads the slice into memory; fewer bytes when the file was truncated meanwhile.
    pub fn read(&self) -> io::Result<bytes::Bytes> {
        let mut bytes = vec![0; self.len];
        let got = crate::scan::read_up_to(&*self.file, &mut bytes, self.position)?;
        bytes.truncate(got);
        Ok(bytes.into())
    }
}

/// A slice whose bytes were appended or verified in this life of the process: they may be served. Made by reads of a store alone.
#[derive(Clone)]
pub struct Verified(FileSlice);

impl Verified {
    pub(crate) fn new(slice: FileSlice) -> Verified {
        Verified(slice)
    }

    #[must_use]
    pub fn slice(&self) -> &FileSlice {
        &self.0
    }

    #[must_use]
    pub fn size(&self) -> usize {
        self.0.len
    }

    /// As [`FileSlice::read`].
    pub fn read(&self) -> io::Result<bytes::Bytes> {
        self.0.read()
    }

    #[must_use]
    pub fn into_slice(self) -> FileSlice {
        self.0
    }
}

/// A record found by its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordTime {
    pub timestamp: Timestamp,
    pub offset: Offset,
    pub leader_epoch: LeaderEpoch,
}

/// Largest timestamp of a segment and the last offset of the batch that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxTime {
    pub timestamp: Timestamp,
    pub offset: Offset,
}

/// The directory of a log, and whose it is once that was said.
pub(crate) struct Dir {
    path: Box<Path>,
    whose: OnceLock<(Uuid, PartitionIndex)>,
}

impl Dir {
    pub(crate) fn new(path: &Path) -> Arc<Dir> {
        Arc::new(Dir {
            path: path.into(),
            whose: OnceLock::new(),
        })
    }

    pub(crate) fn belongs_to(&self, topic: Uuid, partition: PartitionIndex) {
        let _ = self.whose.set((topic, partition));
    }

    fn whose(&self) -> (Uuid, PartitionIndex) {
        self.whose.get().copied().unwrap_or_default()
    }
}

impl std::ops::Deref for Dir {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

pub(crate) use cut::CutPlace;
pub use find_error::FindError;
pub use times::{first_record, latest_record};
use trust::Trust;
pub(crate) use trust::Walk;

pub struct Segment {
    base: Offset,
    dir: Arc<Dir>,
    pool: Arc<FilePool>,
    log: Slot,
    offsets_file: Slot,
    times_file: Slot,
    heads_file: Slot,
    len: AtomicU64,
    /// Up to where the index files go, or [`FOREIGN`].
    indexed: AtomicU64,
    trust: Arc<Trust>,
    inner: RwLock<Inner>,
    /// `None` until the file was looked at.
    txns: Mutex<Option<Txns>>,
    heads: Mutex<Noted>,
    /// Another segment has our name: nothing is written under it. Held while indexes are written.
    detached: Mutex<bool>,
}

struct Inner {
    /// Next offset after the last batch. Of a sealed segment only an upper bound.
    end: Offset,
    sealed: bool,
    index: Index,
    max: Option<MaxTime>,
    /// `max` and the times of the index are those of records. Older versions believed what headers claimed.
    are_times_sure: bool,
    /// Batches behind damage were not looked at: `max` may be too low.
    is_damaged: bool,
    /// It is bytes that the disk did not give back, with nothing found behind them. Another time it may.
    unread: Option<Damage>,
    marks: VecDeque<Mark>,
    since_entry: u64,
}

enum Index {
    /// Not looked at since the start.
    Unknown,
    /// The active segment.
    Memory {
        offsets: Vec<OffsetEntry>,
        times: Vec<TimeEntry>,
    },
    /// A sealed segment: entries in each file.
    Files { offsets: u64, times: u64 },
}

#[derive(Clone, Copy)]
struct Mark {
    next: Offset,
    position: u64,
}

/// A batch found in the file.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub position: u64,
    pub head: Head,
}

impl Segment {
    /// A segment over an existing file of `len` good bytes that ends before `end`.
    pub(crate) fn existing(
        pool: &Arc<FilePool>,
        dir: &Arc<Dir>,
        base: Offset,
        len: u64,
        end: Offset,
        sealed: bool,
    ) -> Segment {
        Segment {
            base,
            dir: Arc::clone(dir),
            pool: Arc::clone(pool),
            log: Slot::default(),
            offsets_file: Slot::default(),
            times_file: Slot::default(),
            heads_file: Slot::default(),
            len: AtomicU64::new(len),
            indexed: AtomicU64::new(0),
            trust: Arc::default(),
            inner: RwLock::new(Inner {
                end,
                sealed,
                index: Index::Unknown,
                max: None,
                are_times_sure: false,
                is_damaged: false,
                unread: None,
                marks: VecDeque::new(),
                since_entry: 0,
            }),
            txns: Mutex::new(None),
            heads: Mutex::default(),
            detached: Mutex::new(false),
        }
    }

    /// Creates the file of a new active segment. Its entry is not durable before the directory is synced.
    pub(crate) fn create(
        pool: &Arc<FilePool>,
        dir: &Arc<Dir>,
        base: Offset,
    ) -> io::Result<Segment> {
        let segment = Segment::existing(pool, dir, base, 0, base, false);
        *segment.inner.write() = Inner::empty(base, false);
        *segment.txns.lock() = Some(Txns::default());
        let path = segment.path("log");
        pool.get_pinned(&segment.log, Open::CreateNew, || path)?;
        Ok(segment)
    }

    #[must_use]
    pub fn base(&self) -> Offset {
        self.base
    }

    /// Good bytes in the file.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the index files know nothing of; without bound when they know of others.
    pub(crate) fn unindexed_bytes(&self) -> u64 {
        match self.indexed.load(Ordering::Relaxed) {
            FOREIGN => u64::MAX,
            indexed => self.len().saturating_sub(indexed),
        }
    }

    /// Next offset after the last batch; of a sealed segment an upper bound.
    #[must_use]
    pub fn end(&self) -> Offset {
        self.inner.read().end
    }

    /// The end of a segment that takes no more appends.
    pub(crate) fn sealed_end(&self) -> Option<Offset> {
        let inner = self.inner.read();
        inner.sealed.then_some(inner.end)
    }

    /// Not all of its batches could be looked at.
    pub(crate) fn is_damaged(&self) -> bool {
        self.inner.read().is_damaged
    }

    /// Entries of the offset index in memory.
    pub(crate) fn index_entries(&self) -> u64 {
        match &self.inner.read().index {
            Index::Memory { offsets, .. } => offsets.len() as u64,
            Index::Files { offsets, .. } => *offsets,
            Index::Unknown => 0,
        }
    }

    #[must_use]
    pub fn path(&self, extension: &str) -> Box<Path> {
        self.dir
            .join(file_name(self.base, extension))
            .into_boxed_path()
    }

    /// The open file of the batches.
    pub fn file(&self) -> io::Result<FileHandle> {
        self.pool.get(&self.log, Open::Write, || self.path("log"))
    }

    pub(crate) fn pinned_file(&self) -> io::Result<FileHandle> {
        self.pool
            .get_pinned(&self.log, Open::Write, || self.path("log"))
    }

    pub(crate) fn trust(&self) -> Arc<Trust> {
        Arc::clone(&self.trust)
    }

    pub(crate) fn unpin(&self) {
        self.log.unpin();
    }

    fn slots(&self) -> [&Slot; 4] {
        [
            &self.log,
            &self.offsets_file,
            &self.times_file,
            &self.heads_file,
        ]
    }

    pub(crate) fn close(&self) {
        self.log.unpin();
        for slot in self.slots() {
            slot.close();
        }
    }

    /// Writes batches behind the last one. They must fit: positions below 2 GiB, offsets within 2^31 of the base.
    pub(crate) fn append(&self, batches: &[Batch], index_interval: u64) -> io::Result<()> {
        let file = self.pinned_file()?;
        self.load_to_append()?;
        let start = self.len();
        let bufs: Vec<IoSlice<'_>> = batches
            .iter()
            .flat_map(|batch| [IoSlice::new(batch.head()), IoSlice::new(batch.body())])
            .collect();
        self.trust.on_append(start);
        file.write_at(&bufs, start)?;
        self.note_heads(start, batches);
        let mut inner = self.inner.write();
        let mut position = start;
        for batch in batches {
            let seen = Seen::of(batch, batch.latest_time());
            inner.note(self.base, position, seen, index_interval);
            position += batch.size() as u64;
        }
        inner.mark(position);
        self.len.store(position, Ordering::Release);
        Ok(())
    }
}

/// A batch that a walk meets, and the largest time of its records.
struct Seen<'a> {
    head: &'a Head,
    latest: Timestamp,
}

impl<'a> Seen<'a> {
    fn of(head: &'a Head, latest: Timestamp) -> Seen<'a> {
        Seen { head, latest }
    }
}

impl Inner {
    /// An index of nothing, whose times are sure.
    fn empty(base: Offset, sealed: bool) -> Inner {
        Inner {
            end: base,
            sealed,
            index: Index::Memory {
                offsets: Vec::new(),
                times: Vec::new(),
            },
            max: None,
            are_times_sure: true,
            is_damaged: false,
            unread: None,
            marks: VecDeque::new(),
            since_entry: 0,
        }
    }

    /// Takes note of a batch at `position`.
    fn note(&mut self, base: Offset, position: u64, batch: Seen<'_>, interval: u64) {
        let Seen { head, latest } = batch;
        let last = head.last_offset();
        if self.max.is_none_or(|max| latest > max.timestamp) {
            self.max = Some(MaxTime {
                timestamp: latest,
                offset: last,
            });
        }
        if self.since_entry > interval {
            self.since_entry = 0;
            let (relative, position) = (i32::try_from(last.0 - base.0), i32::try_from(position));
            if let (Index::Memory { offsets, .. }, Ok(relative), Ok(position)) =
                (&mut self.index, relative, position)
                && offsets.last().is_none_or(|entry| entry.relative < relative)
            {
                offsets.push(OffsetEntry { relative, position });
            }
            self.add_time(base);
        }
        self.since_entry += head.size() as u64;
        self.end = head.next_offset();
    }

    fn add_time(&mut self, base: Offset) {
        let Some(max) = self.max else { return };
        let Ok(relative) = i32::try_from(max.offset.0 - base.0) else {
            return;
        };
        if let Index::Memory { times, .. } = &mut self.index
            && times
                .last()
                .is_none_or(|entry| entry.timestamp < max.timestamp.0)
        {
            times.push(TimeEntry {
                timestamp: max.timestamp.0,
                relative,
            });
        }
    }

    /// A walk may not get to `position`: the next batch is found by its mark, and by an index entry of its own.
    fn go_on_behind_damage(&mut self, position: u64) {
        self.is_damaged = true;
        self.since_entry = u64::MAX;
        self.mark(position);
    }

    fn finish(&mut self, base: Offset) {
        self.add_time(base);
    }

    fn mark(&mut self, position: u64) {
        if self.marks.len() == MARKS_MAX {
            self.marks.pop_front();
        }
        self.marks.push_back(Mark {
            next: self.end,
            position,
        });
    }
}
