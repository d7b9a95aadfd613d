//! The reader pool: executes what reads need of the disk, away from the loops that planned them.
//!
//! A need comes with the ticket that its piece goes back under. It owns all that it takes, so the pool knows neither the requests
//! that wait nor the loops that they wait in. Needs of different requests take turns, in small steps that keep the device free
//! for commits. Ranges ahead of sequential readers are brought to memory in between, with no ticket.

mod ahead;

use std::collections::VecDeque;
use std::sync::Arc;

use env::{Bell, Turn, Worker};
use model::{Instant, Ticket};
use parking_lot::Mutex;
use partition::{Need, Piece, Progress, Range};

use crate::node::EndListener;

pub(crate) use ahead::Readers;

/// Requests and ranges that wait for the disk; past it a request executes its needs itself, and a range is not brought.
const QUEUE_MAX: usize = 256;

enum Work {
    /// The needs of one request, in order.
    Needs(VecDeque<(Need, Ticket)>),
    Ahead(Range),
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    /// No more is to come.
    is_closing: bool,
    /// The thread has ended: a piece would never come.
    is_closed: bool,
}

impl Queue {
    fn takes_more(&self) -> bool {
        !self.is_closed && self.work.len() < QUEUE_MAX
    }
}

pub(crate) struct ReaderPool {
    queue: Mutex<Queue>,
    bell: Arc<dyn Bell>,
}

impl EndListener for ReaderPool {
    fn on_stopping(&self) {
        self.close();
    }
}

impl ReaderPool {
    pub(crate) fn new(bell: Arc<dyn Bell>) -> ReaderPool {
        ReaderPool {
            queue: Mutex::default(),
            bell,
        }
    }

    /// Takes the needs of one request: each piece comes back under its ticket. Gives them all back when too much waits already, or
    /// nothing is executed any more.
    pub(crate) fn ask(&self, needs: Vec<(Need, Ticket)>) -> Result<(), Vec<(Need, Ticket)>> {
        let mut queue = self.queue.lock();
        if !queue.takes_more() {
            return Err(needs);
        }
        queue.work.push_back(Work::Needs(needs.into()));
        drop(queue);
        self.bell.ring();
        Ok(())
    }

    /// Has a range brought to memory if there is time for it.
    pub(crate) fn bring_ahead(&self, range: Range) {
        let mut queue = self.queue.lock();
        if queue.takes_more() {
            queue.work.push_back(Work::Ahead(range));
            drop(queue);
            self.bell.ring();
        }
    }

    /// Lets the thread end when it has executed what it was asked for.
    pub(crate) fn close(&self) {
        self.queue.lock().is_closing = true;
        self.bell.ring();
    }

    /// Work that was begun had its place, and goes on without asking for one.
    fn put_back(&self, work: Work) {
        self.queue.lock().work.push_back(work);
    }
}

/// The loop of the thread that executes. `deliver` takes the pieces.
pub(crate) struct ReaderLoop<D> {
    pub(crate) pool: Arc<ReaderPool>,
    pub(crate) deliver: D,
}

impl<D: FnMut(Ticket, Piece)> ReaderLoop<D> {
    fn execute(&mut self, mut needs: VecDeque<(Need, Ticket)>) {
        let Some((need, ticket)) = needs.pop_front() else {
            return;
        };
        match need.advance() {
            Progress::Done(piece) => (self.deliver)(ticket, piece),
            Progress::More(rest) => needs.push_front((rest, ticket)),
        }
        if !needs.is_empty() {
            self.pool.put_back(Work::Needs(needs));
        }
    }
}

impl<D: FnMut(Ticket, Piece) + Send> Worker for ReaderLoop<D> {
    fn turn(&mut self) -> Turn {
        loop {
            let next = {
                let mut queue = self.pool.queue.lock();
                queue.is_closed = queue.work.is_empty() && queue.is_closing;
                if queue.is_closed {
                    return Turn::Done;
                }
                queue.work.pop_front()
            };
            match next {
                None => return Turn::Sleep { until: None },
                Some(Work::Needs(needs)) => self.execute(needs),
                Some(Work::Ahead(mut range)) => {
                    range.bring_some();
                    if !range.is_brought() {
                        self.pool.put_back(Work::Ahead(range));
                    }
                }
            }
        }
    }

    fn park(&mut self, until: Option<Instant>) {
        self.pool.bell.wait(until);
    }
}

#[cfg(test)]
mod tests;
