//! Groups: which there are, who is in them, how far they have read; moving and forgetting that.

use std::collections::BTreeMap;

use wire::error_code::ErrorCode;
use wire::messages::consumer_group_describe_response as consumer_described;
use wire::messages::describe_groups_response as described;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use wire::messages::{
    ConsumerGroupDescribeRequest, ConsumerProtocolAssignment, DeleteGroupsRequest,
    DescribeGroupsRequest, FindCoordinatorRequest, ListGroupsRequest, OffsetCommitRequest,
    OffsetDeleteRequest, OffsetFetchRequest,
};
use wire::{Message, Reader, Schema};

use crate::cluster::Client;
use crate::error::Error;

/// Topic and partition.
pub type Part = (String, i32);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedGroup {
    pub id: String,
    /// `classic`, `consumer`, ...; empty where the broker is too old to say.
    pub kind: String,
    pub protocol_type: String,
    pub state: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupInfo {
    pub id: String,
    pub kind: &'static str,
    pub state: String,
    /// Name of the assignor that was agreed on.
    pub assignor: String,
    /// Of consumer groups.
    pub epoch: Option<i32>,
    /// Why the members last came together anew, where the broker says so.
    pub last_rebalance: Option<String>,
    pub members: Vec<GroupMember>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    pub id: String,
    pub instance: Option<String>,
    pub client: String,
    pub host: String,
    pub owned: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    pub offset: i64,
    pub leader_epoch: i32,
    pub metadata: String,
}

/// The member that commits, with its epoch.
pub(crate) struct Committer {
    pub(crate) member: String,
    pub(crate) epoch: i32,
}

impl Client {
    pub(crate) fn coordinator(&mut self, group: &str) -> Result<i32, Error> {
        let request = FindCoordinatorRequest {
            coordinator_keys: vec![group.to_owned()],
            ..Default::default()
        };
        let response = self.call_any(&request)?;
        let what = || format!("finding the coordinator of group {group}");
        let found = only(response.coordinators, group)?;
        Error::check(found.error_code, what, found.error_message.as_deref())?;
        Ok(found.node_id)
    }

    /// The groups of every broker, in the order of their ids. Empty filters let all pass.
    pub fn list_groups(
        &mut self,
        states: &[String],
        types: &[String],
    ) -> Result<Vec<ListedGroup>, Error> {
        self.retry("listing groups", |client| {
            let brokers: Vec<i32> = client.brokers().keys().copied().collect();
            let mut groups = Vec::new();
            for broker in brokers {
                let request = ListGroupsRequest {
                    states_filter: states.to_vec(),
                    types_filter: types.to_vec(),
                };
                let response = client.call_broker(broker, &request)?;
                Error::check(
                    response.error_code,
                    || format!("groups of broker {broker}"),
                    None,
                )?;
                groups.extend(response.groups.into_iter().map(|group| ListedGroup {
                    id: group.group_id,
                    kind: group.group_type,
                    protocol_type: group.protocol_type,
                    state: group.group_state,
                }));
            }
            groups.sort_by(|left, right| left.id.cmp(&right.id));
            Ok(groups)
        })
    }

    /// State and members of a group of either protocol.
    pub fn describe_group(&mut self, group: &str) -> Result<GroupInfo, Error> {
        self.retry(&format!("describing group {group}"), |client| {
            match client.describe_consumer(group) {
                Err(error) if error.code() == Some(ErrorCode::GroupIdNotFound) => {
                    client.describe_classic(group)
                }
                // A broker without consumer groups.
                Err(Error::Unsupported { .. }) => client.describe_classic(group),
                result => result,
            }
        })
    }

    fn describe_consumer(&mut self, group: &str) -> Result<GroupInfo, Error> {
        let broker = self.coordinator(group)?;
        let request = ConsumerGroupDescribeRequest {
            group_ids: vec![group.to_owned()],
            include_authorized_operations: false,
        };
        let response = self.call_broker(broker, &request)?;
        let found = only(response.groups, group)?;
        Error::check(
            found.error_code,
            || format!("group {group}"),
            found.error_message.as_deref(),
        )?;
        let owned = |member: &consumer_described::Member| {
            parts(
                member
                    .assignment
                    .topic_partitions
                    .iter()
                    .map(|topic| (&topic.topic_name, &topic.partitions)),
            )
        };
        let members = found.members.iter().map(|member| GroupMember {
            id: member.member_id.clone(),
            instance: member.instance_id.clone(),
            client: member.client_id.clone(),
            host: member.client_host.clone(),
            owned: owned(member),
        });
        Ok(GroupInfo {
            id: found.group_id,
            kind: "consumer",
            state: found.group_state,
            assignor: found.assignor_name,
            epoch: Some(found.group_epoch),
            last_rebalance: found.last_rebalance,
            members: members.collect(),
        })
    }

    fn describe_classic(&mut self, group: &str) -> Result<GroupInfo, Error> {
        let broker = self.coordinator(group)?;
        let request = DescribeGroupsRequest {
            groups: vec![group.to_owned()],
            include_authorized_operations: false,
        };
        let response = self.call_broker(broker, &request)?;
        let found = only(response.groups, group)?;
        Error::check(
            found.error_code,
            || format!("group {group}"),
            found.error_message.as_deref(),
        )?;
        if found.group_state == "Dead" {
            // Older versions of the API have no other way to say that it is not there.
            return Err(Error::Refused {
                what: format!("group {group}"),
                code: ErrorCode::GroupIdNotFound,
                message: None,
            });
        }
        let is_consumer = found.protocol_type == "consumer";
        let members = found.members.iter().map(|member| GroupMember {
            id: member.member_id.clone(),
            instance: member.group_instance_id.clone(),
            client: member.client_id.clone(),
            host: member.client_host.clone(),
            owned: if is_consumer {
                assigned(member)
            } else {
                Vec::new()
            },
        });
        Ok(GroupInfo {
            id: found.group_id.clone(),
            kind: "classic",
            state: found.group_state.clone(),
            assignor: found.protocol_data.clone(),
            epoch: None,
            last_rebalance: found.last_rebalance.clone(),
            members: members.collect(),
        })
    }

    /// Everything a group has committed.
    pub fn committed(&mut self, group: &str) -> Result<BTreeMap<Part, Committed>, Error> {
        let names: BTreeMap<_, _> = self
            .topics()?
            .into_iter()
            .map(|topic| (topic.id, topic.name))
            .collect();
        self.retry(&format!("offsets of group {group}"), |client| {
            let broker = client.coordinator(group)?;
            let request = OffsetFetchRequest {
                groups: vec![OffsetFetchRequestGroup {
                    group_id: group.to_owned(),
                    member_id: None,
                    member_epoch: -1,
                    topics: None,
                }],
                ..Default::default()
            };
            let response = client.call_broker(broker, &request)?;
            let mut committed = BTreeMap::new();
            for answer in &response.groups {
                Error::check(answer.error_code, || format!("group {group}"), None)?;
                for topic in &answer.topics {
                    let name = match names.get(&topic.topic_id) {
                        Some(name) => name,
                        None => &topic.name,
                    };
                    for partition in topic.partitions.iter().filter(|p| p.committed_offset >= 0) {
                        let one = Committed {
                            offset: partition.committed_offset,
                            leader_epoch: partition.committed_leader_epoch,
                            metadata: partition.metadata.clone().unwrap_or_default(),
                        };
                        committed.insert((name.clone(), partition.partition_index), one);
                    }
                }
            }
            Ok(committed)
        })
    }

    /// Sets what a group has committed; only for a group without members.
    pub fn commit_for(&mut self, group: &str, offsets: &BTreeMap<Part, i64>) -> Result<(), Error> {
        let nobody = Committer {
            member: String::new(),
            epoch: -1,
        };
        self.commit_as(group, &nobody, offsets)
    }

    pub(crate) fn commit_as(
        &mut self,
        group: &str,
        committer: &Committer,
        offsets: &BTreeMap<Part, i64>,
    ) -> Result<(), Error> {
        let mut topics: BTreeMap<&str, Vec<OffsetCommitRequestPartition>> = BTreeMap::new();
        for ((topic, partition), offset) in offsets {
            topics
                .entry(topic)
                .or_default()
                .push(OffsetCommitRequestPartition {
                    partition_index: *partition,
                    committed_offset: *offset,
                    committed_leader_epoch: -1,
                    committed_metadata: Some(String::new()),
                });
        }
        self.retry(&format!("committing for group {group}"), |client| {
            let mut asked = Vec::with_capacity(topics.len());
            for (name, partitions) in &topics {
                asked.push(OffsetCommitRequestTopic {
                    name: (*name).to_owned(),
                    topic_id: client.topic(name)?.id,
                    partitions: partitions.clone(),
                });
            }
            let broker = client.coordinator(group)?;
            let request = OffsetCommitRequest {
                group_id: group.to_owned(),
                generation_id_or_member_epoch: committer.epoch,
                member_id: committer.member.clone(),
                topics: asked,
                ..Default::default()
            };
            let response = client.call_broker(broker, &request)?;
            for answer in response.topics.iter().flat_map(|topic| &topic.partitions) {
                Error::check(answer.error_code, || format!("group {group}"), None)?;
            }
            Ok(())
        })
    }

    /// Removes a group that has no members, with all it committed.
    pub fn delete_group(&mut self, group: &str) -> Result<(), Error> {
        self.retry(&format!("deleting group {group}"), |client| {
            let broker = client.coordinator(group)?;
            let request = DeleteGroupsRequest {
                groups_names: vec![group.to_owned()],
            };
            let response = client.call_broker(broker, &request)?;
            for answer in &response.results {
                Error::check(answer.error_code, || format!("group {group}"), None)?;
            }
            Ok(())
        })
    }

    /// Forgets what a group has committed for partitions that none of its members reads.
    pub fn delete_committed(
        &mut self,
        group: &str,
        topic: &str,
        partitions: &[i32],
    ) -> Result<(), Error> {
        self.retry(&format!("offsets of group {group}"), |client| {
            let broker = client.coordinator(group)?;
            let asked = partitions
                .iter()
                .map(|index| OffsetDeleteRequestPartition {
                    partition_index: *index,
                })
                .collect();
            let request = OffsetDeleteRequest {
                group_id: group.to_owned(),
                topics: vec![OffsetDeleteRequestTopic {
                    name: topic.to_owned(),
                    partitions: asked,
                }],
            };
            let response = client.call_broker(broker, &request)?;
            Error::check(response.error_code, || format!("group {group}"), None)?;
            for answer in response.topics.iter().flat_map(|topic| &topic.partitions) {
                let what = || format!("group {group}, {topic}-{}", answer.partition_index);
                Error::check(answer.error_code, what, None)?;
            }
            Ok(())
        })
    }
}

/// The one answer to a question about one group.
fn only<T>(answers: Vec<T>, group: &str) -> Result<T, Error> {
    answers.into_iter().next().ok_or_else(|| Error::Refused {
        what: format!("group {group}"),
        code: ErrorCode::UnknownServerError,
        message: Some("the broker left it out of its answer".to_owned()),
    })
}

fn parts<'a>(topics: impl Iterator<Item = (&'a String, &'a Vec<i32>)>) -> Vec<Part> {
    let mut parts: Vec<Part> = topics
        .flat_map(|(topic, partitions)| partitions.iter().map(|index| (topic.clone(), *index)))
        .collect();
    parts.sort();
    parts
}

/// The assignment that the leader of a classic group wrote for a member. Bytes that are no assignment of ours to read are none.
fn assigned(member: &described::DescribedGroupMember) -> Vec<Part> {
    let mut reader = Reader::new(member.member_assignment.clone());
    let Ok(version) = reader.i16() else {
        return Vec::new();
    };
    // A later version only adds fields behind those we know.
    let known = version.clamp(0, ConsumerProtocolAssignment::MAX_VERSION);
    match ConsumerProtocolAssignment::decode(&mut reader, known) {
        Ok(assignment) => parts(
            assignment
                .assigned_partitions
                .iter()
                .map(|topic| (&topic.topic, &topic.partitions)),
        ),
        Err(_) => Vec::new(),
    }
}
