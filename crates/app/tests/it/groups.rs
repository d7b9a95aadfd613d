//! Groups from the command line: listed, described, moved, deleted.

use serde_json::Value;

use crate::broker::{Broker, Dir, failure};

fn lines(count: usize) -> String {
    (0..count).map(|i| format!("line {i}\n")).collect()
}

fn told(broker: &Broker, args: &[&str]) -> Value {
    serde_json::from_str(&broker.text(&[&["--json", "group"], args].concat())).unwrap()
}

fn described(broker: &Broker, group: &str) -> Value {
    told(broker, &["describe", group])[0].clone()
}

#[test]
fn a_group_is_moved_described_and_deleted() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    broker.ok(&["topic", "create", "t"], b"");
    broker.ok(&["produce", "t"], lines(10).as_bytes());
    broker.ok(&["group", "reset", "g", "-t", "t", "--to", "4"], b"");

    let listed = told(&broker, &["list"]);
    assert_eq!(listed[0]["group"], "g");
    assert_eq!(listed[0]["state"], "Empty");
    let part = described(&broker, "g")["partitions"][0].clone();
    assert_eq!(part["committed"], 4);
    assert_eq!(part["log_end"], 10);
    assert_eq!(part["lag"], 6);
    assert!(part["lag_seconds"].as_f64().is_some_and(|age| age < 600.0));

    for (to, after) in [
        (&["--to", "beginning"][..], 0),
        (&["--shift-by", "7"], 7),
        (&["--shift-by", "-100"], 0),
        (&["--to", "end"], 10),
        (&["--by-duration", "1h"], 0),
    ] {
        let args = [&["group", "reset", "g"][..], to].concat();
        broker.ok(&args, b"");
        let committed = &described(&broker, "g")["partitions"][0]["committed"];
        assert_eq!(*committed, after, "{to:?}");
    }
    broker.ok(&["group", "reset", "g", "--to", "9", "--dry-run"], b"");
    assert_eq!(described(&broker, "g")["partitions"][0]["committed"], 0);

    broker.ok(&["group", "delete", "g"], b"");
    let (code, error) = failure(&broker.run(&["group", "describe", "g"], b""));
    assert_eq!(code, 1);
    assert!(error.contains("there is no group g"), "{error}");
    assert_eq!(broker.stop(), Some(0));
}

#[test]
fn what_a_group_committed_survives_a_kill() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    broker.ok(&["topic", "create", "t"], b"");
    broker.ok(&["produce", "t"], lines(10).as_bytes());
    broker.ok(&["group", "reset", "g", "-t", "t", "--to", "7"], b"");
    broker.kill();
    let broker = Broker::start(&dir.0, &[]);
    assert_eq!(described(&broker, "g")["partitions"][0]["committed"], 7);
    assert_eq!(broker.stop(), Some(0));
}
