//! Logs whose local files begin later than they do, because a tier has the rest: what goes, what a restart goes on with, and every crash in
//! between.

use log::producer::{ProducerStates, marker_of};
use log::restart::Carried;
use log::{Epochs, checkpoint};
use model::{ProducerEpoch, ProducerId, Sequence};

use super::cuts::{EPOCH, commit, contents, follow, follow_in, follower, shape, unled};
use super::*;

const PRODUCER: ProducerId = ProducerId(7);

/// A record whose number in its producer's sequence is its offset.
fn numbered(offset: i64, epoch: i32) -> Batch {
    let sequence = Sequence(offset as i32);
    let mut builder = BatchBuilder::new().producer(PRODUCER, ProducerEpoch(0), sequence);
    let time = Timestamp(1_700_000_000_000);
    builder.push(time, None, Some(&value("t", offset as usize)), &[]);
    let mut batch = builder.build();
    batch.set_base_offset(Offset(offset));
    batch.set_leader_epoch(LeaderEpoch(epoch));
    batch
}

/// All that a tier knows of a log in front of `at`, whose last records are of `epoch`.
fn carried(at: i64, epoch: i32) -> Carried {
    let mut epochs = Epochs::default();
    epochs.assign(LeaderEpoch(1), Offset(0));
    epochs.assign(LeaderEpoch(epoch), Offset(at - 1));
    let mut producers = ProducerStates::new(Offset(at - 1));
    let last = numbered(at - 1, epoch);
    producers.apply(&last, marker_of(&last));
    Carried { epochs, producers }
}

fn last_sequence(rig: &Rig) -> Option<i64> {
    rig.partitions[0].producers(|states| {
        let last = states.get(PRODUCER)?.last()?;
        Some(i64::from(last.last_sequence.0))
    })
}

fn tell_committed(rig: &Rig, up_to: i64) {
    let mut news = Vec::new();
    rig.partitions[0].on_committed(Offset(up_to), &mut news);
}

fn fill(rig: &mut Rig, offsets: Range<i64>, epoch: i32) {
    for offset in offsets {
        follow(rig, &[numbered(offset, epoch)], epoch).unwrap();
    }
    commit(rig);
}

fn restart_files(machine: &Machine) -> usize {
    let entries = machine.env().disk.read_dir(Path::new(DIR)).unwrap();
    let named = entries.iter().filter(|of| of.name.contains(".restart"));
    named.count()
}

fn starts(rig: &Rig) -> [i64; 3] {
    let bounds = rig.partitions[0].bounds();
    [bounds.log_start, bounds.local_start, bounds.restart_point].map(|offset| offset.0)
}

/// A log of 60 records, all committed, whose first 40 are in the tier.
fn tiered(machine: &Machine) -> Rig {
    let mut rig = follower(machine);
    fill(&mut rig, 0..60, EPOCH);
    tell_committed(&rig, 60);
    rig.work(machine, SECOND, &mut []);
    rig.partitions[0].set_restart_point(Offset(40));
    rig
}

#[test]
fn files_go_only_once_a_checkpoint_says_that_the_tier_has_them() {
    let machine = machine(1);
    let mut rig = tiered(&machine);
    let partition = Arc::clone(&rig.partitions[0]);
    assert_eq!(partition.advance_local_start(Offset(30)), Offset(0));
    rig.work(&machine, SECOND, &mut []);
    assert_eq!(partition.advance_local_start(Offset(30)), Offset(30));
    // Never above what the tier has.
    assert_eq!(partition.advance_local_start(Offset(50)), Offset(40));
    let before = machine.counts();
    rig.work(&machine, SECOND, &mut []);
    assert_ne!(before.disk_ops, machine.counts().disk_ops, "files go");
    let all = contents(&partition);
    assert_eq!((all[0].0, all.len()), (40, 20));
    drop(rig);
    machine.kill();
    // The checkpoint of before did not know the local start, and forgives what is missing.
    let rig = unled(&machine).unwrap();
    let [_, local_start, restart_point] = starts(&rig);
    assert!(0 < local_start && local_start <= 40, "{local_start}");
    assert_eq!(restart_point, 40);
    assert!(!rig.partitions[0].has_holes());
    assert!(contents(&rig.partitions[0]).ends_with(&all));
    assert_eq!(last_sequence(&rig), Some(59));
    assert_eq!(rig.partitions[0].epoch_at(Offset(3)), LeaderEpoch(EPOCH));
}

