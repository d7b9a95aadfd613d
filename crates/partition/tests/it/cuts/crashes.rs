//! Logs that are cut and begun anew, and crashes anywhere in between.

use super::*;

/// Everything that was done to the log, in order, and how much of it was told to be durable.
#[derive(Clone, Default)]
struct History {
    ops: Vec<Op>,
    durable: usize,
    committed: i64,
}

#[derive(Clone)]
enum Op {
    Append(Batch),
    Cut(i64),
    Restart(i64),
}

/// Log start, and batches.
type Log = (i64, Vec<(i64, i32, Vec<u8>)>);

impl History {
    /// The log behind the first of the operations.
    fn log(&self, count: usize) -> Log {
        let (mut start, mut log) = (0, Vec::new());
        for op in &self.ops[..count] {
            match op {
                Op::Append(batch) => log.push(shape(batch)),
                Op::Cut(to) => log.retain(|(base, ..)| base < to),
                Op::Restart(at) => (start, log) = (*at, Vec::new()),
            }
        }
        (start, log)
    }

    /// A crash may take what was not durable, and nothing else. True if the log is what some of the operations left.
    fn allows(&self, found: &Log) -> bool {
        (self.durable..=self.ops.len()).any(|count| self.log(count) == *found)
    }
}

fn found(rig: &Rig) -> Log {
    let partition = &rig.partitions[0];
    (partition.bounds().log_start.0, contents(partition))
}

/// Follows, is cut, begins anew; ends early when the machine is off.
fn work(
    rig: &mut Rig,
    machine: &Machine,
    history: &mut History,
    mut on_step: impl FnMut(&History),
) {
    let mut known = vec![Known::default(); 2];
    lead(&rig.partitions[1], 9);
    let mut epoch = EPOCH;
    for step in 0..36_usize {
        let end = rig.partitions[0].bounds().log_end.0;
        let batches: Vec<Batch> = (0..step as i64 % 4)
            .map(|at| led(end + at, epoch, &[value("v", step * 10)]))
            .collect();
        if follow(rig, &batches, epoch).is_ok() {
            history.ops.extend(batches.into_iter().map(Op::Append));
        }
        // Another log shares the rounds.
        let _ = rig.append(1, &[value("other", step)], &mut known);
        if step % 3 == 1 {
            let bounds = rig.partitions[0].bounds();
            let (low, end) = (bounds.high_watermark.0, bounds.log_end.0);
            let back = if step % 2 == 0 { 2 } else { 9 };
            epoch += 1;
            follow_in(rig, epoch);
            let to = (end - back).max(low);
            if to < end && cut(rig, to, epoch).is_ok() {
                history.ops.push(Op::Cut(to));
            }
        }
        if step == 14 || step == 27 {
            let end = rig.partitions[0].bounds().log_end.0;
            let at = end + 50 - step as i64;
            let restart = Restart {
                log_start: Offset(at),
                at: Offset(at),
                epoch: LeaderEpoch(epoch),
            };
            if rig.partitions[0].restart(restart).is_ok() {
                history.ops.push(Op::Restart(at));
                history.committed = at;
            }
        }
        if step % 4 != 2 || step == 14 {
            rig.commit(&mut known);
            if !rig.dir.is_failed() && !machine.is_off() {
                history.durable = history.ops.len();
            }
            on_step(history);
        }
        if step % 7 == 3 {
            let durable = rig.partitions[0].bounds().durable.0;
            history.committed = history.committed.max(committed(rig, durable - 4));
        }
        if step % 5 == 2 {
            rig.work(machine, SECOND / 3, &mut known);
            on_step(history);
        }
        if machine.is_off() || rig.dir.is_failed() {
            return;
        }
    }
}

fn recover_and_go_on(machine: &Machine, history: &History, context: &str) {
    let mut rig = unled(machine).unwrap_or_else(|error| panic!("{context}: {error}"));
    let first = found(&rig);
    let bounds = rig.partitions[0].bounds();
    let states: Vec<_> = (history.durable..=history.ops.len())
        .map(|count| history.log(count))
        .map(|(start, log)| (start, log.last().map(|last| (last.0, last.1))))
        .collect();
    assert!(
        history.allows(&first),
        "{context}: {bounds:?} with {} batches to {:?} is none of {states:?}",
        first.1.len(),
        first.1.last().map(|last| (last.0, last.1)),
    );
    let most = history.committed.max(bounds.log_start.0);
    assert!(bounds.high_watermark.0 <= most, "{context}: {bounds:?}");
    drop(rig);
    machine.kill();
    rig = unled(machine).unwrap_or_else(|error| panic!("{context}, again: {error}"));
    assert_eq!(rig.rounds, 0, "{context}: recovering twice is once");
    assert!(found(&rig) == first, "{context}: another log the next time");
    follow_in(&rig, 1000);
    let end = rig.partitions[0].bounds().log_end.0;
    let next = led(end, 1000, &[value("later", 1)]);
    follow(&mut rig, std::slice::from_ref(&next), 1000).unwrap();
    commit(&rig);
    drop(rig);
    machine.kill();
    let rig = unled(machine).unwrap();
    let mut want = first;
    want.1.push(shape(&next));
    assert!(found(&rig) == want, "{context}: what was followed later");
}

