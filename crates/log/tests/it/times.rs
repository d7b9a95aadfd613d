//! Looking for records by time.

use super::*;

#[test]
fn times_are_found_exact_to_the_record_in_every_codec() {
    on_every_machine("times", |place| {
        for codec in Codec::ALL {
            let _ = place.env.disk.remove_dir_all(&place.dir);
            let store = place.create(small_segments(1500), 0);
            for i in 0..60 {
                append(&store, &[batch_of(i * 5, 5, 1000 + i * 10, codec)]);
            }
            let (again, _) = place.open(small_segments(1500), Some(store.known()));
            for store in [&store, &again] {
                for (time, want) in [
                    (0, 0),
                    (1000, 0),
                    (1004, 4),
                    (1005, 5),
                    (1010, 5),
                    (1012, 7),
                    (1594, 299),
                ] {
                    let found = store
                        .offset_for_time(Timestamp(time), Offset::ZERO..Offset(300))
                        .unwrap();
                    assert_eq!(
                        found.map(|found| found.offset),
                        Some(Offset(want)),
                        "{codec} {time}"
                    );
                }
                assert_eq!(
                    store
                        .offset_for_time(Timestamp(1595), Offset::ZERO..Offset(300))
                        .unwrap(),
                    None
                );
                assert_eq!(
                    store
                        .offset_for_time(Timestamp(1594), Offset::ZERO..Offset(299))
                        .unwrap(),
                    None,
                    "above the bound"
                );
                let max = store.max_time().unwrap().unwrap();
                assert_eq!(
                    (max.timestamp, max.offset, max.leader_epoch),
                    (Timestamp(1594), Offset(299), LeaderEpoch(1))
                );
            }
        }
    });
}

#[test]
fn the_first_of_equal_or_disordered_times_is_found() {
    let place = TestDir::real("disorder");
    let store = place.create(
        LogConfig {
            index_interval_bytes: 0,
            ..LogConfig::default()
        },
        0,
    );
    for (at, time) in [50, 70, 70, 20, 90, 60].into_iter().enumerate() {
        append(&store, &[batch(at as i64, 1, time)]);
    }
    let find = |time| {
        store
            .offset_for_time(Timestamp(time), Offset::ZERO..Offset(6))
            .unwrap()
            .map(|found| found.offset.0)
    };
    assert_eq!(
        [find(10), find(51), find(70), find(71), find(91)],
        [Some(0), Some(1), Some(1), Some(4), None]
    );
    assert_eq!(store.max_time().unwrap().unwrap().offset, Offset(4));
}

/// A caller that trims knows of the new start before the files do.
#[test]
fn a_time_is_not_looked_for_below_the_bound() {
    let place = TestDir::real("time-from");
    let store = place.create(LogConfig::default(), 0);
    for at in 0..3 {
        append(&store, &[batch(at * 4, 4, 50)]);
    }
    let find = |from| {
        let found = store.offset_for_time(Timestamp(50), Offset(from)..Offset(12));
        found.unwrap().map(|found| found.offset.0)
    };
    assert_eq!(
        [find(0), find(4), find(6), find(11), find(12)],
        [Some(0), Some(4), Some(6), Some(11), None]
    );
}

#[test]
fn append_time_counts_where_the_log_sets_it() {
    let place = TestDir::real("append-time");
    let store = place.create(LogConfig::default(), 0);
    for at in 0..3 {
        let mut one = batch(at * 2, 2, 5);
        one.set_append_time(Timestamp(100 + at));
        append(&store, &[one]);
    }
    let found = store
        .offset_for_time(Timestamp(101), Offset::ZERO..Offset(6))
        .unwrap()
        .unwrap();
    assert_eq!((found.offset, found.timestamp), (Offset(2), Timestamp(101)));
}
