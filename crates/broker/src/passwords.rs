//! Passwords that are compared with records, which takes milliseconds: on a thread of its own, so that no loop of a door waits for it.

use std::collections::VecDeque;
use std::sync::Arc;

use env::{Bell, Turn, Worker};
use model::{Instant, Ticket};
use parking_lot::Mutex;
use security::login::server::Check;

use crate::mail::Mail;
use crate::mail::inboxes::Redeemed;
use crate::node::EndListener;

/// Checks that wait; 3 seconds of a core. Past it a client is sent away, and tries again.
const QUEUE_MAX: usize = 1024;

#[derive(Default)]
struct Queue {
    checks: VecDeque<(Ticket, Check)>,
    is_closed: bool,
}

pub(crate) struct Passwords {
    queue: Mutex<Queue>,
    bell: Arc<dyn Bell>,
}

impl Passwords {
    pub(crate) fn new(bell: Arc<dyn Bell>) -> Passwords {
        Passwords {
            queue: Mutex::default(),
            bell,
        }
    }

    /// Has a password checked: the verdict comes under the ticket. False when too many wait already, or none is checked any more.
    pub(crate) fn check(&self, ticket: Ticket, check: Check) -> bool {
        let mut queue = self.queue.lock();
        if queue.is_closed || QUEUE_MAX <= queue.checks.len() {
            return false;
        }
        queue.checks.push_back((ticket, check));
        drop(queue);
        self.bell.ring();
        true
    }
}

impl EndListener for Passwords {
    fn on_stopping(&self) {
        self.queue.lock().is_closed = true;
        self.bell.ring();
    }
}

/// The loop of the thread that checks.
pub(crate) struct PasswordChecker {
    pub(crate) passwords: Arc<Passwords>,
    pub(crate) mail: Arc<Mail>,
}

impl Worker for PasswordChecker {
    fn turn(&mut self) -> Turn {
        let next = {
            let mut queue = self.passwords.queue.lock();
            if queue.is_closed {
                // Those who wait are sent away by the shards, which end too.
                queue.checks.clear();
                return Turn::Done;
            }
            queue.checks.pop_front()
        };
        let Some((ticket, check)) = next else {
            return Turn::Sleep { until: None };
        };
        let verdict = check.run();
        let verdict = Redeemed::Verdict(ticket, verdict);
        self.mail.put(ticket.inbox, verdict);
        Turn::Again
    }

    fn park(&mut self, until: Option<Instant>) {
        self.passwords.bell.wait(until);
    }
}
