//! Reads of a partition: what is asked, what comes of it, and who is refused.

use std::io;
use std::sync::Arc;

use log::{AbortedTxn, ReadError as StoreError, Verified};
use model::{LeaderEpoch, Offset};
use wire::records::Batch;

use crate::isolation::{Isolation, Scope};
use crate::partition::{Bounds, Hole, Home, Partition, PartitionState};

/// The bytes to send for a read.
pub enum Records {
    /// Nothing at or above the asked offset yet.
    AtEnd,
    Memory(Vec<Batch>),
    File(Verified),
}

impl Records {
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Records::AtEnd => 0,
            Records::Memory(_) => self.memory(),
            Records::File(slice) => slice.size(),
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the records keep in memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        match self {
            Records::Memory(batches) => batches.iter().map(|batch| batch.size()).sum(),
            Records::AtEnd | Records::File(_) => 0,
        }
    }
}

impl Bounds {
    /// Where a reader's view ends.
    #[must_use]
    pub fn end(&self, isolation: Isolation) -> Offset {
        match isolation {
            Isolation::Uncommitted => self.high_watermark,
            Isolation::Committed => self.last_stable,
            Isolation::Log => self.log_end,
        }
    }
}

pub struct Read {
    pub records: Records,
    /// Bounds of the partition when the read was planned.
    pub bounds: Bounds,
    /// Aborted transactions with records in the read, for a reader of committed data.
    pub aborted: Vec<AbortedTxn>,
}

impl Read {
    pub(crate) fn at_end(bounds: Bounds) -> Read {
        Read::without_aborted(Records::AtEnd, bounds)
    }

    pub(crate) fn without_aborted(records: Records, bounds: Bounds) -> Read {
        Read {
            records,
            bounds,
            aborted: Vec::new(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("partition was deleted")]
    Deleted,
    #[error("log directory is offline")]
    Offline,
    #[error("another broker leads the partition, or none")]
    NotLeader,
    #[error("offset is outside {} to {}", bounds.log_start, bounds.log_end)]
    OutOfRange { bounds: Bounds },
    /// The client's leader epoch is older than ours.
    #[error("leader epoch is {current} now")]
    FencedEpoch { current: LeaderEpoch },
    #[error("leader epoch is still {current} here")]
    UnknownEpoch { current: LeaderEpoch },
    /// This leader has not heard the follower as a replica of this epoch: it has to say again where it is.
    #[error("the broker is not known as a replica of leader epoch {current}")]
    UnheardFollower { current: LeaderEpoch },
    /// Acknowledged bytes that no disk has any more.
    #[error("offsets {} to {} are damaged", hole.from, hole.to)]
    Damaged { hole: Hole },
    /// Another replica is asked for what was there.
    #[error("offset {at} is under repair")]
    UnderRepair { at: Offset },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ReadError {
    fn is_missing_file(&self) -> bool {
        matches!(self, ReadError::Store(StoreError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound)
    }
}

/// A reader's question to one partition.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest {
    pub from: Offset,
    /// Soft limit; see `at_least_one`.
    pub bytes_max: usize,
    /// The same for bytes that would be kept in memory.
    pub memory_bytes_max: usize,
    /// Give the first batch even if it is larger than `bytes_max` (KIP-74).
    pub at_least_one: bool,
    pub current_epoch: LeaderEpoch,
    pub scope: Scope,
}

impl Partition {
    /// Repeats a look that a move has overtaken: a reader looks at the files of one directory (1), the partition moves to another (2), and
    /// the files are removed (3). The next look is at the files that hold now.
    pub(crate) fn where_it_lives<T>(
        &self,
        mut look: impl FnMut(&mut Option<Arc<Home>>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        loop {
            let mut seen = None;
            let done = look(&mut seen);
            let is_gone = done.as_ref().is_err_and(ReadError::is_missing_file);
            if !is_gone || seen.is_none_or(|seen| Arc::ptr_eq(&seen, &self.home())) {
                return done;
            }
        }
    }

    /// Bounds of the partition if this read may have anything of it.
    pub(crate) fn admit(
        &self,
        state: &PartitionState,
        request: &ReadRequest,
    ) -> Result<Bounds, ReadError> {
        if self.is_offline_in(state) {
            return Err(ReadError::Offline);
        }
        if state.is_deleted {
            return Err(ReadError::Deleted);
        }
        let bounds = state.bounds();
        check_current(request.current_epoch, state)?;
        if !request.is_served_in(state) {
            return Err(ReadError::NotLeader);
        }
        // Offsets between the log start and the local start will be in a tier, and a need of their own. Until then the two are equal.
        // Between what is committed and the end nothing is shown yet. A reader that was shown more by an earlier leader waits
        // there; an `OutOfRange` would make it start over.
        if request.from < bounds.log_start || request.from > bounds.log_end {
            return Err(ReadError::OutOfRange { bounds });
        }
        Ok(bounds)
    }

    /// True if clients may have seen the log beyond the end that this leader shows (KIP-207).
    pub fn is_behind_epoch(&self) -> bool {
        self.state.lock().progress.is_behind_epoch()
    }

    /// Refuses a client whose idea of the leader epoch differs from ours, and every client where we do not lead; -1 asks for no check. A
    /// partition that is offline has no bounds to report: it refuses every client.
    pub fn check_epoch(&self, asked: LeaderEpoch) -> Result<(), ReadError> {
        self.check_reader(asked, true)
    }

    /// The same for a client that may be content with any replica.
    pub fn check_reader(&self, asked: LeaderEpoch, leader_only: bool) -> Result<(), ReadError> {
        let state = self.state.lock();
        if self.is_offline_in(&state) {
            return Err(ReadError::Offline);
        }
        if leader_only {
            check_epoch(asked, &state)
        } else {
            check_current(asked, &state)
        }
    }
}

impl ReadRequest {
    /// True if the replica may answer. To show only committed data it has to know its producers, whether it leads or not, and what is
    /// committed: after a start, with no leader yet, a reader would take an old end for the present one.
    fn is_served_in(&self, state: &PartitionState) -> bool {
        let Scope {
            isolation,
            leader_only,
            ..
        } = self.scope;
        if leader_only {
            state.serves_clients()
        } else {
            let shows_committed = state.knows_producers() && state.progress.knows_committed();
            isolation == Isolation::Log || shows_committed
        }
    }
}

/// Refuses a client that has another epoch in mind, and every client where we do not lead.
pub(crate) fn check_epoch(asked: LeaderEpoch, state: &PartitionState) -> Result<(), ReadError> {
    check_current(asked, state)?;
    if state.serves_clients() {
        Ok(())
    } else {
        Err(ReadError::NotLeader)
    }
}

/// Refuses a client that has another epoch in mind.
fn check_current(asked: LeaderEpoch, state: &PartitionState) -> Result<(), ReadError> {
    let current = state.progress.epoch();
    if asked == LeaderEpoch::NONE || asked == current {
        Ok(())
    } else if asked < current {
        Err(ReadError::FencedEpoch { current })
    } else {
        Err(ReadError::UnknownEpoch { current })
    }
}
