//! The description of a group for people.

use std::collections::{BTreeMap, BTreeSet};

use model::PartitionIndex;
use wire::Uuid;

use super::member::Member;
use super::target::preferred;
use super::{ConsumerGroup, Context};
use crate::Topics;
use crate::group::Client;
use crate::group::ask::{ConsumerDescribed, ConsumerDescribedMember, Kind, NamedPartitions};

/// How a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerState {
    /// Nobody is in it; its offsets are.
    Empty,
    /// The target assignment is behind the group.
    Assigning,
    /// Members are on their way to the target.
    Reconciling,
    Stable,
    Dead,
}

impl ConsumerState {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ConsumerState::Empty => "Empty",
            ConsumerState::Assigning => "Assigning",
            ConsumerState::Reconciling => "Reconciling",
            ConsumerState::Stable => "Stable",
            ConsumerState::Dead => "Dead",
        }
    }

    #[must_use]
    pub fn named(name: &str) -> Option<ConsumerState> {
        let mut all = [
            ConsumerState::Empty,
            ConsumerState::Assigning,
            ConsumerState::Reconciling,
            ConsumerState::Stable,
            ConsumerState::Dead,
        ]
        .into_iter();
        all.find(|state| state.name() == name)
    }
}

impl ConsumerGroup {
    #[must_use]
    pub fn state(&self) -> ConsumerState {
        if !self.exists() {
            ConsumerState::Dead
        } else if self.members.is_empty() {
            ConsumerState::Empty
        } else if self.epoch > self.assignment_epoch {
            ConsumerState::Assigning
        } else if (self.members.values()).all(|it| it.is_reconciled_to(self.assignment_epoch)) {
            ConsumerState::Stable
        } else {
            ConsumerState::Reconciling
        }
    }

    #[must_use]
    pub fn describe(&self, cx: &Context) -> ConsumerDescribed {
        ConsumerDescribed {
            state: self.state(),
            epoch: self.epoch,
            assignment_epoch: self.assignment_epoch,
            assignor: preferred(self.members.values(), cx.settings).name(),
            members: (self.members.values())
                .map(|member| self.describe_member(member, cx.topics))
                .collect(),
            last_rebalance: self.last_rebalance().map(|last| last.reason.clone()),
        }
    }

    fn describe_member(&self, member: &Member, topics: &dyn Topics) -> ConsumerDescribedMember {
        let target = self.target.get(&member.id).into_iter().flatten();
        ConsumerDescribedMember {
            member_id: member.id.clone(),
            instance_id: member.instance_id.clone(),
            rack_id: member.rack_id.clone(),
            member_epoch: member.epoch,
            client: Client {
                id: member.client_id.clone(),
                host: member.client_host.clone(),
            },
            topic_names: member.topic_names.iter().cloned().collect(),
            pattern: Some(member.pattern.clone()).filter(|pattern| !pattern.is_empty()),
            assignment: named(
                held(member)
                    .into_iter()
                    .map(|(id, it)| (id, it.into_iter())),
                topics,
            ),
            target: named(target.map(|(&id, it)| (id, it.iter().copied())), topics),
            kind: if member.classic.is_some() {
                Kind::Classic
            } else {
                Kind::Consumer
            },
        }
    }
}

/// The partitions that a member owns: also those that it has been asked to give up, until it has.
fn held(member: &Member) -> BTreeMap<Uuid, BTreeSet<i32>> {
    let mut held: BTreeMap<Uuid, BTreeSet<i32>> = BTreeMap::new();
    for (topic, partitions) in member.assigned.iter().chain(member.revoking.iter()) {
        held.entry(*topic).or_default().extend(partitions.keys());
    }
    held
}

/// Topics that are gone have no name to be shown by.
fn named<P: Iterator<Item = i32>>(
    partitions: impl Iterator<Item = (Uuid, P)>,
    topics: &dyn Topics,
) -> Vec<NamedPartitions> {
    partitions
        .filter_map(|(topic_id, partitions)| {
            Some(NamedPartitions {
                topic_id,
                topic_name: topics.name(topic_id)?.to_owned(),
                partitions: partitions.map(PartitionIndex).collect(),
            })
        })
        .collect()
}
