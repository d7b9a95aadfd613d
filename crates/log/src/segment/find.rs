//! Finding a place in a segment: by offset, and where a bound lies.
//!
//! Indexes and marks only shorten the way: each answer is confirmed by batch headers, and an index that leads astray is made
//! anew. Nothing at or above a caller's limit is looked at.

use std::io;

use env::disk::Open;
use model::{Offset, Timestamp};

use super::{Found, Index, Segment};
use crate::behind::first_behind_damage;
use crate::index::{self, Entry, OffsetEntry, TimeEntry};
use crate::pool::Slot;
use crate::scan::{HeadScan, ScanError, is_unreadable};

/// A reader behind damage searches at most this, at each read: index entries lie a batch and 4 KiB from each other.
const SEARCHED_BYTES_MAX: u64 = 4 << 20;

impl Segment {
    /// True if a place in it is found without walking it, or the files of its indexes, first.
    pub(crate) fn is_loaded(&self) -> bool {
        !matches!(self.inner.read().index, Index::Unknown)
    }

    /// First batch that holds `from` or lies above it, among the bytes below `limit`.
    pub fn find(&self, from: Offset, limit: u64) -> Result<Option<Found>, ScanError> {
        if let Some(position) = self.mark_at(from) {
            return self.first_from(position, limit, from);
        }
        self.load()?;
        let Some(entry) = self.offset_floor(from)? else {
            return self.first_or_behind(0, limit, from);
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
            // It may well be right: the batch that it leads to cannot be read.
            Err(ScanError::Io(error)) if is_unreadable(&error) => {}
            Err(ScanError::Io(error)) => return Err(error.into()),
            _ => {
                self.rebuild()?;
                return self.first_or_behind(0, limit, from);
            }
        }
        self.first_or_behind(position, limit, from)
    }

    fn first_or_behind(
        &self,
        position: u64,
        limit: u64,
        from: Offset,
    ) -> Result<Option<Found>, ScanError> {
        match self.first_from(position, limit, from) {
            Err(error) if error.is_local() => match self.first_behind(position, limit, from)? {
                Some(found) => Ok(Some(found)),
                None => Err(error),
            },
            found => found,
        }
    }

    /// Where a walk from `position` to `from` meets damage: the batch that holds `from`, if batches lead from it, or from one before
    /// it, to that of the next index entry or to the limit.
    fn first_behind(
        &self,
        position: u64,
        limit: u64,
        from: Offset,
    ) -> Result<Option<Found>, ScanError> {
        let file = self.file()?;
        let mut end = limit;
        if let Some(entry) = self.offset_ceiling(from)? {
            let at = entry.position.max(0) as u64;
            match HeadScan::new(&*file, at, limit, self.base).step() {
                Ok(Some((position, head)))
                    if head.last_offset().0 == self.base.0 + i64::from(entry.relative) =>
                {
                    if head.base_offset() <= from {
                        return Ok(Some(Found { position, head }));
                    }
                    end = position;
                }
                // Nothing at the limit or above it is looked at.
                Ok(None) => {}
                Err(error) if !error.is_local() => return Err(error),
                Ok(Some(_)) | Err(_) => return Ok(None),
            }
        }
        if end.saturating_sub(position) > SEARCHED_BYTES_MAX {
            return Ok(None);
        }
        let offsets = self.base..from.advance(1);
        match first_behind_damage(&*file, position, end, offsets, self.end())? {
            Some((position, _)) => self.first_from(position, limit, from),
            None => Ok(None),
        }
    }

    /// The first offset above `at` that is not in the damage that holds `at`, as far as heads show; `None` where nothing of this
    /// segment follows.
    pub(crate) fn behind(&self, at: Offset) -> Result<Option<Offset>, ScanError> {
        let len = self.len();
        let damaged = match self.find(at, len) {
            // Its head is good: the next batch begins where it ends.
            Ok(Some(found))
                if found.head.last_offset() >= at && found.head.next_offset() <= self.end() =>
            {
                return Ok(Some(found.head.next_offset()));
            }
            Ok(Some(found)) => found.position,
            Ok(None) => return Ok(None),
            Err(ScanError::Damage(damage)) => damage.position,
            Err(error) => return Err(error),
        };
        let file = self.file()?;
        let offsets = at.advance(1)..self.end();
        let found = first_behind_damage(&*file, damaged + 1, len, offsets, self.end())?;
        Ok(found.map(|(_, head)| head.base_offset()))
    }

