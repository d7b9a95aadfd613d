//! Crowds at the broker's door: connections that promise much, keep it half done, or are simply many.
//!
//! Memory that the broker takes from its peers is counted at their end: bytes that a peer could send are in a pipe or in the broker's
//! memory.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use broker::Broker;
use bytes::Bytes;
use env::sim::{Faults, Machine, Rot, SimConn, Step};
use wire::frame::{decode_response, encode_request};
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::{
    ApiVersionsRequest, CreateTopicsRequest, FetchRequest, IncrementalAlterConfigsRequest,
    MetadataRequest, ProduceRequest, VoteRequest, vote_request,
};
use wire::records::BatchBuilder;
use wire::{ErrorCode, Reader};

use crate::small_broker::{PORT, start};

/// How often peers that have more to send look whether they can.
const TICK: Duration = Duration::from_millis(5);
/// Bytes that one direction of a simulated connection holds.
const PIPE_BYTES: usize = 128 << 10;
/// The version in which fetches are asked.
const FETCH: i16 = 11;
/// Bytes that are kept of an answer: the whole of one that brings no records.
const HEAD_BYTES: usize = 1000;
/// Bytes that every connection may have whatever others use.
const FREE_BYTES: usize = 32 << 10;

/// A client that sends bytes as they fit and counts what comes back.
struct Peer {
    conn: SimConn,
    out: Vec<u8>,
    sent: usize,
    received: usize,
    /// How the first answer begins, which says its length first.
    head: Vec<u8>,
    is_reading: bool,
    is_closed: bool,
}

impl Peer {
    fn at(machine: &Machine, port: u16, out: Vec<u8>) -> Peer {
        Peer {
            conn: machine.connect(port).expect("the backlog has room"),
            out,
            sent: 0,
            received: 0,
            head: Vec::new(),
            is_reading: true,
            is_closed: false,
        }
    }

    fn with(machine: &Machine, out: Vec<u8>) -> Peer {
        Peer::at(machine, PORT, out)
    }

