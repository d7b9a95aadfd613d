//! Two sessions with one leader, which a test answers.

use model::PartitionIndex;
use wire::Uuid;

use super::*;

const EPOCH: LeaderEpoch = LeaderEpoch(3);
const TERMS: Terms = Terms {
    wait_max: Duration::from_millis(500),
    bytes_max: 10 << 20,
    partition_bytes_max: 1 << 20,
    backoff: Duration::from_secs(1),
};

fn key(index: i32) -> Key {
    (Uuid([7; 16]), PartitionIndex(index))
}

fn at(end: i64, synced: i64) -> Point {
    Point {
        end: Offset(end),
        last_epoch: EPOCH,
        log_start: Offset(0),
        synced: Offset(synced),
    }
}

fn millis(millis: u64) -> Instant {
    Instant(millis * 1_000_000)
}

fn answer() -> FetchResponse {
    FetchResponse {
        session_id: 5,
        counts_synced: true,
        ..FetchResponse::default()
    }
}

/// Numbers of the partitions that a request names.
fn listed(request: &FetchRequest) -> Vec<i32> {
    let parts = request.topics.iter().flat_map(|topic| &topic.partitions);
    parts.map(|part| part.partition).collect()
}

/// So many offsets of 1 KiB came, and the leader has committed up to there.
fn brought(offsets: i64, high_watermark: i64) -> Brought {
    Brought {
        bytes: offsets as usize * 1024,
        offsets,
        high_watermark: Offset(high_watermark),
        is_throttled: false,
    }
}

fn throttled(offsets: i64, high_watermark: i64) -> Brought {
    Brought {
        is_throttled: true,
        ..brought(offsets, high_watermark)
    }
}

/// An engine with one partition in each session, whose sessions are made.
fn engine() -> Engine {
    let mut engine = Engine::new(BrokerId(1));
    engine.follow(key(0), EPOCH, at(9, 9), Way::Tail);
    engine.follow(key(1), EPOCH, at(0, 0), Way::Bulk);
    for way in [Way::Tail, Way::Bulk] {
        ask(&mut engine, way, 0, 0).expect("the first");
        engine.on_answer(way, answer(), TERMS, millis(0));
    }
    engine
}

fn ask(engine: &mut Engine, way: Way, others: u64, now: u64) -> Option<FetchRequest> {
    engine.request(way, 9, TERMS, others, millis(now))
}

#[test]
fn a_replica_changes_its_session_by_what_an_answer_leaves_missing() {
    for (way, moved, taken, expected) in [
        // All of it, or as much as the tail session brings at once.
        (Way::Bulk, 100, brought(100, 100), Way::Tail),
        (Way::Bulk, 100, brought(100, 1_124), Way::Tail),
        (Way::Bulk, 100, brought(100, 1_125), Way::Bulk),
        (Way::Tail, 100, brought(100, 4_196), Way::Tail),
        (Way::Tail, 100, brought(100, 4_197), Way::Bulk),
        (Way::Bulk, 100, throttled(100, 101), Way::Bulk),
        (Way::Bulk, 100, throttled(100, 100), Way::Tail),
        (Way::Tail, 100, throttled(100, 4_196), Way::Tail),
        // Nothing is known of what is missing, or nothing is.
        (Way::Bulk, 0, brought(0, 10), Way::Bulk),
        (Way::Tail, 0, brought(0, 1 << 40), Way::Tail),
        (Way::Bulk, 10, brought(0, 10), Way::Tail),
        // The leader may know of less to be committed than this replica has.
        (Way::Bulk, 100, brought(100, 0), Way::Tail),
        (Way::Bulk, 0, brought(0, -1), Way::Tail),
    ] {
        let mut engine = Engine::new(BrokerId(1));
        engine.follow(key(0), EPOCH, at(0, 0), way);
        engine.on_moved(key(0), at(moved, 0));
        engine.on_taken(key(0), taken, TERMS);
        assert_eq!(engine.way(key(0)), Some(expected), "{way:?} {taken:?}");
    }
}

#[test]
fn a_replica_that_changes_its_session_goes_on_where_it_is() {
    let mut engine = engine();
    let asked = ask(&mut engine, Way::Bulk, 0, 1).expect("it goes on");
    assert!(listed(&asked).is_empty(), "the leader knows");
    engine.on_answer(Way::Bulk, answer(), TERMS, millis(2));
    engine.on_moved(key(1), at(50, 0));
    engine.on_taken(key(1), brought(50, 60), TERMS);
    let tail = ask(&mut engine, Way::Tail, 0, 3).expect("it is named there");
    let part = &tail.topics[0].partitions[0];
    assert_eq!(
        (part.partition, part.fetch_offset, part.synced_offset),
        (1, 50, 0)
    );
    assert!(part.is_restart);
    let bulk = ask(&mut engine, Way::Bulk, 0, 3).expect("it is forgotten here");
    assert_eq!(bulk.forgotten_topics_data[0].partitions, [1]);
    engine.on_moved(key(1), at(50, 50));
    let report = ask(&mut engine, Way::Tail, 0, 4).expect("more is synced");
    assert_eq!(listed(&report), [1]);
}

