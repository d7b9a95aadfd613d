//! Power cuts and kills at every point: what was acknowledged is there, at its offset, with its bytes.

use log::checkpoint::Checkpoint;

use super::*;

/// Partitions of every kind: durable, in the page cache, trimmed.
pub(super) fn configs() -> Vec<LogConfig> {
    let relaxed = LogConfig {
        durability: Durability::Os,
        ..small_segments()
    };
    vec![
        small_segments(),
        small_segments(),
        relaxed,
        small_segments(),
    ]
}

/// Appends, commits, checkpoints, trims; ends early when the machine is off. `on_commit` hears of each commit.
pub(super) fn work(
    rig: &mut Rig,
    machine: &Machine,
    known: &mut [Known],
    tag: &str,
    mut on_commit: impl FnMut(&[Known]),
) {
    for step in 0..40 {
        for at in 0..4 {
            if (step + at) % 3 != 0 {
                let values: Vec<_> = (0..step % 3 + 1)
                    .map(|i| value(tag, step * 10 + i))
                    .collect();
                let _ = rig.append(at, &values, known);
            }
        }
        if step % 11 == 5 {
            let to = rig.partitions[3].bounds().high_watermark.0 * 2 / 3;
            let _ = rig.trim(3, to, known);
        }
        if step % 4 != 1 {
            rig.commit(known);
            on_commit(known);
        }
        if step % 3 == 2 {
            rig.work(machine, SECOND / 5, known);
            on_commit(known);
        }
        if machine.is_off() || rig.dir.is_failed() {
            return;
        }
    }
}

/// Of relaxed topics nothing was promised.
pub(super) fn forgive_relaxed(rig: &Rig, known: &mut [Known]) {
    let end = rig.partitions[2].bounds().log_end.0;
    known[2].acked = known[2].acked.min(end);
}

fn recover_and_go_on(machine: &Machine, known: &mut [Known], context: &str) {
    let mut rig = open(machine, &configs()).unwrap_or_else(|error| panic!("{context}: {error}"));
    forgive_relaxed(&rig, known);
    check(&rig, known, context);
    let (before, rounds) = (
        rig.partitions
            .iter()
            .map(|of| of.bounds())
            .collect::<Vec<_>>(),
        rig.rounds,
    );
    drop(rig);
    machine.kill();
    rig = open(machine, &configs()).unwrap_or_else(|error| panic!("{context}, again: {error}"));
    let after: Vec<_> = rig.partitions.iter().map(|of| of.bounds()).collect();
    assert_eq!(
        before, after,
        "{context}: recovering twice is recovering once"
    );
    assert_eq!(
        rig.rounds, 0,
        "{context}: {rounds} rounds were replayed before"
    );
    check(&rig, known, context);
    for at in 0..4 {
        rig.append(at, &[value("later", at)], known).unwrap();
    }
    rig.commit(known);
    assert!(rig.waiting.is_empty() && rig.failed.is_empty());
    drop(rig);
    machine.kill();
    let rig = open(machine, &configs()).unwrap();
    check(&rig, known, context);
}

#[test]
fn every_acknowledged_record_survives_a_power_cut_at_any_disk_operation() {
    let operations = {
        let machine = machine(7);
        let mut known = vec![Known::default(); 4];
        let mut rig = open(&machine, &configs()).unwrap();
        work(&mut rig, &machine, &mut known, "one", |_| ());
        assert!(rig.waiting.is_empty(), "every ticket was redeemed");
        assert!(known.iter().all(|known| known.acked > 20));
        machine.counts().disk_ops
    };
    assert!(operations > 300, "{operations} operations");
    let mut lost = 0;
    for at in 1..=operations {
        let machine = machine(7);
        machine.faults(|faults| faults.crash_at_op = Some(at));
        let mut known = vec![Known::default(); 4];
        if let Ok(mut rig) = open(&machine, &configs()) {
            work(&mut rig, &machine, &mut known, "one", |_| ());
        }
        assert!(machine.is_off(), "operation {at} was reached");
        lost += machine.power_cut().pages;
        recover_and_go_on(&machine, &mut known, &format!("cut at operation {at}"));
    }
    assert!(lost > operations, "cuts must lose pages: {lost}");
}

