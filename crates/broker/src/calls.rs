//! The thread that asks other nodes: what clients want of the active controller, and what coordinators and replicas of this node want of
//! other brokers.
//!
//! It has connections of its own, so that nothing here waits for the disk of the quorum, and the quorum for none of this.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use env::{Poller, Readiness, Turn, Worker};
use model::{Instant, Ticket};
use raft::Endpoint;
use wire::ApiKey;

use crate::control::envelope::{self, Opened};
use crate::mail::calls::{Call, Mailbox, Recipient, Tray};
use crate::mail::inboxes::Redeemed;
use crate::peers::{Answer, Encodable, Lane, Links, Lost, Outbound, Reply};
use crate::shared::Shared;

/// A request for the controller is tried again after this pause while there is none.
const CONTROLLER_RETRY: Duration = Duration::from_millis(50);

/// An answer whose change has to be published here before it is given.
struct Held {
    end: i64,
    until: Instant,
    ticket: Ticket,
    answer: Answer,
}

pub(crate) struct CallWorker {
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox>,
    poller: Box<dyn Poller>,
    links: Links<Box<Call>>,
    ready: Vec<Readiness>,
    /// The controller that requests go to.
    controller: Option<Endpoint>,
    /// Requests for a controller that there is not, and when they are tried again.
    waiting: VecDeque<Box<Call>>,
    waiting_until: Option<Instant>,
    held: Vec<Held>,
}

impl CallWorker {
    pub(crate) fn new(shared: Arc<Shared>, poller: Box<dyn Poller>) -> CallWorker {
        let links = Links::new(
            shared.ceilings.clone(),
            shared.identity.clone(),
            Arc::clone(&shared.names),
        );
        CallWorker {
            mailbox: Arc::clone(&shared.mail.calls),
            shared,
            poller,
            links,
            ready: Vec::new(),
            controller: None,
            waiting: VecDeque::new(),
            waiting_until: None,
            held: Vec::new(),
        }
    }

    fn take_mail(&mut self) {
        let Tray { calls, controller } = self.mailbox.take();
        if let Some(controller) = controller {
            self.follow(controller);
        }
        for call in calls {
            self.send(Box::new(call));
        }
    }

    /// Another node is the active controller: what the one before was asked is asked of it.
    fn follow(&mut self, controller: Option<Endpoint>) {
        if let Some(endpoint) = &controller {
            let poller = &mut *self.poller;
            self.links.end_others(poller, Lane::Controller, endpoint);
        }
        self.controller = controller;
    }

    fn send(&mut self, call: Box<Call>) {
        let (lane, endpoint) = match call.to {
            Recipient::Controller => (Lane::Controller, self.controller.clone()),
            Recipient::Broker(broker) => (Lane::Broker, self.shared.catalog.endpoint_of(broker)),
            Recipient::Relay(broker) => (Lane::Relay, self.shared.catalog.endpoint_of(broker)),
        };
        let Some(endpoint) = endpoint else {
            return self.try_again(call);
        };
        let outbound = Outbound {
            target: (endpoint, lane),
            request: call.request.clone(),
            until: Some(call.until),
            of: call,
        };
        self.links.send(&mut *self.poller, outbound);
    }

    fn take_replies(&mut self) {
        for reply in self.links.take_replies() {
            match reply {
                Reply::Answered { of, answer, .. } => self.on_answer(of, answer),
                Reply::Failed { of, why } if may_go_again(&of, why) => self.try_again(of),
                Reply::Failed { of, .. } => self.reply(of.ticket, None),
            }
        }
    }

    fn on_answer(&mut self, call: Box<Call>, answer: Answer) {
        if call.to == Recipient::Controller {
            match envelope::open(call.request.key(), &answer.body) {
                Opened::NotController => return self.try_again(call),
                Opened::Answered { end } if self.shared.catalog.image().end() < end => {
                    self.held.push(Held {
                        end,
                        until: call.until,
                        ticket: call.ticket,
                        answer,
                    });
                    return;
                }
                Opened::Answered { .. } => {}
            }
        }
        self.reply(call.ticket, Some(answer));
    }

    fn reply(&self, ticket: Ticket, answer: Option<Answer>) {
        let replied = Redeemed::Replied(ticket, answer);
        self.shared.mail.put(ticket.inbox, replied);
    }

    /// Gives answers whose changes have arrived. One that waits for too long is dropped: its client would read what was before.
    fn release_held(&mut self, now: Instant) {
        if self.held.is_empty() {
            return;
        }
        let awaited = self.held.iter().map(|held| held.end).min();
        self.mailbox.await_metadata(awaited);
        let end = self.shared.catalog.image().end();
        let is_due = |held: &mut Held| held.end <= end || held.until <= now;
        for held in self.held.extract_if(.., is_due).collect::<Vec<_>>() {
            let answer = Some(held.answer).filter(|_| held.end <= end);
            self.reply(held.ticket, answer);
        }
        if self.held.is_empty() {
            self.mailbox.await_metadata(None);
        }
    }

    fn try_again(&mut self, call: Box<Call>) {
        let now = self.shared.env.clock.now();
        if call.to != Recipient::Controller || call.until <= now {
            return self.reply(call.ticket, None);
        }
        self.waiting.push_back(call);
        (self.waiting_until).get_or_insert(now.plus(CONTROLLER_RETRY));
    }

    /// Requests for the controller go again, unless they are overdue.
    fn retry_waiting(&mut self, now: Instant) {
        if self.waiting_until.take_if(|at| *at <= now).is_none() {
            return;
        }
        for call in std::mem::take(&mut self.waiting) {
            if call.until <= now {
                self.reply(call.ticket, None);
            } else {
                self.send(call);
            }
        }
    }

    fn poll(&mut self, timeout: Option<Duration>) {
        if let Err(error) = self.poller.wait(timeout, &mut self.ready) {
            tracing::error!(target: env::logs::BROKER, "requests for other nodes cannot poll: {error}");
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        [
            self.waiting_until,
            self.held.iter().map(|held| held.until).min(),
            self.links.next_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

impl Worker for CallWorker {
    fn turn(&mut self) -> Turn {
        if self.ready.is_empty() {
            self.poll(Some(Duration::ZERO));
        }
        for ready in std::mem::take(&mut self.ready) {
            self.links.on_ready(&mut *self.poller, ready);
        }
        self.links.dial_named(&mut *self.poller);
        self.take_replies();
        // After the poll: it swallows the wake-up of whatever came before it.
        self.take_mail();
        let now = self.shared.env.clock.now();
        self.links.expire(&mut *self.poller, now);
        self.take_replies();
        self.retry_waiting(now);
        self.take_replies();
        self.release_held(now);
        if self.shared.lifetime.have_shards_ended() {
            return Turn::Done;
        }
        match self.next_deadline() {
            Some(at) if at <= now => Turn::Again,
            until => Turn::Sleep { until },
        }
    }

    fn park(&mut self, until: Option<Instant>) {
        let timeout = until.map(|until| until.since(self.shared.env.clock.now()));
        self.poll(timeout);
    }
}

/// True if the request of a client may be sent once more. Asked a second time, a controller that carried it out refuses it as done, which is
/// not so for the client; a node that does not know it will not know it in a moment.
fn may_go_again(call: &Call, why: Lost) -> bool {
    match why {
        Lost::Ended { was_sent } => !was_sent || call.request.key() != ApiKey::Envelope,
        Lost::Refused => true,
        Lost::Unsupported => false,
    }
}
