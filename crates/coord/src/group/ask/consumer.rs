//! The consumer protocol (KIP-848): one heartbeat for everything.

use model::PartitionIndex;
use wire::Uuid;

use super::{Client, Sight};

/// Partitions of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPartitions {
    pub topic_id: Uuid,
    pub partitions: Vec<PartitionIndex>,
}

/// A heartbeat of a member; a field that is absent has not changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerHeartbeat {
    pub group_id: String,
    /// Empty for a newcomer whose client does not make its id.
    pub member_id: String,
    pub instance_id: Option<String>,
    /// 0 joins, -1 leaves, -2 leaves for a while.
    pub member_epoch: i32,
    pub client: Client,
    pub rack_id: Option<String>,
    pub rebalance_timeout_ms: Option<i32>,
    pub topic_names: Option<Vec<String>>,
    /// Of topic names; an empty one ends the subscription to a pattern.
    pub pattern: Option<String>,
    /// The topics that a pattern of the group may stand for, as far as this member looks for them.
    pub sight: Sight,
    pub assignor: Option<String>,
    /// The partitions that the member has.
    pub owned: Option<Vec<TopicPartitions>>,
    /// The client makes its member id itself (KIP-1082).
    pub brings_member_id: bool,
    /// Unique, should the member need an id.
    pub fresh: Uuid,
}

/// Where a member stands after its heartbeat.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    pub member_id: String,
    pub member_epoch: i32,
    pub heartbeat_interval_ms: i32,
    /// All that it may have now; absent where it knows.
    pub assignment: Option<Vec<TopicPartitions>>,
}
