//! Brokers that die, and who leads then.

use std::time::Duration;

use wire::messages::CreateTopicsRequest;
use wire::messages::create_topics_request::CreatableTopic;

use super::isr::active;
use super::nodes::*;

const TOPIC: &str = "t";
/// A silent broker has 9 seconds, one whose process is gone none.
const SOON: Duration = Duration::from_secs(1);
/// And the controller that finds it out has to be elected first.
const SOON_ELECTED: Duration = Duration::from_secs(3);

fn create(nodes: &Nodes) {
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: TOPIC.to_owned(),
            num_partitions: 6,
            replication_factor: 3,
            ..Default::default()
        }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    nodes.patiently(1, &request, 7, |answer| answer.topics[0].error_code);
    for node in ALL {
        nodes.until(|nodes| Some(nodes.leaders(node, TOPIC)?.len() == 6));
    }
}

/// True once the others of `dead` know that it leads nothing, and that something leads everything.
fn is_settled(nodes: &Nodes, dead: Node) -> Option<bool> {
    let mut settled = true;
    for node in ALL.into_iter().filter(|node| *node != dead) {
        let leaders = nodes.leaders(node, TOPIC)?;
        settled &= leaders
            .iter()
            .all(|leader| 0 < *leader && *leader != i32::from(dead));
    }
    Some(settled)
}

#[test]
fn a_broker_whose_process_is_gone_leads_nothing_at_once() {
    let mut nodes = Nodes::start(21);
    create(&nodes);
    let active = active(&nodes).expect("three voters have one");
    let dead = ALL.into_iter().find(|node| *node != active);
    let dead = dead.expect("two others");
    nodes.kill(dead);
    nodes.within(SOON, |nodes| is_settled(nodes, dead));
    // It is let in again, and then leads nothing until it is asked to.
    nodes.start_one(dead);
    nodes.until(|nodes| Some(nodes.metadata(dead)?.brokers.len() == 3));
    assert_eq!(is_settled(&nodes, dead), Some(true));
}

#[test]
fn a_controller_that_dies_takes_its_own_leaderships_along_for_no_longer_than_an_election() {
    let mut nodes = Nodes::start(22);
    create(&nodes);
    let dead = active(&nodes).expect("three voters have one");
    nodes.kill(dead);
    nodes.within(SOON_ELECTED, |nodes| is_settled(nodes, dead));
}
