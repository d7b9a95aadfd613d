//! Orders for the worker of the quorum, and the inbox of its tickets.

use std::sync::Arc;

use bytes::Bytes;
use env::Wake;
use model::{BrokerId, LeaderEpoch, Ticket};
use parking_lot::Mutex;
use raft::{CallId, Caller, Election, Fill, Peer, Request, Response, SnapshotId, VoteNumber};

use crate::mail::inboxes::{Inbox, Redeemed};

/// A request of another node that waits at a door.
pub(crate) struct Question {
    pub(crate) ticket: Ticket,
    pub(crate) request: Request,
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
    TakeLeadership(LeaderEpoch),
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
