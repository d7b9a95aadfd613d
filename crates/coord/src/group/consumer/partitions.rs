//! Sets of partitions, by topic: what members are to have, and what they have since which epoch.

use std::collections::{BTreeMap, BTreeSet};

use wire::Uuid;
use wire::group::consumer_group_current_member_assignment_value::TopicPartitions as CurrentTopic;
use wire::group::consumer_group_target_assignment_member_value::TopicPartition as TargetTopic;

use crate::group::ask::TopicPartitions;

/// The partitions that a member is to have.
pub(super) type Target = BTreeMap<Uuid, BTreeSet<i32>>;

/// The partitions that a member has, each with the epoch in which it was given (KIP-1251).
pub(super) type Owned = BTreeMap<Uuid, BTreeMap<i32, i32>>;

pub(super) fn owns(owned: &Owned, topic: Uuid, partition: i32) -> bool {
    owned
        .get(&topic)
        .is_some_and(|partitions| partitions.contains_key(&partition))
}

pub(super) fn each(owned: &Owned) -> impl Iterator<Item = (Uuid, i32)> + '_ {
    (owned.iter()).flat_map(|(&topic, partitions)| partitions.keys().map(move |&p| (topic, p)))
}

pub(super) fn each_target(target: &Target) -> impl Iterator<Item = (Uuid, i32)> + '_ {
    (target.iter()).flat_map(|(&topic, partitions)| partitions.iter().map(move |&p| (topic, p)))
}

/// True if a member reports nothing but what it has. A member that reports nothing is not believed to have nothing.
pub(super) fn reports_within(reported: Option<&[TopicPartitions]>, owned: &Owned) -> bool {
    reported.is_some_and(|reported| {
        (reported.iter()).all(|topic| {
            (topic.partitions.iter()).all(|partition| owns(owned, topic.topic_id, partition.0))
        })
    })
}

/// True if a member may still have one of `revoked`: it says so, or says nothing.
pub(super) fn reports_any(reported: Option<&[TopicPartitions]>, revoked: &Owned) -> bool {
    reported.is_none_or(|reported| {
        (reported.iter()).any(|topic| {
            (topic.partitions.iter()).any(|partition| owns(revoked, topic.topic_id, partition.0))
        })
    })
}

pub(super) fn owned_from(topics: &[CurrentTopic], member_epoch: i32) -> Owned {
    let mut owned = Owned::new();
    for topic in topics {
        let epochs = topic.assignment_epochs.as_deref().unwrap_or_default();
        let partitions = owned.entry(topic.topic_id).or_default();
        for (i, &partition) in topic.partitions.iter().enumerate() {
            // Records from before KIP-1251 have no epochs.
            partitions.insert(partition, epochs.get(i).copied().unwrap_or(member_epoch));
        }
    }
    owned.retain(|_, partitions| !partitions.is_empty());
    owned
}

pub(super) fn owned_to(owned: &Owned) -> Vec<CurrentTopic> {
    (owned.iter())
        .map(|(&topic_id, partitions)| CurrentTopic {
            topic_id,
            partitions: partitions.keys().copied().collect(),
            assignment_epochs: Some(partitions.values().copied().collect()),
        })
        .collect()
}

pub(super) fn target_from(topics: &[TargetTopic]) -> Target {
    let mut target = Target::new();
    for topic in topics {
        let partitions = target.entry(topic.topic_id).or_default();
        partitions.extend(&topic.partitions);
    }
    target.retain(|_, partitions| !partitions.is_empty());
    target
}

pub(super) fn target_to(target: &Target) -> Vec<TargetTopic> {
    (target.iter())
        .map(|(&topic_id, partitions)| TargetTopic {
            topic_id,
            partitions: partitions.iter().copied().collect(),
        })
        .collect()
}
