//! Partitions that this broker cannot serve, in what is told of topics.
//!
//! Owns how a failed log directory shows: such a partition has no leader, and this broker is among its offline replicas. The
//! metadata log knows nothing of it: with one replica there is nobody else to elect, and a start that can read the directory
//! leads again.

use model::BrokerId;
use wire::messages::{DescribeTopicPartitionsResponse, MetadataResponse};
use wire::{ErrorCode, Uuid};

use crate::topics::Topics;

pub(super) fn in_metadata(told: &mut MetadataResponse, topics: &Topics, node: BrokerId) {
    for topic in &mut told.topics {
        for one in &mut topic.partitions {
            if is_offline(topics, topic.topic_id, one.partition_index) {
                (one.error_code, one.leader_id) = no_leader();
                one.offline_replicas = vec![node.0];
            }
        }
    }
}

pub(super) fn in_pages(
    told: &mut DescribeTopicPartitionsResponse,
    topics: &Topics,
    node: BrokerId,
) {
    for topic in &mut told.topics {
        for one in &mut topic.partitions {
            if is_offline(topics, topic.topic_id, one.partition_index) {
                (one.error_code, one.leader_id) = no_leader();
                one.offline_replicas = vec![node.0];
            }
        }
    }
}

fn is_offline(topics: &Topics, id: Uuid, index: i32) -> bool {
    let found = topics.with_id(id).and_then(|topic| topic.partition(index));
    found.is_some_and(|partition| partition.is_offline())
}

fn no_leader() -> (i16, i32) {
    (ErrorCode::LeaderNotAvailable.code(), meta::NO_LEADER.0)
}
