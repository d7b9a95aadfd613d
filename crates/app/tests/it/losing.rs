//! Two of three nodes are lost with their directories: the third becomes the only voter, serves, and takes others in again.

#![allow(clippy::disallowed_methods)] // tests meet the operating system as users do

use std::path::Path;

use serde_json::json;

use crate::broker::{Broker, Dir, esker, failure};
use crate::cluster::{addresses, until};
use crate::growing::{RECORDS, await_brokers, count, produce, voters};

fn names(dirs: &[&Path]) -> Vec<String> {
    let names = dirs.iter().map(|dir| dir.display().to_string());
    names.collect()
}

fn repair(dirs: &[&Path], typed: &str) -> std::process::Output {
    let dirs = names(dirs);
    let mut args = vec!["--json", "repair", "--new-quorum"];
    args.extend(dirs.iter().map(String::as_str));
    esker(&args, "127.0.0.1:1", typed.as_bytes())
}

fn makes_a_topic(broker: &Broker, name: &str) -> bool {
    let made = broker.run(&["topic", "create", name, "-r", "1"], b"");
    made.status.success()
}

#[test]
fn the_last_of_three_becomes_the_only_voter_and_takes_others_in() {
    let (dirs, addresses) = ([Dir::new(), Dir::new(), Dir::new()], addresses());
    let start = |id: usize| Broker::start_node(id, &addresses, &dirs[id - 1].0);
    let mut nodes: Vec<Broker> = (1..=3).map(start).collect();
    await_brokers(&nodes[0], 3);
    let create = ["topic", "create", "orders", "-p", "6", "-r", "3"];
    nodes[0].ok(&create, b"");
    produce(&nodes[0], "orders");
    let id = nodes[0].json(&["--json", "cluster", "status"])["cluster_id"].clone();
    let id = id.as_str().unwrap().to_owned();
    let last = &dirs[0].0;

    // It is stopped first, and has to be.
    let (code, error) = failure(&repair(&[last], &id));
    assert_eq!(code, 1);
    assert!(error.contains("stop that broker first"), "{error}");
    nodes.drain(..).for_each(Broker::kill);

    // Several directories are compared, and none is changed.
    let both = repair(&[last, &dirs[1].0], &id);
    assert!(both.status.success());
    let told: serde_json::Value = serde_json::from_slice(&both.stdout).unwrap();
    assert_eq!(told.as_array().map(Vec::len), Some(2), "{told}");
    let said = String::from_utf8_lossy(&both.stderr).into_owned();
    assert!(said.contains("alone to go on"), "{said}");
    for lost in &dirs[1..] {
        std::fs::remove_dir_all(&lost.0).unwrap();
    }

    // Alone it elects nobody, neither before nor when the word is another one.
    let (code, error) = failure(&repair(&[last], "yes"));
    assert_eq!(code, 1);
    assert!(error.contains("nothing was changed"), "{error}");
    let alone = start(1);
    assert!(!makes_a_topic(&alone, "early"));
    alone.kill();

    let done = repair(&[last], &id);
    assert!(done.status.success(), "{}", failure(&done).1);
    let told: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(told[0]["node"], 1);
    assert_eq!(told[0]["voters"], json!([1, 2, 3]));
    let partitions = &told[0]["partitions"];
    assert_eq!(
        (&partitions["behind"], &partitions["elsewhere"]),
        (&json!(0), &json!(0)),
        "{told}"
    );

    // Its settings are those of before.
    let first = start(1);
    assert_eq!(voters(&first), [1]);
    // With two in sync at least nothing more counts as committed here; it is the operator's choice to wait or to lower that.
    let lowered = ["topic", "alter", "orders", "--set", "min.insync.replicas=1"];
    until(|| first.run(&lowered, b"").status.success());
    until(|| count(&first, "orders") == RECORDS);
    until(|| makes_a_topic(&first, "alone"));

    // Empty directories under the former numbers; their replicas are filled.
    let mut others: Vec<Broker> = (2..=3).map(start).collect();
    await_brokers(&first, 3);
    for node in ["2", "3"] {
        first.ok(&["cluster", "add-voter", node], b"");
    }
    assert_eq!(voters(&first), [1, 2, 3]);
    until(|| {
        let status = first.run(&["--json", "cluster", "status"], b"");
        let told: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap_or_default();
        told["under_replicated_partitions"] == json!([])
    });
    produce(&first, "orders");
    first.kill();
    let second = others.swap_remove(0);
    until(|| makes_a_topic(&second, "after"));
    until(|| count(&second, "orders") == 2 * RECORDS);
}
