//! Strikes: when which fault hits, and how it ends.
//!
//! Owns the times. Every kind that was planned and struck must also have bitten where that can be counted; a run whose faults
//! did nothing is no proof.

use std::ops::Range;
use std::time::Duration;

use env::sim::{Chance, Counts};
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
}

pub(super) struct Striker {
    strikes: Vec<Strike>,
    pause: Duration,
    chance: Chance,
    next: Instant,
    undo: Vec<(Instant, Undo)>,
    struck: Vec<Strike>,
    before: Option<Counts>,
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
            before: None,
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
        self.before.get_or_insert_with(|| run.host.machine.counts());
        while let Some(at) = self.undo.iter().position(|(at, _)| *at <= now) {
            let (_, undo) = self.undo.swap_remove(at);
            self.undo_now(undo, run);
        }
        if !self.strikes.is_empty() && self.next <= now {
            let pause = self.pause.as_millis() as u64;
            self.next = now.plus(Duration::from_millis(
                self.chance.between(pause / 4, pause * 2),
            ));
            let strike = *self.chance.pick(&self.strikes);
            self.struck.push(strike);
            self.hit(strike, run);
        }
    }

    fn hit(&mut self, strike: Strike, run: &mut Run) {
        let machine = &run.host.machine;
        let counts = machine.counts();
        let now = machine.now();
        let near = self.chance.between(1, 40);
        let later = now.plus(Duration::from_millis(self.chance.between(100, 3_000)));
        match strike {
            Strike::PowerCut => run.host.end(End::PowerCut),
            Strike::PowerCutAtOperation => {
                machine.faults(|faults| faults.crash_at_op = Some(counts.disk_ops + near))
            }
            Strike::Kill => run.host.end(End::Kill),
            Strike::Restart => run.host.stop(&mut run.notes),
            Strike::FailSync => {
                machine.faults(|faults| faults.sync_fails_at = Some(counts.syncs + near))
            }
            Strike::FailWrite => {
                machine.faults(|faults| faults.write_fails_at = Some(counts.writes + near))
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
                self.undo.push((later, Undo::SlowDisk));
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
        run.host.machine.faults(|faults| {
            (
                faults.crash_at_op,
                faults.sync_fails_at,
                faults.write_fails_at,
            ) = (None, None, None);
            faults.sync_fails_on = false;
        });
    }

    /// What the strikes did, for those where it can be counted.
    pub(super) fn bites(&self, run: &Run) -> Vec<Fault> {
        let counts = run.host.machine.counts();
        let struck = |strike: Strike| self.struck.iter().filter(|it| **it == strike).count();
        let mut bites = Vec::new();
        if struck(Strike::PowerCut) > 0 {
            bites.push(Fault {
                name: "power cut",
                bit: counts.power_cuts,
            });
        }
        // Enough of them that one must have come while something was on its way to the disk; seven were not (`retries`, seed 1100).
        if struck(Strike::PowerCut) > 8 {
            bites.push(Fault {
                name: "pages lost by power cuts",
                bit: counts.pages_lost,
            });
        }
        if struck(Strike::Kill) > 0 {
            bites.push(Fault {
                name: "kill",
                bit: counts.kills,
            });
        }
        if struck(Strike::FailSync) > 3 {
            bites.push(Fault {
                name: "failed sync",
                bit: counts.syncs_failed,
            });
        }
        bites
    }

    fn undo_now(&self, undo: Undo, run: &Run) {
        let machine = &run.host.machine;
        match undo {
            Undo::FullDisk => machine.faults(|faults| faults.disk_bytes = DISK_BYTES),
            Undo::StickClock => machine.stick_wall(false),
            Undo::SlowDisk => machine.faults(|faults| faults.sync_nanos = self.sync_nanos.clone()),
        }
    }
}
