//! The state of a simulated world, behind one lock.
//!
//! Owns virtual time, chance, the trace, the network, the workers and the hosts. Everything that the handles given to the
//! broker can do goes through here, so that one place checks that the machine is on, counts, and moves time.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::chance::Chance;
use super::host::{Faults, Host, HostId, Life, SyncEnd};
use super::net::Network;
use super::store::Store;
use super::threads::Crew;
use super::trace::{Event, Trace};
use super::volume::Volume;

pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) chance: Chance,
    pub(crate) trace: Trace,
    pub(crate) network: Network,
    pub(crate) crew: Crew,
    pub(crate) hosts: Vec<Host>,
    /// The object store that all hosts reach.
    pub(crate) store: Store<Life>,
}

/// Monotonic time starts at one hour, so that `now - something` stays above zero.
pub(crate) const NOW_START: u64 = 3_600_000_000_000;

impl World {
    /// A world of one host for each of `machines`, which finds its disk as given.
    pub(crate) fn new(seed: u64, machines: Vec<(Faults, Volume)>) -> World {
        let mut chance = Chance::new(seed);
        let machines = machines.into_iter();
        let hosts = machines.map(|(faults, volume)| Host::new(&mut chance, faults, volume));
        World {
            now: NOW_START,
            hosts: hosts.collect(),
            network: Network::default(),
            chance,
            trace: Trace::default(),
            crew: Crew::default(),
            store: Store::default(),
        }
    }

    pub(crate) fn host(&self, host: HostId) -> &Host {
        &self.hosts[host.index()]
    }

    pub(crate) fn host_mut(&mut self, host: HostId) -> &mut Host {
        &mut self.hosts[host.index()]
    }

    /// Something happened to all, or on the network.
    pub(crate) fn note(&mut self, event: &Event<'_>) {
        self.trace.note(HostId::FIRST, event);
    }

    pub(crate) fn note_on(&mut self, host: HostId, event: &Event<'_>) {
        self.trace.note(host, event);
    }

    /// The time on `host`, which is ahead of the world's while a sync keeps it busy.
    pub(crate) fn now_on(&self, host: HostId) -> u64 {
        self.now.max(self.host(host).busy_until)
    }

    pub(crate) fn wall_ms(&self, host: HostId) -> i64 {
        self.host(host).wall_ms(self.now_on(host))
    }

    pub(crate) fn is_all_off(&self) -> bool {
        self.hosts.iter().all(|host| host.crashed.is_some())
    }

    /// Checks that the handle of `life` still has a machine under it.
    pub(crate) fn check_on(&self, life: Life) -> io::Result<()> {
        let host = self.host(life.host);
        if host.boot == life.boot && host.crashed.is_none() {
            Ok(())
        } else {
            Err(io::Error::other("the machine is off"))
        }
    }

    /// Admits one disk operation, or cuts the power at it.
    pub(crate) fn disk_op(&mut self, life: Life, changes: bool) -> io::Result<()> {
        self.check_on(life)?;
        let now = self.now_on(life.host);
        let host = self.host_mut(life.host);
        host.counts.disk_ops += 1;
        if host.faults.crash_at_op == Some(host.counts.disk_ops) {
            host.crashed = Some(now);
            host.counts.crashes_at_op += 1;
            let name = "crash at operation";
            self.note_on(life.host, &Event::Fault { name });
            return self.check_on(life);
        }
        if changes && let Some(tape) = &mut host.tape {
            tape.push(host.volume.clone());
        }
        Ok(())
    }

    /// Admits one sync: counts it, lets its time pass, and returns whether it fails.
    pub(crate) fn sync_op(&mut self, life: Life) -> io::Result<bool> {
        self.disk_op(life, true)?;
        let host = &mut self.hosts[life.host.index()];
        host.counts.syncs += 1;
        let slow = if self.chance.one_in(100) { 100 } else { 1 };
        let of = &host.faults.sync_nanos;
        let nanos = slow * self.chance.between(of.start, of.end);
        self.spend(life.host, nanos);
        let host = self.host_mut(life.host);
        let fails = host.faults.sync_fails_at.is_some_and(|at| {
            host.counts.syncs == at || (host.faults.sync_fails_on && host.counts.syncs > at)
        });
        if fails {
            host.counts.syncs_failed += 1;
        }
        Ok(fails)
    }

    /// A sync, or another wait, takes `nanos` of the running syncer's time alone, or of the time of its host: whatever else its worker does in
    /// this turn can be seen by the others there. In a world of one that time passes at once, for nobody else has a use for it.
    pub(super) fn spend(&mut self, host: HostId, nanos: u64) {
        if self.crew.spend_alone(nanos) {
            return;
        }
        if self.hosts.len() == 1 {
            self.now += nanos;
            return;
        }
        let (now, end) = (self.now, self.now_on(host) + nanos);
        self.host_mut(host).begin_busy_sync(now, end);
    }

    /// When the sync that the running syncer has begun is over.
    pub(crate) fn syncs_alone_until(&self) -> Option<SyncEnd> {
        let (now, nanos) = (self.now, self.crew.spent_alone()?);
        Some(SyncEnd {
            now,
            end: now + nanos,
        })
    }

    /// Counts a descriptor that is needed for a moment or longer.
    pub(crate) fn take_descriptor(&mut self, host: HostId) -> io::Result<()> {
        const EMFILE: i32 = 24;
        let host = self.host_mut(host);
        host.counts.opens += 1;
        if host.faults.opens_fail.contains(&host.counts.opens) {
            host.counts.opens_failed += 1;
            return Err(io::Error::from_raw_os_error(EMFILE));
        }
        Ok(())
    }

    /// Counts a file that gets another name or goes: either may need room for the entry of it.
    pub(crate) fn find_room_for_name(&mut self, host: HostId) -> io::Result<()> {
        let host = self.host_mut(host);
        host.counts.names += 1;
        if host.faults.names_fail.contains(&host.counts.names) {
            host.counts.names_refused_full += 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

/// The world as its handles hold it.
pub(crate) struct Shared {
    pub(crate) world: Mutex<World>,
}

pub(crate) type SharedWorld = Arc<Shared>;

pub(crate) fn io_error() -> io::Error {
    io::Error::from_raw_os_error(5)
}
