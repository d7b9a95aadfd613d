//! Where partitions live: from a directory id in the metadata to a log directory of this broker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use config::Overrides;
use meta::{Candidate, Image, dir};
use model::{BrokerId, LeaderEpoch, PartitionIndex};
use partition::{LogDir, News, Partition, Replicas, Residents, Role};
use wire::Uuid;

use crate::topics::{Leader, Site, Topic};

/// The directories of this broker.
pub(crate) struct Places {
    node: BrokerId,
    dirs: Vec<Arc<Residents>>,
    missing: Arc<Residents>,
    /// The metadata have the registration of this life.
    has_joined: AtomicBool,
    is_alone: bool,
}

impl Places {
    /// `missing` stands for directories that are in the metadata and not among ours. A broker that is alone has nothing to join.
    pub(crate) fn new(
        node: BrokerId,
        dirs: Vec<Arc<Residents>>,
        missing: Arc<Residents>,
        is_alone: bool,
    ) -> Places {
        Places {
            node,
            dirs,
            missing,
            has_joined: AtomicBool::new(is_alone),
            is_alone,
        }
    }

    /// Lets this broker lead where the metadata say so from now on. True if it could not before.
    ///
    /// Metadata of before the registration of this life may miss the last ISR that it asked for: by them it would commit what a replica in sync
    /// does not have.
    pub(crate) fn join(&self) -> bool {
        !self.has_joined.swap(true, Ordering::AcqRel)
    }

    /// The directory with `id`; the first one for partitions that were never given any.
    fn dir(&self, id: Option<Uuid>) -> &Arc<Residents> {
        match id.filter(|id| *id != dir::MIGRATING && *id != dir::UNASSIGNED) {
            None => &self.dirs[0],
            Some(id) => self
                .dirs
                .iter()
                .find(|residents| residents.dir.id == id)
                .unwrap_or(&self.missing),
        }
    }

    /// The image that decisions look at: a directory that has failed since the broker registered gets nothing new, nor does one that
    /// the settings cordon.
    pub(crate) fn usable(&self, image: &Image, broker: &config::Broker) -> Candidate {
        let ids = |is: &dyn Fn(&LogDir) -> bool| -> Vec<Uuid> {
            let dirs = self.dirs.iter().map(|residents| &residents.dir);
            dirs.filter(|dir| is(dir)).map(|dir| dir.id).collect()
        };
        let failed = ids(&LogDir::is_failed);
        let cordoned = ids(&|dir| broker.is_cordoned(&dir.path));
        Candidate::new(image).without_log_dirs(self.node, &failed, &cordoned)
    }

    /// The role that the metadata give this broker in a partition.
    fn role(&self, planned: &meta::Partition) -> Role {
        if planned.leader != self.node || !self.has_joined.load(Ordering::Acquire) {
            return Role::NotLeading;
        }
        Role::Leading(Replicas {
            me: self.node,
            all: planned.replicas.clone(),
            in_sync: planned.isr.clone(),
            partition_epoch: planned.epoch,
        })
    }

    /// This broker has no replica of a partition: whoever waits here is sent away, and its files go. Those of an earlier life go once the
    /// metadata are known to be as new as this one, and another node says so.
    fn let_go(
        &self,
        topic: Uuid,
        index: PartitionIndex,
        epoch: LeaderEpoch,
        known: Option<&Arc<Partition>>,
        news: &mut Vec<News>,
    ) {
        if let Some(known) = known {
            known.set_role(epoch, Role::NotLeading, news);
        }
        if !self.has_joined.load(Ordering::Acquire) {
            return;
        }
        let is_left = |residents: &Arc<Residents>| residents.partition(topic, index);
        let left = self.dirs.iter().filter(|_| !self.is_alone);
        let left: Vec<_> = left.filter_map(is_left).collect();
        for partition in left.iter().chain(known).filter(|left| !left.is_going()) {
            partition.set_role(epoch, Role::NotLeading, news);
            if partition.leave(epoch, news) {
                tracing::info!(
                    target: env::logs::REPLICATION,
                    "{}-{}: this broker has no replica any more: its files are removed",
                    partition.topic, partition.index,
                );
            } else {
                tracing::warn!(
                    target: env::logs::REPLICATION,
                    "{}-{}: this broker has no replica any more; its files stay, because the metadata are older than they are, or \
                     they cannot be read",
                    partition.topic, partition.index,
                );
            }
        }
    }

