//! Committed offsets of all groups, and those that hang on an open transaction.
//!
//! Invariant: changes by `replay` and `replay_marker` alone. Of a plain and a transactional commit the one that is later in the
//! log wins, whenever the marker comes. A group without members may have offsets: tools and consumers that assign their
//! partitions themselves commit so.

mod commit;
mod expire;
mod fetch;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use model::ProducerId;
use wire::Uuid;
use wire::group::{OffsetCommitKey, OffsetCommitValue};

pub(super) use commit::{Terms, acceptable};
pub(super) use expire::{Look, LookFrom, Looked, Retention};

#[derive(Debug, Default)]
pub(super) struct Offsets {
    groups: BTreeMap<Arc<str>, OfGroup>,
    /// Groups with pending offsets of a producer.
    open: BTreeMap<ProducerId, BTreeSet<Arc<str>>>,
    /// Counts replayed records: which of two commits is the later one.
    order: u64,
}

type ByTopic = BTreeMap<Arc<str>, BTreeMap<i32, Committed>>;

#[derive(Debug, Default)]
struct OfGroup {
    committed: ByTopic,
    pending: BTreeMap<ProducerId, ByTopic>,
    /// Producers with something pending for a partition: a group may have thousands of open transactions, and as many partitions are asked
    /// about at once.
    producers: BTreeMap<Arc<str>, BTreeMap<i32, Vec<ProducerId>>>,
}

#[derive(Clone, Debug)]
struct Committed {
    offset: i64,
    leader_epoch: i32,
    metadata: Box<str>,
    commit_timestamp: i64,
    /// -1: by the retention of groups.
    expire_timestamp: i64,
    /// Zero when it was written without.
    topic_id: Uuid,
    order: u64,
}

impl Committed {
    /// Committed to an earlier topic of the same name than the one with this id.
    fn is_of_other_topic(&self, id: Uuid) -> bool {
        !self.topic_id.is_zero() && !id.is_zero() && self.topic_id != id
    }
}

impl OfGroup {
    fn is_empty(&self) -> bool {
        self.committed.is_empty() && self.pending.is_empty()
    }

    fn is_pending(&self, topic: &str, partition: i32) -> bool {
        let producers = self.producers.get(topic);
        producers.is_some_and(|partitions| partitions.contains_key(&partition))
    }

    fn put_pending(&mut self, producer: ProducerId, topic: &str, partition: i32, new: Committed) {
        let pending = self.pending.entry(producer).or_default();
        if !put(pending, topic, partition, new) {
            return;
        }
        match self.producers.get_mut(topic) {
            Some(partitions) => partitions.entry(partition).or_default().push(producer),
            None => {
                let partitions = BTreeMap::from([(partition, vec![producer])]);
                self.producers.insert(topic.into(), partitions);
            }
        }
    }

    /// Takes out what hangs on the transaction of `producer`.
    fn take_pending(&mut self, producer: ProducerId) -> ByTopic {
        let pending = self.pending.remove(&producer).unwrap_or_default();
        for (topic, partition, _) in flat(&pending) {
            let Some(partitions) = self.producers.get_mut(topic) else {
                continue;
            };
            if let Some(producers) = partitions.get_mut(&partition) {
                producers.retain(|known| *known != producer);
                if producers.is_empty() {
                    partitions.remove(&partition);
                }
            }
            if partitions.is_empty() {
                self.producers.remove(topic);
            }
        }
        pending
    }

    /// A removal takes what is pending with it.
    fn forget(&mut self, topic: &str, partition: i32) {
        remove(&mut self.committed, topic, partition);
        let Some(partitions) = self.producers.get_mut(topic) else {
            return;
        };
        for producer in partitions.remove(&partition).unwrap_or_default() {
            if let Some(pending) = self.pending.get_mut(&producer) {
                remove(pending, topic, partition);
                if pending.is_empty() {
                    self.pending.remove(&producer);
                }
            }
        }
        if partitions.is_empty() {
            self.producers.remove(topic);
        }
    }

