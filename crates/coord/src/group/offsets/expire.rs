//! Offsets that nobody needs any more: their time is up, or their topic is gone.
//!
//! Only makes the removals; they count when they are replayed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wire::Uuid;
use wire::group::GroupRecord;

use super::{Committed, Offsets, flat_from};
use crate::Topics;
use crate::group::record;

/// From when on the retention of a group's offsets runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::group) enum Retention {
    /// The group is in use in a way that needs all of them.
    Kept,
    /// From the last commit of each.
    SinceCommit,
    /// From when the group lost its last member.
    SinceEmpty(i64),
}

/// Topic and partition where a look goes on. No partition has the largest number: it stands for the end of its topic.
pub(in crate::group) type LookFrom = (Arc<str>, i32);

/// How far a look at one group has come.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::group) enum Looked {
    /// There was no room for the removal of this one.
    UpTo(LookFrom),
    /// To the end. With the removals of this look, nothing `is_left`.
    Through { is_left: bool },
}

/// A look at the offsets of one group.
pub(in crate::group) struct Look<'a, F> {
    pub(in crate::group) group_id: &'a str,
    pub(in crate::group) retention: Retention,
    pub(in crate::group) retention_ms: i64,
    pub(in crate::group) now: i64,
    pub(in crate::group) is_subscribed: F,
    pub(in crate::group) from: Option<&'a LookFrom>,
}

impl<F: Fn(&str) -> bool> Look<'_, F> {
    fn is_over(&self, topic: &str, committed: &Committed) -> bool {
        let since = match self.retention {
            Retention::Kept => return false,
            _ if (self.is_subscribed)(topic) => return false,
            _ if committed.expire_timestamp >= 0 => return self.now >= committed.expire_timestamp,
            Retention::SinceCommit => committed.commit_timestamp,
            Retention::SinceEmpty(since) => since,
        };
        self.now.saturating_sub(since) >= self.retention_ms
    }
}

impl Offsets {
    /// Adds the removals of what has expired in one group, at least one and as many as there is room for.
    pub(in crate::group) fn expire(
        &self,
        look: &Look<'_, impl Fn(&str) -> bool>,
        topics: &dyn Topics,
        room: &mut usize,
        records: &mut Vec<GroupRecord>,
    ) -> Looked {
        let Some(group) = self.groups.get(look.group_id) else {
            return Looked::Through { is_left: false };
        };
        let before = records.len();
        let from = look
            .from
            .map_or(("", i32::MIN), |(topic, partition)| (&**topic, *partition));
        for (topic, partition, committed) in flat_from(&group.committed, from) {
            let current = topics.topic(topic);
            let is_of_gone_topic = current.is_some_and(|(id, _)| committed.is_of_other_topic(id));
            let is_over = is_of_gone_topic || look.is_over(topic, committed);
            if !is_over || group.is_pending(topic, partition) {
                continue;
            }
            let bytes = record::gone_size(look.group_id, topic);
            if *room < bytes && !records.is_empty() {
                return Looked::UpTo((Arc::clone(topic), partition));
            }
            *room = room.saturating_sub(bytes);
            records.push(record::offset_gone(look.group_id, topic, partition));
        }
        // Offsets before `from` are removed by now, or were refused.
        let count: usize = group.committed.values().map(BTreeMap::len).sum();
        Looked::Through {
            is_left: !group.pending.is_empty() || records.len() - before < count,
        }
    }

    /// Removals of the offsets of a topic that is gone, groups in order, at least one and as many as there is room for; whether
    /// that was all. What was committed to a new topic of the name, `current`, stays.
    pub(in crate::group) fn remove_topic(
        &self,
        topic: &str,
        current: Option<Uuid>,
        room: &mut usize,
        records: &mut Vec<GroupRecord>,
    ) -> bool {
        for (id, group) in &self.groups {
            let stores = std::iter::once(&group.committed).chain(group.pending.values());
            let gone: BTreeSet<i32> = stores
                .filter_map(|topics| topics.get(topic))
                .flatten()
                .filter(|(_, committed)| current.is_none_or(|id| committed.topic_id != id))
                .map(|(partition, _)| *partition)
                .collect();
            for partition in gone {
                let bytes = record::gone_size(id, topic);
                if *room < bytes && !records.is_empty() {
                    return false;
                }
                *room = room.saturating_sub(bytes);
                records.push(record::offset_gone(id, topic, partition));
            }
        }
        true
    }
}
