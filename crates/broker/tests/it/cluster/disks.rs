//! Disks that fail, fill up or get slow on one of three nodes: others lead what is there, and only that.

use std::time::Duration;

use wire::messages::alter_replica_log_dirs_request::{AlterReplicaLogDir, AlterReplicaLogDirTopic};
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::{AlterReplicaLogDirsRequest, CreateTopicsRequest};

use super::isr::active;
use super::nodes::*;
use super::preferred::elect;

const TOPIC: &str = "t";
const COUNT: usize = 12;
const SECOND: &str = "/data2";

/// Three nodes with two directories each, a topic with records in all partitions, and a node that is not the active controller.
fn started(seed: u64) -> (Nodes, Node) {
    let nodes = Nodes::start_with(seed, &[("log.dirs", "/data,/data2")]);
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: TOPIC.to_owned(),
            num_partitions: COUNT as i32,
            replication_factor: 3,
            ..Default::default()
        }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    nodes.patiently(1, &request, 7, |answer| answer.topics[0].error_code);
    for node in ALL {
        nodes.until(|nodes| Some(nodes.leaders(node, TOPIC)?.len() == COUNT));
    }
    produce_to_all(&nodes, 1, "value");
    let active = active(&nodes).expect("three voters have one");
    let node = ALL.into_iter().find(|node| *node != active);
    (nodes, node.expect("two others"))
}

fn produce_to_all(nodes: &Nodes, asked: Node, value: &str) {
    for index in 0..COUNT {
        nodes.produce_to(asked, TOPIC, index as i32, value);
    }
}

fn other(node: Node) -> Node {
    node % 3 + 1
}

/// Of the partitions of a node those in its second directory.
fn in_second(nodes: &Nodes, node: Node) -> Vec<usize> {
    nodes.until(|nodes| {
        let first = nodes.dirs_of(node, TOPIC);
        Some(first.len() + nodes.dirs_in(SECOND, node, TOPIC).len() == COUNT)
    });
    let names = nodes.dirs_in(SECOND, node, TOPIC).into_iter();
    let numbers = names.filter_map(|name| name.rsplit_once('-')?.1.parse().ok());
    numbers.collect()
}

fn leaders(nodes: &Nodes, asked: Node) -> Vec<i32> {
    nodes.leaders(asked, TOPIC).expect("it was created")
}

#[test]
fn a_directory_that_fails_takes_the_leaderships_of_its_partitions_along_and_no_others() {
    let (nodes, node) = started(51);
    let (asked, me) = (other(node), i32::from(node));
    let second = in_second(&nodes, node);
    let before = leaders(&nodes, asked);
    let hit = second.iter().copied().find(|at| before[*at] == me);
    let hit = hit.expect("leaders are spread over directories");
    let machine = nodes.machine(node);
    let syncs = machine.counts().syncs;
    machine.faults(|faults| faults.sync_fails_at = Some(syncs + 1));
    let began = nodes.now();
    nodes.produce_to(asked, TOPIC, hit as i32, "after");
    let took = nodes.now().since(began);
    assert!(took < Duration::from_secs(2), "{took:?}");
    let is_moved = |nodes: &Nodes| {
        let now = nodes.leaders(asked, TOPIC)?;
        Some(second.iter().all(|at| 0 < now[*at] && now[*at] != me))
    };
    nodes.within(Duration::from_secs(1), is_moved);
    let isrs = nodes.isrs(asked, TOPIC).expect("it was created");
    for (at, leader) in leaders(&nodes, asked).into_iter().enumerate() {
        let is_hit = second.contains(&at);
        assert_eq!(isrs[at].contains(&me), !is_hit, "partition {at}");
        assert!(is_hit || leader == before[at], "partition {at}");
    }
    produce_to_all(&nodes, asked, "later");
}

#[test]
fn a_full_disk_gives_up_its_leaderships_and_counts_again_when_it_has_room() {
    let (nodes, node) = started(52);
    let (asked, me) = (other(node), i32::from(node));
    let machine = nodes.machine(node);
    let taken = machine.disk_taken();
    machine.faults(|faults| faults.disk_bytes = taken);
    for round in 0..3 {
        produce_to_all(&nodes, asked, &format!("{round}"));
    }
    let is_relieved = |nodes: &Nodes| {
        let leaders = nodes.leaders(asked, TOPIC)?;
        let isrs = nodes.isrs(asked, TOPIC)?;
        let leads_none = leaders.iter().all(|leader| 0 < *leader && *leader != me);
        Some(leads_none && isrs.iter().all(|isr| !isr.contains(&me)))
    };
    nodes.until(is_relieved);
    machine.faults(|faults| faults.disk_bytes = 1 << 40);
    nodes.until(|nodes| {
        let isrs = nodes.isrs(asked, TOPIC)?;
        Some(isrs.iter().all(|isr| isr.len() == 3))
    });
}

