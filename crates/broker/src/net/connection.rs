//! One client connection: frames come in, answers leave in the order of their requests.
//!
//! Owns the reply slots and the outbox. Invariant: slots are answered in any order but sent from the front only, and none behind one
//! that will have no answer although its client waits for it.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use env::{ConnId, Poller};
use model::Instant;
use partition::Stamp;
use security::login::server::Login;

use super::entrances::Entrance;
use super::inbox::{Frame, Inbox};
#[cfg(test)]
use super::outbox::Chunk;
use super::outbox::{Outbox, Reply};
use super::share::{ByKind, Head, Kind, Room};
use super::transport::Transport;
use crate::asker::{Asker, Origin};
use crate::budget::Account;
use crate::reads::Readers;

/// Requests in flight on one connection; past it we stop reading it until an answer leaves.
const SLOTS_MAX: usize = 1000;
/// Answers not yet taken by the peer, or that wait for an earlier one; past it we stop handling its requests. Two full fetch
/// answers.
const OUTBOX_BYTES_MAX: usize = 110 << 20;

/// A place in the order of answers.
struct Slot {
    kind: Kind,
    request_bytes: usize,
    state: SlotState,
}

enum SlotState {
    Waiting,
    Ready(Reply),
    /// The request wants no answer (acks=0).
    Silent,
    /// It wants one and gets none. The client would take the next answer for this one's.
    Dropped,
}

/// Names a slot of a connection.
pub(crate) type SlotNumber = u64;

pub(crate) struct Connection {
    pub(crate) id: ConnId,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    /// The identity behind its requests: nobody before a login, where one is asked for.
    asker: Arc<Asker>,
    pub(crate) entrance: Arc<Entrance>,
    /// `None` where the listener asks for none, and nobody has begun one. Boxed: most connections need none.
    pub(crate) login: Option<Box<Login>>,
    /// When it was opened.
    pub(crate) since: Instant,
    transport: Transport,
    stamp: Stamp,
    pub(crate) readers: Readers,
    pub(crate) last_active: Instant,
    inbox: Inbox,
    slots: VecDeque<Slot>,
    first_slot: SlotNumber,
    /// Bytes of answers that wait for their turn, and how many of these are in memory.
    ready_bytes: usize,
    ready_memory: usize,
    outbox: Outbox,
    /// When the peer last took bytes of an answer, or the oldest of those that it has not taken were ready.
    taken_at: Instant,
    /// The socket may have more to read: edges are reported once.
    pub(crate) is_readable: bool,
    is_writable: bool,
    /// Close once the answers are out, up to the first that was dropped.
    pub(crate) is_closing: bool,
    /// A request waits that no later one may overtake.
    pub(crate) is_held: bool,
    /// Not read until there is memory for the rest of its request.
    pub(crate) is_denied: bool,
    /// Has its share of the memory for requests, or brings records that have to wait: not read until something of that is over.
    pub(crate) is_crowded: bool,
    /// A client that waits for one of the places for connections: not read until it has one.
    pub(crate) is_outside: bool,
    /// When it is looked at among those that wait so, until a request of it is taken.
    pub(crate) turn: Option<u64>,
    /// Of requests that are not answered.
    request_bytes: ByKind,
}

impl Connection {
    pub(crate) fn new(
        id: ConnId,
        asker: Arc<Asker>,
        entrance: Arc<Entrance>,
        now: Instant,
    ) -> Connection {
        let offer = entrance.asks.then(|| Arc::clone(&entrance.offer));
        Connection {
            id,
            peer: asker.peer,
            local: asker.local,
            asker,
            entrance,
            login: offer.map(|offer| Box::new(Login::new(offer))),
            since: now,
            transport: Transport::Plain(id),
            stamp: Stamp::default(),
            readers: Readers::default(),
            last_active: now,
            inbox: Inbox::new(id),
            slots: VecDeque::new(),
            first_slot: 0,
            ready_bytes: 0,
            ready_memory: 0,
            outbox: Outbox::default(),
            taken_at: now,
            is_readable: true,
            is_writable: true,
            is_closing: false,
            is_held: false,
            is_denied: false,
            is_crowded: false,
            is_outside: false,
            turn: None,
            request_bytes: ByKind::default(),
        }
    }

