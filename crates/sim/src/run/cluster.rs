//! The brokers of a run, each on a machine of its own, in one world.
//!
//! Owns the machines. Node `n` is the broker on machine `n`; so far each knows only itself. One of them is home: the one whose
//! clients are judged, and of which everything is demanded that one broker has to keep.

use env::sim::{Chance, HostId, Machines, Outside};
use model::Instant;

use super::host::Host;
use super::plan::Plan;
use crate::client::notes::Notes;

pub(crate) struct Cluster {
    pub(crate) machines: Machines,
    /// Where the clients are.
    pub(crate) world: Outside,
    hosts: Vec<Host>,
    home: HostId,
}

impl Cluster {
    pub(crate) fn new(seed: u64, plan: &Plan) -> Cluster {
        let machines = Machines::new(seed, plan.nodes, &plan.faults);
        Cluster {
            hosts: machines.iter().map(|it| Host::new(it, plan)).collect(),
            world: machines.outside(),
            machines,
            home: HostId::FIRST,
        }
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = HostId> + use<> {
        (1..=self.hosts.len() as u8).map(HostId)
    }

    pub(crate) fn node(&self, node: HostId) -> &Host {
        &self.hosts[usize::from(node.0) - 1]
    }

    pub(crate) fn node_mut(&mut self, node: HostId) -> &mut Host {
        &mut self.hosts[usize::from(node.0) - 1]
    }

    pub(crate) fn home(&self) -> &Host {
        self.node(self.home)
    }

    pub(crate) fn home_mut(&mut self) -> &mut Host {
        self.node_mut(self.home)
    }

    pub(crate) fn move_home(&mut self, node: HostId) {
        self.home = node;
    }

    pub(crate) fn now(&self) -> Instant {
        self.world.now()
    }

    /// Notices the end of brokers, and starts those whose time it is.
    pub(crate) fn tend(&mut self, chance: &mut Chance, notes: &mut Notes) {
        for host in &mut self.hosts {
            host.tend(chance, notes);
        }
    }

    /// When the next broker starts.
    pub(crate) fn start_at(&self) -> Option<Instant> {
        self.hosts.iter().filter_map(Host::start_at).min()
    }
}