#[test]
fn checkpoint_is_of_the_version_before_until_something_tiers() {
    let machine = machine(1);
    let version = |rig: &Rig| {
        let file = (machine.env().disk).open(
            &rig.dir.path.join(checkpoint::FILE_NAME),
            env::disk::Open::Read,
        );
        let mut magic = [0; 8];
        file.unwrap().read_exact_at(&mut magic, 0).unwrap();
        magic[7]
    };
    let mut rig = follower(&machine);
    fill(&mut rig, 0..5, EPOCH);
    tell_committed(&rig, 5);
    rig.stop();
    assert_eq!(version(&rig), b'2');
    drop(rig);
    machine.kill();
    let mut rig = unled(&machine).unwrap();
    rig.partitions[0].set_restart_point(Offset(5));
    rig.work(&machine, SECOND, &mut []);
    assert_eq!(version(&rig), b'3');
}

#[test]
fn restart_behind_the_tier_keeps_epochs_and_producers() {
    for crash_after in ["the restart", "more records", "a checkpoint"] {
        let machine = machine(2);
        let mut rig = follower(&machine);
        fill(&mut rig, 0..10, EPOCH);
        let partition = Arc::clone(&rig.partitions[0]);
        let known = carried(500, 4);
        partition.keep_carried(&known).unwrap();
        partition.rebuild(Offset(100), known).unwrap();
        commit(&rig);
        assert_eq!(restart_files(&machine), 1);
        let mut end = 500;
        if crash_after != "the restart" {
            fill(&mut rig, 500..520, EPOCH);
            end = 520;
        }
        if crash_after == "a checkpoint" {
            rig.work(&machine, SECOND, &mut []);
            rig.stop();
            assert_eq!(restart_files(&machine), 0, "of no use any more");
        }
        for _ in 0..3 {
            drop(rig);
            machine.power_cut();
            rig = unled(&machine).unwrap();
            let partition = &rig.partitions[0];
            assert_eq!(starts(&rig), [100, 500, 500], "{crash_after}");
            assert_eq!(partition.bounds().log_end, Offset(end), "{crash_after}");
            assert_eq!(partition.epoch_at(Offset(7)), LeaderEpoch(1));
            assert_eq!(partition.epoch_at(Offset(499)), LeaderEpoch(4));
            assert_eq!(last_sequence(&rig), Some(end - 1), "{crash_after}");
            assert_eq!(restart_files(&machine), 0, "{crash_after}");
        }
        follow_in(&rig, EPOCH);
        fill(&mut rig, end..end + 1, EPOCH);
        assert_eq!(last_sequence(&rig), Some(end));
    }
}

/// A log below whose restart point something is missing begins behind that, and nothing is lost.
#[test]
fn loss_that_the_tier_has_is_none() {
    let machine = machine(3);
    let mut rig = tiered(&machine);
    rig.work(&machine, SECOND, &mut []);
    rig.stop();
    let disk = machine.env().disk;
    let files = Path::new(DIR).join("t0-0");
    let mut segments: Vec<_> = disk.read_dir(&files).unwrap();
    segments.retain(|entry| entry.name.ends_with(".log"));
    segments.sort_by(|one, other| one.name.cmp(&other.name));
    let bases: Vec<i64> = (segments.iter())
        .map(|entry| entry.name[..20].parse().unwrap())
        .collect();
    let below = bases.iter().filter(|base| **base < 40).count();
    assert!(below > 2, "{bases:?}");
    for entry in &segments[..below - 1] {
        disk.remove_file(&files.join(&entry.name)).unwrap();
    }
    drop(rig);
    machine.kill();
    let rig = unled(&machine).unwrap();
    let start = bases[below - 1];
    assert_eq!(starts(&rig), [0, start, 40]);
    assert!(!rig.partitions[0].has_holes());
    assert_eq!(contents(&rig.partitions[0]).len() as i64, 60 - start);
    assert_eq!(rig.extents.values().map(|of| of.lost_count).sum::<i64>(), 0);
}

