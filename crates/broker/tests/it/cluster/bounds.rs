//! Bounds on memory that are full, on leader, follower and controller: what does not fill them goes on.

use std::time::Duration;

use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::{
    BrokerHeartbeatRequest, FetchRequest, IncrementalAlterConfigsRequest, MetadataRequest,
};

use super::isr::{PLAYED, active, join};
use super::nodes::*;
use super::pipelined::*;

/// Of the machine whose log directory gets overloaded: an eighth of it may wait to be written to segment files.
const MEMORY_BYTES: u64 = 2 << 20;
const UNWRITTEN_MAX: usize = MEMORY_BYTES as usize / 8;
const LITTLE_ONE: &[(&str, &str)] = &[
    ("queued.max.request.bytes", "1048576"),
    ("num.network.threads", "1"),
    ("log.cleaner.dedupe.buffer.size", "1048577"),
];
const LITTLE_THREE: &[(&str, &str)] = &[
    ("queued.max.request.bytes", "1048576"),
    ("num.network.threads", "3"),
    ("log.cleaner.dedupe.buffer.size", "1048577"),
];
/// Bytes of requests that a node may have under way.
const REQUESTS_MAX: usize = 1 << 20;
const AT_ONCE: Duration = Duration::from_millis(50);
/// An overloaded directory takes no records for so long.
const HOLD_MAX: Duration = Duration::from_millis(250);
/// A topic whose records wait for a replica that fetches nothing.
const HELD: &str = "held";
/// The last version of Fetch that names topics.
const FETCH: i16 = 12;

fn is_overloaded(nodes: &Nodes, node: Node) -> bool {
    UNWRITTEN_MAX < nodes.memory(node).1.unwritten_bytes
}

