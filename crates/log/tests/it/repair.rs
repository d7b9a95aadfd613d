//! Damage that is written over with what was there.

use std::io::IoSlice;

use bytes::Bytes;
use env::FileHandle;
use env::disk::Open;
use log::DamagedRange;
use log::store::RepairError;

use super::*;

const SEGMENT_BYTES: u64 = 900;

/// A log of several segments and the batches that it has.
fn filled(place: &TestDir) -> (Vec<Batch>, Known) {
    let store = place.create(small_segments(SEGMENT_BYTES), 0);
    let batches: Vec<Batch> = (0..30).map(|at| batch(at * 2, 2, 1000 + at)).collect();
    (batches.iter()).for_each(|batch| append(&store, std::slice::from_ref(batch)));
    store.write_indexes().unwrap();
    store.sync().unwrap();
    let parents = place.dir.ancestors().skip(1);
    parents.for_each(|parent| place.env.disk.sync_dir(parent).unwrap());
    assert!(3 < store.segments().len());
    (batches, store.known())
}

fn file(place: &TestDir, store: &Store, segment: usize) -> FileHandle {
    let path = store.segments()[segment].path("log");
    place.env.disk.open(&path, Open::Write).unwrap()
}

fn content(file: &FileHandle) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn contents(place: &TestDir, store: &Store) -> Vec<Vec<u8>> {
    let count = store.segments().len();
    (0..count)
        .map(|at| content(&file(place, store, at)))
        .collect()
}

fn between(batches: &[Batch], from: Offset, to: Offset) -> Vec<Bytes> {
    let within = |batch: &&Batch| from <= batch.base_offset() && batch.base_offset() < to;
    let within = batches.iter().filter(within);
    within.map(|batch| batch.to_bytes()).collect()
}

fn first_damage(store: &Store) -> Option<DamagedRange> {
    let segments = store.segments();
    let mut bases = segments.iter().map(|segment| segment.base());
    bases.find_map(|base| store.damaged_range(base).unwrap())
}

/// Repairs all damage with what `batches` have; how many places there were.
fn repair_all(store: &Store, batches: &[Batch], what: &str) -> usize {
    let mut count = 0;
    while let Some(range) = first_damage(store) {
        let records = between(batches, range.from, range.to);
        let repaired = store.repair(&range, &records);
        repaired.unwrap_or_else(|error| panic!("{what}: {range:?}: {error}"));
        count += 1;
        assert!(count < 10, "{what}");
    }
    count
}

#[test]
fn what_was_there_comes_back_byte_for_byte() {
    let place = TestDir::simulated(1);
    let (batches, known) = filled(&place);
    let (store, _) = place.open(small_segments(SEGMENT_BYTES), Some(known));
    let truth = contents(&place, &store);
    let len = truth[1].len() as u64;
    drop(store);
    let write = |file: &FileHandle, at: u64, bytes: &[u8]| {
        file.write_at(&[IoSlice::new(bytes)], at).unwrap();
    };
    type Edit<'a> = (String, Box<dyn Fn(&FileHandle) + 'a>);
    let mut edits: Vec<Edit<'_>> = Vec::new();
    for at in (0..len).step_by(3) {
        let was = truth[1][at as usize];
        edits.push((
            format!("a bit at {at}"),
            Box::new(move |file| write(file, at, &[was ^ 1 << (at % 8)])),
        ));
        edits.push((
            format!("a file cut at {at}"),
            Box::new(move |file| file.set_len(at).unwrap()),
        ));
        edits.push((
            format!("zeros from {at}"),
            Box::new(move |file| write(file, at, &vec![0; (len - at).min(200) as usize])),
        ));
        let piece = truth[1][..200].to_vec();
        edits.push((
            format!("a piece of another place at {at}"),
            Box::new(move |file| write(file, at, &piece[..(len - at).min(200) as usize])),
        ));
        let other = (at + len / 2) % len;
        let others = truth[1][other as usize];
        edits.push((
            format!("bits at {at} and {other}"),
            Box::new(move |file| {
                write(file, at, &[was ^ 4]);
                write(file, other, &[others ^ 4]);
            }),
        ));
    }
    let mut found = 0;
    for (what, edit) in &edits {
        let (store, _) = place.open(small_segments(SEGMENT_BYTES), Some(known));
        edit(&file(&place, &store, 1));
        drop(store);
        let (store, _) = place.open(small_segments(SEGMENT_BYTES), Some(known));
        let is_changed = contents(&place, &store) != truth;
        let count = repair_all(&store, &batches, what);
        assert_eq!(count > 0, is_changed, "{what}");
        found += usize::from(is_changed);
        assert!(contents(&place, &store) == truth, "{what}");
        let read = read_all(&store, 0, 60, 4000);
        assert!(read == batches, "{what}");
        let latest = store.max_time().unwrap().map(|max| max.offset);
        assert_eq!(latest, Some(Offset(59)), "{what}");
        let by_time = store.offset_for_time(Timestamp(1015), Offset(0)..Offset(60));
        let by_time = by_time.unwrap().map(|found| found.offset);
        assert_eq!(by_time, Some(Offset(29)), "{what}");
    }
    assert!(found > edits.len() / 2);
}

