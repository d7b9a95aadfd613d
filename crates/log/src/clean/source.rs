//! Reading the segments that a pass goes over, in runs of whole batches.
//!
//! Everything read is verified: checksums, leader epochs, and offsets that follow each other but for the gaps that an earlier
//! pass left and for known holes. A pass that found damage must not go on: it would bury it.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use model::Offset;
use wire::records::{Batch, Head, Source as Origin};

use crate::scan::{BATCH_BYTES_MAX, Damage, DamageKind, ScanError, read_once_up_to, read_up_to};
use crate::segment::Segment;
use crate::store::Store;

/// Bytes of one read; a larger batch is read alone.
const RUN_BYTES: u64 = 1 << 20;

/// Which offsets may be missing between batches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gaps {
    /// Below it an earlier pass may have left gaps.
    pub(crate) below: Offset,
    /// Ranges that are lost and reported as such.
    pub(crate) holes: Vec<(Offset, Offset)>,
}

impl Gaps {
    pub(crate) fn allow(&self, from: Offset, to: Offset) -> bool {
        from == to
            || from < to && to <= self.below
            || self
                .holes
                .iter()
                .any(|hole| hole.0 <= from && from < to && to <= hole.1)
    }
}

/// A place in a segment.
pub(crate) struct Source {
    pub(crate) segment: Arc<Segment>,
    position: u64,
    len: u64,
    next: Offset,
    /// The bytes of the last run, whose memory takes those of the next one when nobody keeps any of them: what the system would
    /// clear of new memory takes a quarter of a pass.
    last: Bytes,
}

/// Batches that follow each other, and how many bytes they are.
pub(crate) struct Run {
    pub(crate) batches: Vec<Batch>,
    pub(crate) bytes: u64,
}

impl Source {
    pub(crate) fn new(segment: &Arc<Segment>) -> Source {
        Source {
            len: segment.len(),
            next: segment.base(),
            segment: Arc::clone(segment),
            position: 0,
            last: Bytes::new(),
        }
    }

    /// Goes on at the batch that holds `from`.
    pub(crate) fn at(segment: &Arc<Segment>, from: Offset) -> Result<Source, ScanError> {
        let mut source = Source::new(segment);
        if from <= segment.base() {
            return Ok(source);
        }
        if let Some(found) = segment.find(from, source.len)? {
            source.position = found.position;
            source.next = found.head.base_offset();
        } else {
            source.position = source.len;
            source.next = segment.end();
        }
        Ok(source)
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.position >= self.len
    }

    /// The next batches, of which the disk is asked for `at_once` bytes at a time; no bytes at the end of the segment.
    pub(crate) fn run(
        &mut self,
        store: &Store,
        gaps: &Gaps,
        at_once: usize,
    ) -> Result<Run, ScanError> {
        let file = self.segment.file()?;
        let mut want = RUN_BYTES;
        loop {
            let left = self.len - self.position;
            let mut bytes = self.take_memory();
            bytes.resize(left.min(want) as usize, 0);
            let got = read_once_up_to(&*file, &mut bytes, self.position, at_once)?;
            bytes.truncate(got);
            self.last = bytes.freeze();
            let run = self.cut(store, self.last.clone(), gaps)?;
            if !run.batches.is_empty() || left == 0 {
                return Ok(run);
            }
            // Not even one batch: it is larger than the run, or cut off.
            let mut head = [0; wire::records::HEAD_SIZE];
            let got = read_up_to(&*file, &mut head, self.position)?;
            let size = Head::read(&head[..got]).map_or(0, |head| head.size() as u64);
            if size <= want || size > left || size > BATCH_BYTES_MAX {
                let why = DamageKind::CutOff { size };
                return Err(self.damage(why));
            }
            want = size;
        }
    }

    fn take_memory(&mut self) -> BytesMut {
        let last = std::mem::take(&mut self.last);
        last.try_into_mut().unwrap_or_default()
    }

    fn cut(&mut self, store: &Store, bytes: Bytes, gaps: &Gaps) -> Result<Run, ScanError> {
        let mut run = Run {
            batches: Vec::new(),
            bytes: 0,
        };
        let heads = self
            .segment
            .heads(self.position..self.position + bytes.len() as u64)?;
        for batch in Batch::cut(&bytes, Origin::Log) {
            let batch = batch.map_err(|error| self.damage(DamageKind::Batch(error)))?;
            if !gaps.allow(self.next, batch.base_offset()) {
                let (got, want) = (batch.base_offset(), self.next);
                return Err(self.damage(DamageKind::Order { got, want }));
            }
            store.check_epoch(&self.segment, self.position, &batch)?;
            heads.check(self.position, &batch)?;
            self.next = batch.next_offset();
            self.position += batch.size() as u64;
            run.bytes += batch.size() as u64;
            run.batches.push(batch);
        }
        let end = self.segment.end();
        if self.is_at_end() && !gaps.allow(self.next, end) {
            let (from, to) = (self.next, end);
            return Err(self.damage(DamageKind::Missing { from, to }));
        }
        Ok(run)
    }

    fn damage(&self, why: DamageKind) -> ScanError {
        Damage {
            position: self.position,
            why,
        }
        .into()
    }
}
