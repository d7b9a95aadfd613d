//! News travel upwards: the tickets that waited for an offset, and what became of it.
//!
//! The partition knows nothing of connections; it holds tickets and hands them back as news for the inboxes that they name.

use model::{InboxId, Ticket};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The event that the ticket waits for: its append is durable, or committed, as was asked.
    Reached(Ticket),
    /// The log directory failed first: indefinite, the append or trim may or may not be there after a restart.
    Failed(Ticket),
    /// The leader epoch ended first: indefinite, the next leader has the append or not.
    NotLeader(Ticket),
    /// The append is in the log, but fewer replicas are in sync now than `acks=all` needs: indefinite.
    TooFewReplicas(Ticket),
    /// The partition that the ticket names has more to read, or has synced more, as was asked (or has failed).
    Readable(Ticket),
}

impl News {
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        match self {
            News::Reached(ticket)
            | News::Failed(ticket)
            | News::NotLeader(ticket)
            | News::TooFewReplicas(ticket)
            | News::Readable(ticket) => *ticket,
        }
    }

    /// The inbox where the news are to be put.
    #[must_use]
    pub fn inbox(&self) -> InboxId {
        self.ticket().inbox
    }
}
