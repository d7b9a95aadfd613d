//! Writing and reading records.
#![allow(clippy::disallowed_methods)] // acts as a person at a shell does

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::broker::{Broker, Dir, ESKER, esker, failure};
use crate::cluster::{addresses, until};
use crate::growing::await_brokers;

/// Lines with every byte that a line can hold, some empty, the last without a line feed.
fn lines(count: usize) -> Vec<u8> {
    let mut state = 7u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let mut bytes = Vec::new();
    for i in 0..count {
        let line = (0..next() % 120)
            .map(|_| next() as u8)
            .filter(|byte| *byte != b'\n');
        bytes.extend(line);
        bytes.extend(format!("#{i}\n").bytes());
    }
    bytes
}

#[test]
fn lines_come_back_byte_for_byte_with_every_codec() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0.join("data"), &[]);
    let lines = lines(5000);
    let file = dir.file("lines", &lines);
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        broker.ok(&["topic", "create", codec, "-p", "1"], b"");
        broker.ok(
            &["produce", codec, file.to_str().unwrap(), "--codec", codec],
            b"",
        );
        assert!(
            broker.ok(&["consume", codec, "-e"], b"") == lines,
            "{codec}"
        );
    }
    // Through a pipe, without creating the topic first.
    broker.ok(&["produce", "piped", "--acks", "1"], &lines);
    assert!(broker.ok(&["consume", "piped", "-e"], b"") == lines);
}

/// As in Kafka, where no partition needs more replicas in sync than it has.
#[test]
fn more_replicas_asked_for_than_there_are_refuse_no_record() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    broker.ok(
        &["topic", "create", "t", "-c", "min.insync.replicas=2"],
        b"",
    );
    broker.ok(&["produce", "t", "--acks", "all"], b"a\nb\n");
    assert_eq!(broker.ok(&["consume", "t", "-e"], b""), b"a\nb\n");
}

#[test]
fn keys_headers_and_nulls_arrive_as_they_were_given() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &["--set", "num.partitions=3"]);
    let input = b"a\t1\nb\t2\nkeyless\n\tempty key\nc\t\n";
    broker.ok(
        &[
            "produce",
            "t",
            "-k",
            "\\t",
            "-H",
            "source=test",
            "-H",
            "n=",
            "--null",
        ],
        input,
    );
    let mut shown: Vec<String> = broker
        .text(&["consume", "t", "-e", "-f", "%k(%K) %s(%S) %h\\n"])
        .lines()
        .map(str::to_owned)
        .collect();
    shown.sort_unstable();
    let want = [
        "(-1) empty key(9) source=test,n=",
        "(-1) keyless(7) source=test,n=",
        "a(1) 1(1) source=test,n=",
        "b(1) 2(1) source=test,n=",
        "c(1) (-1) source=test,n=",
    ];
    assert_eq!(shown, want);
    // Equal keys share a partition, whoever writes them.
    let place = || {
        broker
            .text(&["consume", "t", "-e", "-f", "%k %p\\n"])
            .lines()
            .filter(|line| line.starts_with("a "))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    broker.ok(&["produce", "t", "-k", ":"], b"a:again\n");
    let places = place();
    assert!(places.len() == 2 && places[0] == places[1], "{places:?}");
}

#[test]
fn reading_begins_and_ends_where_it_was_told() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    let numbers: String = (0..1000).map(|i| format!("{i}\n")).collect();
    broker.ok(&["produce", "t"], numbers.as_bytes());
    let read = |args: &[&str]| broker.text(&[&["consume", "t"], args].concat());
    assert_eq!(read(&["-n", "2"]), "0\n1\n");
    assert_eq!(read(&["--from", "500", "-n", "1"]), "500\n");
    assert_eq!(read(&["--from", "-2", "-e"]), "998\n999\n");
    assert_eq!(read(&["--from", "end", "-e"]), "");
    assert_eq!(read(&["--from", "@2020-01-01T00:00:00Z", "-n", "1"]), "0\n");
    assert_eq!(read(&["--from", "@4102444800000", "-e"]), "");
    let record: serde_json::Value =
        serde_json::from_str(&read(&["--from", "7", "-n", "1", "--json"])).unwrap();
    assert_eq!(
        (&record["offset"], &record["value"], &record["key"]),
        (&7.into(), &"7".into(), &serde_json::Value::Null)
    );
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    broker.ok(&["produce", "t"], &lines(20_000));
    let mut consume = Command::new(ESKER)
        .args(["consume", "t", "-b", &broker.address])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(consume.stdout.take());
    let output = consume.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
}

