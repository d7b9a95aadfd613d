//! Questions to coordinators: one or more are asked, and an operation goes on when all have answered durably.

use model::{BrokerId, Instant, Ticket};
use partition::NeverCommitted;
use wire::ErrorCode;

use super::query::{Query, Told};
use super::{Desk, Step, Tickets};
use crate::asker::Granted;
use crate::mail::question::Answered;
use security::authorize::Operation;

/// Memory of a question that waits for its coordinator, and of what it says. The name that it is about may be one byte of the
/// request.
pub(crate) const QUESTION_BYTES: usize = 512;

/// Questions of one kind on their way to their coordinators.
pub(crate) struct Asking<Q: Query> {
    told: Vec<Place<Q>>,
    /// Questions without an answer, or with one that is not durable.
    open: usize,
    /// When answers that are still not durable are taken for none.
    until: Option<Instant>,
}

enum Place<Q: Query> {
    /// Nothing was said: others are waited for, members of a group, or the coordinator's shard.
    Empty,
    /// The answer rests on records that are not durable.
    Waits(Q::Answer),
    Done(Told<Q>),
}

impl<Q: Query> Asking<Q> {
    /// Asks each coordinator; `ticket` gives the ticket of a question by its number.
    pub(crate) fn begin(
        desk: &mut Desk,
        questions: Vec<(i32, Q)>,
        ticket: impl Fn(u32) -> Ticket,
    ) -> Asking<Q> {
        let asking = Asking {
            told: questions.iter().map(|_| Place::Empty).collect(),
            open: questions.len(),
            until: None,
        };
        for (index, (partition, question)) in (0..).zip(questions) {
            question.send(desk, partition, ticket(index));
        }
        asking
    }

    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// How many questions there are, answered or not.
    pub(crate) fn questions(&self) -> usize {
        self.told.len()
    }

    /// True if every coordinator has answered, durably or not in time.
    pub(crate) fn is_done(&self) -> bool {
        self.open == 0
    }

    /// A coordinator has spoken; its answer counts when its log is durable.
    pub(crate) fn on_answer(&mut self, desk: &Desk, answered: Answered) {
        let Answered {
            ticket,
            said,
            basis,
        } = answered;
        let Some(place) = self.told.get_mut(ticket.part as usize) else {
            return;
        };
        let answer = said.and_then(|said| Q::answer_of(said).ok_or(ErrorCode::UnknownServerError));
        let told = match (answer, basis) {
            (Ok(answer), Some(basis)) => match basis.await_end(ticket) {
                Ok(true) => {
                    *place = Place::Waits(answer);
                    let overdue = desk
                        .now
                        .plus(desk.shared.catalog.config().coordinator_wait_max);
                    self.until.get_or_insert(overdue);
                    return;
                }
                Ok(false) => Ok(answer),
                Err(NeverCommitted) => Err(ErrorCode::NotCoordinator),
            },
            (answer, _) => answer,
        };
        *place = Place::Done(told);
        self.open -= 1;
    }

    /// The records that an answer rests on are committed, or will not be in this process.
    pub(crate) fn on_news(&mut self, ticket: Ticket, code: ErrorCode) {
        let Some(place) = self.told.get_mut(ticket.part as usize) else {
            return;
        };
        match std::mem::replace(place, Place::Empty) {
            Place::Waits(answer) => {
                *place = Place::Done(match code {
                    ErrorCode::None => Ok(answer),
                    _ => Err(ErrorCode::NotCoordinator),
                });
                self.open -= 1;
            }
            // Its time was up before.
            other => *place = other,
        }
    }

    /// The records of the operation take too long to become durable. They stand in the log, and may be found there later;
    /// the client asks again.
    pub(crate) fn time_out(&mut self) {
        self.until = None;
        for place in &mut self.told {
            if matches!(place, Place::Waits(_)) {
                *place = Place::Done(Err(ErrorCode::CoordinatorNotAvailable));
                self.open -= 1;
            }
        }
    }

    /// The answers of the coordinators, in the order of the questions.
    pub(crate) fn into_told(self) -> Vec<Told<Q>> {
        let told = self.told.into_iter().map(|place| match place {
            Place::Done(told) => told,
            Place::Empty | Place::Waits(_) => Err(ErrorCode::NotCoordinator),
        });
        told.collect()
    }
}

