//! One client connection: frames come in, answers leave in the order of their requests.
//!
//! Owns the reply slots and the outbox. Invariant: slots are answered in any order but sent from the front only.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use env::{ConnId, Poller};
use model::Instant;
use partition::Stamp;

use super::inbox::{Frame, Inbox};
use super::memory::Account;
use super::reply::{Outbox, Reply};
use crate::kafka::access::Principal;
use crate::prefetch::Readers;

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

pub(crate) struct Connection {
    pub(crate) id: ConnId,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) principal: Principal,
    /// Name and version of the client's software; kept where somebody asks for it.
    pub(crate) software: Option<Box<(String, String)>>,
    pub(crate) stamp: Stamp,
    pub(crate) readers: Readers,
    pub(crate) last_active: Instant,
    inbox: Inbox,
    slots: VecDeque<Slot>,
    first_slot: SlotNumber,
    /// Bytes in memory of answers that wait for their turn.
    ready_memory: usize,
    outbox: Outbox,
    /// The socket may have more to read: edges are reported once.
    pub(crate) is_readable: bool,
    is_writable: bool,
    /// Close once the answers are out.
    pub(crate) is_closing: bool,
    /// A request waits that no later one may overtake.
    pub(crate) is_held: bool,
    /// Not read until there is memory for the rest of its request.
    pub(crate) is_denied: bool,
}

impl Connection {
    pub(crate) fn new(id: ConnId, peer: SocketAddr, local: SocketAddr, now: Instant) -> Connection {
        Connection {
            id,
            peer,
            local,
            principal: Principal::Anonymous,
            software: None,
            stamp: Stamp::default(),
            readers: Readers::default(),
            last_active: now,
            inbox: Inbox::new(id),
            slots: VecDeque::new(),
            first_slot: 0,
            ready_memory: 0,
            outbox: Outbox::default(),
            is_readable: true,
            is_writable: true,
            is_closing: false,
            is_held: false,
            is_denied: false,
        }
    }

    /// Whether the connection may take in more; false is back-pressure on this peer alone.
    pub(crate) fn has_room(&self) -> bool {
        self.slots.len() < SLOTS_MAX
            && self.outbox.bytes() < OUTBOX_BYTES_MAX
            && !self.is_closing
            && !self.is_held
            && !self.is_denied
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.slots.is_empty() && self.outbox.bytes() == 0
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
        let received = poller.recv(self.id, self.inbox.buffer())?;
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
        self.inbox.shrink(account);
    }

    /// Memory is short: gives back what is not needed now; false when the client keeps the rest from others for too long.
    pub(crate) fn economise(&mut self, account: &mut Account, now: Instant) -> bool {
        self.inbox.trim(account);
        self.is_denied || !self.inbox.is_late(account.has_licence(self.id), now)
    }

    /// The next whole frame, without its length prefix.
    pub(crate) fn next_frame(&mut self, frame_bytes_max: i32, account: &mut Account) -> Frame {
        let frame = self.inbox.next_frame(frame_bytes_max);
        if let Frame::Request(frame) = &frame {
            account.finish(self.id);
            self.inbox.leave_request(frame.len(), account);
        }
        frame
    }

    /// The connection goes away: its memory is free.
    pub(crate) fn release(&mut self, account: &mut Account) {
        account.finish(self.id);
        account.settle(self.id);
        self.inbox.release(account);
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
        self.ready_memory += reply.as_ref().map_or(0, |reply| reply.memory);
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
                self.ready_memory -= reply.memory;
                self.outbox.push(reply);
            }
        }
        done
    }

    /// Bytes of answers that the peer has not taken and that stay in memory for that long.
    pub(crate) fn unsent_memory(&self) -> usize {
        self.ready_memory + self.outbox.memory()
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
