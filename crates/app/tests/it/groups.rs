//! Groups from the command line: listed, described, moved, deleted, and read.

#![allow(clippy::disallowed_methods)] // the time of a test, not of the broker

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::broker::{Broker, Dir, ESKER, esker, failure};
use crate::members::Peer;

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

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
fn offsets_of_a_topic_are_deleted_or_it_is_told_why_not() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    for topic in ["t", "other"] {
        broker.ok(&["topic", "create", topic], b"");
    }
    broker.ok(&["group", "reset", "g", "-t", "t", "--to", "0"], b"");
    let mut member = Peer::of(&broker, "reading", GROUP);
    member.beat("reading", "someone", 0, "t");
    let delete = |args: &[&str]| failure(&broker.run(&[&["group", "delete"], args].concat(), b""));
    for (args, words) in [
        (&["nobody", "--topic", "t"][..], "no group nobody"),
        (
            &["g", "--topic", "other"],
            "committed nothing for topic other",
        ),
        (&["g", "--topic", "nowhere"], "no topic nowhere"),
        (&["reading", "--topic", "t"], "subscribed to the topic"),
    ] {
        let (code, error) = delete(args);
        assert!(code == 1 && error.contains(words), "{args:?}: {error}");
    }
    // The one that works is done and told, whatever stands before it.
    let args = ["group", "delete", "nobody", "g", "--topic", "t", "--json"];
    let output = broker.run(&args, b"");
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(rows, serde_json::json!([{"group": "g", "topic": "t"}]));
    assert_eq!(output.status.code(), Some(1));
    let (code, _) = delete(&["g", "--topic", "t"]);
    assert_eq!(code, 1, "nothing is left to delete");
}

#[test]
fn filters_know_their_names_and_an_empty_list_says_why() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    let told = |args: &[&str]| failure(&broker.run(args, b""));
    for (args, words) in [
        (
            &["group", "list", "--state", "foo"][..],
            "PreparingRebalance",
        ),
        (&["group", "list", "--type", "foo"], "classic, consumer"),
        (&["txn", "list", "--state", "foo"], "CompleteCommit"),
    ] {
        let (code, error) = told(args);
        assert!(code == 2 && error.contains(words), "{args:?}: {error}");
    }
    let (code, said) = told(&["group", "list", "--state", "stable"]);
    assert_eq!((code, said.trim_end()), (0, "no groups in state Stable"));
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
    let (code, error) = failure(&broker.run(
        &["group", "reset", "other", "-t", "t", "--shift-by", "-1"],
        b"",
    ));
    assert!(
        code == 1 && error.contains("nothing is committed for t-0"),
        "{error}"
    );
    broker.ok(&["group", "reset", "g", "--to", "9", "--dry-run"], b"");
    assert_eq!(described(&broker, "g")["partitions"][0]["committed"], 0);

    broker.ok(&["group", "delete", "g"], b"");
    let (code, error) = failure(&broker.run(&["group", "describe", "g"], b""));
    assert_eq!(code, 1);
    assert!(error.contains("there is no group g"), "{error}");
    assert_eq!(broker.stop(), Some(0));
}

#[test]
fn lag_is_what_can_still_be_read_of_each_partition() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    broker.ok(&["topic", "create", "t", "-p", "3"], b"");
    for partition in ["0", "1", "2"] {
        broker.ok(&["produce", "t", "-p", partition], lines(20).as_bytes());
    }
    broker.ok(&["group", "reset", "g", "-t", "t", "--to", "2"], b"");
    for (before, partition) in [("10", "0"), ("20", "2")] {
        let args = ["topic", "trim", "t", "--before", before, "-p", partition];
        broker.ok(&args, b"");
    }
    let parts = described(&broker, "g")["partitions"].clone();
    for (number, lag) in [10, 18, 0].into_iter().enumerate() {
        let part = &parts[number];
        assert_eq!((&part["committed"], &part["lag"]), (&2.into(), &lag.into()));
        let age = part["lag_seconds"].as_f64();
        assert!(
            age.is_some_and(|age| age < 600.0 && (lag > 0 || age == 0.0)),
            "{part}"
        );
    }
    assert_eq!(broker.stop(), Some(0));
}

