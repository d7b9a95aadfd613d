//! Compaction beside the rest: what the cleaners do to partitions whose records are appended, checkpointed, deleted, and what a
//! power cut leaves of it.

use std::sync::atomic::{AtomicU64, Ordering};

use env::{Clock, Env};
use partition::{Cleaner, CleanerSettings, Cleaning};

use super::*;
use log::config::Cleanup;

pub(super) fn compacted() -> LogConfig {
    LogConfig {
        cleanup_policy: Cleanup {
            delete: false,
            compact: true,
        },
        min_cleanable_dirty_ratio: 0.1,
        ..small_segments()
    }
}

pub(super) fn cleaners(rig: &Rig, machine: &Machine, bytes_per_second: f64) -> Cleaner {
    cleaners_in(rig, &machine.env(), bytes_per_second)
}

fn cleaners_in(rig: &Rig, env: &Env, bytes_per_second: f64) -> Cleaner {
    let settings = CleanerSettings {
        is_enabled: true,
        threads: 1,
        backoff: SECOND,
        map_bytes: 1 << 20,
        map_load: 0.9,
        bytes_per_second,
    };
    let dirs = vec![Arc::clone(&rig.residents)];
    Cleaning::new(env, dirs, rig.heard.clone(), settings).cleaner()
}

/// Lets cleaner and segment writer take turns for `time`.
pub(super) fn work(rig: &mut Rig, cleaner: &mut Cleaner, machine: &Machine, time: Duration) {
    let end = machine.now().plus(time);
    let mut turns = 0;
    while machine.now() < end && !machine.is_off() {
        turns += 1;
        assert!(turns < 20_000, "the cleaner spins");
        let until = [rig.writer.turn(), cleaner.turn()]
            .into_iter()
            .map(|turn| match turn {
                Turn::Again => machine.now(),
                Turn::Sleep { until } => until.unwrap_or(end),
                Turn::Done => end,
            })
            .min();
        let until = until.unwrap_or(end).min(end);
        if machine.now() < until {
            machine.step_until(until);
        }
    }
}

fn keyed(records: &[(String, Option<String>)]) -> Batch {
    let mut builder = BatchBuilder::new();
    for (key, value) in records {
        let value = value.as_ref().map(String::as_bytes);
        builder.push(
            Timestamp(1_700_000_000_000),
            Some(key.as_bytes()),
            value,
            &[],
        );
    }
    builder.build()
}

pub(super) type Table = BTreeMap<String, String>;

/// Appends and commits one batch, and does the same to `table`.
pub(super) fn put(rig: &mut Rig, at: usize, number: usize, table: &mut Table) {
    let records: Vec<_> = (0..3)
        .map(|i| {
            let key = format!("key {}", (number * 7 + i * 3) % 17);
            let value = (number % 5 != i).then(|| format!("{number} {}", "x".repeat(60)));
            (key, value)
        })
        .collect();
    let moment = Moment {
        now: model::Instant(0),
        wall: Timestamp(1_700_000_000_000),
        stamp: &mut rig.stamp,
    };
    if rig.partitions[at]
        .append(keyed(&records), Acks::All(None), moment)
        .is_err()
    {
        return;
    }
    let mut news = Vec::new();
    while rig.dir.commit(&mut news) == Commit::Done && rig.dir.has_queued() {}
    if rig.dir.is_failed() {
        return;
    }
    for (key, value) in records {
        match value {
            Some(value) => table.insert(key, value),
            None => table.remove(&key),
        };
    }
}

/// The table that a reader makes of the partition, and how many records he got for it.
pub(super) fn fold(rig: &Rig, at: usize) -> (Table, usize) {
    let partition = &rig.partitions[at];
    let bounds = partition.bounds();
    let (mut table, mut count) = (Table::new(), 0);
    let mut next = bounds.log_start;
    while next < bounds.high_watermark {
        let batches = plan(partition, next).expect("readable");
        assert!(!batches.is_empty(), "nothing at {next}");
        for batch in batches {
            let plain = batch.plain(Caps::default()).unwrap();
            for record in RecordIter::new(&plain, batch.record_count()) {
                let record = record.unwrap();
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                let key = text(record.key.unwrap());
                match record.value {
                    Some(value) => table.insert(key, text(value)),
                    None => table.remove(&key),
                };
                count += 1;
            }
            next = batch.next_offset();
        }
    }
    (table, count)
}

