//! Rot in the files of one replica is repaired from another, whoever leads, and no reader is given anything else meanwhile.

use std::path::PathBuf;
use std::time::Duration;

use env::disk::Open;
use env::sim::Rot;
use wire::messages::FetchRequest;
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::records::{Batch, Source};
use wire::{ErrorCode, Records};

use super::nodes::*;

const TOPIC: &str = "t";
const COUNT: usize = 40;
/// As a consumer, and as one that compares replicas.
const CONSUMER: i32 = -1;
const COMPARISON: i32 = -2;

/// No segment may be smaller than 1 MiB.
const VALUE_BYTES: usize = 50_000;

fn value(number: usize) -> String {
    format!("value {number:VALUE_BYTES$}")
}

/// A partition with these replicas, the first of which leads, and segments of some batches.
fn create(nodes: &Nodes, replicas: &[Node]) {
    nodes.create_on(TOPIC, replicas, &[("segment.bytes", "1048576")]);
    for number in 0..COUNT {
        nodes.produce(replicas[0], TOPIC, &value(number));
    }
    let all = COUNT as i64;
    for node in replicas {
        nodes.until(|nodes| Some(nodes.ends(*node, TOPIC)? == (0, all)));
    }
    // A segment that is closed in the files of all.
    nodes.pass(Duration::from_secs(30));
}

fn first_segment(nodes: &Nodes, node: Node) -> Vec<u8> {
    let disk = nodes.machine(node).env().disk;
    let file = disk.open(&path(0), Open::Read).expect("it is there");
    let mut bytes = vec![0; file.len().expect("a length") as usize];
    file.read_exact_at(&mut bytes, 0).expect("it is readable");
    bytes
}

fn path(base: u64) -> PathBuf {
    PathBuf::from(format!("/data/{TOPIC}-0/{base:020}.log"))
}

/// In the batch with this number.
fn rot(nodes: &Nodes, node: Node, batch: u64) {
    let at = batch * 50_100 + 500;
    let rotten = nodes
        .machine(node)
        .rot(&path(0), at..at + 1, Rot::Flip { bit: 3 });
    rotten.expect("it is there");
}