/// An operation that is done when coordinators have answered.
pub(crate) struct Awaiting<Q: Query, T> {
    pub(crate) asking: Asking<Q>,
    pub(crate) read: Read<Q, T>,
}

/// How an operation that asks coordinators begins.
pub(crate) type Awaited<Q, T> = Step<Awaiting<Q, T>, T>;

/// Makes the result of an operation from the answers of coordinators.
pub(crate) enum Read<Q: Query, T> {
    Plain(fn(Vec<Told<Q>>) -> T),
    With(Box<dyn FnOnce(Vec<Told<Q>>) -> T + Send>),
}

impl<Q: Query, T> Read<Q, T> {
    pub(crate) fn with(read: impl FnOnce(Vec<Told<Q>>) -> T + Send + 'static) -> Read<Q, T> {
        Read::With(Box::new(read))
    }

    pub(crate) fn read(self, told: Vec<Told<Q>>) -> T {
        match self {
            Read::Plain(read) => read(told),
            Read::With(read) => read(told),
        }
    }
}

impl<Q: Query, T> Awaiting<Q, T> {
    /// Asks all questions. Without any the operation is done.
    pub(crate) fn begin(
        desk: &mut Desk,
        questions: Vec<(i32, Q)>,
        tickets: Tickets<'_>,
        read: Read<Q, T>,
    ) -> Awaited<Q, T> {
        if questions.is_empty() {
            return Step::Done(read.read(Vec::new()));
        }
        if desk.is_stopping {
            // An operation that waits for other members now would keep the broker from ending.
            return Step::Dropped;
        }
        let asking = Asking::begin(desk, questions, tickets);
        Step::Parked(Awaiting { asking, read })
    }
}

/// The answer to the only question there was.
pub(crate) fn only<A>(told: Vec<Result<A, ErrorCode>>) -> Result<A, ErrorCode> {
    let told = told.into_iter().next();
    told.unwrap_or(Err(ErrorCode::NotCoordinator))
}

impl Desk {
    /// The partition of `__consumer_offsets` whose coordinator looks after a group, for somebody who may do this to the group.
    pub(super) fn coordinator_of(&mut self, group: Granted<'_>, operation: Operation) -> i32 {
        self.group_partition(group.group(operation))
    }

    /// The partition of `__consumer_offsets` that looks after a group.
    pub(crate) fn group_partition(&mut self, group_id: &str) -> i32 {
        self.partition_of(
            meta::name::OFFSETS,
            "offsets.topic.num.partitions",
            group_id,
        )
    }

    /// The partition of `__transaction_state` that looks after a transactional id.
    pub(super) fn txn_partition(&mut self, transactional_id: &str) -> i32 {
        self.partition_of(
            meta::name::TRANSACTIONS,
            "transaction.state.log.num.partitions",
            transactional_id,
        )
    }

    /// The other broker whose transactions those of a partition are. None where they are ours, or nobody's.
    pub(crate) fn other_coordinator(&mut self, partition: i32) -> Option<BrokerId> {
        self.other_leader(meta::name::TRANSACTIONS, partition)
    }

    /// The other broker that leads a partition. None where this one does, or nobody.
    pub(crate) fn other_leader(&mut self, topic: &str, partition: i32) -> Option<BrokerId> {
        let node = self.shared.catalog.config().broker.node_id;
        let leader = self.topics().leader(topic, partition)?.broker;
        leader.filter(|leader| *leader != node)
    }

    /// The partition that an id hashes to; of a topic that is not made yet, the one that it will have: AddOffsetsToTxn may come
    /// before the first group.
    fn partition_of(&mut self, topic: &str, setting: &str, id: &str) -> i32 {
        let topics = self.topics();
        let made = topics.named(topic).map(|topic| topic.partitions_count());
        let partitions = match made {
            Some(made) => i32::try_from(made).ok(),
            None => {
                let planned = self.shared.catalog.config().broker.number(setting);
                planned.and_then(|planned| i32::try_from(planned).ok())
            }
        };
        coord::partition_of(id, partitions.unwrap_or(i32::MAX))
    }
}
