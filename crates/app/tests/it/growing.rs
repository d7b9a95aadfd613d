//! A cluster of one becomes one of three while it runs, and one of two again.

#![allow(clippy::disallowed_methods)] // tests meet the operating system as users do

use std::path::Path;

use crate::broker::{Broker, Dir, esker, failure};
use crate::cluster::{addresses, until};

pub(crate) const RECORDS: usize = 500;

pub(crate) fn produce(broker: &Broker, topic: &str) {
    let lines: String = (0..RECORDS).map(|line| format!("{line}\n")).collect();
    broker.ok(&["produce", topic], lines.as_bytes());
}

pub(crate) fn count(broker: &Broker, topic: &str) -> usize {
    let output = broker.run(&["consume", topic, "--from", "beginning", "-e"], b"");
    output.stdout.iter().filter(|byte| **byte == b'\n').count()
}

/// The voters by number, as `broker` says.
pub(crate) fn voters(broker: &Broker) -> Vec<i64> {
    let output = broker.run(&["--json", "cluster", "quorum"], b"");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let replicas = told["replicas"].as_array().cloned().unwrap_or_default();
    let voters = replicas.iter().filter(|it| it["role"] != "observer");
    voters.filter_map(|it| it["node"].as_i64()).collect()
}

pub(crate) fn await_brokers(broker: &Broker, count: usize) {
    until(|| {
        let output = broker.run(&["--json", "cluster", "brokers"], b"");
        let brokers: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let live = brokers.as_array().into_iter().flatten();
        live.filter(|it| it["state"] == "live").count() == count
    });
}

fn restart(id: usize, addresses: &[String], data: &Path) -> Broker {
    if id == 1 {
        // Its settings name nobody else: the others are in its log.
        Broker::start_at(&addresses[0], data)
    } else {
        Broker::start_joining(id, &addresses[id - 1], &addresses[0], data, &[])
    }
}

#[test]
fn a_lone_node_grows_to_three_of_which_any_may_die() {
    let (dirs, addresses) = ([Dir::new(), Dir::new(), Dir::new()], addresses());
    let first = Broker::start_at(&addresses[0], &dirs[0].0);
    first.ok(&["topic", "create", "before"], b"");
    produce(&first, "before");
    let mut nodes = vec![Some(first)];
    for id in 2..=3 {
        nodes.push(Some(restart(id, &addresses, &dirs[id - 1].0)));
    }
    let first = nodes[0].as_ref().unwrap();
    await_brokers(first, 3);
    assert_eq!(voters(first), [1]);
    for id in ["2", "3"] {
        first.ok(&["cluster", "add-voter", id], b"");
        // Given again it says the same.
        first.ok(&["cluster", "add-voter", id], b"");
    }
    assert_eq!(voters(first), [1, 2, 3]);
    first.ok(&["topic", "create", "after", "-r", "3"], b"");
    produce(first, "after");

    for dead in 0..3 {
        nodes[dead].take().unwrap().kill();
        let other = nodes[(dead + 1) % 3].as_ref().unwrap();
        let name = format!("without-{dead}");
        until(|| {
            let made = other.run(&["topic", "create", &name, "-r", "2"], b"");
            made.status.success()
        });
        until(|| count(other, "after") == RECORDS);
        let id = dead + 1;
        let again = restart(id, &addresses, &dirs[dead].0);
        await_brokers(&again, 3);
        until(|| voters(&again) == [1, 2, 3]);
        nodes[dead] = Some(again);
    }
    let second = nodes[1].as_ref().unwrap();
    until(|| count(second, "before") == RECORDS);

    // The leader, too: another is elected, and the removal holds.
    second.ok(&["cluster", "remove-voter", "3"], b"");
    until(|| voters(second) == [1, 2]);
    second.ok(&["cluster", "remove-voter", "1"], b"");
    until(|| voters(second) == [2]);
    assert_eq!(count(second, "before"), RECORDS);
    for node in nodes.into_iter().flatten() {
        assert_eq!(node.stop(), Some(0));
    }
}

#[test]
fn controllers_join_by_themselves_where_the_settings_say_so() {
    let (dirs, addresses) = ([Dir::new(), Dir::new(), Dir::new()], addresses());
    let first = Broker::start_at(&addresses[0], &dirs[0].0);
    let join = ["--set", "controller.quorum.auto.join.enable=true"];
    let others: Vec<Broker> = (2..=3)
        .map(|id| {
            let data = &dirs[id - 1].0;
            Broker::start_joining(id, &addresses[id - 1], &addresses[0], data, &join)
        })
        .collect();
    until(|| voters(&first) == [1, 2, 3]);
    // The controller writes though nobody asks for anything.
    let committed = || first.json(&["--json", "cluster", "quorum"])["committed"].as_i64();
    let before = committed();
    until(|| before < committed());
    first.kill();
    until(|| {
        let made = others[0].run(&["topic", "create", "t", "-r", "2"], b"");
        made.status.success()
    });
}

