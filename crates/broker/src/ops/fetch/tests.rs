//! How often a fetch plans, what it keeps while it waits, and that the pieces it gathers are right.

use std::net::SocketAddr;
use std::time::Duration;

use super::*;
use crate::event_loop::bench::{Bench, executed};

const COLD: &str = "cold";
const HOT: &str = "hot";

/// A broker with a topic in files that nobody has looked at since its start, and one whose records are in memory.
fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.create(COLD, 1);
    for number in 0..20 {
        bench.append(COLD, &[number; 100]);
    }
    // The first start brings records from the journal to files; for the second they are old.
    let mut bench = bench.restart().restart();
    bench.create(HOT, 1);
    bench.append(HOT, b"here it is");
    bench
}

/// A fetch at the desk of a shard.
struct Run {
    bench: Bench,
    fetching: Fetching,
    readers: Readers,
}

const KEY: WaiterKey = WaiterKey(7);

impl Run {
    fn new(mut bench: Bench, topics: &[(&str, i64)], bytes_min: usize) -> Run {
        let desk = &mut bench.shard.desk;
        let terms = Terms {
            kind: Kind::Consumer,
            scope: Scope::of_leader(Isolation::Uncommitted),
            bytes_min,
            bytes_max: 1 << 20,
            near: Vec::new(),
            deadline: desk.now.plus(Duration::from_secs(1)),
        };
        let wanted = topics.iter().map(|(topic, from)| Wanted {
            topic_id: Uuid::ZERO,
            topic,
            index: 0,
            from: Offset(*from),
            bytes_max: 1 << 20,
            current_epoch: LeaderEpoch::NONE,
        });
        let here = SocketAddr::from(([127, 0, 0, 1], 9092));
        let asker = Asker::anonymous(here, here);
        Run {
            fetching: Fetching::new(desk, &asker, wanted, terms),
            bench,
            readers: Readers::default(),
        }
    }

    fn advance(&mut self) -> Progress {
        let client = Client {
            readers: Some(&mut self.readers),
            memory_max: usize::MAX,
        };
        self.fetching.advance(&self.bench.shard.desk, KEY, client)
    }

    /// The pieces that it waits for come.
    fn gather(&mut self) -> Progress {
        for (ticket, piece) in executed(&self.bench.shard.desk.shared.readers) {
            assert_eq!(ticket.key, KEY);
            self.fetching.put(ticket.part, piece);
        }
        self.advance()
    }

    /// Those of its partitions have more that the shard would report to it.
    fn hear(&mut self) -> Progress {
        let readable = self.bench.take_readable();
        assert!(readable.iter().all(|ticket| ticket.key == KEY));
        (self.fetching).on_readable(readable.iter().map(|ticket| ticket.part));
        self.advance()
    }

    fn sizes(self) -> Vec<Option<usize>> {
        let results = self.fetching.into_results().map(|fetched| fetched.result);
        let sizes = results.map(|result| result.ok().map(|read| read.records.len()));
        sizes.collect()
    }
}

#[test]
fn a_cold_fetch_plans_once() {
    let mut run = Run::new(bench(), &[(COLD, 3)], 1);
    assert_eq!(run.advance(), Progress::Gathers, "nobody has verified it");
    assert_eq!(run.gather(), Progress::Whole);
    assert_eq!(run.fetching.plans_count, 1);
    let size = crate::event_loop::bench::batch(&[0; 100]).len();
    assert_eq!(run.sizes(), [Some(17 * size)]);
}

#[test]
fn a_fetch_that_the_reader_pool_does_not_take_reads_for_itself_and_plans_once() {
    let bench = bench();
    bench.shard.desk.shared.readers.close();
    executed(&bench.shard.desk.shared.readers);
    let mut run = Run::new(bench, &[(COLD, 0), (HOT, 0)], 1);
    assert_eq!(run.advance(), Progress::Whole);
    assert_eq!(run.fetching.plans_count, 2, "two partitions");
    assert!(
        run.sizes()
            .iter()
            .all(|size| size.is_some_and(|size| size > 0))
    );
}

#[test]
fn records_in_memory_count_while_others_are_on_their_way_and_not_while_the_fetch_watches() {
    let mut run = Run::new(bench(), &[(HOT, 0), (COLD, 0)], 1 << 20);
    assert_eq!(run.advance(), Progress::Gathers);
    let size = crate::event_loop::bench::batch(b"here it is").len();
    assert_eq!(run.fetching.memory(), size);
    assert_eq!(run.gather(), Progress::Watches, "it wants more");
    assert_eq!(run.fetching.memory(), 0);
    // When its time is up it has both.
    run.bench.shard.desk.now = run.fetching.deadline();
    run.fetching.on_deadline();
    assert_eq!(run.advance(), Progress::Whole);
    assert_eq!(run.fetching.memory(), size);
    assert!(
        run.sizes()
            .iter()
            .all(|size| size.is_some_and(|size| size > 0))
    );
}

