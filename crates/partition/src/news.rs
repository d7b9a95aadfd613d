//! News travel upwards: the tickets that waited for an offset, and what became of it.
//!
//! The partition knows nothing of connections; it holds tickets and hands them back as news for the inboxes that they name.

use model::{InboxId, Offset, Ticket};

use crate::read::Isolation;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The append behind the ticket is committed.
    Committed(Ticket),
    /// The log directory failed before it was: indefinite, it may or may not be there after a restart.
    Failed(Ticket),
    /// The partition that the ticket names has more to read (or has failed).
    Readable(Ticket),
}

impl News {
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        match self {
            News::Committed(ticket) | News::Failed(ticket) | News::Readable(ticket) => *ticket,
        }
    }

    /// The inbox where they are to be put.
    #[must_use]
    pub fn inbox(&self) -> InboxId {
        self.ticket().inbox
    }
}

/// A ticket and the log end it waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaiting {
    pub until: Offset,
    pub ticket: Ticket,
}

/// Who waits to see more, and of what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watcher {
    pub ticket: Ticket,
    pub isolation: Isolation,
}
