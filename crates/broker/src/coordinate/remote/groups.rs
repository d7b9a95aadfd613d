//! Questions about groups as Kafka's requests to the broker that coordinates, and the answers of that.
//!
//! A part of an answer is found by its name: other brokers give the parts in any order.

use std::collections::HashMap;

use coord::Question as _;
use coord::group::ask::{
    self, Commit, ConsumerDescribe, ConsumerHeartbeat, Delete, DeleteOffsets, Describe,
    FetchOffsets, FetchTopic, FetchedOffset, FetchedPartition, FetchedTopic, Heartbeat, Leave,
    List, Standing, TopicKey,
};
use coord::group::{Ask, Refusal};
use model::{LeaderEpoch, Offset, PartitionIndex};
use wire::messages::consumer_group_heartbeat_request::TopicPartitions;
use wire::messages::leave_group_request::MemberIdentity;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::offset_fetch_response::{
    OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use wire::messages::*;
use wire::{ErrorCode, Uuid};

use super::described;
use crate::error::of_code;
use crate::mail::question::Said;
use crate::peers::{Answer, Typed, UpTo};

/// The newest versions that name topics by their names.
const COMMIT_BY_NAME: i16 = 9;
const FETCH_BY_NAME: i16 = 9;
/// The newest version whose clients know no member epochs.
const COMMIT_WITHOUT_EPOCHS: i16 = 8;
/// The newest version whose clients make no member id.
const BEAT_WITHOUT_ID: i16 = 0;
const NO_RETENTION: i64 = -1;
const SAME_TIMEOUT: i32 = -1;

/// The facts that the answer to a question is read with.
#[derive(Debug)]
pub(super) enum Reading {
    Commit(Vec<(TopicKey, i32)>),
    Fetch(Option<Vec<TopicKey>>),
    DeleteOffsets(Vec<(TopicKey, i32)>),
    Heartbeat,
    ConsumerHeartbeat,
    Leave(Vec<ask::Leaver>),
    Describe,
    ConsumerDescribe,
    List,
    Delete,
}

/// The request that asks this; none where the other broker would have to wait for others before it answers.
pub(super) fn request(asked: Ask) -> Option<(Typed, Reading)> {
    Some(match asked {
        Ask::Commit(asked) => commit(asked),
        Ask::FetchOffsets(asked) => fetch(asked),
        Ask::DeleteOffsets(asked) => delete_offsets(asked),
        Ask::Heartbeat(Heartbeat {
            group_id,
            member_id,
            instance_id,
            generation,
        }) => {
            let request = HeartbeatRequest {
                group_id,
                generation_id: generation,
                member_id,
                group_instance_id: instance_id,
            };
            (Typed::new(request), Reading::Heartbeat)
        }
        Ask::ConsumerHeartbeat(asked) => beat(asked),
        Ask::Leave(Leave { group_id, members }) => {
            let identity = |leaver: &ask::Leaver| MemberIdentity {
                member_id: leaver.member_id.clone(),
                group_instance_id: leaver.instance_id.clone(),
                reason: leaver.reason.clone(),
            };
            let request = LeaveGroupRequest {
                group_id,
                members: members.iter().map(identity).collect(),
                ..Default::default()
            };
            (Typed::new(request), Reading::Leave(members))
        }
        Ask::Describe(Describe { group_id }) => {
            let request = DescribeGroupsRequest {
                groups: vec![group_id],
                include_authorized_operations: false,
            };
            (Typed::new(request), Reading::Describe)
        }
        Ask::ConsumerDescribe(ConsumerDescribe { group_id }) => {
            let request = ConsumerGroupDescribeRequest {
                group_ids: vec![group_id],
                include_authorized_operations: false,
            };
            (Typed::new(request), Reading::ConsumerDescribe)
        }
        Ask::List(List { states, types }) => {
            let names = |filter: &ask::Filter| filter.names().map(str::to_owned).collect();
            let request = ListGroupsRequest {
                states_filter: names(&states),
                types_filter: names(&types),
            };
            (Typed::new(request), Reading::List)
        }
        Ask::Delete(Delete { group_id }) => {
            let request = DeleteGroupsRequest {
                groups_names: vec![group_id],
            };
            (Typed::new(request), Reading::Delete)
        }
        Ask::Join(_) | Ask::Sync(_) | Ask::TxnCommit(_) => return None,
    })
}

/// Name and id of a topic as a request has them.
fn named(topic: &TopicKey) -> (String, Uuid) {
    match topic {
        TopicKey::Name(name) => (name.clone(), Uuid::ZERO),
        TopicKey::Id(id) => (String::new(), *id),
    }
}

fn is_named(topic: &TopicKey) -> bool {
    matches!(topic, TopicKey::Name(_))
}

fn commit(asked: Commit) -> (Typed, Reading) {
    let by_name = asked.topics.iter().any(|topic| is_named(&topic.topic));
    let places = asked.topics.iter().flat_map(|topic| {
        let partitions = topic.partitions.iter();
        partitions.map(|partition| (topic.topic.clone(), partition.index.0))
    });
    let reading = Reading::Commit(places.collect());
    let partition = |asked: ask::CommitPartition| OffsetCommitRequestPartition {
        partition_index: asked.index.0,
        committed_offset: asked.offset.0,
        committed_leader_epoch: asked.leader_epoch.0,
        committed_metadata: Some(asked.metadata),
    };
    let topic = |asked: ask::CommitTopic| {
        let (name, topic_id) = named(&asked.topic);
        OffsetCommitRequestTopic {
            name,
            topic_id,
            partitions: asked.partitions.into_iter().map(partition).collect(),
        }
    };
    let request = OffsetCommitRequest {
        group_id: asked.group_id,
        generation_id_or_member_epoch: asked.generation,
        member_id: asked.member_id,
        group_instance_id: asked.instance_id,
        retention_time_ms: asked.retention_ms.unwrap_or(NO_RETENTION),
        topics: asked.topics.into_iter().map(topic).collect(),
    };
    let newest = match (by_name, asked.knows_member_epochs) {
        (_, false) => COMMIT_WITHOUT_EPOCHS,
        (true, true) => COMMIT_BY_NAME,
        (false, true) => i16::MAX,
    };
    (Typed::new(UpTo(request, newest)), reading)
}

fn fetch(asked: FetchOffsets) -> (Typed, Reading) {
    let topics = asked.topics.as_ref();
    let keys = |topics: &Vec<FetchTopic>| topics.iter().map(|topic| topic.topic.clone()).collect();
    let reading = Reading::Fetch(topics.map(keys));
    // All topics come with their names.
    let by_name = topics.is_none_or(|topics| topics.iter().any(|topic| is_named(&topic.topic)));
    let topic = |asked: FetchTopic| {
        let (name, topic_id) = named(&asked.topic);
        OffsetFetchRequestTopics {
            name,
            topic_id,
            partition_indexes: asked.partitions.iter().map(|index| index.0).collect(),
        }
    };
    let topics = asked.topics.map(|topics| topics.into_iter().map(topic));
    let request = OffsetFetchRequest {
        groups: vec![OffsetFetchRequestGroup {
            group_id: asked.group_id,
            member_id: asked.member_id,
            member_epoch: asked.member_epoch,
            topics: topics.map(Iterator::collect),
        }],
        require_stable: asked.require_stable,
        ..Default::default()
    };
    let newest = if by_name { FETCH_BY_NAME } else { i16::MAX };
    (Typed::new(UpTo(request, newest)), reading)
}

fn delete_offsets(asked: DeleteOffsets) -> (Typed, Reading) {
    let places = asked.topics.iter().flat_map(|topic| {
        let partitions = topic.partitions.iter();
        partitions.map(|index| (TopicKey::Name(topic.name.clone()), index.0))
    });
    let reading = Reading::DeleteOffsets(places.collect());
    let partition = |index: PartitionIndex| OffsetDeleteRequestPartition {
        partition_index: index.0,
    };
    let topic = |asked: ask::DeleteTopic| OffsetDeleteRequestTopic {
        name: asked.name,
        partitions: asked.partitions.into_iter().map(partition).collect(),
    };
    let request = OffsetDeleteRequest {
        group_id: asked.group_id,
        topics: asked.topics.into_iter().map(topic).collect(),
    };
    (Typed::new(request), reading)
}

fn beat(asked: ConsumerHeartbeat) -> (Typed, Reading) {
    let owned = |asked: ask::TopicPartitions| TopicPartitions {
        topic_id: asked.topic_id,
        partitions: asked.partitions.iter().map(|index| index.0).collect(),
    };
    let newest = if asked.brings_member_id {
        i16::MAX
    } else {
        BEAT_WITHOUT_ID
    };
    let request = ConsumerGroupHeartbeatRequest {
        group_id: asked.group_id,
        member_id: asked.member_id,
        member_epoch: asked.member_epoch,
        instance_id: asked.instance_id,
        rack_id: asked.rack_id,
        rebalance_timeout_ms: asked.rebalance_timeout_ms.unwrap_or(SAME_TIMEOUT),
        subscribed_topic_names: asked.topic_names,
        subscribed_topic_regex: asked.pattern,
        server_assignor: asked.assignor,
        topic_partitions: (asked.owned).map(|topics| topics.into_iter().map(owned).collect()),
    };
    (
        Typed::new(UpTo(request, newest)),
        Reading::ConsumerHeartbeat,
    )
}

impl Reading {
    /// The answer to the question, or the refusal of the coordinator.
    pub(super) fn read(self, answer: Answer) -> Result<Said, ErrorCode> {
        const GARBAGE: ErrorCode = ErrorCode::UnknownServerError;
        let said = match self {
            Reading::Commit(places) => {
                let response: OffsetCommitResponse = answer.read().ok_or(GARBAGE)?;
                let mut codes = Codes::default();
                for topic in &response.topics {
                    let parts = topic.partitions.iter();
                    let parts = parts.map(|part| (part.partition_index, part.error_code));
                    codes.put((&topic.name, topic.topic_id), parts);
                }
                Commit::any_answer(codes.results(&places)?)
            }
            Reading::Fetch(asked) => {
                let response: OffsetFetchResponse = answer.read().ok_or(GARBAGE)?;
                let group = response.groups.into_iter().next().ok_or(GARBAGE)?;
                check(group.error_code)?;
                let mut topics: Vec<FetchedTopic> = group.topics.into_iter().map(fetched).collect();
                if let Some(asked) = asked {
                    topics = in_order(topics, &asked)?;
                }
                FetchOffsets::any_answer(Ok(topics))
            }
            Reading::DeleteOffsets(places) => {
                let response: OffsetDeleteResponse = answer.read().ok_or(GARBAGE)?;
                check(response.error_code)?;
                let mut codes = Codes::default();
                for topic in &response.topics {
                    let parts = topic.partitions.iter();
                    let parts = parts.map(|part| (part.partition_index, part.error_code));
                    codes.put((&topic.name, Uuid::ZERO), parts);
                }
                DeleteOffsets::any_answer(Ok(codes.results(&places)?))
            }
            Reading::Heartbeat => {
                let response: HeartbeatResponse = answer.read().ok_or(GARBAGE)?;
                check(response.error_code)?;
                Heartbeat::any_answer(Ok(()))
            }
            Reading::ConsumerHeartbeat => {
                let response: ConsumerGroupHeartbeatResponse = answer.read().ok_or(GARBAGE)?;
                ConsumerHeartbeat::any_answer(standing(response)?)
            }
            Reading::Leave(leavers) => {
                let response: LeaveGroupResponse = answer.read().ok_or(GARBAGE)?;
                check(response.error_code)?;
                let result = |leaver: &ask::Leaver| {
                    let mut members = response.members.iter();
                    let told = members.find(|told| {
                        told.member_id == leaver.member_id
                            && told.group_instance_id == leaver.instance_id
                    });
                    told.map_or(Err(GARBAGE), |told| check(told.error_code))
                };
                Leave::any_answer(Ok(leavers.iter().map(result).collect()))
            }
            Reading::Describe => {
                let response: DescribeGroupsResponse = answer.read().ok_or(GARBAGE)?;
                let group = response.groups.into_iter().next().ok_or(GARBAGE)?;
                Describe::any_answer(described::classic(group)?)
            }
            Reading::ConsumerDescribe => {
                let response: ConsumerGroupDescribeResponse = answer.read().ok_or(GARBAGE)?;
                let group = response.groups.into_iter().next().ok_or(GARBAGE)?;
                ConsumerDescribe::any_answer(described::consumer(group)?)
            }
            Reading::List => {
                let response: ListGroupsResponse = answer.read().ok_or(GARBAGE)?;
                check(response.error_code)?;
                let groups = response.groups.into_iter();
                // Of a protocol that this build does not know: others list those.
                List::any_answer(groups.filter_map(described::listed).collect())
            }
            Reading::Delete => {
                let response: DeleteGroupsResponse = answer.read().ok_or(GARBAGE)?;
                let result = response.results.first().ok_or(GARBAGE)?;
                check(result.error_code)?;
                Delete::any_answer(Ok(()))
            }
        };
        Ok(Said::Group(said))
    }
}

pub(super) fn check(code: i16) -> Result<(), ErrorCode> {
    match of_code(code) {
        ErrorCode::None => Ok(()),
        code => Err(code),
    }
}

/// True for what a coordinator says of itself, and not of what it was asked.
pub(super) fn is_of_coordinator(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NotCoordinator
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::CoordinatorLoadInProgress
    )
}

