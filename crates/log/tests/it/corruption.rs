//! Damage of every byte of a small log: seen, never served.

use std::io::IoSlice;

use env::disk::Open;
use env::sim::Rot;

use super::*;

fn config() -> LogConfig {
    small_segments(700)
}

fn file_bytes(place: &TestDir, name: &str) -> Vec<u8> {
    let file = place
        .env
        .disk
        .open(&place.dir.join(name), Open::Read)
        .unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn overwrite(place: &TestDir, name: &str, bytes: &[u8]) {
    let file = place
        .env
        .disk
        .open(&place.dir.join(name), Open::Truncate)
        .unwrap();
    file.write_at(&[IoSlice::new(bytes)], 0).unwrap();
}

fn small_log(place: &TestDir) -> Vec<Batch> {
    let store = place.create(config(), 0);
    let batches: Vec<Batch> = (0..20)
        .map(|i| batch_of(i * 2, 2, i, Codec::ALL[i as usize % 5]))
        .collect();
    append(&store, &batches);
    store.sync().unwrap();
    store.write_indexes().unwrap();
    write_epochs(place, "0\n1\n1 0\n");
    batches
}

/// All batches of these tests are of epoch 1.
fn write_epochs(place: &TestDir, text: &str) {
    overwrite(place, log::epochs::FILE_NAME, text.as_bytes());
}

/// Whatever is read verifies and is what was written; a difference must be an error of `verify` or of opening.
fn check_damaged(place: &TestDir, batches: &[Batch], what: &str) {
    let Ok((store, found)) = Store::open(&place.pool(), &place.dir, Arc::new(config()), None)
    else {
        return;
    };
    let end = store.log_end();
    let verified = store.verify(Offset(0), end).is_ok();
    let mut seen = !verified || found.damage.is_some() || end != Offset(40);
    let mut next = Offset(0);
    while let Ok(Read::Slice(slice)) = store.read(next, end, 1 << 20) {
        let bytes = slice.read().unwrap();
        let mut cut = Batch::cut(&bytes, Source::Log);
        let mut any = false;
        while let Some(Ok(batch)) = cut.next() {
            let original = batches
                .iter()
                .find(|b| b.base_offset() == batch.base_offset());
            let same = original == Some(&batch);
            // Base offset and epoch are not under the checksum; then order or place, and the epochs of the log, give it away.
            seen |= !same;
            assert!(
                same || !verified || found.damage.is_some(),
                "{what}: another batch verifies"
            );
            next = batch.next_offset().max(next);
            any = true;
        }
        if !any || next >= end {
            break;
        }
    }
    let _ = store.offset_for_time(Timestamp(5), Offset::ZERO..end);
    let _ = store.max_time();
    assert!(seen, "{what}: not seen");
}

#[test]
fn every_flipped_byte_of_a_log_is_seen() {
    let place = TestDir::simulated(1);
    let batches = small_log(&place);
    let logs: Vec<String> = place
        .names()
        .into_iter()
        .filter(|name| name.ends_with(".log"))
        .collect();
    assert!(logs.len() > 2);
    for name in &logs {
        let good = file_bytes(&place, name);
        let mut starts = Vec::new();
        for (at, batch) in positions(&good) {
            starts.push(at..at + batch.size());
        }
        for at in 0..good.len() {
            let start = starts
                .iter()
                .find(|range| range.contains(&at))
                .unwrap()
                .start;
            // The base offset is not under the checksum, it is seen by what follows; of the very last batch nothing does, there the
            // journal and the checkpoint know the end.
            let is_last = name == logs.last().unwrap() && start == starts.last().unwrap().start;
            if is_last && at - start < 8 {
                continue;
            }
            for bits in [0x01, 0x80] {
                let mut bad = good.clone();
                bad[at] ^= bits;
                overwrite(&place, name, &bad);
                check_damaged(
                    &place,
                    &batches,
                    &format!("{name} byte {at} (batch + {}) ^ {bits:#x}", at - start),
                );
            }
        }
        overwrite(&place, name, &good);
    }
}

fn positions(bytes: &[u8]) -> Vec<(usize, Batch)> {
    let mut at = 0;
    Batch::cut(&bytes::Bytes::copy_from_slice(bytes), Source::Log)
        .map(|batch| {
            let batch = batch.unwrap();
            let start = at;
            at += batch.size();
            (start, batch)
        })
        .collect()
}

#[test]
fn zeroed_swapped_and_missing_blocks_are_seen() {
    let place = TestDir::simulated(2);
    let batches = small_log(&place);
    let logs: Vec<String> = place
        .names()
        .into_iter()
        .filter(|name| name.ends_with(".log"))
        .collect();
    for name in &logs {
        let good = file_bytes(&place, name);
        for block in [16, 64, 256] {
            for at in (0..good.len()).step_by(block) {
                let end = (at + block).min(good.len());
                let mut zeroed = good.clone();
                zeroed[at..end].fill(0);
                if zeroed != good {
                    overwrite(&place, name, &zeroed);
                    check_damaged(&place, &batches, &format!("{name} zeros at {at}..{end}"));
                }
                let mut missing = good.clone();
                missing.drain(at..end);
                overwrite(&place, name, &missing);
                check_damaged(&place, &batches, &format!("{name} without {at}..{end}"));
            }
        }
        let cut = positions(&good);
        for pair in cut.windows(2) {
            let [(a, first), (b, second)] = pair else {
                unreachable!("windows of two")
            };
            let mut swapped = good[..*a].to_vec();
            swapped.extend_from_slice(&second.to_bytes());
            swapped.extend_from_slice(&first.to_bytes());
            swapped.extend_from_slice(&good[b + second.size()..]);
            overwrite(&place, name, &swapped);
            check_damaged(
                &place,
                &batches,
                &format!("{name} batches at {a} and {b} swapped"),
            );
        }
        overwrite(&place, name, &good);
    }
}

#[test]
fn every_truncation_of_the_last_segment_ends_at_a_batch() {
    let place = TestDir::simulated(3);
    let batches = small_log(&place);
    let name = place
        .names()
        .into_iter()
        .rfind(|name| name.ends_with(".log"))
        .unwrap();
    let good = file_bytes(&place, &name);
    let ends: Vec<usize> = positions(&good)
        .iter()
        .map(|(at, batch)| at + batch.size())
        .collect();
    for len in 0..good.len() {
        overwrite(&place, &name, &good[..len]);
        let (store, found) = place.open(config(), None);
        let whole = ends
            .iter()
            .copied()
            .filter(|end| *end <= len)
            .max()
            .unwrap_or(0);
        assert_eq!(found.uncut_bytes, (len - whole) as u64, "cut at {len}");
        assert_eq!(found.damage.is_some(), whole < len);
        let end = store.log_end();
        assert_eq!(
            read_all(&store, 0, end.0, 1 << 20),
            batches[..(end.0 / 2) as usize]
        );
        store.truncate_to(end).unwrap();
        append(&store, &[batch(end.0, 1, 0)]);
        assert_eq!(read_all(&store, end.0, end.0 + 1, 1).len(), 1);
        overwrite(&place, &name, &good);
    }
}

#[test]
fn damaged_or_missing_indexes_change_no_answer() {
    let place = TestDir::simulated(4);
    let batches = small_log(&place);
    let indexes: Vec<String> = place
        .names()
        .into_iter()
        .filter(|name| name.ends_with("index"))
        .collect();
    assert!(indexes.len() > 4);
    let check = |what: &str| {
        let (store, found) = place.open(config(), None);
        assert_eq!(found.damage, None, "{what}");
        assert_eq!(read_all(&store, 0, 40, 1), batches, "{what}");
        for from in 0..40 {
            assert_eq!(
                read_all(&store, from, 40, 1 << 20)[0],
                batches[from as usize / 2],
                "{what}"
            );
        }
        for time in 0..22 {
            let found = store
                .offset_for_time(Timestamp(time), Offset::ZERO..Offset(40))
                .unwrap();
            // Batch i starts at offset 2i with times i and i + 1.
            let want = (time <= 20).then(|| (2 * time - 1).max(0));
            assert_eq!(
                found.map(|found| found.offset.0),
                want,
                "{what}: time {time}"
            );
        }
        for (at, segment) in store.segments().iter().enumerate() {
            let max = segment
                .find_max_time(wire::records::Caps::default())
                .unwrap()
                .unwrap()
                .timestamp
                .0;
            let end = store
                .segments()
                .get(at + 1)
                .map_or(40, |next| next.base().0);
            assert_eq!(max, end / 2, "{what}: largest time of segment {at}");
        }
    };
    for name in &indexes {
        let good = file_bytes(&place, name);
        let mut damages: Vec<Vec<u8>> = (0..good.len())
            .map(|at| {
                let mut bad = good.clone();
                bad[at] ^= 0x81;
                bad
            })
            .collect();
        damages.push(Vec::new());
        damages.push(vec![0; 24]);
        damages.push(vec![0xff; 24]);
        damages.push(good[..good.len() - 1].to_vec());
        for bad in damages {
            overwrite(&place, name, &bad);
            check(&format!("{name} {bad:x?}"));
            overwrite(&place, name, &good);
        }
        place.env.disk.remove_file(&place.dir.join(name)).unwrap();
        check(&format!("{name} removed"));
        overwrite(&place, name, &good);
    }
}

/// Found by the simulator: the segment ended at the damage, and the next append overwrote what followed.
#[test]
fn appends_go_behind_damage_that_a_checkpoint_vouches_for() {
    let place = TestDir::simulated(6);
    let store = place.create(small_segments(1 << 20), 0);
    let batches: Vec<Batch> = (0..20).map(|i| batch(i, 1, i)).collect();
    append(&store, &batches);
    store.sync().unwrap();
    let known = store.known();
    drop(store);
    let name = "00000000000000000000.log";
    let good = file_bytes(&place, name);
    let size = batches[0].size();
    let mut bad = good.clone();
    bad[3 * size..5 * size].fill(0);
    overwrite(&place, name, &bad);

    let (store, found) = place.open(small_segments(1 << 20), Some(known));
    assert!(!found.known_is_stale);
    append(&store, &[batch(20, 1, 20)]);
    assert_eq!(store.log_end(), Offset(21));
    for from in 0..3 {
        let Ok(Read::Slice(slice)) = store.read(Offset(from), Offset(21), size) else {
            panic!("offset {from} is intact");
        };
        assert_eq!(slice.read().unwrap(), batches[from as usize].to_bytes());
    }
    assert_eq!(read_all(&store, 20, 21, 1 << 20), [batch(20, 1, 20)]);
    for from in [3, 4] {
        assert!(
            store.read(Offset(from), Offset(21), 1 << 20).is_err(),
            "offset {from} is damaged"
        );
    }
    assert_eq!(read_all(&store, 7, 20, 1 << 20), batches[7..]);
    let after = file_bytes(&place, name);
    assert!(
        after[5 * size..].starts_with(&good[5 * size..]),
        "what follows is untouched"
    );
}

/// Found by fuzzing: the first batch behind damage was not found before an index entry came, 4 KiB later.
#[test]
fn the_first_batch_behind_believed_damage_is_found_in_this_life_and_the_next() {
    let place = TestDir::simulated(6);
    let store = place.create(LogConfig::default(), 0);
    let batches: Vec<Batch> = (0..5).map(|i| batch(i, 1, i)).collect();
    append(&store, &batches);
    store.sync().unwrap();
    let known = store.known();
    drop(store);
    let name = "00000000000000000000.log";
    let mut bytes = file_bytes(&place, name);
    let size = batches[0].size();
    bytes[size..2 * size].fill(0);
    overwrite(&place, name, &bytes);

    let (store, _) = place.open(LogConfig::default(), Some(known));
    append(&store, &[batch(5, 3, 5), batch(8, 2, 6)]);
    let found_from = |store: &Store, from: i64| {
        let Ok(Read::Slice(slice)) = store.read(Offset(from), store.log_end(), size) else {
            panic!("offset {from} is behind the damage");
        };
        slice.slice().base_offset
    };
    for from in 5..10 {
        let base = if from < 8 { 5 } else { 8 };
        assert_eq!(found_from(&store, from), Offset(base), "{from}");
    }
    assert!(store.read(Offset(1), Offset(10), size).is_err());
    for from in [0, 2, 3, 4] {
        assert_eq!(found_from(&store, from), Offset(from));
    }
    store.sync().unwrap();
    let known = store.known();
    drop(store);

    let (store, _) = place.open(LogConfig::default(), Some(known));
    assert_eq!(store.log_end(), Offset(10));
    append(&store, &[batch(10, 2, 7)]);
    for from in 10..12 {
        assert_eq!(found_from(&store, from), Offset(10), "{from}");
    }
}

/// A time that no batch has, and that cannot be checked: retention would go by it.
#[test]
fn a_time_that_could_not_be_checked_is_believed_by_nobody() {
    let place = TestDir::simulated(8);
    small_log(&place);
    let machine = place.machine.as_ref().unwrap();
    let path = |extension: &str| place.dir.join(format!("{:020}.{extension}", 0));
    let len = file_bytes(&place, &format!("{:020}.timeindex", 0)).len() as u64;
    // The last entry: eight bytes of time, four of offset. It is far in the future now.
    machine
        .rot(&path("timeindex"), len - 12..len - 11, Rot::Flip { bit: 5 })
        .unwrap();
    let (store, _) = place.open(config(), None);
    let segment = &store.segments()[0];
    let log = machine.env().disk.open(&path("log"), Open::Read).unwrap();
    machine
        .fail_reads(&path("log"), 0..log.len().unwrap())
        .unwrap();
    for _ in 0..3 {
        assert!(segment.max_time().is_err());
    }
    machine.mend_reads();
    assert!(segment.max_time().unwrap().unwrap().timestamp < Timestamp(20));
}

/// The epoch goes out with a batch and with the offset of a time: a consumer that commits one from the future reads nothing more.
#[test]
fn a_batch_of_an_epoch_that_the_log_never_had_is_told_and_its_neighbours_are_served() {
    let place = TestDir::simulated(9);
    let batches = small_log(&place);
    let known = place.open(config(), None).0.known();
    let name = format!("{:020}.log", 0);
    let good = file_bytes(&place, &name);
    for (at, batch) in positions(&good) {
        let mut bad = good.clone();
        bad[at + 13] ^= 4;
        overwrite(&place, &name, &bad);
        let (store, found) = place.open(config(), Some(known));
        assert_eq!(found.damage, None);
        let damage = |read: Result<(), log::ReadError>| match read {
            Err(log::ReadError::Damaged { damage, .. }) => Some(damage.position),
            Ok(()) | Err(_) => None,
        };
        let base = batch.base_offset();
        let read = store.read(base, Offset(40), 1).map(drop);
        assert_eq!(damage(read), Some(at as u64));
        // Of the two records the second has a time that no earlier one has.
        let timed = store.offset_for_time(Timestamp(base.0 / 2 + 1), Offset::ZERO..Offset(40));
        assert_eq!(damage(timed.map(drop)), Some(at as u64));
        for other in batches.iter().filter(|other| **other != batch) {
            let Ok(Read::Slice(slice)) = store.read(other.base_offset(), Offset(40), 1) else {
                panic!("{other:?} is sound");
            };
            assert_eq!(slice.read().unwrap(), other.to_bytes());
        }
    }
    overwrite(&place, &name, &good);
}

#[test]
fn epochs_that_the_whole_log_contradicts_make_no_batch_unreadable() {
    let place = TestDir::simulated(10);
    let batches = small_log(&place);
    for text in [
        "0\n1\n9 0\n",
        "0\n2\n0 0\n1 9\n",
        "0\n1\n1 8\n",
        "0\n1\n\n",
        "",
    ] {
        write_epochs(&place, text);
        for from in [0, 4, 38] {
            let (store, _) = place.open(config(), None);
            let rest = &batches[from as usize / 2..];
            assert_eq!(read_all(&store, from, 40, 1 << 20), rest, "{text:?}");
            append(&store, &[batch(40, 1, 40)]);
            store.truncate_to(Offset(40)).unwrap();
            store.verify(Offset(0), Offset(40)).unwrap();
        }
    }
}

/// Where the log verifies, reading it in small pieces gives batches that decode and were written, each behind the one before, up to
/// the end. Where it does not, reading ends; that it does not panic is all there is to show.
fn check_readable(store: &Store, inputs: &[Batch], verified: bool) {
    let end = store.log_end();
    let mut next = store.local_start();
    while next < end {
        let Ok(Read::Slice(slice)) = store.read(next, end, 100) else {
            assert!(!verified, "verifies and cannot be read from {next:?}");
            return;
        };
        let bytes = slice.read().unwrap();
        let before = next;
        for batch in Batch::cut(&bytes, Source::Log) {
            let Ok(batch) = batch else {
                assert!(!verified, "verifies and does not decode");
                return;
            };
            let is_input = inputs.contains(&batch);
            assert!(is_input || !verified, "nobody wrote {batch:?}");
            next = batch.next_offset().max(next);
        }
        if next == before {
            assert!(!verified, "verifies and gives nothing from {next:?}");
            return;
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, cases: 300, ..Default::default() })]

    /// Recovery of arbitrary files neither panics nor shows what does not verify.
    #[test]
    fn arbitrary_files_are_opened_without_harm(
        log in proptest::collection::vec(proptest::arbitrary::any::<u8>(), 0..400),
        at in 0usize..300,
        index in proptest::collection::vec(proptest::arbitrary::any::<u8>(), 0..64),
        times in proptest::collection::vec(proptest::arbitrary::any::<u8>(), 0..64),
    ) {
        let place = TestDir::simulated(5);
        place.env.disk.create_dir_all(&place.dir).unwrap();
        // Noise over a good beginning, so that the walk gets somewhere.
        let inputs: Vec<Batch> = (0..3).map(|i| batch(i, 1, i)).collect();
        let mut bytes: Vec<u8> = inputs.iter().flat_map(Batch::to_bytes).collect();
        let at = at.min(bytes.len());
        bytes.splice(at.., log);
        overwrite(&place, "00000000000000000000.log", &bytes);
        overwrite(&place, "00000000000000000000.index", &index);
        overwrite(&place, "00000000000000000000.timeindex", &times);
        overwrite(&place, "00000000000000000007.log", &bytes);
        write_epochs(&place, "0\n1\n1 0\n");
        let (store, _) = place.open(config(), None);
        let end = store.log_end();
        let verified = store.verify(store.local_start(), end).is_ok();
        check_readable(&store, &inputs, verified);
        let _ = store.offset_for_time(Timestamp(1), Offset::ZERO..end);
        let _ = store.max_time();
        let rebuilt = log::producer::rebuild(&*place.env.disk, &store, end);
        assert!(!verified || rebuilt.is_ok(), "verifies and cannot be walked");
        store.truncate_to(end).unwrap();
        append(&store, &[batch(end.0, 1, 0)]);
    }
}