    /// Every partition with an offset, committed or pending, once.
    fn partitions(&self) -> BTreeSet<(&str, i32)> {
        let pending = self.pending.values().flat_map(flat);
        flat(&self.committed)
            .chain(pending)
            .map(|(topic, partition, _)| (topic, partition))
            .collect()
    }
}

fn get<'a>(topics: &'a ByTopic, topic: &str, partition: i32) -> Option<&'a Committed> {
    topics.get(topic)?.get(&partition)
}

fn flat(topics: &ByTopic) -> impl Iterator<Item = (&str, i32, &Committed)> {
    topics.iter().flat_map(|(topic, partitions)| {
        partitions
            .iter()
            .map(move |(partition, committed)| (&**topic, *partition, committed))
    })
}

/// The same from a partition on, which need not be there.
fn flat_from<'a>(
    topics: &'a ByTopic,
    (from_topic, from): (&'a str, i32),
) -> impl Iterator<Item = (&'a Arc<str>, i32, &'a Committed)> {
    let range = (Bound::Included(from_topic), Bound::Unbounded);
    topics
        .range::<str, _>(range)
        .flat_map(move |(topic, partitions)| {
            let least = if **topic == *from_topic {
                from
            } else {
                i32::MIN
            };
            partitions
                .range(least..)
                .map(move |(partition, committed)| (topic, *partition, committed))
        })
}

/// True if it is the first of its partition.
fn put(topics: &mut ByTopic, topic: &str, partition: i32, committed: Committed) -> bool {
    match topics.get_mut(topic) {
        Some(partitions) => partitions.insert(partition, committed).is_none(),
        None => {
            topics.insert(topic.into(), BTreeMap::from([(partition, committed)]));
            true
        }
    }
}

fn remove(topics: &mut ByTopic, topic: &str, partition: i32) {
    if let Some(partitions) = topics.get_mut(topic) {
        partitions.remove(&partition);
        if partitions.is_empty() {
            topics.remove(topic);
        }
    }
}

impl Offsets {
    pub(super) fn replay(
        &mut self,
        key: &OffsetCommitKey,
        value: Option<&OffsetCommitValue>,
        producer: Option<ProducerId>,
    ) {
        self.order += 1;
        let Some(value) = value else {
            self.forget(&key.group, &key.topic, key.partition);
            return;
        };
        let committed = Committed {
            offset: value.offset,
            leader_epoch: value.leader_epoch,
            metadata: value.metadata.as_str().into(),
            commit_timestamp: value.commit_timestamp,
            expire_timestamp: value.expire_timestamp,
            topic_id: value.topic_id,
            order: self.order,
        };
        let id = match self.groups.get_key_value(key.group.as_str()) {
            Some((id, _)) => Arc::clone(id),
            None => key.group.as_str().into(),
        };
        let group = self.groups.entry(Arc::clone(&id)).or_default();
        match producer {
            None => {
                put(&mut group.committed, &key.topic, key.partition, committed);
            }
            Some(producer) => {
                self.open.entry(producer).or_default().insert(id);
                group.put_pending(producer, &key.topic, key.partition, committed);
            }
        }
    }

    fn forget(&mut self, group_id: &str, topic: &str, partition: i32) {
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        group.forget(topic, partition);
        if group.is_empty() {
            self.groups.remove(group_id);
        }
    }

    pub(super) fn replay_marker(&mut self, producer: ProducerId, committed: bool) {
        for id in self.open.remove(&producer).unwrap_or_default() {
            let Some(group) = self.groups.get_mut(&id) else {
                continue;
            };
            let pending = group.take_pending(producer);
            for (topic, partitions) in pending.into_iter().filter(|_| committed) {
                for (partition, new) in partitions {
                    let is_later = get(&group.committed, &topic, partition)
                        .is_none_or(|old| old.order < new.order);
                    if is_later {
                        put(&mut group.committed, &topic, partition, new);
                    }
                }
            }
            if group.is_empty() {
                self.groups.remove(&id);
            }
        }
    }

