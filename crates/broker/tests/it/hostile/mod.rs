//! Hostile frames to every API that the broker serves: each gets the recorded answer, byte for byte.
//!
//! The test knows frames, not the code behind them: which APIs and versions there are it learns from ApiVersions. The answers
//! are data, a file for each API under `tests/data/hostile`. A wanted change of an answer is recorded anew with
//!
//!     ESKER_RECORD_HOSTILE=1 cargo test -p broker --test it hostile
//!
//! and read in the diff. Random ids are masked; nothing else is. Every API is tried on machines of several seeds, so an answer that
//! depends on the order of turns or on the time cannot be recorded.

mod cases;
mod frames;
mod hall;
mod record;
mod scene;

use std::collections::BTreeSet;

use wire::ApiKey;

use frames::Frame;
use hall::{Hall, Served};
use record::{Book, line};
use scene::Scene;

const SEEDS: [u64; 3] = [1, 2, 3];

/// The lowest version, one in the middle and the highest, each once.
fn versions(served: Served) -> BTreeSet<i16> {
    [
        served.min,
        i16::midpoint(served.min, served.max),
        served.max,
    ]
    .into()
}

/// The broker's answers to every hostile frame of one API, a line each.
fn answers(seed: u64, served: Served) -> String {
    let hall = Hall::open(seed);
    let scene = Scene::set(&hall);
    let mut lines = String::new();
    let mut ask = |frame: &Frame| {
        let outcome = hall.ask(&frame.bytes);
        lines.push_str(&line(served.key, frame, &outcome));
    };
    for version in versions(served) {
        let requests = cases::requests(served.key, &scene);
        let contents = frames::contents(served.key, version, &requests);
        let whole = frames::longest(&contents);
        contents.iter().for_each(&mut ask);
        frames::broken(served.key, version, whole)
            .iter()
            .for_each(&mut ask);
    }
    frames::of_other_versions(served).iter().for_each(&mut ask);
    assert!(hall.is_well(), "{:?} ended the broker", served.key);
    lines
}

/// Compares the answers of `keys` with the recorded ones.
fn check(keys: impl Fn(ApiKey) -> bool) {
    let table = Hall::open(0).table();
    let chosen: Vec<Served> = table.into_iter().filter(|row| keys(row.key)).collect();
    assert!(!chosen.is_empty());
    let mut book = Book::default();
    for served in chosen {
        for seed in SEEDS {
            book.compare(&format!("{:?}", served.key), &answers(seed, served));
        }
    }
    book.close();
}

#[test]
fn records_and_topics_answer_hostile_frames_as_recorded() {
    check(|key| cases::area(key) == cases::Area::Data);
}

#[test]
fn groups_and_transactions_answer_hostile_frames_as_recorded() {
    check(|key| cases::area(key) == cases::Area::Coordinators);
}

#[test]
fn the_cluster_answers_hostile_frames_as_recorded() {
    check(|key| cases::area(key) == cases::Area::Cluster);
}

#[test]
fn frames_of_no_api_are_answered_as_recorded() {
    let mut book = Book::default();
    for seed in SEEDS {
        let hall = Hall::open(seed);
        let table = hall.table();
        let mut lines = String::new();
        for frame in frames::of_no_api(&table) {
            let outcome = hall.ask(&frame.bytes);
            lines.push_str(&line(ApiKey::ApiVersions, &frame, &outcome));
        }
        assert!(hall.is_well());
        book.compare("none", &lines);
    }
    book.close();
}

/// The versions that the broker says it serves are those the files are named for, so no API can be left out.
#[test]
fn every_api_of_the_table_has_a_file() {
    let served = Hall::open(0).table();
    let names: BTreeSet<String> = served.iter().map(|row| format!("{:?}", row.key)).collect();
    let mut files = record::files();
    assert!(files.remove("none"));
    assert_eq!(names, files);
}