#[test]
fn a_disk_whose_syncs_take_seconds_leads_nothing_until_it_was_well_for_a_while() {
    let (nodes, node) = started(53);
    let (asked, me) = (other(node), i32::from(node));
    let machine = nodes.machine(node);
    let mut slow = 3_000_000_000..3_000_000_001;
    machine.faults(|faults| std::mem::swap(&mut faults.sync_nanos, &mut slow));
    let before = leaders(&nodes, asked);
    let led = before.iter().position(|leader| *leader == me);
    let led = led.expect("leaders are spread");
    nodes.produce_to(asked, TOPIC, led as i32, "slow");
    let is_relieved = |nodes: &Nodes| {
        let isrs = nodes.isrs(asked, TOPIC)?;
        Some(nodes.leaders(asked, TOPIC)?[led] != me && !isrs[led].contains(&me))
    };
    nodes.until(is_relieved);
    let began = nodes.now();
    nodes.produce_to(asked, TOPIC, led as i32, "fast");
    let took = nodes.now().since(began);
    assert!(took < Duration::from_millis(500), "{took:?}");
    machine.faults(|faults| std::mem::swap(&mut faults.sync_nanos, &mut slow));
    let began = nodes.now();
    nodes.until(|nodes| Some(nodes.isrs(asked, TOPIC)?[led].len() == 3));
    let took = nodes.now().since(began);
    assert!(Duration::from_secs(6) < took, "{took:?}");
}

fn are_whole(nodes: &Nodes, asked: Node) -> Option<bool> {
    let isrs = nodes.isrs(asked, TOPIC)?;
    Some(isrs.iter().all(|isr| isr.len() == 3))
}

/// The leaders of before, which a broker can be again only where the metadata name a directory that it has.
fn lead_again(nodes: &Nodes, asked: Node, before: &[i32]) {
    let all: Vec<i32> = (0..COUNT as i32).collect();
    nodes.until(|nodes| {
        elect(nodes, asked, &all);
        Some(nodes.leaders(asked, TOPIC)? == before)
    });
    produce_to_all(nodes, asked, "led again");
}

#[test]
fn a_directory_that_was_replaced_is_filled_again_by_the_other_replicas() {
    for (seed, gone) in [(54, &[SECOND][..]), (55, &["/data", SECOND])] {
        let (mut nodes, node) = started(seed);
        let asked = other(node);
        let before = leaders(&nodes, asked);
        nodes.stop(node);
        for path in gone {
            nodes.replace_dir(node, path);
        }
        nodes.start_one(node);
        nodes.until(|nodes| are_whole(nodes, asked));
        let second = in_second(&nodes, node);
        assert!(!second.is_empty(), "the emptiest directory has some");
        lead_again(&nodes, asked, &before);
        nodes.stop(node);
        nodes.start_one(node);
        nodes.until(|nodes| are_whole(nodes, asked));
        assert_eq!(in_second(&nodes, node), second);
    }
}

#[test]
fn a_replica_moves_to_another_directory_on_every_broker() {
    let (mut nodes, node) = started(56);
    let before = leaders(&nodes, node);
    for node in ALL {
        let all: Vec<i32> = (0..COUNT as i32).collect();
        let topics = vec![AlterReplicaLogDirTopic {
            name: TOPIC.to_owned(),
            partitions: all,
        }];
        let dirs = vec![AlterReplicaLogDir {
            path: SECOND.to_owned(),
            topics,
        }];
        nodes.ask(node, &AlterReplicaLogDirsRequest { dirs }, 2);
        let (first, second) = (
            |nodes: &Nodes| nodes.dirs_of(node, TOPIC),
            |nodes: &Nodes| nodes.dirs_in(SECOND, node, TOPIC),
        );
        nodes.until(|nodes| Some(second(nodes).len() == COUNT && first(nodes).is_empty()));
    }
    produce_to_all(&nodes, node, "moved");
    nodes.stop(node);
    nodes.start_one(node);
    nodes.until(|nodes| are_whole(nodes, other(node)));
    assert_eq!(in_second(&nodes, node).len(), COUNT);
    lead_again(&nodes, other(node), &before);
}
