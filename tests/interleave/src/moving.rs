//! A partition that moves to another directory while threads append to it, commit, and write segments in both.

use std::sync::Arc;

use model::{Offset, PartitionIndex};
use shuttle::thread;
use wire::Uuid;

use crate::dir::{Commit, LogDir, Move, MoveStep, Moved, Residents, SegmentWriter};
use crate::rig::{Rig, TestBell, open_other, run_until_stopped};
use crate::tests::explore;

const APPENDERS: u32 = 2;
const APPENDS: u32 = 3;

fn commit(rig: &Rig, dir: &LogDir) {
    let mut news = Vec::new();
    while dir.commit(&mut news) == Commit::Done && dir.has_queued() {}
    rig.heard.0.lock().extend(news);
}

/// Moves partition 0, or calls the move off when it could be settled.
fn run_move(rig: &Rig, other: &Arc<Residents>, is_settled: bool) {
    let id = Uuid([9; 16]);
    let mut moving = Move::begin(&rig.partitions[0], other, id, Arc::new(Moved::default()));
    // Time stands still for it: no wait is too long.
    let now = rig.machine.now();
    let mut news = Vec::new();
    loop {
        match moving.step(now, 1 << 20).expect("nothing fails") {
            MoveStep::On { .. } => {}
            MoveStep::Wait(_) => thread::yield_now(),
            MoveStep::Placed if is_settled => break moving.switch_over(&mut news),
            MoveStep::Placed => break moving.call_off(None, &mut news),
        }
    }
    rig.heard.0.lock().extend(news);
}

fn moves(is_settled: bool) {
    explore(move || {
        let rig = Rig::new();
        let other = open_other(&rig, Arc::new(TestBell::default()), false);
        let writers: Vec<_> = [Arc::clone(&rig.residents), Arc::clone(&other)]
            .into_iter()
            .map(|residents| {
                let rig = Arc::clone(&rig);
                let mut writer = SegmentWriter::new(residents, rig.heard.clone());
                thread::spawn(move || run_until_stopped(&rig, &mut writer))
            })
            .collect();
        let appenders: Vec<_> = (0..APPENDERS)
            .map(|number| {
                let (rig, other) = (Arc::clone(&rig), Arc::clone(&other));
                thread::spawn(move || {
                    for turn in 0..APPENDS {
                        let appended = rig.append(0, number * APPENDS + turn);
                        assert!(appended.is_some(), "appends wait, they do not fail");
                        commit(&rig, &rig.dir);
                        commit(&rig, &other.dir);
                    }
                })
            })
            .collect();
        run_move(&rig, &other, is_settled);
        for appender in appenders {
            appender.join().unwrap();
        }
        assert!(
            !rig.dir.has_queued() && !other.dir.has_queued(),
            "nobody is left who would commit it"
        );
        let all = APPENDERS * APPENDS;
        assert_eq!(rig.committed(), (0..all).collect::<Vec<_>>());
        let home = if is_settled { &other.dir } else { &rig.dir };
        assert!(Arc::ptr_eq(&rig.partitions[0].dir(), home));
        rig.dir.stop();
        other.dir.stop();
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        assert!(!rig.dir.is_failed() && !other.dir.is_failed());
        drop(other);
        let end = match is_settled {
            false => rig.ends_after_a_power_cut()[0],
            true => {
                rig.machine.power_cut();
                let other = open_other(&rig, Arc::new(TestBell::default()), true);
                let partition = other.partition(rig.partitions[0].topic_id, PartitionIndex(0));
                partition.expect("it lives here").bounds().log_end
            }
        };
        assert_eq!(end, Offset(i64::from(all)));
    });
}

#[test]
fn a_partition_moves_under_its_appenders_and_each_is_answered_once() {
    moves(true);
}

#[test]
fn a_move_that_is_called_off_at_its_end_leaves_every_append_where_it_was() {
    moves(false);
}
