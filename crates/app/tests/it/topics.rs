//! Topics from the command line.

use serde_json::json;

use crate::broker::{Broker, Dir, esker, failure};

#[test]
fn a_topic_lives_from_create_to_delete() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    broker.ok(
        &[
            "topic",
            "create",
            "t",
            "--partitions",
            "2",
            "-c",
            "retention.ms=3600000",
        ],
        b"",
    );
    let list = broker.json(&["topic", "list", "--json"]);
    assert_eq!(
        (
            &list[0]["topic"],
            &list[0]["partitions"],
            &list[0]["replication_factor"]
        ),
        (&json!("t"), &json!(2), &json!(1))
    );

    broker.ok(&["produce", "t", "--partition", "1"], b"a\nb\nc\n");
    let described = broker.json(&["topic", "describe", "t", "--json"]);
    let partition = &described[0]["partitions"][1];
    assert_eq!(
        (&partition["log_start"], &partition["log_end"]),
        (&json!(0), &json!(3))
    );
    assert_eq!(
        described[0]["configs"],
        json!([{"name": "retention.ms", "value": "3600000", "source": "topic"}])
    );

    broker.ok(
        &[
            "topic",
            "alter",
            "t",
            "--partitions",
            "4",
            "--set",
            "segment.ms=1000000",
            "--unset",
            "retention.ms",
        ],
        b"",
    );
    let described = broker.json(&["topic", "describe", "t", "--json"]);
    assert_eq!(described[0]["partitions"].as_array().unwrap().len(), 4);
    assert_eq!(described[0]["configs"][0]["name"], "segment.ms");

    broker.ok(&["topic", "trim", "t", "--before", "2"], b"");
    assert_eq!(
        broker.text(&["consume", "t", "-e", "-f", "%o%s\\n"]),
        "2c\n"
    );
    broker.ok(&["topic", "delete", "t"], b"");
    assert_eq!(broker.json(&["topic", "list", "--json"]), json!([]));
}

#[test]
fn mistakes_are_answered_with_what_to_do() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &["--set", "auto.create.topics.enable=false"]);
    broker.ok(&["topic", "create", "t"], b"");
    broker.ok(&["topic", "create", "t", "--if-not-exists"], b"");
    let compacted = ["topic", "create", "table", "-c", "cleanup.policy=compact"];
    broker.ok(&compacted, b"");
    for (args, code, words) in [
        (&["topic", "create", "t"][..], 1, "--if-not-exists"),
        (&["topic", "create", "a/b"], 1, "a/b"),
        (
            &["topic", "create", "u", "-c", "retention.ms=soon"],
            1,
            "retention.ms",
        ),
        (
            &["topic", "create", "u", "-c", "no.such.setting=1"],
            1,
            "no.such.setting",
        ),
        (
            &["topic", "create", "u", "-c", "retention.mz=3"],
            1,
            "hint: did you mean retention.ms?",
        ),
        (
            &["topic", "alter", "t", "--set", "segment.byte=2097152"],
            1,
            "hint: did you mean segment.bytes?",
        ),
        (&["topic", "trim", "table", "--before", "end"], 1, "policy"),
        (&["topic", "create", "u", "-r", "3"], 1, "eplication factor"),
        (&["topic", "alter", "t", "-p", "1"], 1, "partition"),
        (&["topic", "describe", "nope"], 1, "esker topic create nope"),
        (&["topic", "delete", "nope"], 1, "no topic nope"),
        (&["consume", "nope"], 1, "no topic nope"),
        (&["consume", "t", "-p", "9"], 1, "partitions 0 to 0"),
        (
            &["consume", "t", "--from", "50", "-n", "1"],
            1,
            "--from beginning",
        ),
        (&["consume", "t", "--from", "noon"], 2, "@time"),
        (&["produce", "t", "no-such-file"], 1, "no-such-file"),
    ] {
        let (got, error) = failure(&broker.run(args, b""));
        assert_eq!(got, code, "{args:?}: {error}");
        assert!(error.contains(words), "{args:?}: {error}");
    }
    let (code, error) = failure(&broker.run(&["produce", "nope", "--timeout", "1"], b"x\n"));
    assert!(code == 1 && error.contains("esker topic create"), "{error}");
}

