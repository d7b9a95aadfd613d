//! Brokers that die, and who leads then.

use std::time::Duration;

use wire::ErrorCode;
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::OffsetFetchRequestTopic;
use wire::messages::{
    CreateTopicsRequest, DeleteRecordsRequest, FetchRequest, ListOffsetsRequest,
    OffsetCommitRequest, OffsetFetchRequest, ProduceRequest,
};

use super::isr::active;
use super::nodes::*;

const TOPIC: &str = "t";
/// Of a broker whose process lives.
const SESSION: Duration = Duration::from_secs(9);
/// A silent broker has 9 seconds, one whose process is gone none.
const SOON: Duration = Duration::from_secs(1);
/// And the controller that finds it out has to be elected first.
const SOON_ELECTED: Duration = Duration::from_secs(3);
/// Runs of an election, and how long the longest takes until a change is committed again.
const SEEDS: u64 = 20;
const BACK: Duration = Duration::from_secs(1);
/// A broker that stops stays for so long, so that its clients find the others.
const FAREWELL: Duration = Duration::from_secs(1);

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

/// The system closes the connections of a process that was killed before its listener now and then: the dial that is to find out
/// whether it lives stands, and breaks.
#[test]
fn a_process_that_is_still_ending_when_it_is_dialled_leads_nothing_soon() {
    let mut nodes = Nodes::start(27);
    create(&nodes);
    let active = active(&nodes).expect("three voters have one");
    let dead = ALL.into_iter().find(|node| *node != active);
    let dead = dead.expect("two others");
    let mut ending = nodes.kill_but_for_listener(dead);
    let mut is_dialled = false;
    for _ in 0..100 {
        nodes.pass(Duration::from_millis(1));
        is_dialled |= ending.accept(None).is_ok_and(|socket| socket.is_some());
        if is_dialled {
            break;
        }
    }
    assert!(is_dialled, "the controller dials whom it lost sight of");
    drop(ending);
    nodes.kill(dead);
    nodes.within(SOON, |nodes| is_settled(nodes, dead));
}

#[test]
fn a_controller_that_dies_takes_its_own_leaderships_along_for_no_longer_than_an_election() {
    let mut nodes = Nodes::start(22);
    create(&nodes);
    let dead = active(&nodes).expect("three voters have one");
    nodes.kill(dead);
    nodes.within(SOON_ELECTED, |nodes| is_settled(nodes, dead));
}

#[test]
fn a_broker_that_is_asked_to_stop_hands_its_leaderships_on_first_and_is_not_waited_for() {
    let mut nodes = Nodes::start(25);
    create(&nodes);
    let active = active(&nodes).expect("three voters have one");
    let leaves = ALL.into_iter().find(|node| *node != active);
    let leaves = leaves.expect("two others");
    let took = nodes.stop(leaves);
    assert!(
        took < FAREWELL + Duration::from_millis(300),
        "it took {took:?}"
    );
    let is_settled = is_settled(&nodes, leaves);
    assert_eq!(is_settled, Some(true), "others knew before it went");
    nodes.start_one(leaves);
    nodes.until(|nodes| Some(nodes.metadata(leaves)?.brokers.len() == 3));
}

#[test]
fn a_controller_that_is_asked_to_stop_hands_on_its_leaderships_and_its_leadership() {
    let mut nodes = Nodes::start(26);
    create(&nodes);
    let leaves = active(&nodes).expect("three voters have one");
    let took = nodes.stop(leaves);
    assert!(took < FAREWELL + Duration::from_secs(1), "it took {took:?}");
    nodes.within(SOON, |nodes| is_settled(nodes, leaves));
}

/// The answer of a node about the end of a partition.
fn end(nodes: &Nodes, node: Node, index: usize) -> ErrorCode {
    let request = ListOffsetsRequest {
        topics: vec![ListOffsetsTopic {
            name: TOPIC.to_owned(),
            partitions: vec![ListOffsetsPartition {
                partition_index: i32::try_from(index).expect("one of six"),
                current_leader_epoch: -1,
                timestamp: -1,
            }],
        }],
        ..Default::default()
    };
    let answer = nodes.ask(node, &request, 7).expect("clients reach it");
    ErrorCode::try_from(answer.topics[0].partitions[0].error_code).expect("a code")
}

