//! A volume without room: the write is refused, nothing before it suffers, and it succeeds when there is room again.

use log::StoreError;
use log::store::Deleted;

use super::*;

#[test]
fn a_full_disk_refuses_a_write_and_takes_it_when_there_is_room() {
    let mut refused = 0;
    for (room, preallocate) in (0..60_000)
        .step_by(700)
        .flat_map(|room| [(room, false), (room, true)])
    {
        let config = || LogConfig {
            preallocate,
            ..small_segments(9000)
        };
        let place = TestDir::simulated(room);
        let machine = place.machine.as_ref().unwrap();
        let store = place.create(config(), 0);
        let batches: Vec<Batch> = (0..400).map(|i| batch(i * 2, 2, i)).collect();
        machine.faults(|faults| faults.disk_bytes = room);
        for run in batches.chunks(7) {
            if let Err(error) = store.append(run, NOW) {
                assert!(error.is_full(), "{error}");
                let end = store.log_end();
                assert_eq!(
                    read_all(&store, 0, end.0, 5000),
                    batches[..(end.0 / 2) as usize]
                );
                machine.faults(|faults| faults.disk_bytes = 1 << 30);
                let rest = run.partition_point(|batch| batch.next_offset() <= end);
                store.append(&run[rest..], NOW).unwrap();
                refused += 1;
            }
        }
        store.sync().unwrap();
        assert_eq!(
            read_all(&store, 0, 800, 5000),
            batches,
            "room {room}, {preallocate}"
        );
        drop(store);
        let (store, found) = place.open(config(), None);
        assert_eq!((found.damage, found.log_end), (None, Offset(800)));
        assert_eq!(
            read_all(&store, 0, 800, 5000),
            batches,
            "room {room}, {preallocate}"
        );
    }
    assert!(refused > 40, "{refused} writes were refused");
}

#[test]
fn any_other_failed_write_ends_the_store() {
    let place = TestDir::simulated(1);
    let machine = place.machine.as_ref().unwrap();
    let store = place.create(small_segments(9000), 0);
    append(&store, &[batch(0, 2, 0)]);
    let next = machine.counts().writes + 1;
    machine.faults(|faults| faults.write_fails_at = Some(next));
    assert!(matches!(
        store.append(&[batch(2, 2, 0)], NOW),
        Err(StoreError::Io { .. })
    ));
    assert!(matches!(
        store.append(&[batch(2, 2, 0)], NOW),
        Err(StoreError::Offline { .. })
    ));
}

/// Retention rolls a log whose records are all too old, and what comes next may go to the old segment all the same.
#[test]
fn a_segment_that_could_not_be_rolled_knows_of_what_it_takes_afterwards() {
    let mut refused = 0;
    for nth in 1..8 {
        let place = TestDir::simulated(nth);
        let machine = place.machine.as_ref().unwrap();
        let store = place.create(small_segments(1 << 20), 0);
        append(&store, &(0..20).map(|i| batch(i, 1, i)).collect::<Vec<_>>());
        let at = machine.counts().opens + nth;
        machine.faults(|faults| faults.opens_fail = at..at + 1);
        let Err(error) = store.roll(NOW) else {
            continue;
        };
        assert!(error.is_full(), "{error}");
        refused += 1;
        machine.faults(|faults| faults.opens_fail = 0..0);
        let late: Vec<Batch> = (20..40).map(|i| batch(i, 1, 9000 + i)).collect();
        append(&store, &late);
        store.roll(NOW).unwrap();
        store.sync().unwrap();
        let known = store.known();
        drop(store);
        let (store, _) = place.open(small_segments(1 << 20), Some(known));
        let segment = &store.segments()[0];
        let newest = segment.max_time().unwrap().unwrap();
        assert_eq!(newest.timestamp, Timestamp(9039), "{nth}");
        assert_eq!(read_all(&store, 20, 40, 1 << 20), late);
    }
    assert!(refused > 1, "{refused} rolls were refused");
}

#[test]
fn segments_whose_names_a_full_disk_keeps_go_at_the_next_try() {
    let mut stopped = 0;
    for fails in 1..1000 {
        let place = TestDir::simulated(1);
        let machine = place.machine.as_ref().unwrap();
        let store = place.create(small_segments(500), 0);
        append(&store, &hundred_batches());
        store.sync().unwrap();
        let at = machine.counts().names + fails;
        machine.faults(|faults| faults.names_fail = at..at + 1);
        let first = store.retire(Offset(300), NOW);
        if machine.counts().names_refused_full == 0 {
            break;
        }
        stopped += 1;
        // The last segment goes too, so it is sealed before any goes.
        let (first, is_sealed) = match first {
            Ok(deleted) => (deleted, true),
            Err(error) => (
                Deleted {
                    stopped_by: Some(error),
                    ..Deleted::default()
                },
                false,
            ),
        };
        assert!(first.stopped_by.as_ref().is_some_and(StoreError::is_full));
        assert_eq!(store.has_spent(), is_sealed);
        assert_eq!(store.local_start(), Offset(if is_sealed { 300 } else { 0 }));
        let rest = store.retire(Offset(300), NOW).unwrap();
        assert!(rest.stopped_by.is_none() && !store.has_spent());
        store.unlink(&first).unwrap();
        store.unlink(&rest).unwrap();
        append(&store, &[batch(300, 2, 0)]);
        let left = place.names();
        let is_kept = |name: &String| name.starts_with("00000000000000000300.");
        assert!(left.iter().all(is_kept), "{fails}: {left:?}");
        assert_eq!(read_all(&store, 300, 302, 5000).len(), 1);
    }
    assert!(stopped > 20, "{stopped} names were kept");
}
