//! A broker whose metadata name others: what it answers for partitions that it does not lead.

use meta::Record;
use model::{LeaderEpoch, Offset};
use wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::describe_producers_request::TopicRequest;
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::produce_response::PartitionProduceResponse;
use wire::messages::{
    DeleteRecordsRequest, DescribeProducersRequest, FetchRequest, ListOffsetsRequest,
    OffsetForLeaderEpochRequest, ProduceRequest, ProduceResponse,
};
use wire::metadata::register_broker_record::BrokerEndpoint;
use wire::metadata::{PartitionChangeRecord, PartitionRecord, RegisterBrokerRecord, TopicRecord};

use super::*;
use crate::event_loop::bench::{Bench, batch, encoded};

const TOPIC: &str = "t";
const ID: Uuid = Uuid([7; 16]);
const PRODUCE: i16 = 10;
const FETCH: i16 = 16;

/// Numbers of the partitions: led here, by the other broker with a replica here, by it without one, and by none.
const HERE: i32 = 0;
const FOLLOWED: i32 = 1;
const ELSEWHERE: i32 = 2;
const LEADERLESS: i32 = 3;
/// One that is not in the metadata.
const UNKNOWN: i32 = 4;

fn partition(index: i32, leader: i32, replicas: &[i32]) -> Record {
    PartitionRecord {
        partition_id: index,
        topic_id: ID,
        replicas: replicas.to_vec(),
        isr: replicas.to_vec(),
        leader,
        leader_epoch: 3,
        directories: replicas.iter().map(|_| Uuid::ZERO).collect(),
        ..PartitionRecord::default()
    }
    .into()
}

fn bench() -> Bench {
    let mut bench = Bench::new();
    let other = RegisterBrokerRecord {
        broker_id: 2,
        broker_epoch: 1000,
        end_points: vec![BrokerEndpoint {
            name: "PLAINTEXT".to_owned(),
            host: "there".to_owned(),
            port: 9093,
            ..BrokerEndpoint::default()
        }],
        rack: Some("r2".to_owned()),
        ..RegisterBrokerRecord::default()
    };
    let topic = TopicRecord {
        name: TOPIC.to_owned(),
        topic_id: ID,
    };
    bench.publish(&[
        other.into(),
        topic.into(),
        partition(HERE, 1, &[1, 2]),
        partition(FOLLOWED, 2, &[2, 1]),
        partition(ELSEWHERE, 2, &[2]),
        partition(LEADERLESS, -1, &[2]),
    ]);
    bench
}

fn code(code: i16) -> ErrorCode {
    ErrorCode::try_from(code).expect("a known code")
}

fn produce(bench: &mut Bench, acks: i16, indexes: &[i32]) {
    let data = indexes.iter().map(|index| PartitionProduceData {
        index: *index,
        records: Some(batch(b"value").into()),
    });
    let request = ProduceRequest {
        acks,
        timeout_ms: 1000,
        topic_data: vec![TopicProduceData {
            name: TOPIC.to_owned(),
            partition_data: data.collect(),
            ..TopicProduceData::default()
        }],
        ..ProduceRequest::default()
    };
    bench.put(&encoded(&request, PRODUCE));
}

fn produced(bench: &mut Bench) -> Option<ProduceResponse> {
    bench.answer::<ProduceRequest>(PRODUCE)
}

fn leader(of: &PartitionProduceResponse) -> (ErrorCode, i32, i32) {
    let leader = &of.current_leader;
    (code(of.error_code), leader.leader_id, leader.leader_epoch)
}