#[test]
fn a_leader_that_is_cut_off_is_silent_before_others_lead_and_until_it_is_heard_again() {
    let nodes = Nodes::start(23);
    create(&nodes);
    let active = active(&nodes).expect("three voters have one");
    let lost = ALL.into_iter().find(|node| *node != active);
    let lost = lost.expect("two others");
    let leaders = nodes.leaders(active, TOPIC).expect("it was created");
    let led = leaders.iter().position(|leader| *leader == i32::from(lost));
    let led = led.expect("leaders are spread");
    assert_eq!(end(&nodes, lost, led), ErrorCode::None);
    nodes.cut_off(lost);
    let mut silent = 0;
    loop {
        let leaders = nodes.leaders(active, TOPIC).expect("it is well");
        let is_replaced = leaders[led] != i32::from(lost);
        let code = end(&nodes, lost, led);
        if code == ErrorCode::NotLeaderOrFollower {
            silent += 1;
        } else {
            assert_eq!((code, silent), (ErrorCode::None, 0));
            assert!(!is_replaced, "two speak as leaders");
        }
        if is_replaced {
            break;
        }
        nodes.pass(Duration::from_millis(50));
    }
    assert!(2 < silent, "it keeps a distance");
    nodes.mend();
    // It is let in again, and is a leader once it is asked to be.
    let index = leaders
        .iter()
        .position(|leader| *leader == i32::from(active));
    let index = index.expect("leaders are spread");
    assert_eq!(end(&nodes, active, index), ErrorCode::None);
    nodes.until(|nodes| Some(nodes.leaders(lost, TOPIC)?[led] != i32::from(lost)));
}

