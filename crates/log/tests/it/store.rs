//! Appending, rolling, reading, truncating and retiring.

use log::scan::DamageKind;
use log::store::Reason;
use log::txn_index::AbortedTxn;
use log::{ReadError, StoreError};
use wire::records::{EndTxn, end_txn_batch};

use super::*;

#[test]
fn what_was_appended_is_read_back_from_every_offset() {
    on_every_machine("read", |place| {
        let store = place.create(small_segments(2000), 0);
        let batches = hundred_batches();
        for some in batches.chunks(7) {
            append(&store, some);
        }
        assert!(store.segments().len() > 5, "rolled by size");
        assert_eq!(store.log_end(), Offset(300));
        assert_eq!(read_all(&store, 0, 300, 1 << 20), batches);
        for from in 0..300 {
            let first = from as usize / 3;
            assert_eq!(
                read_all(&store, from, 300, 1)[..],
                batches[first..],
                "from {from}"
            );
        }
    });
}

#[test]
fn a_bound_hides_batches_that_reach_beyond_it() {
    on_every_machine("bound", |place| {
        let store = place.create(small_segments(2000), 0);
        let batches = hundred_batches();
        append(&store, &batches);
        for upto in 0..=300 {
            let whole = upto as usize / 3;
            assert_eq!(
                read_all(&store, 0, upto, 1 << 20),
                batches[..whole],
                "below {upto}"
            );
        }
        let (again, _) = place.open(small_segments(2000), Some(store.known()));
        for upto in (0..=300).rev() {
            assert_eq!(
                read_all(&again, 0, upto, 700),
                batches[..upto as usize / 3],
                "below {upto}, no marks"
            );
        }
    });
}

#[test]
fn offsets_outside_of_the_log_are_told_apart_from_its_end() {
    let place = TestDir::real("range");
    let store = place.create(LogConfig::default(), 10);
    append(&store, &[batch(10, 5, 0)]);
    assert!(matches!(
        store.read(Offset(15), Offset(15), 1),
        Ok(Read::AtEnd)
    ));
    assert!(
        matches!(store.read(Offset(12), Offset(12), 1), Ok(Read::AtEnd)),
        "above the bound"
    );
    for offset in [9, 16] {
        let error = store.read(Offset(offset), Offset(15), 1);
        assert!(
            matches!(error, Err(ReadError::OutOfRange { .. })),
            "{offset}"
        );
    }
    store.advance_local_start(Offset(12));
    assert!(matches!(
        store.read(Offset(11), Offset(15), 1),
        Err(ReadError::OutOfRange { .. })
    ));
    assert_eq!(
        read_all(&store, 12, 15, 1)[0].base_offset(),
        Offset(10),
        "the batch that holds it"
    );
}

#[test]
fn a_log_opened_with_or_without_a_known_state_is_the_same_log() {
    on_every_machine("open", |place| {
        let store = place.create(small_segments(2000), 0);
        let batches = hundred_batches();
        append(&store, &batches[..50]);
        store.write_indexes().unwrap();
        append(&store, &batches[50..]);
        store.sync().unwrap();
        let known = store.known();
        drop(store);
        for known in [None, Some(known)] {
            let (store, found) = place.open(small_segments(2000), known);
            assert_eq!((found.local_start, found.log_end), (Offset(0), Offset(300)));
            assert_eq!(
                (found.uncut_bytes, found.damage, found.known_is_stale),
                (0, None, false)
            );
            assert_eq!(read_all(&store, 0, 300, 5000), batches);
            assert_eq!(store.verify(Offset(0), Offset(300)).unwrap(), store.size());
        }
        let (store, _) = place.open(small_segments(2000), None);
        append(&store, &[batch(300, 1, 5)]);
        assert_eq!(read_all(&store, 299, 301, 1 << 20).len(), 2);
    });
}

