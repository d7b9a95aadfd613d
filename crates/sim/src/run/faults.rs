//! Strikes: when which fault hits, and how it ends.
//!
//! Owns the times. Every kind that struck often enough must also have bitten; a run whose faults did nothing is no proof.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use env::sim::{Chance, Counts, HostId, Link, Machine, Passage, Site};
use model::Instant;

use crate::checker::Fault;
use crate::client::line::{Line, PORT};

use super::Run;
use super::host::{End, Host};
use super::plan::{Plan, SLOW_SYNC_NANOS, Strike};
use super::rot;

/// Something to be undone later, on a node or between two places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Undo {
    FullDisk(HostId),
    StickClock(HostId),
    SlowDisk(HostId),
    SkewClock(HostId),
    CutLink(Site, Site),
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
    owes_stop: Option<HostId>,
    /// A disk that is to be replaced when nobody else lacks anything.
    owes_wipe: Option<HostId>,
    /// The node whose disks fail, of all that there are: where two lost the last replicas in sync of a partition, an operator decides.
    failing: Option<HostId>,
    /// Syncs that had begun when a disk became slow, and those that were slow.
    slow_from: BTreeMap<HostId, u64>,
    slow_syncs: u64,
    /// Rot that found something.
    rots_count: u64,
    /// Of the disk when it is not slowed down.
    sync_nanos: Range<u64>,
}

const DISK_BYTES: u64 = 1 << 40;

