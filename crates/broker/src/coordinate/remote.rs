//! Requests of one shard to coordinators on other brokers: markers for partitions that those lead, transactions that those coordinate
//! and that a partition here is to join, and questions of operations, which are a request each.
//!
//! Owns what waits and what is under way. One request with markers or joins is under way to a broker at a time: what comes meanwhile goes
//! together with the next one. Has no connection and no clock; a request that fails is the failure of all that it carried, and
//! only a join that comes too early is tried again from here.

mod described;
mod groups;
mod messages;
mod txns;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use coord::txn::{self, TxnPartition};
use model::{BrokerId, Instant, Ticket, WaiterKey};
use partition::Marker;
use wire::ErrorCode;
use wire::messages::{AddPartitionsToTxnRequest, WriteTxnMarkersRequest};

use crate::mail::question::{self, Asked, Question, Said};
use crate::net::Pending;
use crate::peers::{Answer, Typed};

/// Most marks or joins of one request: with names of 249 bytes a frame of 300 KiB.
const TOGETHER_MAX: usize = 1000;
/// Pause before a join is tried again that came before the last transaction was completed.
const JOIN_RETRY: Duration = Duration::from_millis(10);

/// A marker for a partition that another broker leads.
pub(super) struct Mark {
    pub(super) ticket: Ticket,
    pub(super) place: TxnPartition,
    pub(super) marker: Marker,
}

/// A question to a transaction that another broker coordinates.
pub(super) struct Join {
    pub(super) ticket: Ticket,
    /// Partition of the transaction's coordinator.
    pub(super) partition: i32,
    pub(super) ask: question::Join,
    /// It is tried again so long while the last transaction is being completed.
    pub(super) until: Instant,
    /// The pause before that.
    pub(super) pause: Option<Instant>,
}

/// A request that is ready to go.
pub(super) struct Errand {
    pub(super) key: WaiterKey,
    pub(super) to: BrokerId,
    pub(super) request: Request,
}

pub(super) enum Request {
    Marks(WriteTxnMarkersRequest),
    Joins(AddPartitionsToTxnRequest),
    Question(Typed),
}

/// The end of a mark, of a join or of a question.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    /// With the refusal of its leader, if it was refused.
    Marked(Ticket, Option<ErrorCode>),
    Joined(Ticket, Result<txn::Answer, ErrorCode>),
    Said(Ticket, Result<Said, ErrorCode>),
}

/// The facts that the answer to a question is read with.
enum Reading {
    Group(groups::Reading),
    Txn(txns::Reading),
}

impl Reading {
    fn read(self, answer: Option<Answer>) -> Result<Said, ErrorCode> {
        // It may have been carried out; whoever asks again finds that so.
        let answer = answer.ok_or(ErrorCode::CoordinatorNotAvailable)?;
        match self {
            Reading::Group(reading) => reading.read(answer),
            Reading::Txn(reading) => reading.read(answer),
        }
    }
}

/// A question that another broker coordinates.
struct Relayed {
    ticket: Ticket,
    /// The topic and the partition of its coordinator.
    place: (&'static str, i32),
    reading: Reading,
}

struct Line<E> {
    waiting: Vec<E>,
    under_way: bool,
}

impl<E> Default for Line<E> {
    fn default() -> Self {
        Line {
            waiting: Vec::new(),
            under_way: false,
        }
    }
}

#[derive(Default)]
struct Peer {
    marks: Line<Mark>,
    joins: Line<Join>,
}

/// The contents of one request.
enum Load {
    Marks(Vec<Mark>),
    Joins(Vec<Join>),
    /// None: it was given up.
    Question(Option<Relayed>),
}

pub(super) struct Remote {
    peers: BTreeMap<BrokerId, Peer>,
    /// Questions that go next.
    questions: Vec<(BrokerId, Relayed, Typed)>,
    under_way: Pending<(BrokerId, Load)>,
}

impl Remote {
    pub(super) fn new() -> Remote {
        Remote {
            peers: BTreeMap::new(),
            questions: Vec::new(),
            under_way: Pending::new(),
        }
    }

