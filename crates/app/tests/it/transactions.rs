//! Transactions from the command line: listed, described, and ended where they hang.

use serde_json::Value;

use crate::broker::{Broker, Dir, failure};
use crate::members::{Peer, TRANSACTION};

fn told(broker: &Broker, args: &[&str]) -> Value {
    broker.json(&[&["--json", "txn"], args].concat())
}

fn ids(listed: &Value) -> Vec<&str> {
    let rows = listed.as_array().unwrap().iter();
    rows.filter_map(|row| row["transactional_id"].as_str())
        .collect()
}

#[test]
fn transactions_are_listed_and_described() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    broker.ok(&["topic", "create", "t"], b"");
    let mut peer = Peer::of(&broker, "open-1", TRANSACTION);
    let idle = peer.begin("idle-1");
    let open = peer.begin("open-1");
    peer.add_partition("open-1", open, "t");
    assert_eq!(peer.produce("open-1", open, "t"), 0);

    for (filter, expected) in [
        (&[][..], &["idle-1", "open-1"][..]),
        (&["--state", "Ongoing"], &["open-1"]),
        (&["--state", "Empty,Ongoing"], &["idle-1", "open-1"]),
        (&["--state", "CompleteAbort"], &[]),
        (&["--pattern", "idle-.*"], &["idle-1"]),
        (&["--pattern", "idle"], &[]),
    ] {
        let listed = told(&broker, &[&["list"], filter].concat());
        assert_eq!(ids(&listed), expected, "{filter:?}");
    }
    let (_, error) = failure(&broker.run(&["txn", "list", "--pattern", "("], b""));
    assert!(error.contains("regular expression"), "{error}");

    let rows = told(&broker, &["describe", "open-1", "idle-1"]);
    let (first, second) = (&rows[0], &rows[1]);
    assert_eq!(first["state"], "Ongoing");
    assert_eq!(first["producer_id"], open.0);
    assert_eq!(first["producer_epoch"], open.1);
    assert_eq!(first["timeout_ms"], 60_000);
    assert_eq!(first["partitions"], serde_json::json!(["t-0"]));
    assert!(first["start_ms"].is_i64(), "{first}");
    assert_eq!(second["state"], "Empty");
    assert_eq!(second["producer_id"], idle.0);
    assert_eq!(second["start_ms"], Value::Null);
    let output = broker.run(&["txn", "describe", "nosuch"], b"");
    assert_eq!(failure(&output).0, 1);
    assert_eq!(broker.stop(), Some(0));
}

#[test]
fn a_transaction_that_hangs_is_aborted() {
    let dir = Dir::new();
    let unverified = ["--set", "transaction.partition.verification.enable=false"];
    let broker = Broker::start(&dir.0, &unverified);
    broker.ok(&["topic", "create", "t"], b"");
    let abort = |more: &[&str]| {
        let args = [
            &["--json", "txn", "abort", "--topic", "t", "--partition", "0"],
            more,
        ];
        broker.run(&args.concat(), b"")
    };
    let (code, error) = failure(&abort(&[]));
    assert_eq!(code, 1);
    assert!(
        error.contains("no such transaction is open in t-0"),
        "{error}"
    );

    // No coordinator knows these producers: nothing but an operator ends what they began.
    let mut peer = Peer::of(&broker, "any", TRANSACTION);
    assert_eq!(peer.produce("lost", (777, 3), "t"), 0);
    assert_eq!(peer.produce("lost-too", (778, 0), "t"), 1);
    broker.ok(&["produce", "t"], b"after\n");
    let committed = || broker.ok(&["consume", "t", "-e"], b"");
    assert_eq!(committed(), b"");
    assert_eq!(ids(&told(&broker, &["list"])), [""; 0]);
    let (_, error) = failure(&abort(&["--start-offset", "9"]));
    assert!(
        error.contains("no such transaction is open in t-0"),
        "{error}"
    );

    let (code, error) = failure(&abort(&[]));
    let open = "0 (of producer 777), 1 (of producer 778)";
    assert!(code == 1 && error.contains(open), "{error}");
    assert_eq!(committed(), b"", "none is chosen for the operator");
    let oldest: Value = serde_json::from_slice(&abort(&["--start-offset", "0"]).stdout).unwrap();
    assert_eq!(oldest[0]["producer_id"], 777);
    assert_eq!(oldest[0]["start_offset"], 0);
    assert_eq!(committed(), b"", "the other one is still open");
    let other: Value = serde_json::from_slice(&abort(&["--start-offset", "1"]).stdout).unwrap();
    assert_eq!(other[0]["producer_id"], 778);
    assert_eq!(committed(), b"after\n");
    assert_eq!(failure(&abort(&[])).0, 1, "nothing is left to abort");
    assert_eq!(broker.stop(), Some(0));
}
