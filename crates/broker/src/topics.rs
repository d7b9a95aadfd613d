//! The partitions this broker leads, found by name or by id: a snapshot that readers hold without a lock.

use std::collections::HashMap;
use std::sync::Arc;

use partition::Partition;
use wire::Uuid;

pub(crate) struct Topic {
    pub(crate) id: Uuid,
    pub(crate) name: Arc<str>,
    pub(crate) partitions: Vec<Arc<Partition>>,
}

impl Topic {
    pub(crate) fn partition(&self, index: i32) -> Option<&Arc<Partition>> {
        self.partitions.get(usize::try_from(index).ok()?)
    }
}

#[derive(Clone, Default)]
pub(crate) struct Topics {
    by_name: HashMap<Arc<str>, Arc<Topic>>,
    by_id: HashMap<Uuid, Arc<Topic>>,
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

    /// In name order.
    pub(crate) fn sorted(&self) -> Vec<&Arc<Topic>> {
        let mut all: Vec<_> = self.by_name.values().collect();
        all.sort_by(|left, right| left.name.cmp(&right.name));
        all
    }
}