#[test]
fn a_partition_that_is_written_to_is_compacted_and_stays_the_same_table() {
    let machine = machine(1);
    let mut rig = open(&machine, &[compacted()]).unwrap();
    let mut cleaner = cleaners(&rig, &machine, f64::MAX);
    let mut table = Table::new();
    for number in 0..600 {
        put(&mut rig, 0, number, &mut table);
        if number % 20 == 0 {
            work(&mut rig, &mut cleaner, &machine, SECOND);
        }
    }
    work(&mut rig, &mut cleaner, &machine, SECOND * 10);
    let (seen, count) = fold(&rig, 0);
    assert_eq!(seen, table);
    assert!(count < 600, "{count} of 1800 records are left");
    rig.stop();
    drop((rig, cleaner));
    machine.kill();
    let rig = open(&machine, &[compacted()]).unwrap();
    assert_eq!(fold(&rig, 0).0, table);
}

#[test]
fn what_a_pass_dropped_is_not_served_from_memory() {
    let machine = machine(2);
    let roomy = DirSettings {
        hot_tail_bytes: 16 << 20,
        ..settings()
    };
    let mut rig = open_at(&machine, Path::new(DIR), roomy, &[compacted()]).unwrap();
    let mut cleaner = cleaners(&rig, &machine, f64::MAX);
    let mut table = Table::new();
    for number in 0..300 {
        put(&mut rig, 0, number, &mut table);
    }
    assert_eq!(fold(&rig, 0).1, 900, "all of it is in memory");
    work(&mut rig, &mut cleaner, &machine, SECOND * 10);
    let (seen, count) = fold(&rig, 0);
    assert_eq!(seen, table);
    assert!(count < 300, "{count} of 900 records are served");
}

#[test]
fn a_log_that_compacts_and_deletes_does_both() {
    let policies = |delete| LogConfig {
        cleanup_policy: Cleanup {
            delete,
            compact: true,
        },
        retention_ms: Some(200_000),
        ..compacted()
    };
    let machine = machine(5);
    let mut rig = open(&machine, &[policies(true), policies(false)]).unwrap();
    let mut cleaner = cleaners(&rig, &machine, f64::MAX);
    let mut tables = [Table::new(), Table::new()];
    for (at, table) in tables.iter_mut().enumerate() {
        for number in 0..300 {
            put(&mut rig, at, number, table);
        }
    }
    work(&mut rig, &mut cleaner, &machine, SECOND * 20);
    for (at, table) in tables.iter().enumerate() {
        let (seen, count) = fold(&rig, at);
        assert!(&seen == table && count < 300, "{at}: {count} records");
    }
    // Past the age at which records go, and past a look at it.
    work(&mut rig, &mut cleaner, &machine, SECOND * 310);
    let (seen, _) = fold(&rig, 0);
    assert!(seen.is_empty(), "{} keys are too old", seen.len());
    assert_eq!(rig.partitions[0].bounds().log_start.0, 900);
    assert_eq!(fold(&rig, 1).0, tables[1]);
    let mut table = Table::new();
    put(&mut rig, 0, 1, &mut table);
    assert_eq!(fold(&rig, 0).0, table);
}

#[test]
fn compaction_begins_and_ends_with_the_policy() {
    let machine = machine(6);
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    let mut cleaner = cleaners(&rig, &machine, f64::MAX);
    let mut table = Table::new();
    let mut put_many = |rig: &mut Rig, count| {
        for number in 0..count {
            put(rig, 0, number, &mut table);
        }
        table.clone()
    };
    put_many(&mut rig, 300);
    work(&mut rig, &mut cleaner, &machine, SECOND * 10);
    assert_eq!(fold(&rig, 0).1, 900, "it was not asked for");
    rig.partitions[0].set_config(Arc::new(compacted()), &mut Vec::new());
    work(&mut rig, &mut cleaner, &machine, SECOND * 10);
    let (_, few) = fold(&rig, 0);
    assert!(few < 300, "{few} records");
    rig.partitions[0].set_config(Arc::new(small_segments()), &mut Vec::new());
    let table = put_many(&mut rig, 100);
    work(&mut rig, &mut cleaner, &machine, SECOND * 10);
    assert_eq!(fold(&rig, 0), (table, few + 300));
}

