//! The last replica in sync dies (KIP-966): it leads again if it lost nothing, and else nobody does by itself.

use std::time::Duration;

use wire::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopic};
use wire::messages::elect_leaders_request::TopicPartitions;
use wire::messages::{BrokerHeartbeatRequest, CreateTopicsRequest, ElectLeadersRequest};

use super::isr::{PLAYED, active, join};
use super::nodes::*;

const TOPIC: &str = "last";

/// A topic whose only replica in sync is on `node`: the other one, on a broker that the test plays, is fenced.
fn create(nodes: &Nodes, active: Node, node: Node) {
    let broker_epoch = join(nodes, active);
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: TOPIC.to_owned(),
            num_partitions: -1,
            replication_factor: -1,
            assignments: vec![CreatableReplicaAssignment {
                partition_index: 0,
                broker_ids: vec![i32::from(node), PLAYED],
            }],
            ..Default::default()
        }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    nodes.patiently(active, &request, 7, |answer| answer.topics[0].error_code);
    let beat = BrokerHeartbeatRequest {
        broker_id: PLAYED,
        broker_epoch,
        current_metadata_offset: i64::MAX,
        want_fence: true,
        ..Default::default()
    };
    let heard = nodes.patiently(active, &beat, 1, |answer| answer.error_code);
    assert!(heard.is_fenced);
    nodes.until(|nodes| Some(isr(nodes, active)? == [i32::from(node)]));
}

fn isr(nodes: &Nodes, asked: Node) -> Option<Vec<i32>> {
    let told = nodes.metadata(asked)?;
    let mut topics = told.topics.into_iter();
    let topic = topics.find(|topic| topic.name.as_deref() == Some(TOPIC))?;
    Some(topic.partitions.first()?.isr_nodes.clone())
}

fn leader(nodes: &Nodes, asked: Node) -> Option<i32> {
    nodes.leaders(asked, TOPIC)?.first().copied()
}

/// Of each node; the first has the metadata.
const DIRS: [&str; 3] = ["/data", "/data1", "/data2"];

/// The cluster, its active controller, and the node with the last replica, which was killed.
fn killed(seed: u64) -> (Nodes, Node, Node) {
    let mut nodes = Nodes::start_with(seed, &[("log.dirs", "/data,/data1,/data2")]);
    let active = active(&nodes).expect("three voters have one");
    let last = ALL.into_iter().find(|node| *node != active);
    let last = last.expect("two others");
    create(&nodes, active, last);
    nodes.produce(last, TOPIC, "value");
    nodes.until(|nodes| Some(dir_of_last(nodes, last).is_some()));
    nodes.kill(last);
    nodes.until(|nodes| Some(leader(nodes, active)? == -1));
    assert_eq!(isr(&nodes, active), Some(Vec::new()));
    (nodes, active, last)
}

fn dir_of_last(nodes: &Nodes, node: Node) -> Option<&'static str> {
    let has_it = |dir: &&str| !nodes.dirs_in(dir, node, TOPIC).is_empty();
    DIRS.into_iter().find(has_it)
}

#[test]
fn the_last_replica_in_sync_leads_again_after_a_kill() {
    let (mut nodes, active, last) = killed(31);
    nodes.start_one(last);
    nodes.until(|nodes| Some(leader(nodes, active)? == i32::from(last)));
    assert_eq!(isr(&nodes, active), Some(vec![i32::from(last)]));
}

#[test]
fn one_that_may_have_lost_something_leads_when_an_operator_says_so() {
    let (mut nodes, active, last) = killed(32);
    let own = dir_of_last(&nodes, last).expect("its log is there");
    nodes.remove_file(last, &format!("{own}/esker.epoch"));
    nodes.start_one(last);
    nodes.until(|nodes| Some(nodes.metadata(last)?.brokers.len() == 3));
    nodes.pass(Duration::from_secs(15));
    assert_eq!(leader(&nodes, active), Some(-1));
    let request = ElectLeadersRequest {
        election_type: 1,
        topic_partitions: Some(vec![TopicPartitions {
            topic: TOPIC.to_owned(),
            partitions: vec![0],
        }]),
        timeout_ms: 10_000,
    };
    nodes.patiently(active, &request, 2, |answer| {
        answer.replica_election_results[0].partition_result[0].error_code
    });
    nodes.until(|nodes| Some(leader(nodes, active)? == i32::from(last)));
}

#[test]
fn a_replica_leads_again_though_another_directory_of_its_broker_is_missing() {
    let (mut nodes, active, last) = killed(33);
    let in_use = [Some(DIRS[0]), dir_of_last(&nodes, last)];
    let missing = DIRS.into_iter().find(|dir| !in_use.contains(&Some(dir)));
    nodes.break_dir(last, missing.expect("there are three"));
    nodes.start_one(last);
    nodes.until(|nodes| Some(leader(nodes, active)? == i32::from(last)));
    assert_eq!(isr(&nodes, active), Some(vec![i32::from(last)]));
}