    /// A topic of the image: of the partitions that have a replica on this broker those that are open already, and fresh ones for
    /// the rest.
    pub(crate) fn open(
        &self,
        topic: &meta::Topic,
        overrides: &Arc<Overrides>,
        broker: &config::Broker,
        known: Option<&Arc<Topic>>,
        news: &mut Vec<News>,
    ) -> Topic {
        let config = crate::settings::log_config_of(&topic.name, overrides, broker);
        let mut open = |(index, planned): (usize, &meta::Partition)| {
            let index = PartitionIndex(i32::try_from(index).unwrap_or(i32::MAX));
            let known = known.and_then(|known| known.partition(index.0).ok());
            let role = self.role(planned);
            if !planned.replicas.contains(&self.node) {
                self.let_go(topic.id, index, planned.leader_epoch, known, news);
                return None;
            }
            if let Some(open) = known {
                open.set_config(Arc::clone(&config), news);
                open.set_role(planned.leader_epoch, role, news);
                return Some(Arc::clone(open));
            }
            let residents = self.dir(planned.directory(self.node));
            let known = residents.partition(topic.id, index);
            let opened = known.filter(|known| known.stay()).unwrap_or_else(|| {
                let start = partition::Start::empty(planned.leader_epoch, Arc::clone(&config));
                residents.create(topic.id, Arc::clone(&topic.name), index, start)
            });
            opened.set_role(planned.leader_epoch, role, news);
            Some(opened)
        };
        let sites = topic.partitions.iter().enumerate();
        let sites = sites
            .map(|(index, planned)| Site {
                here: open((index, planned)),
                leader: Leader {
                    broker: Some(planned.leader).filter(|leader| *leader != meta::NO_LEADER),
                    epoch: planned.leader_epoch,
                },
            })
            .collect();
        Topic {
            id: topic.id,
            name: Arc::clone(&topic.name),
            sites,
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::metadata::PartitionChangeRecord;

    use super::*;
    use crate::event_loop::bench::Bench;

    /// The only replica goes to another broker.
    fn reassigned(topic_id: Uuid) -> meta::Record {
        PartitionChangeRecord {
            topic_id,
            partition_id: 0,
            replicas: Some(vec![2]),
            isr: Some(vec![2]),
            directories: Some(vec![Uuid::ZERO]),
            leader: 2,
            ..PartitionChangeRecord::default()
        }
        .into()
    }

    #[test]
    fn a_replica_that_is_reassigned_away_leaves() {
        let mut bench = Bench::new();
        bench.create("t", 1);
        let partition = bench.partition("t", 0);
        bench.publish(&[reassigned(partition.topic_id)]);
        assert!(partition.is_going());
    }

    #[test]
    fn a_replica_of_an_earlier_life_leaves_once_the_broker_has_joined() {
        let mut bench = Bench::new();
        bench.create("t", 1);
        let partition = bench.partition("t", 0);
        let shared = Arc::clone(&bench.shard.desk.shared);
        let broker = Arc::clone(&shared.config().broker);
        let mut image = Image::clone(&shared.metadata.image());
        let place = image.next_place();
        image
            .replay(place, &[reassigned(partition.topic_id)])
            .unwrap();
        let topic = image.topic_by_id(partition.topic_id).unwrap();
        let residents = shared.residents().to_vec();
        let missing = Arc::clone(&residents[0]);
        let places = Places::new(broker.node_id, residents, missing, false);
        let open = |news: &mut Vec<News>| {
            let topic = places.open(topic, &Arc::default(), &broker, None, news);
            assert!(topic.partition(0).is_err());
        };
        open(&mut Vec::new());
        assert!(!partition.is_going(), "the metadata may be old");
        assert!(places.join());
        open(&mut Vec::new());
        assert!(partition.is_going());
    }
}