    pub(super) fn mark(&mut self, broker: BrokerId, mark: Mark) {
        let peer = self.peers.entry(broker).or_default();
        peer.marks.waiting.push(mark);
    }

    pub(super) fn join(&mut self, broker: BrokerId, join: Join) {
        let peer = self.peers.entry(broker).or_default();
        peer.joins.waiting.push(join);
    }

    /// Takes a question; the error has the ticket of one that no other broker can be asked.
    pub(super) fn ask(&mut self, broker: BrokerId, asked: Asked) -> Result<(), Ticket> {
        let Asked {
            partition,
            ticket,
            question,
            reach: _,
        } = asked;
        let relayed = match question {
            Question::Group(ask) => groups::request(ask)
                .map(|(request, reading)| (request, meta::name::OFFSETS, Reading::Group(reading))),
            Question::Txn(ask) => txns::request(ask).map(|(request, reading)| {
                (request, meta::name::TRANSACTIONS, Reading::Txn(reading))
            }),
            Question::TxnOffsets(..) | Question::MarkerAt(..) => None,
        };
        let (request, topic, reading) = relayed.ok_or(ticket)?;
        let relayed = Relayed {
            ticket,
            place: (topic, partition),
            reading,
        };
        self.questions.push((broker, relayed, request));
        Ok(())
    }

    /// The requests that may go now. Marks that are wanted no more are dropped.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        is_wanted: impl Fn(Ticket) -> bool,
    ) -> Vec<Errand> {
        let mut errands = Vec::new();
        for (to, relayed, request) in self.questions.drain(..) {
            let key = self.under_way.insert((to, Load::Question(Some(relayed))));
            let request = Request::Question(request);
            errands.push(Errand { key, to, request });
        }
        for (to, peer) in &mut self.peers {
            let mut begin = |load, request| {
                let key = self.under_way.insert((*to, load));
                errands.push(Errand {
                    key,
                    to: *to,
                    request,
                });
            };
            if !peer.marks.under_way {
                peer.marks.waiting.retain(|mark| is_wanted(mark.ticket));
                let marks = load(
                    &mut peer.marks.waiting,
                    |_| true,
                    |mark| (mark.marker.producer_id, mark.place.clone()),
                );
                if !marks.is_empty() {
                    peer.marks.under_way = true;
                    let request = Request::Marks(messages::marks(&marks));
                    begin(Load::Marks(marks), request);
                }
            }
            if !peer.joins.under_way {
                let is_due = |join: &Join| join.pause.is_none_or(|pause| pause <= now);
                let joins = load(&mut peer.joins.waiting, is_due, |join| {
                    join.ask.transactional_id().to_owned()
                });
                if !joins.is_empty() {
                    peer.joins.under_way = true;
                    let request = Request::Joins(messages::joins(&joins));
                    begin(Load::Joins(joins), request);
                }
            }
        }
        errands
    }

