//! What people are shown of a group.

use std::fmt;

use wire::Uuid;
use wire::messages::consumer_group_describe_response::{
    Assignment, DescribedGroup, Member as DescribedMember, TopicPartitions,
};

use super::target::preferred;
use super::{ConsumerGroup, Context};
use crate::Topics;

/// How a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nobody is in it; its offsets are.
    Empty,
    /// The target assignment is behind the group.
    Assigning,
    /// Members are on their way to the target.
    Reconciling,
    Stable,
    Dead,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Empty => "Empty",
            State::Assigning => "Assigning",
            State::Reconciling => "Reconciling",
            State::Stable => "Stable",
            State::Dead => "Dead",
        })
    }
}

impl ConsumerGroup {
    #[must_use]
    pub fn state(&self) -> State {
        if !self.exists() {
            State::Dead
        } else if self.members.is_empty() {
            State::Empty
        } else if self.epoch > self.assignment_epoch {
            State::Assigning
        } else if (self.members.values()).all(|it| it.is_reconciled_to(self.assignment_epoch)) {
            State::Stable
        } else {
            State::Reconciling
        }
    }

    /// Without authorized operations: the group does not know of rights.
    #[must_use]
    pub fn describe(&self, cx: &Context) -> DescribedGroup {
        DescribedGroup {
            group_id: self.id.clone(),
            group_state: self.state().to_string(),
            group_epoch: self.epoch,
            assignment_epoch: self.assignment_epoch,
            assignor_name: preferred(self.members.values(), cx.settings)
                .name()
                .to_owned(),
            members: (self.members.values())
                .map(|member| DescribedMember {
                    member_id: member.id.clone(),
                    instance_id: member.instance_id.clone(),
                    rack_id: member.rack_id.clone(),
                    member_epoch: member.epoch,
                    client_id: member.client_id.clone(),
                    client_host: member.client_host.clone(),
                    subscribed_topic_names: member.topic_names.iter().cloned().collect(),
                    subscribed_topic_regex: Some(member.pattern.clone())
                        .filter(|pattern| !pattern.is_empty()),
                    assignment: assignment(
                        (member.assigned.iter()).map(|(&id, it)| (id, it.keys().copied())),
                        cx.topics,
                    ),
                    target_assignment: assignment(
                        (self.target.get(&member.id).into_iter().flatten())
                            .map(|(&id, it)| (id, it.iter().copied())),
                        cx.topics,
                    ),
                    member_type: i8::from(member.classic.is_none()),
                })
                .collect(),
            // The protocol has no field for it; clients look at the message of an error only.
            error_message: self.last_rebalance().map(|last| last.reason.clone()),
            ..DescribedGroup::default()
        }
    }
}

/// Topics that are gone have no name to be shown by.
fn assignment<P: Iterator<Item = i32>>(
    partitions: impl Iterator<Item = (Uuid, P)>,
    topics: &dyn Topics,
) -> Assignment {
    Assignment {
        topic_partitions: partitions
            .filter_map(|(topic_id, partitions)| {
                Some(TopicPartitions {
                    topic_id,
                    topic_name: topics.name(topic_id)?.to_owned(),
                    partitions: partitions.collect(),
                })
            })
            .collect(),
    }
}