    /// Something is committed or pending for the group.
    pub(super) fn has(&self, group_id: &str) -> bool {
        self.groups.contains_key(group_id)
    }

    pub(super) fn has_partition(&self, group_id: &str, topic: &str, partition: i32) -> bool {
        self.groups.get(group_id).is_some_and(|group| {
            get(&group.committed, topic, partition).is_some() || group.is_pending(topic, partition)
        })
    }

    /// Ids of the groups that have offsets, in order.
    pub(super) fn group_ids(&self) -> impl Iterator<Item = &Arc<str>> {
        self.groups.keys()
    }

    /// What groups have committed: group, topic, partition, offset.
    pub(super) fn committed(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, i32, i64)> {
        self.groups.iter().flat_map(|(group, of_group)| {
            of_group
                .committed
                .iter()
                .flat_map(move |(topic, partitions)| {
                    let partitions = partitions.iter();
                    partitions
                        .map(move |(index, committed)| (group, topic, *index, committed.offset))
                })
        })
    }

    /// Every partition with an offset of the group, committed or pending.
    pub(super) fn partitions(&self, group_id: &str) -> BTreeSet<(&str, i32)> {
        self.groups
            .get(group_id)
            .map(OfGroup::partitions)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value that `producers` has to have.
    fn by_partition(group: &OfGroup) -> BTreeMap<(&str, i32), BTreeSet<ProducerId>> {
        let mut all: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (producer, topics) in &group.pending {
            for (topic, partition, _) in flat(topics) {
                all.entry((topic, partition)).or_default().insert(*producer);
            }
        }
        all
    }

    fn check(offsets: &Offsets) {
        for group in offsets.groups.values() {
            let producers = group.producers.iter().flat_map(|(topic, partitions)| {
                let each = partitions.iter();
                each.map(move |(partition, it)| ((&**topic, *partition), it))
            });
            let known: BTreeMap<_, BTreeSet<_>> = producers
                .map(|(place, known)| {
                    let once: BTreeSet<ProducerId> = known.iter().copied().collect();
                    assert_eq!(once.len(), known.len(), "{place:?}");
                    (place, once)
                })
                .collect();
            assert_eq!(known, by_partition(group));
            assert!(
                group
                    .producers
                    .values()
                    .all(|partitions| !partitions.is_empty())
            );
        }
    }

    #[test]
    fn whoever_has_something_pending_is_found_by_its_partition() {
        let mut offsets = Offsets::default();
        let mut seed = 1_u64;
        let mut dice = |sides: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % sides
        };
        for _ in 0..5_000 {
            let key = OffsetCommitKey {
                group: ["g", "h"][dice(2) as usize].to_owned(),
                topic: ["t", "u"][dice(2) as usize].to_owned(),
                partition: dice(3) as i32,
            };
            let producer = ProducerId(dice(4) as i64);
            let value = OffsetCommitValue::default();
            match dice(8) {
                0 => offsets.replay_marker(producer, dice(2) == 0),
                1 => offsets.replay(&key, None, None),
                2 => offsets.replay(&key, Some(&value), None),
                _ => offsets.replay(&key, Some(&value), Some(producer)),
            }
            check(&offsets);
        }
    }

    #[test]
    fn many_partitions_are_looked_up_beside_many_open_transactions() {
        let key = |partition| OffsetCommitKey {
            group: "g".to_owned(),
            topic: "t".to_owned(),
            partition,
        };
        let value = OffsetCommitValue::default();
        let mut offsets = Offsets::default();
        for producer in 0..5_000 {
            offsets.replay(
                &key(producer),
                Some(&value),
                Some(ProducerId(producer.into())),
            );
        }
        // Each with a look at each transaction would be a billion.
        let pending = (0..250_000).filter(|it| offsets.has_partition("g", "t", *it));
        assert_eq!(pending.count(), 5_000);
        (0..250_000).for_each(|it| offsets.replay(&key(it), None, None));
        assert!(!offsets.has("g"));
    }
}
