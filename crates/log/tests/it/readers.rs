//! Readers beside a writer that appends, rolls, retires and truncates: they see whole batches in order, from where they asked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use log::ReadError;

use super::*;

const APPENDS: i64 = 2000;

struct Shared {
    store: Store,
    done: AtomicBool,
    read: AtomicU64,
    refused: AtomicU64,
    /// The log only grows at its end, so bytes that were seen stay.
    grows: bool,
}

impl Shared {
    /// A slice may be cut and written over while it is read; whatever is whole in it counts.
    fn count_whole(&self, bytes: &bytes::Bytes, from: Offset) -> Offset {
        let whole = Batch::cut(bytes, Source::Log).map_while(Result::ok);
        let last = whole.inspect(|_| {
            self.read.fetch_add(1, Ordering::Relaxed);
        });
        last.last()
            .map_or(from, |batch| batch.next_offset().max(from))
    }

    /// Reads from `from` to what the log end was before; gives where to go on.
    fn read_on(&self, from: Offset, bytes_max: usize) -> Offset {
        let end = self.store.log_end();
        match self.store.read(from, end, bytes_max) {
            Ok(Read::AtEnd) => from,
            Ok(Read::Slice(slice)) => {
                let bytes = slice.read().unwrap();
                if !self.grows {
                    return self.count_whole(&bytes, from);
                }
                let mut next = from;
                for batch in Batch::cut(&bytes, Source::Log) {
                    let batch = batch.expect("bytes below the log end verify");
                    assert!(
                        batch.base_offset() <= next && next <= batch.last_offset(),
                        "follows {next}"
                    );
                    assert!(batch.next_offset() <= end, "nothing above the bound");
                    assert_eq!(
                        batch.base_timestamp().0,
                        batch.base_offset().0,
                        "the batch of this offset"
                    );
                    next = batch.next_offset();
                    self.read.fetch_add(1, Ordering::Relaxed);
                }
                assert!(next > from, "at least one whole batch");
                next
            }
            Err(ReadError::OutOfRange {
                local_start,
                log_end,
                ..
            }) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                assert!(
                    !self.grows || from < local_start || from >= log_end.min(end),
                    "{from} is in {local_start}..{log_end}"
                );
                local_start
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn run(truncates: bool) -> (TestDir, Shared) {
    let place = TestDir::real("readers");
    let shared = Shared {
        store: place.create(small_segments(3000), 0),
        done: AtomicBool::new(false),
        read: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        grows: !truncates,
    };
    // Real threads on the real disk: what is tested is what they see of each other.
    #[allow(clippy::disallowed_methods)]
    std::thread::scope(|scope| {
        for bytes_max in [1, 900, 1 << 20] {
            let shared = &shared;
            scope.spawn(move || {
                let mut next = Offset(0);
                while !shared.done.load(Ordering::Relaxed) {
                    next = shared.read_on(next, bytes_max);
                    if next > shared.store.log_end() || bytes_max == 900 && next.0 % 1000 > 990 {
                        next = shared.store.local_start();
                    }
                    if bytes_max == 1 {
                        let _ = shared
                            .store
                            .offset_for_time(Timestamp(next.0 - 5), Offset::ZERO..next)
                            .map(|found| {
                                assert!(
                                    !shared.grows
                                        || found
                                            .is_none_or(|found| found.timestamp.0 >= next.0 - 5)
                                );
                            });
                    }
                }
            });
        }
        let store = &shared.store;
        for step in 0..APPENDS {
            let end = store.log_end().0;
            append(store, &[batch(end, 2, end), batch(end + 2, 3, end + 2)]);
            if step % 50 == 49 {
                let deleted = store.retire(Offset(end - 300), NOW).unwrap();
                store.unlink(&deleted).unwrap();
            }
            if step % 90 == 89 {
                store.sync().unwrap();
            }
            if truncates && step % 120 == 119 {
                store.truncate_to(Offset(end - 40)).unwrap();
            }
        }
        shared.done.store(true, Ordering::Relaxed);
    });
    (place, shared)
}

#[test]
fn readers_beside_a_writer_see_whole_batches_in_order() {
    let (_place, shared) = run(false);
    assert_eq!(shared.store.log_end(), Offset(APPENDS * 5));
    let (read, refused) = (shared.read.into_inner(), shared.refused.into_inner());
    assert!(read > 1000, "{read} batches read, {refused} reads refused");
}

#[test]
fn a_truncation_looks_like_an_end_and_not_like_damage() {
    let (_place, shared) = run(true);
    let end = shared.store.log_end();
    shared
        .store
        .verify(shared.store.local_start(), end)
        .unwrap();
    assert!(shared.read.into_inner() > 1000);
}
