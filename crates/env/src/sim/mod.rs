//! A machine made of a seed: virtual time, a disk that loses what was not synced, a network that delays and breaks.
//!
//! The broker runs on it unchanged, in one thread: its workers take turns in an order drawn from the seed, and time moves only
//! when all of them sleep. The same seed gives the same run; [`Machine::trace`] proves it.

mod chance;
mod content;
mod disk;
mod images;
mod net;
mod poller;
mod threads;
mod trace;
mod traffic;
mod volume;
mod world;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::{Instant, Timestamp};
use parking_lot::Mutex;

use crate::{Clock, Env, Rng};
pub use chance::{Chance, Chooser};
pub use images::{Image, Tape};
pub use poller::SimConn;
pub use threads::Step;
use trace::Event;
pub use volume::{Lost, Volume};
use world::{BadRange, Shared, SharedWorld, World};
pub use world::{Counts, Faults};

/// What to do to bytes behind the broker's back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rot {
    /// Flips one bit of every byte of the range.
    Flip {
        bit: u8,
    },
    Zero,
}

/// A machine, and the hands of whoever tests on it.
pub struct Machine {
    shared: SharedWorld,
}

impl Machine {
    #[must_use]
    pub fn new(seed: u64, faults: Faults) -> Machine {
        Machine::on(seed, faults, Volume::default())
    }

    /// A machine that finds `volume` as its disk.
    #[must_use]
    pub fn on(seed: u64, faults: Faults, volume: Volume) -> Machine {
        Machine {
            shared: Arc::new(Shared {
                world: Mutex::new(World::new(seed, faults, volume)),
            }),
        }
    }

    /// The environment of the current life of the machine; after a power cut or kill ask again.
    #[must_use]
    pub fn env(&self) -> Env {
        let (shared, boot) = (&self.shared, self.shared.world.lock().boot);
        Env {
            clock: Arc::new(SimClock {
                shared: shared.clone(),
            }),
            rng: Arc::new(SimRng {
                shared: shared.clone(),
            }),
            disk: Arc::new(disk::SimDisk {
                shared: shared.clone(),
                boot,
                volumes: Mutex::default(),
            }),
            net: Arc::new(poller::SimNet {
                shared: shared.clone(),
                boot,
            }),
            threads: Arc::new(threads::SimThreads {
                shared: shared.clone(),
                boot,
            }),
        }
    }

    /// One turn of one worker, or time moving to the next event.
    pub fn step(&self) -> Step {
        threads::step(&self.shared, None)
    }

    /// Like [`step`](Machine::step), but time does not move beyond `limit`.
    pub fn step_until(&self, limit: Instant) -> Step {
        threads::step(&self.shared, Some(limit.0))
    }

    /// Steps until `done` says so; false when `limit` of virtual time has passed or the machine is idle or off before.
    pub fn run_until(&self, limit: Duration, mut done: impl FnMut(&Machine) -> bool) -> bool {
        let end = self.now().plus(limit);
        loop {
            if done(self) {
                return true;
            }
            let step = self.step_until(end);
            if self.now() >= end || matches!(step, Step::Idle | Step::Off) {
                return done(self);
            }
        }
    }

    #[must_use]
    pub fn now(&self) -> Instant {
        Instant(self.shared.world.lock().now)
    }

    /// Makes time stop at `at` on its way, for a client that wants to act then.
    pub fn alarm(&self, at: Instant) {
        self.shared.world.lock().network.alarm(at.0);
    }

    /// A client's connection to whoever listens on `port`.
    pub fn connect(&self, port: u16) -> io::Result<SimConn> {
        SimConn::connect(&self.shared, port)
    }