#[test]
fn a_tail_behind_the_known_end_must_be_cut_before_an_append() {
    on_every_machine("uncut", |place| {
        let store = place.create(LogConfig::default(), 0);
        append(&store, &[batch(0, 10, 0)]);
        let known = store.known();
        append(&store, &[batch(10, 10, 0)]);
        drop(store);
        let (store, found) = place.open(LogConfig::default(), Some(known));
        assert_eq!(found.log_end, Offset(10));
        assert!(found.uncut_bytes > 0);
        let refused = store.append(&[batch(10, 1, 0)], NOW);
        assert!(matches!(refused, Err(StoreError::Uncut { .. })));
        store.truncate_to(Offset(10)).unwrap();
        append(&store, &[batch(10, 1, 0)]);
        assert_eq!(read_all(&store, 0, 11, 1 << 20).len(), 2);
        let (again, found) = place.open(LogConfig::default(), None);
        assert_eq!((again.log_end(), found.damage), (Offset(11), None));
    });
}

#[test]
fn segments_begun_after_the_checkpoint_are_cut_with_their_files() {
    on_every_machine("later", |place| {
        let store = place.create(small_segments(700), 0);
        append(&store, &hundred_batches()[..10]);
        let known = store.known();
        append(&store, &hundred_batches()[10..]);
        drop(store);
        let (store, found) = place.open(small_segments(700), Some(known));
        assert_eq!(found.log_end, Offset(30));
        assert!(found.uncut_segments > 10 && !found.known_is_stale && !found.is_clean());
        assert!(matches!(store.roll(NOW), Err(StoreError::Uncut { .. })));
        store.truncate_to(Offset(30)).unwrap();
        append(&store, &hundred_batches()[10..]);
        assert_eq!(read_all(&store, 0, 300, 1 << 20), hundred_batches());
    });
}

#[test]
fn a_log_goes_on_from_a_checkpoint_taken_right_before_or_after_a_roll() {
    let all = &hundred_batches()[..16];
    for (count, is_rolled, is_rolled_then) in (0..12)
        .flat_map(|count| [(count, false), (count, true)])
        .flat_map(|(count, is_rolled)| [(count, is_rolled, false), (count, is_rolled, true)])
    {
        let place = TestDir::simulated(1);
        let store = place.create(small_segments(700), 0);
        let (before, behind) = all.split_at(count);
        append(&store, before);
        if is_rolled {
            store.roll(NOW).unwrap();
        }
        store.sync().unwrap();
        let known = store.known();
        if is_rolled_then {
            store.roll(NOW).unwrap();
        }
        append(&store, behind);
        drop(store);
        // The second start comes after one that came to nothing.
        for start in 0..2 {
            let context = format!("{count}, {is_rolled}, {is_rolled_then}, {start}");
            let (store, found) = place.open(small_segments(700), Some(known));
            assert!(!found.known_is_stale, "{context}");
            assert_eq!(found.log_end, known.log_end, "{context}");
            store.truncate_to(known.log_end).unwrap();
            assert_eq!(store.known(), known, "{context}");
            append(&store, behind);
            assert_eq!(read_all(&store, 0, 48, 900), all, "{context}");
            let bases: Vec<_> = store.segments().iter().map(|of| of.base()).collect();
            assert!(bases.is_sorted_by(|one, next| one < next), "{bases:?}");
        }
        let (store, found) = place.open(small_segments(700), None);
        assert_eq!((found.damage, found.log_end), (None, Offset(48)));
        assert_eq!(read_all(&store, 0, 48, 900), all);
    }
}

#[test]
fn a_missing_segment_ends_the_log_before_it() {
    on_every_machine("missing", |place| {
        let store = place.create(small_segments(700), 0);
        append(&store, &hundred_batches());
        let gone = store.segments()[5].base();
        place
            .env
            .disk
            .remove_file(&store.segments()[5].path("log"))
            .unwrap();
        drop(store);
        let (store, found) = place.open(small_segments(700), None);
        assert_eq!(store.log_end(), gone);
        let why = found.damage.unwrap().why;
        assert!(
            matches!(why, log::scan::DamageKind::Missing { from, .. } if from == gone),
            "{why}"
        );
        assert!(found.uncut_segments > 10);
    });
}

