//! Replicas of made-up batches: what is the same, and where the first difference is found.

use model::{LeaderEpoch, Offset, Timestamp};
use wire::records::{BatchBuilder, Codec};

use super::*;

/// A batch of records with such values from `base` on.
fn batch(base: i64, values: &[&str]) -> Batch {
    let mut batch = BatchBuilder::new()
        .base_offset(Offset(base))
        .leader_epoch(LeaderEpoch(3));
    for value in values {
        batch.push(Timestamp(1000), Some(b"key"), Some(value.as_bytes()), &[]);
    }
    batch.build()
}

fn bytes(batches: &[Batch]) -> Bytes {
    let all = batches.iter().flat_map(|batch| batch.to_bytes());
    all.collect()
}

/// Replicas of brokers 1, 2, ...: each is fetched as it is asked for, `step` batches at once.
fn compare(
    mode: Mode,
    end: i64,
    logs: &[&[Batch]],
    step: usize,
) -> (Comparison, Option<Difference>) {
    let ends: Vec<(i32, i64)> = (1..).zip(logs).map(|(broker, _)| (broker, end)).collect();
    let mut comparison = Comparison::new(mode, 0, &ends);
    let outcome = run(&mut comparison, logs, step);
    (comparison, outcome.err())
}

fn run(comparison: &mut Comparison, logs: &[&[Batch]], step: usize) -> Result<(), Difference> {
    loop {
        comparison.advance()?;
        let wants = comparison.wants();
        if wants.is_empty() {
            return Ok(());
        }
        for (broker, from) in wants {
            let log = logs[broker as usize - 1].iter();
            let rest = log.filter(|batch| from < batch.next_offset().0);
            let next: Vec<Batch> = rest.take(step).cloned().collect();
            comparison.put(broker, &bytes(&next))?;
        }
    }
}

fn found(mode: Mode, end: i64, logs: &[&[Batch]]) -> Option<(i64, i32, String)> {
    let told = [1, 2, 9].map(|step| compare(mode, end, logs, step).1);
    assert!(told.iter().all(|it| *it == told[0]), "{told:?}");
    let [difference, ..] = told;
    difference.map(|it| (it.offset, it.broker, it.what))
}

#[test]
fn the_same_batches_are_the_same_and_all_of_them_are_looked_at() {
    let log = [batch(0, &["a", "b"]), batch(2, &["c"]), batch(3, &["d"])];
    for mode in [Mode::Batches, Mode::Records] {
        let (comparison, difference) = compare(mode, 4, &[&log, &log, &log], 1);
        assert_eq!(difference, None);
        assert_eq!(comparison.at(), 4);
        assert_eq!(comparison.bytes(), bytes(&log).len() as u64);
    }
}

#[test]
fn the_first_record_that_differs_is_named_with_its_replica() {
    let good = [batch(0, &["a", "b"]), batch(2, &["c", "d", "e"])];
    let other = [batch(0, &["a", "b"]), batch(2, &["c", "x", "e"])];
    for mode in [Mode::Batches, Mode::Records] {
        let told = found(mode, 5, &[&good, &good, &other]);
        assert_eq!(told, Some((3, 3, "has another record".to_owned())));
        assert_eq!(found(mode, 2, &[&good, &other]), None, "not committed");
    }
}

#[test]
fn batches_in_another_form_differ_though_their_records_do_not() {
    let good = [batch(0, &["a"])];
    let mut later = good[0].clone();
    later.set_leader_epoch(LeaderEpoch(4));
    let (offset, broker, what) = found(Mode::Batches, 1, &[&good, &[later]]).unwrap();
    assert_eq!((offset, broker), (0, 2));
    assert!(what.contains("epoch"), "{what}");
    let packed = BatchBuilder::new().compression(Codec::Lz4);
    let mut packed = packed.leader_epoch(LeaderEpoch(3));
    packed.push(Timestamp(1000), Some(b"key"), Some(b"a"), &[]);
    let told = found(Mode::Batches, 1, &[&good, &[packed.build()]]);
    assert_eq!(told.map(|(offset, ..)| offset), Some(0));
}

