//! Partitions that this broker cannot serve, in what is told of topics.
//!
//! Owns how a failed log directory shows: such a partition has no leader, which only Metadata calls an error, and this broker is
//! among its offline replicas. The metadata log knows nothing of it: with one replica there is nobody else to elect, and a start
//! that can read the directory leads again.

use model::BrokerId;
use wire::ErrorCode;
use wire::messages::{DescribeTopicPartitionsResponse, MetadataResponse};

use crate::topics::{Topic, Topics};

pub(crate) fn in_metadata(told: &mut MetadataResponse, topics: &Topics, node: BrokerId) {
    for topic in &mut told.topics {
        let known = topics.with_id(topic.topic_id);
        for one in &mut topic.partitions {
            if known.is_some_and(|it| is_offline(it, one.partition_index)) {
                one.error_code = ErrorCode::LeaderNotAvailable.code();
                one.leader_id = meta::NO_LEADER.0;
                one.offline_replicas = vec![node.0];
            }
        }
    }
}

pub(crate) fn in_pages(
    told: &mut DescribeTopicPartitionsResponse,
    topics: &Topics,
    node: BrokerId,
) {
    for topic in &mut told.topics {
        let known = topics.with_id(topic.topic_id);
        for one in &mut topic.partitions {
            if known.is_some_and(|it| is_offline(it, one.partition_index)) {
                one.leader_id = meta::NO_LEADER.0;
                one.offline_replicas = vec![node.0];
            }
        }
    }
}

fn is_offline(topic: &Topic, index: i32) -> bool {
    let found = topic.partition(index);
    found.is_ok_and(|partition| partition.is_offline())
}