#[test]
fn local_retention_lets_files_go_and_the_log_stay() {
    let machine = machine(4);
    let config = LogConfig {
        local_retention: Some(log::config::Retention {
            ms: None,
            bytes: Some(5 << 10),
        }),
        ..small_segments()
    };
    let mut rig = tiered(&machine);
    let mut news = Vec::new();
    rig.partitions[0].set_config(Arc::new(config), &mut news);
    rig.work(&machine, SECOND, &mut []);
    rig.work(&machine, 3 * settings().retention_check, &mut []);
    let [log_start, local_start, _] = starts(&rig);
    assert_eq!(log_start, 0);
    assert!(0 < local_start && local_start <= 40, "{local_start}");
}

/// Rot below the restart point is not repaired from others: the local log begins behind it.
#[test]
fn rot_that_the_tier_has_is_let_go() {
    let machine = machine(5);
    let mut rig = tiered(&machine);
    rig.work(&machine, SECOND, &mut []);
    rig.stop();
    drop(rig);
    machine.kill();
    let first = Path::new(DIR).join("t0-0/00000000000000000000.log");
    machine
        .rot(&first, 200..240, env::sim::Rot::Flip { bit: 3 })
        .unwrap();
    let mut rig = unled(&machine).unwrap();
    follow_in(&rig, EPOCH);
    rig.dir.watch_damage(ticket(7));
    let partition = Arc::clone(&rig.partitions[0]);
    let is_refused = |at: &i64| {
        let request = ReadRequest {
            scope: Scope::of_any(Isolation::Log),
            ..read_from(Offset(*at))
        };
        partition.read(request).is_err()
    };
    let rotten = (0..10).find(is_refused).expect("rot is seen");
    rig.work(&machine, 10 * SECOND, &mut []);
    assert_eq!(starts(&rig), [0, rotten + 1, 40]);
    assert!(rig.dir.damages().is_empty(), "{:?}", rig.dir.damages());
    assert_eq!(contents(&partition).len() as i64, 60 - rotten - 1);
}

/// A leader that an unclean election made has less than this replica has given to the tier.
#[test]
fn log_may_be_cut_below_its_first_file() {
    for crashes in [false, true] {
        let machine = machine(6);
        let mut rig = tiered(&machine);
        rig.work(&machine, SECOND, &mut []);
        let partition = Arc::clone(&rig.partitions[0]);
        partition.advance_local_start(Offset(40));
        rig.work(&machine, SECOND, &mut []);
        let epoch = EPOCH + 1;
        follow_in(&rig, epoch);
        let cut = partition.cut_committed(Offset(20), LeaderEpoch(epoch));
        assert_eq!(cut.unwrap().committed_count(), 40);
        commit(&rig);
        if crashes {
            drop((rig, partition));
            machine.power_cut();
            rig = unled(&machine).unwrap();
            follow_in(&rig, epoch);
        }
        rig.work(&machine, SECOND, &mut []);
        assert_eq!(starts(&rig), [0, 20, 20], "{crashes}");
        fill(&mut rig, 20..25, epoch);
        assert!(!rig.partitions[0].has_holes());
        assert_eq!(contents(&rig.partitions[0]).len(), 5);
        assert_eq!(last_sequence(&rig), Some(24));
    }
}

