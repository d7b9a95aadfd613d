//! The aborted transactions of a segment, found again in the batches when their files do not verify.
//!
//! A marker ends what its producer wrote in transactions since the marker before, so an aborted transaction begins at the first such
//! batch that is left; what retention or compaction took needs no hiding. Whole batches are read and verified: the segment itself,
//! and those before it as far back as one of the producers in question has no marker. Damage, or a gap that nothing explains,
//! means that nobody knows any more; readers of committed data are then told so. Costs nothing while the files verify.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use model::{Offset, ProducerId};
use wire::records::Batch;

use super::Store;
use crate::producer::marker_of;
use crate::scan::{Damage, DamageKind, ScanError, scan_batches};
use crate::segment::{Ended, Segment, Standing};

/// The facts in a segment about a producer whose abort has no beginning yet.
#[derive(Clone, Copy, Default)]
struct Sought {
    first: Option<Offset>,
    has_marker: bool,
}

impl Store {
    /// Sees to it that the aborted transactions of a segment can be told. Reads files, and all batches when it must.
    pub(crate) fn sound_txns(&self, segment: &Arc<Segment>) -> Result<(), ScanError> {
        match segment.txns_standing()? {
            Standing::Sound => return Ok(()),
            Standing::Lost(damage) => return Err(damage.into()),
            Standing::Doubtful => {}
        }
        // Nothing is renamed, cut or removed meanwhile, and nobody else does the same.
        let _files = self.files.lock();
        if segment.txns_standing()? != Standing::Doubtful {
            return segment.all_aborted().map(drop);
        }
        let segments = self.segments.load_full();
        let Some(at) = segments.iter().position(|of| Arc::ptr_eq(of, segment)) else {
            // It has left the log.
            return Err(io::Error::from(io::ErrorKind::NotFound).into());
        };
        let path = segment.path(crate::txn_index::EXTENSION);
        match self.find_aborted(segment, &segments[..at]) {
            Ok((ended, upto)) => {
                tracing::warn!(target: env::logs::SEGMENTS,
                    "{}: did not verify, made anew from the batches",
                    path.display()
                );
                Ok(segment.mend_txns(&ended, upto)?)
            }
            Err(ScanError::Damage(damage)) => {
                tracing::warn!(target: env::logs::SEGMENTS,
                    "{}: does not verify, nor do the batches: {damage}",
                    path.display()
                );
                segment.lose_txns(damage)?;
                Err(damage.into())
            }
            Err(error) => Err(error),
        }
    }

    /// The abort markers of a segment with where their transactions begin, and the end of what was looked at.
    fn find_aborted(
        &self,
        segment: &Segment,
        before: &[Arc<Segment>],
    ) -> Result<(Vec<Ended>, Offset), ScanError> {
        let mut ended: Vec<Ended> = Vec::new();
        let mut open: HashMap<ProducerId, Sought> = HashMap::new();
        let mut unbounded: HashMap<ProducerId, usize> = HashMap::new();
        let upto = self.walk_txns(segment, |batch| {
            let id = batch.producer_id();
            let sought = open.entry(id).or_default();
            let Some(marker) = note(sought, batch) else {
                return;
            };
            let txn = std::mem::replace(sought, marker);
            if is_abort(batch) {
                if !txn.has_marker {
                    unbounded.insert(id, ended.len());
                }
                ended.push(Ended {
                    producer_id: id,
                    first_offset: txn.first,
                    last_offset: batch.base_offset(),
                });
            }
        })?;
        for earlier in before.iter().rev() {
            if unbounded.is_empty() {
                break;
            }
            let mut seen: HashMap<ProducerId, Sought> = HashMap::new();
            self.walk_txns(earlier, |batch| {
                if unbounded.contains_key(&batch.producer_id()) {
                    let sought = seen.entry(batch.producer_id()).or_default();
                    if let Some(marker) = note(sought, batch) {
                        *sought = marker;
                    }
                }
            })?;
            for (id, sought) in seen {
                if let (Some(first), Some(at)) = (sought.first, unbounded.get(&id))
                    && let Some(ended) = ended.get_mut(*at)
                {
                    ended.first_offset = Some(first);
                }
                if sought.has_marker {
                    unbounded.remove(&id);
                }
            }
        }
        Ok((ended, upto))
    }

    /// Hands over the batches of producers, all verified. Returns the end of the last batch.
    fn walk_txns(
        &self,
        segment: &Segment,
        mut on_batch: impl FnMut(&Batch),
    ) -> Result<Offset, ScanError> {
        let gaps_end = self.gaps_end();
        let (len, end) = (segment.len(), segment.sealed_end());
        let file = segment.file()?;
        let mut next = segment.base();
        let mut gap = None;
        let mut on_gap = |position, from: Offset, to: Offset| {
            if from < to && gaps_end < to {
                let why = DamageKind::Missing { from, to };
                gap.get_or_insert(Damage { position, why });
            }
        };
        let (_, damage) = scan_batches(&*file, 0, len, segment.base(), |position, batch| {
            on_gap(position, next, batch.base_offset());
            next = batch.next_offset();
            if batch.has_producer_id() {
                on_batch(&batch);
            }
        })?;
        if let Some(end) = end {
            on_gap(len, next, end);
        }
        match damage.or(gap) {
            Some(damage) => Err(damage.into()),
            None => Ok(next),
        }
    }
}

/// Takes note of a producer's batch; of a marker, what is known right after it.
fn note(sought: &mut Sought, batch: &Batch) -> Option<Sought> {
    if batch.attributes().is_control() {
        return marker_of(batch).map(|_| Sought {
            first: None,
            has_marker: true,
        });
    }
    if batch.attributes().is_transactional() {
        sought.first.get_or_insert(batch.base_offset());
    }
    None
}

fn is_abort(batch: &Batch) -> bool {
    marker_of(batch).is_some_and(|end| !end.committed)
}