/// The batches that a node gives from an offset on.
fn fetch(nodes: &Nodes, node: Node, reader: i32, from: i64) -> Result<Vec<Batch>, ErrorCode> {
    let request = FetchRequest {
        replica_id: reader,
        max_bytes: 1 << 20,
        session_epoch: -1,
        topics: vec![FetchTopic {
            topic: TOPIC.to_owned(),
            partitions: vec![FetchPartition {
                partition: 0,
                fetch_offset: from,
                partition_max_bytes: 1 << 20,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let answer = nodes.ask(node, &request, 12).expect("an answer");
    let partition = &answer.responses[0].partitions[0];
    let code = ErrorCode::try_from(partition.error_code).expect("a code");
    if code != ErrorCode::None {
        return Err(code);
    }
    let Some(Records::Bytes(bytes)) = &partition.records else {
        return Ok(Vec::new());
    };
    let batches = Batch::cut(bytes, Source::Log);
    Ok(batches.map_while(Result::ok).collect())
}

/// Reads a replica from the begin to the end, as a reader does that asks again after errors which say so. Every batch is the right
/// one; the errors that came between.
fn read_all(nodes: &Nodes, node: Node, reader: i32) -> Vec<ErrorCode> {
    let (mut next, mut errors) = (0, Vec::new());
    while next < COUNT as i64 {
        match fetch(nodes, node, reader, next) {
            Ok(batches) => {
                assert!(!batches.is_empty(), "nothing at {next}");
                for batch in batches {
                    assert!(batch.is_intact());
                    assert_eq!(batch.base_offset().0, next);
                    let body = String::from_utf8_lossy(batch.body()).into_owned();
                    assert!(body.contains(&value(next as usize)), "{next}");
                    next = batch.next_offset().0;
                }
            }
            Err(code) => {
                errors.push(code);
                assert!(errors.len() < 100, "{errors:?}");
                nodes.pass(Duration::from_millis(100));
            }
        }
    }
    errors
}

fn is_retried(errors: &[ErrorCode]) -> bool {
    errors
        .iter()
        .all(|code| *code == ErrorCode::KafkaStorageError)
}

/// All nodes begin anew, so that nothing of the logs is in memory.
fn restart(nodes: &mut Nodes, harm: impl FnOnce(&Nodes)) {
    for node in ALL {
        nodes.stop(node);
    }
    harm(nodes);
    for node in ALL {
        nodes.start_one(node);
    }
    for node in ALL {
        nodes.until(|nodes| Some(nodes.isr(node, TOPIC)?.len() == 3));
    }
}

fn leader(nodes: &Nodes) -> Node {
    let leader = nodes.leaders(1, TOPIC).expect("it is there")[0];
    Node::try_from(leader).expect("one leads")
}

#[test]
fn a_leader_that_rots_is_repaired_and_its_consumers_only_wait() {
    let mut nodes = Nodes::start(51);
    create(&nodes, &[2, 1, 3]);
    restart(&mut nodes, |_| {});
    let leader = leader(&nodes);
    let truth = first_segment(&nodes, leader);
    rot(&nodes, leader, 2);
    rot(&nodes, leader, 7);
    let errors = read_all(&nodes, leader, CONSUMER);
    assert!(!errors.is_empty() && is_retried(&errors), "{errors:?}");
    assert!(first_segment(&nodes, leader) == truth);
}

#[test]
fn a_follower_that_rots_is_repaired_when_replicas_are_compared() {
    let mut nodes = Nodes::start(52);
    create(&nodes, &[2, 1, 3]);
    restart(&mut nodes, |_| {});
    let leader = leader(&nodes);
    let follower = ALL.into_iter().find(|node| *node != leader).expect("two");
    let truth = first_segment(&nodes, follower);
    rot(&nodes, follower, 3);
    // One that reads from the leader meets nothing.
    assert!(read_all(&nodes, leader, CONSUMER).is_empty());
    let errors = read_all(&nodes, follower, COMPARISON);
    assert!(!errors.is_empty() && is_retried(&errors), "{errors:?}");
    assert!(first_segment(&nodes, follower) == truth);
}

/// The scrub meets it, and nobody reads.
#[test]
fn rot_that_nobody_reads_is_repaired_in_time() {
    let mut nodes = Nodes::start(53);
    create(&nodes, &[2, 1, 3]);
    let truth = first_segment(&nodes, 3);
    restart(&mut nodes, |nodes| {
        ALL.into_iter()
            .for_each(|node| rot(nodes, node, 2 * u64::from(node)))
    });
    nodes.pass(Duration::from_secs(900));
    for node in ALL {
        assert!(first_segment(&nodes, node) == truth, "{node}");
    }
}

/// Each replica has another damage, and a file of one is too short.
#[test]
fn replicas_that_lost_different_records_repair_each_other() {
    let mut nodes = Nodes::start(54);
    create(&nodes, &[2, 1, 3]);
    let truth = first_segment(&nodes, 3);
    restart(&mut nodes, |nodes| {
        rot(nodes, 1, 1);
        rot(nodes, 2, 9);
        let disk = nodes.machine(3).env().disk;
        let file = disk.open(&path(0), Open::Write).expect("it is there");
        file.set_len(truth.len() as u64 - 60_000).expect("a cut");
    });
    for node in ALL {
        let errors = read_all(&nodes, node, COMPARISON);
        assert!(!errors.is_empty() && is_retried(&errors), "{errors:?}");
        assert!(first_segment(&nodes, node) == truth, "{node}");
    }
}

/// Readers are told of what no replica has, and can read what is behind.
#[test]
fn what_rotted_everywhere_is_refused() {
    let mut nodes = Nodes::start(55);
    create(&nodes, &[2, 1, 3]);
    restart(&mut nodes, |nodes| {
        ALL.into_iter().for_each(|node| rot(nodes, node, 2))
    });
    let leader = leader(&nodes);
    let mut told = None;
    let mut next = 0;
    for _ in 0..400 {
        match fetch(&nodes, leader, CONSUMER, next) {
            Ok(batches) => next = batches.last().expect("one").next_offset().0,
            Err(ErrorCode::KafkaStorageError) => nodes.pass(Duration::from_secs(1)),
            Err(code) => {
                told = Some(code);
                break;
            }
        }
    }
    assert_eq!(told, Some(ErrorCode::CorruptMessage));
    let behind = fetch(&nodes, leader, CONSUMER, next + 1).expect("the next one is whole");
    assert_eq!(behind[0].base_offset().0, next + 1);
}

/// One that is repaired while its disk is not to be reached by anybody else: the others may be away for a while.
#[test]
fn a_replica_waits_for_those_that_can_repair_it() {
    let mut nodes = Nodes::start(56);
    create(&nodes, &[2, 1, 3]);
    restart(&mut nodes, |_| {});
    let leader = leader(&nodes);
    let truth = first_segment(&nodes, leader);
    rot(&nodes, leader, 1);
    nodes.cut_off(leader);
    assert_eq!(
        fetch(&nodes, leader, COMPARISON, 0).map(|batches| batches.len()),
        Ok(1),
        "up to the damage"
    );
    assert_eq!(
        fetch(&nodes, leader, COMPARISON, 1).map(drop),
        Err(ErrorCode::KafkaStorageError)
    );
    nodes.pass(Duration::from_secs(5));
    assert!(first_segment(&nodes, leader) != truth);
    nodes.mend();
    nodes.until(|nodes| Some(first_segment(nodes, leader) == truth));
}
