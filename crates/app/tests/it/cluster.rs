//! The cluster from the command line: a lone node that is its own quorum, leader and only broker, and three.

#![allow(clippy::disallowed_methods)] // tests meet the operating system as users do

use std::net::TcpListener;
use std::time::Duration;

use serde_json::Value;

use crate::broker::{Broker, Dir, esker, failure};

#[test]
fn a_lone_node_is_a_healthy_cluster() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &["--set", "broker.rack=r1"]);
    broker.ok(&["topic", "create", "t", "-p", "3"], b"");

    let status = broker.json(&["--json", "cluster", "status"]);
    assert_eq!(status["findings"], serde_json::json!([]));
    assert_eq!(status["quorum"]["leader"], 1);
    assert_eq!(status["topics"], 1);
    assert_eq!(status["log_dirs"][0]["state"], "online");
    assert!(status["features"]["metadata.version"].is_i64(), "{status}");
    assert_eq!(status["cluster_id"].as_str().map(str::len), Some(22));
    let text = broker.text(&["cluster", "status"]);
    assert!(
        text.contains("controller   node 1") && text.contains("partitions   3 of 1 topics"),
        "{text}"
    );

    let brokers = broker.json(&["--json", "cluster", "brokers"]);
    let own = &brokers[0];
    assert_eq!(
        (&own["broker"], &own["rack"], &own["state"]),
        (&Value::from(1), &Value::from("r1"), &Value::from("live"))
    );
    assert_eq!((&own["leads"], &own["log_dirs"]), (&3.into(), &1.into()));

    let quorum = broker.json(&["--json", "cluster", "quorum"]);
    let replicas = quorum["replicas"].as_array().unwrap();
    assert_eq!(replicas.len(), 1);
    assert_eq!(
        (&replicas[0]["role"], &replicas[0]["lag"]),
        (&"leader".into(), &0.into())
    );
    let text = broker.text(&["cluster", "quorum"]);
    assert!(text.starts_with("leader 1  epoch "), "{text}");
    assert_eq!(broker.stop(), Some(0));

    let (code, error) = failure(&esker(&["cluster", "status"], "127.0.0.1:1", b""));
    assert_eq!(code, 1);
    assert!(error.contains("esker serve"), "{error}");
}

/// Addresses that are free now.
pub(crate) fn addresses() -> Vec<String> {
    let free: Vec<TcpListener> = (0..3)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let address = |it: &TcpListener| it.local_addr().unwrap().to_string();
    free.iter().map(address).collect()
}

/// Asks until the answer is yes.
pub(crate) fn until(mut ask: impl FnMut() -> bool) {
    for _ in 0..300 {
        if ask() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("it does not come");
}

/// The exit code and the answer of a command whose answer is worth something when it fails, too.
fn answer(broker: &Broker, args: &[&str]) -> (i32, Value, String) {
    let output = broker.run(args, b"");
    let (code, error) = failure(&output);
    let value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (code, value, error)
}

#[test]
fn replicas_are_described_compared_and_missed() {
    let (dirs, addresses) = ([Dir::new(), Dir::new(), Dir::new()], addresses());
    let start = |id: usize| Broker::start_node(id, &addresses, &dirs[id - 1].0);
    let mut nodes: Vec<Option<Broker>> = (1..=3).map(|id| Some(start(id))).collect();
    let first = nodes[0].take().unwrap();
    until(|| {
        let (_, brokers, _) = answer(&first, &["--json", "cluster", "brokers"]);
        let live = brokers.as_array().into_iter().flatten();
        live.filter(|broker| broker["state"] == "live").count() == 3
    });
    let wanted = [
        ("t", "min.insync.replicas=3"),
        ("u", "cleanup.policy=compact"),
    ];
    for (topic, setting) in wanted {
        first.ok(
            &[
                "topic", "create", topic, "-r", "3", "-p", "2", "-c", setting,
            ],
            b"",
        );
        let lines: String = (0..500).map(|line| format!("k{line}:{line}\n")).collect();
        first.ok(&["produce", topic, "-k", ":"], lines.as_bytes());
    }
    for topic in ["t", "u"] {
        let verdict = first.json(&["--json", "cluster", "verify", topic]);
        let rows = verdict.as_array().unwrap();
        assert!(rows.iter().all(|row| row["result"] == "same"), "{verdict}");
        let compared = rows.iter().map(|row| row["to"].as_i64().unwrap());
        assert_eq!(compared.sum::<i64>(), 500);
        assert!(
            rows.iter()
                .all(|row| row["replicas"].as_array().unwrap().len() == 3)
        );
    }
    let described = first.json(&["--json", "topic", "describe", "t"]);
    let partition = &described[0]["partitions"][0];
    let none = serde_json::json!({"1": 0, "2": 0, "3": 0});
    assert_eq!(
        (&partition["lag"], &partition["elr"]),
        (&none, &serde_json::json!([]))
    );

    nodes[2].take().unwrap().kill();
    until(|| {
        let (_, status, _) = answer(&first, &["--json", "cluster", "status"]);
        status["below_min_isr_partitions"] == serde_json::json!(["t-0", "t-1"])
    });
    let (code, _, error) = answer(&first, &["cluster", "status"]);
    assert_eq!(code, 1);
    assert!(error.contains("hint: start broker 3"), "{error}");
    let described = first.json(&["--json", "topic", "describe", "t"]);
    assert_eq!(described[0]["partitions"][0]["lag"]["3"], Value::Null);
    let (code, verdict, error) = answer(&first, &["--json", "cluster", "verify", "t"]);
    assert_eq!(
        (code, &verdict[0]["result"]),
        (1, &"same as far as compared".into())
    );
    assert!(
        error.contains("replica 3 of t-0 is not compared"),
        "{error}"
    );

    nodes[2] = Some(start(3));
    until(|| answer(&first, &["cluster", "verify", "t"]).0 == 0);
}
