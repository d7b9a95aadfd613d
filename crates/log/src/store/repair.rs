//! Putting the true batches in the place of damaged ones, as another replica has them.
//!
//! The damage is looked at as a whole first: from the end of the last good batch to the begin of the next one from which batches lead to
//! the end of the segment. Replicas have the same batches byte for byte, so what fits the offsets and the bytes of that place
//! exactly is written over it, synced and read back. Nothing else of the file moves: indexes, checksums of heads and readers that have
//! the file open stay as they are. Invariant: only bytes that do not verify are written over, so a crash in between leaves
//! damage that is found again. At the end of a sealed segment the file may get longer or shorter, for nothing lies behind.

use std::io::{self, IoSlice};
use std::sync::Arc;

use bytes::Bytes;
use model::Offset;
use wire::records::{Batch, Source};

use super::read::at as in_segment;
use super::{ReadError, Store, StoreError};
use crate::behind::first_behind_damage;
use crate::journal::is_full;
use crate::scan::{Damage, DamageKind, ScanError, read_up_to};
use crate::segment::{Segment, Walk};

/// Bytes behind the place that was named in which damage is looked for: more than a step of the scrub, or a slice of a reader has
/// in front of the first batch that cannot be served.
const WINDOW_BYTES: u64 = 1 << 20;
/// Read at once.
const STEP_BYTES: u64 = 256 << 10;

/// Damage in a segment, as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedRange {
    /// Of the segment.
    pub base: Offset,
    /// Its bytes in the file.
    pub position: u64,
    pub end: u64,
    /// The offsets that are lost with them, `from..to`.
    pub from: Offset,
    pub to: Offset,
    /// Nothing of the sealed segment lies behind: the true batches may have another size.
    pub is_open_ended: bool,
}

impl DamagedRange {
    /// The size of what was there, where it is known.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        (!self.is_open_ended).then_some(self.end - self.position)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// Cut, compacted, removed or repaired since it was found.
    #[error("the damage is not as it was found")]
    Changed,
    #[error("{got} bytes would be written in the place of {want}")]
    Misfit { got: u64, want: u64 },
    #[error("the batches are not those that were there: {0}")]
    Foreign(Damage),
    /// Written and synced, and not what is read back.
    #[error("the disk does not give back what was written")]
    NotKept,
    #[error("{0}")]
    Read(ReadError),
    #[error("{0}")]
    Write(io::Error),
    /// The log directory cannot be used any more.
    #[error(transparent)]
    Sync(StoreError),
}

impl Store {
    /// The first damage that ends above `at`, in the segment that holds it or right in front of the next one; `None` if some way behind
    /// `at` everything verifies. Reads files.
    pub fn damaged_range(&self, at: Offset) -> Result<Option<DamagedRange>, ReadError> {
        // Nothing is renamed, cut or removed meanwhile.
        let _files = self.files.lock();
        self.find_damage(at)
    }

    /// An offset at or in front of the damage of a read, from which [`Store::damaged_range`] finds it; `None` where the read met none.
    #[must_use]
    pub fn offset_of(&self, error: &ReadError) -> Option<Offset> {
        let (base, position) = match error {
            ReadError::Damaged { base, damage } => (*base, damage.position),
            ReadError::Io { base, .. } if error.is_rot() => (*base, 0),
            ReadError::Io { .. } | ReadError::OutOfRange { .. } | ReadError::Oversized { .. } => {
                return None;
            }
        };
        let segments = self.segments();
        let segment = segments.iter().find(|segment| segment.base() == base)?;
        segment.offset_near(position).ok()
    }

