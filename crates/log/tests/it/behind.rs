//! Batches behind damage are served, whether or not an index leads there, and bytes that only look like a batch are not.

use std::io::IoSlice;
use std::ops::Range;
use std::path::Path;

use env::disk::Open;
use env::sim::Rot;

use super::*;

const FIRST: &str = "00000000000000000000";

const SMALL: u64 = 2000;
/// Many pages.
const LARGE: u64 = 100_000;

fn machine(place: &TestDir) -> &Machine {
    place.machine.as_ref().unwrap()
}

/// Writes batches and their indexes; where each lies, by segment file.
fn write(
    place: &TestDir,
    segment_bytes: u64,
    batches: &[Batch],
) -> (Known, Vec<(PathBuf, Range<u64>)>) {
    let store = place.create(small_segments(segment_bytes), 0);
    let mut places = Vec::new();
    for batch in batches {
        append(&store, std::slice::from_ref(batch));
        let segments = store.segments();
        let active = segments.last().unwrap();
        let end = active.len();
        let path = active.path("log").into_path_buf();
        places.push((path, end - batch.size() as u64..end));
    }
    store.sync().unwrap();
    store.write_indexes().unwrap();
    (store.known(), places)
}

fn remove_indexes(place: &TestDir) {
    for name in place.names() {
        if name.ends_with("index") {
            place.env.disk.remove_file(&place.dir.join(name)).unwrap();
        }
    }
}

fn read_one(store: &Store, from: Offset) -> Option<Batch> {
    let Ok(Read::Slice(slice)) = store.read(from, store.log_end(), 1) else {
        return None;
    };
    let bytes = slice.read().unwrap();
    Some(Batch::cut(&bytes, Source::Log).next().unwrap().unwrap())
}

/// Every batch that no rot touched is read by each of its offsets, and the others are refused.
fn check(
    place: &TestDir,
    segment_bytes: u64,
    known: Known,
    batches: &[Batch],
    is_rotten: impl Fn(usize) -> bool,
) {
    for is_rising in [true, false] {
        let (store, _) = place.open(small_segments(segment_bytes), Some(known));
        let mut order: Vec<usize> = (0..batches.len()).collect();
        if !is_rising {
            order.reverse();
        }
        for at in order {
            let batch = &batches[at];
            for offset in batch.base_offset().0..batch.next_offset().0 {
                let read = read_one(&store, Offset(offset));
                let wanted = (!is_rotten(at)).then(|| batch.clone());
                assert!(read == wanted, "offset {offset}: {read:?}, want {wanted:?}");
            }
        }
    }
}

fn batches() -> Vec<Batch> {
    let count = |number: i64| [1, 3, 2][number as usize % 3];
    let mut base = 0;
    let each = (0..45).map(|number| {
        let made = batch(base, count(number) as usize, 1000 + number);
        base += count(number);
        made
    });
    each.collect()
}

#[test]
fn every_batch_that_rot_left_is_served_and_no_other_whatever_is_left_of_the_indexes() {
    let batches = batches();
    // All of it, the head, its length, its format, the records; its base offset beyond the end, and far beyond.
    let damages = [
        (0..1000, Rot::Zero),
        (0..30, Rot::Zero),
        (8..9, Rot::Flip { bit: 0 }),
        (11..12, Rot::Flip { bit: 3 }),
        (16..17, Rot::Flip { bit: 1 }),
        (70..71, Rot::Flip { bit: 5 }),
        (6..7, Rot::Flip { bit: 0 }),
        (0..1, Rot::Flip { bit: 3 }),
    ];
    for has_indexes in [true, false] {
        for (bytes, rot) in &damages {
            for at in 0..batches.len() {
                let place = TestDir::simulated(1);
                let (known, places) = write(&place, SMALL, &batches);
                let (path, lies) = &places[at];
                let rotten = lies.start + bytes.start..lies.end.min(lies.start + bytes.end);
                machine(&place).rot(path, rotten, *rot).unwrap();
                if !has_indexes {
                    remove_indexes(&place);
                }
                check(&place, SMALL, known, &batches, |of| of == at);
            }
        }
    }
}

/// Seeds 91, 107 and 230 of the simulator: DeleteRecords had moved the log start behind the damage, a power cut left no index, and
/// nobody could read the log any more.
#[test]
fn damage_below_the_log_start_is_felt_by_nobody() {
    let batches = batches();
    for has_indexes in [true, false] {
        for sizes in [1..2, 3..6] {
            let place = TestDir::simulated(2);
            let (known, places) = write(&place, SMALL, &batches);
            let start = batches[sizes.end].base_offset();
            for (path, lies) in &places[sizes.clone()] {
                machine(&place).rot(path, lies.clone(), Rot::Zero).unwrap();
            }
            if !has_indexes {
                remove_indexes(&place);
            }
            let known = Known {
                local_start: start,
                ..known
            };
            let (store, _) = place.open(small_segments(SMALL), Some(known));
            let read = read_all(&store, start.0, store.log_end().0, 1 << 20);
            assert!(read == batches[sizes.end..], "from {start} on");
        }
    }
}

