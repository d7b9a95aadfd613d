//! Topics: to see, to make, to grow and to remove them.

use wire::any::AnyRequest;
use wire::messages::{
    CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest,
    DescribeTopicPartitionsRequest, MetadataRequest,
    create_partitions_request::CreatePartitionsTopic, create_topics_request::CreatableTopic,
    delete_topics_request::DeleteTopicState, describe_topic_partitions_request as partitions,
    metadata_request::MetadataRequestTopic,
};
use wire::{ApiKey, Uuid};

use super::Target::{
    Absent, All, ById, Fresh, Ghost, MadeTopic, MadeTopicById, Other, OtherById, Several, There,
};
use super::{NAMES, Row, Scene, noted, row};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        row(
            ApiKey::Metadata,
            &[All, There, Absent, Other, Several, ById, OtherById, Ghost],
            |s| {
                // Older versions make what they name.
                if s.version < 4 && matches!(s.target, Absent | Several) {
                    return None;
                }
                metadata(s, false, false)
            },
        ),
        noted(
            ApiKey::Metadata,
            "operations",
            &[All, There, Absent, Other, ById],
            |s| metadata(s, false, true),
        ),
        noted(ApiKey::Metadata, "create", &[Fresh], |s| {
            metadata(s, true, false)
        }),
        row(ApiKey::DescribeTopicPartitions, NAMES, described),
        noted(ApiKey::DescribeTopicPartitions, "list", &[All], described),
        row(ApiKey::CreateTopics, &[Fresh], |s| created(s, false)),
        noted(ApiKey::CreateTopics, "validate", NAMES, |s| {
            created(s, true)
        }),
        row(
            ApiKey::DeleteTopics,
            &[Absent, Other, MadeTopic, Ghost, MadeTopicById],
            |s| {
                // Those who may all would delete it.
                if s.target == Other {
                    return None;
                }
                if s.version < 6 {
                    return (!s.target.is_by_id()).then(|| {
                        AnyRequest::DeleteTopics(DeleteTopicsRequest {
                            topic_names: s.names(),
                            timeout_ms: 5_000,
                            ..Default::default()
                        })
                    });
                }
                let topic = if s.target.is_by_id() {
                    DeleteTopicState {
                        name: None,
                        topic_id: s.id(),
                    }
                } else {
                    DeleteTopicState {
                        name: Some(s.name()),
                        topic_id: Uuid::ZERO,
                    }
                };
                Some(AnyRequest::DeleteTopics(DeleteTopicsRequest {
                    topics: vec![topic],
                    timeout_ms: 5_000,
                    ..Default::default()
                }))
            },
        ),
        row(ApiKey::CreatePartitions, NAMES, |s| {
            Some(AnyRequest::CreatePartitions(CreatePartitionsRequest {
                topics: s
                    .names()
                    .into_iter()
                    .map(|name| CreatePartitionsTopic {
                        name,
                        count: 5,
                        assignments: None,
                    })
                    .collect(),
                timeout_ms: 5_000,
                validate_only: true,
            }))
        }),
    ]
}

fn metadata(s: &Scene, creates: bool, with_operations: bool) -> Option<AnyRequest> {
    let (by_id, v) = (s.target.is_by_id(), s.version);
    if by_id && v < 12 || with_operations && v < 8 {
        return None;
    }
    let topics = match s.target {
        // An empty list is everything in version 0.
        All if v == 0 => Some(Vec::new()),
        All => None,
        _ if by_id => Some(vec![MetadataRequestTopic {
            topic_id: s.id(),
            name: None,
        }]),
        _ => Some(
            s.names()
                .into_iter()
                .map(|name| MetadataRequestTopic {
                    topic_id: Uuid::ZERO,
                    name: Some(name),
                })
                .collect(),
        ),
    };
    Some(AnyRequest::Metadata(MetadataRequest {
        topics,
        allow_auto_topic_creation: creates || v < 4,
        include_cluster_authorized_operations: with_operations && (8..=10).contains(&v),
        include_topic_authorized_operations: with_operations,
    }))
}

fn described(s: &Scene) -> Option<AnyRequest> {
    let topics = s
        .names()
        .into_iter()
        .map(|name| partitions::TopicRequest { name });
    Some(AnyRequest::DescribeTopicPartitions(
        DescribeTopicPartitionsRequest {
            topics: topics.collect(),
            response_partition_limit: 100,
            cursor: None,
        },
    ))
}

fn created(s: &Scene, validate_only: bool) -> Option<AnyRequest> {
    let topics = s.names().into_iter().map(|name| CreatableTopic {
        name,
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    });
    Some(AnyRequest::CreateTopics(CreateTopicsRequest {
        topics: topics.collect(),
        timeout_ms: 5_000,
        validate_only,
    }))
}
