//! The messages of classic members for each other: subscriptions and assignments of consumers.
//!
//! A version that is newer than ours is read as ours: versions only add at the end.

use std::collections::BTreeMap;

use bytes::Bytes;
use model::PartitionIndex;
use wire::messages::consumer_protocol_assignment::TopicPartition;
use wire::messages::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};
use wire::{Message, Reader, Schema, Writer};

use super::partitions::{Owned, Target};
use crate::Topics;
use crate::group::ask::TopicPartitions;

/// The protocol type of consumers.
pub(super) const CONSUMER: &str = "consumer";

/// None where it cannot be read.
fn decode<M: Message + Schema>(bytes: &Bytes) -> Option<(i16, M)> {
    let mut r = Reader::new(bytes.clone());
    let version = r.i16().ok().filter(|version| *version >= 0)?;
    let message = M::decode(&mut r, version.min(M::MAX_VERSION)).ok()?;
    Some((version.min(M::MAX_VERSION), message))
}

pub(super) fn subscription(bytes: &Bytes) -> Option<(i16, ConsumerProtocolSubscription)> {
    decode(bytes)
}

/// The partitions of an assignment whose topics are there. None where it cannot be read, or was made by an assignor that told its
/// members more than partitions: ours could not go on from that.
pub(super) fn assigned(bytes: &Bytes, topics: &dyn Topics) -> Option<Target> {
    if bytes.is_empty() {
        return Some(Target::new());
    }
    let (_, assignment) = decode::<ConsumerProtocolAssignment>(bytes)?;
    if assignment.user_data.is_some_and(|data| !data.is_empty()) {
        return None;
    }
    let mut target = Target::new();
    for topic in &assignment.assigned_partitions {
        if let Some((id, _)) = topics.topic(&topic.topic)
            && !topic.partitions.is_empty()
        {
            (target.entry(id).or_default()).extend(&topic.partitions);
        }
    }
    Some(target)
}

/// The partitions of a member, in the words of its own version.
pub(super) fn assignment(owned: &Owned, version: i16, topics: &dyn Topics) -> Bytes {
    let by_name: BTreeMap<&str, Vec<i32>> = (owned.iter())
        .filter_map(|(&id, partitions)| Some((topics.name(id)?, partitions)))
        .map(|(name, partitions)| (name, partitions.keys().copied().collect()))
        .collect();
    let message = ConsumerProtocolAssignment {
        assigned_partitions: (by_name.into_iter())
            .map(|(topic, partitions)| TopicPartition {
                topic: topic.to_owned(),
                partitions,
            })
            .collect(),
        user_data: None,
    };
    let mut w = Writer::new();
    w.i16(version);
    message
        .encode(&mut w, version.min(ConsumerProtocolAssignment::MAX_VERSION))
        .and_then(|()| w.finish().into_bytes())
        .expect("topics that exist have names that fit")
}

/// The partitions that a member reports, as a heartbeat would report them.
pub(super) fn reported(
    subscription: &ConsumerProtocolSubscription,
    topics: &dyn Topics,
) -> Vec<TopicPartitions> {
    (subscription.owned_partitions.iter())
        .filter_map(|topic| {
            Some(TopicPartitions {
                topic_id: topics.topic(&topic.topic)?.0,
                partitions: (topic.partitions.iter().copied())
                    .map(PartitionIndex)
                    .collect(),
            })
        })
        .collect()
}