#[test]
fn a_record_that_is_too_large_is_refused_with_advice_and_smaller_ones_go_on() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    let output = broker.run(&["produce", "t"], &vec![b'x'; 2 << 20]);
    let (code, error) = crate::broker::failure(&output);
    assert_eq!(code, 1);
    assert!(error.contains("max.message.bytes"), "{error}");
    broker.ok(&["produce", "t"], b"small\n");
    broker.ok(
        &["topic", "alter", "t", "--set", "max.message.bytes=4194304"],
        b"",
    );
    broker.ok(&["produce", "t"], &vec![b'x'; 2 << 20]);
    assert_eq!(
        broker.text(&["consume", "t", "-e", "-f", "%S\\n"]),
        "5\n2097152\n"
    );
}

#[test]
fn several_files_become_one_topic_in_their_order_and_json_tells_how_much() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0.join("data"), &[]);
    broker.ok(&["topic", "create", "t", "-p", "1"], b"");
    // Neither a file without a last line feed nor an empty one runs into the next.
    let files = [
        dir.file("one", b"a\nb"),
        dir.file("two", b""),
        dir.file("three", b"c\n\nd\n"),
    ];
    let mut args = vec!["--json", "produce", "t"];
    args.extend(files.iter().map(|path| path.to_str().unwrap()));
    let told = broker.json(&args);
    assert_eq!(broker.text(&["consume", "t", "-e"]), "a\nb\nc\n\nd\n");
    assert_eq!((&told["records"], &told["bytes"]), (&5.into(), &4.into()));
    assert!(told["seconds"].is_f64(), "{told}");

    // A name that is wrong leaves nothing of the others.
    let (code, error) =
        crate::broker::failure(&broker.run(&["produce", "t", args[3], "/no/such"], b""));
    assert_eq!(code, 1);
    assert!(error.contains("/no/such"), "{error}");
    assert_eq!(broker.text(&["consume", "t", "-e"]).lines().count(), 5);
}

/// The broker's default batch is larger than what this topic takes.
#[test]
fn a_topic_of_small_batches_takes_every_line_in_order() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    broker.ok(
        &["topic", "create", "t", "-c", "max.message.bytes=2000"],
        b"",
    );
    let numbers: String = (0..50_000).map(|i| format!("{i}\n")).collect();
    broker.ok(&["produce", "t"], numbers.as_bytes());
    assert!(broker.text(&["consume", "t", "-e"]) == numbers);
}

#[test]
fn a_produce_that_fails_tells_what_was_written_and_where_it_stopped() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0.join("data"), &[]);
    broker.ok(
        &["topic", "create", "t", "-c", "max.message.bytes=2000"],
        b"",
    );
    let mut lines = b"a\nb\n".to_vec();
    lines.extend(vec![b'x'; 5000]);
    let file = dir.file("file", &lines);
    let file = file.to_str().unwrap();
    let output = broker.run(&["produce", "t", file, "--json"], b"");
    let (code, error) = crate::broker::failure(&output);
    assert_eq!(code, 1);
    let stopped = format!("2 records acknowledged, stopped at line 3 of {file}");
    assert!(error.contains(&stopped), "{error}");
    assert!(error.contains("esker topic alter t --set"), "{error}");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["records"], &told["line"]), (&2.into(), &3.into()));
    assert_eq!(broker.text(&["consume", "t", "-e"]), "a\nb\n");
}

#[test]
fn a_reader_that_follows_sees_partitions_that_are_new() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    broker.ok(&["topic", "create", "t", "-p", "1"], b"");
    broker.ok(&["produce", "t"], b"old\n");
    let mut consume = Command::new(ESKER)
        .args(["consume", "t", "-n", "2", "-b", &broker.address])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(consume.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "old");
    broker.ok(&["topic", "alter", "t", "-p", "3"], b"");
    broker.ok(&["produce", "t", "-p", "2"], b"new\n");
    assert_eq!(lines.next().unwrap().unwrap(), "new");
    assert!(consume.wait().unwrap().success());
}

