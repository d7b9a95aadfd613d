//! Producer states from the log: the newest usable snapshot, then the batches behind it.

use env::Disk;
use model::Offset;
use wire::records::{Batch, ControlRecord, EndTxn};

use super::{CompletedTxn, ProducerStates, SnapshotError, snapshot};
use crate::scan::{HeadScan, ScanError, read_batch};
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
    replay(&mut states, store, upto, |_| {})?;
    Ok(states)
}

/// Applies the batches in `states.end()..upto`; `on_completed` hears of each transaction that ends there.
pub fn replay(
    states: &mut ProducerStates,
    store: &Store,
    upto: Offset,
    mut on_completed: impl FnMut(CompletedTxn),
) -> Result<(), ReplayError> {
    let from = states.end();
    let segments = store.segments();
    let first = segments
        .partition_point(|segment| segment.base() <= from)
        .saturating_sub(1);
    for segment in segments
        .iter()
        .skip(first)
        .take_while(|segment| segment.base() < upto)
    {
        let base = segment.base();
        let at = |error: ScanError| match error {
            ScanError::Io(error) => ReadError::Io { base, error },
            ScanError::Damage(damage) => ReadError::Damaged { base, damage },
        };
        let len = segment.len();
        let Some(found) = segment.find(from, len).map_err(at)? else {
            continue;
        };
        let file = segment
            .file()
            .map_err(|error| ReadError::Io { base, error })?;
        let mut scan = HeadScan::new(&*file, found.position, len, base);
        while let Some((position, head)) = scan.step().map_err(at)? {
            if head.base_offset() >= upto {
                break;
            }
            let marker = if head.attributes().is_control() {
                marker_of(&read_batch(&*file, position, &head).map_err(at)?)
            } else {
                None
            };
            if let Some(completed) = states.apply(&head, marker) {
                on_completed(completed);
            }
        }
    }
    Ok(())
}

/// The end of a transaction that a control batch writes; `None` of any other batch.
#[must_use]
pub fn marker_of(batch: &Batch) -> Option<EndTxn> {
    match ControlRecord::read(batch) {
        Some(ControlRecord::EndTxn(end)) => Some(end),
        Some(ControlRecord::Other { .. }) | None => None,
    }
}
