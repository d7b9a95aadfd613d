//! Committed offsets: commits, plain and in a transaction, look-ups and deletions.

use model::{LeaderEpoch, Offset, PartitionIndex};
use wire::{ErrorCode, Uuid};

use crate::txn::Producer;

/// How an ask names a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicKey {
    Name(String),
    Id(Uuid),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    pub group_id: String,
    /// Empty where no member commits.
    pub member_id: String,
    pub instance_id: Option<String>,
    /// Generation or member epoch; negative where no member commits.
    pub generation: i32,
    /// Members of consumer groups may commit with a member epoch.
    pub knows_member_epochs: bool,
    /// How long the offsets stay; as long as the group where it is absent.
    pub retention_ms: Option<i64>,
    pub topics: Vec<CommitTopic>,
}

/// A commit that counts when the transaction of its producer does.
#[derive(Clone, Debug, PartialEq)]
pub struct TxnCommit {
    pub group_id: String,
    /// Empty where the client does not say.
    pub member_id: String,
    pub instance_id: Option<String>,
    /// Generation or member epoch; negative where the client does not say.
    pub generation: i32,
    /// The client knows the refusals of groups with member epochs, and that of a group that is not there.
    pub knows_member_epochs: bool,
    pub producer: Producer,
    pub topics: Vec<CommitTopic>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CommitTopic {
    pub topic: TopicKey,
    pub partitions: Vec<CommitPartition>,
}

/// As large as Kafka's message of it, so that a decoded list becomes one of these in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct CommitPartition {
    pub index: PartitionIndex,
    pub offset: Offset,
    pub leader_epoch: LeaderEpoch,
    pub metadata: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FetchOffsets {
    pub group_id: String,
    /// Absent or empty where a tool asks.
    pub member_id: Option<String>,
    /// Negative where a tool asks.
    pub member_epoch: i32,
    /// All topics where it is absent.
    pub topics: Option<Vec<FetchTopic>>,
    /// Partitions with offsets of an open transaction are refused with UNSTABLE_OFFSET_COMMIT (KIP-447).
    pub require_stable: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FetchTopic {
    pub topic: TopicKey,
    pub partitions: Vec<PartitionIndex>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FetchedTopic {
    /// Absent where no topic has the id that was asked for.
    pub name: Option<String>,
    /// Absent where no topic has the name.
    pub topic_id: Option<Uuid>,
    pub partitions: Vec<FetchedPartition>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FetchedPartition {
    pub index: PartitionIndex,
    /// None: nothing is committed.
    pub found: Result<Option<FetchedOffset>, ErrorCode>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FetchedOffset {
    pub offset: Offset,
    pub leader_epoch: LeaderEpoch,
    pub metadata: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DeleteOffsets {
    pub group_id: String,
    pub topics: Vec<DeleteTopic>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DeleteTopic {
    pub name: String,
    pub partitions: Vec<PartitionIndex>,
}