/// An index that is made of it leads to the batch as if its offset were right.
#[test]
fn a_base_offset_that_rotted_before_its_index_was_made_comes_back() {
    let place = TestDir::simulated(7);
    let config = LogConfig {
        index_interval_bytes: 1,
        ..small_segments(SEGMENT_BYTES)
    };
    let (batches, known) = filled(&place);
    let (store, _) = place.open(config.clone(), Some(known));
    let truth = contents(&place, &store);
    let index = store.segments()[1].path("index");
    drop(store);
    let mut position = 0;
    for batch in Batch::cut(&Bytes::copy_from_slice(&truth[1]), Source::Log) {
        let batch = batch.unwrap();
        let (store, _) = place.open(config.clone(), Some(known));
        let rotten = batch.base_offset().advance(-1).0.to_be_bytes();
        let segment = file(&place, &store, 1);
        (segment.write_at(&[IoSlice::new(&rotten)], position)).unwrap();
        drop(store);
        place.env.disk.remove_file(&index).unwrap();
        let (store, _) = place.open(config.clone(), Some(known));
        assert_eq!(repair_all(&store, &batches, &format!("{position}")), 1);
        assert!(contents(&place, &store) == truth, "{position}");
        position += batch.size() as u64;
    }
}

#[test]
fn a_file_that_gets_shorter_under_an_open_store_gets_its_end_back() {
    let place = TestDir::simulated(2);
    let (batches, known) = filled(&place);
    let (store, _) = place.open(small_segments(SEGMENT_BYTES), Some(known));
    let truth = contents(&place, &store);
    assert_eq!(read_all(&store, 0, 60, 4000).len(), 30);
    file(&place, &store, 1).set_len(300).unwrap();
    assert_eq!(repair_all(&store, &batches, "cut"), 1);
    assert!(contents(&place, &store) == truth);
    assert_eq!(read_all(&store, 0, 60, 4000).len(), 30);
}

