//! Where partitions live: from a directory id in the metadata to a log directory of this broker.

use std::sync::Arc;

use config::Overrides;
use meta::{Candidate, Image};
use model::{BrokerId, PartitionIndex};
use partition::{LogDir, News, Replicas, Residents, Role};
use wire::Uuid;

use crate::topics::Topic;

/// The directories of this broker.
pub(crate) struct Places {
    node: BrokerId,
    dirs: Vec<Arc<Residents>>,
    missing: Arc<Residents>,
}

impl Places {
    /// `missing` stands for directories that are in the metadata and not among ours.
    pub(crate) fn new(
        node: BrokerId,
        dirs: Vec<Arc<Residents>>,
        missing: Arc<Residents>,
    ) -> Places {
        Places {
            node,
            dirs,
            missing,
        }
    }

    /// The directory with `id`; the first one for partitions that were never given any.
    fn dir(&self, id: Option<Uuid>) -> &Arc<Residents> {
        match id.filter(|id| *id != Uuid::ZERO) {
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

    /// What the metadata have this broker do in a partition.
    fn role(&self, planned: &meta::Partition) -> Role {
        if planned.leader != self.node {
            return Role::NotLeading;
        }
        Role::Leading(Replicas {
            me: self.node,
            all: planned.replicas.clone(),
            in_sync: planned.isr.clone(),
        })
    }

    /// A topic of the image, with the partitions that are open already and fresh ones for the rest.
    pub(crate) fn open(
        &self,
        topic: &meta::Topic,
        overrides: &Arc<Overrides>,
        broker: &config::Broker,
        known: Option<&Arc<Topic>>,
        news: &mut Vec<News>,
    ) -> Topic {
        let config = crate::settings::log_config_of(&topic.name, overrides, broker);
        let open = |(index, planned): (usize, &meta::Partition)| {
            let index = PartitionIndex(i32::try_from(index).unwrap_or(i32::MAX));
            if let Some(open) = known.and_then(|known| known.partition(index.0)) {
                open.set_config(Arc::clone(&config), news);
                open.set_role(planned.leader_epoch, self.role(planned), news);
                return Arc::clone(open);
            }
            let residents = self.dir(planned.directory(self.node));
            let opened = residents.partition(topic.id, index).unwrap_or_else(|| {
                let start = partition::Start::empty(planned.leader_epoch, Arc::clone(&config));
                residents.create(topic.id, Arc::clone(&topic.name), index, start)
            });
            opened.set_role(planned.leader_epoch, self.role(planned), news);
            opened
        };
        Topic {
            id: topic.id,
            name: Arc::clone(&topic.name),
            partitions: topic.partitions.iter().enumerate().map(open).collect(),
        }
    }
}
