//! Rounds whose syncs are under way together, as on a slow disk: none is told before those that came first, none after a loss.

use std::io;

use log::journal::SYNCS_MAX;
use partition::{Begun, Flight};

use super::power::{configs, forgive_relaxed};
use super::*;

pub(super) fn slow_machine(seed: u64) -> Machine {
    let slow = Faults {
        sync_nanos: 2_000_000..3_000_000,
        ..Faults::default()
    };
    Machine::new(seed, slow)
}

/// A directory that has found out how slow its disk is.
fn open_slow(machine: &Machine, configs: &[LogConfig], known: &mut [Known]) -> Rig {
    find_slow(open(machine, configs).unwrap(), known)
}

/// The same, with room in one journal piece for all that a test does.
fn open_slow_and_roomy(machine: &Machine, configs: &[LogConfig], known: &mut [Known]) -> Rig {
    let roomy = DirSettings {
        journal_piece_bytes: 1 << 20,
        journal_first_piece_bytes: 1 << 20,
        ..settings()
    };
    let rig = open_at(machine, Path::new(DIR), roomy, configs).unwrap();
    find_slow(rig, known)
}

fn find_slow(mut rig: Rig, known: &mut [Known]) -> Rig {
    while !rig.dir.is_slow() {
        rig.append(0, &[b"warm".to_vec()], known).unwrap();
        rig.commit(known);
    }
    rig
}

fn begin(rig: &Rig) -> Flight {
    match rig.dir.begin_commit(&mut Vec::new()) {
        Begun::Written(flight) => flight,
        _ => panic!("a round can be begun"),
    }
}

fn append_and_begin(rig: &mut Rig, at: usize, known: &mut [Known]) -> Flight {
    rig.append(at, &[b"value".to_vec()], known).unwrap();
    begin(rig)
}

fn finish(rig: &mut Rig, flight: &Flight, synced: io::Result<()>, known: &mut [Known]) {
    let mut news = Vec::new();
    rig.dir.finish(flight, synced, &mut news);
    rig.hear(news, known);
}

#[test]
fn a_round_is_told_when_those_before_it_are_durable_too() {
    let machine = slow_machine(1);
    let mut known = vec![Known::default(); 2];
    let mut rig = open_slow_and_roomy(&machine, &[small_segments(), small_segments()], &mut known);
    let flights: Vec<_> = [0, 1, 0]
        .iter()
        .map(|at| append_and_begin(&mut rig, *at, &mut known))
        .collect();
    let acked = |known: &[Known]| [known[0].acked, known[1].acked];
    let before = acked(&known);
    for at in [2, 1] {
        let synced = flights[at].sync();
        finish(&mut rig, &flights[at], synced, &mut known);
        assert_eq!(acked(&known), before, "the first one is still under way");
    }
    let synced = flights[0].sync();
    finish(&mut rig, &flights[0], synced, &mut known);
    assert_eq!(acked(&known), [before[0] + 2, before[1] + 1]);
}

#[test]
fn so_many_rounds_are_under_way_at_most() {
    let machine = slow_machine(1);
    let mut known = vec![Known::default()];
    let mut rig = open_slow_and_roomy(&machine, &[small_segments()], &mut known);
    let flights: Vec<_> = (0..SYNCS_MAX)
        .map(|_| append_and_begin(&mut rig, 0, &mut known))
        .collect();
    rig.append(0, &[b"one more".to_vec()], &mut known).unwrap();
    assert!(matches!(rig.dir.begin_commit(&mut Vec::new()), Begun::Busy));
    for flight in &flights {
        let synced = flight.sync();
        finish(&mut rig, flight, synced, &mut known);
    }
    rig.commit(&mut known);
    assert_eq!(known[0].acked, rig.partitions[0].bounds().log_end.0);
}

#[test]
fn a_piece_is_left_when_nobody_waits_for_its_sync() {
    let machine = slow_machine(1);
    let mut known = vec![Known::default()];
    let mut rig = open_slow(&machine, &[small_segments()], &mut known);
    let mut waited = 0;
    for _ in 0..20 {
        let first = append_and_begin(&mut rig, 0, &mut known);
        rig.append(0, &[vec![b'x'; 6 << 10]], &mut known).unwrap();
        let second = rig.dir.begin_commit(&mut Vec::new());
        let synced = first.sync();
        finish(&mut rig, &first, synced, &mut known);
        let second = match second {
            Begun::Written(second) => second,
            _ => {
                waited += 1;
                begin(&rig)
            }
        };
        let synced = second.sync();
        finish(&mut rig, &second, synced, &mut known);
        assert_eq!(known[0].acked, rig.partitions[0].bounds().log_end.0);
    }
    assert!(waited > 2, "pieces must have been left: {waited}");
    machine.power_cut();
    let rig = open(&machine, &[small_segments()]).unwrap();
    check(&rig, &mut known, "after a power cut");
}

