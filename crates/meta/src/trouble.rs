//! Log directories that work and are in trouble, full or slow, as their brokers say: soft state of an active controller.
//!
//! A replica there should not lead, nor join an ISR, while another one can do without it. Nothing of it is in the metadata: a controller that
//! begins hears of it with the first heartbeats.

use std::collections::{BTreeMap, BTreeSet};

use model::BrokerId;
use wire::Uuid;

use crate::image::Partition;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    dirs: BTreeMap<BrokerId, BTreeSet<Uuid>>,
}

impl Trouble {
    /// A broker says which of its directories are in trouble. Returns those that were not before.
    pub fn on_told(&mut self, broker: BrokerId, dirs: &[Uuid]) -> Vec<Uuid> {
        let told: BTreeSet<Uuid> = dirs.iter().copied().collect();
        let before = if told.is_empty() {
            self.dirs.remove(&broker)
        } else {
            self.dirs.insert(broker, told.clone())
        };
        let before = before.unwrap_or_default();
        told.difference(&before).copied().collect()
    }

    /// True if the replica of a partition on a broker is in such a directory.
    #[must_use]
    pub fn has(&self, partition: &Partition, broker: BrokerId) -> bool {
        let dirs = self.dirs.get(&broker);
        dirs.is_some_and(|dirs| {
            let dir = partition.directory(broker);
            dir.is_some_and(|dir| dirs.contains(&dir))
        })
    }
}
