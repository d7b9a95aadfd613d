//! Groups, their members and their offsets. All members are strangers.

use bytes::Bytes;
use wire::any::AnyRequest;
use wire::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, DeleteGroupsRequest,
    DescribeGroupsRequest, FindCoordinatorRequest, HeartbeatRequest, JoinGroupRequest,
    LeaveGroupRequest, ListGroupsRequest, OffsetCommitRequest, OffsetDeleteRequest,
    OffsetFetchRequest, SyncGroupRequest, join_group_request::JoinGroupRequestProtocol,
    leave_group_request::MemberIdentity, offset_commit_request as commit,
    offset_delete_request as delete, offset_fetch_request as fetch,
};
use wire::{ApiKey, Uuid};

use super::Target::{self, Absent, All, ById, Ghost, MadeGroup, Other, OtherById, Several, There};
use super::{GHOST, NAMES, Row, STRANGER, Scene, noted, row};

const ONE: &[Target] = &[There, Absent, Other];
const TOPICS: &[Target] = &[There, Absent, Other, Several, ById, OtherById, Ghost];

pub(crate) fn rows() -> Vec<Row> {
    let mut all = members();
    all.extend(offsets());
    all.extend(descriptions());
    all
}

fn stranger() -> String {
    STRANGER.to_owned()
}

fn members() -> Vec<Row> {
    vec![
        row(ApiKey::JoinGroup, ONE, |s| {
            Some(AnyRequest::JoinGroup(JoinGroupRequest {
                group_id: s.name(),
                session_timeout_ms: 10_000,
                rebalance_timeout_ms: if s.version >= 1 { 10_000 } else { -1 },
                member_id: stranger(),
                protocol_type: "consumer".to_owned(),
                protocols: vec![JoinGroupRequestProtocol {
                    name: "range".to_owned(),
                    metadata: Bytes::from_static(b"\0\0\0\0\0\0"),
                }],
                ..Default::default()
            }))
        }),
        row(ApiKey::SyncGroup, ONE, |s| {
            let named = |name: &str| (s.version >= 5).then(|| name.to_owned());
            Some(AnyRequest::SyncGroup(SyncGroupRequest {
                group_id: s.name(),
                generation_id: 1,
                member_id: stranger(),
                protocol_type: named("consumer"),
                protocol_name: named("range"),
                ..Default::default()
            }))
        }),
        row(ApiKey::Heartbeat, ONE, |s| {
            Some(AnyRequest::Heartbeat(HeartbeatRequest {
                group_id: s.name(),
                generation_id: 1,
                member_id: stranger(),
                ..Default::default()
            }))
        }),
        row(ApiKey::LeaveGroup, ONE, |s| {
            let member = MemberIdentity {
                member_id: stranger(),
                ..Default::default()
            };
            Some(AnyRequest::LeaveGroup(LeaveGroupRequest {
                group_id: s.name(),
                member_id: if s.version < 3 {
                    stranger()
                } else {
                    String::new()
                },
                members: if s.version < 3 {
                    Vec::new()
                } else {
                    vec![member]
                },
            }))
        }),
        row(ApiKey::ConsumerGroupHeartbeat, ONE, |s| {
            beat(s, &s.name(), "there")
        }),
        noted(ApiKey::ConsumerGroupHeartbeat, "topics", ONE, |s| {
            beat(s, "there", &s.name())
        }),
    ]
}

/// A heartbeat of a member that is not: it asks for a topic by its name.
fn beat(_: &Scene, group: &str, topic: &str) -> Option<AnyRequest> {
    Some(AnyRequest::ConsumerGroupHeartbeat(
        ConsumerGroupHeartbeatRequest {
            group_id: group.to_owned(),
            member_id: stranger(),
            member_epoch: 5,
            rebalance_timeout_ms: 10_000,
            subscribed_topic_names: Some(vec![topic.to_owned()]),
            topic_partitions: Some(Vec::new()),
            ..Default::default()
        },
    ))
}

fn offsets() -> Vec<Row> {
    vec![
        // By group, then by topic.
        row(ApiKey::OffsetCommit, ONE, |s| {
            let topic = match s.version {
                10.. => (String::new(), s.there_id),
                _ => ("there".to_owned(), Uuid::ZERO),
            };
            Some(committed(&s.name(), vec![topic]))
        }),
        noted(ApiKey::OffsetCommit, "topics", TOPICS, |s| {
            Some(committed("there", s.topics(10)?))
        }),
        row(ApiKey::OffsetFetch, ONE, |s| {
            let topic = match s.version {
                10.. => (String::new(), s.there_id),
                _ => ("there".to_owned(), Uuid::ZERO),
            };
            Some(fetched(s, &s.name(), Some(vec![topic])))
        }),
        noted(ApiKey::OffsetFetch, "topics", TOPICS, |s| {
            Some(fetched(s, "there", Some(s.topics(10)?)))
        }),
        noted(ApiKey::OffsetFetch, "topics", &[All], |s| {
            (s.version >= 2).then(|| fetched(s, "there", None))
        }),
        noted(ApiKey::OffsetDelete, "topics", &[Absent, Other], |s| {
            Some(AnyRequest::OffsetDelete(deleted("there", s.names())))
        }),
        row(ApiKey::OffsetDelete, ONE, |s| {
            Some(AnyRequest::OffsetDelete(deleted(
                &s.name(),
                vec!["absent".to_owned()],
            )))
        }),
        noted(ApiKey::OffsetDelete, "group", &[MadeGroup], |s| {
            Some(AnyRequest::OffsetDelete(deleted(
                &s.name(),
                vec!["there".to_owned()],
            )))
        }),
        row(ApiKey::DeleteGroups, &[Absent, MadeGroup], |s| {
            Some(AnyRequest::DeleteGroups(DeleteGroupsRequest {
                groups_names: s.names(),
            }))
        }),
    ]
}