    /// When a join is to be tried again.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let lines = self.peers.values().map(|peer| &peer.joins);
        let idle = lines.filter(|line| !line.under_way);
        idle.flat_map(|line| &line.waiting)
            .filter_map(|join| join.pause)
            .min()
    }

    /// A request was answered, or failed where there is no answer.
    pub(super) fn on_reply(
        &mut self,
        key: WaiterKey,
        answer: Option<Answer>,
        now: Instant,
    ) -> Vec<Outcome> {
        let Some((broker, load)) = self.under_way.remove(key) else {
            return Vec::new();
        };
        if let Load::Question(relayed) = load {
            let said = relayed.map(|of| Outcome::Said(of.ticket, of.reading.read(answer)));
            return said.into_iter().collect();
        }
        let peer = self.peers.entry(broker).or_default();
        match load {
            Load::Question(_) => Vec::new(),
            Load::Marks(marks) => {
                peer.marks.under_way = false;
                messages::marked(&marks, answer)
            }
            Load::Joins(joins) => {
                peer.joins.under_way = false;
                let joined = messages::joined(&joins, answer);
                let (early, done): (Vec<_>, Vec<_>) = (joins.into_iter().zip(joined))
                    .partition(|(join, joined)| is_early(joined) && now < join.until);
                let again = early.into_iter().map(|(join, _)| Join {
                    pause: Some(now.plus(JOIN_RETRY)),
                    ..join
                });
                peer.joins.waiting.extend(again);
                let done = done.into_iter();
                done.map(|(join, joined)| Outcome::Joined(join.ticket, joined))
                    .collect()
            }
        }
    }

    /// Gives up what waits for, or is under way to, a broker that is not the right one any more: `is_right` says of a broker
    /// whether it leads the partition, which is of the transactions for a join.
    pub(super) fn give_up(
        &mut self,
        is_right: impl Fn(BrokerId, &str, i32) -> bool,
    ) -> Vec<Outcome> {
        let mut given_up = Vec::new();
        let mut sift_marks = |broker: BrokerId, marks: &mut Vec<Mark>| {
            let wrong = |mark: &mut Mark| !is_right(broker, &mark.place.0, mark.place.1);
            let refused = Some(ErrorCode::NotLeaderOrFollower);
            let wrong = marks.extract_if(.., wrong);
            given_up.extend(wrong.map(|mark| Outcome::Marked(mark.ticket, refused)));
        };
        let mut lost = Vec::new();
        let mut sift_joins = |broker: BrokerId, joins: &mut Vec<Join>| {
            let topic = meta::name::TRANSACTIONS;
            let wrong = |join: &mut Join| !is_right(broker, topic, join.partition);
            let refused = Err(ErrorCode::NotCoordinator);
            let wrong = joins.extract_if(.., wrong);
            lost.extend(wrong.map(|join| Outcome::Joined(join.ticket, refused.clone())));
        };
        for (broker, peer) in &mut self.peers {
            sift_marks(*broker, &mut peer.marks.waiting);
            sift_joins(*broker, &mut peer.joins.waiting);
        }
        for (broker, load) in self.under_way.values_mut() {
            match load {
                Load::Marks(marks) => sift_marks(*broker, marks),
                Load::Joins(joins) => sift_joins(*broker, joins),
                Load::Question(_) => {}
            }
        }
        given_up.extend(lost);
        given_up.extend(self.give_up_questions(is_right));
        given_up
    }

    fn give_up_questions(
        &mut self,
        is_right: impl Fn(BrokerId, &str, i32) -> bool,
    ) -> Vec<Outcome> {
        let is_wrong = |broker: BrokerId, of: &Relayed| !is_right(broker, of.place.0, of.place.1);
        let waiting = (self.questions).extract_if(.., |(broker, of, _)| is_wrong(*broker, of));
        let mut wrong: Vec<Relayed> = waiting.map(|(_, of, _)| of).collect();
        for (broker, load) in self.under_way.values_mut() {
            if let Load::Question(relayed) = load {
                wrong.extend(relayed.take_if(|of| is_wrong(*broker, of)));
            }
        }
        let refused = |of: Relayed| Outcome::Said(of.ticket, Err(ErrorCode::NotCoordinator));
        wrong.into_iter().map(refused).collect()
    }
}

/// True if the last transaction is not completed yet, and the next one cannot begin.
fn is_early(joined: &Result<txn::Answer, ErrorCode>) -> bool {
    matches!(
        joined,
        Ok(txn::Answer::Add(Err(ErrorCode::ConcurrentTransactions)))
    )
}

/// Takes what one request may carry: of each name one, as answers are found by it.
fn load<E, N: Eq + std::hash::Hash>(
    waiting: &mut Vec<E>,
    is_due: impl Fn(&E) -> bool,
    name: impl Fn(&E) -> N,
) -> Vec<E> {
    let mut seen = HashSet::new();
    let mut is_taken =
        |one: &mut E| seen.len() < TOGETHER_MAX && is_due(one) && seen.insert(name(one));
    waiting.extract_if(.., &mut is_taken).collect()
}

#[cfg(test)]
mod tests;