/// Clients waited for their own time to be up, although others led long before.
#[test]
fn requests_that_wait_at_a_leader_that_is_cut_off_are_answered_when_it_falls_silent() {
    let nodes = Nodes::start(29);
    create(&nodes);
    let active = active(&nodes).expect("three voters have one");
    let lost = ALL.into_iter().find(|node| *node != active);
    let lost = lost.expect("two others");
    let leaders = nodes.leaders(active, TOPIC).expect("it was created");
    let led = leaders.iter().position(|leader| *leader == i32::from(lost));
    let led = led.expect("leaders are spread");
    let index = i32::try_from(led).expect("one of six");
    nodes.produce_to(active, TOPIC, index, "before");
    nodes.cut_off(lost);
    let patience = 60_000;
    let produced = ProduceRequest {
        timeout_ms: patience,
        ..produced(TOPIC, index, "nobody else has it")
    };
    let trimmed = DeleteRecordsRequest {
        topics: vec![DeleteRecordsTopic {
            name: TOPIC.to_owned(),
            partitions: vec![DeleteRecordsPartition {
                partition_index: index,
                offset: 1,
            }],
        }],
        timeout_ms: patience,
    };
    let fetched = FetchRequest {
        replica_id: -1,
        max_wait_ms: patience,
        min_bytes: 1,
        max_bytes: 1 << 20,
        session_epoch: -1,
        topics: vec![FetchTopic {
            topic: TOPIC.to_owned(),
            partitions: vec![FetchPartition {
                partition: index,
                fetch_offset: 1,
                partition_max_bytes: 1 << 20,
                current_leader_epoch: -1,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let append = nodes.send(lost, &produced, 9);
    let trim = nodes.send(lost, &trimmed, 2);
    let fetch = nodes.send(lost, &fetched, 12);
    let began = nodes.now();
    let append = nodes.receive::<ProduceRequest>(append, 9);
    let took = nodes.now().since(began);
    assert!(took < SESSION, "it took {took:?}");
    let append = append.expect("an answer").responses;
    let trim = nodes.receive::<DeleteRecordsRequest>(trim, 2);
    let fetch = nodes.receive::<FetchRequest>(fetch, 12);
    let codes = [
        append[0].partition_responses[0].error_code,
        trim.expect("an answer").topics[0].partitions[0].error_code,
        fetch.expect("an answer").responses[0].partitions[0].error_code,
    ];
    assert_eq!(codes, [ErrorCode::NotLeaderOrFollower.code(); 3]);
    let named = nodes.leaders(lost, TOPIC).expect("clients reach it");
    assert_eq!(named[led], -1, "it sends no client to itself");
}

/// All of them stood still. The leader refused what it had appended and what came until it was heard again, some 100 ms later: clients took that
/// for a promise that nothing was stored, and librdkafka stored it again under another epoch of its producer.
#[test]
fn a_leader_that_stood_still_with_the_others_refuses_nothing_before_it_is_heard() {
    let nodes = Nodes::start(31);
    let active = active(&nodes).expect("three voters have one");
    let mut others = ALL.into_iter().filter(|node| *node != active);
    let (leader, follower) = (others.next(), others.next());
    let (leader, follower) = (leader.expect("one"), follower.expect("another"));
    nodes.create_on(
        "still",
        &[leader, follower, active],
        &[("min.insync.replicas", "2")],
    );
    nodes.until(|nodes| Some(nodes.isr(active, "still")?.len() == 3));
    nodes.produce(leader, "still", "heard by all");
    let append = |value| ProduceRequest {
        timeout_ms: 60_000,
        ..produced("still", 0, value)
    };
    let pause = SESSION + Duration::from_secs(3);
    for node in [active, follower] {
        nodes.machine(node).pause(pause);
    }
    let waits = nodes.send(leader, &append("appended"), 9);
    nodes.pass(Duration::from_millis(50));
    nodes.machine(leader).pause(pause);
    let comes = nodes.send(leader, &append("not read"), 9);
    nodes.pass(pause);
    for conn in [waits, comes] {
        let answer = nodes.receive::<ProduceRequest>(conn, 9).expect("an answer");
        let code = answer.responses[0].partition_responses[0].error_code;
        assert_eq!(code, ErrorCode::None.code());
    }
}

/// The controller hears both, and nobody is fenced: appends waited for the follower for as long as it may lag, 30 s and more.
#[test]
fn a_follower_that_its_leader_does_not_hear_stalls_appends_for_some_seconds_alone() {
    let nodes = Nodes::start(30);
    let active = active(&nodes).expect("three voters have one");
    let mut others = ALL.into_iter().filter(|node| *node != active);
    let (leader, follower) = (others.next(), others.next());
    let (leader, follower) = (leader.expect("one"), follower.expect("another"));
    nodes.create_on(
        "parted",
        &[leader, follower, active],
        &[("min.insync.replicas", "2")],
    );
    nodes.until(|nodes| Some(nodes.isr(active, "parted")?.len() == 3));
    nodes.produce(leader, "parted", "heard by all");
    nodes.part(leader, follower);
    let began = nodes.now();
    nodes.produce(leader, "parted", "heard by two");
    let took = nodes.now().since(began);
    assert!(took < Duration::from_secs(14), "it took {took:?}");
    let began = nodes.now();
    nodes.produce(leader, "parted", "and no more waited for");
    let took = nodes.now().since(began);
    assert!(took < SOON, "it took {took:?}");
    // It comes back as soon as it is heard, and has everything.
    nodes.mend();
    nodes.until(|nodes| Some(nodes.isr(active, "parted")?.len() == 3));
}

#[test]
fn a_leader_that_is_cut_off_for_a_while_goes_on() {
    let nodes = Nodes::start(24);
    create(&nodes);
    let active = active(&nodes).expect("three voters have one");
    let lost = ALL.into_iter().find(|node| *node != active);
    let lost = lost.expect("two others");
    let leaders = nodes.leaders(active, TOPIC).expect("it was created");
    let led = leaders.iter().position(|leader| *leader == i32::from(lost));
    let led = led.expect("leaders are spread");
    nodes.cut_off(lost);
    nodes.pass(Duration::from_secs(3));
    assert_eq!(end(&nodes, lost, led), ErrorCode::None);
    nodes.mend();
    for _ in 0..200 {
        assert_eq!(end(&nodes, lost, led), ErrorCode::None);
        nodes.pass(Duration::from_millis(50));
    }
    assert_eq!(nodes.leaders(active, TOPIC), Some(leaders));
}

fn commit(nodes: &Nodes, node: Node, group: &str, offset: i64) {
    let request = OffsetCommitRequest {
        group_id: group.to_owned(),
        generation_id_or_member_epoch: -1,
        topics: vec![OffsetCommitRequestTopic {
            name: TOPIC.to_owned(),
            partitions: vec![OffsetCommitRequestPartition {
                committed_offset: offset,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    nodes.patiently(node, &request, 8, |answer| {
        answer.topics[0].partitions[0].error_code
    });
}

/// The offset that the group has committed, as a node says.
fn committed(nodes: &Nodes, node: Node, group: &str) -> Result<i64, ErrorCode> {
    let request = OffsetFetchRequest {
        group_id: group.to_owned(),
        topics: Some(vec![OffsetFetchRequestTopic {
            name: TOPIC.to_owned(),
            partition_indexes: vec![0],
        }]),
        ..Default::default()
    };
    let answer = nodes.ask(node, &request, 5).expect("clients reach it");
    match ErrorCode::try_from(answer.error_code).expect("a code") {
        ErrorCode::None => Ok(answer.topics[0].partitions[0].committed_offset),
        code => Err(code),
    }
}

/// A group with a committed offset of 1 whose coordinator is not the active controller.
fn group_beside(nodes: &Nodes, active: Node) -> (String, Node) {
    let mut names = (0..100).map(|number| format!("g{number}"));
    let group = names.find(|name| nodes.coordinator(active, 0, name) != active);
    let group = group.expect("coordinators are spread");
    let coordinator = nodes.coordinator(active, 0, &group);
    commit(nodes, coordinator, &group, 1);
    assert_eq!(committed(nodes, coordinator, &group), Ok(1));
    (group, coordinator)
}

/// Its state may be behind that of another one by then: offsets would go back, an earlier transaction pass for the one that ends.
#[test]
fn a_coordinator_that_is_cut_off_is_silent_before_another_answers() {
    let nodes = Nodes::start(27);
    create(&nodes);
    let active = active(&nodes).expect("three voters have one");
    let (group, lost) = group_beside(&nodes, active);
    nodes.cut_off(lost);
    let mut silent = 0;
    loop {
        let is_replaced = nodes.coordinator(active, 0, &group) != lost;
        match committed(&nodes, lost, &group) {
            Ok(offset) => assert_eq!((offset, silent, is_replaced), (1, 0, false)),
            Err(code) => {
                assert_eq!(code, ErrorCode::NotCoordinator);
                silent += 1;
            }
        }
        if is_replaced {
            break;
        }
        nodes.pass(Duration::from_millis(50));
    }
    assert!(2 < silent, "it keeps a distance");
    let next = nodes.coordinator(active, 0, &group);
    commit(&nodes, next, &group, 2);
    assert_eq!(
        committed(&nodes, lost, &group),
        Err(ErrorCode::NotCoordinator)
    );
    nodes.mend();
    nodes.until(|nodes| Some(nodes.coordinator(lost, 0, &group) == next));
    assert_eq!(committed(&nodes, next, &group), Ok(2));
}

/// Its heartbeats are answered, but its disk stands still, and its metadata with it: they have it lead what others lead by then.
#[test]
fn a_coordinator_whose_disk_stands_still_is_silent_once_another_answers() {
    let nodes = Nodes::start(28);
    create(&nodes);
    let active = active(&nodes).expect("three voters have one");
    let (group, slow) = group_beside(&nodes, active);
    // Longer than the test.
    let machine = nodes.machine(slow);
    machine.faults(|faults| faults.sync_nanos = 60_000_000_000..60_000_000_001);
    nodes.until(|nodes| Some(nodes.coordinator(active, 0, &group) != slow));
    let next = nodes.coordinator(active, 0, &group);
    commit(&nodes, next, &group, 2);
    for _ in 0..20 {
        let told = committed(&nodes, slow, &group);
        assert_eq!(told, Err(ErrorCode::NotCoordinator));
        nodes.pass(Duration::from_millis(100));
    }
    assert_eq!(committed(&nodes, next, &group), Ok(2));
}

/// Timers and messages alone, on disks and a network that are quick: what a busy machine adds comes on top.
#[test]
fn another_controller_writes_within_a_second_of_the_end_of_the_one_before() {
    for seed in 0..SEEDS {
        let mut nodes = Nodes::start(3_000 + seed);
        create(&nodes);
        let dead = active(&nodes).expect("three voters have one");
        let alive = ALL.into_iter().find(|node| *node != dead);
        let alive = alive.expect("two others");
        nodes.kill(dead);
        let began = nodes.now();
        let request = CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name: "after".to_owned(),
                num_partitions: 1,
                replication_factor: 2,
                ..Default::default()
            }],
            timeout_ms: 10_000,
            ..Default::default()
        };
        nodes.patiently(alive, &request, 7, |answer| answer.topics[0].error_code);
        let took = nodes.now().since(began);
        assert!(took < BACK, "seed {seed}: it took {took:?}");
    }
}
