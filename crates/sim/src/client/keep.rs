//! The common part of all clients: a connection, opened again when it was lost, and the moment at which to act next. Some have several.
//!
//! A client says what an answer means and what it does when its moment has come; some also what the loss of the connection means for
//! what was under way. Most ask one thing at a time. Whatever a broker sends that is no answer to what was asked is a violation, and
//! ends the connection.

use std::net::SocketAddr;
use std::time::Duration;

use env::sim::Outside;
use model::Instant;
use wire::Request;

use super::line::{LONE, Line, LineError, RawAnswer};
use super::notes::Notes;
use super::way::Way;

/// An answer that takes longer is waited for no more, by most.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Another broker may have the leadership of one that is silent for so long.
const LED_ANSWER_MAX: Duration = Duration::from_secs(3);

pub(crate) struct Link {
    pub(crate) line: Option<Line>,
    /// Where its broker is.
    pub(crate) address: SocketAddr,
    /// How that is found out, where it is not known for ever.
    pub(crate) way: Option<Way>,
    pub(crate) wake: Instant,
    /// Since when an answer is waited for that holds everything up.
    pub(crate) asked: Option<Instant>,
    /// Until the next try after a connection that was lost, or that could not be had.
    reconnect: Duration,
}

impl Link {
    pub(crate) fn new(wake: Instant, reconnect: Duration) -> Link {
        Link {
            line: None,
            address: LONE,
            way: None,
            wake,
            asked: None,
            reconnect,
        }
    }

    /// Asks, where there is a connection; the number that the answer will bear.
    pub(crate) fn ask<R: Request>(
        &mut self,
        request: &R,
        version: i16,
        now: Instant,
    ) -> Option<i32> {
        let line = self.line.as_mut()?;
        self.asked.get_or_insert(now);
        Some(line.ask(request, version, true))
    }

    /// The connection is over, and with it the question under way.
    pub(crate) fn lose(&mut self, now: Instant, notes: &mut Notes) {
        self.line = None;
        if self.asked.take().is_some() {
            notes.unanswered += 1;
        }
        self.wake = now.plus(self.reconnect);
        self.way.iter_mut().for_each(Way::forget);
    }

    /// A new connection; later, where the broker is away, or where it is not known which one it is.
    pub(crate) fn open(&mut self, world: &Outside, notes: &mut Notes) -> bool {
        match self.way.as_mut().map(|way| way.find(world, notes)) {
            None => {}
            Some(Ok(address)) => self.address = address,
            Some(Err(at)) => {
                self.wake = at;
                return false;
            }
        }
        self.line = Line::open(world, self.address).ok();
        if self.line.is_none() {
            self.wake = world.now().plus(self.reconnect);
            self.way.iter_mut().for_each(Way::forget);
        }
        self.line.is_some()
    }

    /// The broker has sent us away: with no question under way, another one is looked for. False where there is only one.
    pub(crate) fn leave(&mut self) -> bool {
        let Some(way) = &mut self.way else {
            return false;
        };
        way.forget();
        (self.line, self.asked) = (None, None);
        true
    }

    pub(crate) fn answer_max(&self, usual: Duration) -> Duration {
        match self.way {
            Some(_) => usual.min(LED_ANSWER_MAX),
            None => usual,
        }
    }

    pub(crate) fn has_news(&self) -> bool {
        self.line.as_ref().is_some_and(Line::has_news)
            || self.way.as_ref().is_some_and(Way::has_news)
    }
}

pub(crate) trait Client {
    fn link(&self) -> &Link;
    fn link_mut(&mut self) -> &mut Link;
    /// Each of its connections, the main one first.
    fn link_at(&mut self, at: usize) -> Option<&mut Link> {
        (at == 0).then(|| self.link_mut())
    }
    /// As violations name it.
    fn name(&self) -> String;
    fn on_answer(
        &mut self,
        answer: &RawAnswer,
        world: &Outside,
        notes: &mut Notes,
    ) -> Result<(), LineError>;
    fn on_wake(&mut self, world: &Outside, notes: &mut Notes);

    /// The connection is over.
    fn hang_up(&mut self, world: &Outside, notes: &mut Notes) {
        self.link_mut().lose(world.now(), notes);
    }

    /// Before anything else, each time.
    fn tend(&mut self, _world: &Outside, _notes: &mut Notes) {}

    /// Of clients that ask one thing at a time: whether that may be now. The next moment comes after `pause`. Opens the connection
    /// where there is none, and hangs up when the answer takes too long.
    fn may_ask(
        &mut self,
        pause: Duration,
        answer_max: Duration,
        world: &Outside,
        notes: &mut Notes,
    ) -> bool {
        let now = world.now();
        let link = self.link_mut();
        link.wake = now.plus(pause);
        if link.line.is_none() {
            link.open(world, notes);
            return false;
        }
        let (asked, answer_max) = (link.asked, link.answer_max(answer_max));
        if asked.is_some_and(|asked| now.since(asked) > answer_max) {
            self.hang_up(world, notes);
        }
        asked.is_none()
    }

    fn has_news(&self) -> bool {
        self.link().has_news()
    }

    /// Takes in what came, and acts when it is time. Returns when it wants to act next.
    fn act(&mut self, world: &Outside, notes: &mut Notes) -> Instant {
        if !self.has_news() && self.link().wake > world.now() {
            return self.link().wake;
        }
        self.tend(world, notes);
        let link = self.link_mut();
        if link.line.is_none() && link.has_news() {
            link.wake = world.now();
        }
        let mut at = 0;
        while let Some(link) = self.link_at(at) {
            let done = match link.line.as_mut().map(Line::poll) {
                Some(Ok(Some(answer))) => self.on_answer(&answer, world, notes),
                Some(Ok(None)) | None => {
                    at += 1;
                    continue;
                }
                Some(Err(error)) => Err(error),
            };
            if let Err(error) = done {
                if let LineError::Nonsense(what) = error
                    && !notes.is_rot(&what)
                {
                    notes.violation(format!("{}: {what}", self.name()));
                }
                self.hang_up(world, notes);
            }
        }
        if world.now() >= self.link().wake {
            self.on_wake(world, notes);
        }
        self.link().wake
    }
}
