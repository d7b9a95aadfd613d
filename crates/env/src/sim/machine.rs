//! A simulated machine as a test holds it: its environment for the broker, and every fault that can be done to it.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::Instant;
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};

use super::bucket::SimBucket;
use super::chance::Cut;
use super::disk::SimDisk;
use super::host::{BadRange, Counts, Faults, Host, HostId, Life};
use super::images::Tape;
use super::links::address_of;
use super::outside::Outside;
use super::poller::{SimConn, SimNet};
use super::store::{BucketCounts, BucketFaults};
use super::threads::{self, SimThreads, Step};
use super::trace::Event;
use super::volume::{Lost, Volume};
use super::world::{Shared, SharedWorld, World};
use super::{SimClock, SimRng};
use crate::Env;
use crate::bucket::Bucket;

/// A change of bytes behind the broker's back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rot {
    /// Flips one bit of every byte of the range.
    Flip {
        bit: u8,
    },
    Zero,
}

/// A machine, and the hands of the test on it. It is alone in its world, or one of [`Machines`](super::Machines).
pub struct Machine {
    shared: SharedWorld,
    host: HostId,
}

impl Machine {
    #[must_use]
    pub fn new(seed: u64, faults: Faults) -> Machine {
        Machine::on(seed, faults, Volume::default())
    }

    /// A machine that finds `volume` as its disk.
    #[must_use]
    pub fn on(seed: u64, faults: Faults, volume: Volume) -> Machine {
        let world = World::new(seed, vec![(faults, volume)]);
        let shared = Arc::new(Shared {
            world: Mutex::new(world),
        });
        Machine::of(&shared, HostId::FIRST)
    }

    pub(crate) fn of(shared: &SharedWorld, host: HostId) -> Machine {
        Machine {
            shared: shared.clone(),
            host,
        }
    }

    #[must_use]
    pub fn host(&self) -> HostId {
        self.host
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.shared.world.lock()
    }

