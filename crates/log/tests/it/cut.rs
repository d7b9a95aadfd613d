//! Cuts of a log that goes on at once: what readers of the old bytes get, and what a crash leaves.

use std::io::IoSlice;

use env::disk::Open;

use super::*;

#[test]
fn reader_of_the_bytes_before_a_cut_gets_none_of_those_behind_it() {
    on_every_machine("cut-readers", |place| {
        for to in [0, 30, 36, 60, 90, 297] {
            let _ = place.env.disk.remove_dir_all(&place.dir);
            let store = place.create(small_segments(900), 0);
            append(&store, &hundred_batches());
            let before = read_slices(&store);
            assert_eq!(store.cut(Offset(to), NOW).unwrap().end, Offset(to));
            let others: Vec<Batch> = (to / 3..100).map(|at| batch(at * 3, 3, -5)).collect();
            append(&store, &others);
            for slice in &before {
                let bytes = slice.read().unwrap();
                for found in Batch::cut(&bytes, Source::Log).map_while(Result::ok) {
                    let is_new = others.contains(&found);
                    assert!(!is_new, "{} was written behind {to}", found.base_offset());
                }
            }
            let kept = hundred_batches().into_iter().take(to as usize / 3);
            let want: Vec<Batch> = kept.chain(others).collect();
            assert_eq!(read_all(&store, 0, 300, 700), want, "cut to {to}");
        }
    });
}

fn read_slices(store: &Store) -> Vec<log::Verified> {
    let mut slices = Vec::new();
    let mut next = Offset(0);
    while let Read::Slice(slice) = store.read(next, store.log_end(), 400).unwrap() {
        let bytes = slice.read().unwrap();
        let last = Batch::cut(&bytes, Source::Log).map_while(Result::ok).last();
        next = last.unwrap().next_offset();
        slices.push(slice);
    }
    slices
}

#[test]
fn sync_that_began_before_a_cut_says_nothing_of_what_is_behind_it() {
    on_every_machine("cut-sync", |place| {
        let store = place.create(small_segments(900), 0);
        append(&store, &hundred_batches());
        let covered = store.before_volume_sync();
        store.cut(Offset(30), NOW).unwrap();
        let others: Vec<Batch> = (10..100).map(|at| batch(at * 3, 3, -5)).collect();
        append(&store, &others);
        store.on_volume_synced(&covered);
        assert!(store.synced_end() <= Offset(30), "{}", store.synced_end());
        assert!(store.is_dirty());
        assert_eq!(store.sync().unwrap(), Offset(300));
        assert_eq!(store.synced_end(), Offset(300));
    });
}

#[test]
fn cut_that_was_cut_off_is_repeated_in_the_same_log() {
    for seed in 0..200 {
        let machine = power::machine(seed);
        let batches: Vec<Batch> = (0..40).map(|i| batch(i * 2, 2, i)).collect();
        let others = |to: i64| (to / 2..50).map(|i| batch(i * 2, 2, -9));
        let before = power::place(&machine);
        let store = before.create(small_segments(900), 0);
        append(&store, &batches);
        store.sync().unwrap();
        let data = std::path::Path::new("/data");
        before.env.disk.sync_dir(data).unwrap();
        let known = store.known();
        let to = seed as i64 * 26 % 80;
        store.cut(Offset(to), NOW).unwrap();
        append(&store, &others(to).collect::<Vec<_>>());
        if seed % 3 == 0 {
            store.sync().unwrap();
        }
        machine.power_cut();
        let after = power::place(&machine);
        // As a start does that has the checkpoint of before, and the cut in the journal.
        let known = (seed % 2 == 0).then_some(known);
        let (store, _) = after.open(small_segments(900), known);
        let end = store.truncate_to(Offset(to)).unwrap();
        let kept = &batches[..end.0 as usize / 2];
        assert!(end.0 == to, "seed {seed}: {end} of {to}");
        assert_eq!(read_all(&store, 0, to, 5000), kept, "seed {seed}");
        append(&store, &others(to).collect::<Vec<_>>());
        assert_eq!(store.log_end(), Offset(100));
    }
}

#[test]
fn log_is_cut_where_only_its_batches_show_whose_bytes_behind_are_gone() {
    on_every_machine("cut-zeros", |place| {
        for to in [30, 36, 60] {
            let _ = place.env.disk.remove_dir_all(&place.dir);
            let store = place.create(LogConfig::default(), 0);
            append(&store, &hundred_batches());
            store.sync().unwrap();
            let kept = read_all(&store, 0, to, 5000);
            let len: usize = kept.iter().map(|batch| batch.size()).sum();
            let path = place.dir.join("00000000000000000000.log");
            let file = place.env.disk.open(&path, Open::Write).unwrap();
            let known = store.known();
            let zeros = vec![0; known.active_len as usize - len];
            file.write_at(&[IoSlice::new(&zeros)], len as u64).unwrap();
            drop(store);
            let (store, _) = place.open(LogConfig::default(), Some(known));
            assert_eq!(store.truncate_to(Offset(to)).unwrap(), Offset(to));
            assert_eq!(read_all(&store, 0, to, 5000), kept);
            append(&store, &hundred_batches()[to as usize / 3..]);
            assert_eq!(read_all(&store, 0, 300, 5000), hundred_batches());
        }
    });
}

/// Between the last batch and the cut there is a gap that compaction left, here or at a leader: nothing is lost with it.
#[test]
fn log_that_is_cut_at_the_end_of_a_gap_goes_on_there() {
    on_every_machine("cut-gap", |place| {
        for is_start in [false, true] {
            let _ = place.env.disk.remove_dir_all(&place.dir);
            let store = place.create(small_segments(900), 0);
            store.expect_gaps(Offset(40)).unwrap();
            let kept = [batch(0, 3, 0), batch(9, 3, 0)];
            append(&store, &kept);
            append(&store, &[batch(40, 3, 0), batch(43, 3, 0)]);
            store.sync().unwrap();
            let known = store.known();
            drop(store);
            let (store, _) = place.open(small_segments(900), Some(known));
            if is_start {
                assert_eq!(store.truncate_to(Offset(40)).unwrap(), Offset(40));
            } else {
                let cut = store.cut(Offset(40), NOW).unwrap();
                assert_eq!((cut.end, cut.lacks_from), (Offset(40), None));
            }
            assert_eq!(store.known().log_end, Offset(40));
            store.sync().unwrap();
            let known = store.known();
            drop(store);
            let (store, _) = place.open(small_segments(900), Some(known));
            assert_eq!(store.log_end(), Offset(40));
            let other = batch(40, 3, -5);
            append(&store, std::slice::from_ref(&other));
            let want = [kept[0].clone(), kept[1].clone(), other];
            assert_eq!(read_all(&store, 0, 43, 5000), want);
            store.verify(Offset(0), Offset(43)).unwrap();
        }
    });
}
