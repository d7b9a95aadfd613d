//! The machine's knowledge of its log: epochs, ends, snapshots. The log itself is the driver's.
//!
//! Invariants: `start <= durable <= end`; epochs rise and cover `start..end` (or begin with the snapshot that the log starts at).
//! A cut or a restart begins a new *life*: what a sync of an older life reports says nothing about records behind the cut.

use std::collections::BTreeMap;

use model::lineage::{EpochEnd, EpochStart, Lineage};
use model::{LeaderEpoch, Offset};
use wire::records::Batch;

use crate::snapshot::SnapshotId;

/// Counts the cuts and restarts of a log since the machine began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life(pub u64);

/// A batch that does not belong at the end of this log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOurs {
    #[error("batch starts at {got} where the log ends at {end}")]
    Gap { got: Offset, end: Offset },
    #[error("batch of epoch {got} behind one of epoch {last}")]
    Epoch { got: LeaderEpoch, last: LeaderEpoch },
}

#[derive(Clone, Debug, Default)]
pub struct LogView {
    start: Offset,
    end: Offset,
    durable: Offset,
    epochs: Vec<EpochStart>,
    /// Finished snapshots and their sizes.
    snapshots: BTreeMap<SnapshotId, u64>,
    life: Life,
}

impl LogView {
    /// A log that starts at the end of `snapshot`, or at 0. Batches and snapshots are then noted one by one; a log as it was found
    /// on disk is durable, which [`LogView::believe`] says at the end.
    #[must_use]
    pub fn starting_at(snapshot: Option<SnapshotId>) -> LogView {
        let mut log = LogView::default();
        if let Some(id) = snapshot {
            log.restart(id);
        }
        log
    }

    pub fn believe(&mut self) {
        self.durable = self.end;
    }

    #[must_use]
    pub fn start(&self) -> Offset {
        self.start
    }

    #[must_use]
    pub fn end(&self) -> Offset {
        self.end
    }