    /// True if the connection may take in more; false is back-pressure on this peer alone.
    pub(crate) fn has_room(&self) -> bool {
        self.slots.len() < SLOTS_MAX
            && self.ready_bytes + self.outbox.bytes() < OUTBOX_BYTES_MAX
            && !self.is_closing
            && !self.is_held
            && !self.is_denied
            && !self.is_crowded
            && !self.is_outside
    }

    /// The same while the memory for answers is short: a peer that has not taken its answers gets no more of them. Large requests, which
    /// others may wait for, are read to their end.
    pub(crate) fn has_room_while(&self, is_short: bool) -> bool {
        let is_bounded = || {
            let next = self.inbox.head();
            self.turn.is_none() && next.is_none_or(Head::is_small)
        };
        self.has_room() && (!is_short || self.unsent_memory() == 0 || !is_bounded())
    }

    /// Nothing is to be sent, now or later.
    pub(crate) fn is_idle(&self) -> bool {
        let next = self.slots.front();
        next.is_none_or(|slot| matches!(slot.state, SlotState::Dropped)) && self.outbox.bytes() == 0
    }

    pub(crate) fn on_writable(&mut self) {
        self.is_writable = true;
    }

    /// Sees to it that there is room to receive into; false when that has to wait.
    pub(crate) fn make_room(&mut self, account: &mut Account) -> bool {
        self.is_denied = !self.inbox.make_room(account);
        !self.is_denied
    }

    /// Receives once. `Ok(0)` with `is_readable` still set means that the peer closed.
    pub(crate) fn receive(&mut self, poller: &mut dyn Poller, now: Instant) -> io::Result<usize> {
        let received = self.transport.receive(poller, self.inbox.buffer())?;
        self.inbox.on_received(received, now);
        Ok(received)
    }

    pub(crate) fn on_readable(&mut self, now: Instant) {
        self.is_readable = true;
        self.inbox.on_readable(now);
    }

    /// Nothing more to receive for now.
    pub(crate) fn on_drained(&mut self, now: Instant) {
        self.is_readable = false;
        self.inbox.on_drained(now);
    }

    /// Gives back the receive buffer of a connection that waits for nothing.
    pub(crate) fn shrink(&mut self, account: &mut Account) {
        self.asker.forget_answers();
        self.inbox.shrink(account);
    }

    /// Memory is short: gives back what is not needed now; false when the client keeps the rest from others for too long.
    pub(crate) fn economise(&mut self, account: &mut Account, now: Instant) -> bool {
        self.inbox.trim(account);
        self.is_denied || !self.inbox.is_late(account.has_licence(self.id), now)
    }

    /// The next request, as far as it has come.
    pub(crate) fn head(&self) -> Option<Head> {
        self.inbox.head()
    }

    /// The next request, once all of it is there.
    pub(crate) fn whole(&self) -> Option<&[u8]> {
        self.inbox.whole()
    }

    /// Looks whether the next request may be taken, or read on; false when it has to wait.
    pub(crate) fn fits(&mut self, room: Room, account: &mut Account) -> bool {
        let next = self.inbox.head();
        self.is_crowded = next.is_some_and(|next| !room.admits(self.request_bytes, next));
        if self.is_crowded {
            // Others may finish theirs meanwhile.
            account.end_denial(self.id);
            if account.return_licence(self.id) {
                self.inbox.cut(account);
            }
        }
        !self.is_crowded
    }

    /// The next whole frame, without its length prefix.
    pub(crate) fn next_frame(&mut self, frame_bytes_max: i32, account: &mut Account) -> Frame {
        let frame = self.inbox.next_frame(frame_bytes_max);
        if let Frame::Request(frame) = &frame {
            self.turn = None;
            if account.finish(self.id) {
                self.inbox.cut(account)
            } else {
                self.inbox.leave_request(frame.len(), account)
            }
        }
        frame
    }

    /// The identity behind its requests.
    pub(crate) fn asker(&self) -> &Arc<Asker> {
        &self.asker
    }

    pub(crate) fn asker_mut(&mut self) -> &mut Arc<Asker> {
        &mut self.asker
    }