#[test]
fn what_lies_between_two_damaged_places_may_be_refused_and_what_follows_is_served() {
    let batches = batches();
    let place = TestDir::simulated(3);
    let (known, places) = write(&place, SMALL, &batches);
    let of_first = |(path, _): &&(PathBuf, Range<u64>)| path.ends_with(format!("{FIRST}.log"));
    let count = places.iter().filter(of_first).count();
    for at in [2, 7] {
        let (path, lies) = &places[at];
        machine(&place).rot(path, lies.clone(), Rot::Zero).unwrap();
    }
    assert!(7 < count);
    remove_indexes(&place);
    let (store, _) = place.open(small_segments(SMALL), Some(known));
    for (at, batch) in batches.iter().enumerate() {
        let read = read_one(&store, batch.base_offset());
        match at {
            2 | 7 => assert_eq!(read, None),
            3..7 => assert!(read.is_none_or(|read| read == *batch)),
            _ => assert_eq!(read.as_ref(), Some(batch)),
        }
    }
}

/// Somebody stores batches in values; where the batch around them rots they must not be taken for what follows it.
#[test]
fn batches_inside_a_value_are_not_taken_for_those_of_the_log() {
    let mut inner = Vec::new();
    for base in 10..14 {
        inner.extend(batch(base, 1, 5).to_bytes());
    }
    let outer = |base: i64, count: i64| {
        let mut builder = BatchBuilder::new()
            .base_offset(Offset(base))
            .leader_epoch(LeaderEpoch(1));
        for _ in 0..count {
            builder.push(Timestamp(5), None, Some(&inner), &[]);
        }
        builder.build()
    };
    let batches = [batch(0, 9, 5), outer(9, 1), outer(10, 4), batch(14, 1, 6)];
    for at in 1..3 {
        for has_indexes in [true, false] {
            let place = TestDir::simulated(4);
            let (known, places) = write(&place, SMALL, &batches);
            let (path, lies) = &places[at];
            let head = lies.start..lies.start + 61;
            machine(&place).rot(path, head, Rot::Zero).unwrap();
            if !has_indexes {
                remove_indexes(&place);
            }
            check(&place, SMALL, known, &batches, |of| of == at);
        }
    }
}

/// A file that ends early, as one that was cut by hand: no batch follows, and the search ends.
#[test]
fn a_search_ends_where_nothing_is_left() {
    let batches = batches();
    let place = TestDir::simulated(5);
    let (known, places) = write(&place, SMALL, &batches);
    let (path, lies) = &places[2];
    let file = place.env.disk.open(path, Open::Write).unwrap();
    let zeros = vec![0; (file.len().unwrap() - lies.start) as usize];
    file.write_at(&[IoSlice::new(&zeros)], lies.start).unwrap();
    remove_indexes(&place);
    let (store, _) = place.open(small_segments(SMALL), Some(known));
    let of_second = places.iter().position(|(other, _)| other != path).unwrap();
    for (at, batch) in batches.iter().enumerate() {
        let read = read_one(&store, batch.base_offset());
        let is_there = at < 2 || of_second <= at;
        assert_eq!(read.as_ref(), is_there.then_some(batch), "batch {at}");
    }
}

/// A start cuts off what the last checkpoint does not vouch for. What it does vouch for stays, also behind damage that no index
/// entry leads past.
#[test]
fn a_cut_behind_damage_takes_nothing_that_is_below_it() {
    let batches = batches();
    let kept = 30;
    for (has_indexes, rotten) in [(true, 10), (false, 10), (true, 29), (false, 29), (false, 0)] {
        let place = TestDir::simulated(4);
        let (known, places) = {
            let config = small_segments(1 << 20);
            let store = place.create(config, 0);
            let mut places = Vec::new();
            let mut known = None;
            for (at, batch) in batches.iter().enumerate() {
                if at == kept {
                    known = Some(store.known());
                }
                append(&store, std::slice::from_ref(batch));
                let active = store.segments().last().unwrap().clone();
                places.push((
                    active.path("log").into_path_buf(),
                    active.len() - batch.size() as u64..active.len(),
                ));
            }
            store.sync().unwrap();
            store.write_indexes().unwrap();
            (known.unwrap(), places)
        };
        let (path, lies) = &places[rotten];
        machine(&place).rot(path, lies.clone(), Rot::Zero).unwrap();
        if !has_indexes {
            remove_indexes(&place);
        }
        let (store, found) = place.open(small_segments(1 << 20), Some(known));
        assert!(!found.is_clean(), "there is something to cut");
        let end = store.truncate_to(known.log_end).unwrap();
        assert_eq!((end, store.log_end()), (known.log_end, known.log_end));
        append(&store, &batches[kept..]);
        for (at, batch) in batches.iter().enumerate() {
            let read = read_one(&store, batch.base_offset());
            let wanted = (at != rotten).then(|| batch.clone());
            assert!(
                read == wanted,
                "indexes {has_indexes}, rotten {rotten}: batch {at} is {read:?}"
            );
        }
    }
}