#[test]
fn the_tail_session_asks_while_bulk_waits_for_the_disk() {
    let mut engine = engine();
    ask(&mut engine, Way::Bulk, 0, 1).expect("it goes on");
    engine.on_answer(Way::Bulk, answer(), TERMS, millis(2));
    engine.on_moved(key(1), at(1_000, 0));
    engine.on_taken(key(1), brought(1_000, 1 << 30), TERMS);
    engine.on_moved(key(0), at(10, 10));
    assert!(ask(&mut engine, Way::Bulk, 0, 3).is_none());
    assert_eq!(
        listed(&ask(&mut engine, Way::Tail, 0, 3).expect("now")),
        [0]
    );
}

#[test]
fn bulk_rests_as_long_as_it_took_while_others_are_at_work() {
    let mut engine = engine();
    let bulk = |engine: &mut Engine, others, now| ask(engine, Way::Bulk, others, now);
    let bring = |engine: &mut Engine, end: i64, now| {
        engine.on_answer(Way::Bulk, answer(), TERMS, millis(now));
        engine.on_moved(key(1), at(end, end - 1));
        engine.on_taken(key(1), brought(1_000, 1 << 30), TERMS);
    };
    let asked = bulk(&mut engine, 7, 10).expect("it goes on");
    assert_eq!(asked.max_bytes, TERMS.bytes_max);
    bring(&mut engine, 1_000, 20);
    assert!(bulk(&mut engine, 8, 25).is_none(), "it is not synced");
    engine.on_moved(key(1), at(1_000, 1_000));
    // The sync took 20 ms, in which other partitions were fetched.
    assert!(bulk(&mut engine, 8, 30).is_none());
    assert_eq!(engine.next_deadline(), Some(millis(50)));
    assert!(bulk(&mut engine, 9, 49).is_none());
    let asked = bulk(&mut engine, 9, 50).expect("it has rested");
    assert_eq!(asked.max_bytes, BESIDE_BYTES);
    assert_eq!(engine.next_deadline(), None);
    // Nobody was at work.
    bring(&mut engine, 2_000, 60);
    engine.on_moved(key(1), at(2_000, 2_000));
    let asked = bulk(&mut engine, 9, 61).expect("at once");
    assert_eq!(asked.max_bytes, TERMS.bytes_max);
    // An answer without records is none to rest after.
    engine.on_answer(Way::Bulk, answer(), TERMS, millis(500));
    assert!(bulk(&mut engine, 99, 500).is_some());
}

#[test]
fn time_of_a_link_that_was_lost_is_not_rested_for() {
    let mut engine = engine();
    ask(&mut engine, Way::Bulk, 0, 10).expect("it goes on");
    engine.on_lost(Way::Bulk, TERMS, millis(9_000));
    ask(&mut engine, Way::Bulk, 0, 10_000).expect("it is tried again");
    engine.on_answer(Way::Bulk, answer(), TERMS, millis(10_020));
    engine.on_moved(key(1), at(1_000, 1_000));
    engine.on_taken(key(1), brought(1_000, 1 << 30), TERMS);
    assert!(ask(&mut engine, Way::Bulk, 1, 10_020).is_none());
    assert_eq!(engine.next_deadline(), Some(millis(10_040)));
}

#[test]
fn what_is_held_is_asked_for_again_when_its_time_has_come() {
    let mut engine = engine();
    ask(&mut engine, Way::Bulk, 0, 1).expect("it goes on");
    engine.on_answer(Way::Bulk, answer(), TERMS, millis(2));
    engine.hold(|key| key.1 == PartitionIndex(0), Some(millis(5)));
    assert_eq!(engine.next_deadline(), None, "it keeps up");
    engine.hold(|key| key.1 == PartitionIndex(1), Some(millis(5)));
    assert_eq!(engine.next_deadline(), Some(millis(5)));
    let asked = ask(&mut engine, Way::Bulk, 0, 3).expect("it is forgotten");
    assert_eq!(asked.forgotten_topics_data[0].partitions, [1]);
    let again = ask(&mut engine, Way::Bulk, 0, 5).expect("while one waits");
    assert_eq!(listed(&again), [1]);
}

#[test]
fn another_leader_epoch_ends_what_was_followed_in_either_session() {
    let mut engine = engine();
    engine.follow(key(1), LeaderEpoch(4), at(3, 3), Way::Tail);
    assert_eq!(engine.way(key(1)), Some(Way::Tail));
    engine.unfollow(key(0));
    engine.unfollow(key(1));
    assert_eq!(engine.way(key(1)), None);
    assert!(engine.is_over());
}