    /// True if its requests are served now: a login that there is to be is over, and still counts.
    pub(crate) fn is_admitted(&self, now: Instant) -> bool {
        let login = self.login.as_ref();
        login.is_none_or(|login| login.admits(now))
    }

    /// True if nobody knows yet whose it is, though it is to be known.
    pub(crate) fn is_stranger(&self) -> bool {
        let login = self.login.as_ref();
        login.is_some_and(|login| login.session().is_none())
    }

    /// The origin of the batches of the last request.
    pub(crate) fn origin(&mut self) -> Origin<'_> {
        Origin {
            stamp: &mut self.stamp,
            source: Some(self.inbox.source()),
        }
    }

    /// The connection goes away: its memory is free.
    pub(crate) fn release(&mut self, account: &mut Account) {
        account.finish(self.id);
        account.end_denial(self.id);
        self.inbox.release(account);
    }

    /// Receives what a test has in its hands.
    #[cfg(test)]
    pub(crate) fn put(&mut self, bytes: &[u8], account: &mut Account) {
        let mut rest = bytes;
        while !rest.is_empty() {
            assert!(self.make_room(account), "memory for requests");
            let buffer = self.inbox.buffer();
            let room = buffer.capacity() - buffer.len();
            let (part, more) = rest.split_at(rest.len().min(room));
            buffer.extend_from_slice(part);
            self.inbox.on_received(part.len(), self.last_active);
            rest = more;
        }
    }

    /// The answer at the front, if it is ready, for a test that is its peer.
    #[cfg(test)]
    pub(crate) fn take_answer(&mut self) -> Option<Vec<u8>> {
        let front = self.slots.pop_front()?;
        let SlotState::Ready(reply) = front.state else {
            self.slots.push_front(front);
            return None;
        };
        self.first_slot += 1;
        self.request_bytes.remove(front.kind, front.request_bytes);
        self.ready_bytes -= reply.len;
        self.ready_memory -= reply.memory;
        let chunks = reply.chunks.iter().map(|chunk| match chunk {
            Chunk::Bytes(bytes) => bytes.as_ref(),
            Chunk::File(_) => panic!("an answer of records"),
        });
        Some(chunks.collect::<Vec<_>>().concat())
    }

    /// Reserves the place of the answer to a request.
    pub(crate) fn open_slot(&mut self, kind: Kind, request_bytes: usize) -> SlotNumber {
        self.request_bytes.add(kind, request_bytes);
        self.slots.push_back(Slot {
            kind,
            request_bytes,
            state: SlotState::Waiting,
        });
        self.first_slot + self.slots.len() as u64 - 1
    }

    /// Has a request count as `bytes`, if it has fewer.
    pub(crate) fn charge(&mut self, number: SlotNumber, bytes: usize) {
        let slot = &mut self.slots[(number - self.first_slot) as usize];
        let more = bytes.saturating_sub(slot.request_bytes);
        slot.request_bytes += more;
        self.request_bytes.add(slot.kind, more);
    }

    pub(crate) fn answer(&mut self, number: SlotNumber, reply: Option<Reply>) {
        let at = (number - self.first_slot) as usize;
        if let Some(reply) = &reply {
            self.ready_bytes += reply.len;
            self.ready_memory += reply.memory;
        }
        self.slots[at].state = reply.map_or(SlotState::Silent, SlotState::Ready);
    }

    /// A request will have no answer, and with it the connection comes to its end.
    pub(crate) fn drop_from(&mut self, number: SlotNumber) {
        self.slots[(number - self.first_slot) as usize].state = SlotState::Dropped;
        self.is_closing = true;
    }

    /// Moves answers from the front to the outbox; their requests are done with.
    pub(crate) fn collect(&mut self, now: Instant) {
        if self.outbox.bytes() == 0 {
            self.taken_at = now;
        }
        while self
            .slots
            .front()
            .is_some_and(|slot| !matches!(slot.state, SlotState::Waiting | SlotState::Dropped))
        {
            let Some(slot) = self.slots.pop_front() else {
                break;
            };
            self.first_slot += 1;
            self.request_bytes.remove(slot.kind, slot.request_bytes);
            if let SlotState::Ready(reply) = slot.state {
                self.ready_bytes -= reply.len;
                self.ready_memory -= reply.memory;
                self.outbox.push(reply);
            }
        }
    }

    /// Bytes of answers that the peer has not taken and that stay in memory for that long.
    pub(crate) fn unsent_memory(&self) -> usize {
        self.ready_memory + self.outbox.memory()
    }

    /// Sends what can be sent; an error means that the connection is gone.
    pub(crate) fn flush(&mut self, poller: &mut dyn Poller, now: Instant) -> io::Result<()> {
        let unsent = self.outbox.bytes();
        if self.is_writable && unsent > 0 {
            self.is_writable = self.outbox.flush(poller, &self.transport)?;
        }
        if self.outbox.bytes() < unsent {
            (self.last_active, self.taken_at) = (now, now);
        }
        Ok(())
    }

    /// How long the peer has not taken an answer that is there for it.
    pub(crate) fn unread_for(&self, now: Instant) -> Option<Duration> {
        (self.outbox.bytes() > 0).then(|| now.since(self.taken_at))
    }

    /// Request bytes that will never be answered, when the connection goes away.
    pub(crate) fn unanswered_bytes(&self) -> ByKind {
        self.request_bytes
    }
}

