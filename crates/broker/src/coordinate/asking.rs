//! The side of the request: it asks one or more coordinators, waits, and is finished when all have answered durably.

use coord::{group, txn};
use model::{Instant, Ticket, WaiterKey};
use partition::NeverDurable;
use wire::ErrorCode;

use super::{Answered, Asked, Question, Said};
use crate::kafka::api::once::keep_once;
use crate::shard::{Address, Outcome, Shard, Waiting};

/// Memory of a question that waits for its coordinator, and of what it says. The name that it is about may be one byte of the
/// request.
const QUESTION_BYTES: usize = 512;

/// What became of one question.
pub(crate) type Told = Result<Said, ErrorCode>;

type Finish = Box<dyn FnOnce(&mut Shard, &Address, Vec<Told>) -> Outcome + Send>;

/// A request that waits for coordinators.
pub(crate) struct Asking {
    told: Vec<Place>,
    /// Questions without an answer, or with one that is not durable.
    open: usize,
    /// When answers that are still not durable are taken for none.
    until: Option<Instant>,
    finish: Finish,
}

impl Asking {
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }
}

enum Place {
    /// Nothing was said: others are waited for, members of a group, or the coordinator's shard.
    Empty,
    /// What it rests on is not durable.
    Waits(Said),
    Done(Told),
}

impl Shard {
    /// Asks the coordinator of one group. `finish` makes the answer of the request.
    pub(crate) fn ask_group(
        &mut self,
        address: &Address,
        group_id: &str,
        ask: group::Ask,
        finish: impl FnOnce(&mut Shard, &Address, Result<group::Answer, ErrorCode>) -> Outcome
        + Send
        + 'static,
    ) -> Outcome {
        let partition = self.group_partition(group_id);
        let questions = vec![(partition, Question::Group(ask))];
        self.ask_all(address, questions, move |shard, address, told| {
            let told = told
                .into_iter()
                .next()
                .unwrap_or(Err(ErrorCode::NotCoordinator));
            finish(shard, address, told.map(Said::group))
        })
    }

    /// Asks the coordinator of each of several groups once. `finish` gets what they said, beside the groups.
    pub(crate) fn ask_groups(
        &mut self,
        address: &Address,
        mut group_ids: Vec<String>,
        ask: impl Fn(String) -> group::Ask,
        finish: impl FnOnce(
            &mut Shard,
            &Address,
            Vec<(String, Result<group::Answer, ErrorCode>)>,
        ) -> Outcome
        + Send
        + 'static,
    ) -> Outcome {
        keep_once(&mut group_ids);
        let question = |group_id: &String| {
            let partition = self.group_partition(group_id);
            (partition, Question::Group(ask(group_id.clone())))
        };
        let questions = group_ids.iter().map(question).collect();
        self.ask_all(address, questions, move |shard, address, told| {
            let told = told.into_iter().map(|told| told.map(Said::group));
            finish(shard, address, group_ids.into_iter().zip(told).collect())
        })
    }

    /// Asks the coordinator of a transaction.
    pub(crate) fn ask_txn(
        &mut self,
        address: &Address,
        ask: txn::Ask,
        finish: impl FnOnce(&mut Shard, &Address, Result<txn::Answer, ErrorCode>) -> Outcome
        + Send
        + 'static,
    ) -> Outcome {
        let partition = self.txn_partition(ask.transactional_id().unwrap_or_default());
        let questions = vec![(partition, Question::Txn(ask))];
        self.ask_all(address, questions, move |shard, address, told| {
            let told = told
                .into_iter()
                .next()
                .unwrap_or(Err(ErrorCode::NotCoordinator));
            finish(shard, address, told.map(Said::txn))
        })
    }

    /// Asks several coordinators; `finish` gets what they said in the order of the questions.
    pub(crate) fn ask_all(
        &mut self,
        address: &Address,
        questions: Vec<(i32, Question)>,
        finish: impl FnOnce(&mut Shard, &Address, Vec<Told>) -> Outcome + Send + 'static,
    ) -> Outcome {
        if questions.is_empty() {
            return finish(self, address, Vec::new());
        }
        if self.is_stopping() {
            // Who waits for other members now would keep the broker from ending.
            return Outcome::Close;
        }
        self.charge(address, questions.len() * QUESTION_BYTES);
        let waiter = self.next_waiter();
        let asking = Asking {
            told: questions.iter().map(|_| Place::Empty).collect(),
            open: questions.len(),
            until: None,
            finish: Box::new(finish),
        };
        self.wait(Waiting::Asking(asking), *address);
        for (index, (partition, question)) in questions.into_iter().enumerate() {
            let ticket = self.ticket(waiter, index as u32);
            self.send_question(Asked {
                partition,
                ticket,
                question,
            });
        }
        Outcome::Waits
    }

