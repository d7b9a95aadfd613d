//! Replicas that cannot be served, in what is told of topics.
//!
//! Owns how a broker that is away and a failed log directory show. The metadata have both, where the active controller has heard of
//! them. Of a directory of this broker that has just failed, or that holds a partition in a state which cannot be served, nothing but
//! this broker knows: such a partition has no leader, which only Metadata calls an error, and this broker is among its offline
//! replicas. With one replica there is nobody else to elect, and a start that can read the directory leads again.

use model::BrokerId;
use wire::ErrorCode;
use wire::messages::{DescribeTopicPartitionsResponse, MetadataResponse};

use crate::ops::view::View;
use crate::topics::{Topic, Topics};

/// Replicas on brokers that are away, that clients of this listener cannot reach, or in directories that do not work.
pub(super) fn replicas(partition: &meta::Partition, view: &View<'_>) -> Vec<i32> {
    let is_online = |id: &&BrokerId| {
        let broker = view.image.broker(**id).filter(|broker| !broker.is_fenced);
        let directory = partition.directory(**id);
        broker.is_some_and(|broker| {
            let works = |dir| meta::dir::is_online(dir, &broker.log_dirs);
            directory.is_none_or(works) && view.endpoint(broker).is_some()
        })
    };
    let replicas = partition.replicas.iter();
    replicas
        .filter(|id| !is_online(id))
        .map(|id| id.0)
        .collect()
}

pub(crate) fn in_metadata(told: &mut MetadataResponse, topics: &Topics, node: BrokerId) {
    for topic in &mut told.topics {
        let known = topics.with_id(topic.topic_id);
        for one in &mut topic.partitions {
            if known.is_some_and(|it| is_offline(it, one.partition_index)) {
                if one.leader_id == node.0 {
                    one.error_code = ErrorCode::LeaderNotAvailable.code();
                    one.leader_id = meta::NO_LEADER.0;
                }
                add(&mut one.offline_replicas, &one.replica_nodes, node);
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
                if one.leader_id == node.0 {
                    one.leader_id = meta::NO_LEADER.0;
                }
                add(&mut one.offline_replicas, &one.replica_nodes, node);
            }
        }
    }
}

fn add(offline: &mut Vec<i32>, replicas: &[i32], node: BrokerId) {
    if replicas.contains(&node.0) && !offline.contains(&node.0) {
        offline.push(node.0);
    }
}

fn is_offline(topic: &Topic, index: i32) -> bool {
    let found = topic.partition(index);
    found.is_ok_and(|partition| partition.is_offline())
}