#[cfg(test)]
mod tests {
    use wire::messages::ApiVersionsRequest;

    use super::*;
    use crate::event_loop::bench::{Bench, encoded};

    #[test]
    fn who_takes_none_of_an_answer_for_as_long_as_one_may_idle_is_closed() {
        let mut bench = Bench::new();
        bench.put(&encoded(&ApiVersionsRequest::default(), 0));
        let shard = &mut bench.shard;
        let now = shard.desk.now;
        for connection in shard.connections.values_mut() {
            assert!(0 < connection.unanswered_bytes().sum());
            connection.collect(now);
            assert_eq!(connection.unanswered_bytes().sum(), 0);
        }
        let age = shard.desk.shared.catalog.config().connection_idle_max;
        for (later, is_open) in [(age, true), (age + Duration::from_secs(1), false)] {
            shard.desk.now = now.plus(later);
            // Its further requests are no excuse.
            let connections = shard.connections.values_mut();
            connections.for_each(|connection| connection.last_active = shard.desk.now);
            shard.close_idle();
            assert_eq!(shard.connections.len() > 0, is_open);
        }
    }

    #[test]
    fn answers_behind_one_that_is_not_ready_count_as_untaken() {
        let here = SocketAddr::from(([127, 0, 0, 1], 9092));
        let mut connection = Connection::new(
            ConnId(1),
            Arc::new(Asker::anonymous(here, here)),
            Entrance::plain(),
            Instant(0),
        );
        let (first, second, third) = (
            connection.open_slot(Kind::Other, 1),
            connection.open_slot(Kind::Other, 1),
            connection.open_slot(Kind::Other, 1),
        );
        let answer = |len: usize| {
            Some(Reply {
                len,
                ..Reply::default()
            })
        };
        connection.answer(second, answer(OUTBOX_BYTES_MAX - 1));
        assert!(connection.has_room());
        connection.answer(third, answer(1));
        assert!(!connection.has_room());
        connection.collect(Instant(0));
        assert!(!connection.has_room(), "none of them may leave");
        connection.answer(first, None);
        connection.collect(Instant(0));
        assert!(!connection.has_room(), "none of them has left");
        assert_eq!(connection.ready_bytes, 0);
    }

    #[test]
    fn nothing_leaves_behind_a_request_that_is_dropped() {
        let here = SocketAddr::from(([127, 0, 0, 1], 9092));
        let mut connection = Connection::new(
            ConnId(1),
            Arc::new(Asker::anonymous(here, here)),
            Entrance::plain(),
            Instant(0),
        );
        let slots = [1, 2, 4, 8].map(|bytes| connection.open_slot(Kind::Other, bytes));
        connection.answer(slots[2], Some(Reply::default()));
        connection.drop_from(slots[1]);
        connection.collect(Instant(0));
        assert_eq!(connection.unanswered_bytes().sum(), 15);
        assert!(!connection.is_idle(), "the first may be answered");
        connection.answer(slots[0], Some(Reply::default()));
        connection.collect(Instant(0));
        assert!(connection.is_idle());
        assert_eq!(connection.unanswered_bytes().sum(), 14);
    }
}
