//! The state of a simulated machine, behind one lock.
//!
//! Owns virtual time, chance, the trace and the parts (volume, network, workers). Everything that the handles given to the
//! broker can do goes through here, so that one place checks that the machine is on, counts, and moves time.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use super::chance::Chance;
use super::net::Network;
use super::threads::Crew;
use super::trace::{Event, Trace};
use super::volume::Volume;

/// What goes wrong by itself. Counts start at 1 and run from the start of the machine, across reboots; see
/// [`Machine::counts`](super::Machine::counts) for where they stand.
#[derive(Clone, Debug)]
pub struct Faults {
    /// Bytes the volume holds; beyond it writes fail with `StorageFull`.
    pub disk_bytes: u64,
    /// The sync (of a file, directory or volume) that fails; its pages are marked clean all the same.
    pub sync_fails_at: Option<u64>,
    /// Every sync from `sync_fails_at` on fails, not only that one.
    pub sync_fails_on: bool,
    /// Syncs say that they succeeded and do nothing: a device that lies, to see whether a test notices.
    pub syncs_lie: bool,
    /// The write that fails after some of its bytes.
    pub write_fails_at: Option<u64>,
    /// The write that succeeds in the wrong place.
    pub misdirect_write_at: Option<u64>,
    /// Of everything that needs a descriptor, these find none: the process has as many as it may.
    pub opens_fail: Range<u64>,
    /// Of everything that gives a file another name or removes one, these find no room.
    pub names_fail: Range<u64>,
    /// The disk operation at which the power goes; nothing works until the reboot.
    pub crash_at_op: Option<u64>,
    /// Nanoseconds a sync takes; one in a hundred takes a hundred times as long.
    pub sync_nanos: Range<u64>,
    /// Nanoseconds a piece of data travels; one in two hundred takes fifty times as long.
    pub net_nanos: Range<u64>,
    /// Reads and sends may do less than asked, as the operating system may.
    pub short_io: bool,
    /// In one of so many polls a worker waits while others have their turns; 0 for never.
    pub interrupts_one_in: u64,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            disk_bytes: 1 << 40,
            sync_fails_at: None,
            sync_fails_on: false,
            syncs_lie: false,
            write_fails_at: None,
            misdirect_write_at: None,
            opens_fail: 0..0,
            names_fail: 0..0,
            crash_at_op: None,
            sync_nanos: 50_000..500_000,
            net_nanos: 10_000..100_000,
            short_io: true,
            interrupts_one_in: 0,
        }
    }
}

/// How often things happened, for choosing the k-th and for knowing that a fault has bitten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub disk_ops: u64,
    pub writes: u64,
    pub syncs: u64,
    pub reads: u64,
    pub writes_failed: u64,
    pub syncs_failed: u64,
    pub reads_failed: u64,
    pub writes_misdirected: u64,
    pub writes_refused_full: u64,
    pub opens: u64,
    pub opens_failed: u64,
    pub names: u64,
    pub names_refused_full: u64,
    pub power_cuts: u64,
    pub kills: u64,
    pub pages_lost: u64,
    pub names_lost: u64,
    pub turns: u64,
    /// Power cuts at a chosen disk operation.
    pub crashes_at_op: u64,
    /// Connections broken while both ends held them, and pieces of data held back.
    pub resets: u64,
    pub stalls: u64,
    /// Wall times told after a jump, while the clock stuck, and while it ran at a rate of its own.
    pub walls_jumped: u64,
    pub walls_stuck: u64,
    pub walls_skewed: u64,
}

/// A clock that is right.
pub(crate) const RATE: u64 = 1_000;

/// Wall time as the machine tells it.
#[derive(Clone, Copy)]
pub(crate) struct Wall {
    pub(crate) offset_ms: i64,
    pub(crate) stuck: Option<i64>,
    /// In thousandths of the true one, since when, and where it began then.
    rate: u64,
    since: u64,
    began_ms: i64,
    /// It jumped, and nobody was told a time since.
    pub(crate) has_jumped: bool,
    /// The highest that was told.
    pub(crate) told_max: i64,
}

impl Wall {
    fn new() -> Wall {
        Wall {
            offset_ms: 0,
            stuck: None,
            rate: RATE,
            since: NOW_START,
            began_ms: WALL_START_MS,
            has_jumped: false,
            told_max: WALL_START_MS,
        }
    }

    fn running(&self, now: u64) -> i64 {
        let runs = u128::from(now - self.since) * u128::from(self.rate);
        self.began_ms + (runs / u128::from(RATE) / 1_000_000) as i64
    }

    /// Goes on from where it is, at `rate`.
    pub(crate) fn run_at(&mut self, rate: u64, now: u64) {
        (self.began_ms, self.since, self.rate) = (self.running(now), now, rate);
    }
}

/// Bytes of one file that the device cannot read.
pub(crate) struct BadRange {
    pub(crate) node: u64,
    pub(crate) range: Range<u64>,
}

pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) wall: Wall,
    pub(crate) chance: Chance,
    /// What `Env::rng` draws from, apart from the choices of the simulator.
    pub(crate) broker_chance: Chance,
    pub(crate) trace: Trace,
    pub(crate) faults: Faults,
    pub(crate) counts: Counts,
    /// Handles of an earlier life of the machine answer errors.
    pub(crate) boot: u64,
    pub(crate) crashed: bool,
    /// Files that this life of the machine holds open, each with how many handles.
    pub(crate) held: BTreeMap<u64, u64>,
    pub(crate) volume: Volume,
    pub(crate) locks: BTreeSet<PathBuf>,
    pub(crate) bad: Vec<BadRange>,
    pub(crate) network: Network,
    pub(crate) crew: Crew,
    /// The volume before each operation that changes it, while recording.
    pub(crate) tape: Option<Vec<Volume>>,
}

/// 2023-11-14, when the wall clock of every simulated machine starts.
pub(crate) const WALL_START_MS: i64 = 1_700_000_000_000;
/// Monotonic time starts at one hour, so that `now - something` stays above zero.
pub(crate) const NOW_START: u64 = 3_600_000_000_000;

impl World {
    pub(crate) fn new(seed: u64, faults: Faults, volume: Volume) -> World {
        let mut chance = Chance::new(seed);
        World {
            now: NOW_START,
            wall: Wall::new(),
            broker_chance: chance.split(),
            network: Network::default(),
            chance,
            trace: Trace::default(),
            faults,
            counts: Counts::default(),
            boot: 1,
            crashed: false,
            held: BTreeMap::new(),
            volume,
            locks: BTreeSet::new(),
            bad: Vec::new(),
            crew: Crew::default(),
            tape: None,
        }
    }

    pub(crate) fn note(&mut self, event: &Event<'_>) {
        self.trace.note(event);
    }

    pub(crate) fn wall_ms(&self) -> i64 {
        let runs = self.wall.running(self.now);
        self.wall.stuck.unwrap_or(runs) + self.wall.offset_ms
    }

    /// What the broker is told when it asks.
    pub(crate) fn tell_wall(&mut self) -> i64 {
        let told = self.wall_ms();
        self.counts.walls_jumped += u64::from(std::mem::take(&mut self.wall.has_jumped));
        self.counts.walls_stuck += u64::from(self.wall.stuck.is_some());
        self.counts.walls_skewed += u64::from(self.wall.rate != RATE);
        self.wall.told_max = self.wall.told_max.max(told);
        told
    }

    /// Whether the handle of life `boot` still has a machine under it.
    pub(crate) fn check_on(&self, boot: u64) -> io::Result<()> {
        if self.boot == boot && !self.crashed {
            Ok(())
        } else {
            Err(io::Error::other("the machine is off"))
        }
    }

    /// Admits one disk operation, or cuts the power at it.
    pub(crate) fn disk_op(&mut self, boot: u64, changes: bool) -> io::Result<()> {
        self.check_on(boot)?;
        self.counts.disk_ops += 1;
        if self.faults.crash_at_op == Some(self.counts.disk_ops) {
            self.crashed = true;
            self.counts.crashes_at_op += 1;
            self.note(&Event::Fault {
                name: "crash at operation",
            });
            return self.check_on(boot);
        }
        if changes && let Some(tape) = &mut self.tape {
            tape.push(self.volume.clone());
        }
        Ok(())
    }

    /// Admits one sync: counts it, lets its time pass, and says whether it fails.
    pub(crate) fn sync_op(&mut self, boot: u64) -> io::Result<bool> {
        self.disk_op(boot, true)?;
        self.counts.syncs += 1;
        let slow = if self.chance.one_in(100) { 100 } else { 1 };
        let of = &self.faults.sync_nanos;
        let nanos = slow * self.chance.between(of.start, of.end);
        self.spend_sync(nanos);
        let fails = self.faults.sync_fails_at.is_some_and(|at| {
            self.counts.syncs == at || (self.faults.sync_fails_on && self.counts.syncs > at)
        });
        if fails {
            self.counts.syncs_failed += 1;
        }
        Ok(fails)
    }

    /// Counts a descriptor that is needed for a moment or longer.
    pub(crate) fn take_descriptor(&mut self) -> io::Result<()> {
        const EMFILE: i32 = 24;
        self.counts.opens += 1;
        if self.faults.opens_fail.contains(&self.counts.opens) {
            self.counts.opens_failed += 1;
            return Err(io::Error::from_raw_os_error(EMFILE));
        }
        Ok(())
    }

    /// Counts a file that gets another name or goes: either may need room for what tells of it.
    pub(crate) fn find_room_for_name(&mut self) -> io::Result<()> {
        self.counts.names += 1;
        if self.faults.names_fail.contains(&self.counts.names) {
            self.counts.names_refused_full += 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    pub(crate) fn is_full_with(&self, more: u64) -> bool {
        self.volume.taken().saturating_add(more) > self.faults.disk_bytes
    }
}

/// The machine as its handles hold it.
pub(crate) struct Shared {
    pub(crate) world: Mutex<World>,
}

pub(crate) type SharedWorld = Arc<Shared>;

pub(crate) fn io_error() -> io::Error {
    io::Error::from_raw_os_error(5)
}
