//! Where partitions live: from a directory id in the metadata to a log directory of this broker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use config::Overrides;
use meta::{Candidate, Image, dir};
use model::{BrokerId, PartitionIndex};
use partition::{LogDir, News, Replicas, Residents, Role};
use wire::Uuid;

use crate::topics::{Leader, Site, Topic};

/// The directories of this broker.
pub(crate) struct Places {
    node: BrokerId,
    dirs: Vec<Arc<Residents>>,
    missing: Arc<Residents>,
    /// The metadata have the registration of this life.
    has_joined: AtomicBool,
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
                // Its files stay until somebody takes care of them; who waits here is sent away.
                if let Some(open) = known {
                    open.set_role(planned.leader_epoch, role, news);
                }
                return None;
            }
            if let Some(open) = known {
                open.set_config(Arc::clone(&config), news);
                open.set_role(planned.leader_epoch, role, news);
                return Some(Arc::clone(open));
            }
            let residents = self.dir(planned.directory(self.node));
            let opened = residents.partition(topic.id, index).unwrap_or_else(|| {
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
