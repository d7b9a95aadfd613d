//! Orders for the worker of the quorum, and the inbox of its tickets.

use std::sync::Arc;

use bytes::Bytes;
use env::Wake;
use model::{BrokerId, Instant, LeaderEpoch, Ticket};
use parking_lot::Mutex;
use raft::{CallId, Caller, Election, Fill, Peer, Request, Response, SnapshotId, VoteNumber};

use crate::mail::inboxes::{Inbox, Redeemed};
use crate::peers::{Encodable, Typed};

/// A request of another node that waits at a door.
pub(crate) struct Question {
    pub(crate) ticket: Ticket,
    pub(crate) request: Request,
}

/// The node that a request of this one is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipient {
    /// The active controller, whichever that is. Asked again until it answers as such.
    Controller,
    /// Asked once.
    Broker(BrokerId),
    /// Asked once, for an operation of this node: what waits there holds up no other request of this node.
    Relay(BrokerId),
}

/// A request of this node to another. Its answer is put into the inbox of the ticket, as [`Redeemed::Replied`].
pub(crate) struct Outgoing {
    pub(crate) ticket: Ticket,
    pub(crate) to: Recipient,
    pub(crate) request: Typed,
    /// From then on there is no answer.
    pub(crate) until: Instant,
}

impl Outgoing {
    pub(crate) fn new(
        (ticket, to): (Ticket, Recipient),
        request: impl Encodable + 'static,
        until: Instant,
    ) -> Outgoing {
        Outgoing {
            ticket,
            to,
            request: Typed::new(request),
            until,
        }
    }
}

/// A task of the worker.
pub(crate) enum Order {
    StoreVote {
        number: VoteNumber,
        election: Election,
        version: i16,
    },
    StoreCluster {
        number: VoteNumber,
        cluster: String,
    },
    Send {
        call: CallId,
        peer: Peer,
        request: Box<Request>,
    },
    Answer {
        caller: Caller,
        response: Box<Response>,
        fill: Option<Fill>,
    },
    Ask(Box<Question>),
    Call(Box<Outgoing>),
    /// Bytes of a snapshot that is fetched.
    WriteSnapshot {
        id: SnapshotId,
        position: u64,
        bytes: Bytes,
    },
    FinishSnapshot {
        id: SnapshotId,
        size: u64,
    },
    DropSnapshot(SnapshotId),
    DeleteSnapshot(SnapshotId),
    /// The metadata that are committed are to be a snapshot.
    TakeSnapshot,
    /// This node was elected, and a record of its epoch is committed.
    TakeOffice(LeaderEpoch),
    /// A connection has ended on which a broker, registered with that epoch, was heard of.
    Lost(BrokerId, i64),
    /// This node is no longer alone.
    Join,
    /// More of the log may be synced.
    Look,
}

pub(crate) struct Mailbox {
    orders: Mutex<Vec<Order>>,
    waker: Arc<dyn Wake>,
}

impl Mailbox {
    pub(crate) fn new(waker: Arc<dyn Wake>) -> Mailbox {
        Mailbox {
            orders: Mutex::new(Vec::new()),
            waker,
        }
    }

    pub(crate) fn order(&self, orders: impl IntoIterator<Item = Order>) {
        let was_empty = {
            let mut waiting = self.orders.lock();
            let was_empty = waiting.is_empty();
            waiting.extend(orders);
            was_empty && !waiting.is_empty()
        };
        if was_empty {
            self.waker.wake();
        }
    }

    pub(crate) fn take(&self) -> Vec<Order> {
        std::mem::take(&mut *self.orders.lock())
    }

    /// The worker is to look at its deadlines again.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }
}

impl Inbox for Mailbox {
    /// Every ticket of the worker means the same.
    fn put(&self, _: Vec<Redeemed>) {
        self.order([Order::Look]);
    }
}
