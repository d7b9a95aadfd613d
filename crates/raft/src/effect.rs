//! The effects that a quorum wants performed, in their order.

use std::time::Duration;

use bytes::Bytes;
use model::{BrokerId, LeaderEpoch, Offset};
use wire::records::Batch;
use wire::{ApiKey, ErrorCode, Uuid};

use crate::calls::CallId;
use crate::event::{AppendTag, Caller, VoteNumber};
use crate::log_view::Life;
use crate::message::{Request, Response};
use crate::quorum_state::Election;
use crate::snapshot::SnapshotId;
use crate::voters::{Endpoint, Replica};

/// Where to send a request. A bootstrap address has no node yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub node: Option<BrokerId>,
    pub endpoint: Endpoint,
}

/// Bytes that the driver puts into an answer before it sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Whole batches of the log, the first even if it alone is larger than `bytes_max`. Nothing at or above `to`.
    Records {
        from: Offset,
        to: Offset,
        bytes_max: u32,
    },
    Snapshot {
        id: SnapshotId,
        position: u64,
        bytes_max: u32,
    },
}

/// Why an append or a change was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    NotLeader {
        epoch: LeaderEpoch,
        leader: Option<BrokerId>,
    },
    /// Retriable or not as the code is.
    Because(ErrorCode),
}

/// The reason why a leader is none any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Others are in a later epoch.
    Led {
        epoch: LeaderEpoch,
        by: Option<BrokerId>,
    },
    /// A voter stands for election in a later epoch.
    Opposed {
        epoch: LeaderEpoch,
        candidate: BrokerId,
    },
    /// No majority of the voters asked for anything in this time.
    Unheard { time: Duration },
    /// [`crate::Event::Resign`].
    Resigned,
}

/// An event that an operator should read of. The quorum works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// The vote file is damaged, lost or older than the log: this node does not vote, so that it cannot vote twice.
    VoteLost,
    /// A peer names another leader than the one that this node knows for the same epoch.
    TwoLeaders {
        epoch: LeaderEpoch,
        known: Option<BrokerId>,
        told: BrokerId,
    },
    /// Two processes are this node, as far as their ids say. The directory is that of the other one, where it is known.
    IdTaken {
        id: BrokerId,
        directory: Option<Uuid>,
    },
    /// Others take this node for the leader of `epoch`, and go on to, and this process was not elected.
    Unelected { id: BrokerId, epoch: LeaderEpoch },
    /// A voter lacks what it had acknowledged to this leader.
    WentBack {
        replica: Replica,
        from: Offset,
        to: Offset,
    },
    /// The directory of this voter is empty, and a voter that has metadata asks for its vote: it gives none before it knows that it did
    /// not give it before.
    Emptied,
    SnapshotDamaged {
        id: SnapshotId,
        leader: Option<BrokerId>,
    },
    /// Batches of a leader did not fit this log or were damaged.
    BadBatch { at: Offset },
    /// A peer answered `request` with an error that no repetition cures.
    Refused {
        peer: Option<BrokerId>,
        request: ApiKey,
        error: ErrorCode,
    },
    /// The leader of `epoch` lacks records that are committed here: it asks to cut the log at `to`, or offers a snapshot that ends there.
    /// This replica does not follow it in that epoch.
    BelowCommitted {
        leader: BrokerId,
        epoch: LeaderEpoch,
        to: Offset,
        committed: Offset,
    },
    /// A node acts as one of this quorum, and is of another cluster. It is refused.
    OtherCluster {
        node: Option<BrokerId>,
        ours: String,
        theirs: String,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// This replica no longer leads `epoch`. Precedes the [`Effect::LeaderChanged`] of the same step, if this replica was active.
    LeadershipEnded {
        epoch: LeaderEpoch,
        why: Left,
    },
    /// Write the vote file durably, then report [`crate::Event::VoteStored`]. Messages that rest on it wait here.
    StoreVote {
        number: VoteNumber,
        election: Election,
        version: i16,
    },
    /// Write the id of the cluster durably, where it stays, then report it as a write of the vote file. Writes of both are done in their order.
    StoreCluster {
        number: VoteNumber,
        cluster: String,
    },
    /// Append at the log end and sync; offsets and epochs are set.
    Append {
        batches: Vec<Batch>,
        life: Life,
    },
    /// Cut the log; appends of this life go behind it.
    Cut {
        to: Offset,
        life: Life,
    },
    /// Drop the whole log and start it at this snapshot's end.
    Restart {
        at: SnapshotId,
        life: Life,
    },
    Send {
        call: CallId,
        peer: Peer,
        request: Request,
    },
    Answer {
        caller: Caller,
        response: Response,
        fill: Option<Fill>,
    },
    /// The batch has these offsets; it may still be lost with the leadership.
    Accepted {
        tag: AppendTag,
        base: Offset,
        next: Offset,
    },
    Refused {
        tag: AppendTag,
        why: Refusal,
    },
    /// All below is committed and durable here: it may be acted upon. Never falls.
    Committed {
        up_to: Offset,
    },
    /// Another leader, or none. A leader learns of its own leadership when the first record of its epoch is committed.
    LeaderChanged {
        epoch: LeaderEpoch,
        leader: Option<BrokerId>,
    },
    /// Bytes of a download, to be written to a file that is not yet the snapshot.
    WriteSnapshot {
        id: SnapshotId,
        position: u64,
        bytes: Bytes,
    },
    /// All bytes are there: verify, sync, give it its name; report it installed or damaged.
    FinishSnapshot {
        id: SnapshotId,
        size: u64,
    },
    /// The download is given up.
    DropSnapshot {
        id: SnapshotId,
    },
    /// The log starts here from now on.
    Trim {
        to: Offset,
    },
    DeleteSnapshot {
        id: SnapshotId,
    },
    /// A replica that had forgotten what it promised knows now that it promised nothing beyond this epoch: it counts again.
    Remembered,
    Alarm(Alarm),
}