/// The codes of an answer by topic and partition.
#[derive(Default)]
struct Codes {
    by_name: HashMap<(String, i32), i16>,
    by_id: HashMap<(Uuid, i32), i16>,
}

impl Codes {
    fn put(&mut self, (name, id): (&str, Uuid), parts: impl Iterator<Item = (i32, i16)>) {
        for (index, code) in parts {
            self.by_name.insert((name.to_owned(), index), code);
            self.by_id.insert((id, index), code);
        }
    }

    /// The results of these places in their order; one where all share the refusal of a coordinator.
    fn results(&self, places: &[(TopicKey, i32)]) -> Result<Vec<Result<(), ErrorCode>>, ErrorCode> {
        let result = |(topic, index): &(TopicKey, i32)| {
            let code = match topic {
                TopicKey::Name(name) => self.by_name.get(&(name.clone(), *index)),
                TopicKey::Id(id) => self.by_id.get(&(*id, *index)),
            };
            code.map_or(Err(ErrorCode::UnknownServerError), |code| check(*code))
        };
        let results: Vec<Result<(), ErrorCode>> = places.iter().map(result).collect();
        match results.first() {
            Some(Err(code)) if is_of_coordinator(*code) => Err(*code),
            _ => Ok(results),
        }
    }
}

/// The topic by what the answer says; one who knows the metadata adds the rest.
fn fetched(topic: OffsetFetchResponseTopics) -> FetchedTopic {
    FetchedTopic {
        name: Some(topic.name).filter(|name| !name.is_empty()),
        topic_id: Some(topic.topic_id).filter(|id| *id != Uuid::ZERO),
        partitions: topic
            .partitions
            .into_iter()
            .map(fetched_partition)
            .collect(),
    }
}