    fn find_damage(&self, at: Offset) -> Result<Option<DamagedRange>, ReadError> {
        let segments = self.segments();
        let holder = segments.partition_point(|segment| segment.base() <= at);
        // Where nothing of the first is left behind `at`, a reader has met the second.
        for segment in segments.iter().skip(holder.saturating_sub(1)).take(2) {
            let found = self.damage_in(segment, at);
            if let Some(found) = found.map_err(in_segment(segment.base()))? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn damage_in(&self, segment: &Segment, at: Offset) -> Result<Option<DamagedRange>, ScanError> {
        let (len, gaps_end) = (segment.len(), self.gaps_end());
        let sealed_end = segment.sealed_end();
        let end = sealed_end.unwrap_or_else(|| segment.end());
        let mut walk = segment.walk_to(at)?;
        let mut window_end = u64::MAX;
        loop {
            if at < walk.next {
                window_end = window_end.min(walk.position.saturating_add(WINDOW_BYTES));
            }
            if window_end <= walk.position {
                return Ok(None);
            }
            let to = len.min(walk.position + STEP_BYTES);
            let check_epoch = |position, head: &_| self.check_epoch(segment, position, head);
            let found = match segment.check_batches(&mut walk, to, gaps_end, check_epoch) {
                Ok(()) if walk.position < len => continue,
                // Its end is missing from the file.
                Ok(()) if sealed_end.is_some() && walk.next < end && gaps_end < end => {
                    DamagedRange {
                        base: segment.base(),
                        position: len,
                        end: len,
                        from: walk.next,
                        to: end,
                        is_open_ended: true,
                    }
                }
                Ok(()) => return Ok(None),
                Err(error) => {
                    error.into_damage(walk.position)?;
                    self.extent(segment, walk, end)?
                }
            };
            if at < found.to {
                return Ok(Some(found));
            }
            if found.end == len {
                return Ok(None);
            }
            walk = Walk::from(found.end, found.to);
        }
    }

    /// Damage that begins where the walk stands.
    fn extent(
        &self,
        segment: &Segment,
        walk: Walk,
        end: Offset,
    ) -> Result<DamagedRange, ScanError> {
        let (file, len) = (segment.file()?, segment.len());
        let mut range = DamagedRange {
            base: segment.base(),
            position: walk.position,
            end: len,
            from: walk.next,
            to: end,
            is_open_ended: segment.sealed_end().is_some(),
        };
        let mut from = walk.position + 1;
        let bases = walk.next.advance(1)..end;
        while let Some((position, head)) =
            first_behind_damage(&*file, from, len, bases.clone(), end)?
        {
            let is_ours = segment
                .heads(position..position + 1)?
                .check(position, &head)
                .is_ok();
            if is_ours && self.check_epoch(segment, position, &head).is_ok() {
                range.end = position;
                range.to = head.base_offset();
                range.is_open_ended = false;
                break;
            }
            from = position + 1;
        }
        Ok(range)
    }

    /// Writes the batches of `range` in their place; the damage has to be as it was found. Returns the bytes that were written. By the
    /// writer of the log alone.
    pub fn repair(&self, range: &DamagedRange, records: &[Bytes]) -> Result<u64, RepairError> {
        let _files = self.files.lock();
        if self.find_damage(range.from).map_err(RepairError::Read)? != Some(*range) {
            return Err(RepairError::Changed);
        }
        let segments = self.segments();
        let segment = segments
            .iter()
            .find(|segment| segment.base() == range.base)
            .ok_or(RepairError::Changed)?;
        let size = self.check_fit(segment, range, records)?;
        let file = segment.file().map_err(RepairError::Write)?;
        let bufs: Vec<IoSlice<'_>> = records.iter().map(|bytes| IoSlice::new(bytes)).collect();
        // Bytes that somebody was promised before they rotted are read again from now on.
        segment.trust().withdraw();
        file.write_at(&bufs, range.position)
            .map_err(RepairError::Write)?;
        let end = range.position + size;
        if range.is_open_ended && end < file.len().map_err(RepairError::Write)? {
            file.set_len(end).map_err(RepairError::Write)?;
        }
        if let Err(error) = file.sync_data() {
            // Other bytes of the file may be lost with it.
            self.tail.lock().failed = true;
            return Err(RepairError::Sync(self.io(error)));
        }
        file.drop_cache(range.position, size);
        let mut position = range.position;
        for bytes in records {
            let mut kept = vec![0; bytes.len()];
            let got = read_up_to(&*file, &mut kept, position).map_err(RepairError::Write)?;
            if got < kept.len() || kept != bytes[..] {
                return Err(RepairError::NotKept);
            }
            position += got as u64;
        }
        let len = if range.is_open_ended {
            end
        } else {
            segment.len()
        };
        segment.on_repaired(len).map_err(RepairError::Write)?;
        // Those behind may have looked here for the begin of transactions.
        let misled = segments.iter().filter(|of| range.base <= of.base());
        misled.for_each(|segment| segment.look_for_txns_again());
        Ok(size)
    }

    /// The size of the batches, if they are what is missing.
    fn check_fit(
        &self,
        segment: &Arc<Segment>,
        range: &DamagedRange,
        records: &[Bytes],
    ) -> Result<u64, RepairError> {
        let size: u64 = records.iter().map(|bytes| bytes.len() as u64).sum();
        if let Some(want) = range.bytes()
            && want != size
        {
            return Err(RepairError::Misfit { got: size, want });
        }
        let gaps_end = self.gaps_end();
        let mut position = range.position;
        let io = |error: io::Error| RepairError::Read(in_segment(range.base)(error.into()));
        let heads = segment.heads(position..position + size).map_err(io)?;
        let mut next = range.from;
        let foreign = |position, why| RepairError::Foreign(Damage { position, why });
        for bytes in records {
            for batch in Batch::cut(bytes, Source::Log) {
                let batch = batch.map_err(|why| foreign(position, DamageKind::Batch(why)))?;
                let base = batch.base_offset();
                if base != next && !(next < base && base <= gaps_end) {
                    let (got, want) = (base, next);
                    return Err(foreign(position, DamageKind::Order { got, want }));
                }
                heads
                    .check(position, &batch)
                    .map_err(RepairError::Foreign)?;
                match self.check_epoch(segment, position, &batch) {
                    Ok(()) => {}
                    Err(ScanError::Damage(damage)) => return Err(RepairError::Foreign(damage)),
                    Err(ScanError::Io(error)) => return Err(io(error)),
                }
                position += batch.size() as u64;
                next = batch.next_offset();
            }
        }
        let is_gap = next < range.to && range.to <= gaps_end;
        if next != range.to && !is_gap {
            let (from, to) = (next, range.to);
            return Err(foreign(position, DamageKind::Missing { from, to }));
        }
        Ok(size)
    }
}

impl RepairError {
    /// Tried again, it may go well: the disk had no room, or the process no descriptor.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            RepairError::Write(error) | RepairError::Read(ReadError::Io { error, .. }) => {
                is_full(error)
            }
            _ => false,
        }
    }
}
