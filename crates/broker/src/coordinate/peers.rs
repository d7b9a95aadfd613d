//! Errands of coordinators at other brokers: which broker gets what, and what becomes of the answers.

use coord::txn;
use model::{BrokerId, WaiterKey};
use wire::ErrorCode;

use super::Coordinating;
use super::coordinators::Coordinators;
use super::mark::By;
use super::remote::{Errand, Join, Outcome, Request};
use crate::mail::question::{self, Answered, Asked, Question, Said};
use crate::mail::quorum::Order;
use crate::mail::quorum::Outgoing;
use crate::mail::quorum::Recipient;
use crate::peers::Answer;
use crate::settings::txn_settings;
use crate::topics::Topics;

impl Coordinating<'_> {
    /// Has another broker asked, where one coordinates the partition; returns the question where none does.
    pub(super) fn send_abroad(&mut self, asked: Asked) -> Option<Asked> {
        let Some(broker) = self.desk.other_coordinator(asked.partition) else {
            return Some(asked);
        };
        let Asked {
            partition,
            ticket,
            question,
            reach: _,
        } = asked;
        let ask = match question {
            Question::Txn(txn::Ask::Add(add)) => question::Join::Add(add),
            Question::Txn(txn::Ask::Verify(verify)) => question::Join::Verify(verify),
            _ => {
                self.refuse_with(ticket, ErrorCode::NotCoordinator);
                return None;
            }
        };
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
        None
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
            let whom = (self.coordinators.ticket(key, 0), Recipient::Broker(to));
            let outgoing = match request {
                Request::Marks(marks) => Outgoing::new(whom, marks, until),
                Request::Joins(joins) => Outgoing::new(whom, joins, until),
            };
            let order = Order::Call(Box::new(outgoing));
            self.desk.shared.mail.quorum.order([order]);
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
            }
        }
    }
}
