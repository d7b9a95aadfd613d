//! What all clients have in common: one connection, opened again when it was lost, and the moment at which to act next.
//!
//! A client says what an answer means, what the loss of its connection means, and what it does when its moment has come. Whatever a
//! broker sends that is no answer to what was asked is a violation, and ends the connection.

use env::sim::Machine;
use model::Instant;

use super::line::{Answer, Line, LineError};
use super::notes::Notes;

pub(crate) struct Link {
    pub(crate) line: Option<Line>,
    pub(crate) wake: Instant,
}

impl Link {
    pub(crate) fn new(wake: Instant) -> Link {
        Link { line: None, wake }
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
    fn tend(&mut self, _machine: &Machine) {}

    fn has_news(&self) -> bool {
        self.link().line.as_ref().is_some_and(Line::has_news)
    }

    /// Takes in what came, and acts when it is time. Returns when it wants to act next.
    fn act(&mut self, machine: &Machine, notes: &mut Notes) -> Instant {
        if !self.has_news() && self.link().wake > machine.now() {
            return self.link().wake;
        }
        self.tend(machine);
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