fn fetched_partition(part: OffsetFetchResponsePartitions) -> FetchedPartition {
    let found = check(part.error_code).map(|()| {
        (0 <= part.committed_offset).then(|| FetchedOffset {
            offset: Offset(part.committed_offset),
            leader_epoch: LeaderEpoch(part.committed_leader_epoch),
            metadata: part.metadata.unwrap_or_default(),
        })
    });
    FetchedPartition {
        index: PartitionIndex(part.partition_index),
        found,
    }
}

/// The topics in the order in which they were asked for.
fn in_order(
    mut topics: Vec<FetchedTopic>,
    asked: &[TopicKey],
) -> Result<Vec<FetchedTopic>, ErrorCode> {
    let mut next = |key: &TopicKey| {
        let place = topics.iter().position(|topic| match key {
            TopicKey::Name(name) => topic.name.as_ref() == Some(name),
            TopicKey::Id(id) => topic.topic_id == Some(*id),
        });
        let place = place.ok_or(ErrorCode::UnknownServerError)?;
        Ok(topics.remove(place))
    };
    asked.iter().map(&mut next).collect()
}

fn standing(
    response: ConsumerGroupHeartbeatResponse,
) -> Result<Result<Standing, Refusal>, ErrorCode> {
    let partitions = |indexes: Vec<i32>| indexes.into_iter().map(PartitionIndex).collect();
    match of_code(response.error_code) {
        ErrorCode::None => {}
        code if is_of_coordinator(code) => return Err(code),
        code => {
            let message = response.error_message.unwrap_or_default();
            return Ok(Err(Refusal { code, message }));
        }
    }
    let assignment = response.assignment.map(|assignment| {
        let topics = assignment.topic_partitions.into_iter();
        let topics = topics.map(|topic| ask::TopicPartitions {
            topic_id: topic.topic_id,
            partitions: partitions(topic.partitions),
        });
        topics.collect()
    });
    Ok(Ok(Standing {
        member_id: response.member_id.unwrap_or_default(),
        member_epoch: response.member_epoch,
        heartbeat_interval_ms: response.heartbeat_interval_ms,
        assignment,
    }))
}
