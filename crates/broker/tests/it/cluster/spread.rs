//! Partitions and coordinators on three brokers, one replica each.

use std::time::Duration;

use model::{ProducerEpoch, ProducerId, Sequence, Timestamp};
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::delete_topics_request::DeleteTopicState;
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use wire::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, DescribeTransactionsRequest, EndTxnRequest,
    InitProducerIdRequest, ListOffsetsRequest, OffsetFetchRequest, ProduceRequest,
    TxnOffsetCommitRequest,
};
use wire::records::BatchBuilder;
use wire::{ErrorCode, Uuid};

use super::nodes::*;

const TOPIC: &str = "t";
const GROUP: &str = "g";
/// Versions of the clients of today but for topics by their names.
const PRODUCE: i16 = 12;
const TXN: i16 = 5;

fn topic(replication_factor: i16) -> CreateTopicsRequest {
    CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: TOPIC.to_owned(),
            num_partitions: 6,
            replication_factor,
            ..Default::default()
        }],
        timeout_ms: 10_000,
        ..Default::default()
    }
}

fn create(nodes: &Nodes, by: Node) {
    let request = topic(1);
    nodes.patiently(by, &request, 7, |answer| answer.topics[0].error_code);
    for node in ALL {
        nodes.until(|nodes| Some(nodes.leaders(node, TOPIC)?.len() == 6));
    }
}

fn init(nodes: &Nodes, node: Node, transactional_id: Option<&str>) -> i64 {
    let request = InitProducerIdRequest {
        transactional_id: transactional_id.map(str::to_owned),
        transaction_timeout_ms: 60_000,
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    };
    let begun = nodes.patiently(node, &request, TXN, |answer| answer.error_code);
    begun.producer_id
}

fn produce(id: &str, producer: i64, index: i32) -> ProduceRequest {
    let mut batch = BatchBuilder::new()
        .producer(ProducerId(producer), ProducerEpoch(0), Sequence(0))
        .transactional();
    batch.push(Timestamp::NONE, None, Some(b"value"), &[]);
    ProduceRequest {
        transactional_id: Some(id.to_owned()),
        acks: -1,
        timeout_ms: 5_000,
        topic_data: vec![TopicProduceData {
            name: TOPIC.to_owned(),
            topic_id: Uuid::ZERO,
            partition_data: vec![PartitionProduceData {
                index,
                records: Some(batch.build().to_bytes().into()),
            }],
        }],
    }
}

/// Where readers of committed records come to an end. A marker may be there more than once: the next coordinator writes it again.
fn stable_end(nodes: &Nodes, leader: Node, index: i32) -> Option<i64> {
    let request = ListOffsetsRequest {
        replica_id: -1,
        isolation_level: 1,
        topics: vec![ListOffsetsTopic {
            name: TOPIC.to_owned(),
            partitions: vec![ListOffsetsPartition {
                partition_index: index,
                current_leader_epoch: -1,
                timestamp: -1,
            }],
        }],
        ..Default::default()
    };
    let answer = nodes.ask(leader, &request, 7)?;
    let partition = &answer.topics[0].partitions[0];
    (partition.error_code == 0).then_some(partition.offset)
}

fn state(nodes: &Nodes, coordinator: Node, id: &str) -> Option<String> {
    let request = DescribeTransactionsRequest {
        transactional_ids: vec![id.to_owned()],
    };
    let answer = nodes.ask(coordinator, &request, 0)?;
    Some(answer.transaction_states[0].transaction_state.clone())
}

fn end(id: &str, producer_id: i64) -> EndTxnRequest {
    EndTxnRequest {
        transactional_id: id.to_owned(),
        producer_id,
        committed: true,
        ..Default::default()
    }
}

/// An id whose transactions `wanted` coordinates.
fn id_of(nodes: &Nodes, wanted: impl Fn(Node) -> bool) -> (String, Node) {
    let ids = (0..).map(|number| format!("x{number}"));
    let mut found = ids.map(|id| {
        let node = nodes.coordinator(1, 1, &id);
        (id, node)
    });
    found
        .find(|(_, node)| wanted(*node))
        .expect("there are more")
}

/// The first partition of each leader, by node.
fn places(nodes: &Nodes) -> [(Node, i32); 3] {
    let leaders = nodes.leaders(1, TOPIC).expect("it was created");
    ALL.map(|node| {
        let index = leaders.iter().position(|leader| *leader == i32::from(node));
        let index = index.expect("partitions are spread");
        (node, i32::try_from(index).expect("one of six"))
    })
}

