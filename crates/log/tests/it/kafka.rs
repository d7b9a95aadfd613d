//! Files of Kafka and ours are the same files.
//!
//! `tests/data/ours` was read by Kafka 4.3's own dump tool without complaint (`--deep-iteration`, `--index-sanity-check`,
//! `--verify-index-only`, and for snapshots and transactions without flags) before its bytes were kept; `tests/data/kafka` was
//! written by a Kafka 4.3.0 broker. `BLESS=1` writes the former anew: run the tool again before committing them.

use std::io::IoSlice;
use std::path::{Path, PathBuf};

use env::disk::Open;
use log::{Epochs, ProducerStates, metadata};
use wire::records::{EndTxn, end_txn_batch};

use super::*;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

fn config() -> LogConfig {
    small_segments(1500)
}

/// Three segments with an idempotent producer, an aborted transaction and a committed one.
fn write_ours(place: &TestDir) {
    let disk = &*place.env.disk;
    let store = place.create(config(), 100);
    let mut states = ProducerStates::new(Offset(100));
    let put = |mut one: Batch, marker: Option<EndTxn>, states: &mut ProducerStates| {
        one.set_base_offset(store.log_end());
        one.set_leader_epoch(LeaderEpoch(if one.base_offset() < Offset(130) {
            3
        } else {
            5
        }));
        let appended = store.append(std::slice::from_ref(&one), NOW).unwrap();
        if appended.rolled.is_some() {
            log::producer::write(disk, &place.dir, states, log::Syncing::Now).unwrap();
        }
        if let Some(txn) = states.apply(&one, marker).filter(|txn| txn.aborted) {
            store
                .add_aborted(log::AbortedTxn {
                    producer_id: txn.producer_id,
                    first_offset: txn.first_offset,
                    last_offset: txn.last_offset,
                    last_stable_offset: txn.last_stable_offset,
                })
                .unwrap();
        }
    };
    let time = |at: i32| 1_700_000_000_000 + i64::from(at) * 1000;
    for at in 0..14 {
        put(batch(0, 3, time(at)), None, &mut states);
        put(produced_at(time(at), 11, at, false), None, &mut states);
        if at == 4 || at == 9 {
            put(produced_at(time(at), 12, at / 5, true), None, &mut states);
        }
        if at == 6 || at == 12 {
            let end = EndTxn {
                committed: at == 12,
                coordinator_epoch: 2,
            };
            let marker = end_txn_batch(ProducerId(12), ProducerEpoch(0), end, Timestamp(time(at)));
            put(marker, Some(end), &mut states);
        }
    }
    store.roll(NOW).unwrap();
    store.sync().unwrap();
    store.write_indexes().unwrap();
    log::producer::write(disk, &place.dir, &states, log::Syncing::Now).unwrap();
    let mut epochs = Epochs::default();
    epochs.assign(LeaderEpoch(3), Offset(100));
    epochs.assign(LeaderEpoch(5), Offset(130));
    epochs.write(disk, &place.dir, log::Syncing::Now).unwrap();
    metadata::write(disk, &place.dir, wire::Uuid([7; 16]), log::Syncing::Now).unwrap();
}

fn produced_at(time: i64, producer: i64, sequence: i32, in_txn: bool) -> Batch {
    let mut builder =
        BatchBuilder::new().producer(ProducerId(producer), ProducerEpoch(0), Sequence(sequence));
    if in_txn {
        builder = builder.transactional();
    }
    builder.push(
        Timestamp(time),
        None,
        Some(b"value"),
        &[("header", Some(b"x"))],
    );
    builder.build()
}

fn files(env: &Env, dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = env.disk.read_dir(dir).unwrap();
    let read = |name: String| {
        let file = env.disk.open(&dir.join(&name), Open::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        (name, bytes)
    };
    entries.into_iter().map(|entry| read(entry.name)).collect()
}

fn copy(env: &Env, from: &Path, to: &Path) {
    env.disk.create_dir_all(to).unwrap();
    for (name, bytes) in files(env, from) {
        let file = env.disk.open(&to.join(name), Open::Truncate).unwrap();
        file.write_at(&[IoSlice::new(&bytes)], 0).unwrap();
    }
}

/// The last time of an index stands there twice, for times that are those of records. Kafka looks for the last entry that is not
/// above a time, of which the second is as good as the first.
fn as_kafka_writes<'a>(name: &str, ours: &'a [u8]) -> &'a [u8] {
    const ENTRY: usize = 12;
    match ours.split_last_chunk::<ENTRY>() {
        Some((before, last)) if name.ends_with(".timeindex") && before.ends_with(last) => before,
        _ => ours,
    }
}

