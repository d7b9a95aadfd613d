//! One client connection: frames come in, answers leave in the order of their requests.
//!
//! Owns the receive buffer, the reply slots and the outbox. Invariant: slots are answered in any order but sent from the front
//! only. Never allocates from a declared length: a frame's buffer grows with the bytes that arrive.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use bytes::{Buf, Bytes, BytesMut};
use env::{ConnId, Poller};
use model::Instant;
use partition::Stamp;

use super::reply::{Outbox, Reply};
use crate::prefetch::Readers;

/// Room for a receive call: starts here, doubles each time a call fills it, and returns here when the connection idles.
const ROOM_BYTES_MIN: usize = 16 << 10;
const ROOM_BYTES_MAX: usize = 512 << 10;
/// A receive call with less room than this is not worth its price.
const ROOM_BYTES_LEFT_MIN: usize = 4 << 10;
/// A buffer made for one frame, at most; a larger one is put together in several.
const FRAME_BYTES_MAX: usize = 4 << 20;
const PAGE: usize = 4096;
/// Requests in flight on one connection; past it we stop reading it until an answer leaves.
const SLOTS_MAX: usize = 1000;
/// Answers not yet taken by the peer; past it we stop reading its requests. Two full fetch answers.
const OUTBOX_BYTES_MAX: usize = 110 << 20;

/// A place in the order of answers.
struct Slot {
    request_bytes: usize,
    state: SlotState,
}

enum SlotState {
    Waiting,
    Ready(Reply),
    /// The request wants no answer (acks=0).
    Silent,
}

/// Names a slot of a connection.
pub(crate) type SlotNumber = u64;

/// What reading a connection found.
pub(crate) enum Frame {
    Request(Bytes),
    /// Nothing whole yet.
    Partial,
    /// The declared length is not acceptable.
    Refused {
        length: i32,
    },
}

pub(crate) struct Connection {
    pub(crate) id: ConnId,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) stamp: Stamp,
    pub(crate) readers: Readers,
    pub(crate) last_active: Instant,
    /// Initialised memory; the first `filled` bytes of it were received.
    inbox: BytesMut,
    filled: usize,
    room: usize,
    /// Room that the last frame would have wanted, when it was a large one.
    frame_room: usize,
    slots: VecDeque<Slot>,
    first_slot: SlotNumber,
    outbox: Outbox,
    /// The socket may have more to read: edges are reported once.
    pub(crate) is_readable: bool,
    is_writable: bool,
    /// Close once the answers are out.
    pub(crate) is_closing: bool,
    /// A request waits that no later one may overtake.
    pub(crate) is_held: bool,
}

impl Connection {
    pub(crate) fn new(id: ConnId, peer: SocketAddr, local: SocketAddr, now: Instant) -> Connection {
        Connection {
            id,
            peer,
            local,
            stamp: Stamp::default(),
            readers: Readers::default(),
            last_active: now,
            inbox: BytesMut::new(),
            filled: 0,
            room: ROOM_BYTES_MIN,
            frame_room: 0,
            slots: VecDeque::new(),
            first_slot: 0,
            outbox: Outbox::default(),
            is_readable: true,
            is_writable: true,
            is_closing: false,
            is_held: false,
        }
    }

    /// Whether the connection may take in more; false is back-pressure on this peer alone.
    pub(crate) fn has_room(&self) -> bool {
        self.slots.len() < SLOTS_MAX
            && self.outbox.bytes() < OUTBOX_BYTES_MAX
            && !self.is_closing
            && !self.is_held
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.slots.is_empty() && self.outbox.bytes() == 0
    }

    pub(crate) fn on_writable(&mut self) {
        self.is_writable = true;
    }

    /// Receives once. `Ok(0)` with `is_readable` still set means that the peer closed.
    pub(crate) fn receive(&mut self, poller: &mut dyn Poller) -> io::Result<usize> {
        if self.filled == 0 && self.inbox.len() < self.frame_room {
            // Who sends large requests sends another: a buffer that it outgrows would have to be copied into a larger one.
            self.inbox = BytesMut::zeroed(self.frame_room);
        } else if self.inbox.len() - self.filled < ROOM_BYTES_LEFT_MIN {
            self.inbox.truncate(self.filled);
            self.inbox.reserve(self.room);
            self.inbox.resize(self.filled + self.room, 0);
        }
        let received = poller.recv(self.id, &mut self.inbox[self.filled..])?;
        self.filled += received;
        if self.filled == self.inbox.len() {
            self.room = (self.room * 2).min(ROOM_BYTES_MAX);
        }
        Ok(received)
    }

    /// Gives back the receive buffer of a connection that waits for nothing.
    pub(crate) fn shrink(&mut self) {
        if self.filled == 0 {
            self.inbox = BytesMut::new();
            self.room = ROOM_BYTES_MIN;
            self.frame_room = 0;
        }
    }

    /// The next whole frame, without its length prefix.
    pub(crate) fn next_frame(&mut self, frame_bytes_max: i32) -> Frame {
        let Some(prefix) = self.inbox[..self.filled].first_chunk::<4>() else {
            return Frame::Partial;
        };
        let length = i32::from_be_bytes(*prefix);
        if length < 0 || length > frame_bytes_max {
            return Frame::Refused { length };
        }
        if self.filled < 4 + length as usize {
            return Frame::Partial;
        }
        self.inbox.advance(4);
        self.filled -= 4 + length as usize;
        // One byte more than the frame: a receive call that does not fill its room has taken all there was.
        let whole = (4 + length as usize + 1).next_multiple_of(PAGE);
        let is_large = (ROOM_BYTES_MIN..=FRAME_BYTES_MAX).contains(&whole);
        self.frame_room = if is_large { whole } else { 0 };
        Frame::Request(self.inbox.split_to(length as usize).freeze())
    }

    /// Reserves the place of the answer to a request.
    pub(crate) fn open_slot(&mut self, request_bytes: usize) -> SlotNumber {
        self.slots.push_back(Slot {
            request_bytes,
            state: SlotState::Waiting,
        });
        self.first_slot + self.slots.len() as u64 - 1
    }

    pub(crate) fn answer(&mut self, number: SlotNumber, reply: Option<Reply>) {
        let at = (number - self.first_slot) as usize;
        self.slots[at].state = reply.map_or(SlotState::Silent, SlotState::Ready);
    }

    /// Moves answers from the front to the outbox; returns how many request bytes are done with.
    pub(crate) fn collect(&mut self) -> usize {
        let mut done = 0;
        while self
            .slots
            .front()
            .is_some_and(|slot| !matches!(slot.state, SlotState::Waiting))
        {
            let Some(slot) = self.slots.pop_front() else {
                break;
            };
            self.first_slot += 1;
            done += slot.request_bytes;
            if let SlotState::Ready(reply) = slot.state {
                self.outbox.push(reply);
            }
        }
        done
    }

    /// Sends what can be sent; an error means that the connection is gone.
    pub(crate) fn flush(&mut self, poller: &mut dyn Poller) -> io::Result<()> {
        if self.is_writable && self.outbox.bytes() > 0 {
            self.is_writable = self.outbox.flush(poller, self.id)?;
        }
        Ok(())
    }

    /// Request bytes that will never be answered, when the connection goes away.
    pub(crate) fn unanswered_bytes(&self) -> usize {
        self.slots.iter().map(|slot| slot.request_bytes).sum()
    }
}