    fn first_from(
        &self,
        position: u64,
        limit: u64,
        from: Offset,
    ) -> Result<Option<Found>, ScanError> {
        let file = self.file()?;
        let mut scan = HeadScan::new(&*file, position, limit, self.base).up_to(self.end());
        while let Some((position, head)) = scan.step()? {
            if head.last_offset() >= from {
                return Ok(Some(Found { position, head }));
            }
        }
        Ok(None)
    }

    /// End of the batches that lie wholly below `upto`.
    pub fn end_position(&self, upto: Offset) -> Result<u64, ScanError> {
        if self.end() <= upto {
            return Ok(self.len());
        }
        if let Some(position) = self.mark_at(upto) {
            return Ok(position);
        }
        let len = self.len();
        let found = self.find(upto, len)?;
        Ok(found.map_or(len, |found| found.position))
    }

    /// An offset above all batches that begin before `position`: exact to the distance of index entries.
    pub(crate) fn offset_after(&self, position: u64) -> Result<Offset, ScanError> {
        if position >= self.len() {
            return Ok(self.end());
        }
        self.load()?;
        let before = |entry: &OffsetEntry| entry.position < 0 || (entry.position as u64) < position;
        let Some(entry) = self
            .first_entry(before)?
            .filter(|entry| 0 <= entry.position)
        else {
            return Ok(self.end());
        };
        // Believed only when the batch that it was made for is there.
        let file = self.file()?;
        let mut scan = HeadScan::new(&*file, entry.position as u64, self.len(), self.base);
        match scan.step() {
            Ok(Some((_, head)))
                if head.last_offset().0 == self.base.0 + i64::from(entry.relative) =>
            {
                Ok(head.base_offset())
            }
            Err(error) if !error.is_local() => Err(error),
            _ => Ok(self.end()),
        }
    }

    pub(super) fn mark_at(&self, offset: Offset) -> Option<u64> {
        let inner = self.inner.read();
        let at = inner.marks.partition_point(|mark| mark.next < offset);
        inner
            .marks
            .get(at)
            .filter(|mark| mark.next == offset)
            .map(|mark| mark.position)
    }

    pub(super) fn offset_floor(&self, offset: Offset) -> Result<Option<OffsetEntry>, ScanError> {
        let key = offset.0 - self.base.0;
        self.ask_index(|index| match index {
            Index::Memory { offsets, .. } => Ok(index::floor(offsets, key)),
            Index::Files { offsets: count, .. } => self.floor_in(&self.offsets_file, *count, key),
            Index::Unknown => Ok(None),
        })
    }

    fn offset_ceiling(&self, offset: Offset) -> Result<Option<OffsetEntry>, ScanError> {
        let key = offset.0 - self.base.0;
        self.first_entry(|entry| i64::from(entry.relative) < key)
    }

    /// The first entry that is not `before`; those that are come first.
    fn first_entry(
        &self,
        before: impl Fn(&OffsetEntry) -> bool,
    ) -> Result<Option<OffsetEntry>, ScanError> {
        self.ask_index(|index| match index {
            Index::Memory { offsets, .. } => {
                Ok(offsets.get(offsets.partition_point(&before)).copied())
            }
            Index::Files { offsets: count, .. } => {
                let path = || self.path(OffsetEntry::EXTENSION);
                let file = self.pool.get(&self.offsets_file, Open::Read, path)?;
                index::first_in_file(&*file, *count, &before)
            }
            Index::Unknown => Ok(None),
        })
    }

    pub(super) fn time_floor(&self, timestamp: Timestamp) -> Result<Option<TimeEntry>, ScanError> {
        self.ask_index(|index| match index {
            Index::Memory { times, .. } => Ok(index::floor(times, timestamp.0)),
            Index::Files { times: count, .. } => {
                self.floor_in(&self.times_file, *count, timestamp.0)
            }
            Index::Unknown => Ok(None),
        })
    }

    /// An index whose file cannot be read is made anew.
    fn ask_index<T>(&self, ask: impl Fn(&Index) -> io::Result<T>) -> Result<T, ScanError> {
        let answer = ask(&self.inner.read().index);
        match answer {
            Err(error) if is_unreadable(&error) => {
                self.replace_files()?;
                Ok(ask(&self.inner.read().index)?)
            }
            answer => Ok(answer?),
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
}
