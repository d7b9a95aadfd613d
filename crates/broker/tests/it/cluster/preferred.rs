//! Preferred leaders that come back: because an operator asks for it, and by themselves.

use std::time::Duration;

use wire::ErrorCode;
use wire::messages::ElectLeadersRequest;
use wire::messages::elect_leaders_request::TopicPartitions;

use super::isr::active;
use super::nodes::*;
use super::reads::create;

const TOPIC: &str = "t";
const PARTITIONS: i32 = 6;

/// The leaders of the topic after a broker that led some of them has come back and is in sync; the broker.
fn moved(nodes: &mut Nodes) -> (Vec<i32>, Node) {
    create(nodes, PARTITIONS);
    let preferred = nodes.leaders(1, TOPIC).expect("it was created");
    let active = active(nodes).expect("three voters have one");
    let dead = ALL.into_iter().find(|node| *node != active);
    let dead = dead.expect("two others");
    assert!(preferred.contains(&i32::from(dead)), "leaders are spread");
    nodes.kill(dead);
    nodes.until(|nodes| Some(!nodes.leaders(active, TOPIC)?.contains(&i32::from(dead))));
    nodes.start_one(dead);
    for node in ALL {
        nodes.until(|nodes| is_whole(nodes, node));
    }
    (preferred, dead)
}

/// True if all replicas of all partitions are in sync.
fn is_whole(nodes: &Nodes, node: Node) -> Option<bool> {
    let told = nodes.metadata(node)?;
    let topic = told
        .topics
        .into_iter()
        .find(|it| it.name.as_deref() == Some(TOPIC))?;
    Some(topic.partitions.iter().all(|it| it.isr_nodes.len() == 3))
}

pub(super) fn elect(nodes: &Nodes, node: Node, partitions: &[i32]) -> Vec<(i32, ErrorCode)> {
    let request = ElectLeadersRequest {
        election_type: 0,
        topic_partitions: Some(vec![TopicPartitions {
            topic: TOPIC.to_owned(),
            partitions: partitions.to_vec(),
        }]),
        timeout_ms: 10_000,
    };
    let answer = nodes.ask(node, &request, 2);
    let answer = answer.expect("an answer");
    assert_eq!(answer.error_code, 0);
    let results = answer.replica_election_results.into_iter();
    let results = results.flat_map(|topic| topic.partition_result);
    let code = |code: i16| ErrorCode::try_from(code).expect("a code");
    results
        .map(|one| (one.partition_id, code(one.error_code)))
        .collect()
}

#[test]
fn an_operator_has_preferred_leaders_back_through_any_broker() {
    let mut nodes = Nodes::start(51);
    let (preferred, back) = moved(&mut nodes);
    let all: Vec<i32> = (0..PARTITIONS).collect();
    let is_of = |index: &&i32| preferred[**index as usize] == i32::from(back);
    let (lost, kept): (Vec<i32>, Vec<i32>) = all.iter().partition(is_of);
    assert!(!lost.is_empty() && !kept.is_empty());
    let other = ALL.into_iter().find(|node| *node != back).expect("others");
    for (index, code) in elect(&nodes, other, &all) {
        let expected = if lost.contains(&index) {
            ErrorCode::None
        } else {
            ErrorCode::ElectionNotNeeded
        };
        assert_eq!(code, expected, "partition {index}");
    }
    for node in ALL {
        nodes.until(|nodes| Some(nodes.leaders(node, TOPIC)? == preferred));
    }
}

#[test]
fn preferred_leaders_come_back_by_themselves_once_it_is_time() {
    let mut nodes = Nodes::start_with(52, &[("leader.imbalance.check.interval.seconds", "30")]);
    let (preferred, _) = moved(&mut nodes);
    for node in ALL {
        nodes.until(|nodes| {
            nodes.pass(Duration::from_secs(1));
            Some(nodes.leaders(node, TOPIC)? == preferred)
        });
    }
}

#[test]
fn leaders_stay_where_they_are_if_they_are_to() {
    let settings = &[
        ("leader.imbalance.check.interval.seconds", "1"),
        ("auto.leader.rebalance.enable", "false"),
    ];
    let mut nodes = Nodes::start_with(53, settings);
    let (preferred, _) = moved(&mut nodes);
    let now = nodes.leaders(1, TOPIC);
    nodes.pass(Duration::from_secs(5));
    assert_eq!(nodes.leaders(1, TOPIC), now);
    assert_ne!(now, Some(preferred));
}