#[test]
fn a_log_whose_age_cannot_be_read_is_left_alone_and_others_are_compacted() {
    let machine = machine(8);
    let aged = LogConfig {
        max_compaction_lag_ms: 3_600_000,
        ..compacted()
    };
    let mut rig = open(&machine, &[small_segments(), small_segments()]).unwrap();
    let mut tables = [Table::new(), Table::new()];
    for number in 0..200 {
        for (at, table) in tables.iter_mut().enumerate() {
            put(&mut rig, at, number, table);
        }
    }
    let mut idle = cleaners(&rig, &machine, f64::MAX);
    work(&mut rig, &mut idle, &machine, SECOND * 10);
    rig.stop();
    drop((rig, idle));
    machine.kill();
    let mut rig = open(&machine, &[aged.clone(), aged]).unwrap();
    let path = Path::new(DIR).join(format!("t0-0/{:020}.log", 0));
    machine.fail_reads(&path, 0..1).unwrap();
    let mut cleaner = cleaners(&rig, &machine, f64::MAX);
    work(&mut rig, &mut cleaner, &machine, SECOND * 10);
    assert!(!rig.dir.is_failed(), "the others have no part in it");
    let (seen, count) = fold(&rig, 1);
    assert_eq!(seen, tables[1]);
    assert!(count < 300, "{count} of 600 records are left");
    machine.mend_reads();
    assert_eq!(fold(&rig, 0), (tables[0].clone(), 600), "left as it was");
}

#[test]
fn a_policy_that_changes_under_a_pass_leaves_nothing_half_written() {
    let machine = machine(7);
    let mut rig = open(&machine, &[compacted()]).unwrap();
    let mut table = Table::new();
    for number in 0..300 {
        put(&mut rig, 0, number, &mut table);
    }
    let half_written = || {
        let entries = machine.env().disk.read_dir(Path::new("/data/t0-0"));
        let entries = entries.unwrap_or_default();
        let is_cleaned = |name: &str| name.ends_with(".cleaned");
        entries.iter().any(|entry| is_cleaned(&entry.name))
    };
    let mut cleaner = cleaners(&rig, &machine, 40_000.0);
    let mut looks = 0;
    while !half_written() {
        work(&mut rig, &mut cleaner, &machine, SECOND / 20);
        looks += 1;
        assert!(looks < 1000, "no pass began");
    }
    rig.partitions[0].set_config(Arc::new(small_segments()), &mut Vec::new());
    work(&mut rig, &mut cleaner, &machine, SECOND * 5);
    assert!(!half_written());
    assert_eq!(fold(&rig, 0).0, table);
}

#[test]
fn the_pace_bounds_what_is_moved_in_a_second() {
    let machine = machine(3);
    let mut rig = open(&machine, &[compacted()]).unwrap();
    let mut table = Table::new();
    for number in 0..300 {
        put(&mut rig, 0, number, &mut table);
    }
    let mut slow = cleaners(&rig, &machine, 1000.0);
    work(&mut rig, &mut slow, &machine, SECOND * 30);
    let size = rig.partitions[0].size();
    assert!(size > 60_000, "30 KB moved at most: {size} bytes are left");
    drop(slow);
    let mut quick = cleaners(&rig, &machine, f64::MAX);
    work(&mut rig, &mut quick, &machine, SECOND * 10);
    assert!(rig.partitions[0].size() < size / 2);
    assert_eq!(fold(&rig, 0).0, table);
}

/// A clock by which a millisecond passes from one look of a turn to the next, as if all that lies between took as long.
struct Laborious {
    time: AtomicU64,
}

const LOOK: Duration = Duration::from_millis(1);

impl Laborious {
    fn turn(&self, cleaner: &mut Cleaner) -> Turn {
        let turn = cleaner.turn();
        let looked = self
            .time
            .fetch_sub(LOOK.as_nanos() as u64, Ordering::Relaxed);
        if let Turn::Sleep { until: Some(until) } = turn {
            self.time.store(until.0.max(looked), Ordering::Relaxed);
        }
        turn
    }
}

impl Clock for Laborious {
    fn now(&self) -> model::Instant {
        let look = LOOK.as_nanos() as u64;
        model::Instant(self.time.fetch_add(look, Ordering::Relaxed))
    }

    fn wall_ms(&self) -> Timestamp {
        Timestamp(1_700_000_000_000)
    }
}