#[test]
fn what_was_never_there_is_not_written() {
    let place = TestDir::simulated(3);
    let (batches, known) = filled(&place);
    let (store, _) = place.open(small_segments(SEGMENT_BYTES), Some(known));
    let segment = file(&place, &store, 1);
    let was = content(&segment);
    segment
        .write_at(&[IoSlice::new(&[was[120] ^ 1])], 120)
        .unwrap();
    let before = content(&segment);
    let range = first_damage(&store).unwrap();
    let right = between(&batches, range.from, range.to);
    assert_eq!(right.len(), 1);
    // Of the same size and the same offsets, with other times.
    let at = range.from.0;
    let other = batch(at, 2, 7000).to_bytes();
    assert_eq!(other.len(), right[0].len());
    let refused = store.repair(&range, &[other]);
    assert!(matches!(refused, Err(RepairError::Foreign(_))));
    let longer = batch(at, 3, 1000).to_bytes();
    let refused = store.repair(&range, &[longer]);
    assert!(matches!(refused, Err(RepairError::Misfit { .. })));
    let refused = store.repair(&range, &[]);
    assert!(matches!(refused, Err(RepairError::Misfit { .. })));
    let mut rotten = right[0].to_vec();
    rotten[100] ^= 1;
    let refused = store.repair(&range, &[rotten.into()]);
    assert!(matches!(refused, Err(RepairError::Foreign(_))));
    assert!(content(&segment) == before, "nothing was written");
    store.repair(&range, &right).unwrap();
    // Done once, it is not there any more.
    let again = store.repair(&range, &right);
    assert!(matches!(again, Err(RepairError::Changed)));
    assert!(content(&segment) == was);
}

/// Bytes that rot after they were appended or verified are met by one who reads anew, and by everybody else from then on.
#[test]
fn a_reader_that_believes_nothing_meets_what_rots_meanwhile() {
    let place = TestDir::simulated(4);
    let store = place.create(small_segments(SEGMENT_BYTES), 0);
    let batches: Vec<Batch> = (0..30).map(|at| batch(at * 2, 2, 1000 + at)).collect();
    append(&store, &batches);
    store.sync().unwrap();
    let segment = file(&place, &store, 1);
    let was = content(&segment);
    segment
        .write_at(&[IoSlice::new(&[was[80] ^ 1])], 80)
        .unwrap();
    let base = store.segments()[1].base();
    let end = store.log_end();
    assert!(store.read(base, end, 100).is_ok(), "believed");
    assert!(store.read_anew(base, end, 100).is_err());
    assert!(store.read(base, end, 100).is_err(), "not any more");
    assert_eq!(repair_all(&store, &batches, "rot"), 1);
    assert!(store.read_anew(base, end, 100).is_ok());
    assert!(content(&segment) == was);
}

/// No other replica keeps what the one that leads deletes.
#[test]
fn a_time_that_rots_lets_nothing_be_deleted() {
    const WEEK: i64 = 7 * 24 * 3_600_000;
    let place = TestDir::simulated(6);
    let now = place.env.clock.wall_ms();
    let config = LogConfig {
        retention_ms: Some(WEEK),
        ..small_segments(SEGMENT_BYTES)
    };
    let batches = |age: i64| -> Vec<Batch> {
        let at = |at: i64| batch(at * 2, 2, now.0 - age + at);
        (0..30).map(at).collect()
    };
    for (has_heads, age, expected) in [(true, 0, false), (false, 0, false), (true, 2 * WEEK, true)]
    {
        let place = place.beside(usize::from(has_heads) + 2 * usize::from(expected));
        let store = place.create(config.clone(), 0);
        (batches(age).iter()).for_each(|batch| append(&store, std::slice::from_ref(batch)));
        store.write_indexes().unwrap();
        store.sync().unwrap();
        let (known, end) = (store.known(), store.log_end());
        let segment = store.segments()[0].path("log");
        let heads = store.segments()[0].path("headcheck");
        drop(store);
        if !has_heads {
            place.env.disk.remove_file(&heads).unwrap();
        }
        let (store, _) = place.open(config.clone(), Some(known));
        let file = place.env.disk.open(&segment, Open::Write).unwrap();
        if !expected {
            let mut position = 0;
            while position < file.len().unwrap() {
                let mut head = [0; 61];
                file.read_exact_at(&mut head, position).unwrap();
                file.write_at(&[IoSlice::new(&[0; 16])], position + 27)
                    .unwrap();
                position += 12 + u64::from(u32::from_be_bytes(head[8..12].try_into().unwrap()));
            }
        }
        let retirable = store.retirable(now, end).unwrap();
        assert_eq!(!retirable.is_empty(), expected, "{has_heads} {age}");
        if !expected {
            // Nor afterwards, by what was learnt of the times before.
            repair_all(&store, &batches(age), "times");
            assert_eq!(store.retirable(now, end).unwrap(), []);
        }
    }
}