#[test]
fn lost_pages_are_told_to_every_round_that_waits() {
    for first_to_sync in 0..3 {
        let machine = slow_machine(1);
        let mut known = vec![Known::default()];
        let mut rig = open_slow_and_roomy(&machine, &[small_segments()], &mut known);
        let flights: Vec<_> = (0..3)
            .map(|_| append_and_begin(&mut rig, 0, &mut known))
            .collect();
        let acked = known[0].acked;
        let next = machine.counts().syncs + 1;
        machine.faults(|faults| faults.sync_fails_at = Some(next));
        let failed = flights[first_to_sync].sync();
        assert!(failed.is_err());
        // The pages are marked clean now, and the same sync again would find nothing to do.
        for (at, flight) in flights.iter().enumerate() {
            if at != first_to_sync {
                let synced = flight.sync();
                assert!(synced.is_err(), "{at} after {first_to_sync}");
                finish(&mut rig, flight, synced, &mut known);
            }
        }
        finish(&mut rig, &flights[first_to_sync], failed, &mut known);
        assert_eq!(known[0].acked, acked);
        assert!(rig.dir.is_failed());
        assert_eq!(rig.failed.len(), 3, "each hears of it once");
    }
}

/// Begins, syncs and ends rounds in any order, until the power goes.
fn work_together(rig: &mut Rig, machine: &Machine, known: &mut [Known], turns: u64) -> usize {
    let rng = machine.env().rng;
    let mut flights: Vec<(Flight, Option<io::Result<()>>)> = Vec::new();
    let mut together = 0;
    for turn in 0..turns {
        let pick = rng.next_u64() as usize;
        match pick % 4 {
            0 => {
                let at = pick / 4 % 4;
                let _ = rig.append(at, &[value("t", turn as usize)], known);
            }
            1 => {
                let mut news = Vec::new();
                if let Begun::Written(flight) = rig.dir.begin_commit(&mut news) {
                    flights.push((flight, None));
                }
                rig.hear(news, known);
            }
            2 if !flights.is_empty() => {
                let at = pick / 4 % flights.len();
                let (flight, synced) = &mut flights[at];
                if synced.is_none() {
                    *synced = Some(flight.sync());
                }
            }
            3 if !flights.is_empty() => {
                let at = pick / 4 % flights.len();
                if let Some(synced) = flights[at].1.take() {
                    let (flight, _) = flights.remove(at);
                    finish(rig, &flight, synced, known);
                }
            }
            _ => {}
        }
        if pick.is_multiple_of(97) {
            rig.work(machine, SECOND / 5, known);
        }
        together = together.max(flights.len());
    }
    together
}

#[test]
fn power_cuts_between_any_steps_lose_nothing_that_was_told() {
    let mut together = 0;
    for seed in 0..60 {
        let machine = slow_machine(seed);
        let mut known = vec![Known::default(); 4];
        for life in 0..3 {
            let mut rig = open_slow(&machine, &configs(), &mut known);
            let turns = 20 + machine.env().rng.next_u64() % 400;
            together = together.max(work_together(&mut rig, &machine, &mut known, turns));
            machine.power_cut();
            drop(rig);
            let rig = open(&machine, &configs()).unwrap();
            forgive_relaxed(&rig, &mut known);
            check(&rig, &mut known, &format!("seed {seed} life {life}"));
            drop(rig);
            machine.kill();
        }
    }
    assert!(together >= 4, "{together}");
}

#[test]
fn a_failing_sync_at_any_place_is_told_to_all_and_nothing_told_is_lost() {
    let mut failed = 0;
    for seed in 0..120 {
        let machine = slow_machine(seed);
        let mut known = vec![Known::default(); 4];
        let mut rig = open_slow(&machine, &configs(), &mut known);
        let at = machine.counts().syncs + 1 + seed % 30;
        machine.faults(|faults| faults.sync_fails_at = Some(at));
        work_together(&mut rig, &machine, &mut known, 300);
        failed += u64::from(rig.dir.is_failed());
        machine.power_cut();
        drop(rig);
        machine.faults(|faults| faults.sync_fails_at = None);
        let rig = open(&machine, &configs()).unwrap();
        forgive_relaxed(&rig, &mut known);
        check(&rig, &mut known, &format!("seed {seed}"));
    }
    assert!(failed > 60, "{failed}");
}

#[test]
fn a_round_without_a_sync_says_nothing_of_the_disk() {
    let machine = slow_machine(1);
    let mut known = vec![Known::default(); 2];
    let relaxed = LogConfig {
        durability: Durability::Os,
        ..small_segments()
    };
    let mut rig = open_slow_and_roomy(&machine, &[small_segments(), relaxed], &mut known);
    let average = rig.dir.commit_average();
    for _ in 0..40 {
        rig.append(1, &[b"relaxed".to_vec()], &mut known).unwrap();
        rig.commit(&mut known);
    }
    assert_eq!(rig.dir.commit_average(), average);
    assert!(rig.dir.is_slow());
}
