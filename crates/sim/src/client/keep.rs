//! What all clients have in common: one connection, opened again when it was lost, and the moment at which to act next.
//!
//! A client says what an answer means, what the loss of its connection means, and what it does when its moment has come. Whatever a
//! broker sends that is no answer to what was asked is a violation, and ends the connection.

use std::time::Duration;

use env::sim::Machine;
use model::Instant;

use super::line::{Answer, Line, LineError};
use super::notes::Notes;

pub(crate) struct Link {
    pub(crate) line: Option<Line>,
    pub(crate) wake: Instant,
    /// When the question under way was asked, of clients that ask one at a time.
    pub(crate) asked: Option<Instant>,
}

/// What a client that asks one thing at a time is to do when its moment has come.
pub(crate) enum Turn {
    Ask,
    /// For an answer, or because there was no connection until now.
    Wait,
    HangUp,
}

impl Link {
    pub(crate) fn new(wake: Instant) -> Link {
        Link {
            line: None,
            wake,
            asked: None,
        }
    }

    /// Opens the connection where there is none, again after `pause` where the broker is away.
    pub(crate) fn turn(
        &mut self,
        machine: &Machine,
        pause: Duration,
        answer_max: Duration,
    ) -> Turn {
        let now = machine.now();
        if self.line.is_none() {
            if !self.open(machine) {
                self.wake = now.plus(pause);
            }
            return Turn::Wait;
        }
        match self.asked {
            Some(asked) if now.since(asked) > answer_max => Turn::HangUp,
            Some(_) => Turn::Wait,
            None => Turn::Ask,
        }
    }

    /// The connection is over, and with it the question under way; there is a new one after `pause`.
    pub(crate) fn lose(&mut self, machine: &Machine, pause: Duration, notes: &mut Notes) {
        self.line = None;
        if self.asked.take().is_some() {
            notes.unanswered += 1;
        }
        self.wake = machine.now().plus(pause);
    }

    /// A new connection, unless the broker is away.
    pub(crate) fn open(&mut self, machine: &Machine) -> bool {
        self.line = Line::open(machine).ok();
        self.line.is_some()
    }
}

pub(crate) trait Client {
    fn link(&self) -> &Link;
    fn link_mut(&mut self) -> &mut Link;
    /// As violations name it.
    fn name(&self) -> String;
    fn on_answer(
        &mut self,
        answer: &Answer,
        machine: &Machine,
        notes: &mut Notes,
    ) -> Result<(), LineError>;
    /// The connection is over.
    fn hang_up(&mut self, machine: &Machine, notes: &mut Notes);
    fn on_wake(&mut self, machine: &Machine, notes: &mut Notes);

    /// Before anything else, each time.
    fn tend(&mut self, _machine: &Machine, _notes: &mut Notes) {}

    fn has_news(&self) -> bool {
        self.link().line.as_ref().is_some_and(Line::has_news)
    }

    /// Takes in what came, and acts when it is time. Returns when it wants to act next.
    fn act(&mut self, machine: &Machine, notes: &mut Notes) -> Instant {
        if !self.has_news() && self.link().wake > machine.now() {
            return self.link().wake;
        }
        self.tend(machine, notes);
        while let Some(line) = &mut self.link_mut().line {
            let done = match line.poll() {
                Ok(Some(answer)) => self.on_answer(&answer, machine, notes),
                Ok(None) => break,
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                if let LineError::Nonsense(what) = error {
                    notes.violation(format!("{}: {what}", self.name()));
                }
                self.hang_up(machine, notes);
            }
        }
        if machine.now() >= self.link().wake {
            self.on_wake(machine, notes);
        }
        self.link().wake
    }
}
