//! Askers before a broker with an authorizer: who is told what, of which resource, there or not.

mod cluster;
mod data;
mod groups;
mod topics;
mod txns;

use wire::messages::{CreateTopicsRequest, FindCoordinatorRequest};

use crate::event_loop::bench::Bench;

/// Topics that every broker here has, and one that none has.
const TOPIC: &str = "t";
const OTHER: &str = "other";
const MISSING: &str = "missing";

const TOPIC_DENIED: i16 = 29;
const GROUP_DENIED: i16 = 30;
const CLUSTER_DENIED: i16 = 31;
const ID_DENIED: i16 = 53;
const UNKNOWN_TOPIC: i16 = 3;

/// A broker with two topics and these rules.
fn bench(rules: &[&str]) -> Bench {
    with(&[], rules)
}

fn with(settings: &[(&str, &str)], rules: &[&str]) -> Bench {
    let mut bench = Bench::guarded(settings);
    for topic in [TOPIC, OTHER] {
        bench.create(topic, 1);
        bench.answer::<CreateTopicsRequest>(4).expect("created");
    }
    for rule in rules {
        bench.add_rule(rule);
    }
    bench
}

/// The same with coordinators of groups and transactions.
fn coordinating(rules: &[&str]) -> Bench {
    let mut bench = bench(rules);
    for key_type in [0, 1] {
        let find = FindCoordinatorRequest {
            key: "any".to_owned(),
            key_type,
            ..Default::default()
        };
        bench.ask_as("boss", &find, 3);
        bench.turn_coordinators();
        bench.commit();
        bench.turn_coordinators();
    }
    bench
}

/// Five askers about one resource: a super user, one with exactly the right that is needed, one who may only describe, a stranger, and
/// one who may do everything but this.
fn askers(operation: &str, kind: &str, name: &str) -> [(&'static str, Vec<String>); 5] {
    let rule = |what: &str| format!("alice allow {what} {kind} {name}");
    [
        ("boss", vec![]),
        ("alice", vec![rule(operation)]),
        ("alice", vec![rule("Describe")]),
        ("alice", vec![]),
        (
            "alice",
            vec![rule("All"), format!("alice deny {operation} {kind} {name}")],
        ),
    ]
}

/// The outcomes for the five askers.
fn outcomes<T>(
    (operation, kind, name): (&str, &str, &str),
    bench: impl Fn(&[&str]) -> Bench,
    ask: impl Fn(&mut Bench, &str) -> T,
) -> Vec<T> {
    let askers = askers(operation, kind, name).into_iter();
    askers
        .map(|(user, rules)| {
            let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
            ask(&mut bench(&rules), user)
        })
        .collect()
}
