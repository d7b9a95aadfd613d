//! Batches that are not those that were written where they lie are refused, and nobody refuses those that are.

use std::io::IoSlice;
use std::path::Path;

use env::disk::Open;

use ::model::PartitionIndex;
use wire::Uuid;

use super::clean::{How, compact, compacted};
use super::*;

const HEADS: &str = "headcheck";

fn bytes_of(place: &TestDir, path: &Path) -> Vec<u8> {
    let file = place.env.disk.open(path, Open::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn overwrite(place: &TestDir, path: &Path, position: u64, bytes: &[u8]) {
    let file = place.env.disk.open(path, Open::Write).unwrap();
    file.write_at(&[IoSlice::new(bytes)], position).unwrap();
}

/// As a checkpoint does it.
fn settled_heads(store: &Store) -> Known {
    store.write_long_indexes().unwrap();
    store.sync().unwrap();
    store.known()
}

fn read_one(store: &Store, from: i64) -> Option<Batch> {
    let Ok(Read::Slice(slice)) = store.read(Offset(from), store.log_end(), 1) else {
        return None;
    };
    let bytes = slice.read().unwrap();
    Some(Batch::cut(&bytes, Source::Log).next().unwrap().unwrap())
}

/// Batches of one record with the same sizes and offsets as those of another log, and other contents.
fn log_of(text: &str, offsets: impl Iterator<Item = i64>) -> Vec<Batch> {
    let each = offsets.map(|base| {
        let mut builder = BatchBuilder::new()
            .base_offset(Offset(base))
            .leader_epoch(LeaderEpoch(1));
        // Compaction leaves every tenth.
        let key = if base % 10 == 0 { base } else { -1 };
        let (key, value) = (format!("{key:05}"), format!("{text} {base:05}"));
        builder.push(
            Timestamp(1000),
            Some(key.as_bytes()),
            Some(value.as_bytes()),
            &[],
        );
        builder.build()
    });
    each.collect()
}

#[test]
fn batches_of_another_partition_at_the_very_offsets_are_refused_and_their_neighbours_served() {
    on_every_machine("strangers", |place| {
        let ours = log_of("ours", 0..100);
        let theirs = log_of("hers", 0..100);
        let size = ours[0].size();
        let store = place.create(small_segments(1 << 20), 0);
        // In appends of different lengths, and checkpoints between them.
        for (number, batches) in ours.chunks(7).enumerate() {
            append(&store, batches);
            if number % 3 == 0 {
                settled_heads(&store);
            }
        }
        let known = settled_heads(&store);
        let path = store.segments()[0].path("log");
        let foreign: Vec<u8> = (theirs[50..].iter())
            .flat_map(|batch| [&batch.head()[..], &batch.body()[..]].concat())
            .collect();
        overwrite(place, &path, (50 * size) as u64, &foreign);
        let (store, _) = place.open(small_segments(1 << 20), Some(known));
        for at in 0..100 {
            let wanted = ours.get(at).filter(|_| at < 50).cloned();
            assert_eq!(read_one(&store, at as i64), wanted, "offset {at}");
        }
        assert!(store.verify(Offset(0), Offset(100)).is_err());
        store.verify(Offset(0), Offset(50)).unwrap();
        // Without the file nobody knows, as with a directory of Kafka.
        place
            .env
            .disk
            .remove_file(&path.with_extension(HEADS))
            .unwrap();
        let (store, _) = place.open(small_segments(1 << 20), Some(known));
        assert_eq!(read_one(&store, 70).as_ref(), Some(&theirs[70]));
    });
}

#[test]
fn an_offset_that_rotted_within_a_gap_is_refused() {
    let place = TestDir::simulated(1);
    let store = place.create(compacted(1 << 20), 0);
    append(&store, &log_of("value", 0..401));
    store.roll(NOW).unwrap();
    settled_heads(&store);
    compact(&store, &How::default()).expect("due");
    store.verify(Offset(0), Offset(401)).unwrap();
    let known = settled_heads(&store);
    let batches = read_all(&store, 0, 401, 700);
    let bases: Vec<i64> = batches.iter().map(|batch| batch.base_offset().0).collect();
    assert!(bases[..40].iter().copied().eq((0..40).map(|at| at * 10)));
    let path = store.segments()[0].path("log");
    let size = batches[0].size();
    for at in 0..40i64 {
        // Up, down, and not out of its place between its neighbours.
        for base in [at * 10 + 1, at * 10 + 8, at * 10 - 1] {
            let position = (at as usize * size) as u64;
            overwrite(&place, &path, position, &base.to_be_bytes());
            let (store, _) = place.open(compacted(1 << 20), Some(known));
            let context = format!("{} became {base}", at * 10);
            for (number, batch) in batches.iter().enumerate() {
                let wanted = (number as i64 != at).then_some(batch);
                let read = read_one(&store, batch.base_offset().0);
                assert_eq!(read.as_ref(), wanted, "{context}: batch {number}");
            }
            let read = read_one(&store, base);
            let is_ours = read.as_ref().is_none_or(|read| batches.contains(read));
            assert!(is_ours, "{context}: {base} read {read:?}");
            let found = store.offset_for_time(Timestamp(1000), Offset::ZERO..Offset(401));
            assert!(
                found.map_or(true, |found| found.unwrap().offset == Offset(0)),
                "{context}"
            );
            overwrite(&place, &path, position, &(at * 10).to_be_bytes());
        }
    }
    let (store, _) = place.open(compacted(1 << 20), Some(known));
    assert_eq!(read_all(&store, 0, 401, 700), batches);
}

#[test]
fn rot_in_the_checksums_refuses_no_batch() {
    let place = TestDir::simulated(1);
    let batches = log_of("value", 0..30);
    let store = place.create(small_segments(1 << 20), 0);
    append(&store, &batches);
    let known = settled_heads(&store);
    let path = store.segments()[0].path(HEADS);
    let good = bytes_of(&place, &path);
    assert_eq!(good.len(), 3 * log::heads::BLOCK_SIZE);
    for at in 0..good.len() {
        overwrite(&place, &path, at as u64, &[good[at] ^ 0x10]);
        let (store, _) = place.open(small_segments(1 << 20), Some(known));
        assert_eq!(read_all(&store, 0, 30, 1000), batches, "byte {at}");
        overwrite(&place, &path, at as u64, &good[at..=at]);
    }
}

/// Batches that were cut, or written by a life whose end a power cut took, leave nothing that refuses what took their place.
#[test]
fn what_took_the_place_of_other_batches_is_served_after_any_power_cut() {
    for seed in 0..60 {
        let machine = Machine::new(seed, Faults::default());
        let dir = PathBuf::from("/data/t-0");
        let mut place = TestDir {
            env: machine.env(),
            dir: dir.clone(),
            machine: None,
            is_real: false,
        };
        let config = || small_segments(2000);
        let mut store = place.create(config(), 0);
        place.env.disk.sync_dir(Path::new("/data")).unwrap();
        place.env.disk.sync_dir(Path::new("/")).unwrap();
        let mut known = settled_heads(&store);
        let mut durable: Vec<Batch> = Vec::new();
        let rng = std::sync::Arc::clone(&place.env.rng);
        for step in 0..40 {
            let from = store.log_end().0;
            let count = 1 + (rng.next_u64() % 20) as i64;
            append(&store, &log_of(&format!("{step:04}"), from..from + count));
            match rng.next_u64() % 4 {
                0 => {
                    // The intent to cut is durable before: a start cuts again.
                    let to = Offset((rng.next_u64() % (from as u64 + 1)) as i64);
                    store.truncate_to(to).unwrap();
                    known = settled_heads(&store);
                    durable = read_all(&store, 0, store.log_end().0, 5000);
                }
                1 => {
                    known = settled_heads(&store);
                    durable = read_all(&store, 0, store.log_end().0, 5000);
                }
                2 => store.write_long_indexes().unwrap(),
                _ => {
                    drop(store);
                    machine.power_cut();
                    place.env = machine.env();
                    store = place.open(config(), Some(known)).0;
                    store.truncate_to(known.log_end).unwrap();
                    let context = format!("seed {seed} step {step}");
                    assert_eq!(store.log_end(), known.log_end, "{context}");
                    let read = read_all(&store, 0, known.log_end.0, 5000);
                    assert_eq!(read, durable, "{context}");
                }
            }
        }
    }
}

#[test]
fn checksums_of_another_partition_refuse_no_batch() {
    let place = TestDir::simulated(1);
    let topic = Uuid([7; 16]);
    let write = |text: &str, partition: i32| {
        let store = place.create(small_segments(1 << 20), 0);
        store.belongs_to(topic, PartitionIndex(partition));
        let batches = log_of(text, 0..30);
        append(&store, &batches);
        let known = settled_heads(&store);
        let [log, heads] = ["log", HEADS].map(|of| store.segments()[0].path(of));
        (batches, known, log, bytes_of(&place, &heads), heads)
    };
    let (_, _, log, theirs, heads) = write("hers", 1);
    for path in [&log, &heads] {
        place.env.disk.remove_file(path).unwrap();
    }
    let (ours, known, _, own, _) = write("ours", 0);
    assert_ne!(own, theirs);
    overwrite(&place, &heads, 0, &theirs);
    let (store, _) = place.open(small_segments(1 << 20), Some(known));
    store.belongs_to(topic, PartitionIndex(0));
    assert_eq!(read_all(&store, 0, 30, 1000), ours);
}