#[test]
fn a_produce_is_sent_to_the_leader_and_told_where_that_is() {
    let mut bench = bench();
    produce(
        &mut bench,
        1,
        &[HERE, FOLLOWED, ELSEWHERE, LEADERLESS, UNKNOWN],
    );
    assert!(produced(&mut bench).is_none(), "one of them waits");
    bench.commit();
    let response = produced(&mut bench).expect("it is durable");
    let told = response.responses[0].partition_responses.iter();
    let elsewhere = ErrorCode::NotLeaderOrFollower;
    assert_eq!(
        told.map(leader).collect::<Vec<_>>(),
        [
            (ErrorCode::None, -1, -1),
            (elsewhere, 2, 3),
            (elsewhere, 2, 3),
            (elsewhere, -1, 3),
            (ErrorCode::UnknownTopicOrPartition, -1, -1),
        ]
    );
    let nodes = response.node_endpoints.iter();
    let nodes: Vec<_> = nodes
        .map(|node| {
            (
                node.node_id,
                node.host.as_str(),
                node.port,
                node.rack.as_deref(),
            )
        })
        .collect();
    assert_eq!(nodes, [(2, "there", 9093, Some("r2"))], "named once");

    // An older version has no room for it.
    let request = ProduceRequest {
        acks: 1,
        topic_data: vec![TopicProduceData {
            name: TOPIC.to_owned(),
            partition_data: vec![PartitionProduceData {
                index: ELSEWHERE,
                records: Some(batch(b"value").into()),
            }],
            ..TopicProduceData::default()
        }],
        ..ProduceRequest::default()
    };
    bench.put(&encoded(&request, PRODUCE - 1));
    let response = bench.answer::<ProduceRequest>(PRODUCE - 1);
    let response = response.expect("refused at once");
    let refused = leader(&response.responses[0].partition_responses[0]);
    assert_eq!(refused, (elsewhere, -1, -1));
}

