//! The connections of one loop, and what they hold together.
//!
//! Invariant: `taken` is the sum over the open connections; so is `unsent_memory`, with what parked requests keep.

use std::collections::{BTreeMap, BTreeSet};

use env::{ConnId, Poller};
use model::Instant;

use super::address::Address;
use super::by_id::ById;
use super::connection::Connection;
use super::outbox::Reply;
use super::share::{ByKind, Taken};

/// The answer to a request, or the reason why there is none.
pub(crate) enum Outcome {
    Reply(Reply),
    /// Answered later, through its waiter key.
    Waits,
    /// No answer is wanted.
    Silent,
    /// The client is to be cut off once earlier answers are out.
    Close,
}

/// The state of a connection after a send.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    Open,
    /// Lost, or closing with nothing left to send.
    Over,
}

#[derive(Default)]
pub(crate) struct Connections {
    open: ById<ConnId, Connection>,
    /// To be read or flushed in this turn.
    pub(crate) active: BTreeSet<ConnId>,
    /// Those whose login is not over, the oldest first.
    strangers: BTreeSet<(Instant, ConnId)>,
    pub(crate) answers_unsent: usize,
    /// Not read until requests are done with, by their turns: the one that waits longest is looked at first.
    crowded: BTreeMap<u64, ConnId>,
    next_turn: u64,
    /// It waited for its turn, and its request is being read: one at a time, so that the bound is exceeded by one request at most.
    begun: Option<ConnId>,
    /// Of those, to be read in this order and before the active ones.
    retried: Vec<ConnId>,
    has_freed: bool,
    /// Requests that are read and not answered.
    pub(crate) taken: Taken,
    /// Bytes of answers in memory that clients have not taken, and of those that are put together.
    pub(crate) unsent_memory: usize,
    /// Beyond it a connection takes its answers before it is read on.
    pub(crate) unsent_memory_max: usize,
}

impl Connections {
    pub(crate) fn new(unsent_memory_max: usize) -> Connections {
        Connections {
            unsent_memory_max,
            ..Connections::default()
        }
    }

    pub(crate) fn get(&self, conn: ConnId) -> Option<&Connection> {
        self.open.get(&conn)
    }

    pub(crate) fn get_mut(&mut self, conn: ConnId) -> Option<&mut Connection> {
        self.open.get_mut(&conn)
    }

    pub(crate) fn unsent_memory(&self) -> usize {
        self.unsent_memory
    }