/// A power cut at any moment of a repair leaves damage that is found again, or none, and nothing else.
#[test]
fn a_repair_that_a_power_cut_ends_is_done_again() {
    for edit in ["flip", "cut"] {
        let place = TestDir::simulated(5);
        let (batches, known) = filled(&place);
        let machine = place.machine.as_ref().unwrap();
        let (store, _) = place.open(small_segments(SEGMENT_BYTES), Some(known));
        let truth = contents(&place, &store);
        let segment = file(&place, &store, 1);
        match edit {
            "flip" => {
                let was = content(&segment);
                segment
                    .write_at(&[IoSlice::new(&[was[120] ^ 1])], 120)
                    .unwrap();
            }
            _ => segment.set_len(300).unwrap(),
        }
        segment.sync_data().unwrap();
        machine.record();
        repair_all(&store, &batches, edit);
        let tape = machine.tape();
        let mut damaged = 0;
        for point in 0..tape.points() {
            for image in tape.images(point, 6, 21) {
                let machine = Machine::on(9, Faults::default(), image.volume);
                let place = TestDir {
                    env: machine.env(),
                    dir: place.dir.clone(),
                    machine: None,
                    is_real: false,
                };
                let (store, found) = place.open(small_segments(SEGMENT_BYTES), Some(known));
                assert!(!found.known_is_stale && found.is_clean());
                damaged += repair_all(&store, &batches, edit);
                assert!(contents(&place, &store) == truth, "{edit} at {point}");
                assert!(read_all(&store, 0, 60, 4000) == batches);
            }
        }
        assert!(damaged > 0, "no cut came in time");
    }
}

/// Reads one offset after the other: the batches, and the offsets at which the reader is told of damage.
fn read_past_damage(store: &Store) -> (Vec<Batch>, Vec<i64>) {
    let (mut read, mut damaged) = (Vec::new(), Vec::new());
    let (mut next, end) = (Offset(0), store.log_end());
    while next < end {
        match store.read(next, end, 1) {
            Ok(Read::Slice(slice)) => {
                let bytes = slice.read().unwrap();
                let batch = Batch::cut(&bytes, Source::Log).next().unwrap().unwrap();
                assert!(batch.base_offset() <= next, "{next} was passed over");
                next = batch.next_offset();
                read.push(batch);
            }
            Ok(Read::AtEnd) => panic!("nothing at {next}"),
            Err(_) => {
                damaged.push(next.0);
                next = next.advance(2);
            }
        }
    }
    (read, damaged)
}

