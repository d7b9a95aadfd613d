//! Producer states from the log: the newest usable snapshot, then the batches behind it.

use env::{Disk, File};
use model::Offset;
use wire::records::{Batch, ControlRecord, EndTxn, Head};

use super::{ProducerStates, SnapshotError, snapshot};
use crate::behind::first_behind_damage;
use crate::scan::{HeadScan, ScanError, is_unreadable, read_batch};
use crate::segment::Segment;
use crate::store::{ReadError, Store, StoreError};

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// States as of `upto`. Snapshots that do not verify or lie above `upto` are removed.
pub fn rebuild(
    disk: &dyn Disk,
    store: &Store,
    upto: Offset,
) -> Result<ProducerStates, ReplayError> {
    let (states, damage) = rebuild_readable(disk, store, upto)?;
    match damage {
        Some(damage) => Err(damage.why.into()),
        None => Ok(states),
    }
}

/// Batches that could not be read.
#[derive(Debug)]
pub struct Unread {
    /// The first of them is here, or somewhat behind.
    pub at: Offset,
    pub why: ReadError,
}

/// The same from the batches that can be read, and the first damage among them.
pub fn rebuild_readable(
    disk: &dyn Disk,
    store: &Store,
    upto: Offset,
) -> Result<(ProducerStates, Option<Unread>), ReplayError> {
    let mut snapshots = store.snapshots()?;
    snapshots.sort_unstable();
    let mut states = None;
    let mut useless = Vec::new();
    while let Some(offset) = snapshots.pop() {
        if offset > upto {
            useless.push(offset);
            continue;
        }
        match snapshot::read(disk, store.dir(), offset) {
            Ok(read) => {
                states = Some(read);
                break;
            }
            Err(SnapshotError::Io(error)) => {
                return Err(StoreError::Io {
                    path: snapshot::path(store.dir(), offset),
                    error,
                }
                .into());
            }
            Err(SnapshotError::Version { .. } | SnapshotError::Damaged) => useless.push(offset),
        }
    }
    snapshot::prune(disk, store.dir(), &useless).map_err(|error| StoreError::Io {
        path: store.dir().to_path_buf(),
        error,
    })?;
    let mut states = states.unwrap_or_else(|| ProducerStates::new(store.local_start()));
    let from = states.end();
    let segments = store.segments();
    let first = segments
        .partition_point(|segment| segment.base() <= from)
        .saturating_sub(1);
    let mut unread = None;
    for segment in segments.iter().skip(first) {
        if upto <= segment.base() {
            break;
        }
        if let Some(found) = apply_segment(&mut states, segment, from, upto)? {
            unread.get_or_insert(found);
        }
    }
    Ok((states, unread))
}

/// Applies the batches of a segment in `from..upto` by their heads. Returns the first damage.
fn apply_segment(
    states: &mut ProducerStates,
    segment: &Segment,
    from: Offset,
    upto: Offset,
) -> Result<Option<Unread>, ReadError> {
    let (base, end) = (segment.base(), segment.end());
    let io = |error| ReadError::Io { base, error };
    let (file, len) = (segment.file().map_err(io)?, segment.len());
    let mut unread = None;
    let mut next = from.max(base);
    let mut meet = |error: ScanError, at: Offset| {
        let why = match error {
            ScanError::Io(error) if !is_unreadable(&error) => return Err(io(error)),
            ScanError::Io(error) => io(error),
            ScanError::Damage(damage) => ReadError::Damaged { base, damage },
        };
        unread.get_or_insert(Unread { at, why });
        Ok(())
    };
    let mut at = match segment.find(from, len) {
        Ok(found) => found.map(|found| found.position),
        Err(error) => {
            meet(error, next)?;
            let behind = first_behind_damage(&*file, 0, len, from..end, end).map_err(io)?;
            behind.map(|(position, _)| position)
        }
    };
    while let Some(from) = at.take() {
        let mut scan = HeadScan::new(&*file, from, len, base).up_to(end);
        loop {
            let (damage, position) = match scan.step() {
                Ok(None) => break,
                Ok(Some((_, head))) if upto <= head.base_offset() => break,
                Ok(Some((position, head))) => match marker_at(&*file, position, &head) {
                    Ok(marker) => {
                        states.apply(&head, marker);
                        next = head.next_offset();
                        continue;
                    }
                    Err(damage) => (damage, position),
                },
                Err(damage) => (damage, scan.position()),
            };
            meet(damage, next)?;
            let bases = next..end;
            let behind = first_behind_damage(&*file, position + 1, len, bases, end).map_err(io)?;
            at = behind.map(|(position, _)| position);
            break;
        }
    }
    Ok(unread)
}

/// The marker of a control batch.
fn marker_at(file: &dyn File, position: u64, head: &Head) -> Result<Option<EndTxn>, ScanError> {
    if !head.attributes().is_control() {
        return Ok(None);
    }
    Ok(marker_of(&read_batch(file, position, head)?))
}

/// The end of a transaction that a control batch writes; `None` of any other batch.
#[must_use]
pub fn marker_of(batch: &Batch) -> Option<EndTxn> {
    match ControlRecord::read(batch) {
        Some(ControlRecord::EndTxn(end)) => Some(end),
        Some(ControlRecord::Other { .. }) | None => None,
    }
}