/// The operations on a log, in order.
#[derive(Clone, Default)]
struct History {
    ops: Vec<Op>,
    durable: usize,
    /// Everything below was said to be in the tier, and may be gone here.
    tiered: i64,
}

#[derive(Clone)]
enum Op {
    Append(Batch),
    Cut(i64),
    /// Log start, and where the log goes on.
    Rebuild(i64, i64),
}

type Log = (i64, i64, Vec<(i64, i32, Vec<u8>)>);

impl History {
    /// Log start, end and batches behind the first of the operations.
    fn log(&self, count: usize) -> Log {
        let (mut start, mut end, mut log) = (0, 0, Vec::new());
        for op in &self.ops[..count] {
            match op {
                Op::Append(batch) => {
                    log.push(shape(batch));
                    end = batch.next_offset().0;
                }
                Op::Cut(to) => {
                    log.retain(|(base, ..)| base < to);
                    end = end.min(*to);
                }
                Op::Rebuild(log_start, at) => (start, end, log) = (*log_start, *at, Vec::new()),
            }
        }
        (start, end, log)
    }

    /// A crash may take what was not durable, and files that the tier has.
    fn allows(&self, rig: &Rig) -> Result<(), String> {
        let partition = &rig.partitions[0];
        let bounds = partition.bounds();
        let local_start = bounds.local_start.0;
        let found = contents(partition);
        let is_it = |count: usize| {
            let (start, end, mut log) = self.log(count);
            log.retain(|(base, ..)| local_start <= *base);
            (start, end) == (bounds.log_start.0, bounds.log_end.0) && log == found
        };
        if !(self.durable..=self.ops.len()).any(is_it) {
            return Err(format!("{bounds:?} with {} batches", found.len()));
        }
        if bounds.log_start < bounds.local_start
            && (self.tiered < local_start || bounds.restart_point < bounds.local_start)
        {
            return Err(format!("{bounds:?}: {} is in the tier", self.tiered));
        }
        let last = bounds.log_end.0 - 1;
        if last_sequence(rig) != Some(last).filter(|last| 0 <= *last) {
            return Err(format!("{bounds:?}: producer at {:?}", last_sequence(rig)));
        }
        let first = partition.epoch_at(Offset(0));
        if 0 < bounds.log_end.0 && first == LeaderEpoch::NONE {
            return Err(format!("{bounds:?}: {:?}", partition.epochs()));
        }
        Ok(())
    }
}

/// Follows, is cut, lets files go, is rebuilt; ends early when the machine is off.
fn work(
    rig: &mut Rig,
    machine: &Machine,
    history: &mut History,
    mut on_step: impl FnMut(&History),
) {
    let mut epoch = EPOCH;
    let partition = Arc::clone(&rig.partitions[0]);
    for step in 0..48_i64 {
        let end = partition.bounds().log_end.0;
        for offset in end..end + 1 + step % 4 {
            let batch = numbered(offset, epoch);
            if follow(rig, std::slice::from_ref(&batch), epoch).is_ok() {
                history.ops.push(Op::Append(batch));
            }
        }
        if step % 5 == 2 {
            let bounds = partition.bounds();
            epoch += 1;
            follow_in(rig, epoch);
            let to = (bounds.log_end.0 - 3).max(bounds.high_watermark.0);
            let is_cut =
                to < bounds.log_end.0 && (partition.cut(Offset(to), LeaderEpoch(epoch))).is_ok();
            if is_cut {
                history.ops.push(Op::Cut(to));
            }
        }
        if step == 17 || step == 33 {
            let at = partition.bounds().log_end.0 + 40 - step;
            let known = carried(at, epoch);
            let is_kept = partition.keep_carried(&known).is_ok();
            if is_kept && partition.rebuild(Offset(at - 30), known).is_ok() {
                history.ops.push(Op::Rebuild(at - 30, at));
                history.tiered = history.tiered.max(at);
            }
        }
        if step % 4 != 1 {
            commit(rig);
            if !rig.dir.is_failed() && !machine.is_off() {
                history.durable = history.ops.len();
            }
            on_step(history);
        }
        if step % 3 == 1 {
            tell_committed(rig, partition.bounds().durable.0 - 2);
            let point = partition.bounds().high_watermark.0 - 1;
            history.tiered = history.tiered.max(point);
            partition.set_restart_point(Offset(point));
            on_step(history);
        }
        if step % 4 == 2 {
            rig.work(machine, SECOND / 3, &mut []);
            on_step(history);
            partition.advance_local_start(Offset(partition.bounds().high_watermark.0 - 4));
        }
        if machine.is_off() || rig.dir.is_failed() {
            return;
        }
    }
}

