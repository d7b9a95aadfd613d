//! The partitions of the cluster, found by name or by id, and which of them are here: a snapshot that readers hold without a lock.
//!
//! Sparse: of a partition whose replicas are all on other brokers only its leader is known. One that is here need not be led
//! from here; a partition refuses by itself what only its leader may do.

use std::sync::Arc;

use meta::SharedMap;
use model::{BrokerId, LeaderEpoch};
use partition::Partition;
use wire::Uuid;

pub(crate) struct Topic {
    pub(crate) id: Uuid,
    pub(crate) name: Arc<str>,
    /// By number of the partition.
    pub(crate) sites: Vec<Site>,
}

/// Where one partition is.
#[derive(Clone)]
pub(crate) struct Site {
    /// The replica on this broker, if it has one.
    pub(crate) here: Option<Arc<Partition>>,
    pub(crate) leader: Leader,
}

/// The leader of a partition, as the metadata say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leader {
    /// None where no broker leads.
    pub(crate) broker: Option<BrokerId>,
    pub(crate) epoch: LeaderEpoch,
}

/// Why a partition is not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// The metadata know of no such partition.
    Unknown,
    /// Its replicas are on other brokers.
    Elsewhere,
}

/// The same topic, wherever its partitions are.
impl PartialEq for Topic {
    fn eq(&self, other: &Topic) -> bool {
        self.id == other.id
    }
}

impl Eq for Topic {}

impl Topic {
    fn site(&self, index: i32) -> Option<&Site> {
        self.sites.get(usize::try_from(index).ok()?)
    }

    pub(crate) fn partition(&self, index: i32) -> Result<&Arc<Partition>, Absent> {
        let site = self.site(index).ok_or(Absent::Unknown)?;
        site.here.as_ref().ok_or(Absent::Elsewhere)
    }

    pub(crate) fn has(&self, index: i32) -> bool {
        self.site(index).is_some()
    }

    /// How many partitions it has, wherever they are.
    pub(crate) fn partitions_count(&self) -> usize {
        self.sites.len()
    }

    /// Partitions with a replica on this broker.
    pub(crate) fn here(&self) -> impl Iterator<Item = &Arc<Partition>> {
        self.sites.iter().filter_map(|site| site.here.as_ref())
    }

    /// Those among them that `broker`, which is this one, leads, and since which epoch.
    pub(crate) fn led_by(
        &self,
        broker: BrokerId,
    ) -> impl Iterator<Item = (&Arc<Partition>, LeaderEpoch)> {
        let led = move |site: &&Site| site.leader.broker == Some(broker);
        let sites = self.sites.iter().filter(led);
        sites.filter_map(|site| Some((site.here.as_ref()?, site.leader.epoch)))
    }

    pub(crate) fn leader(&self, index: i32) -> Option<Leader> {
        self.site(index).map(|site| site.leader)
    }
}

/// A clone shares all that does not change: the news of one topic cost the same whatever else there is.
#[derive(Clone, Default)]
pub(crate) struct Topics {
    by_name: SharedMap<Arc<str>, Arc<Topic>>,
    by_id: SharedMap<Uuid, Arc<Topic>>,
}

impl Topics {
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<Topic>> {
        self.by_name.get(name)
    }

    pub(crate) fn with_id(&self, id: Uuid) -> Option<&Arc<Topic>> {
        self.by_id.get(&id)
    }

    /// By id where the request carries one, by name otherwise.
    pub(crate) fn find(&self, id: Uuid, name: &str) -> Option<&Arc<Topic>> {
        if id == Uuid::ZERO {
            self.named(name)
        } else {
            self.with_id(id)
        }
    }

    /// The leader of a partition of a topic by its name; none where the metadata know of no such partition.
    pub(crate) fn leader(&self, name: &str, index: i32) -> Option<Leader> {
        self.named(name)?.leader(index)
    }

    /// A partition of a topic by its name.
    pub(crate) fn partition(&self, name: &str, index: i32) -> Result<&Arc<Partition>, Absent> {
        let topic = self.named(name).ok_or(Absent::Unknown)?;
        topic.partition(index)
    }

    pub(crate) fn insert(&mut self, topic: Arc<Topic>) {
        self.by_name
            .insert(Arc::clone(&topic.name), Arc::clone(&topic));
        self.by_id.insert(topic.id, topic);
    }

    pub(crate) fn remove(&mut self, id: Uuid) -> Option<Arc<Topic>> {
        let topic = self.by_id.remove(&id)?;
        self.by_name.remove(&topic.name);
        Some(topic)
    }

    pub(crate) fn count(&self) -> usize {
        self.by_name.len()
    }

    /// Names of topics that `after` has no longer; costs what changed.
    pub(crate) fn gone(&self, after: &Topics) -> Vec<String> {
        let changes = self.by_name.changes(&after.by_name);
        let gone = changes.filter(|change| change.new.is_none());
        gone.map(|change| (**change.key).to_owned()).collect()
    }

    /// In name order.
    pub(crate) fn sorted(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.by_name.values()
    }
}