/// A commit without a member, as of a consumer that assigns to itself.
fn committed(group: &str, topics: Vec<(String, Uuid)>) -> AnyRequest {
    AnyRequest::OffsetCommit(OffsetCommitRequest {
        group_id: group.to_owned(),
        generation_id_or_member_epoch: 3,
        member_id: stranger(),
        topics: topics
            .into_iter()
            .map(|(name, topic_id)| commit::OffsetCommitRequestTopic {
                name,
                topic_id,
                partitions: vec![commit::OffsetCommitRequestPartition::default()],
            })
            .collect(),
        ..Default::default()
    })
}

fn fetched(s: &Scene, group: &str, topics: Option<Vec<(String, Uuid)>>) -> AnyRequest {
    let group_id = group.to_owned();
    AnyRequest::OffsetFetch(if s.version < 8 {
        OffsetFetchRequest {
            group_id,
            topics: topics.map(|topics| {
                let topics = topics.into_iter();
                topics
                    .map(|(name, _)| fetch::OffsetFetchRequestTopic {
                        name,
                        partition_indexes: vec![0],
                    })
                    .collect()
            }),
            ..Default::default()
        }
    } else {
        let topics = topics.map(|topics| {
            let topics = topics.into_iter();
            topics
                .map(|(name, topic_id)| fetch::OffsetFetchRequestTopics {
                    name,
                    topic_id,
                    partition_indexes: vec![0],
                })
                .collect()
        });
        OffsetFetchRequest {
            groups: vec![fetch::OffsetFetchRequestGroup {
                group_id,
                topics,
                ..Default::default()
            }],
            ..Default::default()
        }
    })
}

fn deleted(group: &str, topics: Vec<String>) -> OffsetDeleteRequest {
    OffsetDeleteRequest {
        group_id: group.to_owned(),
        topics: topics
            .into_iter()
            .map(|name| delete::OffsetDeleteRequestTopic {
                name,
                partitions: vec![delete::OffsetDeleteRequestPartition::default()],
            })
            .collect(),
    }
}

fn descriptions() -> Vec<Row> {
    vec![
        row(ApiKey::DescribeGroups, NAMES, |s| Some(described(s, false))),
        noted(ApiKey::DescribeGroups, "operations", NAMES, |s| {
            (s.version >= 3).then(|| described(s, true))
        }),
        row(ApiKey::ConsumerGroupDescribe, NAMES, |s| {
            Some(AnyRequest::ConsumerGroupDescribe(
                ConsumerGroupDescribeRequest {
                    group_ids: s.names(),
                    include_authorized_operations: true,
                },
            ))
        }),
        // The group is hidden from those who may not see all topics of its members.
        row(
            ApiKey::ConsumerGroupDescribe,
            &[Target::MadeConsumers],
            |s| {
                Some(AnyRequest::ConsumerGroupDescribe(
                    ConsumerGroupDescribeRequest {
                        group_ids: s.names(),
                        include_authorized_operations: true,
                    },
                ))
            },
        ),
        row(ApiKey::ListGroups, &[All], |_| {
            Some(AnyRequest::ListGroups(ListGroupsRequest::default()))
        }),
        row(ApiKey::FindCoordinator, NAMES, |s| found(s, 0)),
        noted(ApiKey::FindCoordinator, "transaction", NAMES, |s| {
            found(s, 1)
        }),
        noted(ApiKey::FindCoordinator, "share", &[Target::Cluster], |s| {
            (s.version >= 6).then(|| {
                AnyRequest::FindCoordinator(FindCoordinatorRequest {
                    key_type: 2,
                    coordinator_keys: vec![format!("there:{GHOST}:0")],
                    ..Default::default()
                })
            })
        }),
    ]
}

fn described(s: &Scene, include_authorized_operations: bool) -> AnyRequest {
    AnyRequest::DescribeGroups(DescribeGroupsRequest {
        groups: s.names(),
        include_authorized_operations,
    })
}

fn found(s: &Scene, key_type: i8) -> Option<AnyRequest> {
    let is_one = s.target != Several;
    if s.version < 4 && !is_one || s.version == 0 && key_type > 0 {
        return None;
    }
    Some(AnyRequest::FindCoordinator(FindCoordinatorRequest {
        key: if s.version < 4 {
            s.name()
        } else {
            String::new()
        },
        key_type,
        coordinator_keys: if s.version < 4 { Vec::new() } else { s.names() },
    }))
}