/// One controller and several brokers, which were told its address and nothing else.
#[test]
fn brokers_join_a_lone_voter_at_the_door_of_its_controller() {
    let (dirs, addresses) = ([Dir::new(), Dir::new(), Dir::new()], addresses());
    let [clients, nodes, joining] = addresses.as_slice() else {
        panic!("three addresses");
    };
    let (door, voters) = (format!("CONTROLLER://{nodes}"), format!("1@{nodes}"));
    let lone = || {
        let more = ["--node-id", "1", "--voters", &voters, "--listen", &door];
        let mut lone = Broker::start_as(clients, &dirs[0].0, &more);
        lone.address.clone_from(clients);
        lone
    };
    let join = || {
        let more = ["--node-id", "5", "--roles", "broker", "--voters", &voters];
        Broker::start_as(joining, &dirs[1].0, &more)
    };
    let (first, fifth) = (lone(), join());
    await_brokers(&first, 2);
    first.ok(&["topic", "create", "t", "-r", "2"], b"");
    produce(&fifth, "t");

    first.kill();
    fifth.kill();
    let fifth = join();
    // Another cluster, which has a controller.
    let other = Broker::start(&dirs[2].0, &[]);
    let quorum = |bootstrap: &str| esker(&["cluster", "quorum"], bootstrap, b"");
    let (code, error) = failure(&quorum(&fifth.address));
    assert_eq!(code, 1, "{error}");
    assert!(error.contains("broker 5 has no controller"), "{error}");
    let both = format!("{},{}", fifth.address, other.address);
    assert!(quorum(&both).status.success());
    let first = lone();
    await_brokers(&first, 2);
    assert_eq!(super::growing::voters(&fifth), [1]);
    until(|| count(&fifth, "t") == RECORDS);
}

/// T-2: once it led, the voters in the log said nothing of where it is.
#[test]
fn a_controller_alone_is_found_by_those_that_come_back() {
    let (dirs, addresses) = ([Dir::new(), Dir::new()], addresses());
    let lone = || Broker::start_at(&addresses[0], &dirs[0].0);
    let first = lone();
    first.ok(&["topic", "create", "t"], b"");
    let door = format!("CONTROLLER://{}", addresses[1]);
    let roles = ["--node-id", "7", "--roles", "controller"];
    let more = [&roles[..], &["--bootstrap-controller", &addresses[0]]].concat();
    let _controller = Broker::start_as(&door, &dirs[1].0, &more);
    first.ok(
        &["cluster", "add-voter", "7", "--address", &addresses[1]],
        b"",
    );
    first.ok(&["cluster", "remove-voter", "1"], b"");
    until(|| voters(&first) == [7]);
    first.kill();
    let first = lone();
    until(|| first.run(&["topic", "list"], b"").status.success());
    assert_eq!(voters(&first), [7]);
}

/// A node without a vote, and a broker that has none to get. Each was told one address, which is that of the active controller: it names no
/// other leader than the one that their directories remember.
#[test]
fn nodes_that_have_joined_three_voters_come_back_before_they_vote() {
    let dirs: Vec<Dir> = (0..5).map(|_| Dir::new()).collect();
    let (voters, joining) = (addresses(), addresses());
    let start = |id: usize| Broker::start_node(id, &voters, &dirs[id - 1].0);
    let three: Vec<Broker> = (1..=3).map(start).collect();
    await_brokers(&three[0], 3);
    let leader = || three[0].json(&["--json", "cluster", "quorum"])["leader"].as_u64();
    let join = |id: usize, more: &[&str]| {
        let active = leader().and_then(|id| usize::try_from(id).ok()).unwrap();
        let known = &voters[active - 1];
        Broker::start_joining(id, &joining[id - 4], known, &dirs[id - 1].0, more)
    };
    let roles = ["--roles", "broker"];
    let (fourth, fifth) = (join(4, &[]), join(5, &roles));
    await_brokers(&three[0], 5);
    fourth.kill();
    assert_eq!(fifth.stop(), Some(0));
    await_brokers(&three[0], 3);
    let again = [join(4, &[]), join(5, &roles)];
    await_brokers(&three[0], 5);
    for node in again {
        until(|| node.run(&["topic", "list"], b"").status.success());
    }
}
