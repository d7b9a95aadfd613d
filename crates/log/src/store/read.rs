//! Reading a store: slices for fetches, offsets for times, aborted transactions, verification.
//!
//! Takes no lock that a write holds during IO. A slice is a place in a file: it stays readable after its segment is deleted,
//! and comes up short when the log is truncated under it.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::{Offset, Timestamp};
use wire::records::{Head, Oversized};

use super::Store;
use crate::behind::next_offset_behind;
use crate::scan::{Damage, DamageKind, ScanError, is_unreadable, scan_batches};
use crate::segment::{FileSlice, FindError, RecordTime, Segment, Verified};
use crate::txn_index::AbortedTxn;

/// Answer to a read.
#[derive(Clone)]
pub enum Read {
    Slice(Verified),
    /// Nothing at or above the offset is below the bound yet.
    AtEnd,
}

/// Answer to a read by a caller that does not wait for the disk.
pub enum Located {
    Read(Read),
    /// About so many bytes, which only [`Store::read`] finds or verifies. The indexes of their segment may not have been looked at
    /// since the start: a power cut may have left none, and then all of it is walked.
    Unread {
        bytes: usize,
    },
}

/// The result of a look at the segments.
enum Found {
    Slice(Arc<Segment>, FileSlice),
    AtEnd,
    /// Nobody has looked at the indexes of the segment since the start. It has so many bytes.
    Unloaded {
        bytes: u64,
    },
}

/// The waits that a caller has time for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    ForDisk,
    /// It is rather told that the disk would have to be asked.
    Never,
}

/// The bytes that a reader believes without reading them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trusting {
    /// Those appended or verified in this life of the process.
    Known,
    Nothing,
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("offset {offset} is outside of {local_start} to {log_end}")]
    OutOfRange {
        offset: Offset,
        local_start: Offset,
        log_end: Offset,
    },
    /// The bytes do not verify: a replica must repair them. Never answered as an empty read.
    #[error("segment {base}: {damage}")]
    Damaged { base: Offset, damage: Damage },
    #[error("segment {base}: {error}")]
    Io { base: Offset, error: io::Error },
    /// A look for a time met a record that `max.decompressed.message.bytes` of the log forbids.
    #[error("segment {base}: {record}")]
    Oversized { base: Offset, record: Oversized },
}

impl ReadError {
    /// Bytes changed, or the disk does not give them back: another replica may have them.
    #[must_use]
    pub fn is_rot(&self) -> bool {
        match self {
            ReadError::Damaged { .. } => true,
            ReadError::Io { error, .. } => is_unreadable(error),
            ReadError::OutOfRange { .. } | ReadError::Oversized { .. } => false,
        }
    }
}

pub(super) fn at(base: Offset) -> impl FnOnce(ScanError) -> ReadError {
    move |error| match error {
        ScanError::Io(error) => ReadError::Io { base, error },
        ScanError::Damage(damage) => ReadError::Damaged { base, damage },
    }
}

fn not_found_at(base: Offset) -> impl FnOnce(FindError) -> ReadError {
    move |error| match error {
        FindError::Scan(error) => at(base)(error),
        FindError::Oversized(record) => ReadError::Oversized { base, record },
    }
}

impl Store {
    /// Bytes from the batch that holds `from`, all below `upto` (a high watermark; batches are not split by it). At least
    /// one whole batch (KIP-74), else cut at `bytes_max`, possibly inside the last batch. Stays within one segment.
    pub fn read(&self, from: Offset, upto: Offset, bytes_max: usize) -> Result<Read, ReadError> {
        self.read_in(from, upto, bytes_max, Trusting::Known)
    }

    /// The same, verified now whatever was appended or verified before.
    pub fn read_anew(
        &self,
        from: Offset,
        upto: Offset,
        bytes_max: usize,
    ) -> Result<Read, ReadError> {
        self.read_in(from, upto, bytes_max, Trusting::Nothing)
    }

    fn read_in(
        &self,
        from: Offset,
        upto: Offset,
        bytes_max: usize,
        trusting: Trusting,
    ) -> Result<Read, ReadError> {
        self.undisturbed(|| {
            let found = self.find(from, upto, bytes_max, Waits::ForDisk)?;
            let Found::Slice(segment, slice) = found else {
                return Ok(Read::AtEnd);
            };
            let sound = self.ensure_sound(&segment, &slice, from, trusting);
            let len = sound.map_err(at(segment.base()))?;
            Ok(Read::Slice(Verified::new(FileSlice { len, ..slice })))
        })
    }

