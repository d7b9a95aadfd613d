//! The judgement of `esker cluster status` where some nodes know less than others: a cluster that has just started, a node that is cut off,
//! a majority that is lost, a replica that was replaced.

#![allow(clippy::disallowed_methods)] // tests meet the operating system as users do

use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use client::{Client, Options};
use serde_json::{Value, json};
use wire::messages::AlterPartitionReassignmentsRequest;
use wire::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};

use crate::broker::{Broker, Dir, ESKER, esker, failure};
use crate::cluster::{addresses, until};
use crate::growing::{await_brokers, produce, voters};
use crate::observing::{get, window};
use crate::proxy::Proxy;

/// The exit code, standard output and standard error of a command.
fn told(broker: &Broker, args: &[&str]) -> (i32, String, String) {
    let output = broker.run(args, b"");
    let (code, error) = failure(&output);
    (
        code,
        String::from_utf8_lossy(&output.stdout).into_owned(),
        error,
    )
}

fn is_clean(broker: &Broker) -> bool {
    broker.run(&["cluster", "status"], b"").status.success()
}

/// The findings with their hints, as `--json` has them.
fn findings(broker: &Broker) -> Vec<(String, String)> {
    let output = broker.run(&["--json", "cluster", "status"], b"");
    let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let findings = status["findings"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pair = |it: &Value| (text(&it["what"]), text(&it["todo"]));
    findings.iter().map(pair).collect()
}

#[test]
fn a_new_cluster_is_clean_once_all_its_brokers_have_registered() {
    // Which broker is slower is chance.
    for _ in 0..4 {
        let (dirs, addresses) = ([Dir::new(), Dir::new(), Dir::new()], addresses());
        let start = |id: usize| Broker::start_node(id, &addresses, &dirs[id - 1].0);
        let nodes: Vec<Broker> = (1..=3).map(start).collect();
        until(|| is_clean(&nodes[0]));
        nodes[0].ok(&["topic", "create", "t", "-r", "3"], b"");
    }
}

/// A controller alone never registers as a broker, and that is no fault.
#[test]
fn a_voter_that_is_a_controller_alone_is_no_fault_and_offers_no_produce() {
    let (dirs, addresses) = ([Dir::new(), Dir::new(), Dir::new()], addresses());
    let voter = |(id, address): (usize, &String)| format!("{id}@{address}");
    let named: Vec<String> = (1..).zip(&addresses).map(voter).collect();
    let named = named.join(",");
    let door = format!("CONTROLLER://{}", addresses[2]);
    let roles = [
        "--node-id",
        "3",
        "--roles",
        "controller",
        "--voters",
        &named,
    ];
    let alone = Broker::start_as(&door, &dirs[2].0, &roles);
    assert!(alone.advice.contains("cluster quorum"), "{}", alone.advice);
    let start = |id: usize| Broker::start_node(id, &addresses, &dirs[id - 1].0);
    let nodes: Vec<Broker> = (1..=2).map(start).collect();
    assert!(
        nodes[0].advice.contains("esker produce"),
        "{}",
        nodes[0].advice
    );
    await_brokers(&nodes[0], 2);
    until(|| is_clean(&nodes[0]));
    assert_eq!(voters(&nodes[0]), [1, 2, 3]);
}

/// A client that asks it for brokers waits until its connection is closed.
#[test]
fn a_controller_alone_says_that_it_is_one_and_hides_no_broker() {
    // Its listener may be named as one of controllers, or be its only one.
    for name in ["CONTROLLER://", ""] {
        check_controller_alone(name);
    }
}

fn check_controller_alone(name: &str) {
    let (dirs, addresses) = ([Dir::new(), Dir::new()], addresses());
    let voters = format!("1@{}", addresses[0]);
    let start = |id: &str, role: &str, listen: &str, data: &Dir| {
        let more = ["--node-id", id, "--roles", role, "--voters", &voters];
        Broker::start_as(listen, &data.0, &more)
    };
    let door = format!("{name}{}", addresses[0]);
    let controller = start("1", "controller", &door, &dirs[0]);
    let broker = start("2", "broker", &addresses[1], &dirs[1]);
    until(|| is_clean(&broker));
    let status = |asked: &str| esker(&["cluster", "status"], asked, b"");
    let (code, error) = failure(&status(&addresses[0]));
    let plain = format!("{} is the address of a controller", addresses[0]);
    assert!(code == 1 && error.contains(&plain), "{error}");
    assert!(error.contains("esker cluster quorum"), "{error}");
    let both = format!("{},{}", addresses[0], addresses[1]);
    for _ in 0..8 {
        let output = status(&both);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{error}");
    }
    drop((controller, broker));
}

/// Nodes 1 and 2 keep the metadata and serve clients at one address.
#[test]
fn a_controller_alone_leads_to_the_controllers_that_are_brokers() {
    let (dirs, addresses) = ([Dir::new(), Dir::new(), Dir::new()], addresses());
    let voter = |(id, address): (usize, &String)| format!("{id}@{address}");
    let voters: Vec<String> = (1..).zip(&addresses).map(voter).collect();
    let voters = voters.join(",");
    let door = format!("CONTROLLER://{}", addresses[2]);
    let own = ["--node-id", "3", "--roles", "controller"];
    let own = [&own[..], &["--voters", &voters]].concat();
    let _alone = Broker::start_as(&door, &dirs[2].0, &own);
    let start = |id: usize| Broker::start_node(id, &addresses, &dirs[id - 1].0);
    let nodes: Vec<Broker> = (1..=2).map(start).collect();
    until(|| is_clean(&nodes[0]));
    until(|| {
        let output = esker(&["cluster", "status"], &addresses[2], b"");
        output.status.success()
    });
}

#[test]
fn addresses_of_two_clusters_are_not_shown_as_one() {
    let (dirs, addresses) = ([Dir::new(), Dir::new()], addresses());
    let start = |at: usize| Broker::start_at(&addresses[at], &dirs[at].0);
    let nodes = [start(0), start(1)];
    let id = |node: &Broker| {
        let status = node.json(&["--json", "cluster", "status"]);
        status["cluster_id"].as_str().unwrap().to_owned()
    };
    let output = esker(&["cluster", "status"], &addresses[..2].join(","), b"");
    let (code, error) = failure(&output);
    assert_eq!((code, output.stdout.len()), (1, 0), "{error}");
    for (address, node) in addresses.iter().zip(&nodes) {
        let is = format!("{address} is of cluster {}", id(node));
        assert!(error.contains(&is), "{error}");
    }
}

#[test]
fn a_broker_that_is_cut_off_from_the_controller_is_not_believed() {
    let (dirs, addresses) = ([Dir::new(), Dir::new()], addresses());
    let [clients, nodes, fifth] = addresses.as_slice() else {
        panic!("three addresses");
    };
    // Others find both doors of the controller at another address of this machine, with the same ports.
    let way = |to: &String| {
        let (_, port) = to.rsplit_once(':').unwrap();
        let at = format!("127.0.0.2:{port}");
        let listener = TcpListener::bind(&at).unwrap();
        (at, Proxy::new(listener, to.clone()))
    };
    let ((at_nodes, nodes_way), (at_clients, clients_way)) = (way(nodes), way(clients));
    let (door, voters) = (format!("CONTROLLER://{nodes}"), format!("1@{at_nodes}"));
    let session = ["--set", "broker.session.timeout.ms=3000"];
    let start = |listen: &str, data: &Dir, more: &[&str]| {
        let more = [more, &["--voters", &voters], &session].concat();
        Broker::start_as(listen, &data.0, &more)
    };
    let advertised = format!("CONTROLLER://{at_nodes}");
    let plain = format!("PLAINTEXT://{at_clients}");
    let both = ["--advertise", &advertised, "--advertise", &plain];
    let own = [&["--node-id", "1", "--listen", &door][..], &both].concat();
    let mut first = start(clients, &dirs[0], &own);
    first.address.clone_from(clients);
    let fifth = start(fifth, &dirs[1], &["--node-id", "5", "--roles", "broker"]);
    await_brokers(&first, 2);
    first.ok(&["topic", "create", "t", "-r", "2", "-p", "4"], b"");
    produce(&first, "t");
    until(|| is_clean(&fifth));

    for way in [&nodes_way, &clients_way] {
        way.cut_off(fifth.process_id());
    }
    // Replicas leave ISRs a moment later, and the broker itself may be the last to know.
    let is_fenced = |(what, _): &&(String, String)| what.starts_with("broker 5 is fenced");
    let mut seen = Vec::new();
    until(|| {
        seen = findings(&fifth);
        let knows = |it| is_fenced(&it) && it.1.contains("has no controller");
        seen.iter().any(knows) && seen == findings(&first)
    });
    let fenced = seen.iter().find(is_fenced);
    assert!(
        seen.iter().all(|(_, todo)| !todo.contains("start broker")),
        "{seen:?}"
    );
    let (_, todo) = fenced.unwrap();
    assert!(todo.contains("it runs at"), "{todo}");
    assert!(
        seen.iter().all(|(what, _)| !what.contains("no leader")),
        "{seen:?}"
    );
}

/// A process that is paused takes connections and answers none of them.
#[test]
fn a_broker_that_is_paused_delays_the_status_by_seconds_and_hides_nothing() {
    let (dirs, addresses) = ([Dir::new(), Dir::new(), Dir::new()], addresses());
    let start = |id: usize| Broker::start_node(id, &addresses, &dirs[id - 1].0);
    let nodes: Vec<Broker> = (1..=3).map(start).collect();
    until(|| is_clean(&nodes[0]));
    let leader = nodes[0].json(&["--json", "cluster", "quorum"])["leader"].clone();
    let leader = leader.as_u64().unwrap() as usize;
    let (silent, other) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    let asked = format!("{},{}", addresses[silent - 1], addresses[other - 1]);
    nodes[silent - 1].nudge("-STOP");
    let status = || {
        let began = Instant::now();
        let output = esker(&["cluster", "status"], &asked, b"");
        let took = began.elapsed();
        assert!(took < Duration::from_secs(10), "{took:?}");
        let (_, error) = failure(&output);
        (String::from_utf8_lossy(&output.stdout).into_owned(), error)
    };
    let (out, error) = status();
    assert!(
        out.contains(&format!("controller   node {leader} at"))
            && out.contains("directories  2, 0 offline"),
        "{out}"
    );
    let unfenced = format!("broker {silent} did not answer in 3 s, and the controller has not");
    assert!(
        error.contains(&unfenced) && error.contains("all its places for connections taken"),
        "{error}"
    );
    let (_, error) = failure(&esker(&["cluster", "status"], &addresses[silent - 1], b""));
    assert!(
        error.contains("took the connection and gave no answer")
            && error.contains("name one of them with --bootstrap"),
        "{error}"
    );

    let fenced = format!("error: broker {silent} is fenced and serves no clients");
    let mut last = (out, error);
    until(|| {
        last = status();
        last.1.contains(&fenced)
    });
    let (out, error) = last;
    assert!(out.contains("brokers      3, 1 fenced"), "{out}");
    assert!(
        error.contains("it did not answer in 3 s at") && error.contains("paused"),
        "{error}"
    );
}

/// A broker passes a question about the quorum on to the controller that is gone, and its answer is lost.
#[test]
fn a_status_of_the_moment_in_which_the_controller_vanishes_names_the_next_one() {
    let (dirs, addresses) = ([Dir::new(), Dir::new(), Dir::new()], addresses());
    let start = |id: usize| Broker::start_node(id, &addresses, &dirs[id - 1].0);
    let nodes: Vec<Broker> = (1..=3).map(start).collect();
    until(|| is_clean(&nodes[0]));
    let leader = nodes[0].json(&["--json", "cluster", "quorum"])["leader"].clone();
    let first = leader.as_u64().unwrap() as usize;
    nodes[first - 1].nudge("-STOP");
    let output = esker(&["cluster", "status"], &addresses.join(","), b"");
    let out = String::from_utf8_lossy(&output.stdout);
    let (_, error) = failure(&output);
    let is_named = |id: usize| out.contains(&format!("controller   node {id} at"));
    assert!(
        (1..=3).any(|id| id != first && is_named(id)),
        "{out}{error}"
    );
}

#[test]
fn reassignments_to_a_fenced_broker_are_one_finding_with_its_cause_and_its_time() {
    let (dirs, addresses) = ([Dir::new(), Dir::new(), Dir::new()], addresses());
    let start = |id: usize| Broker::start_node(id, &addresses, &dirs[id - 1].0);
    let nodes: Vec<Broker> = (1..=3).map(start).collect();
    until(|| is_clean(&nodes[0]));
    nodes[0].ok(&["topic", "create", "t", "-r", "2", "-p", "6"], b"");
    let leader = nodes[0].json(&["--json", "cluster", "quorum"])["leader"].clone();
    let leader = leader.as_u64().unwrap() as usize;
    let (silent, other) = (leader % 3 + 1, &nodes[leader - 1]);
    nodes[silent - 1].nudge("-STOP");
    let env = env::Env::real();
    let mut client = Client::connect(&env, &other.address, Options::default()).unwrap();
    let partition = |partition_index| ReassignablePartition {
        partition_index,
        replicas: Some(vec![1, 2, 3]),
    };
    let topic = ReassignableTopic {
        name: "t".into(),
        partitions: (0..6).map(partition).collect(),
    };
    let request = AlterPartitionReassignmentsRequest {
        timeout_ms: 10_000,
        allow_replication_factor_change: true,
        topics: vec![topic],
    };
    let answer = client.call_any(&request).unwrap();
    assert_eq!(answer.error_code, 0, "{answer:?}");
    let cause = format!("broker {silent} is fenced (does not heartbeat)");
    let mut seen = Vec::new();
    until(|| {
        seen = findings(other);
        seen.retain(|(what, _)| what.starts_with("reassignment"));
        seen.iter().any(|(what, _)| what.contains(&cause))
    });
    assert_eq!(seen.len(), 1, "{seen:?}");
    let (_, time) = seen[0].0.split_once(" not moved for ").unwrap();
    let (seconds, _) = time.split_once(" s: ").unwrap();
    // A broker is fenced when nothing was heard of it for 9 s.
    assert!(5 <= seconds.parse::<u64>().unwrap(), "{seen:?}");
}

/// Of an old cluster two are enough.
#[test]
fn a_new_cluster_names_the_voters_that_it_still_waits_for() {
    let (dirs, addresses) = ([Dir::new(), Dir::new()], addresses());
    let nodes: Vec<Broker> = (1..=2)
        .map(|id| {
            let http = ["--set", "esker.http.listen=127.0.0.1:0"];
            let data = &dirs[id - 1].0;
            Broker::start_node_by(Command::new(ESKER), (id, &addresses), data, &http)
        })
        .collect();
    let window = window(&nodes[0]);
    let begins = "a new cluster begins once all 3 voters, 1, 2, 3, are up together and reach each other; not heard yet: 3";
    let mut text = String::new();
    until(|| {
        let (status, ready) = get(&window, "/readyz", "*/*");
        assert_eq!(status, 503);
        text = ready;
        text.contains(begins)
    });
    assert!(!text.contains("2 of the voters"), "{text}");
    for args in [["cluster", "status"], ["cluster", "quorum"]] {
        let (code, _, error) = told(&nodes[0], &args);
        assert!(
            code == 1 && error.contains(begins) && !error.contains("majority"),
            "{args:?}: {error}"
        );
    }
}

#[test]
fn a_controller_that_is_none_any_more_says_why() {
    let (dirs, addresses) = ([Dir::new(), Dir::new(), Dir::new()], addresses());
    let start = |id: usize| Broker::start_node(id, &addresses, &dirs[id - 1].0);
    let mut nodes: Vec<Broker> = (1..=3).map(start).collect();
    until(|| is_clean(&nodes[0]));
    let leader = |asked: &Broker| {
        let output = asked.run(&["--json", "cluster", "quorum", "--timeout", "2"], b"");
        let quorum: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        quorum["leader"].as_u64().map(|id| id as usize)
    };
    let first = leader(&nodes[0]).unwrap();
    let other = first % 3;
    nodes[first - 1].nudge("-STOP");
    let mut second = first;
    until(|| {
        second = leader(&nodes[other]).unwrap_or(first);
        second != first
    });
    nodes[first - 1].nudge("-CONT");
    let begin = "this node is no longer the active controller of epoch ";
    // It meets the other one, or its own silence first.
    until(|| nodes[first - 1].log().contains(begin));
    until(|| leader(&nodes[first - 1]) == Some(second));

    let last = nodes.swap_remove(second - 1);
    nodes.into_iter().for_each(Broker::kill);
    let why = "no majority of the voters was heard for ";
    until(|| {
        let log = last.log();
        let line = log.lines().find(|line| line.contains(begin));
        line.is_some_and(|line| line.contains(why))
    });
    assert_eq!(last.log().matches(begin).count(), 1);
}

#[test]
fn without_a_majority_the_status_says_once_that_nothing_is_served() {
    let (dirs, addresses) = ([Dir::new(), Dir::new(), Dir::new()], addresses());
    let start = |id: usize| Broker::start_node(id, &addresses, &dirs[id - 1].0);
    let mut nodes: Vec<Broker> = (1..=3).map(start).collect();
    until(|| is_clean(&nodes[0]));
    nodes[0].ok(&["topic", "create", "t", "-r", "3", "-p", "6"], b"");
    // Each node leads some of the partitions: one that takes a record knows the topic.
    for partition in ["0", "1", "2", "3", "4", "5"] {
        nodes[0].ok(&["produce", "t", "-p", partition], b"known\n");
    }
    nodes.drain(1..).for_each(Broker::kill);
    let last = &nodes[0];
    until(|| {
        findings(last)
            .iter()
            .any(|(what, _)| what.contains("no partition is served"))
    });

    let began = Instant::now();
    let (code, out, error) = told(last, &["cluster", "status", "--timeout", "30"]);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(12), "{took:?}");
    assert_eq!(code, 1);
    assert!(out.contains("6 of 1 topics, 6 offline"), "{out}");
    assert!(out.contains("brokers      3, of which 1 answer"), "{out}");
    for wrong in [
        "other partitions are served",
        "no leader",
        "have all that",
        "bring back",
    ] {
        assert!(!error.contains(wrong), "{wrong}: {error}");
    }
    assert_eq!(error.matches("is served").count(), 1, "{error}");

    let (code, _, error) = told(last, &["topic", "describe", "t", "--timeout", "2"]);
    assert_eq!(code, 1);
    assert!(error.contains("broker 1 has no controller"), "{error}");
    assert!(
        error.contains("a majority of the voters") && !error.contains("esker serve"),
        "{error}"
    );
}