#[test]
fn log_that_was_cut_and_begun_anew_survives_a_power_cut_at_any_disk_operation() {
    let operations = {
        let machine = machine(7);
        let mut history = History::default();
        let mut rig = follower(&machine);
        work(&mut rig, &machine, &mut history, |_| ());
        assert_eq!(history.durable, history.ops.len());
        assert!(found(&rig) == history.log(history.durable));
        let cuts = history.ops.iter().filter(|op| matches!(op, Op::Cut(_)));
        assert!(cuts.count() > 6, "the faults of leaders are too kind");
        machine.counts().disk_ops
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
fn every_state_that_a_crash_can_leave_of_cuts_and_restarts_recovers() {
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
            // Sent later than promised, and perhaps there already.
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

/// Eight rounds on their way to a slow disk, with cuts among them, twice in one round; their syncs return in another order, and the
/// power fails after some.
fn cut_under_way(seed: u64, finished: usize) {
    let context = format!("seed {seed}, {finished} syncs");
    let machine = slow_machine(seed);
    let roomy = DirSettings {
        journal_piece_bytes: 1 << 20,
        journal_first_piece_bytes: 1 << 20,
        ..settings()
    };
    let mut rig = unled_with(&machine, roomy).unwrap();
    let mut known = vec![Known::default(); 2];
    lead(&rig.partitions[1], 9);
    while !rig.dir.is_slow() {
        rig.append(1, &[b"warm".to_vec()], &mut known).unwrap();
        rig.commit(&mut known);
    }
    let mut history = History::default();
    let (mut flights, mut ends) = (Vec::new(), Vec::new());
    for round in 0..SYNCS_MAX {
        let epoch = EPOCH + round as i32;
        follow_in(&rig, epoch);
        let cuts = (round + seed as usize) % 3;
        for _ in 0..=cuts {
            let end = rig.partitions[0].bounds().log_end.0;
            let to = (end - 2).max(0);
            if cuts > 0 && to < end {
                cut(&rig, to, epoch).unwrap();
                history.ops.push(Op::Cut(to));
            }
            let end = rig.partitions[0].bounds().log_end.0;
            let sent: Vec<Batch> = (end..end + 3)
                .map(|at| led(at, epoch, &[value("v", round)]))
                .collect();
            follow(&mut rig, &sent, epoch).unwrap();
            history.ops.extend(sent.into_iter().map(Op::Append));
        }
        let Begun::Written(flight) = rig.dir.begin_commit(&mut Vec::new()) else {
            panic!("{context}: round {round} can be begun")
        };
        flights.push(flight);
        ends.push(history.ops.len());
    }
    let mut is_done = [false; SYNCS_MAX];
    let order = (0..SYNCS_MAX).map(|at| (at * 3 + seed as usize) % SYNCS_MAX);
    for at in order.take(finished) {
        let synced = flights[at].sync();
        rig.dir.finish(&flights[at], synced, &mut Vec::new());
        is_done[at] = true;
    }
    let told = is_done.iter().take_while(|is_done| **is_done).count();
    history.durable = told.checked_sub(1).map_or(0, |last| ends[last]);
    let partition = &rig.partitions[0];
    let bounds = partition.bounds();
    let whole = contents(partition);
    assert!(whole == history.log(history.ops.len()).1, "{context}");
    if told == SYNCS_MAX {
        assert_eq!(bounds.durable, bounds.log_end, "{context}");
    }
    let durable = whole.iter().filter(|(base, ..)| *base < bounds.durable.0);
    let durable: Vec<_> = durable.cloned().collect();
    drop(flights);
    drop(rig);
    machine.power_cut();
    let after = contents(&unled(&machine).unwrap().partitions[0]);
    assert!(after.starts_with(&durable), "{context}: told too early");
    machine.kill();
    recover_and_go_on(&machine, &history, &context);
}

#[test]
fn rounds_under_way_beside_cuts_are_told_in_their_order_and_recover() {
    for seed in 0..8 {
        for finished in 0..=SYNCS_MAX {
            cut_under_way(seed, finished);
        }
    }
}