#[test]
fn lag_counts_what_is_not_committed_yet_and_its_age_needs_one_answer_of_each_partition() {
    let dir = Dir::new();
    let unverified = ["--set", "transaction.partition.verification.enable=false"];
    let broker = Broker::start(&dir.0, &unverified);
    broker.ok(&["topic", "create", "t", "-p", "3"], b"");
    broker.ok(&["topic", "create", "open"], b"");
    for partition in ["0", "1", "2"] {
        // Many batches: whoever reads one partition to its end first has no time for the next.
        for _ in 0..10 {
            broker.ok(&["produce", "t", "-p", partition], lines(20).as_bytes());
        }
    }
    broker.ok(&["produce", "open"], b"before\n");
    let mut peer = Peer::of(&broker, "any", TRANSACTION);
    assert_eq!(peer.produce("hangs", (777, 0), "open"), 1);
    broker.ok(&["produce", "open"], b"after\n");
    let args = ["group", "reset", "g", "-t", "t", "-t", "open", "--to", "1"];
    broker.ok(&args, b"");
    let parts = described(&broker, "g")["partitions"].clone();
    let lags = [
        ("open", 3, 2),
        ("t", 200, 199),
        ("t", 200, 199),
        ("t", 200, 199),
    ];
    for (number, (topic, end, lag)) in lags.into_iter().enumerate() {
        let part = &parts[number];
        assert_eq!(
            (&part["topic"], &part["log_end"]),
            (&topic.into(), &end.into())
        );
        assert_eq!(part["lag"], lag);
        assert!(part["lag_seconds"].as_f64().is_some(), "{part}");
    }
    // Behind the last record there is a marker, which nobody can read.
    let args = [
        "txn",
        "abort",
        "--topic",
        "open",
        "--partition",
        "0",
        "--start-offset",
        "1",
    ];
    broker.ok(&args, b"");
    broker.ok(&["group", "reset", "g", "-t", "open", "--to", "3"], b"");
    let part = described(&broker, "g")["partitions"][0].clone();
    assert_eq!(
        (&part["lag"], &part["lag_seconds"]),
        (&1.into(), &0.0.into())
    );
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

/// The codecs of all batches of the topic of the offsets, whatever partition they are in.
fn codecs(dir: &Dir) -> BTreeSet<String> {
    let data = dir.0.to_str().unwrap();
    let told = esker(&["inspect", data, "--batches", "--json"], "", b"");
    let rows: Value = serde_json::from_slice(&told.stdout).unwrap();
    let rows = rows.as_array().unwrap().iter();
    rows.filter(|row| (row["file"].as_str()).is_some_and(|it| it.contains("__consumer_offsets")))
        .map(|row| row["codec"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn compressed_offsets_are_read_back_by_a_broker_that_compresses_otherwise() {
    for (number, codec) in ["none", "gzip", "snappy", "lz4", "zstd"].iter().enumerate() {
        let dir = Dir::new();
        let setting = format!("offsets.topic.compression.codec={number}");
        let broker = Broker::start(&dir.0, &["--set", &setting]);
        broker.ok(&["topic", "create", "t"], b"");
        broker.ok(&["produce", "t"], lines(10).as_bytes());
        broker.ok(&["group", "reset", "g", "-t", "t", "--to", "7"], b"");
        assert_eq!(broker.stop(), Some(0));
        assert_eq!(codecs(&dir), BTreeSet::from([(*codec).to_owned()]));

        let broker = Broker::start(&dir.0, &[]);
        assert_eq!(described(&broker, "g")["partitions"][0]["committed"], 7);
        broker.ok(&["group", "reset", "g", "-t", "t", "--to", "8"], b"");
        broker.kill();
        let broker = Broker::start(&dir.0, &["--set", &setting]);
        assert_eq!(described(&broker, "g")["partitions"][0]["committed"], 8);
        assert_eq!(broker.stop(), Some(0));
    }
}

#[test]
fn a_group_with_members_is_described_with_why_it_last_rebalanced() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    broker.ok(&["topic", "create", "t", "-p", "2"], b"");
    let mut peer = Peer::of(&broker, "g", GROUP);
    let (one, two) = ("one-one-one-one-one-on", "two-two-two-two-two-tw");
    assert_eq!(peer.beat("g", one, 0, "t"), 2);
    let group = described(&broker, "g");
    assert_eq!(group["type"], "consumer");
    assert_eq!(group["state"], "Stable");
    assert_eq!(group["epoch"], 2);
    assert_eq!(group["last_rebalance"], format!("member {one} is new"));
    assert_eq!(group["members"][0]["member"], one);
    assert_eq!(group["members"][0]["client"], "member");
    assert_eq!(
        group["members"][0]["partitions"].as_array().map(Vec::len),
        Some(2)
    );
    let owners = group["partitions"].as_array().unwrap();
    assert!(owners.iter().all(|part| part["member"] == one), "{group}");

    peer.beat("g", two, 0, "t");
    peer.beat("g", two, -1, "t");
    let text = broker.text(&["group", "describe", "g"]);
    assert!(
        text.contains(&format!("last rebalance: member {two} left")),
        "{text}"
    );
    assert!(text.contains(one), "{text}");

    // Offsets may be forgotten for topics that nobody reads, and the group cannot be moved or deleted.
    for args in [
        &["group", "reset", "g", "-t", "t", "--to", "end"][..],
        &["group", "delete", "g"],
    ] {
        let (code, error) = failure(&broker.run(args, b""));
        assert_eq!(code, 1, "{args:?}");
        assert!(error.contains("group g has members"), "{error}");
    }
    assert_eq!(broker.stop(), Some(0));
}

#[test]
fn groups_are_listed_by_state_and_type() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    broker.ok(&["topic", "create", "t"], b"");
    let mut peer = Peer::of(&broker, "new", GROUP);
    peer.beat("new", "one-one-one-one-one-on", 0, "t");
    let member = peer.join("old");
    broker.ok(&["group", "reset", "alone", "-t", "t", "--to", "end"], b"");
    for (filter, expected) in [
        (&[][..], "alone new old"),
        (&["--state", "Stable"], "new old"),
        (&["--state", "empty,assigning"], "alone"),
        (&["--type", "consumer"], "new"),
        (&["--type", "classic"], "alone old"),
        (&["--type", "classic", "--state", "Stable"], "old"),
        (&["--state", "Dead"], ""),
    ] {
        let listed = told(&broker, &[&["list"], filter].concat());
        let names: Vec<&str> = listed
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|group| group["group"].as_str())
            .collect();
        assert_eq!(names.join(" "), expected, "{filter:?}");
    }
    let group = described(&broker, "old");
    assert_eq!(group["type"], "classic");
    assert_eq!(group["members"][0]["member"], member);
    let why = group["last_rebalance"].as_str().unwrap();
    assert!(why.contains("is new"), "{why}");
    assert_eq!(broker.stop(), Some(0));
}

#[test]
fn offsets_of_one_topic_are_forgotten() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    for topic in ["kept", "gone"] {
        broker.ok(&["topic", "create", topic], b"");
        broker.ok(&["produce", topic], lines(3).as_bytes());
        broker.ok(&["group", "reset", "g", "-t", topic, "--to", "end"], b"");
    }
    broker.ok(&["group", "delete", "g", "--topic", "gone"], b"");
    let parts = described(&broker, "g")["partitions"].clone();
    let topics: Vec<&Value> = parts
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["topic"])
        .collect();
    assert_eq!(topics, ["kept"]);
    assert_eq!(broker.stop(), Some(0));
}