/// One partition's unreadable bytes are no reason to refuse those of all others in the directory.
#[test]
fn a_segment_that_cannot_be_read_takes_appends_and_is_sealed() {
    // All that was written before, its begin, and some place.
    let written = 10 * batch(0, 2, 0).size() as u64;
    for unreadable in [0..written, 0..1, 300..301] {
        let place = TestDir::simulated(1);
        let config = || LogConfig {
            index_interval_bytes: 0,
            segment_ms: 1000,
            ..LogConfig::default()
        };
        let batches: Vec<Batch> = (0..20).map(|i| batch(i * 2, 2, i)).collect();
        let store = place.create(config(), 0);
        append(&store, &batches[..10]);
        store.write_indexes().unwrap();
        store.sync().unwrap();
        let known = store.known();
        let segment = PathBuf::from("/data/t-0/00000000000000000000");
        let machine = place.machine.as_ref().unwrap();
        for extension in ["log", "index", "timeindex", "headcheck"] {
            let path = segment.with_extension(extension);
            machine.fail_reads(&path, unreadable.clone()).unwrap();
        }
        let (store, _) = place.open(config(), Some(known));
        for batch in &batches[10..15] {
            append(&store, std::slice::from_ref(batch));
        }
        let is_refused = |at| store.read(Offset(at), Offset(30), 1).is_err();
        assert!((0..20).any(is_refused));
        assert_eq!(read_all(&store, 20, 30, 1 << 20), batches[10..15]);
        store.roll(NOW).unwrap();
        append(&store, &batches[15..]);
        assert_eq!(read_all(&store, 30, 40, 1 << 20), batches[15..]);
        store.write_indexes().unwrap();
        store.sync().unwrap();
        let known = store.known();
        drop(store);
        machine.mend_reads();
        let (store, _) = place.open(config(), Some(known));
        assert_eq!(read_all(&store, 0, 40, 1 << 20), batches);
    }
}
