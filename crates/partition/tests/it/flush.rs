//! A topic whose records are acknowledged before they are synced: what is durable by `flush.messages`, by `flush.ms`, and because
//! it is part of a transaction.

use partition::Warrant;

use super::transactions::{append as append_as, end, records};
use super::*;

const RECORDS: i64 = 25;

fn relaxed(flush_messages: i64, flush_ms: i64) -> LogConfig {
    LogConfig {
        durability: Durability::Os,
        flush_messages,
        flush_ms,
        ..small_segments()
    }
}

/// One journal piece for everything: leaving a piece syncs it, and so does a checkpoint.
fn opened(machine: &Machine, config: &LogConfig) -> Rig {
    let settings = DirSettings {
        journal_piece_bytes: 1 << 20,
        journal_first_piece_bytes: 1 << 20,
        checkpoint_bytes: 1 << 20,
        ..settings()
    };
    let configs = std::slice::from_ref(config);
    open_at(machine, Path::new(DIR), settings, configs).unwrap()
}

/// A log directory whose segment writer has begun.
fn begin(machine: &Machine, config: &LogConfig) -> Rig {
    let mut rig = opened(machine, config);
    rig.work(machine, Duration::from_millis(1), &mut []);
    rig
}

fn append(rig: &mut Rig, machine: &Machine, number: i64) {
    let partition = Arc::clone(&rig.partitions[0]);
    let moment = Moment {
        now: machine.now(),
        wall: Timestamp(1_700_000_000_000),
        stamp: &mut rig.stamp,
    };
    let batch = batch_of(&[value("flush", number as usize)]);
    partition.append(batch, Acks::All(None), moment).unwrap();
    rig.commit(&mut []);
}

/// How many of the records are there after a power cut; those are the first ones, and whole.
fn kept(rig: Rig, machine: &Machine, config: &LogConfig) -> i64 {
    drop(rig);
    machine.power_cut();
    let rig = opened(machine, config);
    let read = rig.read(0);
    let want = |offset: i64| (offset, value("flush", offset as usize));
    assert_eq!(read, (0..read.len() as i64).map(want).collect());
    read.len() as i64
}

/// The fewest records that any of some power cuts leaves.
fn least(run: impl Fn(&Machine) -> i64) -> i64 {
    (0..30).map(|seed| run(&machine(seed))).min().unwrap()
}

#[test]
fn after_flush_messages_records_all_of_them_are_durable() {
    let least_kept = |flush_messages| {
        let config = relaxed(flush_messages, i64::MAX);
        least(|machine| {
            let mut rig = begin(machine, &config);
            (0..RECORDS).for_each(|number| append(&mut rig, machine, number));
            kept(rig, machine, &config)
        })
    };
    let (never, tenth, each) = (least_kept(i64::MAX), least_kept(10), least_kept(1));
    assert!(never < 10, "{never} without the setting");
    assert!((20..RECORDS).contains(&tenth), "{tenth} with every tenth");
    assert_eq!(each, RECORDS);
}

#[test]
fn after_flush_ms_what_was_written_is_durable() {
    let least_kept = |flush_ms, waited| {
        let config = relaxed(i64::MAX, flush_ms);
        least(|machine| {
            let mut rig = begin(machine, &config);
            (0..RECORDS).for_each(|number| append(&mut rig, machine, number));
            rig.work(machine, waited, &mut []);
            kept(rig, machine, &config)
        })
    };
    let never = least_kept(i64::MAX, SECOND * 200);
    assert!(never < RECORDS, "{never} without the setting");
    let early = least_kept(100_000, SECOND * 90);
    assert!(early < RECORDS, "{early} before the time");
    assert_eq!(least_kept(100_000, SECOND * 101), RECORDS);
}

/// The timer that begins while an earlier record waits to be written to its segment, and the last one of a topic that rests.
#[test]
fn flush_ms_counts_anew_for_each_record_that_follows_a_flush() {
    let config = relaxed(i64::MAX, 100);
    for records in 1..=6 {
        let least_kept = least(|machine| {
            let mut rig = begin(machine, &config);
            for number in 0..records {
                append(&mut rig, machine, number);
                rig.work(machine, Duration::from_millis(110), &mut []);
            }
            rig.work(machine, SECOND, &mut []);
            kept(rig, machine, &config)
        });
        assert_eq!(least_kept, records);
    }
}

/// The coordinator decides on what its partitions have told: a part that is lost afterwards would leave the other parts alone.
#[test]
fn batches_and_markers_of_transactions_are_durable_one_by_one() {
    let config = relaxed(i64::MAX, i64::MAX);
    let ends_after = |batches: i32, ends: bool| {
        least(|machine| {
            let mut rig = begin(machine, &config);
            for number in 0..batches {
                append_as(&mut rig, records(7, number, 1, true), Warrant::Waived).unwrap();
                rig.commit(&mut []);
            }
            if ends {
                end(&mut rig, 7, true).unwrap();
                rig.commit(&mut []);
            }
            drop(rig);
            machine.power_cut();
            let bounds = opened(machine, &config).partitions[0].bounds();
            let stable = if ends { bounds.log_end } else { Offset(0) };
            assert_eq!(bounds.last_stable, stable);
            bounds.log_end.0
        })
    };
    assert_eq!(ends_after(3, false), 3);
    assert_eq!(ends_after(3, true), 4);
}
