//! Questions to coordinators and what becomes of them, as they travel between inboxes.

use std::sync::Arc;

use coord::{group, txn};
use model::{LeaderEpoch, Ticket};
use partition::{Marker, NeverCommitted, Partition, Warrant};
use wire::ErrorCode;

/// Something for the machine of one partition.
pub(crate) enum Question {
    Group(group::Ask),
    /// Offsets of a transaction: what they may do in the log of the group.
    TxnOffsets(group::Ask, Warrant),
    Txn(txn::Ask),
    /// Of the leader of partitions that join a transaction: its coordinator may be on another broker.
    Joining(txn::Ask),
    /// For a partition of any topic.
    MarkerAt(txn::TxnPartition, Marker),
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

/// The log that an answer rests on, in the leader epoch in which it was given.
#[derive(Clone)]
pub(crate) struct Basis {
    pub(crate) log: Arc<Partition>,
    pub(crate) epoch: LeaderEpoch,
}

impl Basis {
    /// Redeems `ticket` when everything that was written so far is committed; `false` when it is already.
    pub(crate) fn await_end(&self, ticket: Ticket) -> Result<bool, NeverCommitted> {
        self.log.await_end_in(self.epoch, ticket)
    }
}

/// An answer on its way back. It may leave when its basis is committed up to where it ends now.
pub(crate) struct Answered {
    pub(crate) ticket: Ticket,
    pub(crate) said: Result<Said, ErrorCode>,
    pub(crate) basis: Option<Basis>,
}
