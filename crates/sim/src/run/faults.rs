//! Strikes: when which fault hits, and how it ends.
//!
//! Owns the times. Every kind that struck often enough must also have bitten; a run whose faults did nothing is no proof.

use std::ops::Range;
use std::time::Duration;

use env::sim::Chance;
use model::Instant;

use crate::checker::Fault;
use crate::client::line::Line;

use super::Run;
use super::host::End;
use super::plan::{Plan, SLOW_SYNC_NANOS, Strike};

/// Something to be undone later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Undo {
    FullDisk,
    StickClock,
    SlowDisk,
    SkewClock,
}

pub(super) struct Striker {
    strikes: Vec<Strike>,
    pause: Duration,
    chance: Chance,
    next: Instant,
    undo: Vec<(Instant, Undo)>,
    struck: Vec<Strike>,
    /// Those of them that met a broker at work.
    struck_at_work: Vec<Strike>,
    /// A clean stop that waits for a broker: none was running when it struck.
    owes_stop: bool,
    /// Syncs that had begun when the disk became slow, and those that were slow.
    slow_from: Option<u64>,
    slow_syncs: u64,
    stops: u64,
    /// Of the disk when it is not slowed down.
    sync_nanos: Range<u64>,
}

const DISK_BYTES: u64 = 1 << 40;

impl Striker {
    pub(super) fn new(plan: &Plan, mut chance: Chance, now: Instant) -> Striker {
        // Let some load come first.
        let next = now.plus(Duration::from_millis(chance.between(200, 1_500)));
        Striker {
            strikes: plan.strikes.clone(),
            pause: plan.strike_pause,
            chance,
            next,
            undo: Vec::new(),
            struck: Vec::new(),
            struck_at_work: Vec::new(),
            owes_stop: false,
            slow_from: None,
            slow_syncs: 0,
            stops: 0,
            sync_nanos: plan.faults.sync_nanos.clone(),
        }
    }

    /// When something is to be done next.
    pub(super) fn next(&self) -> Instant {
        let undo = self.undo.iter().map(|(at, _)| *at).min();
        let strike = (!self.strikes.is_empty()).then_some(self.next);
        undo.into_iter()
            .chain(strike)
            .min()
            .unwrap_or(Instant(u64::MAX))
    }

    pub(super) fn act(&mut self, run: &mut Run) {
        let now = run.host.machine.now();
        while let Some(at) = self.undo.iter().position(|(at, _)| *at <= now) {
            let (_, undo) = self.undo.swap_remove(at);
            self.undo_now(undo, run);
        }
        if !self.strikes.is_empty() && self.next <= now {
            let pause = self.pause.as_millis() as u64;
            self.next = now.plus(Duration::from_millis(
                self.chance.between(pause / 4, pause * 2),
            ));
            match *self.chance.pick(&self.strikes) {
                Strike::Restart => self.owes_stop = true,
                strike => self.hit(strike, run),
            }
        }
        if self.owes_stop && run.host.is_running() {
            self.owes_stop = false;
            self.hit(Strike::Restart, run);
        }
    }

    fn hit(&mut self, strike: Strike, run: &mut Run) {
        self.struck.push(strike);
        if run.is_at_work() {
            self.struck_at_work.push(strike);
        }
        let machine = &run.host.machine;
        let counts = machine.counts();
        let now = machine.now();
        let near = self.chance.between(1, 40);
        let later = now.plus(Duration::from_millis(self.chance.between(100, 3_000)));
        match strike {
            Strike::PowerCut => run.host.end(End::PowerCut),
            Strike::PowerCutAtOperation => {
                machine.faults(|faults| set(&mut faults.crash_at_op, counts.disk_ops, near))
            }
            Strike::Kill => run.host.end(End::Kill),
            Strike::Restart => {
                run.host.stop(&mut run.notes);
                self.stops = run.host.stops;
            }
            Strike::FailSync => {
                machine.faults(|faults| set(&mut faults.sync_fails_at, counts.syncs, near))
            }
            Strike::FailWrite => {
                machine.faults(|faults| set(&mut faults.write_fails_at, counts.writes, near))
            }
            Strike::FullDisk => {
                let taken = machine.disk_taken();
                let room = *self.chance.pick(&[0, 100_000, 70 << 20]);
                machine.faults(|faults| faults.disk_bytes = taken + room);
                self.undo.push((later, Undo::FullDisk));
            }
            Strike::JumpClock => {
                machine.jump_wall(self.chance.between(0, 7_200_000) as i64 - 3_600_000)
            }
            Strike::StickClock => {
                machine.stick_wall(true);
                self.undo.push((later, Undo::StickClock));
            }
            Strike::Reset => self.some_lines(run, |line, _| line.conn().reset()),
            Strike::Stall => self.some_lines(run, |line, chance| {
                let time = Duration::from_millis(chance.between(10, 5_000));
                if chance.one_in(2) {
                    line.conn().stall_requests(time)
                } else {
                    line.conn().stall_replies(time)
                }
            }),
            Strike::SlowDisk => {
                machine.faults(|faults| faults.sync_nanos = SLOW_SYNC_NANOS);
                self.slow_from.get_or_insert(counts.syncs);
                self.undo.push((later, Undo::SlowDisk));
            }
            Strike::SkewClock => {
                machine.run_wall_at(self.chance.between(500, 2_000));
                self.undo.push((later, Undo::SkewClock));
            }
        }
    }

