//! Tickets: the names of waiting requests below the broker.
//!
//! A crate that makes a request wait keeps its ticket and hands it back with the outcome. It reads no more of it than the inbox,
//! so any owner of an inbox can wait: a loop that owns connections, or a thread that owns none.

number! {
    /// The place of the broker where the news of tickets are put; each has one owner.
    InboxId(u16)
}
number! {
    /// Names one waiting request to the owner of its inbox; opaque to everyone else.
    WaiterKey(u64)
}

/// One part of a waiting request: an append that waits for its commit, a read that waits for more, a question to a coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    pub inbox: InboxId,
    pub key: WaiterKey,
    /// Which part of the request, as its owner counts them.
    pub part: u32,
}
