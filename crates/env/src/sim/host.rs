//! One simulated machine: its disk, clock, power and what goes wrong on it.
//!
//! Owns everything that ends or survives with the machine. Invariant: a host whose time is ahead of the world takes no turn
//! until the world has come there, and what it did in that time is taken back when its life ends before.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::chance::Chance;
use super::content::Unsynced;
use super::volume::Volume;
use super::world::NOW_START;

/// A machine of a world; the first is 1. Its address is `10.0.0.n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u8);

impl HostId {
    pub const FIRST: HostId = HostId(1);

    pub(crate) fn index(self) -> usize {
        usize::from(self.0) - 1
    }
}

/// One life of a machine, between two power cuts or kills: handles of an earlier one answer errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) host: HostId,
    pub(crate) boot: u64,
}

/// Faults that come by themselves. Counts start at 1 and run from the start of the machine, across reboots; see
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
    /// A file that is open cannot be removed, nor a directory that holds one be removed or renamed, as on network volumes.
    pub open_files_stay: bool,
    /// The disk operation at which the power goes; nothing works until the reboot.
    pub crash_at_op: Option<u64>,
    /// Nanoseconds a sync takes; one in a hundred takes a hundred times as long.
    pub sync_nanos: Range<u64>,
    /// Nanoseconds a piece of data travels; one in two hundred takes fifty times as long.
    pub net_nanos: Range<u64>,
    /// A question for the address of a machine's name (`node-1`) takes an hour, and has no answer.
    pub name_server_is_silent: bool,
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
            open_files_stay: false,
            crash_at_op: None,
            sync_nanos: 50_000..500_000,
            net_nanos: 10_000..100_000,
            name_server_is_silent: false,
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
    /// Things on their way to or from the machine that met a cut link.
    pub link_cuts: u64,
    pub pauses: u64,
    /// Wall times told after a jump, while the clock stuck, and while it ran at a rate of its own.
    pub walls_jumped: u64,
    pub walls_stuck: u64,
    pub walls_skewed: u64,
}

/// 2023-11-14, when the wall clock of every simulated machine starts.
const WALL_START_MS: i64 = 1_700_000_000_000;
/// A clock that is right.
const RATE: u64 = 1_000;

/// Wall time as the machine shows it.
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
        // A host that syncs is ahead of the world: what it began there has not begun yet.
        let runs = u128::from(now.saturating_sub(self.since)) * u128::from(self.rate);
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

/// When a sync of a syncer is over, and what time it is now.
#[derive(Clone, Copy)]
pub(crate) struct SyncEnd {
    pub(crate) now: u64,
    pub(crate) end: u64,
}

pub(crate) struct Host {
    pub(crate) wall: Wall,
    /// The source of `Env::rng`, apart from the choices of the simulator.
    pub(crate) broker_chance: Chance,
    pub(crate) faults: Faults,
    pub(crate) counts: Counts,
    /// Which life of the machine this is.
    pub(crate) boot: u64,
    /// When a fault took the power.
    pub(crate) crashed: Option<u64>,
    /// A worker that is no syncer syncs until then: the rest of its turn is done already, so nobody here may see it before.
    pub(crate) busy_until: u64,
    pub(crate) paused_until: u64,
    /// Files that this life of the machine holds open, each with how many handles.
    pub(crate) held: BTreeMap<u64, u64>,
    pub(crate) volume: Volume,
    pub(crate) locks: BTreeSet<PathBuf>,
    pub(crate) bad: Vec<BadRange>,
    pub(crate) workers_count: usize,
    /// The volume before each operation that changes it, while recording.
    pub(crate) tape: Option<Vec<Volume>>,
    /// The volume before each sync that makes the host busy, and when that sync ends.
    before_syncs: Vec<(u64, Volume)>,
    /// Files that syncers sync, each with when that ends and what the sync covers.
    syncs: Vec<(u64, u64, Unsynced)>,
    pub(crate) beside_writes: Option<BesideWrites>,
}

/// Done by others while a write is under way.
pub(crate) type BesideWrites = Arc<dyn Fn() + Send + Sync>;

