//! The events that a quorum takes.

use model::{Instant, LeaderEpoch, Offset, Timestamp};
use wire::records::Batch;

use crate::calls::CallId;
use crate::log_view::Life;
use crate::message::{Request, Response};
use crate::snapshot::{SnapshotFacts, SnapshotId};

/// When something happens: timers run on `now`, control records carry `wall`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub now: Instant,
    pub wall: Timestamp,
}

/// The driver's own mark of a request, handed back with the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Caller(pub u64);

/// The driver's own mark of an append, handed back when it is accepted or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppendTag(pub u64);

/// Counts the writes of the vote file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VoteNumber(pub u64);

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The connection was refused or ended. Silence needs no event: the call times out here.
    Disconnected,
    /// The peer does not know the request in a version that says all of it.
    UnsupportedVersion,
}

#[derive(Clone, Debug)]
pub enum Event {
    /// A deadline came.
    Tick,
    /// The vote file of this write, or the id of the cluster, and all writes before it survive a power cut.
    VoteStored {
        number: VoteNumber,
    },
    /// The log up to `up_to` survives a power cut, with every cut and restart before that in this life.
    Synced {
        up_to: Offset,
        life: Life,
    },
    /// A batch for the leader of `epoch` to append. It becomes part of the log whole, if at all.
    Append {
        tag: AppendTag,
        epoch: LeaderEpoch,
        batch: Batch,
    },
    Request {
        caller: Caller,
        request: Request,
    },
    /// A request's caller is gone and wants no answer.
    Gone {
        caller: Caller,
    },
    Answer {
        call: CallId,
        response: Response,
    },
    Failed {
        call: CallId,
        failure: Failure,
    },
    /// A downloaded snapshot is verified and durable under its name.
    SnapshotInstalled {
        id: SnapshotId,
        size: u64,
        facts: SnapshotFacts,
    },
    /// A downloaded snapshot did not hold what its checksums promise.
    SnapshotDamaged {
        id: SnapshotId,
    },
    /// A snapshot of our own image is verified and durable.
    SnapshotWritten {
        id: SnapshotId,
        size: u64,
    },
    /// The log may start at this snapshot.
    Trim {
        to: SnapshotId,
    },
    /// The leader of `epoch` shall give up its leadership: the node stops, or cannot do the work.
    Resign {
        epoch: LeaderEpoch,
    },
    /// The leader of `epoch` shall raise `kraft.version` to 1, so that voters can change.
    MakeDynamic {
        tag: AppendTag,
        epoch: LeaderEpoch,
    },
    /// The leader, or a voter that has it for good, says which cluster it is of.
    ClusterTold {
        cluster: String,
    },
}