fn recover_and_go_on(machine: &Machine, history: &History, context: &str) {
    let mut rig = unled(machine).unwrap_or_else(|error| panic!("{context}: {error}"));
    history
        .allows(&rig)
        .unwrap_or_else(|why| panic!("{context}: {why}"));
    assert!(!rig.partitions[0].has_holes(), "{context}");
    let (first, bounds) = (contents(&rig.partitions[0]), rig.partitions[0].bounds());
    drop(rig);
    machine.kill();
    rig = unled(machine).unwrap_or_else(|error| panic!("{context}, again: {error}"));
    assert_eq!(rig.rounds, 0, "{context}: recovering twice is once");
    assert_eq!(rig.partitions[0].bounds(), bounds, "{context}");
    assert!(contents(&rig.partitions[0]) == first, "{context}");
    follow_in(&rig, 1000);
    let end = bounds.log_end.0;
    fill(&mut rig, end..end + 1, 1000);
    drop(rig);
    machine.kill();
    let rig = unled(machine).unwrap();
    assert_eq!(last_sequence(&rig), Some(end), "{context}");
}

#[test]
fn log_whose_files_go_early_survives_a_power_cut_at_any_disk_operation() {
    let operations = {
        let machine = machine(7);
        let mut history = History::default();
        let mut rig = follower(&machine);
        work(&mut rig, &machine, &mut history, |_| ());
        let operations = machine.counts().disk_ops;
        // Producers are known again once the files have seen the cuts.
        rig.work(&machine, SECOND, &mut []);
        history.allows(&rig).unwrap();
        let bounds = rig.partitions[0].bounds();
        assert!(bounds.log_start < bounds.local_start, "{bounds:?}");
        operations
    };
    assert!(operations > 200, "{operations} operations");
    for at in 1..=operations {
        let machine = machine(7);
        machine.faults(|faults| faults.crash_at_op = Some(at));
        let mut history = History::default();
        if let Ok(mut rig) = unled(&machine) {
            follow_in(&rig, EPOCH);
            work(&mut rig, &machine, &mut history, |_| ());
        }
        machine.power_cut();
        recover_and_go_on(&machine, &history, &format!("cut at operation {at}"));
    }
}

#[test]
fn every_state_that_a_crash_can_leave_of_early_files_and_rebuilds_recovers() {
    let machine = machine(3);
    machine.record();
    let mut promised = vec![(0, History::default())];
    let mut history = History::default();
    let mut rig = follower(&machine);
    work(&mut rig, &machine, &mut history, |history| {
        promised.push((machine.recorded(), history.clone()));
    });
    drop(rig);
    let tape = machine.tape();
    let mut images = 0;
    for point in (0..tape.points()).step_by(2) {
        for image in tape.images(point, 3, 11) {
            let machine = Machine::on(5, Faults::default(), image.volume);
            let at = promised.partition_point(|(length, _)| *length <= point);
            let later = &promised[at.min(promised.len() - 1)].1;
            let history = History {
                durable: promised[at - 1].1.durable,
                ..later.clone()
            };
            recover_and_go_on(&machine, &history, &format!("point {point} image {images}"));
            images += 1;
        }
    }
    assert!(images > 200, "{images} images");
}