    /// True from the moment a fault took the power until [`power_cut`](Machine::power_cut).
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.shared.world.lock().crashed
    }

    #[must_use]
    pub fn workers_count(&self) -> usize {
        self.shared.world.lock().workers_count()
    }

    /// Who sleeps on what, for the report of a run that got stuck.
    #[must_use]
    pub fn describe_workers(&self) -> String {
        self.shared.world.lock().describe_workers()
    }

    /// Takes the power away and gives it back: all processes are gone, and of what was not synced any part may be.
    pub fn power_cut(&self) -> Lost {
        self.end_process();
        let mut world = self.shared.world.lock();
        let World { volume, chance, .. } = &mut *world;
        let (volume, lost) = volume.crash(&mut chance::Cut::new(chance));
        world.volume = volume;
        world.crashed = false;
        world.counts.power_cuts += 1;
        world.counts.pages_lost += lost.pages;
        world.counts.names_lost += lost.names;
        world.note(&Event::PowerCut {
            pages_lost: lost.pages,
            names_lost: lost.names,
        });
        lost
    }

    /// Ends the process as `kill -9` does: what it wrote stays in the page cache.
    pub fn kill(&self) {
        self.end_process();
        let mut world = self.shared.world.lock();
        world.counts.kills += 1;
        world.note(&Event::Killed);
    }

    fn end_process(&self) {
        let workers = {
            let mut world = self.shared.world.lock();
            world.boot += 1;
            world.locks.clear();
            world.held.clear();
            let World {
                network, chance, ..
            } = &mut *world;
            network.process_gone(|| chance.one_in(2));
            world.dismiss()
        };
        // Their handles are of an ended life: whatever they do on the way out reaches nothing.
        drop(workers);
    }

    /// Changes the faults from here on.
    pub fn faults(&self, change: impl FnOnce(&mut Faults)) {
        let mut faults = self.shared.world.lock().faults.clone();
        change(&mut faults);
        self.shared.world.lock().faults = faults;
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.world.lock().counts
    }

    /// Bytes that the files with a name take.
    #[must_use]
    pub fn disk_taken(&self) -> u64 {
        self.shared.world.lock().volume.taken()
    }

    /// Moves the wall clock; the monotonic one does not notice.
    pub fn jump_wall(&self, by_ms: i64) {
        let mut world = self.shared.world.lock();
        world.wall.offset_ms += by_ms;
        world.wall.has_jumped = true;
        let offset_ms = world.wall.offset_ms;
        world.note(&Event::Wall { offset_ms });
    }

    /// Stops the wall clock where it is, or lets it run again.
    pub fn stick_wall(&self, stuck: bool) {
        let mut world = self.shared.world.lock();
        let now = world.wall_ms() - world.wall.offset_ms;
        world.wall.stuck = stuck.then_some(now);
    }

    /// Lets the wall clock run at `rate` thousandths of the true one from here on.
    pub fn run_wall_at(&self, rate: u64) {
        let mut world = self.shared.world.lock();
        let now = world.now;
        world.wall.run_at(rate, now);
        world.note(&Event::Fault { name: "clock rate" });
    }

    /// The highest wall time that the broker was ever told.
    #[must_use]
    pub fn wall_told_max(&self) -> i64 {
        self.shared.world.lock().wall.told_max
    }

    /// Handles of files that are open now, and those of files that have no name any more.
    #[must_use]
    pub fn handles(&self) -> (u64, u64) {
        let world = self.shared.world.lock();
        let nameless = world.held.iter();
        let nameless = nameless.filter(|(node, _)| !world.volume.is_named(**node));
        (
            world.held.values().sum(),
            nameless.map(|(_, handles)| handles).sum(),
        )
    }

    /// Files with a name.
    #[must_use]
    pub fn files_count(&self) -> u64 {
        self.shared.world.lock().volume.files_count()
    }

    /// Changes stored bytes of a file, in memory and on the platter.
    pub fn rot(&self, path: &Path, range: Range<u64>, rot: Rot) -> io::Result<()> {
        let mut world = self.shared.world.lock();
        let node = world.volume.existing(path)?;
        let content = world.volume.file_mut(node)?;
        for position in range.start..range.end.min(content.len()) {
            content.rot(position, |byte| match rot {
                Rot::Flip { bit } => byte ^ 1 << (bit & 7),
                Rot::Zero => 0,
            });
        }
        world.note(&Event::Fault { name: "bit rot" });
        Ok(())
    }

    /// What a write or a copy that lands in a wrong file leaves: the bytes of `range` of `from` lie in `to` at `position` as well,
    /// in memory and on the platter. No file gets longer by it: bytes beyond the end of either fall on nobody's. Tells how many
    /// bytes of `to` are others now; with none nothing has happened to it.
    pub fn misdirect(
        &self,
        from: &Path,
        range: Range<u64>,
        to: &Path,
        position: u64,
    ) -> io::Result<u64> {
        let mut world = self.shared.world.lock();
        let (from, to) = (world.volume.existing(from)?, world.volume.existing(to)?);
        let source = world.volume.file(from)?;
        let end = range.end.min(source.len());
        let mut bytes = vec![0; end.saturating_sub(range.start) as usize];
        source.read(&mut bytes, range.start);
        let changed = world.volume.file_mut(to)?.overwrite(&bytes, position);
        world.note(&Event::Fault {
            name: "bytes of another file",
        });
        Ok(changed)
    }

    /// Lets reads that touch the range fail from now on.
    pub fn fail_reads(&self, path: &Path, range: Range<u64>) -> io::Result<()> {
        let mut world = self.shared.world.lock();
        let node = world.volume.existing(path)?;
        world.bad.push(BadRange { node, range });
        Ok(())
    }

    /// Lets all reads succeed again, as after a cable was changed.
    pub fn mend_reads(&self) {
        self.shared.world.lock().bad.clear();
    }

    /// Starts to keep the volume of every point at which a crash could come.
    pub fn record(&self) {
        self.shared.world.lock().tape = Some(Vec::new());
    }

    /// How many operations were recorded so far.
    #[must_use]
    pub fn recorded(&self) -> usize {
        self.shared.world.lock().tape.as_ref().map_or(0, Vec::len)
    }

    /// Ends the recording.
    #[must_use]
    pub fn tape(&self) -> Tape {
        let mut world = self.shared.world.lock();
        let mut points = world.tape.take().unwrap_or_default();
        points.push(world.volume.clone());
        Tape { points }
    }

    /// The hash of everything that happened so far.
    #[must_use]
    pub fn trace(&self) -> u64 {
        self.shared.world.lock().trace.hash()
    }

    #[must_use]
    pub fn events_count(&self) -> u64 {
        self.shared.world.lock().trace.count()
    }

    /// Prints every event to standard error.
    pub fn set_verbose(&self, verbose: bool) {
        self.shared.world.lock().trace.set_verbose(verbose);
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Workers hold the machine through their environment; without this it would hold itself.
        self.end_process();
    }
}

struct SimClock {
    shared: SharedWorld,
}

impl Clock for SimClock {
    fn now(&self) -> Instant {
        Instant(self.shared.world.lock().now)
    }

    fn wall_ms(&self) -> Timestamp {
        Timestamp(self.shared.world.lock().tell_wall())
    }
}

struct SimRng {
    shared: SharedWorld,
}

impl Rng for SimRng {
    fn next_u64(&self) -> u64 {
        self.shared.world.lock().broker_chance.next_u64()
    }

    fn fill(&self, bytes: &mut [u8]) {
        self.shared.world.lock().broker_chance.fill(bytes);
    }
}