/// A log that is quiet: nothing comes after the line that the broker's end took.
#[test]
fn the_last_line_of_a_pipe_is_written_though_the_broker_restarts() {
    let (dir, output) = (Dir::new(), Dir::new());
    let broker = Broker::start(&dir.0, &[]);
    broker.ok(&["topic", "create", "t", "-p", "1"], b"");
    let mut produce = Command::new(ESKER)
        .args(["produce", "t", "-b", &broker.address])
        .stdin(Stdio::piped())
        .stderr(std::fs::File::create(output.0.join("said")).unwrap())
        .spawn()
        .unwrap();
    let mut pipe = produce.stdin.take().unwrap();
    pipe.write_all(b"first\nhalf a line").unwrap();
    assert_eq!(broker.text(&["consume", "t", "-n", "1"]), "first\n");
    let address = broker.address.clone();
    broker.kill();
    // The connection's other end is gone, and takes this without a word.
    pipe.write_all(b", and its end\n").unwrap();
    let broker = Broker::start_at(&address, &dir.0);
    assert_eq!(
        broker.text(&["consume", "t", "-n", "2"]),
        "first\nhalf a line, and its end\n"
    );
    drop(pipe);
    assert!(produce.wait().unwrap().success());
}

#[test]
fn what_consume_writes_as_json_is_produced_again_as_it_was() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &["--set", "num.partitions=3"]);
    broker.ok(
        &["produce", "t", "-k", ":", "-H", "h=\u{e4}", "-Z"],
        b"k:v\nbytes:\xff\xfe\nkeyless\ngone:\n",
    );
    let shown = broker.ok(&["consume", "t", "-e", "--json"], b"");
    broker.ok(
        &["produce", "u", "--input", "json", "--keep-partition"],
        &shown,
    );
    let lines = |topic: &str| {
        let text = broker.text(&["consume", topic, "-e", "--json"]);
        let mut lines: Vec<String> = text
            .replace(&format!("\"topic\":\"{topic}\""), "")
            .lines()
            .map(str::to_owned)
            .collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(lines("t").len(), 4);
    assert_eq!(
        lines("t"),
        lines("u"),
        "keys, values, headers, times, partitions, offsets"
    );
}

#[test]
fn packed_files_and_csv_become_records() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0.join("data"), &[]);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(b"one\ntwo\n").unwrap();
    let packed = dir.file("lines.gz", &packed.finish().unwrap());
    broker.ok(&["produce", "t", packed.to_str().unwrap()], b"");
    assert_eq!(broker.text(&["consume", "t", "-e"]), "one\ntwo\n");

    let csv = dir.file(
        "orders.csv",
        b"id;text;at;lang\r\n1;\"a;b\nc\";2023-11-14T22:13:20Z;de\r\n",
    );
    let flags = "--input csv --csv-separator ; --csv-key id --csv-value text --csv-time at --csv-headers lang";
    let args: Vec<&str> = ["produce", "c", csv.to_str().unwrap()]
        .into_iter()
        .chain(flags.split(' '))
        .collect();
    broker.ok(&args, b"");
    assert_eq!(
        broker.text(&["consume", "c", "-e", "-f", "%k|%s|%T|%h"]),
        "1|a;b\nc|1700000000000|lang=de"
    );
    let refused = broker.run(&["produce", "c", "--csv-key", "id"], b"");
    let (code, error) = crate::broker::failure(&refused);
    assert_eq!(code, 2);
    assert!(error.contains("--input csv"), "{error}");
    let wrong = broker.run(&["produce", "c", "--input", "csv"], b"a,b\n1\n");
    let (_, error) = crate::broker::failure(&wrong);
    assert!(
        error.contains("1 fields") && error.contains("row 2 of standard input"),
        "{error}"
    );
}

#[test]
fn reading_goes_on_behind_records_that_rotted_where_that_is_wanted() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    broker.ok(&["topic", "create", "t", "-p", "1"], b"");
    for line in ["first\n", "rotten\n", "third\n"] {
        broker.ok(&["produce", "t"], line.as_bytes());
    }
    assert_eq!(broker.stop(), Some(0));
    let segment = dir.0.join("t-0/00000000000000000000.log");
    let mut bytes = std::fs::read(&segment).unwrap();
    let at = bytes
        .windows(6)
        .position(|window| window == b"rotten")
        .unwrap();
    bytes[at] ^= 1;
    std::fs::write(&segment, &bytes).unwrap();
    let broker = Broker::start(&dir.0, &[]);
    let (code, error) =
        crate::broker::failure(&broker.run(&["consume", "t", "-e", "--timeout", "1"], b""));
    assert_eq!(code, 1);
    for words in ["t-0 at offset 1", "can be read is 2", "--skip-damaged"] {
        assert!(error.contains(words), "{words}: {error}");
    }
    let output = broker.run(&["consume", "t", "-e", "--skip-damaged"], b"");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "first\nthird\n");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("offsets 1 up to 2 of t-0"),
        "{said}"
    );
}

