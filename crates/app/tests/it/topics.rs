//! Topics from the command line.

use serde_json::json;

use crate::broker::{Broker, Dir, failure};

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
