//! Leader epochs of the batches in the files, against which the heads that are read are held.
//!
//! An epoch is outside of its batch's checksum, and `leader-epoch-checkpoint` has none: where both differ, one of them rotted.
//! One batch is disbelieved; two in a row that say the same are not, for it would be the checkpoint that makes a log unreadable.

use std::io;
use std::path::Path;
use std::sync::Arc;

use env::Disk;
use model::Offset;
use wire::records::{Batch, Head};

use super::Store;
use crate::epochs::Epochs;
use crate::scan::{Damage, ScanError};
use crate::segment::{RecordTime, Segment};

impl Store {
    /// The epochs of the log's batches, as far as it knows.
    #[must_use]
    pub fn epochs(&self) -> Arc<Epochs> {
        self.epochs.load_full()
    }

    /// Those of the file in `dir`; none when it is damaged: what is appended has its own, and older batches are believed.
    pub(super) fn stored_epochs(disk: &dyn Disk, dir: &Path) -> io::Result<Epochs> {
        match Epochs::read(disk, dir) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Epochs::default()),
            read => read,
        }
    }

    /// Takes note of what is about to be written.
    pub(super) fn note_epochs(&self, batches: &[Batch]) {
        let latest = self.epochs.load().latest();
        let is_known =
            |batch: &Batch| latest.is_some_and(|last| last.epoch == batch.leader_epoch());
        if batches.iter().all(is_known) {
            return;
        }
        self.epochs.rcu(|known| {
            let mut epochs = Epochs::clone(known);
            for batch in batches {
                epochs.assign(batch.leader_epoch(), batch.base_offset());
            }
            epochs
        });
    }

    /// Forgets those that begin at or above `end`. True when there were any, and the file has them still.
    pub fn forget_epochs(&self, end: Offset) -> bool {
        let has_any = |known: &Epochs| known.latest().is_some_and(|last| end <= last.start);
        let before = self.epochs.rcu(|known| {
            let mut epochs = Epochs::clone(known);
            epochs.truncate_from_end(end);
            epochs
        });
        has_any(&before)
    }

    /// Holds the epoch of a batch against those that the log knows.
    pub(crate) fn check_epoch(
        &self,
        segment: &Segment,
        position: u64,
        head: &Head,
    ) -> Result<(), ScanError> {
        let epochs = self.epochs.load();
        let Err(why) = epochs.check(head.leader_epoch(), head.last_offset()) else {
            return Ok(());
        };
        if !is_seconded(segment, head, &epochs)? {
            return Err(Damage { position, why }.into());
        }
        tracing::warn!(target: env::logs::SEGMENTS,
            "{}: leader-epoch-checkpoint is not believed, batch after batch contradicts it: {why} at {}",
            self.dir.display(),
            head.base_offset()
        );
        self.epochs.store(Arc::default());
        Ok(())
    }

    /// The same for the batch that a record was found in, whose epoch and offset go out with it, and the checksum of its head.
    pub(super) fn check_found(
        &self,
        segment: &Segment,
        found: &RecordTime,
    ) -> Result<(), ScanError> {
        let Some(batch) = segment.find(found.offset, segment.len())? else {
            return Ok(());
        };
        segment.check_head(batch.position, &batch.head)?;
        self.check_epoch(segment, batch.position, &batch.head)
    }
}

/// The batch before or behind is of the same epoch, and contradicted too.
fn is_seconded(segment: &Segment, head: &Head, epochs: &Epochs) -> Result<bool, ScanError> {
    for beside in [head.base_offset().advance(-1), head.next_offset()] {
        let found = match segment.find(beside, segment.len()) {
            // Its own readers are told of it.
            Err(ScanError::Damage(_)) => None,
            found => found?,
        };
        let seconds = |other: &Head| {
            other.base_offset() != head.base_offset()
                && other.leader_epoch() == head.leader_epoch()
                && epochs
                    .check(other.leader_epoch(), other.last_offset())
                    .is_err()
        };
        if found.is_some_and(|found| seconds(&found.head)) {
            return Ok(true);
        }
    }
    Ok(false)
}
