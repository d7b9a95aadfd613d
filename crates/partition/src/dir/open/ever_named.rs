//! The partitions that the metadata log ever named.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::PartitionIndex;
use wire::Uuid;

/// All partitions that the metadata log ever named, those of deleted topics too.
#[derive(Clone, Debug, Default)]
pub struct EverNamed {
    topics: BTreeMap<Uuid, Arc<str>>,
    pub(super) partitions: BTreeSet<(Uuid, PartitionIndex)>,
    /// Names of their directories.
    pub(super) names: BTreeSet<String>,
}

impl EverNamed {
    pub fn note_topic(&mut self, id: Uuid, name: &str) {
        self.topics.insert(id, name.into());
    }

    /// A partition of a topic that was noted.
    pub fn note_partition(&mut self, topic: Uuid, index: PartitionIndex) {
        self.partitions.insert((topic, index));
        if let Some(name) = self.topics.get(&topic) {
            self.names.insert(format!("{name}-{index}"));
        }
    }
}
