//! Replicas that follow and answer readers: consumers near them (KIP-392), and tools that compare replicas.

use std::time::Duration;

use model::Timestamp;
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::messages::fetch_response::PartitionData;
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::{CreateTopicsRequest, FetchRequest, ListOffsetsRequest, ProduceRequest};
use wire::records::{Batch, BatchBuilder, Source};
use wire::{ErrorCode, Records, Uuid};

use super::nodes::*;

const TOPIC: &str = "t";
const CONSUMER: i32 = -1;
const COMPARISON: i32 = -2;
/// A replica that Kafka moves to another directory.
const FUTURE: i32 = -3;
/// The last version that names topics.
const FETCH: i16 = 12;

/// Nodes with a topic of one partition on all of them; its leader, and the others.
pub(super) fn replicated(nodes: Nodes) -> (Nodes, Node, Vec<Node>) {
    create(&nodes, 1);
    let leader = nodes.leaders(1, TOPIC).expect("it was created")[0];
    let leader = Node::try_from(leader).expect("one of three");
    let others = ALL.into_iter().filter(|node| *node != leader).collect();
    (nodes, leader, others)
}

pub(super) fn create(nodes: &Nodes, partitions: i32) {
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: TOPIC.to_owned(),
            num_partitions: partitions,
            replication_factor: 3,
            ..Default::default()
        }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    nodes.patiently(1, &request, 7, |answer| answer.topics[0].error_code);
    for node in ALL {
        nodes.until(|nodes| Some(nodes.leaders(node, TOPIC)?.iter().all(|leader| 0 < *leader)));
    }
}

fn produced(value: &str, acks: i16) -> ProduceRequest {
    let mut batch = BatchBuilder::new();
    batch.push(Timestamp(7), None, Some(value.as_bytes()), &[]);
    ProduceRequest {
        acks,
        timeout_ms: 5_000,
        topic_data: vec![TopicProduceData {
            name: TOPIC.to_owned(),
            topic_id: Uuid::ZERO,
            partition_data: vec![PartitionProduceData {
                index: 0,
                records: Some(batch.build().to_bytes().into()),
            }],
        }],
        ..Default::default()
    }
}

/// Appends a record that all replicas have when it is acknowledged.
pub(super) fn produce(nodes: &Nodes, leader: Node, value: &str) {
    let request = produced(value, -1);
    nodes.patiently(leader, &request, 12, |answer| {
        answer.responses[0].partition_responses[0].error_code
    });
}

