//! Questions to coordinators and their answers, as they travel between inboxes.

use std::sync::Arc;

use coord::{group, txn};
use model::{LeaderEpoch, Ticket};
use partition::{Marker, NeverCommitted, Partition, Warrant};
use wire::ErrorCode;

/// Partitions that are to join a transaction, or have done so if the client is right.
#[derive(Debug)]
pub(crate) enum Join {
    Add(txn::Add),
    Verify(txn::Verify),
}

impl Join {
    pub(crate) fn transactional_id(&self) -> &str {
        match self {
            Join::Add(add) => &add.transactional_id,
            Join::Verify(verify) => &verify.transactional_id,
        }
    }
}

impl From<Join> for txn::Ask {
    fn from(join: Join) -> txn::Ask {
        match join {
            Join::Add(add) => txn::Ask::Add(add),
            Join::Verify(verify) => txn::Ask::Verify(verify),
        }
    }
}

/// Something for the machine of one partition.
pub(crate) enum Question {
    Group(group::Ask),
    /// Offsets of a transaction: what they may do in the log of the group.
    TxnOffsets(group::Ask, Warrant),
    Txn(txn::Ask),
    /// For a partition of any topic.
    MarkerAt(txn::TxnPartition, Marker),
}

impl From<group::Ask> for Question {
    fn from(ask: group::Ask) -> Question {
        Question::Group(ask)
    }
}

impl From<txn::Ask> for Question {
    fn from(ask: txn::Ask) -> Question {
        Question::Txn(ask)
    }
}

/// The answer to any question.
#[derive(Debug, PartialEq)]
pub(crate) enum Said {
    Group(group::Answer),
    Txn(txn::Answer),
    Marked,
}

impl From<group::Answer> for Said {
    fn from(answer: group::Answer) -> Said {
        Said::Group(answer)
    }
}

impl From<txn::Answer> for Said {
    fn from(answer: txn::Answer) -> Said {
        Said::Txn(answer)
    }
}

/// How far a question goes for its coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// No further than this broker: clients of the Kafka protocol are to find the broker of their coordinator.
    ThisBroker,
    /// To whichever broker coordinates.
    Cluster,
}

/// A question on its way to its coordinator.
pub(crate) struct Asked {
    pub(crate) partition: i32,
    pub(crate) ticket: Ticket,
    pub(crate) question: Question,
    pub(crate) reach: Reach,
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
