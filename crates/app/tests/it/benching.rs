//! `esker bench` against a real broker: every preset runs, for a fraction of a second, and reports what it did.

use serde_json::Value;

use crate::broker::{Broker, Dir, esker, failure};

/// Those that our protocol has no words for.
const NATIVE: [&str; 4] = ["a19", "a20", "a21", "a23"];

fn listed() -> Vec<Value> {
    let told = esker(&["bench", "--list", "--json"], "127.0.0.1:1", b"");
    assert!(told.status.success(), "a list needs no broker");
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    told.as_array().unwrap().clone()
}

fn names() -> Vec<String> {
    let name = |preset: &Value| preset["name"].as_str().unwrap().to_owned();
    listed().iter().map(name).collect()
}

/// Little of everything: one copy, few records, little time, few connections.
fn quick(preset: &str) -> Vec<String> {
    let args = ["bench", preset, "--json", "--replication-factor", "1"];
    let mut args: Vec<String> = args.map(str::to_owned).into();
    if preset == "a24" {
        args.extend(["--connections", "1,3"].map(str::to_owned));
    } else if preset != "l16" {
        args.extend(["--records", "300"].map(str::to_owned));
    }
    if ["l16", "a22", "a24"].contains(&preset) {
        args.extend(["--seconds", "0.5"].map(str::to_owned));
    }
    args
}

fn run(broker: &Broker, args: &[String], more: &[&str]) -> Value {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    broker.json(&[&args[..], more].concat())
}

fn rows(report: &Value) -> &Vec<Value> {
    report["rows"].as_array().unwrap()
}

#[test]
fn every_preset_runs_and_reports_what_it_did() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0.join("data"), &[]);
    let out = dir.0.join("out");
    for preset in names() {
        if NATIVE.contains(&preset.as_str()) {
            continue;
        }
        let report = run(&broker, &quick(&preset), &["--out", out.to_str().unwrap()]);
        assert_eq!(report["preset"], preset.as_str());
        assert!(!rows(&report).is_empty(), "{preset}");
        for row in rows(&report) {
            let records = row["records"].as_u64().unwrap();
            let at_least = match preset.as_str() {
                // By time, so as many as the machine made.
                "a22" | "a24" | "l16" => 1,
                _ => 300,
            };
            assert!(records >= at_least, "{preset}: {row}");
            assert!(row["records_per_second"].as_f64().unwrap() > 0.0, "{row}");
            if !row["latency_ms"].is_null() {
                let buckets = row["latency_buckets_ms"].as_array().unwrap();
                let held: u64 = buckets.iter().map(|pair| pair[1].as_u64().unwrap()).sum();
                assert_eq!(row["latency_ms"]["count"], held, "{preset}");
            }
            let (series, overhead) = (&row["series"], &row["overhead_per_record"]);
            assert_eq!(series.is_object(), preset == "l15" || preset == "l16");
            assert_eq!(overhead.is_object(), preset == "l22" || preset == "n37");
        }
        let repeat = report["repeat"]["command"].as_str().unwrap();
        assert!(repeat.contains("--replication-factor 1"), "{repeat}");
    }
    #[allow(clippy::disallowed_methods)]
    let files: Vec<_> = std::fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for name in ["n36.svg", "l21-latency.svg", "l15-course.svg", "a24.json"] {
        assert!(files.iter().any(|file| file == name), "{name}: {files:?}");
    }
    assert_eq!(
        broker.json(&["topic", "list", "--json"]),
        serde_json::json!([]),
        "the topic is removed"
    );
}

#[test]
fn files_are_read_beside_the_consumer_where_the_data_directory_is_told() {
    let dir = Dir::new();
    let data = dir.0.join("data");
    let broker = Broker::start(&data, &[]);
    let a16 = |cold: &std::path::Path| {
        // Enough for the broker to write segments; the last records may still be in its journal alone.
        let args = ["bench", "a16", "--json", "--records", "4000", "--cold"];
        broker.run(&[&args[..], &[cold.to_str().unwrap()]].concat(), b"")
    };
    let report: Value = serde_json::from_slice(&a16(&data).stdout).unwrap();
    let [consumer, files] = &rows(&report)[..] else {
        panic!("two cases: {report}")
    };
    assert_eq!(consumer["records"], 4000);
    // The heads of the batches and records count as well.
    let records = files["records"].as_u64().unwrap();
    assert!((1..4100).contains(&records), "{files}");
    let (code, error) = failure(&a16(&dir.0));
    assert!(code == 1 && error.contains("no segments"), "{error}");
}

