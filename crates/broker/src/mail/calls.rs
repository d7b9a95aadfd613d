//! Requests of this node to others, on their way to the thread that makes them.

use std::sync::Arc;

use env::Wake;
use model::{BrokerId, Instant, Ticket};
use parking_lot::Mutex;
use raft::Endpoint;

use crate::peers::{Encodable, Typed};

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

/// A request of this node to another. Its answer is put into the inbox of the ticket, as `Redeemed::Replied`.
pub(crate) struct Call {
    pub(crate) ticket: Ticket,
    pub(crate) to: Recipient,
    pub(crate) request: Typed,
    /// From then on there is no answer.
    pub(crate) until: Instant,
}

impl Call {
    pub(crate) fn new(
        (ticket, to): (Ticket, Recipient),
        request: impl Encodable + 'static,
        until: Instant,
    ) -> Call {
        Call {
            ticket,
            to,
            request: Typed::new(request),
            until,
        }
    }
}

/// What the thread finds when it looks.
#[derive(Default)]
pub(crate) struct Tray {
    pub(crate) calls: Vec<Call>,
    /// The address of the active controller, if another one is known than before.
    pub(crate) controller: Option<Option<Endpoint>>,
}

#[derive(Default)]
struct State {
    tray: Tray,
    /// The smallest end of the metadata that an answer waits for.
    awaited: Option<i64>,
}

pub(crate) struct Mailbox {
    state: Mutex<State>,
    waker: Arc<dyn Wake>,
}

impl Mailbox {
    pub(crate) fn new(waker: Arc<dyn Wake>) -> Mailbox {
        Mailbox {
            state: Mutex::default(),
            waker,
        }
    }

    pub(crate) fn call(&self, call: Call) {
        let was_empty = {
            let calls = &mut self.state.lock().tray.calls;
            calls.push(call);
            calls.len() == 1
        };
        if was_empty {
            self.waker.wake();
        }
    }

    /// Requests for the active controller go there from now on; nowhere while there is none.
    pub(crate) fn set_controller(&self, endpoint: Option<Endpoint>) {
        self.state.lock().tray.controller = Some(endpoint);
        self.waker.wake();
    }

    /// The metadata that requests see go up to `end`.
    pub(crate) fn on_published(&self, end: i64) {
        let is_awaited = self.state.lock().awaited.is_some_and(|at| at <= end);
        if is_awaited {
            self.waker.wake();
        }
    }

    /// Has the thread woken when the metadata go up to `end`. It has to look at them after this: what was published before wakes nobody.
    pub(crate) fn await_metadata(&self, end: Option<i64>) {
        self.state.lock().awaited = end;
    }

    pub(crate) fn take(&self) -> Tray {
        std::mem::take(&mut self.state.lock().tray)
    }

    pub(crate) fn wake(&self) {
        self.waker.wake();
    }
}
