//! The cluster from the command line: a lone node is its own quorum, leader and only broker.

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
