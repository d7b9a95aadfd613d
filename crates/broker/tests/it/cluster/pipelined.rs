//! Producers that send on without waiting for answers, until each bound on requests is full: replicas are heard all the same.

use std::time::Duration;

use wire::messages::{MetadataRequest, ProduceRequest};

use super::nodes::*;

/// The topic of the producers that send on, and the one of somebody else.
pub(super) const BUSY: &str = "busy";
pub(super) const QUIET: &str = "quiet";
pub(super) const MIN_ISR: (&str, &str) = ("min.insync.replicas", "2");
/// Where nothing fails, nobody waits for longer.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(1);

pub(super) const ONE_SHARD: &[(&str, &str)] = &[
    ("queued.max.request.bytes", "1048576"),
    ("num.network.threads", "1"),
];
pub(super) const THREE_SHARDS: &[(&str, &str)] = &[
    ("queued.max.request.bytes", "1048576"),
    ("num.network.threads", "3"),
];

pub(super) fn requests(topic: &str, count: usize, bytes: usize) -> Vec<ProduceRequest> {
    let value = "x".repeat(bytes);
    (0..count).map(|_| produced(topic, 0, &value)).collect()
}

/// The longest time without an answer to any of the producers, until all of them have all theirs.
fn longest_silence(nodes: &Nodes, pipes: &mut [Pipe]) -> Duration {
    let mut last = (nodes.now(), 0);
    let mut longest = Duration::ZERO;
    let is_over = nodes.run(Duration::from_secs(200), || {
        pipes.iter_mut().for_each(Pipe::turn);
        let (now, answered) = (nodes.now(), pipes.iter().map(|pipe| pipe.answered()).sum());
        longest = longest.max(now.since(last.0));
        if last.1 < answered {
            last = (now, answered);
        }
        pipes.iter().all(Pipe::is_over)
    });
    assert!(is_over, "{} answers came", last.1);
    longest
}

/// All three replicas stay in sync, whatever the producers have under way.
fn check(seed: u64, given: &'static [(&'static str, &'static str)], clients: usize, bytes: usize) {
    // Several times what requests may take, of each.
    check_count(seed, given, clients, (bytes, (4 << 20) / bytes));
}

fn check_count(
    seed: u64,
    given: &'static [(&'static str, &'static str)],
    clients: usize,
    (bytes, count): (usize, usize),
) {
    let nodes = Nodes::start_with(seed, given);
    nodes.create_on(BUSY, &[1, 2, 3], &[MIN_ISR]);
    nodes.until(|nodes| Some(nodes.isr(1, BUSY)?.len() == 3));
    let mut pipes: Vec<Pipe> = (0..clients)
        .map(|_| nodes.pipe(1, &requests(BUSY, count, bytes), 9))
        .collect();
    let silence = longest_silence(&nodes, &mut pipes);
    assert!(
        silence < SILENCE_MAX,
        "{given:?}, {clients} of {bytes} bytes: {silence:?}"
    );
    assert_eq!(nodes.isr(1, BUSY).map(|isr| isr.len()), Some(3));
    let records = (clients * count) as i64;
    assert_eq!(nodes.ends(1, BUSY), Some((0, records)), "each once");
}

#[test]
fn a_producer_that_sends_on_keeps_no_follower_from_being_heard() {
    for (at, given) in [ONE_SHARD, THREE_SHARDS].into_iter().enumerate() {
        for (of, bytes) in [2_000, 100_000, 900_000].into_iter().enumerate() {
            check(810 + (3 * at + of) as u64, given, 1, bytes);
        }
    }
}

#[test]
fn several_producers_that_send_on_keep_no_follower_from_being_heard() {
    check(821, ONE_SHARD, 5, 50_000);
    check(822, THREE_SHARDS, 9, 50_000);
}

#[test]
fn producers_of_many_small_records_keep_no_follower_from_being_heard() {
    // Several times the answers that a connection may wait for.
    check_count(826, ONE_SHARD, 3, (100, 4_000));
    check_count(827, THREE_SHARDS, 6, (100, 2_500));
}