#[test]
fn a_fetch_is_sent_to_the_leader_and_told_where_that_is() {
    let mut bench = bench();
    let followed = bench.partition(TOPIC, FOLLOWED);
    followed.on_leader_at(LeaderEpoch(3), Offset::ZERO, Offset::ZERO, &mut Vec::new());
    let asked = |partition: i32, current_leader_epoch: i32| FetchPartition {
        partition,
        current_leader_epoch,
        partition_max_bytes: 1000,
        ..FetchPartition::default()
    };
    let request = FetchRequest {
        max_bytes: 1000,
        topics: vec![FetchTopic {
            topic_id: ID,
            partitions: vec![
                asked(HERE, 2),
                asked(FOLLOWED, 3),
                asked(ELSEWHERE, -1),
                asked(LEADERLESS, -1),
                asked(UNKNOWN, -1),
            ],
            ..FetchTopic::default()
        }],
        ..FetchRequest::default()
    };
    bench.put(&encoded(&request, FETCH));
    let response = bench
        .answer::<FetchRequest>(FETCH)
        .expect("refused at once");
    let told = response.responses[0].partitions.iter();
    let told: Vec<_> = told
        .map(|of| {
            let leader = &of.current_leader;
            (code(of.error_code), leader.leader_id, leader.leader_epoch)
        })
        .collect();
    let elsewhere = ErrorCode::NotLeaderOrFollower;
    assert_eq!(
        told,
        [
            (ErrorCode::FencedLeaderEpoch, 1, 3),
            // A follower that its leader has told what is committed answers by itself (KIP-392).
            (ErrorCode::None, -1, -1),
            (elsewhere, 2, 3),
            (elsewhere, -1, 3),
            (ErrorCode::UnknownTopicOrPartition, -1, -1),
        ]
    );
    let nodes = response.node_endpoints.iter();
    assert_eq!(nodes.map(|node| node.node_id).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn other_questions_about_a_log_are_for_its_leader_too() {
    let mut bench = bench();
    let elsewhere = ErrorCode::NotLeaderOrFollower;
    let expected = [
        (HERE, ErrorCode::None),
        (FOLLOWED, elsewhere),
        (ELSEWHERE, elsewhere),
        (LEADERLESS, elsewhere),
        (UNKNOWN, ErrorCode::UnknownTopicOrPartition),
    ];
    for (index, expected) in expected {
        let request = ListOffsetsRequest {
            topics: vec![ListOffsetsTopic {
                name: TOPIC.to_owned(),
                partitions: vec![ListOffsetsPartition {
                    partition_index: index,
                    timestamp: -1,
                    ..ListOffsetsPartition::default()
                }],
            }],
            ..ListOffsetsRequest::default()
        };
        bench.put(&encoded(&request, 6));
        let response = bench.answer::<ListOffsetsRequest>(6).expect("at once");
        let told = code(response.topics[0].partitions[0].error_code);
        assert_eq!(told, expected, "the end of {index}");

        let request = OffsetForLeaderEpochRequest {
            topics: vec![OffsetForLeaderTopic {
                topic: TOPIC.to_owned(),
                partitions: vec![OffsetForLeaderPartition {
                    partition: index,
                    current_leader_epoch: -1,
                    leader_epoch: 3,
                }],
            }],
            ..OffsetForLeaderEpochRequest::default()
        };
        bench.put(&encoded(&request, 4));
        let response = bench.answer::<OffsetForLeaderEpochRequest>(4);
        let response = response.expect("at once");
        let told = code(response.topics[0].partitions[0].error_code);
        assert_eq!(told, expected, "the epoch of {index}");

        let request = DeleteRecordsRequest {
            topics: vec![DeleteRecordsTopic {
                name: TOPIC.to_owned(),
                partitions: vec![DeleteRecordsPartition {
                    partition_index: index,
                    offset: 0,
                }],
            }],
            timeout_ms: 1000,
        };
        bench.put(&encoded(&request, 2));
        bench.commit();
        let response = bench.answer::<DeleteRecordsRequest>(2).expect("done");
        let told = code(response.topics[0].partitions[0].error_code);
        assert_eq!(told, expected, "a trim of {index}");

        let request = DescribeProducersRequest {
            topics: vec![TopicRequest {
                name: TOPIC.to_owned(),
                partition_indexes: vec![index],
            }],
        };
        bench.put(&encoded(&request, 0));
        let response = bench.answer::<DescribeProducersRequest>(0);
        let response = response.expect("at once");
        let told = code(response.topics[0].partitions[0].error_code);
        // An operator may ask each replica what it remembers (KIP-664).
        let expected = if index == FOLLOWED {
            ErrorCode::None
        } else {
            expected
        };
        assert_eq!(told, expected, "the producers of {index}");
    }
}

#[test]
fn what_waits_for_a_leader_that_goes_is_sent_to_the_next() {
    let mut bench = bench();
    produce(&mut bench, -1, &[HERE]);
    bench.commit();
    assert!(
        produced(&mut bench).is_none(),
        "the follower does not have it"
    );
    let change = |leader: i32, replicas: Option<Vec<i32>>| -> Record {
        PartitionChangeRecord {
            partition_id: HERE,
            topic_id: ID,
            leader,
            isr: replicas.clone().or(Some(vec![leader])),
            directories: replicas.as_ref().map(|all| vec![Uuid::ZERO; all.len()]),
            replicas,
            ..PartitionChangeRecord::default()
        }
        .into()
    };
    bench.publish(&[change(2, None)]);
    let response = produced(&mut bench).expect("the leader is another");
    let refused = leader(&response.responses[0].partition_responses[0]);
    assert_eq!(refused, (ErrorCode::NotLeaderOrFollower, 2, 4));

    // Back again, alone in sync: what it has is committed.
    bench.publish(&[change(1, None)]);
    let log = bench.partition(TOPIC, HERE);
    assert_eq!(log.bounds().high_watermark.0, 1);
    produce(&mut bench, -1, &[HERE]);
    bench.commit();
    let response = produced(&mut bench).expect("committed");
    let answer = &response.responses[0].partition_responses[0];
    assert_eq!((answer.error_code, answer.base_offset), (0, 1));

    // And now without any replica here.
    bench.publish(&[change(2, Some(vec![2]))]);
    let topics = bench.shard.desk.topics();
    let topic = topics.named(TOPIC).expect("it is there");
    assert!(matches!(
        topic.partition(HERE),
        Err(crate::topics::Absent::Elsewhere)
    ));
    assert_eq!(topic.here().count(), 1, "the one that is followed");
    produce(&mut bench, 1, &[HERE]);
    let response = produced(&mut bench).expect("refused at once");
    let refused = leader(&response.responses[0].partition_responses[0]);
    assert_eq!(refused, (ErrorCode::NotLeaderOrFollower, 2, 6));
}