/// Found by fuzzing: the end of the last batch had rotted upwards, and what was appended behind it was found by nobody.
#[test]
fn batches_go_behind_a_base_offset_that_rotted_beyond_them() {
    let place = TestDir::simulated(3);
    let batches = &batches()[..4];
    let (known, places) = write(&place, SMALL, batches);
    let (path, lies) = &places[3];
    let rotten = lies.start..lies.start + 1;
    (machine(&place).rot(path, rotten, Rot::Flip { bit: 3 })).unwrap();
    remove_indexes(&place);
    let (store, _) = place.open(small_segments(SMALL), Some(known));
    let end = store.log_end();
    assert_eq!(end, batches[3].next_offset());
    let new = batch(end.0, 2, 5000);
    append(&store, std::slice::from_ref(&new));
    assert_eq!(read_one(&store, end), Some(new.clone()));
    assert_eq!(read_one(&store, batches[3].base_offset()), None);
    store.sync().unwrap();
    store.write_indexes().unwrap();
    let known = store.known();
    drop(store);
    let all = [batches, &[new]].concat();
    check(&place, SMALL, known, &all, |of| of == 3);
}

/// Batches of some hundred bytes to several pages.
fn large_batches() -> Vec<Batch> {
    let mut base = 0;
    let each = (0..24).map(|number: i64| {
        let value = vec![number as u8; [300, 9000, 5000, 700, 2500][number as usize % 5]];
        let mut builder = BatchBuilder::new()
            .base_offset(Offset(base))
            .leader_epoch(LeaderEpoch(1));
        let count = [1, 3, 2][number as usize % 3];
        for _ in 0..count {
            builder.push(Timestamp(1000 + number), None, Some(&value), &[]);
        }
        base += count;
        builder.build()
    });
    each.collect()
}

/// Seed 71003 of the simulator: a power cut took an index, and healthy batches behind bytes that a disk did not give back were refused.
#[test]
fn every_batch_that_can_be_read_is_served_whatever_is_left_of_the_indexes() {
    const PAGE: u64 = 4096;
    let batches = large_batches();
    let place = TestDir::simulated(6);
    let (known, places) = write(&place, LARGE, &batches);
    let ends = places
        .iter()
        .filter(|(path, _)| *path == places[0].0)
        .map(|(_, lies)| lies.end);
    let pages = ends.max().unwrap().div_ceil(PAGE);
    assert!(10 < pages);
    drop(place);
    for has_indexes in [true, false] {
        for (page, count) in (0..pages).flat_map(|page| [(page, 1), (page, 3)]) {
            let place = TestDir::simulated(6);
            let (_, places) = write(&place, LARGE, &batches);
            let path = &places[0].0;
            let bad = page * PAGE..(page + count) * PAGE;
            machine(&place).fail_reads(path, bad.clone()).unwrap();
            if !has_indexes {
                remove_indexes(&place);
            }
            check(&place, LARGE, known, &batches, |at| {
                let (of, lies) = &places[at];
                of == path && lies.start < bad.end && bad.start < lies.end
            });
        }
    }
}

/// The files come back as others, which can be read.
#[test]
fn indexes_that_cannot_be_read_are_made_anew() {
    let times = |store: &Store| -> Vec<_> {
        let from = |time| store.offset_for_time(Timestamp(time), Offset::ZERO..store.log_end());
        let each = (1000..1050).map(|time| from(time).unwrap());
        each.chain([store.max_time().unwrap()]).collect()
    };
    let place = TestDir::simulated(7);
    let (known, _) = write(&place, SMALL, &batches());
    let whole = times(&place.open(small_segments(SMALL), Some(known)).0);
    for extension in ["index", "timeindex"] {
        for bad in [0..1, 0..1 << 20] {
            let batches = batches();
            let place = TestDir::simulated(7);
            let (known, places) = write(&place, SMALL, &batches);
            for (path, _) in &places {
                let index = path.with_extension(extension);
                machine(&place).fail_reads(&index, bad.clone()).unwrap();
            }
            check(&place, SMALL, known, &batches, |_| false);
            let (store, _) = place.open(small_segments(SMALL), Some(known));
            assert_eq!(times(&store), whole, "{extension}");
        }
    }
}