#[test]
fn a_known_state_of_another_log_is_not_believed() {
    let place = TestDir::real("stale");
    let store = place.create(LogConfig::default(), 0);
    append(&store, &[batch(0, 10, 0)]);
    let known = Known {
        active_len: 1 << 30,
        ..store.known()
    };
    let (store, found) = place.open(LogConfig::default(), Some(known));
    assert!(found.known_is_stale);
    assert_eq!(store.log_end(), Offset(10));
}

/// Seed 66 of the simulator's load `retries`: all segments of a checkpoint were deleted since, and the start that wrote the
/// first batches behind them failed. The next one took its file for the one of the checkpoint, and kept half a batch.
#[test]
fn a_file_begun_behind_a_log_that_is_gone_is_not_taken_for_it() {
    let place = TestDir::simulated(1);
    let store = place.create(LogConfig::default(), 0);
    append(&store, &[batch(0, 10, 0)]);
    store.sync().unwrap();
    let known = store.known();
    let path = store.segments()[0].path("log");
    drop(store);
    place.env.disk.remove_file(&path).unwrap();
    for _ in 0..3 {
        let (store, found) = place.open(LogConfig::default(), Some(known));
        assert!(found.known_is_stale);
        store.truncate_to(known.log_end).unwrap();
        append(&store, &[batch(20, 100, 0)]);
        assert_eq!(read_all(&store, 20, 120, 1 << 20), [batch(20, 100, 0)]);
    }
}

/// A log of several segments, of which the first `count` files are missing when it is opened again; what its checkpoint says.
fn without_first_files(place: &TestDir, count: usize) -> (Known, Vec<Offset>) {
    let store = place.create(small_segments(500), 0);
    append(&store, &hundred_batches());
    store.sync().unwrap();
    let segments = store.segments();
    for segment in segments.iter().take(count) {
        place.env.disk.remove_file(&segment.path("log")).unwrap();
    }
    let bases = segments.iter().map(|segment| segment.base()).collect();
    (store.known(), bases)
}

#[test]
fn the_local_start_does_not_follow_files_that_are_missing_above_it() {
    on_every_machine("missing_above", |place| {
        let _ = place.env.disk.remove_dir_all(&place.dir);
        let (known, bases) = without_first_files(place, 2);
        let (store, found) = place.open(small_segments(500), Some(known));
        assert!(!found.known_is_stale);
        assert_eq!(
            (found.local_start, store.local_start(), store.files_start()),
            (Offset(0), Offset(0), bases[2])
        );
        for from in [Offset(0), bases[1], Offset(bases[2].0 - 1)] {
            let why = match store.read(from, found.log_end, 100) {
                Err(ReadError::Damaged { damage, .. }) => damage.why,
                _ => panic!("{from} is missing"),
            };
            let to = bases[2];
            assert_eq!(why, DamageKind::Missing { from, to });
            assert!(store.locate(from, found.log_end, 100).is_err());
            assert!(store.verify(from, found.log_end).is_err());
        }
        let kept = &hundred_batches()[bases[2].0 as usize / 3..];
        assert_eq!(read_all(&store, bases[2].0, 300, 1 << 20), kept);
        assert_eq!(
            store.known(),
            known,
            "the next start finds them missing too"
        );
    });
}

#[test]
fn files_that_are_missing_below_the_local_start_are_expected() {
    on_every_machine("missing_below", |place| {
        let _ = place.env.disk.remove_dir_all(&place.dir);
        let (known, bases) = without_first_files(place, 2);
        let local_start = bases[2].advance(1);
        let known = Known {
            local_start,
            ..known
        };
        let (store, found) = place.open(small_segments(500), Some(known));
        assert_eq!(
            (found.local_start, store.files_start(), found.damage),
            (local_start, local_start, None)
        );
        let below = store.read(bases[2], found.log_end, 100);
        assert!(matches!(below, Err(ReadError::OutOfRange { .. })));
        store.verify(local_start, found.log_end).unwrap();
    });
}