    /// A coordinator has spoken; its answer counts when its log is durable.
    pub(crate) fn on_answer(&mut self, answered: Answered) {
        let Answered { ticket, said, log } = answered;
        if self.marking(ticket.key).is_some() {
            return self.on_marking_answer(ticket, said, log.as_deref());
        }
        let overdue = self.now.plus(self.shared.config().coordinator_wait_max);
        let Some((Waiting::Asking(asking), _)) = self.waiting(ticket.key) else {
            return;
        };
        let Some(place) = asking.told.get_mut(ticket.part as usize) else {
            return;
        };
        let told = match (said, log) {
            (Ok(said), Some(log)) => match log.await_end(ticket) {
                Ok(true) => {
                    *place = Place::Waits(said);
                    asking.until.get_or_insert(overdue);
                    return;
                }
                Ok(false) => Ok(said),
                Err(NeverDurable) => Err(ErrorCode::NotCoordinator),
            },
            (said, _) => said,
        };
        *place = Place::Done(told);
        self.close_question(ticket.key);
    }

    /// What an answer rests on is committed, or will not be in this process.
    pub(crate) fn on_asking_news(&mut self, ticket: Ticket, code: ErrorCode) {
        let Some((Waiting::Asking(asking), _)) = self.waiting(ticket.key) else {
            return;
        };
        let Some(place) = asking.told.get_mut(ticket.part as usize) else {
            return;
        };
        match std::mem::replace(place, Place::Empty) {
            Place::Waits(said) => {
                *place = Place::Done(match code {
                    ErrorCode::None => Ok(said),
                    _ => Err(ErrorCode::NotCoordinator),
                });
                self.close_question(ticket.key);
            }
            // Its time was up before.
            other => *place = other,
        }
    }

    /// What was written for a request takes too long to become durable. It stands in the log, and may be found there later; the
    /// client asks again.
    pub(crate) fn time_out_asking(&mut self, waiter: WaiterKey) {
        let Some((Waiting::Asking(asking), _)) = self.waiting(waiter) else {
            return;
        };
        asking.until = None;
        let waits = |place: &&mut Place| matches!(place, Place::Waits(_));
        let mut late = 0;
        for place in asking.told.iter_mut().filter(waits) {
            *place = Place::Done(Err(ErrorCode::CoordinatorNotAvailable));
            late += 1;
        }
        for _ in 0..late {
            self.close_question(waiter);
        }
    }

    fn close_question(&mut self, waiter: WaiterKey) {
        let Some((Waiting::Asking(asking), _)) = self.waiting(waiter) else {
            return;
        };
        asking.open -= 1;
        if asking.open > 0 {
            return;
        }
        let Some((Waiting::Asking(asking), address)) = self.take_waiting(waiter) else {
            return;
        };
        let told = asking
            .told
            .into_iter()
            .map(|place| match place {
                Place::Done(told) => told,
                Place::Empty | Place::Waits(_) => Err(ErrorCode::NotCoordinator),
            })
            .collect();
        let outcome = (asking.finish)(self, &address, told);
        self.settle(&address, outcome);
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
    pub(crate) fn txn_partition(&mut self, transactional_id: &str) -> i32 {
        self.partition_of(
            meta::name::TRANSACTIONS,
            "transaction.state.log.num.partitions",
            transactional_id,
        )
    }

    /// Of a topic that is not made yet it is the partition that it will be: AddOffsetsToTxn may come before the first group.
    fn partition_of(&mut self, topic: &str, setting: &str, id: &str) -> i32 {
        let topics = self.topics();
        let made = topics.named(topic).map(|topic| topic.partitions.len());
        let partitions = match made {
            Some(made) => i32::try_from(made).ok(),
            None => {
                let planned = self.shared.config().broker.number(setting);
                planned.and_then(|planned| i32::try_from(planned).ok())
            }
        };
        coord::partition_of(id, partitions.unwrap_or(i32::MAX))
    }
}