#[test]
fn nodes_that_are_replaced_or_taken_out_come_with_the_next_command() {
    let (dirs, addresses) = ([Dir::new(), Dir::new(), Dir::new()], addresses());
    let first = Broker::start_at(&addresses[0], &dirs[0].0);
    // The topic of groups has one replica of each partition, like the cluster.
    first.ok(&["topic", "create", "before"], b"");
    produce(&first, "before");
    first.ok(
        &[
            "consume",
            "before",
            "-g",
            "readers",
            "--from",
            "beginning",
            "-e",
        ],
        b"",
    );
    let join = |id: usize| {
        let data = &dirs[id - 1].0;
        Broker::start_joining(id, &addresses[id - 1], &addresses[0], data, &[])
    };
    let (second, third) = (join(2), join(3));
    await_brokers(&first, 3);
    for id in ["2", "3"] {
        first.ok(&["cluster", "add-voter", id], b"");
    }
    until(|| is_clean(&first));
    let text = first.text(&["cluster", "status"]);
    assert!(
        text.contains("__consumer_offsets has 50 partitions of one replica, though 3 brokers live")
            && text.contains("kafka-reassign-partitions"),
        "{text}"
    );
    first.ok(&["topic", "create", "after", "-r", "3", "-p", "3"], b"");

    // Mistyped numbers change nothing, and do not look like a success.
    for (verb, words) in [
        ("remove-voter", "there is no node 99"),
        ("unregister", "broker 99 is not on the list"),
    ] {
        let (code, out, error) = told(&first, &["cluster", verb, "99"]);
        assert_eq!((code, out.as_str()), (1, ""), "{error}");
        assert!(
            error.contains(words) && error.contains("1, 2, 3"),
            "{error}"
        );
    }
    let (code, _, error) = told(&first, &["cluster", "unregister", "3"]);
    assert!(
        code == 1 && error.contains("broker 3 at") && error.contains("is live"),
        "{error}"
    );
    await_brokers(&first, 3);

    // An empty directory is another replica, and has no vote.
    third.kill();
    std::fs::remove_dir_all(&dirs[2].0).unwrap();
    let third = join(3);
    let is_named = |(what, todo): &(String, String)| {
        what.starts_with("node 3 runs with another directory")
            && todo.contains("`esker cluster remove-voter 3`, then `esker cluster add-voter 3`")
    };
    until(|| findings(&first).iter().any(is_named));
    first.ok(&["cluster", "remove-voter", "3"], b"");
    first.ok(&["cluster", "add-voter", "3"], b"");
    until(|| is_clean(&first));

    first.ok(&["cluster", "remove-voter", "3"], b"");
    third.kill();
    let out = first.run(&["cluster", "unregister", "3"], b"");
    let warning = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{warning}");
    assert_eq!(
        String::from_utf8_lossy(&out.stdout),
        "broker 3 is taken off the list\n"
    );
    assert!(
        warning.contains("partitions with a replica on broker 3: 3, after-0 among them"),
        "{warning}"
    );
    let todo = "broker 3 is not on the list of brokers: give the replicas to others with `kafka-reassign-partitions`";
    until(|| findings(&first).iter().any(|(_, it)| it == todo));
    assert!(
        findings(&second)
            .iter()
            .all(|(_, todo)| !todo.contains("start broker"))
    );
    assert_eq!(
        first
            .json(&["--json", "cluster", "brokers"])
            .as_array()
            .map(Vec::len),
        Some(2)
    );
    assert_eq!(json!(voters(&first)), json!([1, 2]));
}
