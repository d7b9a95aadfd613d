//! Partitions that move to other brokers.

use std::time::Duration;

use wire::messages::AlterPartitionReassignmentsRequest;
use wire::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};

use super::isr::active;
use super::nodes::*;

const TOPIC: &str = "quiet";
/// The leader hears of a change so much later than the others.
const LATE: Duration = Duration::from_millis(200);
/// Several times as much, and no time that anything waits for in vain.
const SOON: Duration = Duration::from_secs(3);

fn reassign(nodes: &Nodes, by: Node, to: &[Node]) {
    let request = AlterPartitionReassignmentsRequest {
        timeout_ms: 10_000,
        topics: vec![ReassignableTopic {
            name: TOPIC.to_owned(),
            partitions: vec![ReassignablePartition {
                partition_index: 0,
                replicas: Some(to.iter().map(|node| i32::from(*node)).collect()),
            }],
        }],
        ..Default::default()
    };
    nodes.patiently(by, &request, 0, |answer| answer.error_code);
}

/// The new replica asks the leader before that knows of it, has nothing to sync, and no record comes that would make it speak again.
#[test]
fn an_empty_partition_moves_though_its_leader_hears_of_it_last() {
    let nodes = Nodes::start(81);
    let active = active(&nodes).expect("three voters have one");
    let mut others = ALL.into_iter().filter(|node| *node != active);
    let (leader, next) = (others.next(), others.next());
    let (leader, next) = (leader.expect("one"), next.expect("another"));
    nodes.create_on(TOPIC, &[leader, active], &[]);
    nodes.slow_down(active, leader, LATE);
    reassign(&nodes, active, &[leader, next]);
    let expected = [leader, next].map(i32::from);
    nodes.within(SOON, |nodes| {
        let mut isr = nodes.isr(active, TOPIC)?;
        isr.sort_unstable();
        Some(isr == expected)
    });
}