    #[must_use]
    pub fn durable(&self) -> Offset {
        self.durable
    }

    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.durable == self.end
    }

    #[must_use]
    pub fn life(&self) -> Life {
        self.life
    }

    /// Epoch of the last record, or of the snapshot that the log starts at; 0 in an empty log, as Kafka has it.
    #[must_use]
    pub fn last_epoch(&self) -> LeaderEpoch {
        self.epochs
            .last()
            .map_or(LeaderEpoch(0), |entry| entry.epoch)
    }

    /// Elections compare this: the log that ends in the later epoch, or else further on, is the newer one.
    #[must_use]
    pub fn last(&self) -> EpochEnd {
        EpochEnd {
            epoch: self.last_epoch(),
            end: self.end,
        }
    }

    #[must_use]
    pub fn lineage(&self) -> Lineage<'_> {
        Lineage {
            epochs: &self.epochs,
            log_end: self.end,
        }
    }

    /// The epoch of the last record below `end`.
    #[must_use]
    pub fn epoch_before(&self, end: Offset) -> Option<LeaderEpoch> {
        if end < self.start || end > self.end {
            return None;
        }
        let after = self.epochs.partition_point(|entry| entry.start < end);
        match after.checked_sub(1).and_then(|at| self.epochs.get(at)) {
            Some(entry) => Some(entry.epoch),
            // Right at the start: the snapshot there knows.
            None => self.epochs.first().map(|entry| entry.epoch),
        }
    }

    /// Takes a batch at the end.
    pub fn note(&mut self, batch: &Batch) -> Result<(), NotOurs> {
        let (got, last) = (batch.leader_epoch(), self.last_epoch());
        if batch.base_offset() != self.end {
            return Err(NotOurs::Gap {
                got: batch.base_offset(),
                end: self.end,
            });
        }
        if got < last {
            return Err(NotOurs::Epoch { got, last });
        }
        if self.epochs.is_empty() || got > last {
            self.epochs.push(EpochStart {
                epoch: got,
                start: self.end,
            });
        }
        self.end = batch.next_offset();
        Ok(())
    }

    /// A sync returned. True if the durable end moved.
    pub(crate) fn synced(&mut self, up_to: Offset, life: Life) -> bool {
        if life != self.life || up_to <= self.durable {
            return false;
        }
        assert!(
            up_to <= self.end,
            "a sync cannot cover {up_to} of a log that ends at {}",
            self.end
        );
        self.durable = up_to;
        true
    }

    pub(crate) fn cut(&mut self, to: Offset) {
        assert!(
            self.start <= to && to <= self.end,
            "a cut to {to} lies outside the log {}..{}",
            self.start,
            self.end
        );
        self.end = to;
        self.durable = self.durable.min(to);
        // The entry of the start is the snapshot's and stays. Another entry with the same start is removed.
        let start = self.start;
        let of_snapshot = self.epochs.first().copied();
        let of_snapshot = of_snapshot.filter(|first| Offset::ZERO < start && first.start <= start);
        self.epochs
            .retain(|entry| entry.start < to || Some(*entry) == of_snapshot);
        self.life.0 += 1;
    }

    /// Starts over at a snapshot. Returns the snapshots that nobody needs any more.
    pub(crate) fn restart(&mut self, at: SnapshotId) -> Vec<SnapshotId> {
        self.start = at.end;
        self.end = at.end;
        // The driver reports when the restart itself is durable; until then nothing of this life is.
        self.durable = Offset::ZERO;
        self.epochs = if at.end > Offset::ZERO {
            vec![EpochStart {
                epoch: at.epoch,
                start: at.end,
            }]
        } else {
            Vec::new()
        };
        let older = self.snapshots.range(..at).map(|(id, _)| *id).collect();
        self.snapshots.retain(|id, _| *id >= at);
        self.life.0 += 1;
        older
    }

    /// The start moves up to a snapshot's end. Returns the snapshots that nobody needs any more.
    pub(crate) fn trim(&mut self, to: SnapshotId) -> Vec<SnapshotId> {
        self.start = self.start.max(to.end);
        // The last that began in front of the start is that of the snapshot's last record, also where the next begins right there.
        let spanning = self
            .epochs
            .partition_point(|entry| entry.start < self.start);
        self.epochs.drain(..spanning.saturating_sub(1));
        if let Some(first) = self.epochs.first_mut() {
            first.start = first.start.max(self.start);
        }
        let older = self.snapshots.range(..to).map(|(id, _)| *id).collect();
        self.snapshots.retain(|id, _| *id >= to);
        older
    }

    /// Notes a snapshot on disk. One that ends below the log start is of no use: the log does not continue it.
    pub fn add_snapshot(&mut self, id: SnapshotId, size: u64) {
        if id.end >= self.start {
            self.snapshots.insert(id, size);
        }
    }

    #[must_use]
    pub fn snapshot_size(&self, id: SnapshotId) -> Option<u64> {
        self.snapshots.get(&id).copied()
    }

    #[must_use]
    pub fn first_snapshot(&self) -> Option<SnapshotId> {
        self.snapshots.keys().next().copied()
    }

    #[must_use]
    pub fn last_snapshot(&self) -> Option<SnapshotId> {
        self.snapshots.keys().next_back().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(epochs: &[i32]) -> LogView {
        let mut log = LogView::starting_at(None);
        for epoch in epochs {
            let mut builder = wire::records::BatchBuilder::new()
                .base_offset(log.end())
                .leader_epoch(LeaderEpoch(*epoch));
            builder.push(model::Timestamp(1), None, Some(b"value"), &[]);
            log.note(&builder.build()).expect("it continues");
        }
        log
    }

    fn snapshot(epoch: i32, end: i64) -> SnapshotId {
        SnapshotId {
            epoch: LeaderEpoch(epoch),
            end: Offset(end),
        }
    }

    /// A log whose start lies where an epoch begins was cut to its start and named that epoch to its leader, for ever.
    #[test]
    fn log_that_is_cut_to_its_start_ends_in_the_epoch_of_its_snapshot() {
        let mut trimmed = log(&[1, 2, 4]);
        trimmed.add_snapshot(snapshot(2, 2), 10);
        trimmed.trim(snapshot(2, 2));
        assert_eq!(trimmed.last_epoch(), LeaderEpoch(4));
        trimmed.cut(Offset(2));
        assert_eq!(trimmed.last_epoch(), LeaderEpoch(2));
        let mut restarted = log(&[1]);
        restarted.restart(snapshot(2, 5));
        let mut builder = wire::records::BatchBuilder::new()
            .base_offset(Offset(5))
            .leader_epoch(LeaderEpoch(7));
        builder.push(model::Timestamp(1), None, Some(b"value"), &[]);
        restarted.note(&builder.build()).expect("it continues");
        restarted.cut(Offset(5));
        assert_eq!(restarted.last_epoch(), LeaderEpoch(2));
    }
}