impl Host {
    pub(crate) fn new(chance: &mut Chance, faults: Faults, volume: Volume) -> Host {
        Host {
            wall: Wall::new(),
            broker_chance: chance.split(),
            faults,
            counts: Counts::default(),
            boot: 1,
            crashed: None,
            busy_until: 0,
            paused_until: 0,
            held: BTreeMap::new(),
            volume,
            locks: BTreeSet::new(),
            bad: Vec::new(),
            workers_count: 0,
            tape: None,
            before_syncs: Vec::new(),
            syncs: Vec::new(),
            beside_writes: None,
        }
    }

    /// Until when no worker of the host has a turn.
    pub(crate) fn still_until(&self) -> u64 {
        self.busy_until.max(self.paused_until)
    }

    pub(crate) fn wall_ms(&self, now: u64) -> i64 {
        let runs = self.wall.running(now);
        self.wall.stuck.unwrap_or(runs) + self.wall.offset_ms
    }

    /// The wall time as the broker gets it.
    pub(crate) fn read_wall(&mut self, now: u64) -> i64 {
        let told = self.wall_ms(now);
        self.counts.walls_jumped += u64::from(std::mem::take(&mut self.wall.has_jumped));
        self.counts.walls_stuck += u64::from(self.wall.stuck.is_some());
        self.counts.walls_skewed += u64::from(self.wall.rate != RATE);
        self.wall.told_max = self.wall.told_max.max(told);
        told
    }

    /// Refuses a change of the names of files that are open, where they stay.
    pub(crate) fn check_closed(&self, path: &Path) -> io::Result<()> {
        let is_open = |node: &u64| self.held.contains_key(node);
        if self.faults.open_files_stay && self.volume.files_below(path)?.iter().any(is_open) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        Ok(())
    }

    pub(crate) fn is_full_with(&self, more: u64) -> bool {
        self.volume.taken().saturating_add(more) > self.faults.disk_bytes
    }

    /// A sync makes the whole host wait until `end`.
    pub(crate) fn begin_busy_sync(&mut self, now: u64, end: u64) {
        self.before_syncs.retain(|(end, _)| *end > now);
        self.before_syncs.push((end, self.volume.clone()));
        self.busy_until = end;
    }

    /// Syncs a file, which is over at `end` if a syncer does it.
    pub(crate) fn sync_file(&mut self, node: u64, end: Option<SyncEnd>) -> io::Result<()> {
        let unsynced = self.volume.file_mut(node)?.begin_sync();
        self.overtake(end, |of| of == node);
        self.keep_until(end, [(node, unsynced)]);
        Ok(())
    }

    /// Syncs the volume, which is over at `end` if a syncer does it.
    pub(crate) fn sync_all(&mut self, end: Option<SyncEnd>) {
        let covered = self.volume.sync_all();
        self.overtake(end, |_| true);
        self.keep_until(end, covered);
    }

    /// A sync that returns has waited for what earlier ones of the same file had begun to write, though those take longer.
    fn overtake(&mut self, end: Option<SyncEnd>, is_covered: impl Fn(u64) -> bool) {
        let Some(SyncEnd { end, .. }) = end else {
            return;
        };
        for (until, node, _) in &mut self.syncs {
            if is_covered(*node) {
                *until = end.min(*until);
            }
        }
    }

    fn keep_until(
        &mut self,
        end: Option<SyncEnd>,
        covered: impl IntoIterator<Item = (u64, Unsynced)>,
    ) {
        if let Some(SyncEnd { now, end }) = end {
            self.syncs.retain(|(end, ..)| *end > now);
            let covered = covered.into_iter();
            let covered = covered.map(|(node, unsynced)| (end, node, unsynced));
            self.syncs.extend(covered);
        }
    }

    /// The process ends: takes back what it did in a time that the world had not reached. Returns when it ended.
    pub(crate) fn end_life(&mut self, now: u64) -> u64 {
        let end = self.crashed.unwrap_or(now).max(now);
        let mut before_syncs = std::mem::take(&mut self.before_syncs).into_iter();
        if let Some((_, volume)) = before_syncs.find(|(until, _)| *until > end) {
            self.volume = volume;
        }
        self.boot += 1;
        self.locks.clear();
        self.held.clear();
        self.workers_count = 0;
        (self.busy_until, self.paused_until) = (end, 0);
        end
    }

    /// The power goes: syncs under way did not happen.
    pub(crate) fn forget_syncs(&mut self, now: u64) {
        for (end, node, unsynced) in std::mem::take(&mut self.syncs).into_iter().rev() {
            if end > now {
                self.volume.forget_sync(node, unsynced);
            }
        }
    }
}