    fn some_lines(&mut self, run: &Run, strike: impl Fn(&Line, &mut Chance)) {
        for line in run.lines() {
            if self.chance.one_in(2) {
                strike(line, &mut self.chance);
            }
        }
    }

    /// Ends everything that would go on by itself.
    pub(super) fn heal(&mut self, run: &mut Run) {
        for (_, undo) in std::mem::take(&mut self.undo) {
            self.undo_now(undo, run);
        }
        let machine = &run.host.machine;
        let counts = machine.counts();
        let struck = &mut self.struck;
        machine.faults(|faults| {
            let waiting = [
                (
                    Strike::PowerCutAtOperation,
                    &mut faults.crash_at_op,
                    counts.disk_ops,
                ),
                (Strike::FailSync, &mut faults.sync_fails_at, counts.syncs),
                (Strike::FailWrite, &mut faults.write_fails_at, counts.writes),
            ];
            for (strike, at, count) in waiting {
                // Its operation never came.
                if at.take().is_some_and(|at| count < at) {
                    struck.retain(|other| *other != strike);
                }
            }
            faults.sync_fails_on = false;
        });
    }

    /// What the strikes did, for those kinds of which so many struck that one must have bitten.
    pub(super) fn bites(&self, run: &Run) -> Vec<Fault> {
        let counts = run.host.machine.counts();
        // So many strikes of a kind may all miss, and what they did.
        let walls = [
            (Strike::JumpClock, "clock jump", counts.walls_jumped),
            (Strike::StickClock, "stuck clock", counts.walls_stuck),
            (Strike::SkewClock, "skewed clock", counts.walls_skewed),
        ];
        let walls = walls.map(|(strike, name, bit)| (strike, 2, name, bit));
        let operations = counts.crashes_at_op;
        let kinds = [
            (Strike::PowerCut, 0, "power cut", counts.power_cuts),
            (Strike::PowerCutAtOperation, 3, "cut in a write", operations),
            (Strike::Kill, 0, "kill", counts.kills),
            (Strike::Restart, 1, "clean stop", self.stops),
            (Strike::FailSync, 3, "failed sync", counts.syncs_failed),
            (Strike::FailWrite, 3, "failed write", counts.writes_failed),
        ];
        let kinds = kinds.into_iter().chain(walls);
        // These find nothing to hit where nobody is connected or nothing is under way, however many strike.
        let at_work = [
            // Of so many one must have met what was on its way to the disk; seven did not (`retries`, seed 1100).
            (Strike::PowerCut, 8, "lost pages", counts.pages_lost),
            (Strike::FullDisk, 8, "full disk", counts.writes_refused_full),
            (Strike::Reset, 1, "broken connection", counts.resets),
            (Strike::Stall, 3, "data held back", counts.stalls),
            // Three struck while a group stood still (`group`, seed 36).
            (Strike::SlowDisk, 4, "slow sync", self.slow_syncs),
        ];
        let count = |all: &[Strike], strike| all.iter().filter(|it| **it == strike).count();
        let kinds = kinds.map(|kind| (kind, &self.struck));
        let at_work = at_work.map(|kind| (kind, &self.struck_at_work));
        kinds
            .chain(at_work)
            .filter(|((strike, misses, ..), struck)| count(struck, *strike) > *misses)
            .map(|((_, _, name, bit), _)| Fault { name, bit })
            .collect()
    }

    fn undo_now(&mut self, undo: Undo, run: &Run) {
        let machine = &run.host.machine;
        match undo {
            Undo::FullDisk => machine.faults(|faults| faults.disk_bytes = DISK_BYTES),
            Undo::StickClock => machine.stick_wall(false),
            Undo::SkewClock => machine.run_wall_at(1_000),
            Undo::SlowDisk => {
                if let Some(from) = self.slow_from.take() {
                    self.slow_syncs += machine.counts().syncs - from;
                }
                machine.faults(|faults| faults.sync_nanos = self.sync_nanos.clone())
            }
        }
    }
}

/// The operation that is to go wrong: the one that waits for it already, or else this many from now. Strike after strike would put
/// it off for ever.
fn set(at: &mut Option<u64>, count: u64, near: u64) {
    *at = at.filter(|at| count < *at).or(Some(count + near));
}
