//! Asks of the group coordinator and its answers, free of protocol versions and of Kafka's messages.
//!
//! Owns the vocabulary between the machine and its callers, one file per family. A refusal carries the code that names it; the
//! caller decides how its own protocol says so. Answers do not repeat what the ask has said: where an ask names several things,
//! results come in the order of the ask.

mod admin;
mod classic;
mod consumer;
mod offsets;
mod sight;

use wire::ErrorCode;

pub use self::admin::{
    ConsumerDescribe, ConsumerDescribed, ConsumerDescribedMember, Delete, Describe, Described,
    DescribedMember, Filter, GroupState, Kind, List, Listed, NamedPartitions,
};
pub use self::classic::{
    Heartbeat, Join, JoinRefusal, Joined, JoinedMember, Leave, Leaver, MemberAssignment, Protocol,
    Sync, Synced,
};
pub use self::consumer::{ConsumerHeartbeat, Standing, TopicPartitions};
pub use self::offsets::{
    Commit, CommitPartition, CommitTopic, DeleteOffsets, DeleteTopic, FetchOffsets, FetchTopic,
    FetchedOffset, FetchedPartition, FetchedTopic, TopicKey, TxnCommit,
};
pub use self::sight::Sight;

/// The client behind a request, as descriptions show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    pub id: String,
    pub host: String,
}

/// A refusal with a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: ErrorCode,
    /// For the person who reads the client's log.
    pub message: String,
}

questions! {
    Join -> Result<Joined, JoinRefusal>;
    Sync -> Result<Synced, ErrorCode>;
    Heartbeat -> Result<(), ErrorCode>;
    /// One for each member, in their order.
    Leave -> Result<Vec<Result<(), ErrorCode>>, ErrorCode>;
    ConsumerHeartbeat -> Result<Standing, Refusal>;
    /// One for each partition of all topics, in their order.
    Commit -> Vec<Result<(), ErrorCode>>;
    /// The same in a transaction.
    TxnCommit -> Vec<Result<(), ErrorCode>>;
    /// One for each topic that was asked for, in their order; for each that has offsets, where all were.
    FetchOffsets -> Result<Vec<FetchedTopic>, ErrorCode>;
    /// One for each partition of all topics, in their order.
    DeleteOffsets -> Result<Vec<Result<(), ErrorCode>>, ErrorCode>;
    Describe -> Result<Described, Refusal>;
    ConsumerDescribe -> Result<ConsumerDescribed, Refusal>;
    List -> Vec<Listed>;
    Delete -> Result<(), ErrorCode>;
}

impl Ask {
    #[must_use]
    pub fn group_id(&self) -> Option<&str> {
        match self {
            Ask::Join(Join { group_id, .. })
            | Ask::Sync(Sync { group_id, .. })
            | Ask::Heartbeat(Heartbeat { group_id, .. })
            | Ask::Leave(Leave { group_id, .. })
            | Ask::ConsumerHeartbeat(ConsumerHeartbeat { group_id, .. })
            | Ask::Commit(Commit { group_id, .. })
            | Ask::TxnCommit(TxnCommit { group_id, .. })
            | Ask::FetchOffsets(FetchOffsets { group_id, .. })
            | Ask::DeleteOffsets(DeleteOffsets { group_id, .. })
            | Ask::Describe(Describe { group_id })
            | Ask::ConsumerDescribe(ConsumerDescribe { group_id })
            | Ask::Delete(Delete { group_id }) => Some(group_id),
            Ask::List(_) => None,
        }
    }
}
