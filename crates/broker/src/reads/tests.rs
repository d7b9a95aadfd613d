//! Turns, bounds and the end of the reader pool.

use model::{InboxId, WaiterKey};
use partition::SearchTime;

use super::*;
use crate::event_loop::bench::{Bench, executed};

const TOPIC: &str = "t";

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.create(TOPIC, 1);
    bench
}

/// So many needs of the request with this key.
fn needs(bench: &mut Bench, key: u64, count: u32) -> Vec<(Need, Ticket)> {
    let partition = bench.partition(TOPIC, 0);
    let tickets = (0..count).map(|part| Ticket {
        inbox: InboxId(0),
        key: WaiterKey(key),
        part,
    });
    let needs = tickets.map(|ticket| (partition.plan_search(SearchTime::Largest), ticket));
    needs.collect()
}

fn keys(pool: &Arc<ReaderPool>) -> Vec<(u64, u32)> {
    let pieces = executed(pool).into_iter();
    let keys = pieces.map(|(ticket, _)| (ticket.key.0, ticket.part));
    keys.collect()
}

#[test]
fn needs_of_different_requests_take_turns() {
    let mut bench = bench();
    let pool = Arc::clone(&bench.shard.desk.shared.readers);
    for (key, count) in [(1, 3), (2, 1), (3, 2)] {
        assert!(pool.ask(needs(&mut bench, key, count)).is_ok());
    }
    let turns = [(1, 0), (2, 0), (3, 0), (1, 1), (3, 1), (1, 2)];
    assert_eq!(keys(&pool), turns);
}

#[test]
fn a_full_pool_gives_needs_back() {
    let mut bench = bench();
    let pool = Arc::clone(&bench.shard.desk.shared.readers);
    for key in 0..QUEUE_MAX as u64 {
        assert!(pool.ask(needs(&mut bench, key, 2)).is_ok());
    }
    let refused = pool.ask(needs(&mut bench, 1000, 2)).err();
    assert_eq!(refused.map(|needs| needs.len()), Some(2));
    assert_eq!(keys(&pool).len(), 2 * QUEUE_MAX);
    assert!(pool.ask(needs(&mut bench, 1000, 2)).is_ok());
}

#[test]
fn a_pool_that_closes_executes_what_it_took_and_takes_nothing_more() {
    let mut bench = bench();
    let pool = Arc::clone(&bench.shard.desk.shared.readers);
    assert!(pool.ask(needs(&mut bench, 1, 2)).is_ok());
    pool.close();
    assert_eq!(keys(&pool), [(1, 0), (1, 1)]);
    assert!(pool.ask(needs(&mut bench, 2, 1)).is_err());
}