#[test]
fn records_that_are_missing_are_found() {
    let good = [batch(0, &["a", "b"]), batch(2, &["c"]), batch(3, &["d"])];
    let short = [batch(0, &["a"]), batch(2, &["c"]), batch(3, &["d"])];
    let (offset, broker, what) = found(Mode::Batches, 4, &[&good, &short]).unwrap();
    assert_eq!((offset, broker, &*what), (1, 2, "has no record"));
    let gap = [batch(0, &["a", "b"]), batch(3, &["d"])];
    let (offset, broker, what) = found(Mode::Batches, 4, &[&good, &gap]).unwrap();
    assert_eq!((offset, broker), (2, 2));
    assert_eq!(what, "goes on at 3, not at 2");
    let ends = [batch(0, &["a", "b"]), batch(2, &["c"])];
    let (offset, broker, what) = found(Mode::Batches, 4, &[&good, &ends]).unwrap();
    assert_eq!((offset, broker), (3, 2));
    assert!(what.contains("nothing here"), "{what}");
}

#[test]
fn a_replica_that_was_compacted_further_is_the_same() {
    let whole = [batch(0, &["a", "b"]), batch(2, &["c"]), batch(3, &["d"])];
    let rest = [batch(1, &["b"]), batch(3, &["d"])];
    assert_eq!(found(Mode::Records, 4, &[&whole, &rest, &whole]), None);
    assert_eq!(found(Mode::Records, 4, &[&rest, &whole]), None);
    let other = [batch(1, &["x"]), batch(3, &["d"])];
    let told = found(Mode::Records, 4, &[&whole, &rest, &other]);
    assert_eq!(told, Some((1, 3, "has another record".to_owned())));
}

#[test]
fn damaged_bytes_are_a_difference_of_the_replica_that_sends_them() {
    let good = [batch(0, &["a"]), batch(1, &["b"])];
    let mut comparison = Comparison::new(Mode::Batches, 0, &[(1, 2), (2, 2)]);
    let mut torn = bytes(&good).to_vec();
    *torn.last_mut().unwrap() ^= 1;
    comparison.put(1, &bytes(&good)).unwrap();
    let difference = comparison.put(2, &torn.into()).unwrap_err();
    assert_eq!((difference.offset, difference.broker), (1, 2));
    assert!(difference.what.contains("checksum"), "{}", difference.what);
}

#[test]
fn a_replica_that_ends_earlier_is_compared_up_to_there_and_the_others_go_on() {
    let good = [batch(0, &["a"]), batch(1, &["b"]), batch(2, &["c"])];
    let other = [batch(0, &["a"]), batch(1, &["b"]), batch(2, &["x"])];
    for mode in [Mode::Batches, Mode::Records] {
        let mut comparison = Comparison::new(mode, 0, &[(1, 3), (2, 1), (3, 3)]);
        let difference = run(&mut comparison, &[&good, &good[..1], &other], 1);
        let difference = difference.unwrap_err();
        assert_eq!((difference.offset, difference.broker), (2, 3));
    }
}

#[test]
fn offsets_that_are_gone_are_passed_over_by_all() {
    let whole = [batch(0, &["a"]), batch(1, &["b", "c"]), batch(3, &["d"])];
    let trimmed = [batch(1, &["b", "c"]), batch(3, &["x"])];
    for mode in [Mode::Batches, Mode::Records] {
        let mut comparison = Comparison::new(mode, 0, &[(1, 4), (2, 4)]);
        comparison.put(1, &bytes(&whole[..2])).unwrap();
        comparison.skip_to(2);
        let difference = run(&mut comparison, &[&whole, &trimmed], 1).unwrap_err();
        assert_eq!((difference.offset, difference.broker), (3, 2));
    }
}

#[test]
fn one_replica_alone_asks_for_nothing() {
    let mut comparison = Comparison::new(Mode::Batches, 0, &[(1, 9), (2, 9)]);
    assert_eq!(comparison.wants(), [(1, 0), (2, 0)]);
    comparison.leave_out(2);
    assert_eq!(comparison.wants(), []);
}