#[test]
fn every_state_that_a_crash_can_leave_recovers() {
    let machine = machine(3);
    machine.record();
    // The promises when the tape was this long.
    let mut promised = vec![(0, vec![Known::default(); 4])];
    let mut known = vec![Known::default(); 4];
    let mut rig = open(&machine, &configs()).unwrap();
    work(&mut rig, &machine, &mut known, "one", |known| {
        promised.push((machine.recorded(), known.to_vec()));
    });
    drop(rig);
    let tape = machine.tape();
    let mut images = 0;
    for point in (0..tape.points()).step_by(3) {
        for image in tape.images(point, 3, 11) {
            let machine = Machine::on(5, Faults::default(), image.volume);
            let at = promised.partition_point(|(length, _)| *length <= point);
            let mut known: Vec<Known> = promised[at - 1].1.clone();
            // Sent later than promised, and perhaps there already.
            for (known, later) in known
                .iter_mut()
                .zip(&promised[(at).min(promised.len() - 1)].1)
            {
                known.sent.extend(later.sent.clone());
                known.start_asked = known.start_asked.max(later.start_asked);
            }
            recover_and_go_on(
                &machine,
                &mut known,
                &format!("point {point} image {images}"),
            );
            images += 1;
        }
    }
    assert!(images > 300, "{images} images");
}

#[test]
fn kills_and_cuts_one_after_the_other_lose_nothing_acknowledged() {
    for seed in 0..25 {
        let machine = machine(seed);
        let mut known = vec![Known::default(); 4];
        for life in 0..6 {
            let context = format!("seed {seed} life {life}");
            machine.faults(|faults| faults.crash_at_op = None);
            let mut rig = open(&machine, &configs()).unwrap();
            forgive_relaxed(&rig, &mut known);
            check(&rig, &mut known, &context);
            let operation = machine.counts().disk_ops + machine.env().rng.next_u64() % 500;
            if life % 3 != 2 {
                machine.faults(|faults| faults.crash_at_op = Some(operation));
            }
            work(&mut rig, &machine, &mut known, &context, |_| ());
            drop(rig);
            if life % 3 == 1 {
                machine.kill();
                machine.power_cut();
            } else if machine.is_off() {
                machine.power_cut();
            } else {
                machine.kill();
            }
        }
    }
}

/// Files end in front of a batch and the log starts in the middle of it: so a checkpoint says that was begun before the batch.
#[test]
fn a_trim_into_a_batch_during_a_checkpoint_leaves_the_rest_of_the_batch() {
    let (mut ahead, mut without_files) = (0, 0);
    for turns_before in 0..6 {
        for turns_after in 0..4 {
            let context = format!("{turns_before} turns before, {turns_after} after");
            let machine = machine(1);
            let mut known = vec![Known::default(); 2];
            let configs = [small_segments(), small_segments()];
            let mut rig = open(&machine, &configs).unwrap();
            for number in 0..200 {
                rig.append(0, &[value("v", number)], &mut known).unwrap();
                rig.commit(&mut known);
            }
            (0..turns_before).for_each(|_| _ = rig.writer.turn());
            for at in 0..2 {
                let values: Vec<_> = (0..10).map(|number| value("late", number)).collect();
                let base = rig.append(at, &values, &mut known).unwrap();
                rig.commit(&mut known);
                rig.trim(at, base + 5, &mut known).unwrap();
                rig.commit(&mut known);
            }
            (0..turns_after).for_each(|_| _ = rig.writer.turn());
            drop(rig);
            machine.power_cut();
            let stored = Checkpoint::load(&*machine.env().disk, Path::new(DIR)).unwrap();
            for row in stored.into_iter().flat_map(|stored| stored.rows) {
                ahead += usize::from(row.has_files && row.log_start > row.log_end);
                without_files += usize::from(!row.has_files && row.log_start > Offset::ZERO);
            }
            let mut rig = open(&machine, &configs).unwrap();
            check(&rig, &mut known, &context);
            for at in 0..2 {
                rig.append(at, &[value("next", 1)], &mut known).unwrap();
            }
            rig.commit(&mut known);
            rig.stop();
            drop(rig);
            machine.power_cut();
            let rig = open(&machine, &configs).unwrap();
            check(&rig, &mut known, &context);
        }
    }
    assert!(ahead > 0, "no checkpoint was taken around a trim");
    assert!(without_files > 0, "none of a partition without files");
}
