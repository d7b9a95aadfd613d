//! One segment: a run of batches in a file named after its first offset, and the indexes into it.
//!
//! One writer appends; readers never wait for its writes. Invariant: `len` and `end` move together, under the short lock,
//! after the bytes are in the file; so what a reader finds below them is whole. Does not decide when to roll, sync or delete.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use env::FileHandle;
use env::disk::Open;
use model::{LeaderEpoch, Offset, Timestamp};
use parking_lot::{Mutex, RwLock};
use wire::records::{Batch, Caps, Head, RecordIter, TimestampType};

use crate::index::{self, Entry, OffsetEntry, TimeEntry};
use crate::pool::{FilePool, Slot};
use crate::scan::{Damage, HeadScan, ScanError, read_batch, scan_batches};
use crate::txn_index::{self, AbortedTxn};

/// Ends of the latest appends that are remembered, so that readers at the tail need no search: 3 KiB at most per partition.
const MARKS_MAX: usize = 128;

/// A range of a segment file, to be sent or read.
#[derive(Clone)]
pub struct FileSlice {
    pub file: FileHandle,
    pub position: u64,
    pub len: usize,
    /// Base offset and size of the first batch inside.
    pub base_offset: Offset,
    pub first_size: usize,
}

impl FileSlice {
    /// Reads the slice into memory; fewer bytes when the file was truncated meanwhile.
    pub fn read(&self) -> io::Result<bytes::Bytes> {
        let mut bytes = vec![0; self.len];
        let got = crate::scan::read_up_to(&*self.file, &mut bytes, self.position)?;
        bytes.truncate(got);
        Ok(bytes.into())
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

pub struct Segment {
    base: Offset,
    dir: Arc<Path>,
    pool: Arc<FilePool>,
    log: Slot,
    offsets_file: Slot,
    times_file: Slot,
    len: AtomicU64,
    inner: RwLock<Inner>,
    /// `None` until the file was looked at.
    txns: Mutex<Option<Vec<AbortedTxn>>>,
}

struct Inner {
    /// Next offset after the last batch. Of a sealed segment only an upper bound.
    end: Offset,
    sealed: bool,
    index: Index,
    max: Option<MaxTime>,
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

/// Name of a segment's file: twenty digits, so that names sort like offsets.
#[must_use]
pub fn file_name(base: Offset, extension: &str) -> String {
    format!("{:020}.{extension}", base.0)
}

impl Segment {
    /// A segment over an existing file of `len` good bytes that ends before `end`.
    pub(crate) fn existing(
        pool: &Arc<FilePool>,
        dir: &Arc<Path>,
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
            len: AtomicU64::new(len),
            inner: RwLock::new(Inner {
                end,
                sealed,
                index: Index::Unknown,
                max: None,
                marks: VecDeque::new(),
                since_entry: 0,
            }),
            txns: Mutex::new(None),
        }
    }

    /// Creates the file of a new active segment. Its entry is not durable before the directory is synced.
    pub(crate) fn create(
        pool: &Arc<FilePool>,
        dir: &Arc<Path>,
        base: Offset,
        allocate: Option<u64>,
    ) -> io::Result<Segment> {
        let segment = Segment::existing(pool, dir, base, 0, base, false);
        segment.inner.write().index = Index::Memory {
            offsets: Vec::new(),
            times: Vec::new(),
        };
        *segment.txns.lock() = Some(Vec::new());
        let path = segment.path("log");
        let file = pool.get_pinned(&segment.log, Open::CreateNew, || path)?;
        if let Some(bytes) = allocate {
            // Best effort: a disk that cannot reserve still takes the bytes when they come.
            let _ = file.allocate(bytes);
        }
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

    /// Next offset after the last batch; of a sealed segment an upper bound.
    #[must_use]
    pub fn end(&self) -> Offset {
        self.inner.read().end
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

    pub(crate) fn unpin(&self) {
        self.log.unpin();
    }

    pub(crate) fn close(&self) {
        self.log.unpin();
        for slot in [&self.log, &self.offsets_file, &self.times_file] {
            slot.close();
        }
    }

    /// Writes batches behind the last one. They must fit: positions below 2 GiB, offsets within 2^31 of the base.
    pub(crate) fn append(&self, batches: &[Batch], index_interval: u64) -> io::Result<()> {
        let file = self.pinned_file()?;
        self.load_active()?;
        let start = self.len();
        let bufs: Vec<IoSlice<'_>> = batches
            .iter()
            .flat_map(|batch| [IoSlice::new(batch.head()), IoSlice::new(batch.body())])
            .collect();
        file.write_at(&bufs, start)?;
        let mut inner = self.inner.write();
        let mut position = start;
        for batch in batches {
            inner.note(self.base, position, batch, index_interval);
            position += batch.size() as u64;
        }
        inner.mark(position);
        self.len.store(position, Ordering::Release);
        Ok(())
    }

    /// First batch that holds `from` or lies above it, among the bytes below `limit`.
    pub fn find(&self, from: Offset, limit: u64) -> Result<Option<Found>, ScanError> {
        if let Some(position) = self.mark_at(from) {
            return self.first_from(position, limit, from);
        }
        self.load()?;
        let Some(entry) = self.offset_floor(from)? else {
            return self.first_from(0, limit, from);
        };
        // The entry must lead to the batch it was made for, else the index is not of this file.
        let position = entry.position.max(0) as u64;
        let file = self.file()?;
        match HeadScan::new(&*file, position, limit, self.base).step() {
            Ok(Some((_, head)))
                if head.last_offset().0 == self.base.0 + i64::from(entry.relative) => {}
            // An entry above the limit says nothing against the index.
            Ok(None) if position >= limit && limit < self.len() => {
                return self.first_from(0, limit, from);
            }
            Err(ScanError::Io(error)) => return Err(error.into()),
            _ => {
                self.rebuild()?;
                return self.first_from(0, limit, from);
            }
        }
        self.first_from(position, limit, from)
    }

    fn first_from(
        &self,
        position: u64,
        limit: u64,
        from: Offset,
    ) -> Result<Option<Found>, ScanError> {
        let file = self.file()?;
        let mut scan = HeadScan::new(&*file, position, limit, self.base);
        while let Some((position, head)) = scan.step()? {
            if head.last_offset() >= from {
                return Ok(Some(Found { position, head }));
            }
        }
        Ok(None)
    }

    /// End of the batches that lie wholly below `upto`.
    pub fn end_position(&self, upto: Offset) -> Result<u64, ScanError> {
        {
            let inner = self.inner.read();
            if upto >= inner.end {
                return Ok(self.len());
            }
        }
        if let Some(position) = self.mark_at(upto) {
            return Ok(position);
        }
        let len = self.len();
        Ok(self.find(upto, len)?.map_or(len, |found| found.position))
    }

    /// First record at or after `from` whose time is `timestamp` or later, exact to the record.
    pub fn find_time(
        &self,
        timestamp: Timestamp,
        from: Offset,
        upto: Offset,
    ) -> Result<Option<RecordTime>, ScanError> {
        self.load()?;
        let after = self.time_floor(timestamp)?.map_or(self.base, |entry| {
            self.base.advance(i64::from(entry.relative))
        });
        let len = self.len();
        let Some(first) = self.find(after.max(from), len)? else {
            return Ok(None);
        };
        let file = self.file()?;
        let mut scan = HeadScan::new(&*file, first.position, len, self.base);
        while let Some((position, head)) = scan.step()? {
            if head.base_offset() >= upto {
                break;
            }
            if head.max_timestamp() < timestamp || head.last_offset() < from {
                continue;
            }
            let batch = read_batch(&*file, position, &head)?;
            let found = first_record(&batch, |time, offset| {
                time >= timestamp && from <= offset && offset < upto
            });
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The first record that has the largest time of the segment.
    pub fn find_max_time(&self) -> Result<Option<RecordTime>, ScanError> {
        let Some(max) = self.max_time()? else {
            return Ok(None);
        };
        let Some(found) = self.find(max.offset, self.len())? else {
            return Ok(None);
        };
        let batch = read_batch(&*self.file()?, found.position, &found.head)?;
        Ok(first_record(&batch, |time, _| {
            time >= batch.max_timestamp()
        }))
    }

    pub fn max_time(&self) -> Result<Option<MaxTime>, ScanError> {
        if self.is_empty() {
            return Ok(None);
        }
        self.load()?;
        Ok(self.inner.read().max)
    }

    fn mark_at(&self, offset: Offset) -> Option<u64> {
        let inner = self.inner.read();
        let at = inner.marks.partition_point(|mark| mark.next < offset);
        inner
            .marks
            .get(at)
            .filter(|mark| mark.next == offset)
            .map(|mark| mark.position)
    }

    fn offset_floor(&self, offset: Offset) -> io::Result<Option<OffsetEntry>> {
        let key = offset.0 - self.base.0;
        let inner = self.inner.read();
        match &inner.index {
            Index::Memory { offsets, .. } => Ok(index::floor(offsets, key)),
            Index::Files { offsets: count, .. } => self.floor_in(&self.offsets_file, *count, key),
            Index::Unknown => Ok(None),
        }
    }

    fn time_floor(&self, timestamp: Timestamp) -> io::Result<Option<TimeEntry>> {
        let inner = self.inner.read();
        match &inner.index {
            Index::Memory { times, .. } => Ok(index::floor(times, timestamp.0)),
            Index::Files { times: count, .. } => {
                self.floor_in(&self.times_file, *count, timestamp.0)
            }
            Index::Unknown => Ok(None),
        }
    }

    fn floor_in<E: Entry>(&self, slot: &Slot, count: u64, key: i64) -> io::Result<Option<E>> {
        if count == 0 {
            return Ok(None);
        }
        let file = self
            .pool
            .get(slot, Open::Read, || self.path(E::EXTENSION))?;
        index::floor_in_file(&*file, count, key)
    }

    fn load(&self) -> Result<(), ScanError> {
        let (unknown, sealed) = {
            let inner = self.inner.read();
            (matches!(inner.index, Index::Unknown), inner.sealed)
        };
        match (unknown, sealed) {
            (false, _) => Ok(()),
            (true, false) => Ok(self.load_active()?),
            (true, true) => self.load_sealed(),
        }
    }

    /// Brings the index of an active segment into memory, trusting its `len` bytes.
    fn load_active(&self) -> io::Result<()> {
        if !matches!(self.inner.read().index, Index::Unknown) {
            return Ok(());
        }
        // Under the lock, and asked again: a reader that loads must not publish an end that the writer has passed meanwhile.
        let mut inner = self.inner.write();
        if matches!(inner.index, Index::Unknown) {
            self.reopen_locked(&mut inner, self.len(), false)?;
        }
        Ok(())
    }

    /// Makes a segment active: reads its indexes and walks the headers behind the last entry, or when `verify` walks all
    /// batches with their checksums. Publishes the end found; returns the damage that ended the walk.
    pub(crate) fn reopen(&self, file_len: u64, verify: bool) -> io::Result<Option<Damage>> {
        self.reopen_locked(&mut self.inner.write(), file_len, verify)
    }

    fn reopen_locked(
        &self,
        inner: &mut Inner,
        file_len: u64,
        verify: bool,
    ) -> io::Result<Option<Damage>> {
        let disk = &**self.pool.disk();
        let (mut offsets, mut times): (Vec<OffsetEntry>, Vec<TimeEntry>) = match verify {
            true => (Vec::new(), Vec::new()),
            false => (
                index::load(disk, &self.path(OffsetEntry::EXTENSION))?,
                index::load(disk, &self.path(TimeEntry::EXTENSION))?,
            ),
        };
        let file = self.file()?;
        offsets.retain(|entry| {
            entry.relative >= 0 && entry.position >= 0 && (entry.position as u64) < file_len
        });
        // The last entry must lead to its batch, otherwise the whole index is not to be trusted.
        if let Some(last) = offsets.last() {
            let found = HeadScan::new(&*file, last.position as u64, file_len, self.base).step();
            let leads = match found {
                Ok(Some((_, head))) => {
                    head.last_offset().0 == self.base.0 + i64::from(last.relative)
                }
                Ok(None) | Err(ScanError::Damage(_)) => false,
                Err(ScanError::Io(error)) => return Err(error),
            };
            if !leads {
                offsets.clear();
            }
        }
        let last_indexed = offsets.last().map_or(-1, |last| last.relative);
        times.retain(|entry| 0 <= entry.relative && entry.relative <= last_indexed);
        let from = offsets.last().map_or(0, |last| last.position as u64);
        let max = times.last().map(|entry| MaxTime {
            timestamp: Timestamp(entry.timestamp),
            offset: self.base.advance(i64::from(entry.relative)),
        });
        let mut rebuilt = Inner {
            end: self.base,
            sealed: false,
            index: Index::Memory { offsets, times },
            max,
            marks: VecDeque::new(),
            since_entry: 0,
        };
        let (len, damage) = self.walk(&file, from, file_len, verify, &mut rebuilt)?;
        *inner = rebuilt;
        self.len.store(len, Ordering::Release);
        Ok(damage)
    }

    fn walk(
        &self,
        file: &FileHandle,
        from: u64,
        end: u64,
        verify: bool,
        into: &mut Inner,
    ) -> io::Result<(u64, Option<Damage>)> {
        if verify {
            return scan_batches(&**file, from, end, self.base, |position, batch| {
                into.note(self.base, position, &batch, INTERVAL_OF_REBUILD);
            });
        }
        let mut scan = HeadScan::new(&**file, from, end, self.base);
        let mut good = from;
        loop {
            match scan.step() {
                Ok(Some((position, head))) => {
                    into.note(self.base, position, &head, INTERVAL_OF_REBUILD);
                    good = position + head.size() as u64;
                }
                Ok(None) => return Ok((good, None)),
                Err(ScanError::Damage(damage)) => return Ok((good, Some(damage))),
                Err(ScanError::Io(error)) => return Err(error),
            }
        }
    }

    fn load_sealed(&self) -> Result<(), ScanError> {
        let sound = {
            let mut inner = self.inner.write();
            if !matches!(inner.index, Index::Unknown) {
                return Ok(());
            }
            match self.sound_files()? {
                Some((offsets, times, max)) => {
                    inner.index = Index::Files { offsets, times };
                    inner.max = Some(max);
                    true
                }
                None => false,
            }
        };
        if sound { Ok(()) } else { self.rebuild() }
    }

    /// Entries of both index files and the last time, when the files look like those of this segment.
    fn sound_files(&self) -> io::Result<Option<(u64, u64, MaxTime)>> {
        let Some((offsets, last)) = self.last_entry::<OffsetEntry>(&self.offsets_file)? else {
            return Ok(None);
        };
        let Some((times, time)) = self.last_entry::<TimeEntry>(&self.times_file)? else {
            return Ok(None);
        };
        let Some(time) = time else { return Ok(None) };
        let leads_inside = last.is_none_or(|last| {
            last.relative >= 0 && 0 <= last.position && (last.position as u64) < self.len()
        });
        if !leads_inside || time.relative < 0 {
            return Ok(None);
        }
        let offset = self.base.advance(i64::from(time.relative));
        Ok(Some((
            offsets,
            times,
            MaxTime {
                timestamp: Timestamp(time.timestamp),
                offset,
            },
        )))
    }

    fn last_entry<E: Entry>(&self, slot: &Slot) -> io::Result<Option<(u64, Option<E>)>> {
        let file = match self.pool.get(slot, Open::Read, || self.path(E::EXTENSION)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let len = file.len()?;
        let count = len / E::SIZE as u64;
        if len % E::SIZE as u64 != 0 {
            return Ok(None);
        }
        if count == 0 {
            return Ok(Some((0, None)));
        }
        let mut bytes = vec![0; E::SIZE];
        file.read_exact_at(&mut bytes, (count - 1) * E::SIZE as u64)?;
        let zero = bytes.iter().all(|byte| *byte == 0);
        Ok((!zero).then(|| (count, Some(E::read(&bytes)))))
    }

    /// Makes the indexes anew from the batches. An active segment keeps them in memory, a sealed one writes its files.
    pub(crate) fn rebuild(&self) -> Result<(), ScanError> {
        let len = self.len();
        let file = self.file()?;
        let (sealed, end) = {
            let inner = self.inner.read();
            (inner.sealed, inner.end)
        };
        let mut rebuilt = Inner {
            end: self.base,
            sealed,
            index: Index::Memory {
                offsets: Vec::new(),
                times: Vec::new(),
            },
            max: None,
            marks: VecDeque::new(),
            since_entry: 0,
        };
        let (good, damage) = self.walk(&file, 0, len, false, &mut rebuilt)?;
        if sealed {
            rebuilt.end = end;
            rebuilt.finish(self.base);
        }
        let mut inner = self.inner.write();
        // The writer may have gone on while we walked; its index is then ahead of ours and is asked again next time.
        if sealed || inner.end == rebuilt.end {
            *inner = rebuilt;
        }
        drop(inner);
        if sealed {
            self.write_indexes()?;
            self.to_files();
        }
        match damage {
            Some(damage) if good < len => Err(damage.into()),
            _ => Ok(()),
        }
    }

    /// Writes the index files from memory, so that the next start need not walk the batches.
    pub(crate) fn write_indexes(&self) -> io::Result<()> {
        let (offsets, times) = match &self.inner.read().index {
            Index::Memory { offsets, times } => (offsets.clone(), times.clone()),
            Index::Unknown | Index::Files { .. } => return Ok(()),
        };
        let disk = &**self.pool.disk();
        index::store(disk, &self.path(OffsetEntry::EXTENSION), &offsets)?;
        index::store(disk, &self.path(TimeEntry::EXTENSION), &times)?;
        self.offsets_file.close();
        self.times_file.close();
        Ok(())
    }

    fn to_files(&self) {
        let mut inner = self.inner.write();
        if let Index::Memory { offsets, times } = &inner.index {
            inner.index = Index::Files {
                offsets: offsets.len() as u64,
                times: times.len() as u64,
            };
        }
    }

    /// No more appends: the last time entry is made, the indexes go to their files and leave memory.
    pub(crate) fn seal(&self) -> io::Result<()> {
        self.load_active()?;
        {
            let mut inner = self.inner.write();
            inner.finish(self.base);
            inner.sealed = true;
        }
        self.write_indexes()?;
        self.to_files();
        Ok(())
    }

    /// Cuts the file to the batches wholly below `upto` and makes the segment active again.
    pub(crate) fn truncate(&self, upto: Offset) -> Result<u64, ScanError> {
        let len = self.end_position(upto)?;
        // Readers stop at the new end before the bytes go.
        {
            let mut inner = self.inner.write();
            inner.index = Index::Unknown;
            inner.sealed = false;
            inner.marks.clear();
            self.len.store(len, Ordering::Release);
        }
        self.offsets_file.close();
        self.times_file.close();
        self.pinned_file()?.set_len(len)?;
        self.reopen(len, false)?;
        self.write_indexes()?;
        self.edit_txns(|txns| txns.retain(|txn| txn.last_offset < upto))?;
        Ok(len)
    }

    fn edit_txns(&self, edit: impl FnOnce(&mut Vec<AbortedTxn>)) -> io::Result<()> {
        let path = self.path("txnindex");
        let disk = &**self.pool.disk();
        let mut txns = self.txns.lock();
        let list = match txns.take() {
            Some(list) => txns.insert(list),
            None => txns.insert(txn_index::load(disk, &path)?),
        };
        let before = list.clone();
        edit(list);
        if *list == before {
            Ok(())
        } else {
            txn_index::store(disk, &path, list)
        }
    }

    pub(crate) fn add_aborted(&self, txn: AbortedTxn) -> io::Result<()> {
        self.edit_txns(|txns| {
            if txns
                .last()
                .is_none_or(|last| last.last_offset < txn.last_offset)
            {
                txns.push(txn);
            }
        })
    }

    /// Adds aborted transactions that touch `from..upto`; true when no later segment can have more of them.
    pub(crate) fn collect_aborted(
        &self,
        from: Offset,
        upto: Offset,
        into: &mut Vec<AbortedTxn>,
    ) -> io::Result<bool> {
        let mut txns = self.txns.lock();
        let list = match txns.take() {
            Some(list) => txns.insert(list),
            None => txns.insert(txn_index::load(
                &**self.pool.disk(),
                &self.path("txnindex"),
            )?),
        };
        for txn in list.iter() {
            if txn.last_offset >= from && txn.first_offset < upto {
                into.push(*txn);
            }
            if txn.last_stable_offset >= upto {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Distance of entries when an index is made again; the topic's own setting is not known here.
const INTERVAL_OF_REBUILD: u64 = 4096;

impl Inner {
    /// Takes note of a batch at `position`.
    fn note(&mut self, base: Offset, position: u64, head: &Head, interval: u64) {
        let last = head.last_offset();
        if self
            .max
            .is_none_or(|max| head.max_timestamp() > max.timestamp)
        {
            self.max = Some(MaxTime {
                timestamp: head.max_timestamp(),
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

/// The first record of a batch that `wanted` accepts, by time and offset.
pub fn first_record(
    batch: &Batch,
    wanted: impl Fn(Timestamp, Offset) -> bool,
) -> Option<RecordTime> {
    let leader_epoch = batch.leader_epoch();
    let append_time = batch.attributes().timestamp_type() == TimestampType::LogAppendTime;
    // Records that cannot be read (nobody walked them when they came) are found by their batch.
    let whole = RecordTime {
        timestamp: batch.max_timestamp(),
        offset: batch.base_offset(),
        leader_epoch,
    };
    let Ok(plain) = batch.plain(Caps::default()) else {
        return Some(whole);
    };
    for record in RecordIter::new(&plain, batch.record_count()) {
        let Ok(record) = record else {
            return Some(whole);
        };
        let timestamp = match append_time {
            true => batch.max_timestamp(),
            false => Timestamp(
                batch
                    .base_timestamp()
                    .0
                    .saturating_add(record.timestamp_delta),
            ),
        };
        let offset = batch.base_offset().advance(i64::from(record.offset_delta));
        if wanted(timestamp, offset) {
            return Some(RecordTime {
                timestamp,
                offset,
                leader_epoch,
            });
        }
    }
    None
}
