//! Clients that come before their broker is part of the cluster.

use std::io::ErrorKind;
use std::time::Duration;

use env::sim::SimConn;
use wire::messages::MetadataRequest;

use super::nodes::*;

/// The first of three nodes, started anew, without anybody to be a cluster with.
fn alone(seed: u64) -> Nodes {
    let mut nodes = Nodes::start(seed);
    ALL.into_iter().for_each(|node| nodes.kill(node));
    nodes.start_one(1);
    nodes
}

fn everything() -> MetadataRequest {
    MetadataRequest {
        topics: None,
        ..Default::default()
    }
}

/// True once the broker has closed it; it may not answer.
fn is_closed(conn: &SimConn) -> bool {
    match conn.recv(&mut [0; 64]) {
        Ok(read) => {
            assert_eq!(read, 0, "an answer");
            true
        }
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

#[test]
fn requests_wait_until_their_broker_serves_and_are_answered_then() {
    let mut nodes = alone(71);
    let early: Vec<SimConn> = (0..3).map(|_| nodes.send(1, &everything(), 12)).collect();
    nodes.pass(Duration::from_secs(1));
    assert!(!early.iter().any(is_closed));
    nodes.start_one(2);
    nodes.start_one(3);
    for conn in early {
        let answer = nodes.receive::<MetadataRequest>(conn, 12);
        assert!(!answer.expect("it has waited").brokers.is_empty());
    }
}

#[test]
fn a_broker_without_a_cluster_sends_its_clients_away_in_the_end() {
    let nodes = alone(73);
    let conn = nodes.send(1, &everything(), 12);
    nodes.pass(Duration::from_secs(4));
    assert!(!is_closed(&conn));
    nodes.within(Duration::from_secs(7), |_| Some(is_closed(&conn)));
}

/// All nodes were away, so that nobody else is counted in: librdkafka forgets all brokers by an answer that names none.
#[test]
fn the_first_clients_of_a_cluster_that_comes_back_are_told_of_a_broker() {
    for seed in 81..89 {
        let mut nodes = alone(seed);
        let mut early: Vec<SimConn> = (0..3).map(|_| nodes.send(1, &everything(), 12)).collect();
        nodes.start_one(2);
        early.extend((0..3).map(|_| nodes.send(2, &everything(), 12)));
        for conn in early {
            let answer = nodes.receive::<MetadataRequest>(conn, 12);
            let answer = answer.expect("it has waited");
            assert!(!answer.brokers.is_empty(), "seed {seed}");
        }
    }
}
