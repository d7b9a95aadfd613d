//! Requests of this node for the active controller or for another broker, and their answers.

use std::time::Duration;

use model::{Instant, Ticket};

use super::{Author, QuorumWorker};
use crate::control::envelope::{self, Opened};
use crate::mail::inboxes::Redeemed;
use crate::mail::quorum::{Outgoing, Recipient};
use crate::peers::{Answer, Encodable, Lane, Outbound};

/// A request for the controller is tried again after this pause while there is none.
const CONTROLLER_RETRY: Duration = Duration::from_millis(50);

/// An answer whose change has to be published here before it is told.
pub(super) struct Held {
    pub(super) end: i64,
    pub(super) until: Instant,
    pub(super) ticket: Ticket,
    pub(super) answer: Answer,
}

impl QuorumWorker {
    /// The answer to a request of this node for another.
    pub(super) fn on_reply(&mut self, outgoing: Box<Outgoing>, answer: Answer) {
        if outgoing.to == Recipient::Controller {
            match envelope::open(outgoing.request.key(), &answer.body) {
                Opened::NotController => return self.try_again(outgoing),
                Opened::Answered { end } if self.shared.catalog.image().end() < end => {
                    self.held.push(Held {
                        end,
                        until: outgoing.until,
                        ticket: outgoing.ticket,
                        answer,
                    });
                    return;
                }
                Opened::Answered { .. } => {}
            }
        }
        self.reply(outgoing.ticket, Some(answer));
    }

    pub(super) fn reply(&self, ticket: Ticket, answer: Option<Answer>) {
        let replied = Redeemed::Replied(ticket, answer);
        self.shared.mail.put(ticket.inbox, replied);
    }

    /// Gives answers whose changes have arrived. One that waits for too long is dropped: its client would read what was before.
    pub(super) fn release_held(&mut self, now: Instant) {
        let end = self.shared.catalog.image().end();
        let is_due = |held: &mut Held| held.end <= end || held.until <= now;
        for held in self.held.extract_if(.., is_due).collect::<Vec<_>>() {
            let answer = Some(held.answer).filter(|_| held.end <= end);
            self.reply(held.ticket, answer);
        }
    }

    pub(super) fn call(&mut self, outgoing: Box<Outgoing>) {
        let (lane, endpoint) = match outgoing.to {
            Recipient::Controller => (Lane::Controller, self.controller.clone()),
            Recipient::Broker(broker) => (Lane::Broker, self.shared.catalog.endpoint_of(broker)),
            Recipient::Relay(broker) => (Lane::Relay, self.shared.catalog.endpoint_of(broker)),
        };
        let Some(endpoint) = endpoint else {
            return self.try_again(outgoing);
        };
        self.send_out(Outbound {
            target: (endpoint, lane),
            request: outgoing.request.clone(),
            until: Some(outgoing.until),
            of: Author::Request(outgoing),
        });
    }

    pub(super) fn try_again(&mut self, outgoing: Box<Outgoing>) {
        let now = self.shared.env.clock.now();
        if outgoing.to != Recipient::Controller || outgoing.until <= now {
            return self.reply(outgoing.ticket, None);
        }
        self.waiting.push_back(outgoing);
        (self.waiting_until).get_or_insert(now.plus(CONTROLLER_RETRY));
    }

    /// Requests for the controller go again, unless they are overdue.
    pub(super) fn retry_waiting(&mut self, now: Instant) {
        if self.waiting_until.take_if(|at| *at <= now).is_none() {
            return;
        }
        for outgoing in std::mem::take(&mut self.waiting) {
            if outgoing.until <= now {
                self.reply(outgoing.ticket, None);
            } else {
                self.call(outgoing);
            }
        }
    }
}
