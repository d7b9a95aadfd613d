//! Blocks reserved ahead of growing segments: seen by the volume only, and given back.

use super::*;

const SEGMENT: u64 = 1 << 20;

/// Bytes of the volume that segment files take.
#[allow(clippy::disallowed_methods)] // blocks are no part of what a disk reports
pub(super) fn taken(place: &TestDir) -> u64 {
    match &place.machine {
        Some(_) => {
            let space = place.env.disk.space(&place.dir).unwrap();
            space.total - space.available
        }
        None => std::fs::read_dir(&place.dir)
            .unwrap()
            .map(|entry| {
                let metadata = entry.unwrap().metadata().unwrap();
                std::os::unix::fs::MetadataExt::blocks(&metadata) * 512
            })
            .sum(),
    }
}

/// Appends batches until the log holds `bytes`; returns how many there are now.
pub(super) fn fill(store: &Store, mut next: i64, bytes: u64) -> i64 {
    while store.size() < bytes {
        append(store, &[batch(next, 20, next)]);
        next += 20;
    }
    next
}

/// Bytes that a file system may take for indexes and for itself.
pub(super) const SLACK: u64 = 40 << 10;

#[test]
fn a_small_segment_reserves_nothing_and_a_growing_one_its_own_size_at_most() {
    on_every_machine("reserve-steps", |place| {
        let store = place.create(small_segments(SEGMENT), 0);
        let mut next = fill(&store, 0, SEGMENT / 5);
        store.sync().unwrap();
        assert!(taken(place) <= store.size() + SLACK, "a small segment");
        let mut reserved_most = 0;
        for part in 3..10 {
            next = fill(&store, next, SEGMENT * part / 10);
            store.sync().unwrap();
            let (taken, size) = (taken(place), store.size());
            reserved_most = reserved_most.max(taken.saturating_sub(size));
            assert!(taken <= 2 * size + SLACK, "{taken} for {size}");
            assert!(taken <= SEGMENT + SLACK, "never beyond the segment");
        }
        assert!(reserved_most > SEGMENT / 10, "{reserved_most}");
        assert_eq!(
            store.known().active_len,
            store.size(),
            "lengths are those of the bytes"
        );
    });
}

#[test]
fn what_was_reserved_is_given_back_when_idle_at_a_roll_and_when_asked() {
    on_every_machine("reserve-trim", |place| {
        let store = place.create(small_segments(SEGMENT), 0);
        let mut next = fill(&store, 0, SEGMENT * 2 / 5);
        store.sync().unwrap();
        let ahead = |place: &TestDir| taken(place).saturating_sub(store.size());
        assert!(ahead(place) > SLACK);
        store.trim_idle();
        assert!(ahead(place) > SLACK, "appended since the last look");
        store.trim_idle();
        store.sync().unwrap();
        assert!(ahead(place) <= SLACK, "idle");

        next = fill(&store, next, SEGMENT * 5 / 10);
        store.sync().unwrap();
        assert!(ahead(place) > SLACK, "it grows again");
        store.roll(NOW).unwrap();
        store.sync().unwrap();
        assert!(ahead(place) <= SLACK, "sealed");

        next = fill(&store, next, SEGMENT * 9 / 10);
        store.sync().unwrap();
        assert!(ahead(place) > SLACK, "the next segment");
        store.trim();
        store.sync().unwrap();
        assert!(ahead(place) <= SLACK, "given back");
        next = fill(&store, next, SEGMENT);
        store.sync().unwrap();
        assert!(ahead(place) <= SLACK, "and not taken again");

        let written = read_all(&store, 0, next, 5000);
        assert_eq!(written.len() as i64 * 20, next);
        drop(store);
        let (store, found) = place.open(small_segments(SEGMENT), None);
        assert!(found.is_clean() && found.damage.is_none());
        assert_eq!(read_all(&store, 0, next, 5000), written);
    });
}

#[test]
fn a_disk_without_room_to_reserve_takes_the_bytes_all_the_same() {
    let place = TestDir::simulated(1);
    let machine = place.machine.as_ref().unwrap();
    let store = place.create(small_segments(SEGMENT), 0);
    machine.faults(|faults| faults.disk_bytes = SEGMENT * 13 / 20);
    let next = fill(&store, 0, SEGMENT * 3 / 5);
    assert!(
        machine.counts().writes_refused_full > 0,
        "a step was refused"
    );
    assert_eq!(read_all(&store, 0, next, 5000).len() as i64 * 20, next);
}
