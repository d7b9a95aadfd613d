//! Queries: questions of operations to coordinators, each with the type of its answer.
//!
//! On its way a query is a [`Question`] and its answer a [`Said`]; only the one who asked, and knows which query that was, reads it.

use coord::group::ask::TxnCommit;
use coord::{group, txn};
use model::Ticket;
use partition::{Marker, Warrant};
use wire::ErrorCode;

use super::Desk;
use crate::mail::question::{Asked, Join, Question, Reach, Said};

/// A question of an operation to the coordinator of one partition.
pub(crate) trait Query: Sized {
    type Answer;

    /// How far it goes at least.
    const REACH: Reach = Reach::ThisBroker;

    fn into_question(self) -> Question;

    /// The answer, if it is one to such a question. Coordinators give no other: [`coord::Caller`].
    fn answer_of(said: Said) -> Option<Self::Answer>;

    /// Leaves it for the coordinator of `partition`. The answer comes under `ticket`.
    fn send(self, desk: &mut Desk, partition: i32, ticket: Ticket) {
        desk.asked.push_back(Asked {
            partition,
            ticket,
            reach: desk.reach.max(Self::REACH),
            question: self.into_question(),
        });
    }
}

/// The outcome of one query.
pub(crate) type Told<Q> = Result<<Q as Query>::Answer, ErrorCode>;

impl<Q> Query for Q
where
    Q: coord::Question<AnyAnswer: Speech>,
    Question: From<Q::AnyAsk>,
{
    type Answer = Q::Answer;

    fn into_question(self) -> Question {
        self.into_any().into()
    }

    fn answer_of(said: Said) -> Option<Q::Answer> {
        Q::answer_of(Speech::of(said)?)
    }
}

/// Offsets of a transaction, and what they may do in the log of the group.
pub(crate) struct WarrantedCommit(pub(crate) TxnCommit, pub(crate) Warrant);

impl Query for WarrantedCommit {
    type Answer = <TxnCommit as coord::Question>::Answer;

    fn into_question(self) -> Question {
        let WarrantedCommit(commit, warrant) = self;
        Question::TxnOffsets(group::Ask::TxnCommit(commit), warrant)
    }

    fn answer_of(said: Said) -> Option<Self::Answer> {
        <TxnCommit as Query>::answer_of(said)
    }
}

/// The answer to a [`Join`].
pub(crate) enum Joined {
    All(Result<(), ErrorCode>),
    /// One for each partition, in their order.
    Each(Vec<Result<(), ErrorCode>>),
}

impl Joined {
    /// The result of the partition with this number.
    pub(crate) fn of(&self, number: usize) -> Result<(), ErrorCode> {
        match self {
            Joined::All(result) => *result,
            Joined::Each(results) => results.get(number).copied().unwrap_or(Ok(())),
        }
    }

    /// Of all of them: the first refusal, if there is one.
    pub(crate) fn all(self) -> Result<(), ErrorCode> {
        match self {
            Joined::All(result) => result,
            Joined::Each(results) => results.into_iter().collect(),
        }
    }
}

impl Query for Join {
    type Answer = Joined;

    fn into_question(self) -> Question {
        Question::Txn(self.into())
    }

    fn answer_of(said: Said) -> Option<Joined> {
        match said {
            Said::Txn(txn::Answer::Add(added)) => Some(Joined::All(added)),
            Said::Txn(txn::Answer::Verify(verified)) => Some(Joined::Each(verified)),
            _ => None,
        }
    }
}

/// A [`Join`] of the leader of the partitions: the coordinator of the transaction may be on another broker.
pub(crate) struct LeaderJoin(pub(crate) Join);

impl Query for LeaderJoin {
    type Answer = Joined;

    const REACH: Reach = Reach::Cluster;

    fn into_question(self) -> Question {
        self.0.into_question()
    }

    fn answer_of(said: Said) -> Option<Joined> {
        Join::answer_of(said)
    }
}

/// A marker for one partition of any topic.
pub(crate) struct Mark(pub(crate) txn::TxnPartition, pub(crate) Marker);

impl Query for Mark {
    type Answer = ();

    fn into_question(self) -> Question {
        let Mark(place, marker) = self;
        Question::MarkerAt(place, marker)
    }

    fn answer_of(said: Said) -> Option<()> {
        matches!(said, Said::Marked).then_some(())
    }
}

/// The answers of one kind of machine.
pub(crate) trait Speech: Sized {
    fn of(said: Said) -> Option<Self>;
}

impl Speech for group::Answer {
    fn of(said: Said) -> Option<Self> {
        match said {
            Said::Group(answer) => Some(answer),
            _ => None,
        }
    }
}

impl Speech for txn::Answer {
    fn of(said: Said) -> Option<Self> {
        match said {
            Said::Txn(answer) => Some(answer),
            _ => None,
        }
    }
}
