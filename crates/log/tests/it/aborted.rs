//! Damage of the index of aborted transactions: readers of committed data see what they saw before, or are told.

use std::io::IoSlice;

use env::disk::Open;
use log::producer::marker_of;
use log::store::ReadError;
use log::txn_index::Files;

use super::clean::{marker, txn_data};
use super::*;

/// Transactions of three producers over several segments, in turns; the first of producer 3 goes over all of them.
fn transactions() -> Vec<Batch> {
    let mut batches = vec![txn_data(3, 0, "long")];
    let next = |batches: &[Batch]| batches.last().unwrap().next_offset().0;
    for round in 0..12 {
        for id in [1, 2] {
            for _ in 0..=(round % 3) {
                batches.push(txn_data(id, next(&batches), "k"));
            }
        }
        for id in [2, 1] {
            let is_committed = (round + id) % 3 == 0;
            batches.push(marker(id, next(&batches), is_committed));
        }
        batches.push(produced(next(&batches), 4, round as i32));
    }
    batches.push(txn_data(3, next(&batches), "long"));
    batches.push(marker(3, next(&batches), false));
    batches.push(txn_data(3, next(&batches), "after"));
    batches.push(marker(3, next(&batches), true));
    batches
}

fn config() -> LogConfig {
    small_segments(700)
}

/// The log of `batches`, written as a broker does.
fn written(place: &TestDir, batches: &[Batch]) -> Store {
    let store = place.create(config(), 0);
    let mut states = log::ProducerStates::new(Offset(0));
    for batch in batches {
        append(&store, std::slice::from_ref(batch));
        if let Some(txn) = states
            .apply(batch, marker_of(batch))
            .filter(|txn| txn.aborted)
        {
            store.add_aborted(txn.into()).unwrap();
        }
    }
    store.write_indexes().unwrap();
    store.sync().unwrap();
    store
}

/// Offsets of the batches that a reader of committed data drops, when it begins at `from`.
fn dropped(store: &Store, from: i64) -> Result<Vec<i64>, ReadError> {
    let end = store.log_end();
    let aborted = store.aborted(Offset(from), end)?;
    let mut active = std::collections::BTreeSet::new();
    let mut dropped = Vec::new();
    for batch in read_all(store, from, end.0, 1 << 20) {
        let id = batch.producer_id();
        let begins = |txn: &&log::AbortedTxn| {
            txn.first_offset <= batch.last_offset() && batch.last_offset() <= txn.last_offset
        };
        active.extend(aborted.iter().filter(begins).map(|txn| txn.producer_id));
        if batch.attributes().is_control() {
            active.remove(&id);
        } else if batch.attributes().is_transactional() && active.contains(&id) {
            dropped.push(batch.base_offset().0);
        }
    }
    Ok(dropped)
}

fn rot(place: &TestDir, name: &str, at: u64, bytes: &[u8]) {
    let file = place.env.disk.open(&place.dir.join(name), Open::Write);
    file.unwrap().write_at(&[IoSlice::new(bytes)], at).unwrap();
}