#[test]
fn a_log_without_files_keeps_its_local_start() {
    let place = TestDir::simulated(1);
    let (known, _) = without_first_files(&place, usize::MAX);
    let known = Known {
        local_start: Offset(100),
        ..known
    };
    let (store, _) = place.open(small_segments(500), Some(known));
    assert_eq!(
        (store.local_start(), store.files_start(), store.log_end()),
        (Offset(100), Offset(300), Offset(300))
    );
    append(&store, &[batch(300, 2, 0)]);
    for from in [100, 299] {
        let lost = store.read(Offset(from), Offset(302), 1);
        assert!(matches!(lost, Err(ReadError::Damaged { .. })));
    }
    assert_eq!(read_all(&store, 300, 302, 1).len(), 1);
}

#[test]
fn truncation_drops_whole_batches_and_the_log_goes_on_from_there() {
    on_every_machine("truncate", |place| {
        for to in [0, 1, 3, 150, 151, 297, 299, 300] {
            let _ = place.env.disk.remove_dir_all(&place.dir);
            let store = place.create(small_segments(2000), 0);
            let batches = hundred_batches();
            append(&store, &batches);
            let end = store.truncate_to(Offset(to)).unwrap();
            assert_eq!(
                (store.log_end(), end),
                (Offset(to / 3 * 3), Offset(to / 3 * 3))
            );
            let to = end.0;
            let kept = &batches[..to as usize / 3];
            assert_eq!(read_all(&store, 0, to, 1 << 20), kept, "to {to}");
            append(&store, &[batch(to, 2, 9_000_000)]);
            assert_eq!(read_all(&store, 0, to + 2, 1 << 20).len(), kept.len() + 1);
            let max = store.max_time().unwrap().unwrap();
            assert_eq!(
                (max.timestamp, max.offset),
                (Timestamp(9_000_001), Offset(to + 1))
            );
            let (again, found) = place.open(small_segments(2000), None);
            assert_eq!((again.log_end(), found.damage), (Offset(to + 2), None));
        }
    });
}

#[test]
fn a_replica_far_behind_begins_anew() {
    let place = TestDir::real("restart");
    let store = place.create(small_segments(500), 0);
    append(&store, &hundred_batches());
    store.restart_at(Offset(5000)).unwrap();
    assert_eq!(
        (store.local_start(), store.log_end()),
        (Offset(5000), Offset(5000))
    );
    append(&store, &[batch(5000, 1, 0)]);
    assert_eq!(read_all(&store, 5000, 5001, 1).len(), 1);
    assert_eq!(place.names(), ["00000000000000005000.log"]);
}

/// Small appends are written together, some minutes of them at a time.
#[test]
fn batches_that_are_written_together_roll_by_time_as_well() {
    let place = TestDir::real("roll-run");
    let config = LogConfig {
        segment_ms: 100,
        ..LogConfig::default()
    };
    let store = place.create(config, 0);
    let times = [1000, 1100, 1101, 1050, 1202, 1203];
    let run: Vec<Batch> = (0..)
        .zip(times)
        .map(|(offset, time)| batch(offset, 1, time))
        .collect();
    append(&store, &run);
    let bases: Vec<i64> = store
        .segments()
        .iter()
        .map(|segment| segment.base().0)
        .collect();
    assert_eq!(bases, [0, 2, 4]);
}

