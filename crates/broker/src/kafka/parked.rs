//! Requests of the Kafka door that wait: for a commit, for a coordinator, for more to read, for this broker to join its cluster.
//!
//! A parked request keeps its asker, and its decoded form; one that the controller or another step has to answer first is kept as its frame
//! and decoded again. It goes on as the one that it came from although its connection may be gone.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use model::{Instant, Ticket, WaiterKey};
use wire::ErrorCode;
use wire::messages::ListOffsetsRequest;

use super::call::Attempt;
use super::call::Call;
use super::login::form::{Form, Refusing};
use super::session::Context;
use crate::asker::Asker;
use crate::mail::question::Answered;
use crate::net::{Address, Outcome, Reply};
use crate::ops::Desk;
use crate::ops::asking::Asking;
use crate::ops::change;
use crate::ops::fetch::Fetching;
use crate::ops::produce::Producing;
use crate::ops::query::{Query, Told};
use crate::ops::search::Searching;
use crate::ops::trim::Trimming;
use crate::peers::Answer;

pub(crate) struct Parked {
    pub(crate) waiting: Waiting,
    pub(crate) address: Address,
    pub(crate) asker: Arc<Asker>,
}

pub(crate) enum Waiting {
    Produce(Producing),
    Fetch(Fetch),
    Replica(FeedRequest),
    Search(Search),
    Trim(Trimming),
    Change(Change),
    Asking(Box<dyn Asks>),
    /// The quorum answers it.
    Quorum,
    Remote(Remote),
    Membership(Early),
    /// Its password is being checked.
    Password(Form),
    Refusing(Refusing),
}

/// A whole request that came before this broker was part of its cluster.
pub(crate) struct Early {
    pub(crate) frame: Bytes,
    pub(crate) until: Instant,
}

/// Another node was asked. The worker that asked always comes back, in time or without an answer.
pub(crate) struct Remote {
    pub(crate) finish: FinishRemote,
}

type FinishRemote = Box<dyn FnOnce(&mut Call<'_>, Option<Answer>) -> Outcome + Send>;

/// A fetch of a client, parked or not.
pub(crate) struct Fetch {
    pub(crate) context: Context,
    pub(crate) fetching: Fetching,
    /// Record bytes that it keeps while it is parked. They count as those of answers do.
    pub(crate) kept: usize,
}

impl Fetch {
    pub(crate) fn deadline(&self) -> Instant {
        self.fetching.deadline()
    }
}

/// A request of a follower that waits for records.
pub(crate) struct FeedRequest {
    pub(crate) feed: WaiterKey,
    pub(crate) bytes_max: usize,
    pub(crate) deadline: Instant,
}

/// A look-up of offsets, parked or not.
pub(crate) struct Search {
    pub(crate) request: ListOffsetsRequest,
    /// Topics that the asker may not see.
    pub(crate) hidden: HashSet<String>,
    pub(crate) searching: Searching,
}

/// Coordinators are asked, and the answer is made from what they say.
pub(crate) struct AskedFor<Q: Query, F> {
    pub(crate) asking: Asking<Q>,
    pub(crate) finish: F,
}

/// A request that asks coordinators, whatever its questions are.
pub(crate) trait Asks: Send {
    fn on_answer(&mut self, desk: &Desk, answered: Answered);
    fn on_news(&mut self, ticket: Ticket, code: ErrorCode);
    fn time_out(&mut self);
    fn until(&self) -> Option<Instant>;
    fn is_done(&self) -> bool;
    fn finish(self: Box<Self>, call: &mut Call<'_>) -> Outcome;
}

impl<Q, F> Asks for AskedFor<Q, F>
where
    Q: Query<Answer: Send>,
    F: FnOnce(&mut Call<'_>, Vec<Told<Q>>) -> Outcome + Send,
{
    fn on_answer(&mut self, desk: &Desk, answered: Answered) {
        self.asking.on_answer(desk, answered);
    }

    fn on_news(&mut self, ticket: Ticket, code: ErrorCode) {
        self.asking.on_news(ticket, code);
    }

    fn time_out(&mut self) {
        self.asking.time_out();
    }

    fn until(&self) -> Option<Instant> {
        self.asking.until()
    }

    fn is_done(&self) -> bool {
        self.asking.is_done()
    }

    fn finish(self: Box<Self>, call: &mut Call<'_>) -> Outcome {
        let told = self.asking.into_told();
        (self.finish)(call, told)
    }
}

pub(crate) struct Change {
    pub(crate) change: change::Change,
    /// None once the request was told that its time is up: the image is published all the same when it is durable.
    pub(crate) then: Option<Then>,
}

type Again = Box<dyn FnOnce(&mut Call<'_>, Attempt) -> Outcome + Send>;
type Overrun = Box<dyn FnOnce(&mut Call<'_>) -> Outcome + Send>;

/// The next step after a change that is durable.
pub(crate) enum Then {
    Reply {
        reply: Reply,
        /// The answer when its time is up.
        overdue: Overrun,
    },
    /// The request is handled again: what it needed is there now.
    Again(Again),
}

impl Then {
    pub(crate) fn answer(self, call: &mut Call<'_>) -> Outcome {
        match self {
            Then::Reply { reply, .. } => Outcome::Reply(reply),
            Then::Again(again) => again(call, Attempt::Second),
        }
    }

    pub(crate) fn answer_overdue(self, call: &mut Call<'_>) -> Outcome {
        match self {
            Then::Reply { overdue, .. } => overdue(call),
            Then::Again(again) => again(call, Attempt::Overdue),
        }
    }
}

impl Waiting {
    /// When it is answered though what it waits for is not durable. Fetches have timers of their own.
    pub(crate) fn until(&self) -> Option<Instant> {
        match self {
            Waiting::Produce(producing) => producing.until(),
            Waiting::Trim(trimming) => Some(trimming.until()),
            Waiting::Change(Change { change, then }) => then.as_ref().map(|_| change.until),
            Waiting::Asking(asked) => asked.until(),
            Waiting::Membership(early) => Some(early.until),
            Waiting::Fetch(_)
            | Waiting::Replica(_)
            | Waiting::Search(_)
            | Waiting::Quorum
            | Waiting::Remote(_)
            | Waiting::Password(_)
            | Waiting::Refusing(_) => None,
        }
    }

    /// True if nobody needs it without its connection: what it wrote is committed all the same. A client may have asked to wait
    /// for weeks.
    pub(crate) fn is_for_client_alone(&self) -> bool {
        matches!(
            self,
            Waiting::Produce(Producing::Committing(_))
                | Waiting::Trim(_)
                | Waiting::Fetch(_)
                | Waiting::Replica(_)
                | Waiting::Membership(_)
                | Waiting::Password(_)
                | Waiting::Refusing(_)
        )
    }

    /// True if it keeps a stopping broker until what it wrote is durable. Requests that wait for a coordinator are dropped by a stop.
    pub(crate) fn needs_commit(&self) -> bool {
        matches!(
            self,
            Waiting::Produce(Producing::Committing(_)) | Waiting::Trim(_) | Waiting::Change(_)
        )
    }
}
