//! Replicas that have far to go: beside those that keep up, and throttled.

use std::time::Duration;

use wire::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::{AlterPartitionReassignmentsRequest, IncrementalAlterConfigsRequest};

use super::nodes::*;

/// It has far to go.
const BIG: &str = "big";
const SMALL: &str = "small";
const MIN_ISR: (&str, &str) = ("min.insync.replicas", "2");
const VALUE_BYTES: usize = 200_000;
const VALUES: usize = 40;

fn reassign(nodes: &Nodes, name: &str, replicas: &[i32]) {
    let request = AlterPartitionReassignmentsRequest {
        topics: vec![ReassignableTopic {
            name: name.to_owned(),
            partitions: vec![ReassignablePartition {
                partition_index: 0,
                replicas: Some(replicas.to_vec()),
            }],
        }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    nodes.patiently(1, &request, 0, |answer| {
        answer
            .error_code
            .max(answer.responses[0].partitions[0].error_code)
    });
}

/// Sets, or with no value removes, a setting of a topic (2) or a broker (4).
fn set(nodes: &Nodes, (resource_type, resource): (i8, &str), name: &str, value: Option<&str>) {
    let request = IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type,
            resource_name: resource.to_owned(),
            configs: vec![AlterableConfig {
                name: name.to_owned(),
                config_operation: i8::from(value.is_none()),
                value: value.map(str::to_owned),
            }],
        }],
        ..Default::default()
    };
    nodes.patiently(1, &request, 1, |answer| answer.responses[0].error_code);
}

/// Nodes 1 and 2 with a big log, far from node 3.
fn with_big(seed: u64) -> Nodes {
    let nodes = Nodes::start(seed);
    nodes.create_on(BIG, &[1, 2], &[MIN_ISR]);
    for _ in 0..VALUES {
        nodes.produce(1, BIG, &"x".repeat(VALUE_BYTES));
    }
    nodes
}

fn is_in_sync(nodes: &Nodes, name: &str) -> bool {
    nodes.isr(1, name).is_some_and(|isr| isr.contains(&3))
}

/// The time that a record takes until it is committed.
fn commit_time(nodes: &Nodes) -> Duration {
    let began = nodes.now();
    nodes.produce(1, SMALL, "value");
    nodes.now().since(began)
}

/// The time that three of four take at most: some syncs take a hundred times as long, whatever else there is.
fn most(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() * 3 / 4]
}

#[test]
fn a_rebuild_does_not_hold_what_is_committed_beside_it() {
    let nodes = with_big(71);
    nodes.create_on(SMALL, &[1, 3], &[MIN_ISR]);
    nodes.delay(Duration::from_millis(5));
    (0..5).for_each(|_| assert_ne!(commit_time(&nodes), Duration::ZERO));
    let alone = most((0..30).map(|_| commit_time(&nodes)).collect());
    reassign(&nodes, BIG, &[1, 2, 3]);
    let mut times = Vec::new();
    while !is_in_sync(&nodes, BIG) {
        times.push(commit_time(&nodes));
        assert!(times.len() < 2_000, "the rebuild does not end");
    }
    let count = times.len();
    assert!(count > 20, "it was over after {count} records");
    let beside = most(times);
    assert!(beside <= alone * 2, "{beside:?}, alone {alone:?}");
}

/// The time that the rebuild of node 3 takes.
fn rebuild_time(nodes: &Nodes) -> Duration {
    let began = nodes.now();
    reassign(nodes, BIG, &[1, 2, 3]);
    nodes.until(|nodes| Some(is_in_sync(nodes, BIG)));
    nodes.now().since(began)
}

const TOPIC: i8 = 2;
const BROKER: i8 = 4;

fn throttle(nodes: &Nodes, side: &str, broker: Node, replicas: &str, rate: Option<&str>) {
    let rate_name = format!("{side}.replication.throttled.rate");
    set(nodes, (BROKER, &broker.to_string()), &rate_name, rate);
    let replicas = rate.map(|_| replicas);
    let name = format!("{side}.replication.throttled.replicas");
    set(nodes, (TOPIC, BIG), &name, replicas);
}

#[test]
fn a_throttle_holds_its_rate_at_either_side() {
    let bytes = (VALUES * VALUE_BYTES) as u32;
    for (seed, side, broker, replicas) in [
        (72, "leader", 1, "0:1,0:2"),
        (73, "leader", 1, "*"),
        (74, "follower", 3, "0:3"),
        (75, "follower", 3, "*"),
    ] {
        let nodes = with_big(seed);
        throttle(&nodes, side, broker, replicas, Some("2000000"));
        // A second of the rate may go at once, and one answer more.
        let took = rebuild_time(&nodes);
        let least = Duration::from_secs_f64(f64::from(bytes - 3_200_000) / 2e6);
        let most = Duration::from_secs_f64(f64::from(bytes) / 2e6 * 1.2 + 1.0);
        assert!(least <= took, "{side} {replicas}: {took:?}, not {least:?}");
        assert!(took <= most, "{side} {replicas}: {took:?}, not {most:?}");
    }
}

#[test]
fn replicas_that_are_not_named_go_at_full_speed() {
    let nodes = with_big(76);
    throttle(&nodes, "leader", 1, "0:2,1:1", Some("1000"));
    throttle(&nodes, "follower", 3, "0:1,1:3", Some("1000"));
    let took = rebuild_time(&nodes);
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn a_throttle_that_is_taken_away_lets_go_what_it_held() {
    for (seed, side, broker) in [(77, "leader", 1), (78, "follower", 3)] {
        let nodes = with_big(seed);
        throttle(&nodes, side, broker, "*", Some("1000"));
        reassign(&nodes, BIG, &[1, 2, 3]);
        nodes.pass(Duration::from_secs(30));
        assert!(!is_in_sync(&nodes, BIG), "{side}: nothing held it");
        throttle(&nodes, side, broker, "*", None);
        nodes.within(Duration::from_secs(4), |nodes| Some(is_in_sync(nodes, BIG)));
    }
}

#[test]
fn replicas_in_sync_are_not_held_by_a_throttle() {
    let nodes = with_big(79);
    for node in ALL {
        throttle(&nodes, "leader", node, "*", Some("1"));
        throttle(&nodes, "follower", node, "*", Some("1"));
    }
    for _ in 0..10 {
        let began = nodes.now();
        nodes.produce(1, BIG, &"x".repeat(VALUE_BYTES));
        let took = nodes.now().since(began);
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
    assert_eq!(nodes.isr(1, BIG).map(|isr| isr.len()), Some(2));
}