    fn pump(&mut self) {
        while self.sent < self.out.len() && !self.is_closed {
            match self.conn.send(&self.out[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.is_closed = true,
            }
        }
        let mut buf = [0; 4096];
        while self.is_reading && !self.is_closed && self.conn.is_readable() {
            match self.conn.recv(&mut buf) {
                Ok(0) | Err(_) => self.is_closed = true,
                Ok(received) => {
                    let lacks = HEAD_BYTES - self.head.len();
                    self.head.extend(&buf[..received.min(lacks)]);
                    self.received += received;
                }
            }
        }
    }
}

/// Lets the machine run for at most `limit`, with all peers doing what they can, until `done`.
fn run(
    machine: &Machine,
    peers: &mut [Peer],
    limit: Duration,
    mut done: impl FnMut(&[Peer]) -> bool,
) -> bool {
    let end = machine.now().plus(limit);
    machine.alarm(end);
    let mut tick = machine.now();
    loop {
        peers.iter_mut().for_each(Peer::pump);
        if done(peers) {
            return true;
        }
        if machine.now() >= end {
            return false;
        }
        // Nothing reports when there is room again to send into, and what arrives is seen a moment later.
        if tick <= machine.now() {
            tick = machine.now().plus(TICK);
            machine.alarm(tick);
        }
        while machine.now() < end && machine.step_until(end) == Step::Turn {}
    }
}

/// The head of a request of `whole` bytes, and as much of it as `part`.
fn half_request(whole: usize, part: usize) -> Vec<u8> {
    let mut bytes = (whole as u32).to_be_bytes().to_vec();
    bytes.resize(4 + part, 0);
    bytes
}

fn encoded<R: wire::Request>(request: &R, version: i16) -> Vec<u8> {
    let encoded = encode_request(request, version, 1, None).and_then(wire::Encoded::into_bytes);
    encoded.expect("can be encoded").to_vec()
}

fn produce_to(topic: &str, records: Bytes) -> Vec<u8> {
    let request = ProduceRequest {
        acks: 1,
        timeout_ms: 1000,
        topic_data: vec![TopicProduceData {
            name: topic.to_owned(),
            partition_data: vec![PartitionProduceData {
                index: 0,
                records: Some(records.into()),
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    encoded(&request, 9)
}

/// A whole request of about `bytes`, which is answered: nobody knows the topic.
fn produce(bytes: usize) -> Vec<u8> {
    produce_to("nobody", vec![0; bytes].into())
}

fn fetch(topic: &str, bytes: i32) -> Vec<u8> {
    fetch_from(topic, 0, bytes)
}

fn fetch_from(topic: &str, offset: i64, bytes: i32) -> Vec<u8> {
    let request = FetchRequest {
        max_wait_ms: 100,
        min_bytes: 1,
        max_bytes: bytes,
        session_epoch: -1,
        topics: vec![FetchTopic {
            topic: topic.to_owned(),
            partitions: vec![FetchPartition {
                partition_max_bytes: bytes,
                fetch_offset: offset,
                current_leader_epoch: -1,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    encoded(&request, FETCH)
}

fn small_request() -> Vec<u8> {
    encoded(&ApiVersionsRequest::default(), 0)
}

#[test]
fn half_requests_of_many_connections_stay_within_one_bound() {
    let machine = Machine::new(1, Faults::default());
    let limit: usize = 16 << 20;
    let _broker = start(
        &machine,
        &[("queued.max.request.bytes", &limit.to_string())],
    );
    let crowd = 100;
    let mut peers: Vec<Peer> = (0..crowd)
        .map(|_| Peer::with(&machine, half_request(2 << 20, 1 << 20)))
        .collect();
    let mut most = 0;
    run(&machine, &mut peers, Duration::from_secs(4), |peers| {
        let open = peers.iter().filter(|peer| !peer.is_closed);
        most = most.max(open.map(|peer| peer.sent).sum());
        false
    });
    assert!(
        most <= limit / 2 + crowd * (PIPE_BYTES + FREE_BYTES) + (2 << 20) * 2,
        "{} MiB were taken",
        most >> 20
    );
    assert!(limit / 4 < most, "the budget is made use of: {most}");

    // Others are served meanwhile: small requests at once, large ones when those are cut off that do not go on.
    peers.push(Peer::with(&machine, small_request()));
    let small = |peers: &[Peer]| peers[crowd].received > 0;
    assert!(run(&machine, &mut peers, Duration::from_secs(1), small));
    peers.push(Peer::with(&machine, produce(3 << 20)));
    let large = |peers: &[Peer]| peers[crowd + 1].received > 0;
    assert!(run(&machine, &mut peers, Duration::from_secs(60), large));
    assert!(peers[..crowd].iter().any(|peer| peer.is_closed));
}

#[test]
fn a_request_larger_than_the_whole_bound_is_finished() {
    let machine = Machine::new(2, Faults::default());
    let _broker = start(&machine, &[("queued.max.request.bytes", "100000")]);
    let mut peers: Vec<Peer> = (0..5)
        .map(|_| Peer::with(&machine, produce(3 << 20)))
        .collect();
    let all = |peers: &[Peer]| peers.iter().all(|peer| peer.received > 0);
    assert!(run(&machine, &mut peers, Duration::from_secs(60), all));
}

#[test]
fn a_slow_client_is_left_alone_while_there_is_memory() {
    let machine = Machine::new(3, Faults::default());
    let _broker = start(&machine, &[]);
    let mut whole = produce(500_000);
    let rest = whole.split_off(200_000);
    let mut peers = vec![Peer::with(&machine, whole)];
    run(&machine, &mut peers, Duration::from_secs(120), |_| false);
    peers[0].out.extend(rest);
    let answered = |peers: &[Peer]| peers[0].received > 0;
    assert!(run(&machine, &mut peers, Duration::from_secs(5), answered));
}

#[test]
fn limits_of_connections_hold_for_all_shards_together() {
    let machine = Machine::new(4, Faults::default());
    let _broker = start(
        &machine,
        &[
            ("num.network.threads", "3"),
            ("max.connections.per.ip", "7"),
        ],
    );
    let mut peers: Vec<Peer> = (0..20)
        .map(|_| Peer::with(&machine, small_request()))
        .collect();
    // A simulated peer that is turned away is not told; it only hears nothing.
    run(&machine, &mut peers, Duration::from_secs(2), |_| false);
    assert_eq!(served(&peers), 7);

    // A peer that goes makes room for another.
    peers.retain(|peer| peer.received > 0);
    peers.truncate(5);
    run(&machine, &mut peers, Duration::from_secs(1), |_| false);
    peers.extend((0..3).map(|_| Peer::with(&machine, small_request())));
    run(&machine, &mut peers, Duration::from_secs(2), |_| false);
    assert_eq!(served(&peers), 7);
}

fn served(peers: &[Peer]) -> usize {
    let served = peers.iter().filter(|peer| peer.received > 0);
    served.count()
}

#[test]
fn connections_beyond_the_limit_wait_until_others_go() {
    let machine = Machine::new(7, Faults::default());
    let _broker = start(
        &machine,
        &[("num.network.threads", "3"), ("max.connections", "5")],
    );
    let mut peers: Vec<Peer> = (0..9)
        .map(|_| Peer::with(&machine, small_request()))
        .collect();
    run(&machine, &mut peers, Duration::from_secs(2), |_| false);
    assert_eq!(served(&peers), 5);
    assert!(peers.iter().all(|peer| !peer.is_closed), "the others wait");

    let mut goes = 3;
    peers.retain(|peer| {
        let stays = peer.received == 0 || goes == 0;
        goes -= usize::from(!stays);
        stays
    });
    run(&machine, &mut peers, Duration::from_secs(2), |_| false);
    assert_eq!((served(&peers), peers.len()), (5, 6));
}

/// Of a listener of their own, whose settings are `given`.
fn check_nodes_do_not_wait(given: &[(&str, &str)]) {
    let machine = Machine::new(8, Faults::default());
    let _broker = start(&machine, &[given, &[("max.connections", "2")]].concat());
    let mut peers: Vec<Peer> = (0..3)
        .map(|_| Peer::with(&machine, small_request()))
        .collect();
    run(&machine, &mut peers, Duration::from_secs(1), |_| false);
    assert_eq!(served(&peers), 2);
    let mut nodes: Vec<Peer> = (0..2)
        .map(|_| Peer::at(&machine, 9093, small_request()))
        .collect();
    run(&machine, &mut nodes, Duration::from_secs(1), |_| false);
    assert_eq!(served(&nodes), 2);
}

#[test]
fn brokers_among_themselves_do_not_wait_behind_clients() {
    check_nodes_do_not_wait(&[
        (
            "listeners",
            "PLAINTEXT://127.0.0.1:9092,INSIDE://127.0.0.1:9093",
        ),
        (
            "listener.security.protocol.map",
            "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
        ),
        ("inter.broker.listener.name", "INSIDE"),
    ]);
}

#[test]
fn controllers_among_themselves_do_not_wait_behind_clients() {
    check_nodes_do_not_wait(&[
        (
            "listeners",
            "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        ),
        (
            "listener.security.protocol.map",
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        ),
        ("controller.listener.names", "CONTROLLER"),
    ]);
}

/// A node of a cluster of two that has not heard of the other one, with places for two connections, which are taken.
fn start_crowded(machine: &Machine) -> (Broker, Vec<Peer>) {
    let broker = start(
        machine,
        &[
            ("max.connections", "2"),
            ("num.network.threads", "1"),
            // The test plays the other node, and has no proof.
            ("esker.cluster.insecure", "true"),
            (
                "controller.quorum.voters",
                "1@127.0.0.1:9092,2@127.0.0.1:9093",
            ),
        ],
    );
    let mut peers: Vec<Peer> = (0..2)
        .map(|_| Peer::with(machine, small_request()))
        .collect();
    run(machine, &mut peers, Duration::from_secs(1), |_| false);
    assert_eq!(served(&peers), 2);
    (broker, peers)
}

fn vote() -> Vec<u8> {
    let partition = vote_request::PartitionData {
        replica_epoch: 1,
        replica_id: 2,
        ..Default::default()
    };
    let topic = vote_request::TopicData {
        topic_name: "__cluster_metadata".to_owned(),
        partitions: vec![partition],
    };
    let request = VoteRequest {
        voter_id: 1,
        topics: vec![topic],
        ..Default::default()
    };
    encoded(&request, 2)
}

#[test]
fn nodes_do_not_wait_behind_clients_on_a_listener_that_they_share() {
    let machine = Machine::new(8, Faults::default());
    let (_broker, mut peers) = start_crowded(&machine);
    // More than may be guests: silent ones, and such as ask what clients do.
    let metadata = encoded(&MetadataRequest::default(), 4);
    for _ in 0..100 {
        peers.push(Peer::with(&machine, Vec::new()));
        peers.push(Peer::with(&machine, metadata.clone()));
    }
    run(&machine, &mut peers, Duration::from_millis(500), |_| false);
    assert_eq!(served(&peers), 2, "the others wait");
    let mut nodes = vec![
        Peer::with(&machine, vote()),
        Peer::with(&machine, [small_request(), vote()].concat()),
    ];
    let (versions, vote) = (peers[0].received, 40);
    let is_served =
        |nodes: &[Peer]| vote < nodes[0].received && versions + vote < nodes[1].received;
    assert!(run(&machine, &mut nodes, Duration::from_secs(2), is_served));
    assert!(peers[..2].iter().all(|peer| !peer.is_closed));
}

#[test]
fn guests_get_the_places_that_become_free() {
    let machine = Machine::new(9, Faults::default());
    let (_broker, mut peers) = start_crowded(&machine);
    peers.extend((0..3).map(|_| Peer::with(&machine, fetch("nobody", 1000))));
    run(&machine, &mut peers, Duration::from_secs(1), |_| false);
    assert_eq!(served(&peers), 2);
    peers.drain(..2);
    run(&machine, &mut peers, Duration::from_secs(10), |_| false);
    assert_eq!(served(&peers), 2);
    assert!(peers.iter().all(|peer| !peer.is_closed), "one waits on");
}

#[test]
fn a_limit_that_is_lowered_closes_those_who_were_silent_longest() {
    let machine = Machine::new(9, Faults::default());
    // Each thread closes its own.
    let _broker = start(&machine, &[("num.network.threads", "1")]);
    let mut peers = Vec::new();
    for _ in 0..6 {
        peers.push(Peer::with(&machine, small_request()));
        run(&machine, &mut peers, Duration::from_secs(1), |_| false);
    }
    let setting = AlterableConfig {
        name: "max.connections".to_owned(),
        value: Some("4".to_owned()),
        ..Default::default()
    };
    let resource = AlterConfigsResource {
        resource_type: 4,
        resource_name: String::new(),
        configs: vec![setting],
    };
    let request = IncrementalAlterConfigsRequest {
        resources: vec![resource],
        ..Default::default()
    };
    ask(&machine, encoded(&request, 0));
    run(&machine, &mut peers, Duration::from_secs(10), |_| false);
    let is_closed: Vec<bool> = peers.iter().map(|peer| peer.is_closed).collect();
    assert_eq!(is_closed, [true, true, false, false, false, false]);
}

#[test]
fn connections_that_go_away_in_mid_request_leave_nothing_behind() {
    let machine = Machine::new(5, Faults::default());
    let _broker = start(&machine, &[("queued.max.request.bytes", "4194304")]);
    for _ in 0..3 {
        let mut peers: Vec<Peer> = (0..40)
            .map(|_| Peer::with(&machine, half_request(2 << 20, 1 << 20)))
            .collect();
        run(&machine, &mut peers, Duration::from_secs(1), |_| false);
    }
    let mut peers = vec![Peer::with(&machine, produce(1 << 20))];
    let answered = |peers: &[Peer]| peers[0].received > 0;
    assert!(run(&machine, &mut peers, Duration::from_secs(5), answered));
}

/// Asks once on a connection of its own; returns the length of the answer.
#[track_caller]
fn ask(machine: &Machine, request: Vec<u8>) -> usize {
    told(machine, request).received - 4
}

/// Asks once on a connection of its own, and waits for the whole answer.
#[track_caller]
fn told(machine: &Machine, request: Vec<u8>) -> Peer {
    let mut peers = [Peer::with(machine, request)];
    let whole = |peers: &[Peer]| {
        let announced = peers[0].head.first_chunk().copied();
        let announced = announced.map(u32::from_be_bytes);
        announced.is_some_and(|announced| peers[0].received == 4 + announced as usize)
    };
    assert!(run(machine, &mut peers, Duration::from_secs(5), whole));
    let [peer] = peers;
    peer
}

/// A topic `t` with 3 MiB of records in 12 batches.
fn fill(machine: &Machine) {
    let topic = CreatableTopic {
        name: "t".to_owned(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    };
    let create = CreateTopicsRequest {
        topics: vec![topic],
        timeout_ms: 1000,
        ..Default::default()
    };
    ask(machine, encoded(&create, 4));
    for _ in 0..12 {
        let mut batch = BatchBuilder::new();
        batch.push(model::Timestamp(1_000), None, Some(&[7; 256 << 10]), &[]);
        let batch = batch.build();
        let records = [batch.head().as_slice(), batch.body()].concat();
        ask(machine, produce_to("t", records.into()));
    }
}

#[test]
fn readers_of_an_earlier_life_get_what_is_sound_and_are_told_what_is_not() {
    let machine = Machine::new(10, Faults::default());
    let stop = |broker: Broker| {
        broker.stop();
        let ended = |_: &[Peer]| machine.workers_count() == 0;
        assert!(run(&machine, &mut [], Duration::from_secs(60), ended));
        drop(broker);
        machine.kill();
    };
    // The records are from 1970.
    let forever = &[("log.retention.ms", "-1")];
    let broker = start(&machine, forever);
    fill(&machine);
    stop(broker);

    let wanted = 3 << 20;
    let broker = start(&machine, forever);
    assert!(ask(&machine, fetch("t", wanted)) > 2 << 20);
    assert!(ask(&machine, fetch("t", wanted)) > 2 << 20, "once more");
    stop(broker);

    let segment = Path::new("/data/t-0/00000000000000000000.log");
    machine
        .rot(segment, 1_000_000..1_000_001, Rot::Flip { bit: 3 })
        .expect("there is a segment");
    let _broker = start(&machine, forever);
    // Three batches come before the one that has rotted.
    let before = 3 * (256 << 10)..4 * (256 << 10);
    assert!(before.contains(&ask(&machine, fetch("t", wanted))));
    let answer = told(&machine, fetch_from("t", 3, wanted)).head;
    let mut reader = Reader::new(Bytes::from(answer).slice(4..));
    let (_, answer) = decode_response::<FetchRequest>(&mut reader, FETCH).expect("whole");
    let partition = &answer.responses[0].partitions[0];
    assert_eq!(partition.error_code, ErrorCode::CorruptMessage.code());
    assert_eq!(partition.records.as_ref().map_or(0, |of| of.len()), 0);
    assert!(ask(&machine, fetch("t", 300 << 10)) > 256 << 10);
    assert!(ask(&machine, fetch_from("t", 4, wanted)) > 2 << 20);
}

#[test]
fn readers_that_take_nothing_keep_little_of_the_hot_tail() {
    let machine = Machine::new(6, Faults::default());
    let _broker = start(
        &machine,
        &[
            ("num.network.threads", "1"),
            ("queued.max.request.bytes", "4194304"),
        ],
    );
    fill(&machine);
    let wanted = 3 << 20;
    assert!(ask(&machine, fetch("t", wanted)) > 2 << 20);

    let slow = |_| Peer {
        is_reading: false,
        ..Peer::with(&machine, fetch("t", wanted))
    };
    let mut slow: Vec<Peer> = (0..10).map(slow).collect();
    run(&machine, &mut slow, Duration::from_secs(1), |_| false);
    let short = ask(&machine, fetch("t", wanted));
    assert!(
        (256 << 10..300 << 10).contains(&short),
        "one batch, not {short} bytes"
    );

    drop(slow);
    run(&machine, &mut [], Duration::from_secs(1), |_| false);
    assert!(ask(&machine, fetch("t", wanted)) > 2 << 20);
}

#[test]
fn readers_that_take_nothing_for_long_are_closed_and_slow_ones_are_not() {
    let machine = Machine::new(11, Faults::default());
    let _broker = start(
        &machine,
        &[
            ("num.network.threads", "1"),
            ("queued.max.request.bytes", "4194304"),
            ("connections.max.idle.ms", "60000"),
            // Its records are older than any retention, and this takes longer than it looks away.
            ("log.retention.ms", "-1"),
        ],
    );
    fill(&machine);
    let wanted = 3 << 20;
    let slow = |_| Peer {
        is_reading: false,
        ..Peer::with(&machine, fetch("t", wanted))
    };
    // The first finds the bound free, and gets a long answer: the others get one batch each.
    let mut deaf = vec![slow(0)];
    run(&machine, &mut deaf, Duration::from_secs(1), |_| false);
    deaf.extend((1..10).map(slow));
    run(&machine, &mut deaf, Duration::from_secs(1), |_| false);
    assert!(ask(&machine, fetch("t", wanted)) < 300 << 10);

    // One takes a little now and then.
    let mut buf = vec![0; 64 << 10];
    for _ in 0..10 {
        run(&machine, &mut deaf, Duration::from_secs(30), |_| false);
        assert!(matches!(deaf[0].conn.recv(&mut buf), Ok(taken) if taken > 0));
    }
    for peer in &mut deaf {
        peer.is_reading = true;
    }
    run(&machine, &mut deaf, Duration::from_secs(5), |_| false);
    let whole = 2 << 20;
    assert!(!deaf[0].is_closed && deaf[0].received > whole);
    for peer in &deaf[1..] {
        assert!(peer.is_closed && peer.received < whole);
    }
    assert!(ask(&machine, fetch("t", wanted)) > whole);
}
