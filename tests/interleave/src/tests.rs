//! The interleavings that once could lose, strand or forget something, each named for what must not happen.

use std::sync::Arc;

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, Runner, thread};

use crate::isolation::{Isolation, Scope};
use crate::news::News;
use crate::rig::{Rig, run_until_asleep, run_until_stopped, ticket};
use model::Offset;

/// Schedules per scheduler and test: each takes a fraction of a millisecond, and the rarest bug that was put back on purpose
/// needs some hundred.
const SCHEDULES: usize = 1500;

/// Random switches find what is likely; few switches at random places find what needs one thread to stand still for long.
pub(crate) fn explore(run: impl Fn() + Send + Sync + Clone + 'static) {
    let schedulers: [Box<dyn Scheduler + Send>; 4] = [
        Box::new(RandomScheduler::new_from_seed(7, SCHEDULES)),
        Box::new(PctScheduler::new_from_seed(7, 1, SCHEDULES)),
        Box::new(PctScheduler::new_from_seed(7, 2, SCHEDULES)),
        Box::new(PctScheduler::new_from_seed(7, 3, SCHEDULES)),
    ];
    for scheduler in schedulers {
        let mut config = Config::new();
        config.stack_size = 1 << 20;
        config.failure_persistence = FailurePersistence::Print;
        Runner::new(scheduler, config).run(run.clone());
    }
}

/// The same on a disk that takes one round at a time, and on one that takes several.
fn explore_disks(run: impl Fn(Arc<Rig>) + Send + Sync + Clone + 'static) {
    for make in [Rig::new, Rig::slow] {
        let run = run.clone();
        explore(move || run(make()));
    }
}

#[test]
fn no_append_is_stranded_between_two_committers_and_none_is_answered_twice() {
    explore_disks(|rig| {
        let threads: Vec<_> = (0..3u32)
            .map(|number| {
                let rig = Arc::clone(&rig);
                thread::spawn(move || {
                    for turn in 0..2 {
                        rig.append(number as usize % 2, number * 2 + turn);
                        rig.commit();
                    }
                })
            })
            .collect();
        // As a commit thread that was rung for what another has taken already.
        rig.commit();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert!(!rig.dir.has_queued(), "nobody is left who would commit it");
        assert_eq!(rig.committed(), (0..6).collect::<Vec<_>>());
    });
}

#[test]
fn an_answer_never_comes_before_its_record_is_durable() {
    explore_disks(|rig| {
        let appender = {
            let rig = Arc::clone(&rig);
            thread::spawn(move || {
                for turn in 0..3 {
                    rig.append(0, turn);
                    rig.commit();
                }
            })
        };
        let other = {
            let rig = Arc::clone(&rig);
            thread::spawn(move || {
                rig.append(1, 9);
                rig.commit();
            })
        };
        let cut = {
            let rig = Arc::clone(&rig);
            thread::spawn(move || {
                let before = rig.committed();
                // An announcement at this moment has to survive a loss of power at this moment.
                let ends = rig.ends_after_a_power_cut();
                let promised = before.iter().filter(|index| **index < 9).count() as i64;
                assert!(
                    Offset(promised) <= ends[0],
                    "{before:?} were answered, {ends:?} is there"
                );
                assert!(Offset(i64::from(before.contains(&9))) <= ends[1]);
            })
        };
        for thread in [appender, other, cut] {
            thread.join().unwrap();
        }
    });
}

#[test]
fn a_checkpoint_never_covers_an_append_that_the_segments_lack() {
    explore_disks(|rig| {
        // Made before anything is committed, or it would take that for checkpointed.
        let mut writer = rig.writer();
        let writer = thread::spawn(move || {
            run_until_asleep(&mut writer);
        });
        let shards: Vec<_> = (0..2u32)
            .map(|number| {
                let rig = Arc::clone(&rig);
                thread::spawn(move || {
                    rig.append(number as usize, number);
                    rig.commit();
                })
            })
            .collect();
        shards.into_iter().for_each(|shard| shard.join().unwrap());
        writer.join().unwrap();
        assert_eq!(rig.committed(), [0, 1]);
        assert_eq!(rig.ends_after_a_power_cut(), [Offset(1), Offset(1)]);
    });
}

#[test]
fn a_sleeping_segment_writer_is_rung_for_every_commit() {
    explore(|| {
        let rig = Rig::new();
        let writer = {
            let rig = Arc::clone(&rig);
            thread::spawn(move || {
                run_until_stopped(&rig, &mut rig.writer());
            })
        };
        for index in 0..2 {
            rig.append(0, index);
            rig.commit();
        }
        // Either the writer is awake and will look, or it has written everything before it went to sleep.
        if rig.bell.has_sleeper() {
            let state = rig.partitions[0].state.lock();
            assert_eq!(
                state.tail.written(),
                Offset(2),
                "it sleeps beside unwritten batches"
            );
        }
        rig.dir.stop();
        writer.join().unwrap();
        assert_eq!(rig.partitions[0].state.lock().tail.written(), Offset(2));
    });
}

#[test]
fn a_reader_that_waits_is_told_of_the_commit_it_did_not_see() {
    explore(|| {
        let rig = Rig::new();
        let reader = {
            let rig = Arc::clone(&rig);
            thread::spawn(move || {
                let seen = rig.partitions[0].bounds().high_watermark;
                (
                    rig.partitions[0].watch(
                        ticket(77),
                        seen,
                        Scope::of_leader(Isolation::Uncommitted),
                    ),
                    seen,
                )
            })
        };
        let shard = {
            let rig = Arc::clone(&rig);
            thread::spawn(move || {
                rig.append(0, 1);
                rig.commit();
            })
        };
        let (waits, seen) = reader.join().unwrap();
        shard.join().unwrap();
        let told = rig.heard(|item| match item {
            News::Readable(ticket) => Some(ticket.part),
            _ => None,
        });
        match (waits, seen) {
            (true, Offset(0)) => assert_eq!(told, [77], "it would wait for ever"),
            (true, _) => assert!(told.is_empty(), "there is nothing more to read"),
            (false, seen) => assert!(
                seen < Offset(1) && told.is_empty(),
                "it looks again by itself"
            ),
        }
    });
}

#[test]
fn a_failing_directory_answers_every_append_once_and_takes_none_later() {
    explore_disks(|rig| {
        let next = rig.machine.counts().syncs + 2;
        rig.machine
            .faults(|faults| (faults.sync_fails_at, faults.sync_fails_on) = (Some(next), true));
        let threads: Vec<_> = (0..3u32)
            .map(|number| {
                let rig = Arc::clone(&rig);
                thread::spawn(move || {
                    let taken: Vec<u32> = (0..2)
                        .map(|turn| number * 2 + turn)
                        .filter(|index| {
                            let offset = rig.append(number as usize % 2, *index);
                            rig.commit();
                            offset.is_some()
                        })
                        .collect();
                    taken
                })
            })
            .collect();
        let mut taken: Vec<u32> = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect();
        taken.sort_unstable();
        let answered = rig.heard(|item| match item {
            News::Reached(ticket) | News::Failed(ticket) => Some(ticket.part),
            News::NotLeader(_) | News::TooFewReplicas(_) => panic!("one broker leads"),
            News::Readable(_) => None,
        });
        assert_eq!(
            answered, taken,
            "each that was taken is answered, and only those"
        );
        assert_eq!(rig.append(0, 99), None);
        assert!(!rig.dir.has_queued());
    });
}