fn fetch(topic: &str, from: i64) -> FetchRequest {
    FetchRequest {
        replica_id: -1,
        max_wait_ms: 10,
        max_bytes: 1 << 20,
        session_epoch: -1,
        topics: vec![FetchTopic {
            topic: topic.to_owned(),
            partitions: vec![FetchPartition {
                fetch_offset: from,
                partition_max_bytes: 1 << 20,
                current_leader_epoch: -1,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// The time that `act` takes in the world.
fn timed<T>(nodes: &Nodes, act: impl FnOnce() -> T) -> (Duration, T) {
    let began = nodes.now();
    let done = act();
    (nodes.now().since(began), done)
}

fn are_in_sync(nodes: &Nodes, topic: &str) {
    nodes.until(|nodes| Some(nodes.isr(1, topic)?.len() == 3));
}

/// Three nodes with disks that are as fast as each other. The log directory of node 1 is overloaded soon.
fn easily_overloaded(seed: u64, given: &'static [(&'static str, &'static str)]) -> Nodes {
    let nodes = Nodes::start_within(seed, given, MEMORY_BYTES);
    for node in ALL {
        let machine = nodes.machine(node);
        machine.faults(|faults| faults.sync_nanos = 50_000..100_000);
    }
    nodes.create_on(BUSY, &[1, 2, 3], &[MIN_ISR]);
    // Node 1 leads the one and follows the other.
    nodes.create_on(QUIET, &[2, 1, 3], &[MIN_ISR]);
    are_in_sync(&nodes, BUSY);
    are_in_sync(&nodes, QUIET);
    nodes
}

/// While the log directory of a leader is overloaded, the records that are there are committed, and others are served.
fn check_overloaded(
    seed: u64,
    given: &'static [(&'static str, &'static str)],
    clients: usize,
    (bytes, count): (usize, usize),
) {
    const HOLDS: usize = 4;
    let nodes = easily_overloaded(seed, given);
    let mut pipes: Vec<Pipe> = (0..clients)
        .map(|_| nodes.pipe(1, &requests(BUSY, count, bytes), 9))
        .collect();
    let (mut served, mut seen) = (0, 0);
    while served < HOLDS {
        let is_reached = nodes.run(Duration::from_secs(2), || {
            pipes.iter_mut().for_each(Pipe::turn);
            is_overloaded(&nodes, 1)
        });
        let case = format!("{given:?}, {clients} of {bytes} bytes");
        assert!(is_reached, "{case}: {served} of {seen} holds");
        seen += 1;
        served += usize::from(serves_all(&nodes, &mut pipes));
        nodes.until(|nodes| Some(!is_overloaded(nodes, 1)));
    }
    assert_eq!(nodes.isr(1, BUSY).map(|isr| isr.len()), Some(3));
    assert!(nodes.fenced(1).is_empty());
}

/// True if node 1 is overloaded until all that is appended is committed, for which followers append, report and are heard, and a reader
/// and clients of all nodes have their answers.
fn serves_all(nodes: &Nodes, pipes: &mut [Pipe]) -> bool {
    let is_committed = nodes.run(AT_ONCE, || {
        pipes.iter_mut().for_each(Pipe::pull);
        let answered: usize = pipes.iter().map(|pipe| pipe.answered()).sum();
        nodes.ends(1, BUSY) == Some((0, answered as i64))
    });
    let are_told = ALL.into_iter().all(|node| nodes.metadata(node).is_some());
    let read = nodes.ask(1, &fetch(BUSY, 0), FETCH).expect("an answer");
    assert_eq!(read.responses[0].partitions[0].error_code, 0);
    is_committed && are_told && is_overloaded(nodes, 1)
}

#[test]
fn an_overloaded_directory_holds_back_new_records_alone() {
    for (at, given) in [LITTLE_ONE, LITTLE_THREE].into_iter().enumerate() {
        check_overloaded(830 + at as u64, given, 3, (900_000, 40));
        check_overloaded(832 + at as u64, given, 12, (100, 4_000));
    }
}

/// The longest time that node 1, overloaded by what it leads, holds the records of another leader. It stays in sync, and the metadata
/// reach it.
fn longest_hold(seed: u64, given: &'static [(&'static str, &'static str)]) -> Duration {
    let nodes = easily_overloaded(seed, given);
    nodes.create_on(HELD, &[1], &[]);
    let mut busy = nodes.pipe(1, &requests(HELD, 1_000, 100_000), 9);
    let mut longest = Duration::ZERO;
    for hold in 0..24 {
        let is_reached = nodes.run(Duration::from_secs(2), || {
            busy.turn();
            is_overloaded(&nodes, 1)
        });
        assert!(is_reached, "{given:?}: {hold} holds");
        let (took, ()) = timed(&nodes, || nodes.produce(2, QUIET, "value"));
        // The directory may be overloaded again when the first time is over.
        assert!(took < HOLD_MAX * 2 + AT_ONCE * 2, "{given:?}: {took:?}");
        longest = longest.max(took);
        let topic = format!("new-{hold}");
        nodes.create_on(&topic, &[1, 2, 3], &[]);
        assert!(!is_overloaded(&nodes, 2));
        nodes.until(|nodes| Some(!is_overloaded(nodes, 1)));
        // A fetch that was under way before takes what comes.
        if 4 <= hold && AT_ONCE < longest {
            break;
        }
    }
    assert_eq!(nodes.isr(1, QUIET).map(|isr| isr.len()), Some(3));
    assert!(nodes.fenced(2).is_empty());
    longest
}

#[test]
fn a_follower_whose_directory_is_overloaded_reports_and_is_in_sync() {
    for given in [LITTLE_ONE, LITTLE_THREE] {
        // A hold may fall between two looks, but not all of them with each seed.
        let is_held = (834..838).any(|seed| AT_ONCE < longest_hold(seed, given));
        // It would have in memory whatever its leaders have.
        assert!(is_held, "{given:?}: it took records");
    }
}

/// Clients ask for records and take no answers: these have their bound, and followers and other readers get theirs.
#[test]
fn readers_that_take_no_answers_fill_their_bound_and_nothing_else() {
    const DEAF: usize = 40;
    const VALUE_BYTES: usize = 900_000;
    for (at, given) in [ONE_SHARD, THREE_SHARDS].into_iter().enumerate() {
        let nodes = Nodes::start_with(836 + at as u64, given);
        nodes.create_on(BUSY, &[1, 2, 3], &[MIN_ISR]);
        are_in_sync(&nodes, BUSY);
        let value = "x".repeat(VALUE_BYTES);
        (0..4).for_each(|_| nodes.produce(1, BUSY, &value));
        let asks: Vec<FetchRequest> = (0..20).map(|of| fetch(BUSY, of % 4)).collect();
        let mut deaf: Vec<Pipe> = (0..DEAF).map(|_| nodes.pipe(1, &asks, FETCH)).collect();
        let mut most = 0;
        nodes.run(Duration::from_secs(2), || {
            deaf.iter_mut().for_each(Pipe::push);
            most = most.max(nodes.memory(1).0.answer_bytes);
            false
        });
        // Beyond it each has one answer, of one batch.
        let bound = REQUESTS_MAX + DEAF * (VALUE_BYTES + 1_000);
        assert!(REQUESTS_MAX < most, "{given:?}: {most} are not full");
        assert!(most < bound, "{given:?}: {most} bytes of answers");
        for _ in 0..5 {
            let (took, ()) = timed(&nodes, || nodes.produce(1, BUSY, &value));
            assert!(took < SILENCE_MAX, "{given:?}: {took:?}");
            let (took, read) = timed(&nodes, || nodes.ask(1, &fetch(BUSY, 3), FETCH));
            assert!(read.is_some() && took < SILENCE_MAX, "{given:?}: {took:?}");
        }
        assert_eq!(nodes.isr(1, BUSY).map(|isr| isr.len()), Some(3));
    }
}

/// Connections with requests that wait for a controller: with their shares they would take all that they may.
const ASKING: usize = 5;

/// A request that the controller refuses, as large as one that it would take long over.
fn alter(bytes: usize) -> IncrementalAlterConfigsRequest {
    IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: 2,
            resource_name: "nowhere".to_owned(),
            configs: vec![
                AlterableConfig {
                    name: "retention.ms".to_owned(),
                    config_operation: 0,
                    value: Some("1".repeat(bytes.min(30_000))),
                };
                bytes.div_ceil(30_000)
            ],
        }],
        validate_only: false,
    }
}

/// The controller takes nothing off its connections for a moment, and clients of another node have many requests for it.
#[test]
fn requests_for_a_controller_that_reads_nothing_hold_up_nobody_else() {
    for (at, given) in [ONE_SHARD, THREE_SHARDS].into_iter().enumerate() {
        for (of, bytes) in [100, 90_000].into_iter().enumerate() {
            let nodes = Nodes::start_with(840 + (2 * at + of) as u64, given);
            let controller = active(&nodes).expect("three voters have one");
            let (here, peer) = (controller % 3 + 1, (controller + 1) % 3 + 1);
            nodes.create_on(QUIET, &[here, peer], &[MIN_ISR]);
            let count = 4 * REQUESTS_MAX / bytes.max(1_000);
            let asks: Vec<_> = (0..count).map(|_| alter(bytes)).collect();
            let mut asking: Vec<Pipe> = (0..ASKING).map(|_| nodes.pipe(here, &asks, 1)).collect();
            nodes
                .machine(controller)
                .pause(Duration::from_millis(1_500));
            let mut most = 0;
            nodes.run(Duration::from_millis(200), || {
                asking.iter_mut().for_each(Pipe::turn);
                most = most.max(nodes.memory(here).0.request_bytes);
                false
            });
            let answered: usize = asking.iter().map(Pipe::answered).sum();
            assert!(answered < ASKING * count, "they wait for the controller");
            let mut writes = nodes.pipe(here, &requests(QUIET, 10, 100_000), 9);
            let mut told = nodes.pipe(here, &vec![MetadataRequest::default(); 20], 12);
            let is_over = nodes.run(SILENCE_MAX, || {
                asking.iter_mut().for_each(Pipe::turn);
                most = most.max(nodes.memory(here).0.request_bytes);
                writes.turn();
                told.turn();
                writes.is_over() && told.is_over()
            });
            let case = format!("{given:?}, {bytes} bytes");
            let (writes, told) = (writes.answered(), told.answered());
            assert!(is_over, "{case}: {writes} writes, {told} answers");
            // Each shard may read one that waited for its turn.
            assert!(most < REQUESTS_MAX + 3 * 200_000, "{case}: {most} bytes");
            let is_over = nodes.run(Duration::from_secs(30), || {
                asking.iter_mut().for_each(Pipe::turn);
                asking.iter().all(Pipe::is_over)
            });
            assert!(is_over, "{case}: not all are answered");
        }
    }
}

const SHORT_SESSIONS_ONE: &[(&str, &str)] = &[
    PLAYABLE,
    ("queued.max.request.bytes", "1048576"),
    ("num.network.threads", "1"),
    ("broker.session.timeout.ms", "3000"),
    ("broker.heartbeat.interval.ms", "500"),
];
const SHORT_SESSIONS_THREE: &[(&str, &str)] = &[
    PLAYABLE,
    ("queued.max.request.bytes", "1048576"),
    ("num.network.threads", "3"),
    ("broker.session.timeout.ms", "3000"),
    ("broker.heartbeat.interval.ms", "500"),
];

/// One client fills what the controller may have under way of requests, for twice as long as a session lasts.
#[test]
fn a_controller_that_is_full_of_requests_hears_its_brokers() {
    for (at, given) in [SHORT_SESSIONS_ONE, SHORT_SESSIONS_THREE]
        .into_iter()
        .enumerate()
    {
        for (of, bytes) in [100, 900_000].into_iter().enumerate() {
            let nodes = Nodes::start_with(850 + (2 * at + of) as u64, given);
            let controller = active(&nodes).expect("three voters have one");
            let broker_epoch = join(&nodes, controller);
            // The broker that the test plays sends heartbeats, and never fetches.
            nodes.create_on(HELD, &[controller, PLAYED as Node], &[MIN_ISR]);
            let count = 12_000_000 / bytes.max(2_000);
            let mut busy: Vec<Pipe> = (0..9)
                .map(|_| nodes.pipe(controller, &requests(HELD, count, bytes), 9))
                .collect();
            let case = format!("{given:?}, {bytes} bytes");
            let mut most = 0;
            for _ in 0..12 {
                nodes.run(Duration::from_millis(500), || {
                    busy.iter_mut().for_each(Pipe::turn);
                    most = most.max(nodes.memory(controller).0.request_bytes);
                    false
                });
                let beat = BrokerHeartbeatRequest {
                    broker_id: PLAYED,
                    broker_epoch,
                    current_metadata_offset: i64::MAX,
                    ..Default::default()
                };
                let (took, heard) = timed(&nodes, || nodes.ask(controller, &beat, 1));
                assert!(heard.is_some_and(|heard| !heard.is_fenced), "{case}");
                assert!(took < SILENCE_MAX, "{case}: {took:?}");
                assert!(nodes.fenced(controller).is_empty(), "{case}");
            }
            assert!(REQUESTS_MAX / 2 < most, "{case}: {most} bytes are not full");
            let answered: Vec<usize> = busy.iter().map(Pipe::answered).collect();
            assert!(
                answered.iter().any(|of| *of < count),
                "{case}: {answered:?}"
            );
            assert_eq!(active(&nodes), Some(controller), "{case}");
        }
    }
}