#[test]
fn each_of_several_names_is_tried_and_each_failure_told() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &["--set", "auto.create.topics.enable=false"]);
    broker.ok(&["topic", "create", "b"], b"");
    let run = |args: &[&str]| {
        let output = broker.run(args, b"");
        let rows = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let (code, error) = failure(&output);
        (code, error, rows)
    };
    let topics = |rows: &serde_json::Value| -> Vec<String> {
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| row["topic"].as_str().unwrap().to_owned())
            .collect()
    };
    let (code, error, rows) = run(&["--json", "topic", "create", "a", "b", "x/y", "c"]);
    assert_eq!((code, topics(&rows)), (1, vec!["a".into(), "c".into()]));
    assert_eq!(error.matches("error: ").count(), 2, "{error}");
    let (code, error, rows) = run(&["--json", "topic", "describe", "nope", "a", "no", "b"]);
    assert_eq!((code, topics(&rows)), (1, vec!["a".into(), "b".into()]));
    assert!(
        error.contains("no topic nope") && error.contains("no topic no\n"),
        "{error}"
    );
    let (code, error, rows) = run(&["--json", "topic", "delete", "nope", "a", "b"]);
    assert_eq!((code, topics(&rows)), (1, vec!["a".into(), "b".into()]));
    assert!(error.contains("no topic nope"), "{error}");
    assert_eq!(
        broker.json(&["topic", "delete", "c", "--json"]),
        json!([{"topic": "c"}])
    );
}

#[test]
fn an_alter_that_is_refused_changes_nothing() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    broker.ok(&["topic", "create", "t", "-p", "2"], b"");
    let before = broker.json(&["topic", "describe", "t", "--json"]);
    for (args, words) in [
        (&["-p", "1", "--set", "retention.ms=1000"][..], "partition"),
        (&["-p", "4", "--set", "retention.ms=soon"], "retention.ms"),
        (
            &["-p", "4", "--unset", "retention.mz"],
            "did you mean retention.ms?",
        ),
        (&["--unset", "foo"], "no setting foo"),
    ] {
        let args = [&["topic", "alter", "t"], args].concat();
        let (code, error) = failure(&broker.run(&args, b""));
        assert!(code == 1 && error.contains(words), "{args:?}: {error}");
        assert_eq!(
            broker.json(&["topic", "describe", "t", "--json"]),
            before,
            "{args:?}"
        );
    }
    let args = [
        "topic",
        "alter",
        "t",
        "-p",
        "3",
        "--set",
        "retention.ms=1",
        "--json",
    ];
    let done = broker.json(&args);
    assert_eq!(
        (&done[0]["partitions"], &done[0]["set"]["retention.ms"]),
        (&json!(3), &json!("1"))
    );
}

#[test]
fn an_offset_that_no_partition_reaches_is_refused_with_the_range() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    broker.ok(&["topic", "create", "t", "-p", "2"], b"");
    broker.ok(&["produce", "t", "-p", "0"], b"a\nb\nc\n");
    for args in [
        &["topic", "trim", "t", "--before", "9"][..],
        &["topic", "trim", "t", "--before", "9", "-p", "0"],
        &["consume", "t", "-o", "9", "-e"],
        &["consume", "t", "-o", "9", "-e", "-p", "0"],
    ] {
        let (code, error) = failure(&broker.run(args, b""));
        assert!(
            code == 1 && error.contains("from 0 up to 3"),
            "{args:?}: {error}"
        );
    }
    assert_eq!(broker.text(&["consume", "t", "-o", "2", "-e"]), "c\n");
    assert_eq!(broker.text(&["consume", "t", "-o", "3", "-e"]), "");
    // One partition reaches it, the other gives what it has.
    broker.ok(&["topic", "trim", "t", "--before", "2"], b"");
    assert_eq!(broker.text(&["consume", "t", "-e"]), "c\n");
}

#[test]
fn a_question_makes_nothing_and_says_so() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    let output = broker.run(&["topic", "create", "t", "--validate-only", "--json"], b"");
    let (code, told) = failure(&output);
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((code, &rows[0]["id"]), (0, &json!(null)));
    assert!(told.contains("nothing was made"), "{told}");
}

#[test]
fn addresses_and_usage_lines_are_told_plainly() {
    let (code, error) = failure(&esker(&["topic", "list"], "http://nonsense", b""));
    assert!(code == 2 && error.contains("host:port"), "{error}");
    let (code, error) = failure(&esker(&["topic", "create"], "127.0.0.1:1", b""));
    assert!(
        code == 2 && error.contains("Usage: esker topic create"),
        "{error}"
    );
    assert!(!error.contains("--bootstrap"), "{error}");
}
