//! Errands of coordinators at other brokers: which broker gets what, and what becomes of the answers.

use coord::group::ask::FetchedTopic;
use coord::{group, txn};
use model::{BrokerId, Ticket, WaiterKey};
use wire::ErrorCode;

use super::Coordinating;
use super::coordinators::Coordinators;
use super::mark::By;
use super::remote::{Errand, Join, Outcome, Request};
use crate::mail::calls::{Call, Recipient};
use crate::mail::question::{self, Answered, Asked, Question, Said};
use crate::peers::{Answer, Typed};
use crate::settings::txn_settings;
use crate::topics::Topics;

impl Coordinating<'_> {
    /// Has another broker asked, where one coordinates the partition; returns the question where none does.
    pub(super) fn send_abroad(&mut self, asked: Asked) -> Option<Asked> {
        let topic = match &asked.question {
            Question::Group(_) | Question::TxnOffsets(..) => meta::name::OFFSETS,
            Question::Txn(_) => meta::name::TRANSACTIONS,
            Question::MarkerAt(..) => return Some(asked),
        };
        let Some(broker) = self.desk.other_leader(topic, asked.partition) else {
            return Some(asked);
        };
        let whose = (asked.ticket, asked.partition);
        match asked.question {
            Question::Txn(txn::Ask::Add(add)) if txn::EPOCH_PER_TXN <= add.version => {
                self.join_abroad(broker, whose, question::Join::Add(add));
            }
            Question::Txn(txn::Ask::Verify(verify)) => {
                self.join_abroad(broker, whose, question::Join::Verify(verify));
            }
            question => {
                let asked = Asked { question, ..asked };
                if let Err(ticket) = self.coordinators.remote.ask(broker, asked) {
                    self.refuse_with(ticket, ErrorCode::NotCoordinator);
                }
            }
        }
        None
    }

    fn join_abroad(
        &mut self,
        broker: BrokerId,
        (ticket, partition): (Ticket, i32),
        ask: question::Join,
    ) {
        let now = self.desk.now;
        let wait_max = || {
            let settings = self.desk.shared.catalog.config();
            txn_settings(&settings.broker).add_wait_max
        };
        let may_wait = matches!(&ask, question::Join::Add(add) if add.may_wait);
        let join = Join {
            ticket,
            partition,
            until: if may_wait { now.plus(wait_max()) } else { now },
            pause: None,
            ask,
        };
        self.coordinators.remote.join(broker, join);
    }

    /// Leaders have changed: what is meant for the old ones is not waited for.
    pub(super) fn give_up_errands(&mut self, topics: &Topics) {
        let is_right = |broker: BrokerId, topic: &str, index: i32| {
            let leader = topics.leader(topic, index);
            leader.is_some_and(|leader| leader.broker == Some(broker))
        };
        let given_up = self.coordinators.remote.give_up(is_right);
        self.on_outcomes(given_up);
    }

    /// Sends the requests for other brokers that may go now.
    pub(crate) fn send_errands(&mut self) {
        let errands = self.take_errands();
        if errands.is_empty() {
            return;
        }
        let until = self
            .desk
            .now
            .plus(self.desk.shared.catalog.config().request_wait_max);
        for Errand { key, to, request } in errands {
            let ticket = self.coordinators.ticket(key, 0);
            let (to, request) = match request {
                Request::Marks(marks) => (Recipient::Broker(to), Typed::new(marks)),
                Request::Joins(joins) => (Recipient::Broker(to), Typed::new(joins)),
                Request::Question(question) => (Recipient::Relay(to), question),
            };
            self.desk.shared.mail.calls.call(Call {
                ticket,
                to,
                request,
                until,
            });
        }
    }

    /// The requests for other brokers that may go now.
    pub(super) fn take_errands(&mut self) -> Vec<Errand> {
        let Coordinators {
            remote, markings, ..
        } = &mut *self.coordinators;
        remote.begin(self.desk.now, |ticket| markings.contains(ticket.key))
    }

    /// A request to another broker was answered, or failed where there is no answer.
    pub(crate) fn on_replied(&mut self, key: WaiterKey, answer: Option<Answer>) {
        let now = self.desk.now;
        let outcomes = self.coordinators.remote.on_reply(key, answer, now);
        self.on_outcomes(outcomes);
    }

    fn on_outcomes(&mut self, outcomes: Vec<Outcome>) {
        for outcome in outcomes {
            match outcome {
                Outcome::Marked(ticket, refused) => {
                    self.on_marked(ticket, refused, By::OtherBroker);
                }
                Outcome::Joined(ticket, said) => self.send_answer(Answered {
                    ticket,
                    said: said.map(Said::Txn),
                    basis: None,
                }),
                Outcome::Said(ticket, mut said) => {
                    if let Ok(Said::Group(group::Answer::FetchOffsets(Ok(fetched)))) = &mut said {
                        self.complete(fetched);
                    }
                    self.send_answer(Answered {
                        ticket,
                        said,
                        basis: None,
                    });
                }
            }
        }
    }

    /// Adds the names of topics that another broker told by their ids, and the ids of those that it told by their names.
    fn complete(&mut self, fetched: &mut [FetchedTopic]) {
        let topics = self.desk.topics();
        for topic in fetched {
            let id = |name: &String| topics.named(name).map(|known| known.id);
            let name = |id| topics.with_id(id).map(|known| known.name.to_string());
            topic.topic_id = topic.topic_id.or_else(|| topic.name.as_ref().and_then(id));
            topic.name = topic.name.take().or_else(|| topic.topic_id.and_then(name));
        }
    }
}
