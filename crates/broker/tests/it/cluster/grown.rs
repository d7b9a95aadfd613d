//! Settings that a new cluster begins with, stops that nobody answers, and clocks that differ.

use std::time::Duration;

use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::describe_configs_request::DescribeConfigsResource;
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::{
    CreateTopicsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest, ProduceRequest,
};

use super::nodes::*;

const MIN_ISR: &str = "min.insync.replicas";
const TOPIC: &str = "t";

/// The value of a setting of all brokers, and the number that the protocol has for where it comes from.
fn of_cluster(nodes: &Nodes, name: &str) -> (Option<String>, i8) {
    let request = DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type: 4,
            resource_name: String::new(),
            configuration_keys: Some(vec![name.to_owned()]),
        }],
        ..Default::default()
    };
    let answer = nodes.patiently(1, &request, 4, |answer| answer.results[0].error_code);
    let found = answer.results[0].configs.first();
    found.map_or((None, -1), |found| {
        (found.value.clone(), found.config_source)
    })
}

fn of_topic(nodes: &Nodes, name: &str) -> Option<String> {
    let request = DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type: 2,
            resource_name: TOPIC.to_owned(),
            configuration_keys: Some(vec![name.to_owned()]),
        }],
        ..Default::default()
    };
    let answer = nodes.patiently(1, &request, 4, |answer| answer.results[0].error_code);
    answer.results[0].configs.first()?.value.clone()
}

fn create(nodes: &Nodes) {
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: TOPIC.to_owned(),
            num_partitions: 1,
            replication_factor: -1,
            ..Default::default()
        }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    nodes.patiently(1, &request, 7, |answer| answer.topics[0].error_code);
    nodes.until(|nodes| Some(nodes.isr(1, TOPIC)?.len() == 3));
}

#[test]
fn a_new_cluster_of_three_wants_two_replicas_in_sync_and_anybody_may_change_it() {
    let nodes = Nodes::start_with(51, &[(MIN_ISR, "")]);
    let dynamic_default = 3;
    assert_eq!(
        of_cluster(&nodes, MIN_ISR),
        (Some("2".to_owned()), dynamic_default)
    );
    create(&nodes);
    assert_eq!(of_topic(&nodes, MIN_ISR).as_deref(), Some("2"));
    let request = IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: 4,
            resource_name: String::new(),
            configs: vec![AlterableConfig {
                name: MIN_ISR.to_owned(),
                config_operation: 0,
                value: Some("1".to_owned()),
            }],
        }],
        ..Default::default()
    };
    nodes.patiently(1, &request, 1, |answer| answer.responses[0].error_code);
    nodes.until(|nodes| Some(of_topic(nodes, MIN_ISR)? == "1"));
}

#[test]
fn a_cluster_begins_with_the_minimum_that_its_operator_set() {
    let nodes = Nodes::start_with(52, &[(MIN_ISR, "3")]);
    assert_eq!(of_cluster(&nodes, MIN_ISR).0.as_deref(), Some("3"));
    let nodes = Nodes::start_with(53, &[(MIN_ISR, ""), ("default.replication.factor", "2")]);
    assert_eq!(of_cluster(&nodes, MIN_ISR).0.as_deref(), Some("1"));
}

/// A produce request with a long time-out waited for replicas that were gone, and kept the process for as long.
#[test]
fn the_last_node_stops_soon_though_requests_wait_for_the_others() {
    let mut nodes = Nodes::start(54);
    nodes.create_on(TOPIC, &[1, 2, 3], &[(MIN_ISR, "3")]);
    nodes.produce(1, TOPIC, "before");
    nodes.kill(2);
    nodes.kill(3);
    let waiting = ProduceRequest {
        timeout_ms: 60_000,
        ..produced(TOPIC, 0, "waits")
    };
    let conn = nodes.send(1, &waiting, 9);
    nodes.pass(Duration::from_millis(300));
    let took = nodes.stop(1);
    assert!(took < Duration::from_secs(9), "it took {took:?}");
    drop(conn);
}
