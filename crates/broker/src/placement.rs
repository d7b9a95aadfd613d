//! Where partitions live: from a directory id in the metadata to a log directory of this broker.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use config::Overrides;
use meta::{Candidate, Image, dir};
use model::{BrokerId, LeaderEpoch, PartitionIndex};
use parking_lot::Mutex;
use partition::dir::Key;
use partition::{LogDir, News, Partition, Replicas, Residents, Role};
use wire::Uuid;

use crate::topics::{Leader, Site, Topic};

/// Where a replica of this broker lives.
enum Home<'a> {
    Known(&'a Arc<Residents>),
    /// It begins anew there: the directory that had it is gone.
    Replaced(&'a Arc<Residents>),
    /// The directory that had it is gone, and no other broker has the records.
    Lost(&'a Arc<Residents>),
}

/// The directories of this broker.
pub(crate) struct Places {
    node: BrokerId,
    dirs: Vec<Arc<Residents>>,
    missing: Arc<Residents>,
    /// The metadata have the registration of this life.
    has_joined: AtomicBool,
    is_alone: AtomicBool,
    /// Replicas that began anew by metadata of before the registration of this life, by topic: some topics are deleted by then.
    begun: Mutex<BTreeMap<Uuid, Begun>>,
}

/// Replicas of a topic whose directory is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Begun {
    replaced_count: usize,
    lost_count: usize,
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
            is_alone: AtomicBool::new(is_alone),
            begun: Mutex::default(),
        }
    }

    fn is_alone(&self) -> bool {
        self.is_alone.load(Ordering::Acquire)
    }

    /// Other nodes have a part in the cluster from now on.
    pub(crate) fn have_others(&self) {
        self.is_alone.store(false, Ordering::Release);
    }

    /// Lets this broker lead where the metadata say so from now on. True if it could not before.
    ///
    /// Metadata of before the registration of this life may miss the last ISR that it asked for: by them it would commit what a replica in sync
    /// does not have.
    pub(crate) fn join(&self) -> bool {
        !self.has_joined.swap(true, Ordering::AcqRel)
    }

    /// The directory that has, or is to have, the replica of this broker.
    ///
    /// A move that a crash cut short, or metadata of before one, name another directory than the one with the files. A directory that the
    /// metadata name and that is not among ours was replaced: its replica begins anew in one of ours, and the others fill it. Not where
    /// it may be the one that failed, and not where nobody else has the records: its replica stays offline.
    fn home(&self, key: Key, planned: &meta::Partition) -> Home<'_> {
        let has_files = |residents: &&Arc<Residents>| {
            let found = residents.partition(key.0, key.1);
            found.is_some_and(|found| !found.is_going())
        };
        let with_files = || self.dirs.iter().find(has_files);
        let is_whole = self.dirs.iter().all(|of| !of.dir.is_failed());
        let id = planned.directory(self.node);
        let Some(id) = id.filter(|id| *id != dir::MIGRATING && *id != dir::UNASSIGNED) else {
            return Home::Known(with_files().unwrap_or_else(|| self.emptiest()));
        };
        match self.dirs.iter().find(|residents| residents.dir.id == id) {
            Some(named) if named.dir.is_failed() || has_files(&named) => Home::Known(named),
            Some(named) => Home::Known(with_files().unwrap_or(named)),
            None if !is_whole => Home::Known(&self.missing),
            None if self.is_alone() || planned.replicas.len() < 2 => Home::Lost(&self.missing),
            None => with_files().map_or_else(|| Home::Replaced(self.emptiest()), Home::Known),
        }
    }

    /// The directory that works and has the fewest partitions; the first one where none works.
    fn emptiest(&self) -> &Arc<Residents> {
        let working = self.dirs.iter().filter(|of| !of.dir.is_failed());
        let emptiest = working.min_by_key(|residents| residents.count());
        emptiest.unwrap_or(&self.dirs[0])
    }

    /// The working directory of ours that a partition lives in, if the metadata name another one.
    pub(crate) fn misnamed(&self, partition: &Partition, named: Uuid) -> Option<Uuid> {
        let dir = partition.dir();
        let is_ours = || self.dirs.iter().any(|of| Arc::ptr_eq(&of.dir, &dir));
        (named != dir.id && !dir.is_failed() && is_ours()).then_some(dir.id)
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
        let left = self.dirs.iter().filter(|_| !self.is_alone());
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

    /// A topic was deleted.
    pub(crate) fn forget(&self, topic: Uuid) {
        self.begun.lock().remove(&topic);
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
        let mut begun = self.begun.lock().remove(&topic.id).unwrap_or_default();
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
            let residents = match self.home((topic.id, index), planned) {
                Home::Known(residents) => residents,
                Home::Replaced(residents) => {
                    begun.replaced_count += 1;
                    residents
                }
                Home::Lost(residents) => {
                    begun.lost_count += 1;
                    residents
                }
            };
            let known = residents.partition(topic.id, index);
            let opened = known.filter(|known| known.stay()).unwrap_or_else(|| {
                let start = partition::Start::empty(planned.leader_epoch, Arc::clone(&config));
                residents.create(topic.id, Arc::clone(&topic.name), index, start)
            });
            opened.set_role(planned.leader_epoch, role, news);
            Some(opened)
        };
        let sites = topic.partitions.iter().enumerate();
        let sites: Vec<Site> = sites
            .map(|(index, planned)| Site {
                here: open((index, planned)),
                leader: Leader {
                    broker: Some(planned.leader).filter(|leader| *leader != meta::NO_LEADER),
                    epoch: planned.leader_epoch,
                },
            })
            .collect();
        if self.has_joined.load(Ordering::Acquire) {
            report(&topic.name, begun);
        } else if begun != Begun::default() {
            self.begun.lock().insert(topic.id, begun);
        }
        Topic {
            id: topic.id,
            name: Arc::clone(&topic.name),
            sites,
        }
    }
}