    /// True if answers that clients have not taken keep as much memory as they may.
    pub(crate) fn is_memory_short(&self) -> bool {
        self.unsent_memory_max <= self.unsent_memory
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn ids(&self) -> BTreeSet<ConnId> {
        self.open.keys().copied().collect()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Connection> {
        self.open.values()
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.open.values_mut()
    }

    pub(crate) fn insert(&mut self, connection: Connection) {
        self.active.insert(connection.id);
        if connection.is_stranger() {
            self.strangers.insert((connection.since, connection.id));
        }
        self.open.insert(connection.id, connection);
    }

    pub(crate) fn remove(&mut self, conn: ConnId) -> Option<Connection> {
        let connection = self.open.remove(&conn)?;
        self.strangers.remove(&(connection.since, conn));
        self.taken
            .change(connection.unanswered_bytes(), ByKind::default());
        self.has_freed = true;
        if let Some(turn) = connection.turn {
            self.crowded.remove(&turn);
        }
        self.end_turn(conn);
        self.unsent_memory -= connection.unsent_memory();
        self.active.remove(&conn);
        Some(connection)
    }

    /// A login begins on a connection that needs none.
    pub(crate) fn on_login_begun(&mut self, conn: ConnId) {
        if let Some(connection) = self.open.get(&conn) {
            self.strangers.insert((connection.since, conn));
        }
    }

    /// Its login is over.
    pub(crate) fn on_login(&mut self, conn: ConnId) {
        if let Some(connection) = self.open.get(&conn) {
            self.strangers.remove(&(connection.since, conn));
        }
    }

    pub(crate) fn strangers_count(&self) -> usize {
        self.strangers.len()
    }

    /// The one whose login takes longest, and since when it is open.
    pub(crate) fn oldest_stranger(&self) -> Option<(Instant, ConnId)> {
        self.strangers.first().copied()
    }

    /// Sends what is ready to be sent.
    pub(crate) fn send(&mut self, conn: ConnId, poller: &mut dyn Poller, now: Instant) -> Sent {
        let Some(connection) = self.open.get_mut(&conn) else {
            return Sent::Open;
        };
        let before = connection.unanswered_bytes();
        connection.collect(now);
        let after = connection.unanswered_bytes();
        self.taken.change(before, after);
        self.has_freed |= after != before;
        let unsent = connection.unsent_memory();
        let flushed = connection.flush(poller, now);
        self.unsent_memory -= unsent - connection.unsent_memory();
        let is_short = self.unsent_memory_max <= self.unsent_memory;
        if flushed.is_err() || (connection.is_closing && connection.is_idle()) {
            return Sent::Over;
        }
        if connection.is_readable && connection.has_room_while(is_short) {
            self.active.insert(conn);
        }
        Sent::Open
    }

    /// The next request of a connection waits until others are done with.
    pub(crate) fn crowd(&mut self, conn: ConnId) {
        let Some(connection) = self.open.get_mut(&conn) else {
            return;
        };
        // It keeps its turn until a request of it is taken.
        let turn = *connection.turn.get_or_insert(self.next_turn);
        self.next_turn = self.next_turn.max(turn + 1);
        self.crowded.insert(turn, conn);
    }

    pub(crate) fn has_begun(&self, conn: ConnId) -> bool {
        self.begun == Some(conn)
    }

    /// The request of a connection that waited for its turn is read on.
    pub(crate) fn begin(&mut self, conn: ConnId) {
        self.begun.get_or_insert(conn);
    }

    /// The request of a connection is whole.
    pub(crate) fn end_turn(&mut self, conn: ConnId) {
        self.begun = self.begun.filter(|begun| *begun != conn);
    }

    pub(crate) fn is_any_crowded(&self) -> bool {
        !self.crowded.is_empty()
    }

    /// Those that wait are looked at in the next turn.
    pub(crate) fn look_again(&mut self) {
        self.has_freed = true;
    }

    /// True if requests were done with since those that wait were looked at.
    pub(crate) fn has_freed(&self) -> bool {
        self.has_freed && self.is_any_crowded()
    }

    /// Those whose next request waits are looked at once more.
    pub(crate) fn retry_crowded(&mut self) {
        self.has_freed = false;
        for conn in std::mem::take(&mut self.crowded).into_values() {
            if let Some(connection) = self.open.get_mut(&conn) {
                connection.is_crowded = false;
                self.retried.push(conn);
            }
        }
    }

    /// This one waited for memory and is read before those that did not.
    pub(crate) fn retry_denied(&mut self, conn: ConnId) {
        if let Some(connection) = self.open.get_mut(&conn) {
            connection.is_denied = false;
            self.retried.push(conn);
        }
    }

    /// Those to be read now.
    pub(crate) fn take_active(&mut self) -> Vec<ConnId> {
        let mut all = std::mem::take(&mut self.retried);
        all.extend(std::mem::take(&mut self.active));
        all
    }

    /// Bytes of requests that are read and not answered.
    pub(crate) fn request_bytes(&self) -> usize {
        self.taken.all
    }

    /// Nothing more of this connection is handled before `unhold`.
    pub(crate) fn hold(&mut self, conn: ConnId) {
        if let Some(connection) = self.get_mut(conn) {
            connection.is_held = true;
        }
    }

    pub(crate) fn unhold(&mut self, conn: ConnId) {
        if let Some(connection) = self.get_mut(conn) {
            connection.is_held = false;
            self.active.insert(conn);
        }
    }

    /// A request that takes `bytes` of memory until it is answered counts as that many, if it has fewer.
    pub(crate) fn charge(&mut self, address: &Address, bytes: usize) {
        if let Some(connection) = self.open.get_mut(&address.conn) {
            let before = connection.unanswered_bytes();
            connection.charge(address.slot, bytes);
            self.taken.change(before, connection.unanswered_bytes());
        }
    }

    /// A parked request keeps `after` bytes of records in memory, and kept `before`: they count as those of answers do.
    pub(crate) fn on_kept(&mut self, before: usize, after: usize) {
        self.unsent_memory = self.unsent_memory - before + after;
    }

    /// Puts an outcome in its place in the order of answers.
    pub(crate) fn put_outcome(&mut self, address: &Address, outcome: Outcome) {
        let Some(connection) = self.open.get_mut(&address.conn) else {
            return;
        };
        match outcome {
            Outcome::Waits => return,
            Outcome::Reply(reply) => {
                self.unsent_memory += reply.memory;
                connection.answer(address.slot, Some(reply));
            }
            Outcome::Silent => connection.answer(address.slot, None),
            Outcome::Close => connection.drop_from(address.slot),
        }
        self.answers_unsent += 1;
        self.active.insert(address.conn);
    }
}