    /// The same bytes if they are verified and can be found without the disk.
    pub fn locate(
        &self,
        from: Offset,
        upto: Offset,
        bytes_max: usize,
    ) -> Result<Located, ReadError> {
        let found = self.undisturbed(|| self.find(from, upto, bytes_max, Waits::Never))?;
        Ok(match found {
            Found::Slice(_, slice) if slice.is_verified() => {
                Located::Read(Read::Slice(Verified::new(slice)))
            }
            Found::Slice(_, slice) => Located::Unread { bytes: slice.len },
            Found::AtEnd => Located::Read(Read::AtEnd),
            Found::Unloaded { bytes } => Located::Unread {
                bytes: bytes_max
                    .min(usize::try_from(bytes).unwrap_or(bytes_max))
                    .max(1),
            },
        })
    }

    /// A reader plans on a list of segments (1), a file of it is cut or renamed (2), the reader opens it (3) and finds nothing
    /// or half a batch. That is no damage: it looks again, at the new list.
    fn undisturbed<T>(
        &self,
        mut look: impl FnMut() -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        /// Looks at most; one upheaval spoils one look, and they are rare.
        const LOOKS_MAX: usize = 100;
        for _ in 1..LOOKS_MAX {
            let before = self.upheavals.load(Ordering::Acquire);
            let seen = look();
            let spoiled = match &seen {
                Err(ReadError::Damaged { .. }) => true,
                Err(ReadError::Io { error, .. }) => error.kind() == io::ErrorKind::NotFound,
                Ok(_) | Err(ReadError::OutOfRange { .. } | ReadError::Oversized { .. }) => false,
            };
            let disturbed = before % 2 == 1 || self.upheavals.load(Ordering::Acquire) != before;
            if !(spoiled && disturbed) {
                return seen;
            }
            std::thread::yield_now();
        }
        look()
    }

    fn find(
        &self,
        from: Offset,
        upto: Offset,
        bytes_max: usize,
        waits: Waits,
    ) -> Result<Found, ReadError> {
        // The end before the list: what lies below this end is in segments that the list has.
        let log_end = self.log_end();
        let local_start = self.local_start();
        if from < local_start || log_end < from {
            return Err(ReadError::OutOfRange {
                offset: from,
                local_start,
                log_end,
            });
        }
        let upto = upto.min(log_end);
        if upto <= from {
            return Ok(Found::AtEnd);
        }
        let segments = self.segments.load();
        let first = segments.partition_point(|segment| segment.base() <= from);
        if first == 0 {
            return Err(self.before_files(from));
        }
        // Compaction may have emptied the end of a segment: then the next one answers.
        for (index, segment) in segments.iter().enumerate().skip(first - 1) {
            if upto <= segment.base() {
                break;
            }
            if waits == Waits::Never && !segment.is_loaded() {
                let bytes = segment.len();
                return Ok(Found::Unloaded { bytes });
            }
            let limit = match segments.get(index + 1) {
                Some(next) if next.base() <= upto => segment.len(),
                _ => segment.end_position(upto).map_err(at(segment.base()))?,
            };
            let found = slice(segment, from, limit, bytes_max).map_err(at(segment.base()))?;
            let Some(slice) = found else {
                continue;
            };
            // The end of a segment before may be missing from its file.
            let to = slice.base_offset;
            if first <= index && from < to && self.gaps_end() < to {
                let before = &segments[index - 1];
                let damage = Damage {
                    position: before.len(),
                    why: DamageKind::Missing { from, to },
                };
                let base = before.base();
                return Err(ReadError::Damaged { base, damage });
            }
            return Ok(Found::Slice(Arc::clone(segment), slice));
        }
        Ok(Found::AtEnd)
    }

    /// Why no segment has `from`, which was not below the local start when the reader came.
    fn before_files(&self, from: Offset) -> ReadError {
        let (local_start, base) = (self.local_start(), self.files_start());
        if from < local_start || base <= from {
            // Deleted between the reader's look at the start and at the list.
            return ReadError::OutOfRange {
                offset: from,
                local_start,
                log_end: self.log_end(),
            };
        }
        let why = DamageKind::Missing { from, to: base };
        let damage = Damage { position: 0, why };
        ReadError::Damaged { base, damage }
    }

