//! A name server that never answers, and a node that takes connections and says nothing: only the links that need them wait.

use std::time::Duration;

use wire::messages::CreateTopicsRequest;
use wire::messages::create_topics_request::CreatableTopic;

use super::nodes::*;

const TOPIC: &str = "t";
/// Longer than two sessions of a broker.
const LONG: Duration = Duration::from_secs(20);
/// An operation that waits for no link to the silent node.
const SOON: Duration = Duration::from_secs(1);
/// The other two know node 3 by its name alone.
const NAMED: [Node; 2] = [1, 2];

fn by_name(_: Node) -> Vec<(&'static str, String)> {
    let voters = "1@10.0.0.1:9092,2@10.0.0.2:9092,3@node-3:9092";
    vec![("controller.quorum.voters", voters.to_owned())]
}

fn by_name_advertised(node: Node) -> Vec<(&'static str, String)> {
    let mut settings = by_name(node);
    if node == 3 {
        let at = "PLAINTEXT://node-3:9092".to_owned();
        settings.push(("advertised.listeners", at));
    }
    settings
}

/// Node 1 knows itself by its name, as the others do; these are known by their addresses.
fn first_by_name(_: Node) -> Vec<(&'static str, String)> {
    let voters = "1@node-1:9092,2@10.0.0.2:9092,3@10.0.0.3:9092";
    vec![("controller.quorum.voters", voters.to_owned())]
}

/// The node of the two that is the active controller, and its epoch.
fn active(nodes: &Nodes) -> Option<(Node, model::LeaderEpoch)> {
    NAMED
        .into_iter()
        .find_map(|node| Some((node, nodes.leadership(node)?)))
}

/// Has a topic made through a node, which knows it then.
fn create(nodes: &Nodes, node: Node, name: &str) {
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: name.to_owned(),
            num_partitions: 1,
            replication_factor: 1,
            ..Default::default()
        }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    nodes.patiently(node, &request, 7, |answer| answer.topics[0].error_code);
    nodes.until(|nodes| Some(nodes.leaders(node, name)?.len() == 1));
}

/// Nodes 1 and 2 have a controller, and are all that is in sync of the topic.
fn are_in_sync(nodes: &Nodes) {
    for node in NAMED {
        nodes.until(|nodes| {
            let mut isr = nodes.isr(node, TOPIC)?;
            isr.sort_unstable();
            Some(isr == [1, 2] && active(nodes).is_some())
        });
    }
}

/// Nodes 1 and 2 have a controller, keep it, and do for clients what they are asked.
fn check_works(nodes: &Nodes) {
    are_in_sync(nodes);
    let before = active(nodes);
    let until = nodes.now().plus(LONG);
    let mut number = 0;
    while nodes.now() < until {
        for node in NAMED {
            number += 1;
            let began = nodes.now();
            create(nodes, node, &format!("new-{number}"));
            let leader = nodes.leaders(node, TOPIC).map(|leaders| leaders[0]);
            let leader = leader.and_then(|leader| Node::try_from(leader).ok());
            nodes.produce(leader.expect("one of the two leads it"), TOPIC, "value");
            let took = nodes.now().since(began);
            assert!(took < SOON, "operations through node {node} take {took:?}");
        }
        nodes.pass(Duration::from_millis(500));
    }
    assert_eq!(active(nodes), before, "the controller is another one");
    assert!(nodes.fenced(1).iter().all(|broker| *broker == 3));
}

#[test]
fn a_name_server_that_never_answers_holds_up_no_other_link() {
    for more in [by_name, by_name_advertised] {
        let mut nodes = Nodes::start_each(871, more);
        nodes.create_on(TOPIC, &[1, 2, 3], &[]);
        nodes.until(|nodes| Some(nodes.isr(1, TOPIC)?.len() == 3));
        nodes.kill(3);
        are_in_sync(&nodes);
        // They remember nothing of the time when the name server answered.
        for node in NAMED {
            let machine = nodes.machine(node);
            machine.faults(|faults| faults.name_server_is_silent = true);
            nodes.kill(node);
            nodes.start_one(node);
            are_in_sync(&nodes);
        }
        check_works(&nodes);
    }
}

#[test]
fn a_name_that_was_known_is_used_while_the_name_server_is_silent() {
    let mut nodes = Nodes::start_each(872, by_name_advertised);
    nodes.create_on(TOPIC, &[1, 2, 3], &[]);
    for node in NAMED {
        let machine = nodes.machine(node);
        machine.faults(|faults| faults.name_server_is_silent = true);
    }
    nodes.kill(3);
    check_works(&nodes);
    nodes.start_one(3);
    nodes.until(|nodes| Some(nodes.isr(1, TOPIC)?.len() == 3));
}

#[test]
fn a_node_that_takes_connections_and_says_nothing_holds_up_no_other_link() {
    let mut nodes = Nodes::start_each(873, by_name_advertised);
    nodes.create_on(TOPIC, &[1, 2, 3], &[]);
    let _listener = nodes.kill_but_for_listener(3);
    check_works(&nodes);
}

#[test]
fn a_node_stops_while_it_waits_for_a_name() {
    let mut nodes = Nodes::start_each(874, by_name);
    nodes.kill(3);
    let machine = nodes.machine(1);
    machine.faults(|faults| faults.name_server_is_silent = true);
    nodes.kill(1);
    nodes.start_one(1);
    nodes.until(|nodes| Some(nodes.metadata(1)?.brokers.len() >= 2));
    let took = nodes.stop(1);
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn a_controller_reaches_itself_though_it_cannot_look_up_its_own_name() {
    let mut nodes = Nodes::start_each(875, first_by_name);
    nodes.create_on(TOPIC, &[1, 2, 3], &[]);
    nodes.until(|nodes| Some(nodes.isr(1, TOPIC)?.len() == 3));
    let machine = nodes.machine(1);
    machine.faults(|faults| faults.name_server_is_silent = true);
    nodes.kill(1);
    nodes.start_one(1);
    nodes.kill(3);
    are_in_sync(&nodes);
    while nodes.leadership(1).is_none() {
        nodes.kill(2);
        nodes.start_one(2);
        are_in_sync(&nodes);
    }
    check_works(&nodes);
}
