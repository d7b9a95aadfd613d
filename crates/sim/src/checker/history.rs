//! The actions and findings of clients, in the order in which they completed.
//!
//! A value is unique within its key; a key stands for one incarnation of one partition (a topic created again gets new keys).

use std::collections::BTreeMap;

pub type Key = u32;
pub type Value = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Took effect.
    Ok,
    /// Nobody knows; what is recorded besides (offsets, polled records) holds all the same.
    Info,
    /// Certainly did not take effect.
    Fail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Send,
    Poll,
    /// Sends and polls that take effect together or not at all.
    Txn,
    Assign,
    Subscribe,
    Crash,
    Admin,
}

/// The records that a reader is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    Committed,
    Uncommitted,
}

impl Isolation {
    pub(super) const ALL: [Isolation; 2] = [Isolation::Committed, Isolation::Uncommitted];

    pub(super) fn index(self) -> usize {
        match self {
            Isolation::Committed => 0,
            Isolation::Uncommitted => 1,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    pub key: Key,
    /// Where the broker said it is.
    pub offset: Option<i64>,
    pub value: Value,
}

/// The records of one key that one operation returned, in that order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Polled {
    pub key: Key,
    pub records: Vec<(i64, Value)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// A client with its one producer and one reader; after a crash the client is a new process.
    pub process: u32,
    pub outcome: Outcome,
    pub kind: Kind,
    /// Any unit that all operations share.
    pub invoked: u64,
    pub returned: u64,
    pub sends: Vec<Sent>,
    pub polls: Vec<Polled>,
    /// The keys that an assign or subscribe leaves assigned.
    pub keys: Vec<Key>,
    /// Keys whose owner changed while the operation ran.
    pub rebalanced: Vec<Key>,
    pub isolation: Isolation,
}

impl Op {
    /// An empty operation.
    #[must_use]
    pub fn new(process: u32, kind: Kind, invoked: u64) -> Op {
        Op {
            process,
            outcome: Outcome::Ok,
            kind,
            invoked,
            returned: invoked,
            sends: Vec::new(),
            polls: Vec::new(),
            keys: Vec::new(),
            rebalanced: Vec::new(),
            isolation: Isolation::Committed,
        }
    }

    pub(super) fn is_txn(&self) -> bool {
        self.kind == Kind::Txn
    }
}

/// An answer to "where does this key end (or start)?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndSeen {
    pub key: Key,
    pub invoked: u64,
    pub returned: u64,
    pub log_start: Option<i64>,
    pub log_end: Option<i64>,
    /// Where a reader of committed data must stop.
    pub stable_end: Option<i64>,
}

#[derive(Clone, Debug, Default)]
pub struct History {
    /// In order of completion.
    pub ops: Vec<Op>,
    pub ends: Vec<EndSeen>,
    /// Offsets below were deleted on request; they are nobody's loss. A deleted topic is trimmed at `i64::MAX`.
    pub trimmed: BTreeMap<Key, i64>,
    /// Levels at which every key was read from start to end when all had healed.
    pub read_to_the_end: Vec<Isolation>,
    /// Positions moved by subscriptions, so that readers may skip and repeat between operations.
    pub subscribed: bool,
}

impl History {
    pub(super) fn trim(&self, key: Key) -> i64 {
        self.trimmed.get(&key).copied().unwrap_or(0)
    }
}
