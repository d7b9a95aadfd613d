//! Which bytes of a segment may be served: those appended in this life of the process, and older ones once they were verified.
//!
//! A batch's checksum covers neither its base offset nor its leader epoch, and bytes rot while nobody looks. So what was on the
//! disk before this process is walked once before it is first read: checksums, offsets that follow each other, and the epochs
//! that the log knows. What the device failed to give later loses that trust again, so that the next reader is told instead of
//! cut off. Repairs nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use model::Offset;
use parking_lot::Mutex;
use wire::records::{Batch, BatchError, Head, Source};

use super::Segment;
use crate::scan::{Damage, DamageKind, HeadScan, ScanError, read_batch, read_readable};

/// Ranges remembered per segment; readers that jump about lose the oldest, which is then verified again.
const RANGES_MAX: usize = 256;

pub(crate) struct Trust {
    /// Bytes from here on were appended in this life.
    appended_from: AtomicU64,
    /// Verified ranges below, neither sorted nor merged beyond the obvious.
    verified: Mutex<Vec<(u64, u64)>>,
}

impl Default for Trust {
    fn default() -> Trust {
        Trust {
            appended_from: AtomicU64::new(u64::MAX),
            verified: Mutex::default(),
        }
    }
}

impl Trust {
    pub(super) fn on_append(&self, position: u64) {
        self.appended_from.fetch_min(position, Ordering::Relaxed);
    }

    /// The file was cut: what is behind `len` now will be other bytes.
    pub(super) fn on_truncate(&self, len: u64) {
        let mut verified = self.verified.lock();
        verified.retain_mut(|(from, to)| {
            *to = (*to).min(len);
            from < to
        });
    }

    /// Bytes could not be read, or are not there: everything is walked again before it is served.
    pub(crate) fn withdraw(&self) {
        self.appended_from.store(u64::MAX, Ordering::Relaxed);
        self.verified.lock().clear();
    }

    pub(super) fn appended_from(&self) -> u64 {
        self.appended_from.load(Ordering::Relaxed)
    }

    pub(super) fn is_sound(&self, from: u64, to: u64) -> bool {
        self.covers(from, to.min(self.appended_from()))
    }

    fn covers(&self, from: u64, to: u64) -> bool {
        let verified = self.verified.lock();
        from >= to
            || verified
                .iter()
                .any(|range| range.0 <= from && to <= range.1)
    }

    fn add(&self, from: u64, to: u64) {
        let mut verified = self.verified.lock();
        match verified
            .iter_mut()
            .find(|range| range.0 <= from && from <= range.1)
        {
            Some(range) => range.1 = range.1.max(to),
            None => {
                if verified.len() == RANGES_MAX {
                    verified.remove(0);
                }
                verified.push((from, to));
            }
        }
    }
}

/// How far a walk over batches has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    pub(crate) position: u64,
    /// The offset that the next batch begins with.
    pub(crate) next: Offset,
    /// The next batch only has to hold that offset.
    is_loose: bool,
}

impl Walk {
    /// From where the batch that holds `offset` begins, or the next above it.
    pub(crate) fn to(position: u64, offset: Offset) -> Walk {
        Walk {
            position,
            next: offset,
            is_loose: true,
        }
    }

    /// From where a batch begins with the offset `next`.
    pub(crate) fn from(position: u64, next: Offset) -> Walk {
        Walk {
            position,
            next,
            is_loose: false,
        }
    }
}

impl Segment {
    /// Nothing is at the offset that was asked for, and the next batch begins at `position`. The one before ends below, or its offset
    /// rotted to one that does.
    pub(crate) fn ensure_gap(&self, position: u64) -> Result<(), ScanError> {
        let Some(before) = position.checked_sub(1) else {
            return Ok(());
        };
        if self.trust.is_sound(before, position) {
            return Ok(());
        }
        let heads = self.heads(before..position)?;
        if let Some(block) = heads.blocks().first() {
            let file = self.file()?;
            let mut scan = HeadScan::new(&*file, block.from(), position, self.base);
            let mut last = None;
            // Damage on the way is told to those who read it.
            while let Ok(Some(found)) = scan.step() {
                last = Some(found);
            }
            if let Some((at, head)) = last {
                heads.check(at, &head)?;
            }
        }
        self.trust.add(before, position);
        Ok(())
    }

