//! Machines made of a seed: virtual time, disks that lose what was not synced, a network that delays and breaks.
//!
//! The broker runs on them unchanged, in one thread: workers take turns in an order drawn from the seed, and time moves only
//! when all of them sleep. The same seed gives the same run; [`Machine::trace`] proves it. [`Machines`] are several in one
//! world, each with a disk, a clock and power of its own; a [`Machine`] may be alone in its world.

mod bucket;
mod chance;
mod content;
mod disk;
mod host;
mod images;
mod links;
mod machine;
mod machines;
mod net;
mod outside;
mod poller;
mod store;
mod threads;
mod trace;
mod traffic;
mod volume;
mod world;

use model::{Instant, Timestamp};

use crate::{Clock, Rng};
pub use chance::{Chance, Chooser};
use host::Life;
pub use host::{Counts, Faults, HostId};
pub use images::{Image, Tape};
pub use links::{Link, Passage, Site, address_of};
pub use machine::{Machine, Rot};
pub use machines::Machines;
pub use outside::Outside;
pub use poller::SimConn;
pub use store::{BucketCounts, BucketFaults};
pub use threads::Step;
pub use volume::{Lost, Volume};
use world::SharedWorld;

struct SimClock {
    shared: SharedWorld,
    life: Life,
}

impl Clock for SimClock {
    fn now(&self) -> Instant {
        Instant(self.shared.world.lock().now_on(self.life.host))
    }

    fn wall_ms(&self) -> Timestamp {
        let mut world = self.shared.world.lock();
        let now = world.now_on(self.life.host);
        Timestamp(world.host_mut(self.life.host).read_wall(now))
    }
}

struct SimRng {
    shared: SharedWorld,
    life: Life,
}

impl Rng for SimRng {
    fn next_u64(&self) -> u64 {
        let mut world = self.shared.world.lock();
        world.host_mut(self.life.host).broker_chance.next_u64()
    }

    fn fill(&self, bytes: &mut [u8]) {
        let mut world = self.shared.world.lock();
        world.host_mut(self.life.host).broker_chance.fill(bytes);
    }
}
