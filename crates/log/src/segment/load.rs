//! Indexes of a segment between memory and files: loading, checking, making anew; sealing.
//!
//! A loaded index is trusted only as far as its last entry leads to the batch it was made for.

use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;

use env::FileHandle;
use env::disk::Open;
use model::{Offset, Timestamp};

use super::times::latest_in;
use super::{FOREIGN, Index, Inner, MaxTime, Seen, Segment};
use crate::behind::first_behind_damage;
use crate::index::{self, Entry, OffsetEntry, Stored, TimeEntry};
use crate::journal::lacks_descriptors;
use crate::pool::Slot;
use crate::scan::{Damage, DamageKind, HeadScan, ScanError, is_unreadable, scan_batches};

/// Distance of entries when an index is made again; the topic's own setting is not known here.
const INTERVAL_OF_REBUILD: u64 = 4096;

/// The ends of both index files of a sealed segment.
struct SoundFiles {
    offsets: IndexEnd<OffsetEntry>,
    times: IndexEnd<TimeEntry>,
    max: MaxTime,
}

struct IndexEnd<E> {
    count: u64,
    last: Option<E>,
    /// The last entry is there twice.
    is_doubled: bool,
}

impl Segment {
    pub(super) fn load(&self) -> Result<(), ScanError> {
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
    pub(super) fn load_active(&self) -> io::Result<()> {
        if !matches!(self.inner.read().index, Index::Unknown) {
            return Ok(());
        }
        // Under the lock, and asked again: a reader that loads must not publish an end that the writer has passed meanwhile.
        let mut inner = self.inner.write();
        if matches!(inner.index, Index::Unknown) {
            self.reopen_locked(&mut inner, self.len(), true)?;
        }
        Ok(())
    }

    /// The same for who is about to write: a disk that does not give the bytes back may take more of them. Readers of those before are
    /// told, and find those behind by a mark and an index entry of their own.
    pub(super) fn load_to_append(&self) -> io::Result<()> {
        let Err(error) = self.load_active() else {
            return Ok(());
        };
        if lacks_descriptors(&error) {
            return Err(error);
        }
        let mut inner = self.inner.write();
        // A reader may have had more luck meanwhile.
        if matches!(inner.index, Index::Unknown) {
            tracing::error!(target: env::logs::SEGMENTS,
                "{}: {error}; what is there cannot be read, and batches go behind it",
                self.path("log").display()
            );
            inner.index = Index::Memory {
                offsets: Vec::new(),
                times: Vec::new(),
            };
            inner.unread = Some(Damage {
                position: 0,
                why: DamageKind::Unreadable,
            });
            inner.go_on_behind_damage(self.len());
        }
        Ok(())
    }

    /// Makes a segment active that nobody vouches for: walks all batches with their checksums. Publishes the end found; returns the
    /// damage that ended the walk.
    pub(crate) fn reopen(&self, file_len: u64) -> io::Result<Option<Damage>> {
        self.reopen_locked(&mut self.inner.write(), file_len, false)
    }

    /// Of a segment that is believed it reads the indexes, and walks the headers behind the last entry.
    pub(super) fn reopen_locked(
        &self,
        inner: &mut Inner,
        file_len: u64,
        believed: bool,
    ) -> io::Result<Option<Damage>> {
        let (offsets, times) = if believed {
            (
                self.stored_entries::<OffsetEntry>()?,
                self.stored_entries::<TimeEntry>()?,
            )
        } else {
            (Stored::none(), Stored::none())
        };
        let are_times_sure = times.is_doubled || times.entries.is_empty();
        let (mut offsets, mut times) = (offsets.entries, times.entries);
        let file = self.file()?;
        let stored = offsets.len();
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
                Ok(None) => false,
                Err(error) if error.is_local() => false,
                Err(error) => return Err(error.into()),
            };
            if !leads {
                offsets.clear();
            }
        }
        let last_indexed = offsets.last().map_or(-1, |last| last.relative);
        times.retain(|entry| 0 <= entry.relative && entry.relative <= last_indexed);
        let is_foreign = !believed || offsets.len() < stored;
        // A power cut may have taken later times than the last, and left the offsets.
        let is_timed = |last: &TimeEntry| index::floor(&offsets, i64::from(last.relative));
        let timed = times.last().and_then(is_timed);
        let from = timed.map_or(0, |entry| entry.position as u64);
        let indexed_to = offsets.last().map_or(0, |last| last.position as u64);
        let times_stored = times.len();
        let max = times.last().map(|entry| MaxTime {
            timestamp: Timestamp(entry.timestamp),
            offset: self.base.advance(i64::from(entry.relative)),
        });
        let mut rebuilt = Inner {
            index: Index::Memory { offsets, times },
            max,
            are_times_sure,
            ..Inner::empty(self.base, false)
        };
        let (len, damage) = if believed {
            self.walk(&file, from..file_len, inner.end, &mut rebuilt)?
        } else {
            scan_batches(&*file, from, file_len, self.base, |position, batch| {
                // Its records are there already, so that they are asked whatever the header claims.
                let seen = Seen::of(&batch, batch.latest_of_records());
                rebuilt.note(self.base, position, seen, INTERVAL_OF_REBUILD);
            })?
        };
        let times_found = match &rebuilt.index {
            Index::Memory { times, .. } => {
                times.partition_point(|time| time.relative <= last_indexed)
            }
            Index::Unknown | Index::Files { .. } => 0,
        };
        let is_foreign = is_foreign || times_stored < times_found;
        let indexed = if is_foreign { FOREIGN } else { indexed_to };
        self.indexed.store(indexed, Ordering::Relaxed);
        // Bytes that a checkpoint vouches for were acknowledged: damage inside answers reads with an error, and the next append goes
        // behind it. To end the segment at the damage would write over everything that follows.
        if believed && damage.is_some() {
            rebuilt.unread = damage.filter(|damage| len < file_len && damage.is_unread());
            rebuilt.end = inner.end;
            rebuilt.go_on_behind_damage(file_len);
            *inner = rebuilt;
            return Ok(damage);
        }
        if believed {
            // Compaction may have left a gap at the end.
            rebuilt.end = rebuilt.end.max(inner.end);
        }
        *inner = rebuilt;
        self.len.store(len, Ordering::Release);
        Ok(damage)
    }

    /// The entries of an index file; none where it cannot be read.
    fn stored_entries<E: Entry + PartialEq>(&self) -> io::Result<Stored<E>> {
        match index::load(&**self.pool.disk(), &self.path(E::EXTENSION)) {
            Err(error) if is_unreadable(&error) => Ok(Stored::none()),
            entries => entries,
        }
    }

    /// Takes note of batches by their heads, those behind damage too: the segment is known to go on to `last_end`. Returns the end of
    /// the last one and the first damage.
    fn walk(
        &self,
        file: &FileHandle,
        positions: Range<u64>,
        last_end: Offset,
        into: &mut Inner,
    ) -> io::Result<(u64, Option<Damage>)> {
        let Range { start, end } = positions;
        let claimed_max = self.claimed_time_max();
        let mut scan = HeadScan::new(&**file, start, end, self.base).up_to(last_end);
        let (mut good, mut last) = (start, (start, self.base));
        let mut met = None;
        loop {
            match scan.step() {
                Ok(Some((position, head))) => {
                    let latest = latest_in(&**file, position, &head, claimed_max)?;
                    let seen = Seen::of(&head, latest);
                    into.note(self.base, position, seen, INTERVAL_OF_REBUILD);
                    good = position + head.size() as u64;
                    last = (position, head.base_offset());
                }
                Ok(None) => return Ok((good, met)),
                Err(error) => {
                    let damage = error.into_damage(scan.position())?;
                    if met.is_some() {
                        return Ok((good, met));
                    }
                    met = Some(damage);
                    // The last head may be what is damaged, its length.
                    let (from, floor) = last;
                    let offsets = floor..last_end;
                    let found = first_behind_damage(&**file, from, end, offsets, last_end)?;
                    let Some((position, _)) = found else {
                        return Ok((good, met));
                    };
                    scan = HeadScan::new(&**file, position, end, floor).up_to(last_end);
                    // No walk from an entry before gets there.
                    into.since_entry = u64::MAX;
                }
            }
        }
    }

    fn load_sealed(&self) -> Result<(), ScanError> {
        {
            let mut inner = self.inner.write();
            if !matches!(inner.index, Index::Unknown) {
                return Ok(());
            }
            if let Some(SoundFiles { offsets, times, .. }) = self.sound_files()? {
                inner.index = Index::Files {
                    offsets: offsets.count,
                    times: times.count,
                };
                inner.are_times_sure = times.is_doubled;
                return Ok(());
            }
        }
        // A reader meets the damage by itself, or does not.
        self.rebuild()?;
        Ok(())
    }

    /// Makes the largest time known that the index of a sealed segment says. Retention goes by it, so it is not believed unless a
    /// batch has it; whoever asks while it is checked checks it too.
    pub(super) fn check_max(&self) -> Result<(), ScanError> {
        let Some(SoundFiles { max, .. }) = self.sound_files()? else {
            return self.rebuild_all();
        };
        if !self.names_batch(max.timestamp, max.offset)? {
            return self.rebuild_all();
        }
        let mut inner = self.inner.write();
        if inner.sealed {
            inner.max.get_or_insert(max);
        }
        Ok(())
    }

    /// Batches that the disk did not give back are asked for once more, where nothing behind them was found: they may have times that
    /// nobody has seen.
    pub(super) fn read_again(&self) -> Result<(), ScanError> {
        if self.inner.read().unread.is_none() {
            return Ok(());
        }
        self.rebuild()?;
        match self.inner.read().unread {
            Some(damage) => Err(damage.into()),
            None => Ok(()),
        }
    }

    /// Index files that cannot be read give way to others: what is written in their place may not be read either.
    pub(super) fn replace_files(&self) -> io::Result<()> {
        {
            let detached = self.detached.lock();
            self.offsets_file.close();
            self.times_file.close();
            for extension in [OffsetEntry::EXTENSION, TimeEntry::EXTENSION] {
                if !*detached {
                    // One that stays is told by who asks it.
                    let _ = self.pool.disk().remove_file(&self.path(extension));
                }
            }
        }
        self.rebuild()?;
        Ok(())
    }

    /// Both index files and the last time, when the files look like those of this segment and can be read.
    fn sound_files(&self) -> io::Result<Option<SoundFiles>> {
        let Some(offsets) = self.ends_of::<OffsetEntry>(&self.offsets_file)? else {
            return Ok(None);
        };
        let Some(times) = self.ends_of::<TimeEntry>(&self.times_file)? else {
            return Ok(None);
        };
        let Some(time) = times.last else {
            return Ok(None);
        };
        let leads_inside = offsets.last.is_none_or(|last| {
            last.relative >= 0 && 0 <= last.position && (last.position as u64) < self.len()
        });
        if !leads_inside || time.relative < 0 {
            return Ok(None);
        }
        let max = MaxTime {
            timestamp: Timestamp(time.timestamp),
            offset: self.base.advance(i64::from(time.relative)),
        };
        Ok(Some(SoundFiles {
            offsets,
            times,
            max,
        }))
    }

    fn ends_of<E: Entry>(&self, slot: &Slot) -> io::Result<Option<IndexEnd<E>>> {
        let file = match self.pool.get(slot, Open::Read, || self.path(E::EXTENSION)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound || is_unreadable(&error) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let len = file.len()?;
        let count = len / E::SIZE as u64;
        if len % E::SIZE as u64 != 0 {
            return Ok(None);
        }
        // The last two, if there are as many.
        let read = count.min(2);
        let mut bytes = vec![0; read as usize * E::SIZE];
        match file.read_exact_at(&mut bytes, (count - read) * E::SIZE as u64) {
            Err(error) if is_unreadable(&error) => return Ok(None),
            read => read?,
        }
        let mut ends = bytes.chunks_exact(E::SIZE).rev();
        let last = ends.next();
        let is_zero = |bytes: &&[u8]| bytes.iter().all(|byte| *byte == 0);
        let end = IndexEnd {
            count,
            last: last.map(E::read),
            is_doubled: last.is_some() && last == ends.next(),
        };
        Ok((!last.as_ref().is_some_and(is_zero)).then_some(end))
    }

    /// Makes the indexes anew, of all batches or with an error.
    pub(super) fn rebuild_all(&self) -> Result<(), ScanError> {
        match self.rebuild()? {
            Some(damage) => Err(damage.into()),
            None => Ok(()),
        }
    }

    /// Makes the indexes anew from the batches. An active segment keeps them in memory, a sealed one writes its files, unless
    /// there is damage: the next start would take the batches that it left for all there are.
    /// Returns the damage behind which nothing was found.
    pub(super) fn rebuild(&self) -> io::Result<Option<Damage>> {
        let len = self.len();
        let file = self.file()?;
        let (sealed, end) = {
            let inner = self.inner.read();
            (inner.sealed, inner.end)
        };
        let mut rebuilt = Inner::empty(self.base, sealed);
        let (mut good, mut damage) = self.walk(&file, 0..len, end, &mut rebuilt)?;
        let mut inner = self.inner.write();
        // The writer may have gone on meanwhile, in an active segment by little: a walk of headers is faster than appends.
        let (len, grown_from) = (self.len(), len);
        if !sealed && damage.is_none() && grown_from < len {
            (good, damage) = self.walk(&file, grown_from..len, inner.end, &mut rebuilt)?;
        }
        let is_damaged = damage.is_some();
        // Damage that was passed is told to those who read it.
        let damage = damage.filter(|_| good < len);
        rebuilt.is_damaged = is_damaged;
        rebuilt.unread = damage.filter(Damage::is_unread);
        rebuilt.are_times_sure = rebuilt.unread.is_none();
        if sealed {
            rebuilt.end = end;
            rebuilt.finish(self.base);
        }
        // It may have been sealed or cut while we walked; its index is then another, and is asked again next time.
        if sealed || !inner.sealed && inner.end == rebuilt.end {
            *inner = rebuilt;
        }
        drop(inner);
        if sealed && !is_damaged && self.write_indexes()? {
            self.to_files();
        }
        Ok(damage)
    }

    /// Writes the index files from memory, so that the next start need not walk the batches. False for a segment whose name is
    /// another's: its index stays in memory.
    pub(crate) fn write_indexes(&self) -> io::Result<bool> {
        let detached = self.detached.lock();
        if *detached {
            return Ok(false);
        }
        let (offsets, times, len, sealed) = {
            let inner = self.inner.read();
            let Index::Memory { offsets, times } = &inner.index else {
                return Ok(true);
            };
            let mut times = times.clone();
            if inner.are_times_sure {
                times.extend(times.last().copied());
            }
            (offsets.clone(), times, self.len(), inner.sealed)
        };
        let disk = &**self.pool.disk();
        index::store(disk, &self.path(OffsetEntry::EXTENSION), &offsets)?;
        if sealed {
            // Its last entry is believed to have the largest time: none may be missing behind it.
            index::store_whole(disk, &self.dir, self.base, &times)?;
        } else {
            index::store(disk, &self.path(TimeEntry::EXTENSION), &times)?;
        }
        self.offsets_file.close();
        self.times_file.close();
        self.indexed.store(len, Ordering::Relaxed);
        Ok(true)
    }

    pub(super) fn to_files(&self) {
        let mut inner = self.inner.write();
        // The last time may be there once more, which a search does not mind to leave out.
        if let Index::Memory { offsets, times } = &inner.index {
            inner.index = Index::Files {
                offsets: offsets.len() as u64,
                times: times.len() as u64,
            };
        }
    }

    /// Time of the first batch, which rolling by time counts from.
    pub(crate) fn first_time(&self) -> Result<Option<Timestamp>, ScanError> {
        let file = self.file()?;
        let first = HeadScan::new(&*file, 0, self.len(), self.base).step()?;
        let claimed_max = self.claimed_time_max();
        let latest = first.map(|(position, head)| latest_in(&*file, position, &head, claimed_max));
        Ok(latest.transpose()?)
    }

    /// No record was accepted that is later than this, where the topic bounds times as it does by default; what claims to be later
    /// is looked into.
    fn claimed_time_max(&self) -> Timestamp {
        const AHEAD_MAX_MS: i64 = 3_600_000;
        let modified = self.pool.disk().modified_ms(&self.path("log"));
        // A file that is on its way to its name was written a moment ago, by us.
        modified.map_or(Timestamp(i64::MAX), |ms| {
            Timestamp(ms.saturating_add(AHEAD_MAX_MS))
        })
    }

    /// No more appends: the last time entry is made, the indexes go to their files and leave memory.
    pub(crate) fn seal(&self) -> io::Result<()> {
        self.load_to_append()?;
        {
            let mut inner = self.inner.write();
            inner.finish(self.base);
            inner.sealed = true;
        }
        self.write_indexes()?;
        self.to_files();
        Ok(())
    }

    /// Takes appends again, because no segment could be begun behind it: its index comes back to memory with the next one.
    pub(crate) fn unseal(&self) {
        let mut inner = self.inner.write();
        inner.sealed = false;
        if matches!(inner.index, Index::Files { .. }) {
            inner.index = Index::Unknown;
        }
    }
}
