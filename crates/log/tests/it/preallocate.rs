//! `preallocate`: the room of a segment is taken when it is begun, and what counts as its length is what was written.

use super::reserve::{SLACK, fill, taken};
use super::*;

const SEGMENT: u64 = 1 << 20;

fn preallocated() -> LogConfig {
    LogConfig {
        preallocate: true,
        ..small_segments(SEGMENT)
    }
}

/// Lengths of the segment files.
fn lens(place: &TestDir) -> Vec<u64> {
    let entries = place.env.disk.read_dir(&place.dir).unwrap();
    let logs = entries.iter().filter(|entry| entry.name.ends_with(".log"));
    logs.map(|entry| entry.len).collect()
}

#[test]
fn the_room_of_a_segment_is_taken_when_it_is_begun_and_given_back_when_it_is_closed() {
    on_every_machine("preallocate", |place| {
        let store = place.create(preallocated(), 0);
        store.sync().unwrap();
        assert!(taken(place) >= SEGMENT, "at creation");
        assert_eq!(lens(place), [0]);

        let mut next = fill(&store, 0, SEGMENT / 8);
        store.sync().unwrap();
        assert!((SEGMENT..=SEGMENT + SLACK).contains(&taken(place)));
        store.trim_idle();
        store.trim_idle();
        assert!(taken(place) >= SEGMENT, "however long it rests");

        let first = store.size();
        store.roll(NOW).unwrap();
        next = fill(&store, next, SEGMENT / 4);
        store.sync().unwrap();
        let whole = SEGMENT + first;
        assert!((whole..=whole + SLACK).contains(&taken(place)), "rolled");
        assert_eq!(lens(place), [first, store.size() - first]);

        store.trim();
        store.sync().unwrap();
        assert!(taken(place) <= store.size() + SLACK, "a clean stop");
        let known = store.known();
        let written = read_all(&store, 0, next, 5000);
        drop(store);
        let (store, found) = place.open(preallocated(), Some(known));
        assert!(found.is_clean() && found.damage.is_none());
        assert_eq!(read_all(&store, 0, next, 5000), written);
    });
}

#[test]
fn what_was_preallocated_is_no_part_of_the_log_after_a_crash() {
    on_every_machine("preallocate-crash", |place| {
        let store = place.create(preallocated(), 0);
        let next = fill(&store, 0, SEGMENT / 8);
        let (size, written) = (store.size(), read_all(&store, 0, next, 5000));
        drop(store);
        assert_eq!(lens(place), [size]);
        let (store, found) = place.open(preallocated(), None);
        assert!(found.is_clean() && found.damage.is_none());
        assert_eq!((store.log_end(), store.size()), (Offset(next), size));
        assert_eq!(read_all(&store, 0, next, 5000), written);
        let next = fill(&store, next, SEGMENT / 4);
        store.roll(NOW).unwrap();
        assert_eq!(lens(place), [store.size(), 0]);
        assert_eq!(read_all(&store, 0, next, 5000).len() as i64 * 20, next);
    });
}

/// Room that is asked for ahead is a wish: a disk that has less takes the records as long as they fit.
#[test]
fn a_disk_without_room_to_preallocate_takes_the_bytes_all_the_same() {
    let place = TestDir::simulated(1);
    let machine = place.machine.as_ref().unwrap();
    machine.faults(|faults| faults.disk_bytes = SEGMENT / 2);
    let store = place.create(preallocated(), 0);
    assert!(machine.counts().writes_refused_full > 0, "it was asked for");
    let next = fill(&store, 0, SEGMENT / 4);
    store.roll(NOW).unwrap();
    let next = fill(&store, next, SEGMENT * 3 / 8);
    assert_eq!(read_all(&store, 0, next, 5000).len() as i64 * 20, next);
}