    /// Verifies what of `from..to` was never verified in this life. `from` is where the batch that holds `offset` begins, or the
    /// next above it. Every batch must begin where the one before ends, but for gaps below `gaps_end` that compaction left, and
    /// `check_epoch` must have nothing against its head. Returns `to`, or the begin of the first batch that may not be served; an
    /// error where that is the first of all.
    pub(crate) fn ensure_sound(
        &self,
        from: u64,
        to: u64,
        offset: Offset,
        gaps_end: Offset,
        check_epoch: impl Fn(u64, &Head) -> Result<(), ScanError>,
    ) -> Result<u64, ScanError> {
        let old_to = to.min(self.trust.appended_from());
        if self.trust.covers(from, old_to) {
            return Ok(to);
        }
        let mut walk = Walk::to(from, offset);
        let checked = self.check_batches(&mut walk, old_to, gaps_end, check_epoch);
        let position = walk.position;
        if from < position {
            self.trust.add(from, position);
        }
        match checked {
            Ok(()) => Ok(to),
            Err(error) if from < position && error.is_local() => Ok(position),
            Err(error) => Err(error),
        }
    }

    /// The same, whatever is known of the bytes: a reader that compares replicas is to see what is on the disk. Damage takes the trust in
    /// the segment with it.
    pub(crate) fn ensure_sound_anew(
        &self,
        from: u64,
        to: u64,
        offset: Offset,
        gaps_end: Offset,
        check_epoch: impl Fn(u64, &Head) -> Result<(), ScanError>,
    ) -> Result<u64, ScanError> {
        let mut walk = Walk::to(from, offset);
        match self.check_batches(&mut walk, to, gaps_end, check_epoch) {
            Ok(()) => Ok(to),
            Err(error) if error.is_local() => {
                self.trust.withdraw();
                if from < walk.position {
                    self.trust.add(from, walk.position);
                    Ok(walk.position)
                } else {
                    Err(error)
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Moves over batches that verify, up to `to` or beyond.
    pub(crate) fn check_batches(
        &self,
        walk: &mut Walk,
        to: u64,
        gaps_end: Offset,
        check_epoch: impl Fn(u64, &Head) -> Result<(), ScanError>,
    ) -> Result<(), ScanError> {
        let from = walk.position;
        let file = self.file()?;
        // A slice of a fetch: bounded by what one answer may hold.
        let mut bytes = vec![0; (to - from) as usize];
        // Bytes that cannot be read are met below, where their batch is looked at.
        let (got, _) = read_readable(&*file, &mut bytes, from);
        bytes.truncate(got);
        // The last batch may end behind the range.
        let heads = self.heads(from..to)?;
        let follow = |walk: &mut Walk, batch: &Batch| {
            let Walk { position, next, .. } = *walk;
            let base = batch.base_offset();
            let is_gap = next < base && base <= gaps_end;
            // The walk that found the first one has seen that it does not end before the offset.
            let fits = is_gap
                || if walk.is_loose {
                    base <= next
                } else {
                    base == next
                };
            if !fits {
                let (got, want) = (base, next);
                let why = DamageKind::Order { got, want };
                return Err(ScanError::from(Damage { position, why }));
            }
            check_epoch(position, batch)?;
            heads.check(position, batch)?;
            *walk = Walk::from(position + batch.size() as u64, batch.next_offset());
            Ok(())
        };
        for batch in Batch::cut(&Bytes::from(bytes), Source::Log) {
            match batch {
                Ok(batch) => follow(walk, &batch)?,
                Err(BatchError::Truncated { .. }) => break,
                Err(error) => {
                    let (position, why) = (walk.position, DamageKind::Batch(error));
                    return Err(Damage { position, why }.into());
                }
            }
        }
        if walk.position < to {
            // The batch at the end of the range reaches beyond it.
            let (at, floor) = (walk.position, self.base);
            if let Some((_, head)) = HeadScan::new(&*file, at, self.len(), floor).step()? {
                let batch = read_batch(&*file, at, &head)?;
                follow(walk, &batch)?;
            }
        }
        Ok(())
    }
}
