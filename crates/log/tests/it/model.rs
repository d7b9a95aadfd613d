//! Random work on a store beside a plain list of batches that says what must be there.

use super::*;

struct Checked {
    store: Store,
    batches: Vec<Batch>,
    start: i64,
    end: i64,
}

impl Checked {
    fn check(&self, place: &TestDir) {
        let rng = &place.env.rng;
        assert_eq!(self.store.log_end(), Offset(self.end));
        let span = (self.end - self.start) as u64;
        let from = self.start + (rng.next_u64() % (span + 1)) as i64;
        let upto = from + (rng.next_u64() % ((self.end - from) as u64 + 1)) as i64;
        let want: Vec<&Batch> = self
            .batches
            .iter()
            .filter(|batch| batch.last_offset().0 >= from && batch.next_offset().0 <= upto)
            .collect();
        let got = read_all(&self.store, from, upto, (rng.next_u64() % 3000) as usize);
        assert_eq!(
            got.iter().collect::<Vec<_>>(),
            want,
            "{from}..{upto} of {}..{}",
            self.start,
            self.end
        );
        let time = Timestamp((rng.next_u64() % 5000) as i64);
        // Times of a batch rise by one per record.
        let first = self.batches.iter().find_map(|batch| {
            let skip = (self.start - batch.base_offset().0)
                .max(0)
                .max(time.0 - batch.base_timestamp().0);
            let there =
                skip < i64::from(batch.record_count()) && batch.last_offset().0 >= self.start;
            there.then(|| batch.base_offset().0 + skip)
        });
        let found = self
            .store
            .offset_for_time(time, Offset::ZERO..Offset(self.end))
            .unwrap();
        assert_eq!(
            found.map(|found| found.offset.0),
            first,
            "time {time} in {}..{}",
            self.start,
            self.end
        );
    }
}

fn run(place: &TestDir, steps: usize) {
    let rng = Arc::clone(&place.env.rng);
    let below = |bound: u64| (rng.next_u64() % bound) as i64;
    let config = || small_segments(1200);
    let mut now = Checked {
        store: place.create(config(), 0),
        batches: Vec::new(),
        start: 0,
        end: 0,
    };
    for _ in 0..steps {
        match below(20) {
            0 => {
                now.store.roll(NOW).unwrap();
            }
            1 => {
                let to = now.start + below((now.end - now.start) as u64 + 1);
                let end = now.store.truncate_to(Offset(to)).unwrap().0;
                now.batches.retain(|batch| batch.next_offset().0 <= to);
                let last = now.batches.last().map(|batch| batch.next_offset().0);
                assert_eq!(end, last.filter(|_| end > now.start).unwrap_or(end));
                (now.start, now.end) = (now.start.min(end), end);
            }
            2 => {
                let upto = now.start + below((now.end - now.start) as u64 + 1);
                let deleted = now.store.retire(Offset(upto), NOW).unwrap();
                now.store.unlink(&deleted).unwrap();
                now.start = now.start.max(now.store.local_start().0);
                assert!(now.start <= upto, "nothing above the bound goes");
            }
            3 => {
                now.store.sync().unwrap();
                now.store.write_indexes().unwrap();
            }
            4 => {
                let known = now.store.known();
                let (store, found) = place.open(config(), Some(known));
                assert!(!found.known_is_stale && found.uncut_bytes == 0);
                now.store = store;
            }
            5 => {
                let (store, found) = place.open(config(), None);
                assert_eq!(found.damage, None);
                store.advance_local_start(Offset(now.start));
                // An end behind the last batch is known to a checkpoint alone.
                let end = store.log_end().0;
                assert!(end <= now.end);
                (now.store, now.end) = (store, end);
                now.start = now.start.min(end);
            }
            _ => {
                let mut more = Vec::new();
                for _ in 0..=below(4) {
                    let count = 1 + below(6);
                    more.push(batch(now.end, count as usize, below(5000)));
                    now.end += count;
                }
                append(&now.store, &more);
                now.batches.extend(more);
            }
        }
        now.check(place);
    }
    now.store
        .verify(now.store.local_start(), now.store.log_end())
        .unwrap();
}

#[test]
fn random_work_leaves_exactly_what_a_list_would_hold() {
    for seed in 0..60 {
        run(&TestDir::simulated(seed), 200);
    }
    run(&TestDir::real("model"), 200);
}