/// One looks for the next good offset one by one at first, and in larger and larger steps behind 4096 of them.
#[test]
fn many_records_that_rotted_are_skipped_up_to_the_first_good_one() {
    const ROTTEN: usize = 5000;
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    broker.ok(&["topic", "create", "t", "-p", "1"], b"");
    broker.ok(&["produce", "t"], b"first\n");
    broker.ok(&["produce", "t"], "rotten\n".repeat(ROTTEN).as_bytes());
    broker.ok(&["produce", "t"], b"last\n");
    assert_eq!(broker.stop(), Some(0));
    let segment = dir.0.join("t-0/00000000000000000000.log");
    let mut bytes = std::fs::read(&segment).unwrap();
    let mut at = 0;
    while at < bytes.len() {
        let size = i32::from_be_bytes(bytes[at + 8..at + 12].try_into().unwrap());
        let end = at + 12 + usize::try_from(size).unwrap();
        let is_rotten = bytes[at..end].windows(6).any(|window| window == b"rotten");
        if is_rotten {
            bytes[end - 1] ^= 1;
        }
        at = end;
    }
    std::fs::write(&segment, &bytes).unwrap();
    let broker = Broker::start(&dir.0, &[]);
    let output = broker.run(&["consume", "t", "-e", "--skip-damaged"], b"");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "first\nlast\n");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("offsets 1 up to 5001 of t-0"), "{said}");
}