fn report(topic: &str, begun: Begun) {
    let Begun {
        replaced_count,
        lost_count,
    } = begun;
    if replaced_count > 0 {
        tracing::warn!(
            target: env::logs::BROKER,
            "the log directory of {replaced_count} replicas of topic {topic} is gone: they begin anew here, empty, and are filled by the other replicas"
        );
    }
    if lost_count > 0 {
        tracing::error!(
            target: env::logs::BROKER,
            "the log directory of {lost_count} partitions of topic {topic} is gone, and they have no other replica: they stay offline. Bring \
             the directory back, or delete the topic"
        );
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
        let broker = Arc::clone(&shared.catalog.config().broker);
        let mut image = Image::clone(&shared.catalog.image());
        let place = image.next_place();
        image
            .replay(place, &[reassigned(partition.topic_id)])
            .unwrap();
        let topic = image.topic_by_id(partition.topic_id).unwrap();
        let residents = shared.volumes.residents().to_vec();
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

    #[test]
    fn a_replica_whose_directory_is_gone_is_reported_once_the_metadata_are_new() {
        let mut bench = Bench::new();
        bench.create("t", 1);
        let shared = Arc::clone(&bench.shard.desk.shared);
        let broker = Arc::clone(&shared.catalog.config().broker);
        let image = shared.catalog.image();
        let mut topic = meta::Topic::clone(image.topic("t").unwrap());
        topic.id = Uuid([7; 16]);
        topic.partitions = topic.partitions.iter().cloned().map(elsewhere).collect();
        let residents = shared.volumes.residents().to_vec();
        let missing = Arc::clone(&residents[0]);
        let places = Places::new(broker.node_id, residents, missing, false);
        let open = || places.open(&topic, &Arc::default(), &broker, None, &mut Vec::new());
        let count = || {
            places
                .begun
                .lock()
                .get(&topic.id)
                .map(|begun| begun.replaced_count)
        };
        open();
        assert_eq!(count(), Some(1));
        places.forget(topic.id);
        assert_eq!(count(), None, "it was deleted before this broker came back");
        open();
        assert!(places.join());
        open();
        assert_eq!(count(), None, "it was reported");
    }

    /// In a directory that is gone, and on another broker.
    fn elsewhere(mut partition: meta::Partition) -> meta::Partition {
        partition.directories = vec![Uuid([9; 16]); 2];
        partition.replicas = vec![partition.replicas[0], BrokerId(99)];
        partition
    }
}