/// A session of a broker, and one of a member that it answered last.
const ZOMBIES: Duration = Duration::from_secs(3);
/// How a link is cut.
const PASSAGES: [Passage; 3] = [Passage::Held, Passage::Dropped, Passage::Refused];

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
            owes_stop: None,
            owes_wipe: None,
            failing: None,
            slow_from: BTreeMap::new(),
            slow_syncs: 0,
            rots_count: 0,
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
        let now = run.cluster.now();
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
            let node = self.node(run);
            match strike {
                Strike::Restart => self.owes_stop = Some(node),
                Strike::Wipe => self.owes_wipe = Some(node),
                Strike::FailSync | Strike::FailWrite => {
                    let node = *self.failing.get_or_insert(node);
                    self.hit(strike, node, run);
                }
                strike => self.hit(strike, node, run),
            }
        }
        if let Some(node) = self.owes_stop
            && run.cluster.node(node).is_running()
        {
            self.owes_stop = None;
            self.hit(Strike::Restart, node, run);
        }
        if let Some(node) = self.owes_wipe.filter(|_| run.may_lose_a_disk()) {
            self.owes_wipe = None;
            self.hit(Strike::Wipe, node, run);
        }
    }

    /// The node that is struck next.
    fn node(&mut self, run: &Run) -> HostId {
        let nodes: Vec<HostId> = run.cluster.nodes().collect();
        match nodes[..] {
            [only] => only,
            _ => *self.chance.pick(&nodes),
        }
    }

    fn hit(&mut self, strike: Strike, node: HostId, run: &mut Run) {
        self.struck.push(strike);
        if run.is_at_work(node) {
            self.struck_at_work.push(strike);
        }
        let machine = &run.cluster.node(node).machine;
        let counts = machine.counts();
        let now = machine.now();
        let near = self.chance.between(1, 40);
        let later = now.plus(Duration::from_millis(self.chance.between(100, 3_000)));
        match strike {
            Strike::PowerCut => run.cluster.node_mut(node).end(End::PowerCut),
            Strike::PowerCutAtOperation => {
                machine.faults(|faults| set(&mut faults.crash_at_op, counts.disk_ops, near))
            }
            Strike::Kill => run.cluster.node_mut(node).end(End::Kill),
            Strike::Restart => run.cluster.node_mut(node).stop(&mut run.clients.notes),
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
                self.undo.push((later, Undo::FullDisk(node)));
            }
            Strike::JumpClock => {
                machine.jump_wall(self.chance.between(0, 7_200_000) as i64 - 3_600_000)
            }
            Strike::StickClock => {
                machine.stick_wall(true);
                self.undo.push((later, Undo::StickClock(node)));
            }
            Strike::Reset => self.some_lines(node, run, |line, _| line.conn().reset()),
            Strike::Stall => self.some_lines(node, run, |line, chance| {
                let time = Duration::from_millis(chance.between(10, 5_000));
                if chance.one_in(2) {
                    line.conn().stall_requests(time)
                } else {
                    line.conn().stall_replies(time)
                }
            }),
            Strike::SlowDisk => {
                machine.faults(|faults| faults.sync_nanos = SLOW_SYNC_NANOS);
                self.slow_from.entry(node).or_insert(counts.syncs);
                self.undo.push((later, Undo::SlowDisk(node)));
            }
            Strike::SkewClock => {
                machine.run_wall_at(self.chance.between(500, 2_000));
                self.undo.push((later, Undo::SkewClock(node)));
            }
            Strike::Pause => {
                machine.pause(Duration::from_millis(self.chance.between(10, 2_000)));
            }
            Strike::CutLink => self.cut_link(node, later, run),
            Strike::Rot => {
                let topics = &run.plan.topics;
                let struck = rot::strike(&run.cluster, node, topics, &mut self.chance);
                self.rots_count += u64::from(struck.is_some());
                run.clients.notes.rotted.extend(struck);
            }
            Strike::Wipe => {
                run.copies.on_wiped(node);
                run.wiped += u64::from(run.cluster.node_mut(node).wipe());
                if run.plan.slows_new_disks {
                    self.hit(Strike::SlowDisk, node, run);
                }
            }
        }
    }

    /// Cuts the machine off from all clients, or from another machine.
    fn cut_link(&mut self, node: HostId, until: Instant, run: &mut Run) {
        let nodes = run.cluster.nodes().filter(|other| *other != node);
        let mut places: Vec<Site> = nodes.map(Site::Host).collect();
        places.push(Site::Clients);
        let (here, there) = (Site::Host(node), *self.chance.pick(&places));
        let link = Link {
            passage: *self.chance.pick(&PASSAGES),
            ..Link::default()
        };
        if link.passage == Passage::Refused && there != Site::Clients {
            let zombies = &mut run.clients.notes.zombies_until;
            *zombies = (*zombies).max(Some(until.plus(ZOMBIES)));
        }
        let ways = [(here, there), (there, here)];
        let ways = *self
            .chance
            .pick(&[&ways[..], &ways[..], &ways[..1], &ways[1..]]);
        for (from, to) in ways {
            run.cluster.machines.set_link(*from, *to, link);
            self.undo.push((until, Undo::CutLink(*from, *to)));
        }
    }

    fn some_lines(&mut self, node: HostId, run: &Run, strike: impl Fn(&Line, &mut Chance)) {
        let address = run.cluster.machines.address(node, PORT);
        let clients = run.clients_of(node).into_iter();
        for line in clients.flat_map(|clients| clients.lines_to(address)) {
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
        for node in run.cluster.nodes() {
            self.heal_node(&run.cluster.node(node).machine);
        }
    }

    fn heal_node(&mut self, machine: &Machine) {
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

    /// The effects of the strikes, for those kinds of which so many struck that one must have bitten.
    pub(super) fn bites(&self, run: &Run) -> Vec<Fault> {
        let nodes = run.cluster.nodes().map(|node| run.cluster.node(node));
        let nodes: Vec<&Host> = nodes.collect();
        let counts: Vec<Counts> = nodes.iter().map(|it| it.machine.counts()).collect();
        let of = |count: fn(&Counts) -> u64| counts.iter().map(count).sum::<u64>();
        // A machine that is down, or stands still, asks for no time.
        let missed = 2 * nodes.len();
        // So many strikes of a kind may all miss, and what they did.
        let (operations, syncs) = (of(|it| it.crashes_at_op), of(|it| it.syncs_failed));
        let (writes, jumped) = (of(|it| it.writes_failed), of(|it| it.walls_jumped));
        let stops = nodes.iter().map(|it| it.stops).sum();
        let kinds = [
            (Strike::PowerCut, 0, "power cut", of(|it| it.power_cuts)),
            (Strike::PowerCutAtOperation, 3, "cut in a write", operations),
            (Strike::Kill, 0, "kill", of(|it| it.kills)),
            // Two met a broker that was down (`crowd`, seed 91).
            (Strike::Restart, 2, "clean stop", stops),
            (Strike::FailSync, 3, "failed sync", syncs),
            (Strike::FailWrite, 3, "failed write", writes),
            (Strike::Pause, 0, "pause", of(|it| it.pauses)),
            // It stays until it is seen.
            (Strike::JumpClock, missed, "clock jump", jumped),
        ];
        // These find nothing to hit where nobody is connected or nothing is under way, however many strike.
        let full = of(|it| it.writes_refused_full);
        // A broker that serves nobody may ask for no time: eight skews ended before one did (`replicated-transactions`, seed 87).
        let (stuck, skewed) = (of(|it| it.walls_stuck), of(|it| it.walls_skewed));
        let at_work = [
            // Of so many one must have met what was on its way to the disk; seven did not (`retries`, seed 1100).
            (Strike::PowerCut, 8, "lost pages", of(|it| it.pages_lost)),
            (Strike::FullDisk, 8, "full disk", full),
            (Strike::Reset, 1, "broken connection", of(|it| it.resets)),
            (Strike::Stall, 3, "data held back", of(|it| it.stalls)),
            // Five struck while nothing was written (`wide`, seed 136).
            (Strike::SlowDisk, 5, "slow sync", self.slow_syncs),
            // Two machines have nothing to say to each other.
            (Strike::CutLink, 6, "cut link", of(|it| it.link_cuts)),
            // Segments have to be closed before.
            (Strike::Rot, 20, "rot", self.rots_count),
            (Strike::StickClock, missed, "stuck clock", stuck),
            (Strike::SkewClock, missed, "skewed clock", skewed),
        ];
        let count = |all: &[Strike], strike| all.iter().filter(|it| **it == strike).count();
        let kinds = kinds.map(|kind| (kind, &self.struck));
        let at_work = at_work.map(|kind| (kind, &self.struck_at_work));
        kinds
            .into_iter()
            .chain(at_work)
            .filter(|((strike, misses, ..), struck)| count(struck, *strike) > *misses)
            .map(|((_, _, name, bit), _)| Fault { name, bit })
            .collect()
    }

    fn undo_now(&mut self, undo: Undo, run: &Run) {
        let machine = |node| &run.cluster.node(node).machine;
        match undo {
            Undo::FullDisk(node) => machine(node).faults(|faults| faults.disk_bytes = DISK_BYTES),
            Undo::StickClock(node) => machine(node).stick_wall(false),
            Undo::SkewClock(node) => machine(node).run_wall_at(1_000),
            Undo::SlowDisk(node) => {
                if let Some(from) = self.slow_from.remove(&node) {
                    self.slow_syncs += machine(node).counts().syncs - from;
                }
                machine(node).faults(|faults| faults.sync_nanos = self.sync_nanos.clone());
            }
            Undo::CutLink(from, to) => run.cluster.machines.set_link(from, to, Link::default()),
        }
    }
}

/// The operation that is to go wrong: the one that waits for it already, or else this many from now. Strike after strike would put
/// it off for ever.
fn set(at: &mut Option<u64>, count: u64, near: u64) {
    *at = at.filter(|at| count < *at).or(Some(count + near));
}
