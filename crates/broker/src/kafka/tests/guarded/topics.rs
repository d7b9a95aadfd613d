//! Topics by name: each API that asks about them, before each asker, about one that is there and one that is not.

use wire::messages::create_partitions_request::CreatePartitionsTopic;
use wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::delete_topics_request::DeleteTopicState;
use wire::messages::describe_configs_request::DescribeConfigsResource;
use wire::messages::describe_producers_request::TopicRequest as ProducersOf;
use wire::messages::describe_topic_partitions_request::TopicRequest;
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::*;

use super::*;
use crate::event_loop::bench::batch;

type Ask = fn(&mut Bench, &str, &str) -> i16;

pub(super) fn fetch_of(topics: &[&str]) -> FetchRequest {
    let topic = |name: &&str| FetchTopic {
        topic: (*name).to_owned(),
        partitions: vec![FetchPartition {
            partition_max_bytes: 1 << 20,
            current_leader_epoch: -1,
            ..Default::default()
        }],
        ..Default::default()
    };
    FetchRequest {
        max_bytes: 1 << 20,
        session_epoch: -1,
        topics: topics.iter().map(topic).collect(),
        ..Default::default()
    }
}

pub(super) fn produce_to(topics: &[&str]) -> ProduceRequest {
    let topic = |name: &&str| TopicProduceData {
        name: (*name).to_owned(),
        partition_data: vec![PartitionProduceData {
            index: 0,
            records: Some(wire::Records::Bytes(batch(b"value"))),
        }],
        ..Default::default()
    };
    ProduceRequest {
        acks: -1,
        timeout_ms: 1_000,
        topic_data: topics.iter().map(topic).collect(),
        ..Default::default()
    }
}

pub(super) fn metadata_of(topics: &[&str]) -> MetadataRequest {
    let topic = |name: &&str| MetadataRequestTopic {
        name: Some((*name).to_owned()),
        ..Default::default()
    };
    MetadataRequest {
        topics: Some(topics.iter().map(topic).collect()),
        ..Default::default()
    }
}

pub(super) fn offsets_of(topics: &[&str]) -> ListOffsetsRequest {
    let topic = |name: &&str| ListOffsetsTopic {
        name: (*name).to_owned(),
        partitions: vec![ListOffsetsPartition {
            timestamp: -1,
            current_leader_epoch: -1,
            ..Default::default()
        }],
    };
    ListOffsetsRequest {
        replica_id: -1,
        topics: topics.iter().map(topic).collect(),
        ..Default::default()
    }
}

pub(super) fn epochs_of(topics: &[&str]) -> OffsetForLeaderEpochRequest {
    let topic = |name: &&str| OffsetForLeaderTopic {
        topic: (*name).to_owned(),
        partitions: vec![OffsetForLeaderPartition {
            current_leader_epoch: -1,
            ..Default::default()
        }],
    };
    OffsetForLeaderEpochRequest {
        replica_id: -2,
        topics: topics.iter().map(topic).collect(),
    }
}

pub(super) fn deletion(name: Option<&str>, topic_id: wire::Uuid) -> DeleteTopicsRequest {
    DeleteTopicsRequest {
        topics: vec![DeleteTopicState {
            name: name.map(str::to_owned),
            topic_id,
        }],
        timeout_ms: 1_000,
        ..Default::default()
    }
}

