//! Records that are deleted at a leader, and the leader that comes after it.

use std::time::Duration;

use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::{CreateTopicsRequest, DeleteRecordsRequest, ListOffsetsRequest};

use super::nodes::*;

const TOPIC: &str = "t";
const EARLIEST: i64 = -2;

fn start_of(nodes: &Nodes, node: Node) -> Option<i64> {
    let request = ListOffsetsRequest {
        topics: vec![ListOffsetsTopic {
            name: TOPIC.to_owned(),
            partitions: vec![ListOffsetsPartition {
                partition_index: 0,
                current_leader_epoch: -1,
                timestamp: EARLIEST,
            }],
        }],
        ..Default::default()
    };
    let answer = nodes.ask(node, &request, 7)?;
    let partition = &answer.topics[0].partitions[0];
    (partition.error_code == 0).then_some(partition.offset)
}

#[test]
fn records_that_were_deleted_do_not_come_back_with_the_next_leader() {
    let mut nodes = Nodes::start(28);
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: TOPIC.to_owned(),
            num_partitions: 1,
            replication_factor: 3,
            ..Default::default()
        }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    nodes.patiently(1, &request, 7, |answer| answer.topics[0].error_code);
    nodes.until(|nodes| Some(nodes.leaders(1, TOPIC)?.len() == 1));
    for value in ["a", "b", "c"] {
        nodes.produce_to(1, TOPIC, 0, value);
    }
    let leader = nodes.leaders(1, TOPIC).expect("it was created")[0];
    let leader = Node::try_from(leader).expect("one of three");
    assert_eq!(nodes.isr(leader, TOPIC).map(|isr| isr.len()), Some(3));
    let request = DeleteRecordsRequest {
        topics: vec![DeleteRecordsTopic {
            name: TOPIC.to_owned(),
            partitions: vec![DeleteRecordsPartition {
                partition_index: 0,
                offset: 2,
            }],
        }],
        timeout_ms: 10_000,
    };
    let begun = nodes.now();
    let deleted = nodes.ask(leader, &request, 2).expect("it answers");
    let told = &deleted.topics[0].partitions[0];
    assert_eq!((told.error_code, told.low_watermark), (0, 2));
    let took = nodes.now().since(begun);
    assert!(took < Duration::from_secs(1), "it took {took:?}");
    nodes.kill(leader);
    let mut others = ALL.into_iter().filter(|node| *node != leader);
    let asked = others.next().expect("two others");
    let next = |nodes: &Nodes| Node::try_from(nodes.leaders(asked, TOPIC)?[0]).ok();
    nodes.until(|nodes| Some(next(nodes)? != leader));
    let next = next(&nodes).expect("another leads");
    nodes.until(|nodes| Some(start_of(nodes, next).is_some()));
    assert_eq!(start_of(&nodes, next), Some(2));
}