#[test]
fn a_sweep_over_partitions_measures_each_case_with_each_number() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0.join("data"), &[]);
    let out = dir.0.join("out");
    let more = ["--partitions", "1,4", "--out", out.to_str().unwrap()];
    let report = run(&broker, &quick("l11"), &more);
    let partitions: Vec<_> = rows(&report).iter().map(|row| &row["partitions"]).collect();
    assert_eq!(partitions, [1, 4]);
    assert!(out.join("l11.svg").as_path().metadata().is_ok(), "a chart");
    let repeat = report["repeat"]["command"].as_str().unwrap();
    assert!(repeat.contains("--partitions 1,4"), "{repeat}");
}

#[test]
fn overhead_falls_with_the_batch_and_its_parts_are_those_of_the_format() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0.join("data"), &[]);
    let report = run(&broker, &quick("n37"), &[]);
    let log_bytes = |row: &Value| row["overhead_per_record"]["log_bytes"].as_f64().unwrap();
    let [one, fifty] = &rows(&report)[..] else {
        panic!("two cases: {report}")
    };
    // Head of a batch 61; a record's length 2, attributes, timestamp, offset, key and headers 1 each, length of the value 2.
    assert!((log_bytes(one) - 70.0).abs() < 0.01, "{one}");
    assert!((9.0..11.0).contains(&log_bytes(fifty)), "{fifty}");
}

#[test]
fn what_cannot_be_measured_says_what_it_needs() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0.join("data"), &[]);
    for preset in NATIVE {
        let (code, error) = failure(&broker.run(&["bench", preset], b""));
        assert_eq!(code, 1);
        let is_clear = error.contains(preset) && error.contains("needs a native API");
        assert!(is_clear && error.lines().count() == 1, "{error}");
    }
    for preset in ["l12", "l13"] {
        let (code, error) = failure(&broker.run(&["bench", preset, "--records", "10"], b""));
        assert_eq!(code, 1);
        for words in ["3 copies", "needs 3 brokers", "--replication-factor 1"] {
            assert!(error.contains(words), "{error}");
        }
    }
    let (code, error) = failure(&broker.run(&["bench", "a22", "--partitions", "2"], b""));
    assert!(code == 2 && error.contains("one partition"), "{error}");
}

#[test]
fn a_histogram_is_printed_when_asked_for() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0.join("data"), &[]);
    let text = broker.text(&["bench", "l11", "--records", "300", "--histogram"]);
    assert!(text.contains("latency of 1 producer, run 1:"), "{text}");
    assert!(
        text.contains("100.000 % #") || text.contains(" % #"),
        "{text}"
    );
}

#[test]
fn the_page_names_every_preset_and_its_source() {
    let page = include_str!("../../../../docs/bench.md");
    for preset in listed() {
        let [name, what, source] =
            ["name", "what", "source"].map(|key| preset[key].as_str().unwrap().to_owned());
        let line = format!("| `{name}` | {what} | {source} |");
        assert!(page.contains(&line), "docs/bench.md lacks: {line}");
    }
}

#[test]
fn what_a_preset_does_not_look_at_is_refused_before_anything_is_measured() {
    let dir = Dir::new();
    let file = dir.file("file", b"");
    let file = file.to_str().unwrap();
    for (args, code, words) in [
        (
            &["l11", "--connections", "3"][..],
            2,
            "--connections means nothing to l11",
        ),
        (&["l11", "--seconds", "1"], 2, "--seconds"),
        (&["l11", "--cold", "data"], 2, "--cold"),
        (&["a24", "--records", "9"], 2, "--records"),
        (&["l17", "--histogram"], 2, "--histogram"),
        (&["l11", "--out", file], 1, "cannot write into"),
    ] {
        // Nobody listens there: what is told is told first.
        let output = esker(&[&["bench"], args].concat(), "127.0.0.1:1", b"");
        let (got, error) = failure(&output);
        assert!(got == code && error.contains(words), "{args:?}: {error}");
    }
}

#[test]
fn the_report_names_what_was_asked_for() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0.join("data"), &[]);
    let asked = ["--partitions", "2", "--topic", "mine", "--histogram"];
    let report = run(&broker, &quick("l11"), &asked);
    assert_eq!(report["title"], "one producer, 100 B, 2 partitions");
    let repeat = report["repeat"]["command"].as_str().unwrap();
    for words in ["--topic mine", "--timeout 30", "--histogram"] {
        assert!(repeat.contains(words), "{repeat}");
    }
}
