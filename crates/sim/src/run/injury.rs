//! The disk hurts a broker at work: a write lands on another page of its file, or a range of a file cannot be read any more.
//!
//! One injury per run. Whoever reads or writes meanwhile, and whoever starts on what is left, may be refused; nobody may be
//! shown other bytes, miss what was acknowledged without a word, or be given an acknowledged offset again. Where a single
//! partition's file cannot be read, the others feel nothing, unless a start needs those bytes: that is refused.

use std::ops::Range;
use std::path::{Path, PathBuf};

use env::sim::{Chance, Faults, Machine};

use super::damage::{Damages, FAILURES_MAX, Hurt, files, judge, last_moment};
use super::host::{End, lone_settings};
use super::plan::Plan;
use super::survey::Known;
use super::{Run, Topics, txn_damage};
use crate::client::reader::DAMAGED;

#[derive(Clone, Debug)]
enum Injury {
    /// The write of this number goes astray.
    Misdirect(u64),
    /// Some range of some file fails to be read from now on.
    Unreadable,
}

/// Injures `count` short runs of `seed`.
#[must_use]
pub fn injuries(seed: u64, count: usize) -> Damages {
    let mut chance = Chance::new(seed);
    let mut plain = begin(seed, Faults::default());
    plain.strike(&Plan::to_damage(seed, Faults::default()));
    let writes = plain.cluster.home().machine.counts().writes.max(2);
    drop(plain);
    let mut tally = Damages::default();
    while tally.tried < count && tally.failures.len() < FAILURES_MAX {
        let injury = if chance.one_in(2) {
            Injury::Misdirect(chance.between(1, writes))
        } else {
            Injury::Unreadable
        };
        tally.tried += 1;
        let (told, problems) = injure(seed, &injury, &mut chance);
        *(if told {
            &mut tally.reported
        } else {
            &mut tally.harmless
        }) += 1;
        let name = |problem| format!("seed {seed}, injury {} {injury:?}: {problem}", tally.tried);
        tally.failures.extend(problems.into_iter().map(name));
    }
    tally
}

/// Injures `count` short runs of transactions of `seed`. What the run answers its clients counts as told, and so does a coordinator
/// that does not answer any more; nobody may be shown what was aborted, or lack without a word what was committed.
#[must_use]
pub fn txn_injuries(seed: u64, count: usize) -> Damages {
    let mut chance = Chance::new(seed);
    let plan = Plan::short_transactions(seed);
    let mut tally = Damages::default();
    while tally.tried < count && tally.failures.len() < FAILURES_MAX {
        let mut run = begin_as(seed, &plan);
        run.strike(&plan);
        if chance.one_in(2) {
            run.cluster.home_mut().stop(&mut run.clients.notes);
        }
        let (path, range) = make_unreadable(&run, &mut chance);
        run.strike(&plan);
        run.drain();
        if chance.one_in(2) {
            run.cluster.home_mut().stop(&mut run.clients.notes)
        } else {
            run.cluster.home_mut().end(End::Kill)
        }
        tally.tried += 1;
        // A reader of what cannot be read waits for ever.
        let waits = |what: &String| what.contains("stay unanswered");
        let violations = std::mem::take(&mut run.clients.notes.violations).into_iter();
        let (waiting, violations): (Vec<String>, Vec<String>) = violations.partition(waits);
        let refused = |what: &String| what.contains("does not start");
        let (refused, mut problems): (Vec<String>, Vec<String>) =
            violations.into_iter().partition(refused);
        let machine = Machine::on(
            seed,
            Faults::default(),
            run.cluster.home().machine.tape().last(),
        );
        // It may be gone meanwhile.
        let _ = machine.fail_reads(&path, range);
        let config = lone_settings(&plan);
        let hurt = txn_damage::Hurt {
            path: &path,
            was_refused: !refused.is_empty(),
            is_rot: false,
        };
        let (is_told, found) = txn_damage::judge(&machine, &config, &plan, &mut run, &hurt);
        problems.extend(found);
        if !is_told {
            problems.extend(waiting);
        }
        *(if is_told {
            &mut tally.reported
        } else {
            &mut tally.harmless
        }) += 1;
        let name = |problem| {
            let path = path.display();
            format!("seed {seed}, injury {} of {path}: {problem}", tally.tried)
        };
        tally.failures.extend(problems.into_iter().map(name));
    }
    tally
}

fn begin(seed: u64, faults: Faults) -> Run {
    begin_as(seed, &Plan::to_damage(seed, faults))
}

fn begin_as(seed: u64, plan: &Plan) -> Run {
    let mut run = Run::new(seed, plan);
    run.done_at = Some(Vec::new());
    run.set_up();
    run
}

fn injure(seed: u64, injury: &Injury, chance: &mut Chance) -> (bool, Vec<String>) {
    let mut faults = Faults::default();
    if let Injury::Misdirect(at) = injury {
        faults.misdirect_write_at = Some(*at);
    }
    let plan = Plan::to_damage(seed, faults.clone());
    let mut run = begin(seed, faults);
    run.strike(&plan);
    let mut path = PathBuf::new();
    if matches!(injury, Injury::Unreadable) {
        // The writes of a life are in its memory; the next one reads.
        if chance.one_in(2) {
            run.cluster.home_mut().stop(&mut run.clients.notes);
        }
        (path, _) = make_unreadable(&run, chance);
    }
    run.strike(&plan);
    run.drain();
    let is_clean = chance.one_in(2);
    if is_clean {
        run.cluster.home_mut().stop(&mut run.clients.notes);
    } else if chance.one_in(2) {
        run.cluster.home_mut().end(End::PowerCut);
    } else {
        run.cluster.home_mut().end(End::Kill);
    }
    run.cluster
        .home()
        .machine
        .faults(|faults| faults.misdirect_write_at = None);
    // A life does not read again what it wrote before it shows it: there a batch's own checksum is the last line.
    let is_astray = matches!(injury, Injury::Misdirect(_));
    let told =
        |what: &String| what.contains("does not start") || is_astray && what.contains(DAMAGED);
    let (told, mut problems): (Vec<String>, Vec<String>) =
        std::mem::take(&mut run.clients.notes.violations)
            .into_iter()
            .partition(told);
    let topics: Topics = run.clients.topics.clone();
    let done_at: Vec<usize> = (0..run.clients.notes.history.ops.len()).collect();
    let point = if is_clean {
        usize::MAX
    } else {
        last_moment(&run)
    };
    let known = Known::new(&mut run.clients.notes, &topics, &done_at);
    let config = lone_settings(&plan);
    let hurt = Hurt {
        path: &path,
        was_told: !told.is_empty(),
        is_rot: false,
        may_refuse_start: true,
        point,
        table: run.clients.keeper.as_ref(),
    };
    let (is_told, found) = judge(&run.cluster.home().machine, &config, &topics, &known, &hurt);
    problems.extend(found);
    let name = |problem| format!("{}: {problem}", path.display());
    let problems = problems.into_iter().map(name).collect();
    (is_told, problems)
}

fn make_unreadable(run: &Run, chance: &mut Chance) -> (PathBuf, Range<u64>) {
    let machine = &run.cluster.home().machine;
    let (path, len) = chance.pick(&files(machine, Path::new("/data"))).clone();
    let from = chance.below(len);
    let to = (from + chance.between(1, 64 << 10)).min(len);
    let bad = machine.fail_reads(&path, from..to);
    bad.expect("a file that was listed is there");
    (path, from..to)
}
