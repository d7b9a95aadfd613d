//! Where a reader goes on that met a batch which does not verify.

use std::io::IoSlice;

use env::disk::Open;

use super::*;

/// Changes a byte so far behind the begin of the batch that holds `offset`.
fn rot(place: &TestDir, store: &Store, offset: i64, behind: u64) {
    let segments = store.segments();
    let mut holders = segments.iter().rev();
    let segment = holders.find(|of| of.base() <= Offset(offset)).unwrap();
    let found = segment
        .find(Offset(offset), segment.len())
        .unwrap()
        .unwrap();
    let file = place
        .env
        .disk
        .open(&segment.path("log"), Open::Write)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, found.position + behind)
        .unwrap();
    byte[0] ^= 0x40;
    file.write_at(&[IoSlice::new(&byte)], found.position + behind)
        .unwrap();
}

#[test]
fn behind_rot_the_next_good_offset_is_found() {
    // In the records, in the version, in the length.
    for behind in [70, 16, 9] {
        on_every_machine("next-good", |place| {
            let store = place.create(small_segments(900), 0);
            (0..20).for_each(|at| append(&store, &[batch(at * 2, 2, 1000 + at)]));
            store.sync().unwrap();
            let last_of_first = store.segments()[1].base().0 - 2;
            assert!(last_of_first > 6);
            let known = store.known();
            // Between several heads that are damaged nothing is found.
            let is_in_records = behind == 70;
            rot(place, &store, 2, behind);
            if is_in_records {
                rot(place, &store, 4, behind);
                rot(place, &store, last_of_first, behind);
            }
            drop(store);
            let (store, _) = place.open(small_segments(900), Some(known));
            let end = store.log_end();
            let next = |at| store.next_good(Offset(at), end).unwrap().map(|at| at.0);
            assert_eq!(next(0), Some(0), "{behind}");
            if is_in_records {
                assert_eq!(next(2), Some(6));
                assert_eq!(next(4), Some(6));
                assert_eq!(next(last_of_first), Some(last_of_first + 2));
            } else {
                assert_eq!(next(2), Some(4), "{behind}");
            }
            assert!(store.read(Offset(2), end, 1).is_err());
            let read = read_all(&store, 6, last_of_first, 5000);
            assert_eq!(read[0].base_offset(), Offset(6));
            assert_eq!(store.next_good(Offset(38), end).unwrap(), Some(Offset(38)));
            assert_eq!(store.next_good(end, end).unwrap(), None);
        });
    }
}

/// No checksum covers a base offset: one that rotted names offsets that are of other segments, or that are none.
#[test]
fn nothing_is_behind_damage_but_what_the_segment_may_have() {
    on_every_machine("behind-damage", |place| {
        let store = place.create(small_segments(900), 0);
        (0..20).for_each(|at| append(&store, &[batch(at * 2, 2, 1000 + at)]));
        store.sync().unwrap();
        let known = store.known();
        let next_base = store.segments()[1].base();
        let last = next_base.0 - 2;
        rot(place, &store, last, 0);
        rot(place, &store, last - 2, 70);
        drop(store);
        let (store, _) = place.open(small_segments(900), Some(known));
        let from = Offset(last - 2);
        let Err(log::ReadError::Damaged { base, damage }) = store.verify(from, store.log_end())
        else {
            panic!("the records of {from} rotted");
        };
        assert_eq!(store.behind(base, damage, from).unwrap(), Some(next_base));
    });
}