#[test]
fn a_group_is_moved_to_a_time() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    broker.ok(&["topic", "create", "t", "-c", "retention.ms=-1"], b"");
    let mut peer = Peer::of(&broker, "g", GROUP);
    for second in 1..=5 {
        peer.produce_at("t", second * 1_000);
    }
    for (to, after) in [
        ("@3000", 2),
        ("@2500", 2),
        ("@1970-01-01T00:00:05Z", 4),
        ("@0", 0),
        ("@6000", 5),
    ] {
        broker.ok(&["group", "reset", "g", "-t", "t", "--to", to], b"");
        let committed = &described(&broker, "g")["partitions"][0]["committed"];
        assert_eq!(*committed, after, "{to}");
    }
    assert_eq!(broker.stop(), Some(0));
}

/// A terminal would obey them: move the cursor, recolour the screen, show a row that is none.
#[test]
fn control_characters_in_names_of_strangers_do_not_reach_the_terminal() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    broker.ok(&["produce", "t"], b"a\n");
    let group = "evil\u{1b}[2J\nforged  consumer  Stable";
    broker.ok(
        &["group", "reset", group, "--topic", "t", "--to", "end"],
        b"",
    );
    let listed = broker.text(&["group", "list"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    let described = broker.text(&["group", "describe", group]);
    for shown in [&listed, &described] {
        assert!(
            shown.contains(r"evil\x1b[2J\nforged") && !shown.contains('\u{1b}'),
            "{shown}"
        );
    }
    assert_eq!(broker.json(&["group", "list", "--json"])[0]["group"], group);
    let (_, error) =
        crate::broker::failure(&broker.run(&["topic", "describe", "a\u{1b}c\nb"], b""));
    assert!(
        error.contains(r"a\x1bc\nb") && !error.contains('\u{1b}'),
        "{error}"
    );
}

#[test]
fn a_group_is_shown_again_and_again_until_nobody_reads() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    broker.ok(&["produce", "t"], b"a\n");
    broker.ok(
        &["group", "reset", "g", "--topic", "t", "--to", "beginning"],
        b"",
    );
    #[allow(clippy::disallowed_methods)]
    let mut watch = Command::new(ESKER)
        .args([
            "group",
            "describe",
            "g",
            "--watch=0.05",
            "-b",
            &broker.address,
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let shown = lines
        .map(Result::unwrap)
        .filter(|line| line.starts_with("group g "));
    assert_eq!(shown.take(3).count(), 3);
    assert!(watch.wait().unwrap().success());
}

/// The sorted lines of an output.
fn sorted(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(output);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn a_reader_of_a_group_goes_on_where_the_one_before_stopped() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    broker.ok(&["topic", "create", "t", "-p", "3"], b"");
    let produce = |from: usize, to: usize| {
        let keyed: String = (from..to).map(|i| format!("k{i}:{i:03}\n")).collect();
        broker.ok(&["produce", "t", "-k", ":"], keyed.as_bytes());
    };
    let numbers =
        |from: usize, to: usize| -> Vec<String> { (from..to).map(|i| format!("{i:03}")).collect() };
    produce(0, 30);
    let read = |more: &[&str]| {
        let args = ["consume", "t", "--group", "g"];
        sorted(&broker.ok(&[&args[..], more].concat(), b""))
    };
    assert_eq!(read(&["-e"]), numbers(0, 30));
    assert!(read(&["-e"]).is_empty());
    produce(30, 50);
    // In the middle of a batch.
    let first = read(&["-n", "7"]);
    assert_eq!(first.len(), 7);
    let mut all = [first, read(&["-e"])].concat();
    all.sort();
    assert_eq!(all, numbers(30, 50));
    let group = described(&broker, "g");
    let lags = group["partitions"].as_array().unwrap().iter();
    let lags: Vec<_> = lags.map(|partition| &partition["lag"]).collect();
    assert_eq!(lags, [0, 0, 0], "{group}");
    assert_eq!(group["state"], "Empty");
    // Where to begin is for those who have not committed.
    assert!(read(&["-e", "--from", "beginning"]).is_empty());
    let other = ["consume", "t", "--group", "other", "--from", "end", "-e"];
    assert!(broker.ok(&other, b"").is_empty());
    produce(50, 51);
    assert_eq!(sorted(&broker.ok(&other, b"")), ["050"]);
    let args = ["consume", "t", "--group", "g", "-p", "0"];
    assert_eq!(failure(&broker.run(&args, b"")).0, 2);
}

/// A reader that follows, with its lines.
struct Follower {
    process: std::process::Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Follower {
    fn start(broker: &Broker) -> Follower {
        let mut process = Command::new(ESKER)
            .args(["consume", "t", "--group", "g", "-f", "%p %s\\n"])
            .env("ESKER_BOOTSTRAP", &broker.address)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Follower { process, lines }
    }

    fn take(&mut self, count: usize) -> BTreeSet<String> {
        let lines = self.lines.by_ref().take(count);
        lines.map(Result::unwrap).collect()
    }

    /// SIGTERM; the rest of its lines.
    fn stop(mut self) -> BTreeSet<String> {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").arg(&id).status().unwrap().success());
        let rest = self.take(usize::MAX);
        assert_eq!(self.process.wait().unwrap().code(), Some(0));
        rest
    }
}

#[test]
fn readers_of_a_group_share_its_partitions_and_hand_them_over() {
    let dir = Dir::new();
    let often = [
        "--set",
        "group.consumer.min.heartbeat.interval.ms=100",
        "--set",
        "group.consumer.heartbeat.interval.ms=100",
    ];
    let broker = Broker::start(&dir.0, &often);
    broker.ok(&["topic", "create", "t", "-p", "2"], b"");
    let produce = |text: &str| {
        for partition in ["0", "1"] {
            broker.ok(&["produce", "t", "-p", partition], text.as_bytes());
        }
    };
    // Until each of so many members reads as many partitions as the others, and has said so.
    let shared_by = |members: usize| {
        let begun = std::time::Instant::now();
        loop {
            let group = described(&broker, "g");
            let owned = |member: &Value| member["partitions"].as_array().map_or(0, Vec::len);
            let all = group["members"].as_array().cloned().unwrap_or_default();
            let is_even = all.iter().all(|member| owned(member) == 2 / members);
            if group["state"] == "Stable" && all.len() == members && is_even {
                return;
            }
            assert!(begun.elapsed().as_secs() < 60, "{group}");
        }
    };
    produce("one\n");
    let mut first = Follower::start(&broker);
    let both = |text: &str| BTreeSet::from([format!("0 {text}"), format!("1 {text}")]);
    assert_eq!(first.take(2), both("one"));
    let mut second = Follower::start(&broker);
    shared_by(2);
    produce("two\n");
    let (of_first, of_second) = (first.take(1), second.take(1));
    assert_eq!(&of_first | &of_second, both("two"));
    assert!(first.stop().is_empty(), "it has printed all");
    shared_by(1);
    produce("three\n");
    assert_eq!(second.take(2), both("three"));
    assert!(second.stop().is_empty());
    // Nothing is printed twice: all was committed.
    assert!(
        broker
            .ok(&["consume", "t", "--group", "g", "-e"], b"")
            .is_empty()
    );
}
