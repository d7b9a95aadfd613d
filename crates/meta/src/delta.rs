//! The changes from one image to a later one.
//!
//! Owns the list of changes that a publisher acts on. It is found by comparing what the two images do not share, so it costs what
//! changed, however large the images are and however many batches lie between them. What came and went in between is not in it.

use std::ops::Range;
use std::sync::Arc;

use config::Overrides;
use model::{BrokerId, PartitionIndex};
use wire::Uuid;
use wire::metadata::{AccessControlEntryRecord, DelegationTokenRecord, UserScramCredentialRecord};

use crate::image::{
    Controller, Credential, Entity, Image, Quotas, Registration, Resource, ResourceKind, Topic,
};
use crate::shared_map::{Change, SharedMap};

/// A topic whose partitions changed; its id is the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedTopic {
    pub old: Arc<Topic>,
    pub new: Arc<Topic>,
    /// New ones and those that differ, in rising order.
    pub partitions: Vec<PartitionIndex>,
}

/// A topic that is gone, with the settings that it had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedTopic {
    pub topic: Arc<Topic>,
    pub overrides: Arc<Overrides>,
}

/// A resource whose dynamic settings changed; without any it has empty ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedConfig {
    pub resource: Resource,
    pub old: Arc<Overrides>,
    pub new: Arc<Overrides>,
}

/// One that came (no `old`), went (no `new`) or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed<K, V> {
    pub key: K,
    pub old: Option<V>,
    pub new: Option<V>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Delta {
    /// In the order of their names, as all lists of topics. One that was deleted and created anew is in both lists.
    pub created: Vec<Arc<Topic>>,
    pub changed: Vec<ChangedTopic>,
    pub deleted: Vec<DeletedTopic>,
    /// In the order of kind and name, those of created and deleted topics too.
    pub configs: Vec<ChangedConfig>,
    /// Finalized levels.
    pub features: Vec<Changed<Arc<str>, i16>>,
    /// Fencing and other states are changes too.
    pub brokers: Vec<Changed<BrokerId, Arc<Registration>>>,
    pub controllers: Vec<Changed<BrokerId, Arc<Controller>>>,
    /// Producer ids that were given out; empty when there were none.
    pub producer_ids: Range<i64>,
    pub quotas: Vec<Changed<Entity, Arc<Quotas>>>,
    pub acls: Vec<Changed<Uuid, Arc<AccessControlEntryRecord>>>,
    pub credentials: Vec<Changed<Credential, Arc<UserScramCredentialRecord>>>,
    pub tokens: Vec<Changed<Arc<str>, Arc<DelegationTokenRecord>>>,
}

impl Delta {
    /// The differences of `new` from `old`, which is an earlier image of the same log.
    #[must_use]
    pub fn between(old: &Image, new: &Image) -> Delta {
        let next_producer_id = new.next_producer_id().0;
        let mut delta = Delta {
            created: Vec::new(),
            changed: Vec::new(),
            deleted: Vec::new(),
            configs: (old.settings.changes(&new.settings))
                .map(|change| ChangedConfig {
                    resource: change.key.clone(),
                    old: change.old.cloned().unwrap_or_default(),
                    new: change.new.cloned().unwrap_or_default(),
                })
                .collect(),
            features: changes(&old.features, &new.features),
            brokers: changes(&old.brokers, &new.brokers),
            controllers: changes(&old.controllers, &new.controllers),
            producer_ids: old.next_producer_id().0.min(next_producer_id)..next_producer_id,
            quotas: changes(&old.quotas, &new.quotas),
            acls: changes(&old.acls, &new.acls),
            credentials: changes(&old.credentials, &new.credentials),
            tokens: changes(&old.tokens, &new.tokens),
        };
        for change in old.topics.by_name.changes(&new.topics.by_name) {
            delta.note_topic(old, &change);
        }
        delta
    }

    fn note_topic(&mut self, image: &Image, change: &Change<'_, Arc<str>, Arc<Topic>>) {
        if let (Some(old), Some(new)) = (change.old, change.new)
            && old.id == new.id
        {
            self.changed.push(ChangedTopic {
                partitions: changed_partitions(old, new),
                old: Arc::clone(old),
                new: Arc::clone(new),
            });
            return;
        }
        if let Some(old) = change.old {
            self.deleted.push(DeletedTopic {
                overrides: image.overrides(&Resource::topic(&old.name)),
                topic: Arc::clone(old),
            });
        }
        self.created.extend(change.new.cloned());
    }

    /// True if a topic came, went or changed; settings do not count.
    #[must_use]
    pub fn has_topics(&self) -> bool {
        !(self.created.is_empty() && self.changed.is_empty() && self.deleted.is_empty())
    }

    /// The settings of `resource` changed.
    #[must_use]
    pub fn has_config(&self, resource: &Resource) -> bool {
        let order = |change: &ChangedConfig| change.resource.cmp(resource);
        self.configs.binary_search_by(order).is_ok()
    }

    /// Resources of a kind whose settings changed.
    pub fn configs_of(&self, kind: ResourceKind) -> impl Iterator<Item = &ChangedConfig> {
        let is_of = move |change: &&ChangedConfig| change.resource.kind == kind;
        self.configs.iter().filter(is_of)
    }

    #[must_use]
    pub fn has_feature(&self, name: &str) -> bool {
        (self.features.iter()).any(|change| change.key.as_ref() == name)
    }
}

fn changes<K: Ord + Clone, V: Clone + PartialEq>(
    old: &SharedMap<K, V>,
    new: &SharedMap<K, V>,
) -> Vec<Changed<K, V>> {
    let changed = |change: Change<'_, K, V>| Changed {
        key: change.key.clone(),
        old: change.old.cloned(),
        new: change.new.cloned(),
    };
    old.changes(new).map(changed).collect()
}

fn changed_partitions(old: &Topic, new: &Topic) -> Vec<PartitionIndex> {
    let differs = |at: &usize| old.partitions.get(*at) != new.partitions.get(*at);
    let changed = (0..new.partitions.len()).filter(differs);
    changed
        .map(|at| PartitionIndex(i32::try_from(at).unwrap_or(i32::MAX)))
        .collect()
}