#[test]
fn segments_roll_by_time_by_full_index_and_by_distance() {
    let place = TestDir::real("roll");
    let config = LogConfig {
        segment_ms: 100,
        ..LogConfig::default()
    };
    let store = place.create(config, 0);
    append(&store, &[batch(0, 1, 1000)]);
    append(&store, &[batch(1, 1, 1100)]);
    assert_eq!(store.segments().len(), 1);
    let appended = store.append(&[batch(2, 1, 1101)], NOW).unwrap();
    assert_eq!(appended.rolled, Some(Offset(2)));
    // Without times of records, our own clock counts.
    append(&store, &[batch(3, 1, -1)]);
    assert_eq!(
        store
            .append(&[batch(4, 1, -1)], Timestamp(NOW.0 + 101))
            .unwrap()
            .rolled,
        Some(Offset(4))
    );
    let far = i64::from(i32::MAX) + 4;
    assert_eq!(
        store
            .append(&[batch(far, 1, -1)], Timestamp(NOW.0 + 101))
            .unwrap()
            .rolled,
        None
    );
    assert_eq!(
        store
            .append(&[batch(far + 1, 1, -1)], Timestamp(NOW.0 + 101))
            .unwrap()
            .rolled,
        Some(Offset(far + 1)),
        "the distance to the base does not fit 31 bits"
    );
    let place = TestDir::real("roll-index");
    let store = place.create(
        LogConfig {
            index_interval_bytes: 0,
            segment_index_bytes: 24,
            ..LogConfig::default()
        },
        0,
    );
    for at in 0..9 {
        append(&store, &[batch(at, 1, 0)]);
    }
    let bases: Vec<i64> = store
        .segments()
        .iter()
        .map(|segment| segment.base().0)
        .collect();
    assert_eq!(
        bases,
        [0, 4, 8],
        "three entries fill an index, the first batch has none"
    );
}

#[test]
fn a_restart_does_not_reset_the_clock_of_a_roll() {
    let place = TestDir::real("roll-restart");
    let config = || LogConfig {
        segment_ms: 100,
        ..LogConfig::default()
    };
    let store = place.create(config(), 0);
    append(&store, &[batch(0, 1, 1000), batch(1, 1, 1090)]);
    let (store, _) = place.open(config(), Some(store.known()));
    assert_eq!(
        store.append(&[batch(2, 1, 1100)], NOW).unwrap().rolled,
        None
    );
    assert_eq!(
        store.append(&[batch(3, 1, 1101)], NOW).unwrap().rolled,
        Some(Offset(3))
    );
}

#[test]
fn a_clean_start_has_nothing_to_sync_and_an_unknown_one_syncs_all() {
    let place = TestDir::simulated(9);
    let syncs = || place.machine.as_ref().unwrap().counts().syncs;
    let store = place.create(small_segments(500), 0);
    append(&store, &hundred_batches());
    store.sync().unwrap();
    let segments = store.segments().len() as u64;
    let (clean, _) = place.open(small_segments(500), Some(store.known()));
    assert!(!clean.is_dirty());
    let (unknown, _) = place.open(small_segments(500), None);
    let before = syncs();
    assert_eq!(unknown.sync().unwrap(), Offset(300));
    assert_eq!(
        syncs() - before,
        segments + 1,
        "each file and the directory"
    );
}

#[test]
fn a_batch_larger_than_a_segment_gets_one_of_its_own() {
    let place = TestDir::real("large");
    let store = place.create(small_segments(300), 0);
    append(&store, &[batch(0, 1, 0), batch(1, 50, 0), batch(51, 1, 0)]);
    let sizes: Vec<(i64, u64)> = store
        .segments()
        .iter()
        .map(|s| (s.base().0, s.len()))
        .collect();
    assert_eq!(sizes.len(), 3);
    assert!(sizes[1].1 > 300);
    assert_eq!(read_all(&store, 0, 52, 1).len(), 3);
}

