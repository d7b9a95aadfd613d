//! Looking into the files of a broker.

#![allow(clippy::disallowed_methods)] // tests damage files as disks do

use std::path::PathBuf;

use crate::broker::{Broker, Dir, esker, failure};

#[test]
fn files_of_a_stopped_broker_are_sound_until_they_are_damaged() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    broker.ok(
        &["topic", "create", "t", "-c", "index.interval.bytes=100"],
        b"",
    );
    for _ in 0..20 {
        broker.ok(&["produce", "t"], b"some line\nand another\n");
    }
    assert_eq!(broker.stop(), Some(0));
    let report = esker(&["inspect", dir.0.to_str().unwrap(), "--json"], "", b"");
    assert_eq!(
        report.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&report.stderr)
    );
    let rows: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let of_kind = |kind: &str| {
        rows.as_array()
            .unwrap()
            .iter()
            .filter(|row| row["kind"] == kind)
            .collect::<Vec<_>>()
    };
    let segment: PathBuf = dir.0.join("t-0").join("00000000000000000000.log");
    let found = of_kind("segment")
        .into_iter()
        .find(|row| row["file"] == segment.to_str().unwrap())
        .unwrap();
    assert_eq!(
        (&found["entries"], &found["last"]),
        (&40.into(), &39.into())
    );
    assert!(
        !of_kind("journal").is_empty() && !of_kind("checkpoint").is_empty(),
        "{rows}"
    );

    // The journal, and a piece of it, by their own names.
    let journal = dir.0.join("journal");
    let piece = std::fs::read_dir(&journal).unwrap().next().unwrap();
    let piece = piece.unwrap().path();
    for path in [&journal, &piece] {
        let report = esker(&["inspect", path.to_str().unwrap(), "--json"], "", b"");
        let rows: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
        assert_eq!(rows, serde_json::json!(of_kind("journal")));
    }

    let batches = esker(
        &["inspect", "--batches", segment.to_str().unwrap(), "--json"],
        "",
        b"",
    );
    let batches: serde_json::Value = serde_json::from_slice(&batches.stdout).unwrap();
    assert_eq!(batches.as_array().unwrap().len(), 20);

    let mut bytes = std::fs::read(&segment).unwrap();
    // In the records of the batch in the middle; all are as long.
    let size = bytes.len() / 20;
    bytes[11 * size - 3] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let (code, error) = failure(&esker(&["inspect", segment.to_str().unwrap()], "", b""));
    assert_eq!((code, error.as_str()), (3, "error: 1 file is damaged\n"));
    let args = ["inspect", "--batches", segment.to_str().unwrap()];
    let (code, error) = failure(&esker(&args, "", b""));
    assert!(
        code == 3 && error.ends_with("offsets 20 up to 22 cannot be read\n"),
        "{error}"
    );
}

#[test]
fn a_place_without_data_is_an_error() {
    let dir = Dir::new();
    let (code, error) = failure(&esker(&["inspect", dir.0.to_str().unwrap()], "", b""));
    assert!(code == 1 && error.contains("nothing to inspect"), "{error}");
}