/// A reader asks for as much as fits; what is healthy comes first.
#[test]
fn a_reader_gets_what_lies_before_damage() {
    for is_unreadable in [true, false] {
        let batches = large_batches();
        let place = TestDir::simulated(8);
        let (known, places) = write(&place, LARGE, &batches);
        let (path, lies) = &places[6];
        if is_unreadable {
            machine(&place).fail_reads(path, lies.clone()).unwrap()
        } else {
            let records = lies.start + 70..lies.end;
            machine(&place).rot(path, records, Rot::Zero).unwrap();
        }
        let (store, _) = place.open(small_segments(LARGE), Some(known));
        let end = batches[6].base_offset();
        let mut from = Offset::ZERO;
        while from < end {
            let Read::Slice(slice) = store.read(from, store.log_end(), 1 << 20).unwrap() else {
                panic!("nothing at {from}");
            };
            let bytes = slice.read().unwrap();
            let last = Batch::cut(&bytes, Source::Log).last().unwrap().unwrap();
            from = last.next_offset();
        }
        assert_eq!(from, end);
        assert!(store.read(from, store.log_end(), 1 << 20).is_err());
    }
}

/// Whole entries, as where a power cut takes the last pages: what is left looks like an index.
#[test]
fn times_that_a_power_cut_took_from_an_active_segment_are_found_all_the_same() {
    let place = TestDir::simulated(9);
    let (known, places) = write(&place, LARGE, &batches());
    let path = places[0].0.with_extension("timeindex");
    let newest = || {
        let (store, _) = place.open(small_segments(LARGE), Some(known));
        assert_eq!(store.segments().len(), 1);
        store.segments()[0].max_time().unwrap()
    };
    let whole = newest();
    let file = place.env.disk.open(&path, Open::Write).unwrap();
    for left in (0..file.len().unwrap() / 12).rev() {
        file.set_len(left * 12).unwrap();
        assert_eq!(newest(), whole, "{left} entries");
    }
}

#[test]
fn a_power_cut_leaves_the_times_of_a_sealed_segment_whole_or_none() {
    let batches: Vec<Batch> = (0..3000).map(|at| batch(at, 1, at)).collect();
    let mut lost = 0;
    for seed in 0..40 {
        let mut place = TestDir::simulated(seed);
        place.env.disk.create_dir_all(&place.dir).unwrap();
        place.env.disk.sync_dir(Path::new("/")).unwrap();
        place.env.disk.sync_dir(Path::new("/data")).unwrap();
        let store = place.create(small_segments(LARGE), 0);
        for some in batches.chunks(300) {
            append(&store, some);
            store.write_indexes().unwrap();
            // As when a checkpoint syncs the volume.
            if some[0].base_offset().0 % 900 == 0 {
                let path = store.segments().last().unwrap().path("timeindex");
                let file = place.env.disk.open(&path, Open::Write).unwrap();
                file.sync_data().unwrap();
            }
        }
        store.sync().unwrap();
        let known = store.known();
        lost += machine(&place).power_cut().pages;
        place.env = machine(&place).env();
        let (store, found) = place.open(small_segments(LARGE), Some(known));
        assert!(!found.known_is_stale);
        for segment in store.segments().iter() {
            let newest = segment.max_time().unwrap().unwrap();
            let last = segment.end().0 - 1;
            assert_eq!(
                (newest.offset.0, newest.timestamp.0),
                (last, last),
                "{seed}"
            );
        }
    }
    assert!(lost > 0);
}

/// A disk that fails for a while.
#[test]
fn times_of_bytes_that_cannot_be_read_are_not_passed_over_and_found_when_they_can() {
    for is_sealed in [true, false] {
        let place = TestDir::simulated(10);
        let (known, places) = write(&place, SMALL, &batches());
        let (path, lies) = if is_sealed {
            &places[1]
        } else {
            places.last().unwrap()
        };
        remove_indexes(&place);
        let open = || place.open(small_segments(SMALL), Some(known)).0;
        let store = open();
        let of = |segment: &&Arc<log::Segment>| *segment.path("log") == **path;
        let segments = store.segments();
        let newest = segments.iter().find(of).unwrap().max_time().unwrap();
        let time = newest.unwrap().timestamp;
        let times = |store: &Store| {
            let found = store.offset_for_time(time, Offset::ZERO..store.log_end())?;
            Ok((found, store.max_time()?))
        };
        let whole = times(&store).unwrap();
        remove_indexes(&place);
        machine(&place).fail_reads(path, lies.start..SMALL).unwrap();
        let store = open();
        for _ in 0..2 {
            match times(&store) {
                Err(log::ReadError::Damaged { damage, .. }) => assert!(damage.is_unread()),
                other => panic!("{other:?}"),
            }
            assert!(store.max_time().is_err());
        }
        machine(&place).mend_reads();
        assert_eq!(times(&store).unwrap(), whole);
    }
}