/// Name, right, whether Describe alone is enough, and the code that it gives for a topic.
const APIS: &[(&str, &str, bool, Ask)] = &[
    ("Produce", "Write", false, |bench, user, topic| {
        let told = bench.ask_as(user, &produce_to(&[topic]), 9);
        told.responses[0].partition_responses[0].error_code
    }),
    ("Fetch", "Read", false, |bench, user, topic| {
        let told = bench.ask_as(user, &fetch_of(&[topic]), 11);
        told.responses[0].partitions[0].error_code
    }),
    ("ListOffsets", "Describe", true, |bench, user, topic| {
        let told = bench.ask_as(user, &offsets_of(&[topic]), 5);
        told.topics[0].partitions[0].error_code
    }),
    ("Metadata", "Describe", true, |bench, user, topic| {
        let told = bench.ask_as(user, &metadata_of(&[topic]), 9);
        told.topics[0].error_code
    }),
    (
        "DescribeTopicPartitions",
        "Describe",
        true,
        |bench, user, topic| {
            let request = DescribeTopicPartitionsRequest {
                topics: vec![TopicRequest {
                    name: topic.to_owned(),
                }],
                response_partition_limit: 10,
                ..Default::default()
            };
            bench.ask_as(user, &request, 0).topics[0].error_code
        },
    ),
    (
        "OffsetForLeaderEpoch",
        "Describe",
        true,
        |bench, user, topic| {
            let told = bench.ask_as(user, &epochs_of(&[topic]), 4);
            told.topics[0].partitions[0].error_code
        },
    ),
    ("DescribeProducers", "Read", false, |bench, user, topic| {
        let request = DescribeProducersRequest {
            topics: vec![ProducersOf {
                name: topic.to_owned(),
                partition_indexes: vec![0],
            }],
        };
        bench.ask_as(user, &request, 0).topics[0].partitions[0].error_code
    }),
    ("DeleteRecords", "Delete", false, |bench, user, topic| {
        let request = DeleteRecordsRequest {
            topics: vec![DeleteRecordsTopic {
                name: topic.to_owned(),
                partitions: vec![DeleteRecordsPartition::default()],
            }],
            timeout_ms: 1_000,
        };
        bench.ask_as(user, &request, 2).topics[0].partitions[0].error_code
    }),
    ("DeleteTopics", "Delete", false, |bench, user, topic| {
        let request = deletion(Some(topic), wire::Uuid::ZERO);
        bench.ask_as(user, &request, 6).responses[0].error_code
    }),
    ("CreatePartitions", "Alter", false, |bench, user, topic| {
        let request = CreatePartitionsRequest {
            topics: vec![CreatePartitionsTopic {
                name: topic.to_owned(),
                count: 2,
                assignments: None,
            }],
            timeout_ms: 1_000,
            ..Default::default()
        };
        bench.ask_as(user, &request, 3).results[0].error_code
    }),
    (
        "DescribeConfigs",
        "DescribeConfigs",
        false,
        |bench, user, topic| {
            let request = DescribeConfigsRequest {
                resources: vec![DescribeConfigsResource {
                    resource_type: 2,
                    resource_name: topic.to_owned(),
                    ..Default::default()
                }],
                ..Default::default()
            };
            bench.ask_as(user, &request, 4).results[0].error_code
        },
    ),
    (
        "AlterConfigs",
        "AlterConfigs",
        false,
        |bench, user, topic| {
            let request = AlterConfigsRequest {
                resources: vec![alter_configs_request::AlterConfigsResource {
                    resource_type: 2,
                    resource_name: topic.to_owned(),
                    ..Default::default()
                }],
                ..Default::default()
            };
            bench.ask_as(user, &request, 2).responses[0].error_code
        },
    ),
    (
        "IncrementalAlterConfigs",
        "AlterConfigs",
        false,
        |bench, user, topic| {
            let request = IncrementalAlterConfigsRequest {
                resources: vec![incremental_alter_configs_request::AlterConfigsResource {
                    resource_type: 2,
                    resource_name: topic.to_owned(),
                    ..Default::default()
                }],
                ..Default::default()
            };
            bench.ask_as(user, &request, 1).responses[0].error_code
        },
    ),
];

#[test]
fn a_topic_is_for_those_who_may_and_hidden_alike_from_all_others_there_or_not() {
    for (api, operation, describe_is_enough, ask) in APIS {
        for (topic, granted) in [(TOPIC, 0), (MISSING, UNKNOWN_TOPIC)] {
            let told = outcomes((*operation, "Topic", topic), bench, |bench, user| {
                ask(bench, user, topic)
            });
            let described = if *describe_is_enough {
                granted
            } else {
                TOPIC_DENIED
            };
            // Those who may see that there is nothing to delete are told so.
            let sees_nothing = *api == "DeleteTopics" && topic == MISSING;
            let denied = if sees_nothing { granted } else { TOPIC_DENIED };
            let described = if sees_nothing { granted } else { described };
            let want = [granted, granted, described, TOPIC_DENIED, denied];
            assert_eq!(told, want, "{api} {topic}");
        }
    }
}