pub(super) fn fetch(replica_id: i32, from: i64, wait: Duration) -> FetchRequest {
    FetchRequest {
        replica_id,
        max_wait_ms: i32::try_from(wait.as_millis()).expect("a short time"),
        min_bytes: 1,
        max_bytes: 1 << 20,
        session_epoch: -1,
        topics: vec![FetchTopic {
            topic: TOPIC.to_owned(),
            partitions: vec![FetchPartition {
                fetch_offset: from,
                partition_max_bytes: 1 << 20,
                current_leader_epoch: -1,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

pub(super) fn part(answer: wire::messages::FetchResponse) -> PartitionData {
    let mut topics = answer.responses.into_iter();
    let topic = topics.next().expect("one was asked for");
    topic.partitions.into_iter().next().expect("of one")
}

/// The code of an answer, and the offsets that it brought.
fn told(data: PartitionData) -> (ErrorCode, Vec<i64>) {
    let code = ErrorCode::try_from(data.error_code).expect("a code");
    let Some(Records::Bytes(bytes)) = data.records else {
        return (code, Vec::new());
    };
    let batches = Batch::cut(&bytes, Source::Log).map(|batch| batch.expect("whole"));
    (code, batches.map(|batch| batch.base_offset().0).collect())
}

fn read(
    nodes: &Nodes,
    node: Node,
    from: i64,
    replica_id: i32,
    version: i16,
) -> (ErrorCode, Vec<i64>) {
    let request = fetch(replica_id, from, Duration::ZERO);
    let answer = nodes.ask(node, &request, version).expect("an answer");
    told(part(answer))
}

fn end(nodes: &Nodes, node: Node, replica_id: i32) -> (ErrorCode, i64) {
    let request = ListOffsetsRequest {
        replica_id,
        topics: vec![ListOffsetsTopic {
            name: TOPIC.to_owned(),
            partitions: vec![ListOffsetsPartition {
                partition_index: 0,
                current_leader_epoch: -1,
                timestamp: -1,
            }],
        }],
        ..Default::default()
    };
    let answer = nodes.ask(node, &request, 7).expect("an answer");
    let told = &answer.topics[0].partitions[0];
    let code = ErrorCode::try_from(told.error_code).expect("a code");
    (code, told.offset)
}

/// Waits until a follower knows so much to be committed.
fn await_committed(nodes: &Nodes, node: Node, offset: i64) {
    nodes.until(|nodes| {
        let request = fetch(CONSUMER, 0, Duration::ZERO);
        let answer = nodes.ask(node, &request, FETCH)?;
        Some(part(answer).high_watermark == offset)
    });
}

#[test]
fn a_follower_shows_what_is_committed_to_new_consumers_and_to_tools() {
    let (nodes, leader, others) = replicated(Nodes::start(41));
    for value in ["a", "b", "c"] {
        produce(&nodes, leader, value);
    }
    let none = ErrorCode::None;
    for node in others {
        await_committed(&nodes, node, 3);
        assert_eq!(read(&nodes, node, 1, CONSUMER, FETCH), (none, vec![1, 2]));
        assert_eq!(read(&nodes, node, 3, CONSUMER, FETCH), (none, vec![]));
        let (code, _) = read(&nodes, node, 4, CONSUMER, FETCH);
        assert_eq!(code, ErrorCode::OffsetOutOfRange);
        // Before version 11 a client does not know that it may be sent to a follower.
        let (code, _) = read(&nodes, node, 1, CONSUMER, 10);
        assert_eq!(code, ErrorCode::NotLeaderOrFollower);
        assert_eq!(read(&nodes, node, 1, COMPARISON, 10), (none, vec![1, 2]));
        assert_eq!(read(&nodes, node, 1, COMPARISON, FETCH), (none, vec![1, 2]));
        assert_eq!(end(&nodes, node, COMPARISON), (none, 3));
        let (code, _) = end(&nodes, node, CONSUMER);
        assert_eq!(code, ErrorCode::NotLeaderOrFollower);
    }
    assert_eq!(end(&nodes, leader, CONSUMER), (none, 3));
    assert_eq!(read(&nodes, leader, 2, COMPARISON, FETCH), (none, vec![2]));
}

/// Replica ids below -1 are of no broker (Kafka's `FetchRequest.isConsumer`), and one above is believed of a peer alone.
#[test]
fn what_is_not_committed_is_shown_to_no_client() {
    let (mut nodes, leader, others) = replicated(Nodes::start(42));
    produce(&nodes, leader, "a");
    for node in others {
        await_committed(&nodes, node, 1);
        nodes.kill(node);
    }
    let request = produced("b", 1);
    let answer = nodes.ask(leader, &request, 12).expect("an answer");
    assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
    let none = ErrorCode::None;
    for id in [CONSUMER, COMPARISON, FUTURE, -9] {
        for version in [10, FETCH] {
            let told = read(&nodes, leader, 1, id, version);
            assert_eq!(told, (none, vec![]), "{id} in {version}");
        }
        assert_eq!(end(&nodes, leader, id), (none, 1), "{id}");
    }
}

#[test]
fn a_consumer_that_waits_at_a_follower_hears_of_what_is_committed() {
    let (nodes, leader, others) = replicated(Nodes::start(43));
    produce(&nodes, leader, "a");
    let node = others[0];
    await_committed(&nodes, node, 1);
    let request = fetch(CONSUMER, 1, Duration::from_secs(8));
    let waiting = nodes.send(node, &request, FETCH);
    nodes.pass(Duration::from_millis(200));
    let began = nodes.now();
    produce(&nodes, leader, "b");
    let answer = nodes
        .receive::<FetchRequest>(waiting, FETCH)
        .expect("an answer");
    assert_eq!(told(part(answer)), (ErrorCode::None, vec![1]));
    let took = nodes.now().since(began);
    assert!(took < Duration::from_secs(1), "it took {took:?}");
}

/// Nodes in racks of their own, whose leaders send consumers to replicas near them.
fn in_racks(node: Node) -> Vec<(&'static str, String)> {
    let selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector";
    vec![
        ("broker.rack", format!("r{node}")),
        ("replica.selector.class", selector.to_owned()),
    ]
}

/// The replica that a consumer in `rack` is sent to, and the offsets that it is given.
fn sent(nodes: &Nodes, leader: Node, rack: &str, from: i64, version: i16) -> (i32, Vec<i64>) {
    let mut request = fetch(CONSUMER, from, Duration::from_secs(5));
    request.rack_id = rack.to_owned();
    let answer = nodes.ask(leader, &request, version).expect("an answer");
    let data = part(answer);
    let nearest = data.preferred_read_replica;
    let (code, offsets) = told(data);
    assert_eq!(code, ErrorCode::None);
    (nearest, offsets)
}

#[test]
fn a_leader_sends_consumers_to_a_live_replica_in_their_rack_that_has_what_they_ask_for() {
    let (mut nodes, leader, others) = replicated(Nodes::start_each(44, in_racks));
    produce(&nodes, leader, "a");
    produce(&nodes, leader, "b");
    let near = others[0];
    let (rack, own) = (format!("r{near}"), format!("r{leader}"));
    let sent = |nodes: &Nodes, rack: &str, from| self::sent(nodes, leader, rack, from, FETCH);
    assert_eq!(sent(&nodes, &rack, 0), (i32::from(near), vec![]));
    let began = nodes.now();
    assert_eq!(
        sent(&nodes, &rack, 2),
        (i32::from(near), vec![]),
        "it waits there"
    );
    assert!(nodes.now().since(began) < Duration::from_secs(1));
    assert_eq!(sent(&nodes, &own, 0), (-1, vec![0, 1]));
    assert_eq!(sent(&nodes, "elsewhere", 0), (-1, vec![0, 1]));
    assert_eq!(sent(&nodes, "", 0), (-1, vec![0, 1]));
    // It is in sync for a while yet, and does not have what it has not fetched.
    nodes.kill(near);
    nodes.until(|nodes| Some(nodes.metadata(leader)?.brokers.len() == 2));
    assert_eq!(sent(&nodes, &rack, 0), (-1, vec![0, 1]), "it is fenced");
}

#[test]
fn leaders_serve_everybody_themselves_unless_they_are_told_to_look_at_racks() {
    let nodes = Nodes::start_each(45, |node| vec![("broker.rack", format!("r{node}"))]);
    let (nodes, leader, others) = replicated(nodes);
    produce(&nodes, leader, "a");
    let rack = format!("r{}", others[0]);
    assert_eq!(sent(&nodes, leader, &rack, 0, FETCH), (-1, vec![0]));
}