/// The first bootstrap address and the leader are a process that takes connections and answers nothing.
#[test]
fn a_producer_gives_up_in_its_time_though_brokers_are_silent() {
    let (dirs, addresses) = ([Dir::new(), Dir::new(), Dir::new()], addresses());
    let start = |id: usize| Broker::start_node(id, &addresses, &dirs[id - 1].0);
    let nodes: Vec<Broker> = (1..=3).map(start).collect();
    await_brokers(&nodes[0], 3);
    nodes[0].ok(&["topic", "create", "t", "-r", "3"], b"");
    let described = nodes[0].json(&["--json", "topic", "describe", "t"]);
    let leader = described[0]["partitions"][0]["leader"].as_u64().unwrap() as usize;
    let asked = format!("{},{}", addresses[leader - 1], addresses[leader % 3]);
    nodes[leader - 1].nudge("-STOP");
    for seconds in [2, 4] {
        let began = Instant::now();
        let time = seconds.to_string();
        let output = esker(&["produce", "t", "--timeout", &time], &asked, b"a\n");
        let took = began.elapsed();
        let (code, error) = failure(&output);
        assert!(
            code == 1 && error.contains(&format!("did not finish within {time} s")),
            "{error}"
        );
        assert!(
            took < Duration::from_millis(seconds * 1000 + 900),
            "{took:?}: {error}"
        );
    }
    // Others are asked while there is time.
    let began = Instant::now();
    let output = esker(&["topic", "list", "--timeout", "3"], &asked, b"");
    let took = began.elapsed();
    assert!(
        output.status.success() && took < Duration::from_millis(2500),
        "{took:?}"
    );
    // A record that a pipe brings late has its time as well.
    let mut late = Command::new(ESKER)
        .args(["produce", "t", "--timeout", "1"])
        .env("ESKER_BOOTSTRAP", &addresses[leader % 3])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Longer than its time.
    std::thread::sleep(Duration::from_millis(1500));
    nodes[leader - 1].nudge("-CONT");
    until(|| {
        nodes[leader - 1]
            .run(&["topic", "list"], b"")
            .status
            .success()
    });
    late.stdin.take().unwrap().write_all(b"b\n").unwrap();
    let output = late.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// One replica each, and a node is gone.
#[test]
fn partitions_without_a_leader_are_named_and_the_others_are_read() {
    let (dirs, addresses) = ([Dir::new(), Dir::new(), Dir::new()], addresses());
    let start = |id: usize| Broker::start_node(id, &addresses, &dirs[id - 1].0);
    let mut nodes: Vec<Broker> = (1..=3).map(start).collect();
    await_brokers(&nodes[0], 3);
    nodes[0].ok(&["topic", "create", "t", "-p", "3", "-r", "1"], b"");
    for partition in ["0", "1", "2"] {
        nodes[0].ok(&["produce", "t", "-p", partition], partition.as_bytes());
    }
    let leader = |asked: &Broker| {
        let described = asked.json(&["--json", "topic", "describe", "t"]);
        described[0]["partitions"][2]["leader"].as_u64()
    };
    let gone = leader(&nodes[0]).unwrap() as usize;
    let other = if gone == 1 { 2 } else { 1 };
    let read = |more: &[&str]| {
        Command::new(ESKER)
            .args([&["consume", "t"], more].concat())
            .env("ESKER_BOOTSTRAP", &addresses[other - 1])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    nodes[0].ok(&["consume", "t", "-g", "early", "-e"], b"");
    let mut before = read(&["-n", "4"]);
    let mut lines = BufReader::new(before.stdout.take().unwrap()).lines();
    let seen: Vec<String> = (0..3).map(|_| lines.next().unwrap().unwrap()).collect();
    assert_eq!(seen.len(), 3);
    let node = nodes.remove(gone - 1);
    node.kill();
    let asked = &nodes[if gone == 1 { 0 } else { other - 1 }];

    let output = asked.run(&["consume", "t", "-e", "--timeout", "6"], b"");
    let (code, error) = failure(&output);
    let out = String::from_utf8_lossy(&output.stdout);
    let mut out: Vec<&str> = out.lines().collect();
    out.sort_unstable();
    assert_eq!((code, out), (1, vec!["0", "1"]), "{error}");
    assert!(
        error.contains("partition 2 of t has no leader") && error.contains("-p 0,1 "),
        "{error}"
    );
    until(|| leader(asked).is_none());
    let mut meanwhile = read(&["-n", "4"]);
    // A member of a group reads what has a leader, and commits it; one that stops at the end says that it did not come there.
    let member = ["consume", "t", "-g", "late", "-e", "--timeout", "6"];
    let output = asked.run(&member, b"");
    let (code, error) = failure(&output);
    let out = String::from_utf8_lossy(&output.stdout);
    let mut out: Vec<&str> = out.lines().collect();
    out.sort_unstable();
    assert_eq!((code, out), (1, vec!["0", "1"]), "{error}");
    let is_named = |error: &str| error.contains("partition 2 of t has no leader that answers");
    assert!(
        is_named(&error) && error.contains("t-2 has no leader now"),
        "{error}"
    );
    let described = asked.run(&["--json", "group", "describe", "early", "late"], b"");
    assert!(
        is_named(&String::from_utf8_lossy(&described.stderr)),
        "{described:?}"
    );
    let described: serde_json::Value = serde_json::from_slice(&described.stdout).unwrap();
    let row = |group: usize, partition: usize| {
        let row = &described[group]["partitions"][partition];
        ["partition", "committed", "log_end", "lag"].map(|name| row[name].as_i64())
    };
    assert_eq!(row(0, 1), [Some(1), Some(1), Some(1), Some(0)]);
    assert_eq!(row(0, 2), [Some(2), Some(1), None, None]);
    assert_eq!(row(1, 1), [Some(1), Some(1), Some(1), Some(0)]);
    // Those that follow wait on, and name what they wait for.
    let mut following = [&["-p", "2", "-n", "2"][..], &["-g", "new", "-n", "4"]].map(read);
    let mut said = following.each_mut().map(|reader| {
        let mut lines = BufReader::new(reader.stderr.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        assert!(is_named(&line), "{line}");
        lines
    });

    // Both readers find the leader that comes back.
    let back = start(gone);
    until(|| leader(asked).is_some());
    until(|| {
        asked
            .run(&["produce", "t", "-p", "2"], b"3")
            .status
            .success()
    });
    for reader in [&mut before, &mut meanwhile] {
        until(|| reader.try_wait().unwrap().is_some());
        assert!(reader.wait().unwrap().success());
    }
    assert_eq!(lines.next().unwrap().unwrap(), "3");
    let [alone, member] = following.map(|reader| reader.wait_with_output().unwrap());
    let said = said.each_mut().map(|lines| lines.next());
    assert!(
        alone.status.success() && member.status.success(),
        "{said:?}"
    );
    assert_eq!(alone.stdout, b"2\n3\n");
    assert_eq!(member.stdout.len(), b"0\n1\n2\n3\n".len());
    back.kill();
}