#[test]
fn a_right_that_implies_describe_denies_nothing_but_itself() {
    let rules = [
        "alice allow Describe Topic t",
        "alice deny Read Topic t",
        "alice deny Write Topic t",
    ];
    let mut bench = bench(&rules);
    let told = bench.ask_as("alice", &offsets_of(&[TOPIC]), 5);
    assert_eq!(told.topics[0].partitions[0].error_code, 0);
    let told = bench.ask_as("alice", &fetch_of(&[TOPIC]), 11);
    assert_eq!(told.responses[0].partitions[0].error_code, TOPIC_DENIED);
}

#[test]
fn hidden_topics_come_behind_those_that_may_be_seen_and_repeat_nothing() {
    let mut bench = bench(&["alice allow Read Topic other"]);
    let both = [TOPIC, OTHER];
    let told = bench.ask_as("alice", &fetch_of(&both), 11).responses;
    let told: Vec<_> = told.iter().map(|of| of.topic.as_str()).collect();
    assert_eq!(told, [OTHER, TOPIC]);
    let told = bench.ask_as("alice", &offsets_of(&both), 5).topics;
    let told: Vec<_> = told.iter().map(|of| of.name.as_str()).collect();
    assert_eq!(told, [OTHER, TOPIC]);
    let told = bench.ask_as("alice", &epochs_of(&both), 4).topics;
    let told: Vec<_> = told.iter().map(|of| of.topic.as_str()).collect();
    assert_eq!(told, [OTHER, TOPIC]);
    // A partition that stands twice is refused as hidden, and not as repeated.
    let mut twice = offsets_of(&[TOPIC]);
    let again = twice.topics[0].partitions[0].clone();
    twice.topics[0].partitions.push(again);
    let told = bench.ask_as("alice", &twice, 5);
    let codes = told.topics[0].partitions.iter();
    let codes: Vec<i16> = codes.map(|of| of.error_code).collect();
    assert_eq!(codes, [TOPIC_DENIED; 2]);
}

#[test]
fn deletion_on_the_cluster_is_deletion_of_every_topic_and_ids_are_no_secret() {
    let by_name = |bench: &mut Bench, name| {
        let request = deletion(Some(name), wire::Uuid::ZERO);
        bench.ask_as("alice", &request, 6).responses[0].error_code
    };
    let mut cluster = bench(&["alice allow Delete Cluster kafka-cluster"]);
    assert_eq!(by_name(&mut cluster, MISSING), UNKNOWN_TOPIC);
    assert_eq!(by_name(&mut cluster, TOPIC), 0);
    // Deletion without the right to see: by name it is hidden.
    let mut blind = bench(&["alice allow Delete Topic t", "alice deny Describe Topic t"]);
    assert_eq!(by_name(&mut blind, TOPIC), TOPIC_DENIED);

    let by_id = |rules: &[&str]| {
        let mut bench = bench(rules);
        let image = bench.shard.desk.shared.catalog.image();
        let id = image.topic(TOPIC).expect("there").id;
        let told = bench.ask_as("alice", &deletion(None, id), 6);
        let one = told.responses[0].clone();
        assert_eq!(one.topic_id, id);
        (one.error_code, one.name)
    };
    let name = Some(TOPIC.to_owned());
    assert_eq!(by_id(&[]), (TOPIC_DENIED, None));
    assert_eq!(
        by_id(&["alice allow Describe Topic t"]),
        (TOPIC_DENIED, name.clone())
    );
    assert_eq!(by_id(&["alice allow Delete Topic t"]), (0, name));
    let mut stranger = bench(&[]);
    let unknown = wire::Uuid([7; 16]);
    let told = stranger.ask_as("alice", &deletion(None, unknown), 6);
    assert_eq!(told.responses[0].error_code, 100);
}