    /// How many bytes of a slice may be served: all, or those before the first batch that does not verify.
    fn ensure_sound(
        &self,
        segment: &Segment,
        slice: &FileSlice,
        from: Offset,
        trusting: Trusting,
    ) -> Result<usize, ScanError> {
        if from < slice.base_offset {
            segment.ensure_gap(slice.position)?;
        }
        let end = slice.position + slice.len as u64;
        let check_epoch = |position, head: &Head| self.check_epoch(segment, position, head);
        let (begin, gaps_end) = (slice.position, self.gaps_end());
        let sound = match trusting {
            Trusting::Known => segment.ensure_sound(begin, end, from, gaps_end, check_epoch)?,
            Trusting::Nothing => {
                segment.ensure_sound_anew(begin, end, from, gaps_end, check_epoch)?
            }
        };
        Ok((sound - begin) as usize)
    }

    /// First record in `within` that has `timestamp` or a later one. Who trims the log knows of its new start before the files do.
    pub fn offset_for_time(
        &self,
        timestamp: Timestamp,
        within: Range<Offset>,
    ) -> Result<Option<RecordTime>, ReadError> {
        self.undisturbed(|| self.offset_for_time_once(timestamp, &within))
    }

    fn offset_for_time_once(
        &self,
        timestamp: Timestamp,
        within: &Range<Offset>,
    ) -> Result<Option<RecordTime>, ReadError> {
        let from = within.start.max(self.local_start());
        for segment in self.segments.load().iter() {
            let base = segment.base();
            if !self.reaches(segment, timestamp).map_err(at(base))? {
                continue;
            }
            if let Some(found) = segment
                .find_time(timestamp, from..within.end, self.config().caps())
                .map_err(not_found_at(base))?
            {
                self.check_found(segment, &found).map_err(at(base))?;
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// True if a segment has a record that is as late as `time`, or claims to. Its records are asked where headers alone say that
    /// it has none, unless its file was last written long before that.
    fn reaches(&self, segment: &Segment, time: Timestamp) -> Result<bool, ScanError> {
        let claims = || Ok(segment.max_time()?.is_some_and(|max| max.timestamp >= time));
        if claims()? || segment.are_times_sure() || segment.is_empty() {
            return claims();
        }
        let ahead_max = self.config().message_timestamp_after_max_ms;
        if self.modified(segment)?.0.saturating_add(ahead_max) < time.0 {
            return Ok(false);
        }
        segment.look_into_times()?;
        claims()
    }

    /// The first record with the largest timestamp.
    pub fn max_time(&self) -> Result<Option<RecordTime>, ReadError> {
        self.undisturbed(|| self.max_time_once())
    }

    fn max_time_once(&self) -> Result<Option<RecordTime>, ReadError> {
        let segments = self.segments.load();
        let mut bounds: Vec<(Timestamp, &Arc<Segment>)> = Vec::new();
        for segment in segments.iter() {
            let max = segment.max_time().map_err(at(segment.base()))?;
            bounds.extend(max.map(|max| (max.timestamp, segment)));
        }
        // Headers may claim too little.
        let claimed = bounds.iter().map(|(time, _)| *time).max();
        if let Some(claimed) = claimed {
            for (bound, segment) in &mut bounds {
                let reaches = |time| self.reaches(segment, time);
                if *bound < claimed && reaches(claimed).map_err(at(segment.base()))? {
                    let max = segment.max_time().map_err(at(segment.base()))?;
                    *bound = max.map_or(*bound, |max| max.timestamp);
                }
            }
        }
        // Stable, so of equal times the first segment leads.
        bounds.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
        // A segment's time is a bound only: compaction may have emptied the batch that had it.
        let mut best: Option<RecordTime> = None;
        for (bound, segment) in bounds {
            if best.is_some_and(|best| bound <= best.timestamp) {
                break;
            }
            let found = segment
                .find_max_time(self.config().caps())
                .map_err(not_found_at(segment.base()))?;
            if let Some(found) = &found {
                let checked = self.check_found(segment, found);
                checked.map_err(at(segment.base()))?;
            }
            if let Some(found) = found
                && best.is_none_or(|best| best.timestamp < found.timestamp)
            {
                best = Some(found);
            }
        }
        Ok(best)
    }

    /// Aborted transactions that touch `from..upto`, in order of their markers. Asked after the records were
    /// read: when retention has taken their segment meanwhile, nobody knows, and the reader is told to start again.
    pub fn aborted(&self, from: Offset, upto: Offset) -> Result<Vec<AbortedTxn>, ReadError> {
        let aborted = self.gather_aborted(from, upto, Waits::ForDisk)?;
        Ok(aborted.unwrap_or_default())
    }

    /// [`Store::aborted`] where nobody may wait for the disk: `None` when it would have to be asked.
    pub fn known_aborted(
        &self,
        from: Offset,
        upto: Offset,
    ) -> Result<Option<Vec<AbortedTxn>>, ReadError> {
        self.gather_aborted(from, upto, Waits::Never)
    }

    fn gather_aborted(
        &self,
        from: Offset,
        upto: Offset,
        waits: Waits,
    ) -> Result<Option<Vec<AbortedTxn>>, ReadError> {
        let segments = self.segments.load();
        let first = segments
            .partition_point(|segment| segment.base() <= from)
            .saturating_sub(1);
        let mut aborted = Vec::new();
        let mut failed = None;
        for segment in segments.iter().skip(first) {
            let known = match waits {
                Waits::Never => Ok(()),
                Waits::ForDisk => self.sound_txns(segment),
            };
            let collected = known
                .and_then(|()| Ok(segment.collect_aborted(from, upto, &mut aborted)?))
                .map_err(at(segment.base()));
            match collected {
                Ok(Some(true)) => break,
                Ok(Some(false)) => {}
                Ok(None) => return Ok(None),
                // Retention may have taken it.
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        let begins = self
            .segments
            .load()
            .first()
            .map_or(from, |first| first.base());
        if from < begins {
            let (local_start, log_end) = (self.local_start(), self.log_end());
            return Err(ReadError::OutOfRange {
                offset: from,
                local_start,
                log_end,
            });
        }
        failed.map_or(Ok(Some(aborted)), Err)
    }

    /// An offset at or below `upto` that lies above everything in a slice, and perhaps a little further.
    pub fn end_of_slice(&self, slice: &FileSlice, upto: Offset) -> Result<Offset, ReadError> {
        let end = self.undisturbed(|| {
            let segments = self.segments.load();
            let after = segments.partition_point(|segment| segment.base() <= slice.base_offset);
            let segment = after.checked_sub(1).and_then(|at| segments.get(at));
            segment.map_or(Ok(upto), |segment| {
                let file = segment
                    .file()
                    .map_err(|error| at(segment.base())(error.into()))?;
                // A slice of a segment that was compacted meanwhile: its positions say nothing of the new one.
                if !Arc::ptr_eq(&file, &slice.file) {
                    return Ok(upto);
                }
                let end = slice.position + slice.len as u64;
                segment.offset_after(end).map_err(at(segment.base()))
            })
        })?;
        Ok(end.min(upto))
    }

    /// The first offset above `floor` that lies behind damage of a segment, as far as the next batch behind it is found.
    pub fn behind(
        &self,
        base: Offset,
        damage: Damage,
        floor: Offset,
    ) -> Result<Option<Offset>, ReadError> {
        let segments = self.segments();
        let Some(holder) = segments.iter().position(|segment| segment.base() == base) else {
            return Ok(None);
        };
        let io = |error| ReadError::Io { base, error };
        let segment = &segments[holder];
        let file = segment.file().map_err(io)?;
        let next = segments.get(holder + 1).map(|next| next.base());
        let offsets = floor.advance(1)..next.unwrap_or(Offset(i64::MAX));
        let found = next_offset_behind(&*file, damage.position, segment.len(), offsets);
        Ok(found.map_err(io)?.or(next))
    }

    /// Verifies about `bytes` of the files from the batch that holds `from` on, below `upto`. Returns the offset to go on at.
    pub fn scrub(&self, from: Offset, upto: Offset, bytes: u64) -> Result<Offset, ReadError> {
        let end = self.undisturbed(|| {
            let segments = self.segments.load();
            let after = segments.partition_point(|segment| segment.base() <= from);
            let Some(segment) = after.checked_sub(1).and_then(|at| segments.get(at)) else {
                return Ok(self.files_start());
            };
            let at = at(segment.base());
            let end = match segment.find(from, segment.len()) {
                Ok(Some(found)) => segment.offset_after(found.position + bytes),
                Ok(None) => Ok(segment.end()),
                Err(error) => Err(error),
            };
            end.map_err(at)
        })?;
        let to = end.max(from.advance(1)).min(upto);
        self.verify(from, to)?;
        Ok(to)
    }

    /// Where a reader may go on that met damage at `from`: the first offset above it, below `upto`, from which a read gives records.
    /// `None` where there is none, or it was not found among the next batches.
    pub fn next_good(&self, from: Offset, upto: Offset) -> Result<Option<Offset>, ReadError> {
        /// Damaged places one behind the other that are stepped over.
        const PLACES_MAX: usize = 64;
        let mut at = from;
        for _ in 0..PLACES_MAX {
            match self.read(at, upto, 1) {
                Ok(Read::Slice(slice)) => return Ok(Some(slice.slice().base_offset.max(at))),
                Ok(Read::AtEnd) => return Ok(None),
                Err(ReadError::Damaged { .. }) => {}
                Err(error) => return Err(error),
            }
            let segments = self.segments();
            let after = segments.partition_point(|segment| segment.base() <= at);
            let holder = after.checked_sub(1).and_then(|holder| segments.get(holder));
            let behind = match holder {
                Some(segment) => segment.behind(at).map_err(self::at(segment.base()))?,
                None => None,
            };
            let next = segments.get(after).map(|next| next.base());
            match behind.filter(|behind| at < *behind).or(next) {
                Some(next) if next < upto => at = next,
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Reads everything in `from..upto` and checks every checksum, the order of offsets, and leader epochs. Returns the bytes read.
    pub fn verify(&self, from: Offset, upto: Offset) -> Result<u64, ReadError> {
        self.undisturbed(|| self.verify_once(from, upto))
    }

    fn verify_once(&self, from: Offset, upto: Offset) -> Result<u64, ReadError> {
        let segments = self.segments();
        let first = segments.partition_point(|segment| segment.base() <= from);
        if first == 0 && self.local_start() <= from && from < upto {
            return Err(self.before_files(from));
        }
        let first = first.saturating_sub(1);
        let mut bytes = 0;
        let mut floor = Offset::ZERO;
        for (index, segment) in segments.iter().enumerate().skip(first) {
            let base = segment.base();
            if upto <= base {
                break;
            }
            let limit = match segments.get(index + 1) {
                Some(next) if next.base() <= upto => segment.len(),
                _ => segment.end_position(upto).map_err(at(base))?,
            };
            let start = match segment.find(from, limit).map_err(at(base))? {
                Some(found) => found.position,
                None => limit,
            };
            let file = segment
                .file()
                .map_err(|error| ReadError::Io { base, error })?;
            floor = floor.max(base);
            let mut next = floor;
            let heads = segment
                .heads(start..limit)
                .map_err(|error| ReadError::Io { base, error })?;
            let mut checked = Ok(());
            let (end, damage) = scan_batches(&*file, start, limit, floor, |position, batch| {
                next = batch.next_offset();
                if checked.is_ok() {
                    checked = self
                        .check_epoch(segment, position, &batch)
                        .and_then(|()| Ok(heads.check(position, &batch)?));
                }
            })
            .map_err(|error| ReadError::Io { base, error })?;
            if checked.is_err() || damage.is_some() {
                // Readers are not to be given what they were promised before it rotted.
                segment.trust().withdraw();
            }
            checked.map_err(at(base))?;
            if let Some(damage) = damage {
                return Err(ReadError::Damaged { base, damage });
            }
            if let Some(to) = segment.sealed_end().filter(|_| limit == segment.len()) {
                let from = next.max(from);
                if from < to.min(upto) && self.gaps_end() < to {
                    let position = limit;
                    let why = DamageKind::Missing { from, to };
                    let damage = Damage { position, why };
                    return Err(ReadError::Damaged { base, damage });
                }
            }
            floor = next;
            bytes += end - start;
        }
        Ok(bytes)
    }
}

fn slice(
    segment: &Segment,
    from: Offset,
    limit: u64,
    bytes_max: usize,
) -> Result<Option<FileSlice>, ScanError> {
    let Some(found) = segment.find(from, limit)? else {
        return Ok(None);
    };
    let first_size = found.head.size();
    let room = usize::try_from(limit - found.position).unwrap_or(usize::MAX);
    Ok(Some(FileSlice {
        file: segment.file()?,
        position: found.position,
        len: room.min(bytes_max.max(first_size)),
        base_offset: found.head.base_offset(),
        first_size,
        trust: segment.trust(),
    }))
}