#[test]
fn retention_takes_the_oldest_by_time_size_and_log_start() {
    on_every_machine("retire", |place| {
        let config = LogConfig {
            retention_ms: None,
            ..small_segments(1000)
        };
        let store = place.create(config.clone(), 0);
        append(&store, &hundred_batches());
        let all = store.segments();
        let now = Timestamp(100_000);
        assert_eq!(store.retirable(now, Offset(300)).unwrap(), []);

        store.advance_local_start(all[2].base().advance(1));
        let by_start = store.retirable(now, Offset(300)).unwrap();
        assert_eq!(
            by_start
                .iter()
                .map(|r| (r.base, r.reason))
                .collect::<Vec<_>>(),
            [
                (all[0].base(), Reason::LogStart),
                (all[1].base(), Reason::LogStart)
            ]
        );
        let deleted = store.retire(by_start[1].next, now).unwrap();
        assert_eq!(
            store.local_start(),
            all[2].base().advance(1),
            "stays inside the first segment"
        );
        assert!(
            place
                .names()
                .iter()
                .any(|name| name.ends_with(".log.deleted"))
        );
        store.unlink(&deleted).unwrap();
        assert!(!place.names().iter().any(|name| name.ends_with(".deleted")));

        let keep = store.size() - 1500;
        store.set_config(Arc::new(LogConfig {
            retention_bytes: Some(keep),
            ..config.clone()
        }));
        let by_size = store.retirable(now, Offset(300)).unwrap();
        assert_eq!(
            by_size.len(),
            1,
            "a second one would leave less than the bound"
        );
        assert_eq!(by_size[0].reason, Reason::Size);
        assert!(
            store
                .retirable(now, by_size[0].next.advance(-1))
                .unwrap()
                .is_empty(),
            "bounded by the watermark"
        );

        let last = all.last().unwrap().max_time().unwrap().unwrap().timestamp.0;
        store.set_config(Arc::new(LogConfig {
            retention_ms: Some(50),
            ..config.clone()
        }));
        let some = store.retirable(Timestamp(last), Offset(300)).unwrap();
        assert!(!some.is_empty() && some.len() < store.segments().len());
        assert!(some.iter().all(|retire| retire.reason == Reason::Time));
        let every = store.retirable(Timestamp(last + 51), Offset(300)).unwrap();
        assert_eq!(every.len(), store.segments().len(), "the active one too");
        let deleted = store.retire(every.last().unwrap().next, now).unwrap();
        assert_eq!(
            (store.local_start(), store.log_end()),
            (Offset(300), Offset(300))
        );
        drop(deleted);
        let (again, found) = place.open(config.clone(), None);
        assert_eq!(
            (found.local_start, again.log_end()),
            (Offset(300), Offset(300))
        );
        assert_eq!(
            place.names(),
            ["00000000000000000300.log"],
            "an interrupted deletion is finished"
        );
    });
}

#[test]
fn a_slice_outlives_the_segment_it_came_from() {
    let place = TestDir::real("outlive");
    let store = place.create(small_segments(500), 0);
    append(&store, &hundred_batches());
    let Ok(Read::Slice(slice)) = store.read(Offset(0), Offset(300), 1 << 20) else {
        panic!("a slice")
    };
    let deleted = store.retire(Offset(300), NOW).unwrap();
    store.unlink(&deleted).unwrap();
    let bytes = slice.read().unwrap();
    assert_eq!(
        Batch::cut(&bytes, Source::Log).next().unwrap().unwrap(),
        hundred_batches()[0]
    );
}

#[test]
fn aborted_transactions_are_told_to_readers_that_overlap_them() {
    on_every_machine("aborted", |place| {
        let store = place.create(small_segments(400), 0);
        let txn = |id, first: i64, last: i64, stable: i64| AbortedTxn {
            producer_id: ProducerId(id),
            first_offset: Offset(first),
            last_offset: Offset(last),
            last_stable_offset: Offset(stable),
        };
        for at in 0..20 {
            append(&store, &[produced(at, 1, at as i32)]);
        }
        let all = [txn(1, 0, 5, 3), txn(2, 3, 9, 10), txn(3, 12, 18, 19)];
        for one in all {
            store.add_aborted(one).unwrap();
        }
        store.write_indexes().unwrap();
        let (again, _) = place.open(small_segments(400), None);
        for store in [&store, &again] {
            assert_eq!(store.aborted(Offset(0), Offset(20)).unwrap(), all);
            assert_eq!(store.aborted(Offset(6), Offset(10)).unwrap(), all[1..2]);
            assert_eq!(store.aborted(Offset(10), Offset(12)).unwrap(), []);
            assert_eq!(store.aborted(Offset(0), Offset(3)).unwrap(), all[..1]);
        }
        again.truncate_to(Offset(15)).unwrap();
        assert_eq!(again.aborted(Offset(0), Offset(20)).unwrap(), all[..2]);
        let deleted = again.retire(Offset(10), NOW).unwrap();
        again.unlink(&deleted).unwrap();
        assert!(
            matches!(
                again.aborted(Offset(0), Offset(20)),
                Err(ReadError::OutOfRange { .. })
            ),
            "not told as none"
        );
    });
}

