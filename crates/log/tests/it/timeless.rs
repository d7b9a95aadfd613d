//! Segments whose records have no time: they are as old as their files, also after a restart.

use std::io::IoSlice;
use std::path::Path;

use env::disk::Open;
use log::store::Reason;

use super::*;

const HOUR: i64 = 3_600_000;

fn kept_an_hour() -> LogConfig {
    LogConfig {
        retention_ms: Some(HOUR),
        ..small_segments(600)
    }
}

fn age(place: &TestDir, path: &Path, to: i64) {
    let file = place.env.disk.open(path, Open::Write).unwrap();
    file.set_modified_ms(to).unwrap();
}

/// Bases of the segments that are past retention at `now`.
fn expired(store: &Store, now: i64) -> Vec<i64> {
    let old = store.retirable(Timestamp(now), store.log_end()).unwrap();
    assert!(old.iter().all(|retire| retire.reason == Reason::Time));
    old.iter().map(|retire| retire.base.0).collect()
}

#[test]
fn segments_of_records_without_a_time_expire_by_the_time_of_their_files() {
    on_every_machine("timeless", |place| {
        let store = place.create(kept_an_hour(), 0);
        (0..40).for_each(|at| append(&store, &[batch(at, 1, -1)]));
        store.sync().unwrap();
        let bases: Vec<i64> = store.segments().iter().map(|of| of.base().0).collect();
        assert!(bases.len() > 4, "{bases:?}");
        let now = place.env.clock.wall_ms().0;
        let check = |store: &Store| {
            assert_eq!(expired(store, now), [], "all are new");
            assert_eq!(expired(store, now + HOUR / 2), []);
            assert_eq!(expired(store, now + 2 * HOUR), bases);
        };
        check(&store);
        drop(store);
        let (store, _) = place.open(kept_an_hour(), None);
        check(&store);

        let segments = store.segments();
        for segment in &segments[..2] {
            age(place, &segment.path("log"), now - HOUR - 60_000);
        }
        assert_eq!(expired(&store, now), bases[..2]);
        assert_eq!(expired(&store, now - 2 * 60_000), []);
        let deleted = store.retire(segments[2].base(), Timestamp(now)).unwrap();
        store.unlink(&deleted).unwrap();
        let left = read_all(&store, bases[2], 40, 5000);
        assert_eq!(left.len() as i64, 40 - bases[2]);
    });
}

/// Found by the simulator: zeroed bytes were a time of 1970, and retention took all that follows.
#[test]
fn a_time_that_damage_made_takes_no_segment() {
    on_every_machine("timeless-damaged", |place| {
        let now = place.env.clock.wall_ms().0;
        let config = || LogConfig {
            segment_bytes: 1 << 20,
            ..kept_an_hour()
        };
        let store = place.create(config(), 0);
        (0..10).for_each(|at| append(&store, &[batch(at, 1, now)]));
        store.sync().unwrap();
        let known = store.known();
        let path = store.segments()[0].path("log");
        drop(store);
        let file = place.env.disk.open(&path, Open::Write).unwrap();
        // From the largest time of the first batch into the head of the second.
        let zeros = vec![0; batch(0, 1, now).size()];
        file.write_at(&[IoSlice::new(&zeros)], 35).unwrap();

        let (store, _) = place.open(config(), Some(known));
        let check = |store: &Store, what: &str| {
            assert_eq!(expired(store, now + HOUR / 2), [], "{what}");
            assert_eq!(expired(store, now + HOUR / 2), [], "{what}, again");
            assert_eq!(expired(store, now + 2 * HOUR)[..1], [0], "{what}");
        };
        check(&store, "active");
        store.roll(Timestamp(now)).unwrap();
        append(&store, &[batch(10, 1, now)]);
        store.sync().unwrap();
        check(&store, "sealed");
        let known = store.known();
        drop(store);
        for start in 1..3 {
            let (store, _) = place.open(config(), Some(known));
            check(&store, &format!("start {start}"));
        }
    });
}

/// One record with a time says how old its segment is, whatever the file says.
#[test]
fn a_time_of_a_record_comes_before_that_of_its_file() {
    on_every_machine("timeless-mixed", |place| {
        let store = place.create(kept_an_hour(), 0);
        let now = place.env.clock.wall_ms().0;
        append(&store, &[batch(0, 1, -1)]);
        append(&store, &[batch(1, 1, now - 2 * HOUR)]);
        append(&store, &[batch(2, 1, -1)]);
        store.roll(Timestamp(now)).unwrap();
        append(&store, &[batch(3, 1, -1), batch(4, 1, now)]);
        store.roll(Timestamp(now)).unwrap();
        append(&store, &[batch(5, 1, now)]);
        age(place, &store.segments()[1].path("log"), 0);
        assert_eq!(expired(&store, now), [0]);
        drop(store);
        let (store, _) = place.open(kept_an_hour(), None);
        age(place, &store.segments()[0].path("log"), now);
        assert_eq!(expired(&store, now), [0]);
    });
}
