//! Lineage of a log: which leader epoch wrote which part of it, and where two logs part (KIP-101, KIP-279, KIP-320).
//!
//! Owns the algebra that the metadata log and the partitions share: a leader judges the end that a follower names, the follower cuts
//! to the place that the leader names, and both repeat that until they agree. Each round costs the follower at least one epoch, so
//! it ends; no round costs a record that both logs have. Knows no storage: the caller lends its epochs.

use crate::{LeaderEpoch, Offset};

/// The first offset of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochStart {
    pub epoch: LeaderEpoch,
    pub start: Offset,
}

/// The offset behind the last record of an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EpochEnd {
    pub epoch: LeaderEpoch,
    pub end: Offset,
}

/// The epochs of one log, oldest first (epochs and starts both rise; the newest may have no record yet), and its log end.
#[derive(Clone, Copy, Debug)]
pub struct Lineage<'a> {
    pub epochs: &'a [EpochStart],
    pub log_end: Offset,
}

impl Lineage<'_> {
    /// Where the largest epoch not above `epoch` ends here. An epoch older than all that are known ended at or before the first
    /// of them; a log without epochs ends where it ends.
    #[must_use]
    pub fn end_of(&self, epoch: LeaderEpoch) -> EpochEnd {
        let after = self.epochs.partition_point(|entry| entry.epoch <= epoch);
        let end = self
            .epochs
            .get(after)
            .map_or(self.log_end, |next| next.start);
        let found = after.checked_sub(1).and_then(|at| self.epochs.get(at));
        EpochEnd {
            epoch: found.map_or(epoch, |entry| entry.epoch),
            end,
        }
    }

    /// The leader's answer to a follower whose last record has `asked.epoch` and whose log ends at `asked.end`: `None` if this log
    /// goes on from there, else a place at or behind which the two logs part.
    #[must_use]
    pub fn judge(&self, asked: EpochEnd) -> Option<EpochEnd> {
        let known = self.end_of(asked.epoch);
        (known.epoch != asked.epoch || known.end < asked.end).then_some(known)
    }

    /// The follower's part: the offset to cut to after a leader answered with `told`.
    ///
    /// If both logs have the epoch, they have the same batches of it, up to the shorter end. If this log lacks it, everything behind
    /// the epoch before it goes: the leader's end of another epoch may lie inside a batch of ours, and a log is cut between batches.
    #[must_use]
    pub fn cut_to(&self, told: EpochEnd) -> Offset {
        let own = self.end_of(told.epoch);
        let to = if own.epoch == told.epoch {
            own.end.min(told.end)
        } else {
            own.end
        };
        to.min(self.log_end)
    }
}

#[cfg(test)]
mod tests;