#[test]
fn producer_states_come_back_from_snapshot_and_log() {
    on_every_machine("producers", |place| {
        let disk = &*place.env.disk;
        let store = place.create(small_segments(400), 0);
        let mut states = log::ProducerStates::new(Offset(0));
        let mut apply = |one: Batch, marker: Option<EndTxn>| {
            append(&store, std::slice::from_ref(&one));
            states.apply(&one, marker);
            if one.base_offset() == Offset(10) {
                log::producer::write(disk, &place.dir, &states, log::Syncing::Now).unwrap();
            }
        };
        for at in 0..15 {
            apply(produced(at, at % 2, at as i32 / 2), None);
        }
        let end = EndTxn {
            committed: false,
            coordinator_epoch: 4,
        };
        let mut marker = end_txn_batch(ProducerId(1), ProducerEpoch(0), end, Timestamp(77));
        marker.set_base_offset(Offset(15));
        apply(marker, Some(end));
        assert_eq!(
            log::producer::rebuild(disk, &store, Offset(16)).unwrap(),
            states
        );
        // Without the snapshot, and with a damaged one.
        let path = log::producer::snapshot_path(&place.dir, Offset(11));
        disk.open(&path, env::disk::Open::Write)
            .unwrap()
            .set_len(20)
            .unwrap();
        assert_eq!(
            log::producer::rebuild(disk, &store, Offset(16)).unwrap(),
            states
        );
        assert!(
            !disk.exists(&path).unwrap(),
            "what does not verify is removed"
        );
    });
}

#[test]
fn a_failed_write_or_sync_ends_all_writing() {
    let place = TestDir::simulated(1);
    let machine = place.machine.as_ref().unwrap();
    let store = place.create(LogConfig::default(), 0);
    append(&store, &[batch(0, 1, 0)]);
    store.sync().unwrap();
    append(&store, &[batch(1, 1, 0)]);
    let next = machine.counts().syncs + 1;
    machine.faults(|faults| faults.sync_fails_at = Some(next));
    assert!(matches!(store.sync(), Err(StoreError::Io { .. })));
    assert!(
        matches!(store.sync(), Err(StoreError::Offline { .. })),
        "never tried again"
    );
    assert!(matches!(
        store.append(&[batch(2, 1, 0)], NOW),
        Err(StoreError::Offline { .. })
    ));
    assert_eq!(store.synced_end(), Offset(1));
    assert_eq!(read_all(&store, 0, 2, 1 << 20).len(), 2, "reads go on");
}

#[test]
fn a_short_log_writes_no_index_and_a_long_one_does() {
    let place = TestDir::simulated(5);
    let store = place.create(LogConfig::default(), 0);
    let index = place.dir.join("00000000000000000000.index");
    append(&store, &hundred_batches());
    store.write_long_indexes().unwrap();
    assert!(!place.env.disk.exists(&index).unwrap());
    let mut at = store.log_end().0;
    while store.size() < 2 << 20 {
        append(&store, &[batch(at, 1, 60_000)]);
        at += 1;
    }
    store.write_long_indexes().unwrap();
    assert!(place.env.disk.exists(&index).unwrap());
}