fn content(place: &TestDir, name: &str) -> Vec<u8> {
    let path = place.dir.join(name);
    let file = place.env.disk.open(&path, Open::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn indexes(place: &TestDir) -> Vec<String> {
    let mut names = place.names();
    names.retain(|name| name.ends_with(".txnindex") || name.ends_with(".txncheck"));
    names.sort();
    names
}

/// Overwrites a file with what it has, `rotten`, for as long as `check` runs.
fn with_rot(place: &TestDir, name: &str, at: usize, rotten: &[u8], check: impl Fn()) {
    let before: Vec<(String, Vec<u8>)> = indexes(place)
        .into_iter()
        .map(|name| (name.clone(), content(place, &name)))
        .collect();
    rot(place, name, at as u64, rotten);
    check();
    for (name, bytes) in before {
        let path = place.dir.join(name);
        let file = place.env.disk.open(&path, Open::Truncate).unwrap();
        file.write_at(&[IoSlice::new(&bytes)], 0).unwrap();
    }
}

#[test]
fn rot_of_any_byte_of_the_index_changes_nothing_that_readers_see() {
    let place = TestDir::simulated(1);
    let batches = transactions();
    let store = written(&place, &batches);
    let (known, starts) = (store.known(), [0, 7, 30]);
    let truth = starts.map(|from| dropped(&store, from).unwrap());
    assert!(
        truth[0].len() > 20 && truth[2].len() > 3,
        "many are aborted"
    );
    assert!(store.segments().len() > 4 && indexes(&place).len() > 8);
    drop(store);
    for name in indexes(&place) {
        let bytes = content(&place, &name);
        for (at, byte) in bytes.iter().enumerate() {
            with_rot(&place, &name, at, &[byte ^ 0x10], || {
                let (again, _) = place.open(config(), Some(known));
                let seen = starts.map(|from| dropped(&again, from).unwrap());
                assert_eq!(seen, truth, "flipped byte {at} of {name}");
            });
        }
        with_rot(&place, &name, 0, &vec![0; bytes.len()], || {
            let (again, _) = place.open(config(), Some(known));
            assert_eq!(dropped(&again, 0).unwrap(), truth[0], "zeros in {name}");
        });
    }
}

/// Seed 21047 of the simulator: zeroes are an entry of producer 0 as well, so its first committed records were hidden.
#[test]
fn zeroes_that_a_power_cut_left_behind_the_entries_hide_nothing() {
    let place = TestDir::simulated(5);
    let mut batches = vec![txn_data(0, 0, "first"), marker(0, 1, true)];
    batches.extend((0..3).map(|at| txn_data(1, 2 + at, "k")));
    batches.push(marker(1, 5, false));
    let store = written(&place, &batches);
    let known = store.known();
    drop(store);
    for name in indexes(&place) {
        let end = content(&place, &name).len();
        with_rot(&place, &name, end, &[0; 68], || {
            let (again, _) = place.open(config(), Some(known));
            assert_eq!(dropped(&again, 0).unwrap(), [2, 3, 4], "behind {name}");
        });
    }
}

#[test]
fn a_mended_index_is_stored_and_grows() {
    let place = TestDir::simulated(2);
    let batches = transactions();
    let (early, late) = batches.split_at(batches.len() - 3);
    let store = written(&place, early);
    let known = store.known();
    drop(store);
    let name = indexes(&place).pop().unwrap();
    rot(&place, &name, 1, &[7]);
    let (again, _) = place.open(config(), Some(known));
    let lost = dropped(&again, 0).unwrap();
    append(&again, late);
    let txn = |first: i64, last: i64| log::AbortedTxn {
        producer_id: ProducerId(3),
        first_offset: Offset(first),
        last_offset: Offset(last),
        last_stable_offset: Offset(last + 1),
    };
    let end = late[0].base_offset().0;
    again.add_aborted(txn(0, end)).unwrap();
    again.write_indexes().unwrap();
    again.sync().unwrap();
    let known = again.known();
    for segment in again.segments().iter() {
        let files = Files::of(&place.dir, segment.base());
        assert!(files.load(&*place.env.disk).unwrap().is_sound);
    }
    let seen = dropped(&again, 0).unwrap();
    assert_eq!(seen.len(), lost.len() + 2, "both of producer 3");
    let (third, _) = place.open(config(), Some(known));
    assert_eq!(dropped(&third, 0).unwrap(), seen);
}

#[test]
fn an_index_whose_batches_are_damaged_too_is_refused_and_not_told_as_empty() {
    let place = TestDir::simulated(3);
    let batches = transactions();
    let store = written(&place, &batches);
    let known = store.known();
    let at_segment = store.segments()[2].base();
    drop(store);
    let name = |extension| log::file_name(at_segment, extension);
    rot(&place, &name("txnindex"), 12, &[9]);
    rot(&place, &name("log"), 70, &[0xff; 4]);
    let (again, _) = place.open(config(), Some(known));
    for _ in 0..2 {
        assert!(matches!(
            again.aborted(at_segment, again.log_end()),
            Err(ReadError::Damaged { base, .. }) if base == at_segment
        ));
    }
    let later = again.segments()[3].base();
    assert!(
        again.aborted(later, again.log_end()).is_ok(),
        "others are known"
    );
}

#[test]
fn files_without_checks_are_believed_as_far_as_the_batches_say_the_same() {
    let place = TestDir::simulated(4);
    let store = written(&place, &transactions());
    let (known, truth) = (store.known(), dropped(&store, 0).unwrap());
    drop(store);
    for name in indexes(&place).iter().filter(|of| of.ends_with("check")) {
        place.env.disk.remove_file(&place.dir.join(name)).unwrap();
    }
    let (again, _) = place.open(config(), Some(known));
    assert_eq!(again.known_aborted(Offset(0), Offset(9)).unwrap(), None);
    assert_eq!(dropped(&again, 0).unwrap(), truth);
    assert!(again.known_aborted(Offset(0), Offset(9)).unwrap().is_some());
}

/// Seed 5036 of the simulator's strays: a write that failed tore an entry, a later checkpoint vouched for its marker, and a power cut
/// took the torn bytes, which alone had told that something was missing.
#[test]
fn a_torn_entry_is_missed_also_when_a_power_cut_takes_what_is_left_of_it() {
    (0..20).for_each(torn_entry);
}

fn torn_entry(seed: u64) {
    let machine = Machine::new(seed, Faults::default());
    let place = || TestDir {
        env: machine.env(),
        dir: PathBuf::from("/data/t-0"),
        machine: None,
        is_real: false,
    };
    let first = place();
    let batches = [
        txn_data(1, 0, "k"),
        marker(1, 1, false),
        txn_data(1, 2, "k"),
        marker(1, 3, false),
    ];
    let store = written(&first, &batches[..2]);
    for above in ["/data", "/"] {
        first
            .env
            .disk
            .sync_dir(std::path::Path::new(above))
            .unwrap();
    }
    let known = store.known();
    let index = store.segments()[0].path("txnindex");
    drop(store);
    let file = first.env.disk.open(&index, Open::Write).unwrap();
    let torn = [0, 0, 0, 0, 0, 1];
    file.write_at(&[IoSlice::new(&torn)], file.len().unwrap())
        .unwrap();
    let (store, _) = first.open(config(), Some(known));
    append(&store, &batches[2..]);
    let txn = log::AbortedTxn {
        producer_id: ProducerId(1),
        first_offset: Offset(2),
        last_offset: Offset(3),
        last_stable_offset: Offset(4),
    };
    store.add_aborted(txn).unwrap();
    store.write_indexes().unwrap();
    store.sync().unwrap();
    let known = store.known();
    drop((store, file, first));
    machine.power_cut();
    let (again, _) = place().open(config(), Some(known));
    assert_eq!(dropped(&again, 0).unwrap(), [0, 2], "seed {seed}");
}
