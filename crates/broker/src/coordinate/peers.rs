//! Errands of a desk at other brokers: which broker gets what, and what becomes of the answers.

use model::{BrokerId, Ticket, WaiterKey};

use super::coordinators::Coordinators;
use super::mark::By;
use super::query::Query;
use super::remote::{Errand, Join, Outcome, Request};
use super::txn_settings;
use crate::mail::question::{self, Answered, Said};
use crate::mail::quorum::Order;
use crate::mail::quorum::Outgoing;
use crate::mail::quorum::Recipient;
use crate::ops::Desk;
use crate::peers::Answer;
use crate::topics::Topics;

impl Desk {
    /// Brings a join to the coordinator of its transaction, on whichever broker that is.
    pub(super) fn send_join(&mut self, join: question::Join, partition: i32, ticket: Ticket) {
        let Some(broker) = self.other_coordinator(partition) else {
            return join.send(self, partition, ticket);
        };
        let broker_settings = &self.shared.catalog.config().broker;
        let until = self.now.plus(txn_settings(broker_settings).add_wait_max);
        let may_wait = matches!(&join, question::Join::Add(add) if add.may_wait);
        let join = Join {
            ticket,
            partition,
            until: if may_wait { until } else { self.now },
            pause: None,
            ask: join,
        };
        self.coordinators.remote.join(broker, join);
    }

    /// The other broker whose transactions those of a partition are. None where they are ours, or nobody's.
    pub(crate) fn other_coordinator(&mut self, partition: i32) -> Option<BrokerId> {
        let node = self.shared.catalog.config().broker.node_id;
        let topics = self.topics();
        let leader = topics.leader(meta::name::TRANSACTIONS, partition)?.broker;
        leader.filter(|leader| *leader != node)
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
        let until = self.now.plus(self.shared.catalog.config().request_wait_max);
        for Errand { key, to, request } in errands {
            let whom = (self.coordinators.ticket(key, 0), Recipient::Broker(to));
            let outgoing = match request {
                Request::Marks(marks) => Outgoing::new(whom, marks, until),
                Request::Joins(joins) => Outgoing::new(whom, joins, until),
            };
            let order = Order::Call(Box::new(outgoing));
            self.shared.mail.quorum.order([order]);
        }
    }

    /// The requests for other brokers that may go now.
    pub(super) fn take_errands(&mut self) -> Vec<Errand> {
        let Coordinators {
            remote, markings, ..
        } = &mut self.coordinators;
        remote.begin(self.now, |ticket| markings.contains(ticket.key))
    }

    /// A request to another broker was answered, or failed where there is no answer.
    pub(crate) fn on_replied(&mut self, key: WaiterKey, answer: Option<Answer>) {
        let now = self.now;
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
