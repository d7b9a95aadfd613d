//! Questions to coordinators and what becomes of them, as they travel between inboxes.

use std::sync::Arc;

use coord::{group, txn};
use model::Ticket;
use partition::{Marker, Partition, Warrant};
use wire::ErrorCode;

/// Something for the machine of one partition.
pub(crate) enum Question {
    Group(group::Ask),
    /// Offsets of a transaction: what they may do in the log of the group.
    TxnOffsets(group::Ask, Warrant),
    Txn(txn::Ask),
    /// For a partition of any topic.
    MarkerAt(txn::Place, Marker),
}

/// The answer of a machine.
#[derive(Debug)]
pub(crate) enum Said {
    Group(group::Answer),
    Txn(txn::Answer),
    Marked,
}

impl Said {
    pub(crate) fn group(self) -> group::Answer {
        match self {
            Said::Group(answer) => answer,
            other => unreachable!("asked of a group, {other:?} was said"),
        }
    }

    pub(crate) fn txn(self) -> txn::Answer {
        match self {
            Said::Txn(answer) => answer,
            other => unreachable!("asked of a transaction, {other:?} was said"),
        }
    }
}

/// The outcome of one question.
pub(crate) type Told = Result<Said, ErrorCode>;

/// A question on its way to the shard of its coordinator.
pub(crate) struct Asked {
    pub(crate) partition: i32,
    pub(crate) ticket: Ticket,
    pub(crate) question: Question,
}

/// An answer on its way back. It may leave when the `log` is durable up to where it ends now.
pub(crate) struct Answered {
    pub(crate) ticket: Ticket,
    pub(crate) said: Result<Said, ErrorCode>,
    pub(crate) log: Option<Arc<Partition>>,
}