#[test]
fn a_cleaner_rests_as_long_as_it_works_while_others_commit() {
    for is_alone in [true, false] {
        let machine = machine(6);
        let mut rig = open(&machine, &[compacted()]).unwrap();
        let mut table = Table::new();
        for number in 0..300 {
            put(&mut rig, 0, number, &mut table);
        }
        let clock = Arc::new(Laborious {
            time: AtomicU64::new(machine.now().0),
        });
        let env = Env {
            clock: clock.clone(),
            ..machine.env()
        };
        let mut cleaner = cleaners_in(&rig, &env, f64::MAX);
        let (mut rests, mut works) = (0, 0);
        for number in 300..600 {
            if !is_alone {
                put(&mut rig, 0, number, &mut table);
            }
            while rig.writer.turn() == Turn::Again {}
            let before = clock.time.load(Ordering::Relaxed);
            match clock.turn(&mut cleaner) {
                Turn::Sleep { until: Some(until) }
                    if until.since(model::Instant(before)) == LOOK =>
                {
                    rests += 1
                }
                Turn::Sleep { .. } => {}
                _ => works += 1,
            }
        }
        assert!(works > 10, "{works} turns of work");
        if is_alone {
            assert_eq!(rests, 0, "{works} turns of work");
        } else {
            assert!(rests > works / 2, "{rests} rests, {works} turns of work");
        }
        let (seen, count) = fold(&rig, 0);
        assert_eq!(seen, table);
        assert!(count < 900, "{count} records are left");
    }
}

#[test]
fn a_topic_that_is_deleted_under_a_pass_leaves_its_name_to_the_next() {
    let machine = machine(4);
    let mut rig = open(&machine, &[compacted()]).unwrap();
    let mut cleaner = cleaners(&rig, &machine, f64::MAX);
    let mut table = Table::new();
    for number in 0..300 {
        put(&mut rig, 0, number, &mut table);
    }
    // Until a pass is under way.
    for _ in 0..40 {
        rig.writer.turn();
        cleaner.turn();
        let now = machine.now();
        machine.step_until(now.plus(SECOND / 20));
    }
    let old = Arc::clone(&rig.partitions[0]);
    let mut news = Vec::new();
    old.delete(&mut news);
    old.discard();
    let start = Start::empty(LeaderEpoch(1), Arc::new(compacted()));
    let name = Arc::clone(&old.topic);
    let id = Uuid([77; 16]);
    rig.partitions[0] = rig.residents.create(id, name, PartitionIndex(0), start);
    lead(&rig.partitions[0], 1);
    let mut table = Table::new();
    for number in 0..300 {
        put(&mut rig, 0, number, &mut table);
        if number % 30 == 0 {
            work(&mut rig, &mut cleaner, &machine, SECOND / 2);
        }
    }
    work(&mut rig, &mut cleaner, &machine, SECOND * 10);
    let (seen, count) = fold(&rig, 0);
    assert!(seen == table && count < 900, "{count} records");
}

#[test]
fn power_cuts_at_any_moment_of_a_compaction_keep_the_table() {
    let script = |machine: &Machine, table: &mut Table| {
        let Ok(mut rig) = open(machine, &[compacted()]) else {
            return;
        };
        let mut cleaner = cleaners(&rig, machine, f64::MAX);
        for number in 0..240 {
            put(&mut rig, 0, number, table);
            if number % 40 == 39 {
                work(&mut rig, &mut cleaner, machine, SECOND * 2);
            }
            if machine.is_off() || rig.dir.is_failed() {
                return;
            }
        }
    };
    let operations = {
        let machine = machine(9);
        script(&machine, &mut Table::new());
        machine.counts().disk_ops
    };
    let mut compactions = 0;
    for at in (1..operations).step_by(3) {
        let machine = machine(9);
        machine.faults(|faults| faults.crash_at_op = Some(at));
        let mut table = Table::new();
        script(&machine, &mut table);
        machine.power_cut();
        machine.faults(|faults| faults.crash_at_op = None);
        let rig = open(&machine, &[compacted()]).unwrap_or_else(|error| panic!("{at}: {error}"));
        let (seen, count) = fold(&rig, 0);
        // The batch that was on its way may be there or not.
        let differs = seen
            .iter()
            .filter(|(key, value)| table.get(*key) != Some(*value))
            .count()
            + table.keys().filter(|key| !seen.contains_key(*key)).count();
        assert!(differs <= 3, "operation {at}: {differs} keys differ");
        let end = rig.partitions[0].bounds().log_end.0 as usize;
        compactions += usize::from(count < end);
    }
    assert!(compactions > 20, "{compactions} cuts came after a swap");
}