#[test]
fn others_are_served_beside_a_producer_whose_records_wait_for_their_replicas() {
    let nodes = Nodes::start_with(823, ONE_SHARD);
    nodes.create_on(BUSY, &[1, 2, 3], &[MIN_ISR]);
    nodes.create_on(QUIET, &[1], &[]);
    nodes.until(|nodes| Some(nodes.isr(1, BUSY)?.len() == 3));
    // A replica that is not heard holds what is committed until it is out of the ISR.
    nodes.cut_off(3);
    let mut busy = nodes.pipe(1, &requests(BUSY, 40, 100_000), 9);
    nodes.run(Duration::from_secs(2), || {
        busy.turn();
        false
    });
    assert_eq!(busy.answered(), 0);
    let mut asks = nodes.pipe(1, &vec![MetadataRequest::default(); 50], 12);
    let mut writes = nodes.pipe(1, &requests(QUIET, 20, 100_000), 9);
    for pipe in [&mut asks, &mut writes] {
        let is_over = nodes.run(SILENCE_MAX, || {
            busy.turn();
            pipe.turn();
            pipe.is_over()
        });
        assert!(is_over, "{} answers", pipe.answered());
    }
    assert_eq!(busy.answered(), 0, "it was waiting all the while");
}

#[test]
fn a_large_request_is_taken_beside_many_clients_whose_small_ones_wait() {
    let nodes = Nodes::start_with(824, ONE_SHARD);
    nodes.create_on(BUSY, &[1, 2, 3], &[MIN_ISR]);
    nodes.create_on(QUIET, &[1], &[]);
    nodes.until(|nodes| Some(nodes.isr(1, BUSY)?.len() == 3));
    nodes.cut_off(3);
    // More than requests may take, of all together.
    let mut small: Vec<Pipe> = (0..20)
        .map(|_| nodes.pipe(1, &requests(BUSY, 3, 10_000), 9))
        .collect();
    nodes.run(Duration::from_secs(1), || {
        small.iter_mut().for_each(Pipe::turn);
        false
    });
    assert!(512 << 10 < nodes.memory(1).0.request_bytes);
    let mut large = nodes.pipe(1, &requests(QUIET, 5, 100_000), 9);
    let is_over = nodes.run(SILENCE_MAX, || {
        small.iter_mut().for_each(Pipe::turn);
        large.turn();
        large.is_over()
    });
    assert!(is_over, "{} answers", large.answered());
    assert!(small.iter().all(|pipe| pipe.answered() == 0), "they waited");
}

#[test]
fn producers_that_send_on_have_their_turns_though_not_all_find_room() {
    const COUNT: usize = 24;
    const SEEDS: usize = 5;
    let mut fewest_of_all = 0;
    for at in 0..SEEDS {
        let nodes = Nodes::start_with(827 + at as u64, ONE_SHARD);
        nodes.create_on(BUSY, &[1, 2, 3], &[MIN_ISR]);
        nodes.until(|nodes| Some(nodes.isr(1, BUSY)?.len() == 3));
        let mut pipes: Vec<Pipe> = (0..16)
            .map(|_| nodes.pipe(1, &requests(BUSY, COUNT, 100_000), 9))
            .collect();
        let is_one_over = nodes.run(Duration::from_secs(100), || {
            pipes.iter_mut().for_each(Pipe::turn);
            pipes.iter().any(Pipe::is_over)
        });
        let answered: Vec<usize> = pipes.iter().map(Pipe::answered).collect();
        assert!(is_one_over, "{answered:?}");
        let fewest = answered.iter().min().copied().unwrap_or_default();
        // One may be lucky.
        assert!(COUNT / 6 <= fewest, "{answered:?} of {COUNT}");
        fewest_of_all += fewest;
    }
    let mean = fewest_of_all / SEEDS;
    assert!(COUNT / 3 <= mean, "{mean} of {COUNT}");
}