#[test]
fn a_fetch_that_is_woken_plans_the_partitions_that_changed() {
    let mut bench = Bench::new();
    let topics = ["a", "b", "c"];
    topics.iter().for_each(|topic| bench.create(topic, 1));
    let mut run = Run::new(bench, &topics.map(|topic| (topic, 0)), 1000);
    assert_eq!(run.advance(), Progress::Watches);
    assert_eq!(run.fetching.plans_count, 3);
    run.bench.append_undurably("b", b"too little");
    assert_eq!(run.hear(), Progress::Watches);
    assert_eq!(run.fetching.plans_count, 4, "one has changed");
    run.bench.append_undurably("c", &[7; 1000]);
    assert_eq!(run.hear(), Progress::Whole);
    // It had let go of the records of the other one.
    assert_eq!(run.fetching.plans_count, 6);
    let sizes = run.sizes();
    assert_eq!(sizes[0], Some(0));
    assert!(
        sizes[1..]
            .iter()
            .all(|size| size.is_some_and(|size| size > 0))
    );
}

#[test]
fn a_fetch_that_found_too_little_between_plan_and_watch_plans_that_partition_again() {
    let mut bench = Bench::new();
    bench.create(HOT, 1);
    let mut run = Run::new(bench, &[(HOT, 0)], 1000);
    let needs = run.fetching.plan(usize::MAX, false);
    assert!(needs.is_empty());
    run.bench.append(HOT, b"too little");
    assert!(!run.fetching.watch(&run.bench.shard.desk, KEY));
    assert_eq!(run.advance(), Progress::Watches);
    assert_eq!(run.fetching.plans_count, 2);
    run.bench.append_undurably(HOT, &[7; 1000]);
    assert_eq!(run.hear(), Progress::Whole);
}

#[test]
fn a_partition_that_is_deleted_while_its_bytes_are_verified_is_reported_and_the_others_are_served()
{
    let mut run = Run::new(bench(), &[(COLD, 0), (HOT, 0)], 1);
    assert_eq!(run.advance(), Progress::Gathers);
    run.bench.partition(COLD, 0).delete(&mut Vec::new());
    assert_eq!(run.gather(), Progress::Whole);
    let mut results = run.fetching.into_results().map(|fetched| fetched.result);
    let deleted = results.next();
    assert!(matches!(
        deleted,
        Some(Err(Refused::Because(FetchRefusal::Read(
            ReadError::Deleted
        ))))
    ));
    assert!(results.next().is_some_and(|read| read.is_ok()));
}

#[test]
fn bytes_that_rotted_are_reported_at_once() {
    let bench = bench();
    bench.rot("/data/cold-0/00000000000000000000.log", 70);
    let mut run = Run::new(bench, &[(COLD, 0), (HOT, 0)], 1 << 20);
    assert_eq!(run.advance(), Progress::Gathers);
    assert_eq!(
        run.gather(),
        Progress::Whole,
        "an error does not wait for more"
    );
    assert_eq!(run.fetching.plans_count, 2);
    let sizes = run.sizes();
    assert_eq!(sizes[0], None);
    assert!(sizes[1].is_some_and(|size| size > 0));
}

#[test]
fn a_fetch_that_would_watch_is_dropped_by_a_stop() {
    let mut run = Run::new(bench(), &[(HOT, 1)], 1);
    run.bench.begin_stop();
    assert_eq!(run.advance(), Progress::Dropped);
    // One that has enough is answered, though its bytes are cold.
    let mut run = Run::new(run.bench, &[(COLD, 0)], 1);
    assert_eq!(run.advance(), Progress::Gathers);
    assert_eq!(run.gather(), Progress::Whole);
}

#[test]
fn a_fetch_that_is_over_watches_nothing() {
    let mut run = Run::new(bench(), &[(HOT, 1)], 1);
    assert_eq!(run.advance(), Progress::Watches);
    run.fetching.unwatch(run.bench.shard.desk.inbox, KEY);
    run.bench.append_undurably(HOT, b"more");
    assert_eq!(run.bench.take_readable(), []);
}
