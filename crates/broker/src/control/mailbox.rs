//! Orders for the worker of the quorum, and the inbox of its tickets.

use std::sync::Arc;

use env::Bell;
use parking_lot::Mutex;
use raft::{Election, VoteNumber};

use crate::inboxes::{Inbox, Redeemed};

/// A task of the worker.
pub(crate) enum Order {
    StoreVote {
        number: VoteNumber,
        election: Election,
        version: i16,
    },
    /// More of the log may be synced.
    Look,
}

pub(crate) struct Mailbox {
    orders: Mutex<Vec<Order>>,
    bell: Arc<dyn Bell>,
}

impl Mailbox {
    pub(crate) fn new(bell: Arc<dyn Bell>) -> Mailbox {
        Mailbox {
            orders: Mutex::new(Vec::new()),
            bell,
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
            self.bell.ring();
        }
    }

    pub(super) fn take(&self) -> Vec<Order> {
        std::mem::take(&mut *self.orders.lock())
    }

    pub(crate) fn bell(&self) -> &Arc<dyn Bell> {
        &self.bell
    }
}

impl Inbox for Mailbox {
    /// Every ticket of the worker means the same.
    fn put(&self, _: Vec<Redeemed>) {
        self.order([Order::Look]);
    }
}