/// The log ends at the cut all the same. Of what is gone in front of it readers are told, before and after a start, and it comes back.
#[test]
fn a_cut_that_lands_in_rot_leaves_damage_that_is_repaired() {
    let (mut hidden, mut whole) = (0, 0);
    let mut number = 10;
    for to in [12, 14, 16, 22, 24] {
        for at in (0..840_u64).step_by(33) {
            for zeros in [0, 90, 400] {
                number += 1;
                let what = format!("cut to {to}, rot at {at}, {zeros} zeros");
                let place = TestDir::simulated(number);
                let (batches, known) = filled(&place);
                let (store, _) = place.open(small_segments(SEGMENT_BYTES), Some(known));
                let segment = file(&place, &store, 1);
                let was = content(&segment);
                let len = was.len() as u64;
                let at = at.min(len - 1);
                // A leader epoch that rots is found by those that the log knows, which this one does not store.
                let sizes = Batch::cut(&Bytes::copy_from_slice(&was), Source::Log)
                    .map(|batch| batch.unwrap().size() as u64);
                let mut begins = sizes.scan(0, |begin, size| {
                    *begin += size;
                    Some(*begin - size)
                });
                if zeros == 0 && begins.any(|begin| (begin + 12..begin + 16).contains(&at)) {
                    continue;
                }
                let bytes = match zeros {
                    0 => vec![was[at as usize] ^ 1],
                    zeros => vec![0; (len - at).min(zeros) as usize],
                };
                segment.write_at(&[IoSlice::new(&bytes)], at).unwrap();
                let is_start = number % 2 == 0;
                if is_start {
                    assert_eq!(store.truncate_to(Offset(to)).unwrap(), Offset(to), "{what}");
                } else {
                    assert_eq!(
                        store.cut(Offset(to), NOW).unwrap().end,
                        Offset(to),
                        "{what}"
                    );
                }
                assert_eq!(store.log_end(), Offset(to), "{what}");
                let kept = batches[..to as usize / 2].iter().cloned();
                let others = (to / 2..40).map(|at| batch(at * 2, 2, -9));
                let want: Vec<Batch> = kept.chain(others.clone()).collect();
                append(&store, &others.collect::<Vec<_>>());
                store.sync().unwrap();
                let known = store.known();
                let check = |store: &Store| {
                    let (read, damaged) = read_past_damage(store);
                    let is_told = |batch: &&Batch| damaged.contains(&batch.base_offset().0);
                    let readable = want.iter().filter(|batch| !is_told(batch));
                    let bases = |of: &[Batch]| -> Vec<i64> {
                        of.iter().map(|batch| batch.base_offset().0).collect()
                    };
                    let readable: Vec<Batch> = readable.cloned().collect();
                    let (got, wanted) = (bases(&read), bases(&readable));
                    assert!(
                        read == readable,
                        "{what}: {got:?}, not {wanted:?}, {damaged:?}"
                    );
                    assert!(damaged.iter().all(|offset| *offset < to), "{what}");
                    let scrubbed = store.verify(Offset(0), Offset(80));
                    assert_eq!(
                        scrubbed.is_err(),
                        !damaged.is_empty(),
                        "{what}: {scrubbed:?}, {damaged:?}"
                    );
                    damaged.len()
                };
                check(&store);
                drop(store);
                let (store, found) = place.open(small_segments(SEGMENT_BYTES), Some(known));
                assert!(!found.known_is_stale && found.is_clean(), "{what}");
                let lost = check(&store);
                (hidden, whole) = (
                    hidden + usize::from(1 < lost),
                    whole + usize::from(lost == 0),
                );
                repair_all(&store, &want, &what);
                assert!(read_all(&store, 0, 80, 4000) == want, "{what}");
            }
        }
    }
    assert!(30 < hidden && 30 < whole, "{hidden} {whole}");
}

/// A segment whose file lost its end, in front of batches that are believed: they are not given to who asks for what is gone.
#[test]
fn a_reader_is_told_of_an_end_that_its_file_lost() {
    let place = TestDir::simulated(8);
    let (batches, known) = filled(&place);
    let (store, _) = place.open(small_segments(SEGMENT_BYTES), Some(known));
    assert_eq!(read_all(&store, 0, 60, 4000).len(), 30);
    let end = store.segments()[2].base();
    file(&place, &store, 1).set_len(300).unwrap();
    drop(store);
    let (store, _) = place.open(small_segments(SEGMENT_BYTES), Some(known));
    // The bytes behind are verified first.
    assert!(store.read(end, Offset(60), 4000).is_ok());
    let (_, damaged) = read_past_damage(&store);
    assert_eq!(damaged.last(), Some(&(end.0 - 2)));
    assert!(store.verify(Offset(0), Offset(60)).is_err());
    repair_all(&store, &batches, "an end");
    assert_eq!(read_past_damage(&store).1, [0; 0]);
}
