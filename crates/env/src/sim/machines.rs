//! Several machines in one world: one time, one chance, one network with links that can be cut.
//!
//! Machine `n` has the address `10.0.0.n`; test clients reach all of them from outside.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use model::Instant;
use parking_lot::Mutex;

use super::host::{Faults, HostId};
use super::links::{Link, Passage, Site};
use super::machine::Machine;
use super::outside::Outside;
use super::threads::{self, Step};
use super::volume::Volume;
use super::world::{Shared, SharedWorld, World};

/// The machines of a world, by number from 1.
pub struct Machines {
    shared: SharedWorld,
    machines: Vec<Arc<Machine>>,
}

impl Machines {
    /// A world of `count` machines, each with these faults and an empty disk.
    #[must_use]
    pub fn new(seed: u64, count: u8, faults: &Faults) -> Machines {
        let machines = (0..count).map(|_| (faults.clone(), Volume::default()));
        let world = World::new(seed, machines.collect());
        let shared = Arc::new(Shared {
            world: Mutex::new(world),
        });
        let hosts = (1..=count).map(HostId);
        let machines = hosts.map(|host| Arc::new(Machine::of(&shared, host)));
        Machines {
            machines: machines.collect(),
            shared,
        }
    }

    /// The machine of that number.
    #[must_use]
    pub fn get(&self, host: HostId) -> &Arc<Machine> {
        &self.machines[host.index()]
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Machine>> {
        self.machines.iter()
    }

    /// Where others reach `port` of a machine.
    #[must_use]
    pub fn address(&self, host: HostId, port: u16) -> SocketAddr {
        self.get(host).address(port)
    }

    /// One turn of one worker of any machine, or time moving to the next event.
    pub fn step(&self) -> Step {
        threads::step(&self.shared, None)
    }

    /// Like [`step`](Machines::step), but time does not move beyond `limit`.
    pub fn step_until(&self, limit: Instant) -> Step {
        threads::step(&self.shared, Some(limit.0))
    }

    /// Steps until `done`; false when `time` has passed before, or nothing will happen any more.
    pub fn run_until(&self, time: Duration, mut done: impl FnMut(&Machines) -> bool) -> bool {
        let end = self.now().plus(time);
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

    /// The place of test clients.
    #[must_use]
    pub fn outside(&self) -> Outside {
        Outside::of(&self.shared)
    }

    /// Changes the link in one direction.
    pub fn set_link(&self, from: Site, to: Site, link: Link) {
        self.shared.world.lock().set_link(from, to, link);
    }

    /// Changes what passes between two places, in both directions.
    pub fn cut(&self, a: Site, b: Site, passage: Passage) {
        let mut world = self.shared.world.lock();
        for (from, to) in [(a, b), (b, a)] {
            let delay = world.network.links.of(from, to).delay;
            world.set_link(from, to, Link { passage, delay });
        }
    }

    /// Opens every link that was changed, and takes its delay away.
    pub fn mend_links(&self) {
        self.shared.world.lock().mend_links();
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
