//! Nodes and bytes that do not belong: each is refused, or survived, with one line that says what to do.

#![allow(clippy::disallowed_methods)] // tests meet the operating system as users do

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::broker::{Broker, Dir, cluster_secret, esker, failure};
use crate::cluster::{addresses, until};

/// The line with which a start is refused.
fn refused(args: &[&str]) -> String {
    let off = ["--set", "esker.http.listen=off"];
    let all: Vec<&str> = ["serve"].iter().chain(args).chain(&off).copied().collect();
    let (code, error) = failure(&esker(&all, "", b""));
    assert_ne!(code, 0, "{all:?}");
    error
}

#[test]
fn starts_that_do_not_fit_their_cluster_are_refused_with_one_line() {
    let (dir, addresses) = (Dir::new(), addresses());
    let data = dir.0.to_str().unwrap();
    let secret = cluster_secret().to_str().unwrap();
    let lone = Broker::start_at(&addresses[0], &dir.0);
    assert_eq!(lone.stop(), Some(0));
    let voters = |ids: [usize; 3]| {
        let named = ids.iter().zip(&addresses);
        let named: Vec<String> = named.map(|(id, at)| format!("{id}@{at}")).collect();
        named.join(",")
    };
    for (id, ids, words) in [
        // The directory of another cluster.
        ("1", [1, 2, 3], "belongs to a cluster whose metadata"),
        // The directory of another node.
        ("2", [2, 1, 3], "belongs to"),
        // A voter that the others do not know.
        ("4", [1, 2, 3], "does not name node 4"),
    ] {
        let voters = voters(ids);
        let mut node = vec!["--node-id", id, "--voters", &voters, "--data-dir", data];
        node.extend(["--cluster-secret", secret]);
        let error = refused(&node);
        assert!(error.contains(words), "{words}: {error}");
    }
    // A node that was given none.
    let [two, empty] = [voters([1, 2, 3]), dir.0.join("empty").display().to_string()];
    let error = refused(&["--node-id", "2", "--voters", &two, "--data-dir", &empty]);
    assert!(error.contains("node 2 has no cluster secret"), "{error}");
    // None of them has left anything behind.
    let lone = Broker::start_at(&addresses[0], &dir.0);
    assert_eq!(lone.stop(), Some(0));
}

/// A program that is no node has the address of a voter, and answers `answer` to whatever comes. Counts its connections.
fn no_node(answer: &'static [u8]) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, count) = (listener.local_addr().unwrap(), Arc::default());
    let counted: Arc<AtomicUsize> = Arc::clone(&count);
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let _ = connection.read(&mut [0; 64]);
            let _ = connection.write_all(answer);
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    (address.to_string(), count)
}

#[test]
fn a_voter_that_is_no_node_is_one_line() {
    for answer in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        &[0; 64],
        &[0xff; 64],
    ] {
        let (address, count) = no_node(answer);
        let (dir, own) = (Dir::new(), addresses().remove(0));
        let node = Broker::start_node(1, &[own, address.clone()], &dir.0);
        until(|| 20 <= count.load(Ordering::Relaxed));
        let log = node.log();
        let lines = log.lines().filter(|line| line.contains(&address));
        let lines: Vec<&str> = lines.collect();
        assert!(
            lines.len() == 1 && lines[0].contains("not of the Kafka protocol"),
            "{log}"
        );
        assert_eq!(node.stop(), Some(0));
    }
}

#[test]
fn a_cluster_outlives_garbage_at_its_door_a_lost_vote_and_a_lost_majority() {
    let (dirs, addresses) = ([Dir::new(), Dir::new(), Dir::new()], addresses());
    let start = |id: usize| Broker::start_node(id, &addresses, &dirs[id - 1].0);
    let first = start(1);
    let (second, third) = (start(2), start(3));
    until(|| first.run(&["topic", "create", "t"], b"").status.success());

    for bytes in [&[0xff; 4096][..], &[0; 4096], b"GET / HTTP/1.1\r\n\r\n"] {
        for address in &addresses {
            let mut door = TcpStream::connect(address).unwrap();
            door.set_read_timeout(Some(Duration::from_secs(10)))
                .unwrap();
            let _ = door.write_all(bytes);
            let _ = door.shutdown(std::net::Shutdown::Write);
            let _ = door.read(&mut [0; 64]);
        }
    }
    first.ok(&["topic", "create", "behind-garbage"], b"");

    third.kill();
    std::fs::write(dirs[2].0.join("quorum-state"), "{\"leaderEpoch\":").unwrap();
    let third = start(3);
    until(|| third.said().contains("follows and does not vote"));
    let lines = third.said();
    assert_eq!(lines.matches("does not vote").count(), 1, "{lines}");
    until(|| third.run(&["topic", "list"], b"").status.success());

    third.kill();
    second.kill();
    until(|| {
        let (_, error) = failure(&first.run(&["cluster", "status"], b""));
        error.contains("nobody answers for the quorum")
    });
    let third = start(3);
    let second = start(2);
    until(|| {
        second
            .run(&["topic", "create", "again"], b"")
            .status
            .success()
    });
    for node in [first, second, third] {
        assert_eq!(node.stop(), Some(0));
    }
}

/// The same voters twice, and one of the first time among those of the second.
#[test]
fn a_node_of_a_former_cluster_is_named_with_both_ids() {
    let addresses = addresses();
    let begin = |dirs: &[Dir; 3]| -> [Broker; 3] {
        [1, 2, 3].map(|id| Broker::start_node(id, &addresses, &dirs[id - 1].0))
    };
    let id = |node: &Broker| {
        until(|| node.run(&["topic", "list"], b"").status.success());
        // It may have findings yet, and fails then.
        let status = node.run(&["--json", "cluster", "status"], b"").stdout;
        let status: serde_json::Value = serde_json::from_slice(&status).unwrap();
        status["cluster_id"].as_str().unwrap().to_owned()
    };
    let (former, dirs) = ([(); 3].map(|()| Dir::new()), [(); 3].map(|()| Dir::new()));
    let nodes = begin(&former);
    let before = id(&nodes[0]);
    nodes.into_iter().for_each(Broker::kill);
    let [first, second, third] = begin(&dirs);
    let now = id(&first);
    assert_ne!(before, now);
    third.kill();
    let odd = Broker::start_node(3, &addresses, &former[2].0);
    let names = |node: &Broker, id: &str, ours: &str, theirs: &str| {
        let line =
            format!("{id} acts as a part of this cluster, {ours}, and is of cluster {theirs}");
        node.said().contains(&line)
    };
    until(|| names(&first, "node 3", &now, &before) && names(&second, "node 3", &now, &before));
    until(|| names(&odd, "node 1", &before, &now) || names(&odd, "node 2", &before, &now));
    first.ok(&["topic", "create", "goes-on", "-r", "2"], b"");
    for node in [first, second] {
        assert_eq!(node.stop(), Some(0));
    }
    odd.kill();
}