fn produce_to_all(nodes: &Nodes, id: &str, producer: i64, places: &[(Node, i32)]) {
    for (leader, index) in places {
        let request = produce(id, producer, *index);
        nodes.patiently(*leader, &request, PRODUCE, |answer| {
            answer.responses[0].partition_responses[0].error_code
        });
    }
}

#[test]
fn partitions_are_spread_and_other_brokers_name_their_leader() {
    let nodes = Nodes::start(1);
    let refused = nodes.ask(1, &topic(4), 7).expect("an answer");
    let code = ErrorCode::InvalidReplicationFactor.code();
    assert_eq!(refused.topics[0].error_code, code, "there are three");
    create(&nodes, 2);
    let leaders = nodes.leaders(3, TOPIC).expect("it was created");
    for node in ALL {
        let led = leaders.iter().filter(|leader| **leader == i32::from(node));
        assert_eq!(led.count(), 2, "{leaders:?}");
    }
    let [(first, _), (other, index), _] = places(&nodes);
    let mut request = produce("", -1, index);
    request.transactional_id = None;
    let mut batch = BatchBuilder::new();
    batch.push(Timestamp::NONE, None, Some(b"value"), &[]);
    let records = batch.build().to_bytes();
    request.topic_data[0].partition_data[0].records = Some(records.into());
    let refused = nodes.ask(first, &request, PRODUCE).expect("an answer");
    let partition = &refused.responses[0].partition_responses[0];
    assert_eq!(partition.error_code, ErrorCode::NotLeaderOrFollower.code());
    assert_eq!(partition.current_leader.leader_id, i32::from(other));
    assert_eq!(refused.node_endpoints[0].node_id, i32::from(other));
    // A partition has a directory from its first record on, where it is led and nowhere else.
    for (leader, index) in places(&nodes) {
        request.topic_data[0].partition_data[0].index = index;
        nodes.patiently(leader, &request, PRODUCE, |answer| {
            answer.responses[0].partition_responses[0].error_code
        });
    }
    for (leader, index) in places(&nodes) {
        let own = [format!("{TOPIC}-{index}")];
        nodes.until(|nodes| Some(nodes.dirs_of(leader, TOPIC) == own));
    }

    let mut ids: Vec<i64> = Vec::new();
    for round in 0..2 {
        ids.extend(ALL.map(|node| init(&nodes, node, None)));
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 3 * (round + 1), "no producer id is given twice");
    }

    let delete = DeleteTopicsRequest {
        topics: vec![DeleteTopicState {
            name: Some(TOPIC.to_owned()),
            ..Default::default()
        }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    nodes.patiently(first, &delete, 6, |answer| answer.responses[0].error_code);
    for node in ALL {
        nodes.until(|nodes| Some(nodes.dirs_of(node, TOPIC).is_empty()));
    }
}

#[test]
fn a_transaction_over_three_brokers_ends_in_all_of_them() {
    let nodes = Nodes::start(2);
    create(&nodes, 1);
    let groups = nodes.coordinator(2, 0, GROUP);
    let (id, coordinator) = id_of(&nodes, |node| node != groups);
    let places = places(&nodes);
    let producer = init(&nodes, coordinator, Some(&id));
    produce_to_all(&nodes, &id, producer, &places);
    let commit = TxnOffsetCommitRequest {
        transactional_id: id.clone(),
        group_id: GROUP.to_owned(),
        producer_id: producer,
        generation_id_or_member_epoch: -1,
        topics: vec![TxnOffsetCommitRequestTopic {
            name: TOPIC.to_owned(),
            partitions: vec![TxnOffsetCommitRequestPartition {
                committed_offset: 5,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    nodes.patiently(groups, &commit, TXN, |answer| {
        answer.topics[0].partitions[0].error_code
    });
    for (leader, index) in places {
        assert_eq!(stable_end(&nodes, leader, index), Some(0), "it is open");
    }
    let ended = nodes.patiently(coordinator, &end(&id, producer), TXN, |answer| {
        answer.error_code
    });
    assert_eq!((ended.producer_id, ended.producer_epoch), (producer, 1));
    for (leader, index) in places {
        nodes.until(|nodes| Some(2 <= stable_end(nodes, leader, index)?));
    }
    nodes.until(|nodes| Some(state(nodes, coordinator, &id)? == "CompleteCommit"));
    let fetch = OffsetFetchRequest {
        groups: vec![OffsetFetchRequestGroup {
            group_id: GROUP.to_owned(),
            member_epoch: -1,
            topics: Some(vec![OffsetFetchRequestTopics {
                name: TOPIC.to_owned(),
                partition_indexes: vec![0],
                ..Default::default()
            }]),
            ..Default::default()
        }],
        ..Default::default()
    };
    let fetched = nodes.patiently(groups, &fetch, 9, |answer| answer.groups[0].error_code);
    let offset = fetched.groups[0].topics[0].partitions[0].committed_offset;
    assert_eq!(offset, 5);
}

/// No other node takes over from a coordinator that dies.
const COORDINATOR_STAYS: (&str, &str) = ("transaction.state.log.replication.factor", "1");

#[test]
fn a_transaction_ends_when_a_broker_that_died_in_it_is_back() {
    let mut nodes = Nodes::start_with(3, &[COORDINATOR_STAYS]);
    create(&nodes, 1);
    let places = places(&nodes);
    let (lost, index) = places[2];
    let (id, coordinator) = id_of(&nodes, |node| node != lost);
    let producer = init(&nodes, coordinator, Some(&id));
    produce_to_all(&nodes, &id, producer, &places);
    nodes.kill(lost);
    nodes.patiently(coordinator, &end(&id, producer), TXN, |answer| {
        answer.error_code
    });
    nodes.pass(Duration::from_secs(3));
    let told = state(&nodes, coordinator, &id);
    assert_eq!(told.as_deref(), Some("PrepareCommit"), "it waits for it");
    nodes.start_one(lost);
    nodes.until(|nodes| Some(2 <= stable_end(nodes, lost, index)?));
    nodes.until(|nodes| Some(state(nodes, coordinator, &id)? == "CompleteCommit"));

    // And when its coordinator did, with the decision in its log.
    let producer = init(&nodes, coordinator, Some(&id));
    let again: Vec<_> = places
        .iter()
        .map(|(leader, index)| (*leader, *index))
        .collect();
    let epoch = 2;
    for (leader, index) in &again {
        let mut batch = BatchBuilder::new()
            .producer(ProducerId(producer), ProducerEpoch(epoch), Sequence(0))
            .transactional();
        batch.push(Timestamp::NONE, None, Some(b"value"), &[]);
        let mut request = produce(&id, producer, *index);
        let records = batch.build().to_bytes();
        request.topic_data[0].partition_data[0].records = Some(records.into());
        nodes.patiently(*leader, &request, PRODUCE, |answer| {
            answer.responses[0].partition_responses[0].error_code
        });
    }
    nodes.kill(lost);
    let request = EndTxnRequest {
        producer_epoch: epoch,
        ..end(&id, producer)
    };
    nodes.patiently(coordinator, &request, TXN, |answer| answer.error_code);
    nodes.kill(coordinator);
    nodes.start_one(lost);
    nodes.start_one(coordinator);
    for (leader, index) in again {
        nodes.until(|nodes| Some(4 <= stable_end(nodes, leader, index)?));
    }
    nodes.until(|nodes| Some(state(nodes, coordinator, &id)? == "CompleteCommit"));
}

/// The topic is younger than that of the transactions: a coordinator that comes back could know the one and not yet the other.
#[test]
fn a_coordinator_that_comes_back_leaves_no_partition_open_that_its_first_metadata_do_not_name() {
    let mut nodes = Nodes::start_with(4, &[COORDINATOR_STAYS]);
    let (id, coordinator) = id_of(&nodes, |_| true);
    create(&nodes, 1);
    let places = places(&nodes).map(|(leader, index)| (leader, index));
    let (lost, index) =
        *(places.iter().find(|(leader, _)| *leader != coordinator)).expect("two others");
    let producer = init(&nodes, coordinator, Some(&id));
    produce_to_all(&nodes, &id, producer, &places);
    nodes.kill(lost);
    nodes.patiently(coordinator, &end(&id, producer), TXN, |answer| {
        answer.error_code
    });
    nodes.kill(coordinator);
    nodes.start_one(coordinator);
    nodes.pass(Duration::from_secs(5));
    nodes.start_one(lost);
    nodes.until(|nodes| Some(2 <= stable_end(nodes, lost, index)?));
    nodes.until(|nodes| Some(state(nodes, coordinator, &id)? == "CompleteCommit"));
}