#[test]
fn the_files_we_write_are_those_that_kafka_has_read() {
    let place = TestDir::real("kafka");
    write_ours(&place);
    if std::env::var_os("BLESS").is_some() {
        copy(&place.env, &place.dir, &data("ours"));
    }
    // Files that Kafka passes over.
    let checks = [".txncheck", ".headcheck"];
    for name in place.names() {
        if checks.iter().any(|check| name.ends_with(check)) {
            place.env.disk.remove_file(&place.dir.join(name)).unwrap();
        }
    }
    let (ours, kept) = (
        files(&place.env, &place.dir),
        files(&place.env, &data("ours")),
    );
    let names = |files: &[(String, Vec<u8>)]| {
        files
            .iter()
            .map(|(name, _)| name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&ours), names(&kept));
    for ((name, ours), (_, kept)) in ours.iter().zip(&kept) {
        assert_eq!(as_kafka_writes(name, ours), kept, "{name}");
    }
}

fn kafkas(name: &str) -> TestDir {
    let place = TestDir::real(name);
    copy(&place.env, &data("kafka"), &place.dir);
    place
}

#[test]
fn a_directory_of_kafka_is_read_as_it_is() {
    let place = kafkas("takeover");
    let (store, found) = place.open(LogConfig::default(), None);
    assert_eq!(
        (found.local_start, found.log_end, found.damage),
        (Offset(0), Offset(168), None)
    );
    assert!(found.is_clean());
    let mut codecs = std::collections::BTreeSet::new();
    let mut records = 0;
    for batch in read_all(&store, 0, 168, 500) {
        let plain = batch.plain(wire::records::Caps::default()).unwrap();
        codecs.insert(batch.attributes().codec().unwrap().name());
        for record in wire::records::RecordIter::new(&plain, batch.record_count()) {
            let record = record.unwrap();
            if !batch.attributes().is_control() {
                let value = format!("value of record {records}");
                assert_eq!(record.value, Some(value.as_bytes()));
                records += 1;
            }
        }
    }
    assert_eq!((records, codecs.len()), (165, 5));
    let found = store
        .offset_for_time(Timestamp(1_700_000_000_995), Offset::ZERO..Offset(168))
        .unwrap()
        .unwrap();
    assert_eq!(
        (found.offset, found.timestamp),
        (Offset(100), Timestamp(1_700_000_001_000))
    );
    let aborted = store.aborted(Offset(0), Offset(168)).unwrap();
    assert_eq!(aborted.len(), 1);
    assert_eq!(
        (aborted[0].first_offset, aborted[0].last_offset),
        (Offset(156), Offset(161))
    );
    assert_eq!(
        Epochs::read(&*place.env.disk, &place.dir).unwrap().encode(),
        "0\n1\n0 0\n"
    );
    let id = metadata::read(&*place.env.disk, &place.dir)
        .unwrap()
        .unwrap();
    assert_eq!(id.to_string(), "6oMXKNY6Rey80PPcTI9DYg");
}

#[test]
fn producer_states_from_the_log_agree_with_kafkas_snapshot() {
    let place = kafkas("snapshot");
    let disk = &*place.env.disk;
    let (store, _) = place.open(LogConfig::default(), None);
    let theirs = log::producer::read(disk, &place.dir, Offset(168)).unwrap();
    log::producer::prune(disk, &place.dir, &store.snapshots().unwrap()).unwrap();
    let ours = log::producer::rebuild(disk, &store, Offset(168)).unwrap();
    assert_eq!((ours.len(), ours.end()), (6, Offset(168)));
    for ((id, ours), (same, theirs)) in ours.sorted().into_iter().zip(theirs.sorted()) {
        assert_eq!(id, same);
        assert_eq!(
            (ours.epoch, ours.last(), ours.txn_start),
            (theirs.epoch, theirs.last(), theirs.txn_start)
        );
        assert_eq!(
            (ours.coordinator_epoch, ours.last_timestamp),
            (theirs.coordinator_epoch, theirs.last_timestamp)
        );
    }
}

#[test]
fn the_same_batches_under_the_same_settings_give_kafkas_segments_and_indexes() {
    let (theirs, place) = (kafkas("theirs"), TestDir::real("again"));
    let (read, _) = theirs.open(LogConfig::default(), None);
    let settings = LogConfig {
        segment_bytes: 3000,
        index_interval_bytes: 300,
        ..LogConfig::default()
    };
    let store = place.create(settings, 0);
    for batch in read_all(&read, 0, 168, 1) {
        append(&store, &[batch]);
    }
    store.roll(NOW).unwrap();
    let kept = files(&theirs.env, &theirs.dir);
    let mut compared = 0;
    for (name, ours) in files(&place.env, &place.dir) {
        if name.starts_with("00000000000000000168") {
            continue;
        }
        let (_, theirs) = kept
            .iter()
            .find(|(other, _)| *other == name)
            .expect("Kafka has it too");
        assert_eq!(as_kafka_writes(&name, &ours), theirs, "{name}");
        compared += 1;
    }
    assert_eq!(compared, 9);
}
