//! What travels upwards: who waited for an offset, and what became of it.
//!
//! The partition knows nothing of connections; it holds tickets and hands them back as news for the shard that wrote them.

use model::Offset;

use crate::read::Isolation;

/// A loop of the broker that owns connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u16);

/// Names one waiting request to its shard; opaque here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterKey {
    pub shard: ShardId,
    pub slot: u32,
    /// Guards against a slot that was used again.
    pub generation: u32,
}

/// One partition of a waiting request: an append that waits for its commit, or a read that waits for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub waiter: WaiterKey,
    /// Which partition of the request.
    pub index: u32,
}

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
    pub fn shard(&self) -> ShardId {
        match self {
            News::Committed(ticket) | News::Failed(ticket) | News::Readable(ticket) => {
                ticket.waiter.shard
            }
        }
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
