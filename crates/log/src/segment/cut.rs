//! Cutting a segment at an offset, also where bytes in front of it rotted.
//!
//! The place is known by the batch that begins there, or by those in front, whose heads lead to it. Where damage hides it, all behind the
//! last batch that verifies goes, but for one byte: no batch, so that readers, a start and the scrub find damage up to the offset and not a gap,
//! and it may be repaired.

use std::sync::atomic::Ordering;

use model::Offset;
use wire::records::Head;

use super::{Found, Index, Segment, Walk};
use crate::scan::{HeadScan, ScanError};

/// The bytes that a cut keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CutPlace {
    pub(crate) len: u64,
    /// Where the segment ends then: in front of the cut where that would go through a batch.
    pub(crate) end: Offset,
    /// From here to the cut nothing is kept though it was there.
    pub(crate) lacks_from: Option<Offset>,
}

impl Segment {
    /// Where the segment is cut for `upto`. Offsets may be missing below `gaps_end`.
    pub(crate) fn place_of_cut(
        &self,
        upto: Offset,
        gaps_end: Offset,
        check_epoch: impl Fn(u64, &Head) -> Result<(), ScanError>,
    ) -> Result<CutPlace, ScanError> {
        match self.known_place(upto, gaps_end) {
            Ok(Some(place)) => return Ok(place),
            Err(error) if !error.is_local() => return Err(error),
            Ok(None) | Err(_) => {}
        }
        let begin = Walk::from(0, self.base);
        let near = match self.walk_to(upto) {
            Ok(near) => self.sound_end(near, (upto, gaps_end), &check_epoch)?,
            Err(error) if error.is_local() => None,
            Err(error) => return Err(error),
        };
        let sound = match near {
            Some(near) => near,
            // The batch that the index leads to may be the damaged one.
            None => self
                .sound_end(begin, (upto, gaps_end), &check_epoch)?
                .unwrap_or(begin),
        };
        let is_all = sound.next == upto;
        Ok(CutPlace {
            len: sound.position + u64::from(!is_all),
            end: upto,
            lacks_from: (!is_all).then_some(sound.next),
        })
    }

    /// The place where the batches below `upto` end, if nothing but a gap of compaction can be between them and it.
    fn known_place(&self, upto: Offset, gaps_end: Offset) -> Result<Option<CutPlace>, ScanError> {
        let place = |len, end| CutPlace {
            len,
            end,
            lacks_from: None,
        };
        let (len, end) = (self.len(), self.end());
        if end <= upto {
            return Ok(Some(place(len, end)));
        }
        if upto <= self.base {
            return Ok(Some(place(0, self.base)));
        }
        if let Some(position) = self.mark_at(upto) {
            return Ok(Some(place(position, upto)));
        }
        let (position, may_be_gap) = match self.find(upto, len) {
            Ok(Some(Found { position, head })) => {
                // An offset that rotted upwards leads here as well.
                self.check_head(position, &head)?;
                let base = head.base_offset();
                if base <= upto {
                    return Ok(Some(place(position, base)));
                }
                (position, true)
            }
            Ok(None) => (len, true),
            // A crash of a cut may take the bytes behind it from the file, and not their length: the batches before lead to the place.
            Err(ScanError::Damage(damage)) => (damage.position, false),
            Err(error) => return Err(error),
        };
        let end = self.end_before(position, upto)?;
        let is_known = end == upto || end < upto && upto <= gaps_end && may_be_gap;
        Ok(is_known.then_some(place(position, upto)))
    }

    /// The end of the batches in front of `position`, by their heads.
    fn end_before(&self, position: u64, upto: Offset) -> Result<Offset, ScanError> {
        let floor = self.offset_floor(upto)?;
        let from = floor.map_or(0, |entry| entry.position.max(0) as u64);
        let from = if from < position { from } else { 0 };
        let file = self.file()?;
        let mut scan = HeadScan::new(&*file, from, position, self.base);
        let mut end = self.base;
        while let Some((_, head)) = scan.step()? {
            end = head.next_offset();
        }
        Ok(end)
    }

    /// Moves over batches that verify and end at or below `upto`; `None` if the first of all does not.
    fn sound_end(
        &self,
        mut walk: Walk,
        (upto, gaps_end): (Offset, Offset),
        check_epoch: &impl Fn(u64, &Head) -> Result<(), ScanError>,
    ) -> Result<Option<Walk>, ScanError> {
        let len = self.len();
        let mut sound = None;
        while walk.position < len && walk.next < upto {
            let next_byte = walk.position + 1;
            match self.check_batches(&mut walk, next_byte, gaps_end, check_epoch) {
                Ok(()) if walk.next <= upto => sound = Some(walk),
                Ok(()) => break,
                Err(error) if error.is_local() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(sound)
    }

    /// The next batch begins at `to` or above.
    pub(crate) fn go_on_at(&self, to: Offset) {
        let mut inner = self.inner.write();
        inner.end = inner.end.max(to);
    }

    /// Cuts the file at the place for `upto` and makes the segment active again. What is kept is believed to be good: damage inside is no
    /// end.
    pub(crate) fn truncate(&self, upto: Offset, place: CutPlace) -> Result<(), ScanError> {
        let CutPlace {
            len,
            end,
            lacks_from,
        } = place;
        // Readers stop at the new end before the bytes go.
        {
            let mut inner = self.inner.write();
            inner.index = Index::Unknown;
            inner.sealed = false;
            inner.end = end;
            inner.marks.clear();
            self.len.store(len, Ordering::Release);
        }
        self.trust.on_truncate(len);
        if lacks_from.is_some() {
            self.trust.withdraw();
        }
        self.cut_heads(len)?;
        self.offsets_file.close();
        self.times_file.close();
        self.pinned_file()?.set_len(len)?;
        self.reopen_locked(&mut self.inner.write(), len, true)?;
        self.write_indexes()?;
        Ok(self.cut_txns(upto)?)
    }
}
