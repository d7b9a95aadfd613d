//! `esker tier`: stores of objects.

#![allow(clippy::disallowed_methods)] // tests meet the operating system as users do

use crate::broker::{Dir, esker, failure};

fn check(store: &str) -> std::process::Output {
    esker(&["--json", "tier", "check", store], "", b"")
}

#[test]
fn a_directory_is_fit_and_nothing_is_left_in_it() {
    let dir = Dir::new();
    std::fs::create_dir_all(&dir.0).unwrap();
    let checked = check(&format!("file://{}", dir.0.display()));
    assert!(checked.status.success(), "{checked:?}");
    let rows: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 12);
    assert!(rows.iter().all(|row| row["result"] == "ok"), "{rows:?}");
    let mut left = Vec::new();
    for entry in std::fs::read_dir(dir.0.join("check")).unwrap() {
        left.push(entry.unwrap().path());
    }
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_store_that_cannot_be_worked_with_is_named_and_fails() {
    let dir = Dir::new();
    let missing = dir.0.join("nowhere");
    let checked = check(&format!("file://{}", missing.display()));
    let (code, error) = failure(&checked);
    assert_eq!(code, 1);
    assert!(error.contains("not fit"), "{error}");
    let rows = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(rows.contains("does not exist: make it"), "{rows}");
    for store in ["/mnt/archive", "file://archive", "s3://bucket/prefix"] {
        assert!(!check(store).status.success(), "{store}");
    }
}