    /// The machine as the world has it.
    fn state(&self) -> MappedMutexGuard<'_, Host> {
        MutexGuard::map(self.world(), |world| world.host_mut(self.host))
    }

    /// The environment of the current life of the machine; after a power cut or kill ask again.
    #[must_use]
    pub fn env(&self) -> Env {
        let shared = &self.shared;
        let life = Life {
            host: self.host,
            boot: self.state().boot,
        };
        Env {
            clock: Arc::new(SimClock {
                shared: shared.clone(),
                life,
            }),
            rng: Arc::new(SimRng {
                shared: shared.clone(),
                life,
            }),
            disk: Arc::new(SimDisk {
                shared: shared.clone(),
                life,
                volumes: Mutex::default(),
            }),
            net: Arc::new(SimNet {
                shared: shared.clone(),
                life,
            }),
            threads: Arc::new(SimThreads {
                shared: shared.clone(),
                life,
            }),
            loggers: Arc::default(),
        }
    }

    /// The object store of the world, for one worker of the current life of the machine.
    #[must_use]
    pub fn bucket(&self) -> Arc<dyn Bucket> {
        let life = Life {
            host: self.host,
            boot: self.state().boot,
        };
        let shared = self.shared.clone();
        let (bell, number) = SimThreads { shared, life }.new_bell();
        Arc::new(SimBucket::open(&self.shared, life, bell, number))
    }

    /// Changes the faults of the object store.
    pub fn bucket_faults(&self, change: impl FnOnce(&mut BucketFaults)) {
        change(&mut self.world().store.faults);
    }

    #[must_use]
    pub fn bucket_counts(&self) -> BucketCounts {
        self.world().store.counts
    }

    /// All objects of the store.
    #[must_use]
    pub fn objects(&self) -> BTreeMap<String, Bytes> {
        self.world().store.objects()
    }

    /// The store loses an object, or has other bytes in its place.
    pub fn spoil_object(&self, name: &str, content: Option<Bytes>) {
        self.world().store.spoil(name, content);
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
        Instant(self.world().now)
    }

    /// Makes time stop at `at` on its way, for a client that wants to act then.
    pub fn alarm(&self, at: Instant) {
        self.world().network.alarm(at.0);
    }

    /// Where others reach `port` of this machine; a lone one under its loopback address, as its clients are beside it.
    #[must_use]
    pub fn address(&self, port: u16) -> SocketAddr {
        let is_lone = self.world().hosts.len() == 1;
        let ip = if is_lone {
            Ipv4Addr::LOCALHOST
        } else {
            address_of(self.host)
        };
        (ip, port).into()
    }

    /// The place of test clients.
    #[must_use]
    pub fn outside(&self) -> Outside {
        Outside::of(&self.shared)
    }

    /// A client's connection to the listener on `port`.
    pub fn connect(&self, port: u16) -> io::Result<SimConn> {
        self.outside().connect(self.address(port))
    }

    /// True from the moment a fault took the power until [`power_cut`](Machine::power_cut).
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.state().crashed.is_some()
    }

    #[must_use]
    pub fn workers_count(&self) -> usize {
        self.world().workers_count(self.host)
    }

    /// Each worker and what it waits for, for the report of a run that got stuck.
    #[must_use]
    pub fn describe_workers(&self) -> String {
        self.world().describe_workers(self.host)
    }

    /// Puts a file on the disk as one that was there before, whatever faults the disk has.
    ///
    /// # Panics
    ///
    /// If a directory has its name.
    pub fn install(&self, path: &Path, bytes: &[u8]) {
        let mut world = self.world();
        let volume = &mut world.host_mut(self.host).volume;
        let dir = path.parent().unwrap_or(path);
        let installed = volume.create_dir_all(dir).and_then(|()| {
            let node = match volume.find(path)? {
                Some(node) => node,
                None => volume.create_file(path)?,
            };
            let file = volume.file_mut(node)?;
            file.set_len(0);
            file.write(bytes, 0);
            volume.sync_all();
            Ok(())
        });
        installed.expect("a file can be put there");
    }

    /// Takes the power away and gives it back: all processes are gone, and of what was not synced any part may be.
    pub fn power_cut(&self) -> Lost {
        let ended = self.end_process();
        let mut world = self.world();
        let World { hosts, chance, .. } = &mut *world;
        let host = &mut hosts[self.host.index()];
        host.forget_syncs(ended);
        let (volume, lost) = host.volume.crash(&mut Cut::new(chance));
        host.volume = volume;
        host.crashed = None;
        host.counts.power_cuts += 1;
        host.counts.pages_lost += lost.pages;
        host.counts.names_lost += lost.names;
        let event = Event::PowerCut {
            pages_lost: lost.pages,
            names_lost: lost.names,
        };
        world.note_on(self.host, &event);
        lost
    }

    /// True while [`Machine::pause`] keeps the process from its turns.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        let mut world = self.world();
        let now = world.now_on(self.host);
        now < world.host_mut(self.host).paused_until
    }

    /// Ends the process as `kill -9` does: what it wrote stays in the page cache.
    pub fn kill(&self) {
        self.end_process();
        let mut world = self.world();
        world.host_mut(self.host).counts.kills += 1;
        world.note_on(self.host, &Event::Killed);
    }

    /// Stops the process for a while as a signal does, whatever its clock says: no worker has a turn.
    pub fn pause(&self, time: Duration) {
        let mut world = self.world();
        let until = world.now_on(self.host) + time.as_nanos() as u64;
        let host = world.host_mut(self.host);
        host.paused_until = host.paused_until.max(until);
        host.counts.pauses += 1;
        world.note_on(self.host, &Event::Fault { name: "pause" });
    }

    /// Returns when the process ended.
    fn end_process(&self) -> u64 {
        let (ended, workers) = {
            let mut world = self.world();
            let World {
                network,
                chance,
                hosts,
                now,
                ..
            } = &mut *world;
            let ended = hosts[self.host.index()].end_life(*now);
            let resets = network.process_gone(self.host, ended, || chance.one_in(2));
            for reset in resets {
                world.reset_if_heard(reset);
            }
            (ended, world.dismiss(self.host))
        };
        // Their handles are of an ended life: what they do on the way out reaches nothing.
        drop(workers);
        ended
    }

    /// From here on names that differ in case alone are one name on its volume.
    pub fn fold_case(&self) {
        self.shared
            .world
            .lock()
            .host_mut(self.host)
            .volume
            .fold_case();
    }

    /// Changes the faults from here on.
    pub fn faults(&self, change: impl FnOnce(&mut Faults)) {
        let mut faults = self.state().faults.clone();
        change(&mut faults);
        self.state().faults = faults;
    }

    /// From here on others do this while a write to a file is under way: turns of workers are whole here, and threads are not.
    pub fn beside_writes(&self, act: impl Fn() + Send + Sync + 'static) {
        self.state().beside_writes = Some(Arc::new(act));
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state().counts
    }

    /// Bytes that the files with a name take.
    #[must_use]
    pub fn disk_taken(&self) -> u64 {
        self.state().volume.taken()
    }

    /// Moves the wall clock; the monotonic one does not notice.
    pub fn jump_wall(&self, by_ms: i64) {
        let mut world = self.world();
        let wall = &mut world.host_mut(self.host).wall;
        wall.offset_ms += by_ms;
        wall.has_jumped = true;
        let offset_ms = wall.offset_ms;
        world.note_on(self.host, &Event::Wall { offset_ms });
    }

    /// Stops the wall clock where it is, or lets it run again.
    pub fn stick_wall(&self, stuck: bool) {
        let mut world = self.world();
        let now = world.wall_ms(self.host);
        let wall = &mut world.host_mut(self.host).wall;
        wall.stuck = stuck.then_some(now - wall.offset_ms);
    }

    /// Lets the wall clock run at `rate` thousandths of the true one from here on.
    pub fn run_wall_at(&self, rate: u64) {
        let mut world = self.world();
        let now = world.now_on(self.host);
        world.host_mut(self.host).wall.run_at(rate, now);
        world.note_on(self.host, &Event::Fault { name: "clock rate" });
    }

    /// The highest wall time that the broker was ever told.
    #[must_use]
    pub fn wall_told_max(&self) -> i64 {
        self.state().wall.told_max
    }

    /// Handles of files that are open now, and those of files that have no name any more.
    #[must_use]
    pub fn handles(&self) -> (u64, u64) {
        let host = self.state();
        let nameless = host.held.iter();
        let nameless = nameless.filter(|(node, _)| !host.volume.is_named(**node));
        (
            host.held.values().sum(),
            nameless.map(|(_, handles)| handles).sum(),
        )
    }

    /// Files with a name.
    #[must_use]
    pub fn files_count(&self) -> u64 {
        self.state().volume.files_count()
    }

    /// Changes stored bytes of a file, in memory and on the platter.
    pub fn rot(&self, path: &Path, range: Range<u64>, rot: Rot) -> io::Result<()> {
        let mut world = self.world();
        let volume = &mut world.host_mut(self.host).volume;
        let node = volume.existing(path)?;
        let content = volume.file_mut(node)?;
        for position in range.start..range.end.min(content.len()) {
            content.rot(position, |byte| match rot {
                Rot::Flip { bit } => byte ^ 1 << (bit & 7),
                Rot::Zero => 0,
            });
        }
        world.note_on(self.host, &Event::Fault { name: "bit rot" });
        Ok(())
    }

    /// Does as a write or a copy into a wrong file does: the bytes of `range` of `from` lie in `to` at `position` as well,
    /// in memory and on the platter. No file gets longer by it: bytes beyond the end of either fall on nobody's. Tells how many
    /// bytes of `to` are others now; with none nothing has happened to it.
    pub fn misdirect(
        &self,
        from: &Path,
        range: Range<u64>,
        to: &Path,
        position: u64,
    ) -> io::Result<u64> {
        let mut world = self.world();
        let volume = &mut world.host_mut(self.host).volume;
        let (from, to) = (volume.existing(from)?, volume.existing(to)?);
        let source = volume.file(from)?;
        let end = range.end.min(source.len());
        let mut bytes = vec![0; end.saturating_sub(range.start) as usize];
        source.read(&mut bytes, range.start);
        let changed = volume.file_mut(to)?.overwrite(&bytes, position);
        let name = "bytes of another file";
        world.note_on(self.host, &Event::Fault { name });
        Ok(changed)
    }

    /// Lets reads that touch the range fail from now on.
    pub fn fail_reads(&self, path: &Path, range: Range<u64>) -> io::Result<()> {
        let mut host = self.state();
        let node = host.volume.existing(path)?;
        host.bad.push(BadRange { node, range });
        Ok(())
    }

    /// Lets all reads succeed again, as after a cable was changed.
    pub fn mend_reads(&self) {
        self.state().bad.clear();
    }

    /// Starts to keep the volume of every point at which a crash could come.
    pub fn record(&self) {
        self.state().tape = Some(Vec::new());
    }

    /// How many operations were recorded so far.
    #[must_use]
    pub fn recorded(&self) -> usize {
        self.state().tape.as_ref().map_or(0, Vec::len)
    }

    /// Ends the recording.
    #[must_use]
    pub fn tape(&self) -> Tape {
        let mut host = self.state();
        let mut points = host.tape.take().unwrap_or_default();
        points.push(host.volume.clone());
        Tape { points }
    }

    /// The hash of everything that happened so far.
    #[must_use]
    pub fn trace(&self) -> u64 {
        self.world().trace.hash()
    }

    #[must_use]
    pub fn events_count(&self) -> u64 {
        self.world().trace.count()
    }

    /// Prints every event to standard error.
    pub fn set_verbose(&self, verbose: bool) {
        self.world().trace.set_verbose(verbose);
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Workers hold the machine through their environment; without this it would hold itself.
        self.end_process();
    }
}
