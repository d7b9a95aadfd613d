//! The questions of tools: descriptions and lists of groups, removal of groups and offsets; and expiry.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use wire::ErrorCode;
use wire::group::{GroupRecord, OffsetCommitKey};

use super::ask::{self, Delete, DeleteOffsets, Described, Filter, Listed};
use super::classic::{ClassicState, millis};
use super::entry::Group;
use super::offsets::{Look, LookFrom, Looked};
use super::{Groups, Out, Refusal, Retention, consumer, record};
use crate::{Caller, Moment, Topics};

/// Between two steps that remove the offsets of deleted topics.
const GONE_PAUSE: Duration = Duration::from_millis(20);

/// The same after one that was refused.
const GONE_RETRY: Duration = Duration::from_millis(500);

impl Groups {
    pub(super) fn describe(&self, group_id: &str) -> Result<Described, Refusal> {
        let message = match self.groups.get(group_id).map(|entry| &entry.group) {
            Some(Group::Classic(classic)) => return Ok(classic.described()),
            Some(Group::Consumer(_)) => format!("Group {group_id} is not a classic group."),
            None if self.offsets.has(group_id) => {
                return Ok(Described {
                    state: ClassicState::Empty,
                    protocol_type: None,
                    protocol: None,
                    members: Vec::new(),
                    last_rebalance: None,
                });
            }
            None => format!("Group {group_id} not found."),
        };
        Err(Refusal {
            code: ErrorCode::GroupIdNotFound,
            message,
        })
    }

    pub(super) fn list(&self, states: &Filter, types: &Filter) -> Vec<Listed> {
        self.group_ids()
            .into_iter()
            .map(|id| match self.groups.get(id).map(|entry| &entry.group) {
                Some(group) => group.listed(id),
                None => Listed {
                    group_id: id.to_string(),
                    state: ask::GroupState::Classic(ClassicState::Empty),
                    protocol_type: None,
                },
            })
            // The first records of a consumer group were refused.
            .filter(|group| group.state != ask::GroupState::Consumer(consumer::ConsumerState::Dead))
            .filter(|group| {
                states.passes(group.state.name()) && types.passes(group.state.kind().name())
            })
            .collect()
    }

    /// Every group that is known of, in order.
    fn group_ids(&self) -> BTreeSet<&Arc<str>> {
        self.groups.keys().chain(self.offsets.group_ids()).collect()
    }

    pub(super) fn delete(&mut self, caller: Caller<Delete>, group_id: &str) -> Out {
        let result = self.check_delete(group_id);
        Out {
            records: if result.is_ok() {
                self.removal(group_id)
            } else {
                Vec::new()
            },
            answers: vec![caller.answer(result)],
            ..Out::default()
        }
    }

    fn check_delete(&self, id: &str) -> Result<(), ErrorCode> {
        match self.groups.get(id).map(|entry| &entry.group) {
            Some(group) if group.is_empty() => Ok(()),
            Some(_) => Err(ErrorCode::NonEmptyGroup),
            None if self.offsets.has(id) => Ok(()),
            None => Err(ErrorCode::GroupIdNotFound),
        }
    }

    /// The group and its offsets, pending ones too.
    fn removal(&self, id: &str) -> Vec<GroupRecord> {
        let partitions = self.offsets.partitions(id).into_iter();
        partitions
            .map(|(topic, partition)| record::offset_gone(id, topic, partition))
            .chain(match self.groups.get(id) {
                Some(entry) => entry.group.tombstones(id),
                None => vec![record::classic_gone(id)],
            })
            .collect()
    }

    pub(super) fn delete_offsets(
        &mut self,
        caller: Caller<DeleteOffsets>,
        ask: &DeleteOffsets,
        topics: &dyn Topics,
    ) -> Out {
        let id = &ask.group_id;
        if let Err(code) = self.check_delete_offsets(id) {
            return Out::answer(caller, Err(code));
        }
        let mut records = Vec::new();
        let mut results = Vec::new();
        for topic in &ask.topics {
            let count = topics.topic(&topic.name).map_or(0, |(_, count)| count);
            let is_read = self.is_subscribed_to(id, &topic.name);
            for index in topic.partitions.iter().map(|index| index.0) {
                let result = match index {
                    it if !(0..count).contains(&it) => Err(ErrorCode::UnknownTopicOrPartition),
                    _ if is_read => Err(ErrorCode::GroupSubscribedToTopic),
                    _ => Ok(()),
                };
                if result.is_ok() && self.offsets.has_partition(id, &topic.name, index) {
                    records.push(record::offset_gone(id, &topic.name, index));
                }
                results.push(result);
            }
        }
        Out {
            records,
            answers: vec![caller.answer(Ok(results))],
            ..Out::default()
        }
    }

    fn check_delete_offsets(&self, id: &str) -> Result<(), ErrorCode> {
        if id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        match self.groups.get(id).map(|entry| &entry.group) {
            Some(group) => group.check_delete_offsets(),
            None if self.offsets.has(id) => Ok(()),
            None => Err(ErrorCode::GroupIdNotFound),
        }
    }

    fn is_subscribed_to(&self, id: &str, topic: &str) -> bool {
        let entry = self.groups.get(id);
        entry.is_some_and(|entry| entry.group.is_subscribed_to(topic))
    }

    pub(super) fn retention_interval(&self) -> Duration {
        millis(self.settings.offsets_retention_check_interval_ms)
    }

    /// One look for expired offsets, or as much of it as one step takes; groups that have nothing left are removed. It goes on
    /// behind what was refused: that has its turn with the next look.
    pub(super) fn expire(
        &mut self,
        at: Moment,
        topics: &dyn Topics,
        batch_bytes_max: usize,
    ) -> Vec<GroupRecord> {
        let mut records = Vec::new();
        let mut room = record::step_bytes_max(batch_bytes_max);
        self.retention_from = self.expire_groups(at, topics, &mut room, &mut records);
        if self.retention_from.is_none() {
            self.retention_at = Some(at.now.plus(self.retention_interval()));
        }
        records
    }

    /// Where to go on, if it was too much.
    fn expire_groups(
        &self,
        at: Moment,
        topics: &dyn Topics,
        room: &mut usize,
        records: &mut Vec<GroupRecord>,
    ) -> Option<(Arc<str>, LookFrom)> {
        let from = self.retention_from.as_ref();
        let ids = self.group_ids().into_iter();
        for id in ids.filter(|id| from.is_none_or(|(from, _)| *id >= from)) {
            let from = from.filter(|(from, _)| from == id).map(|(_, place)| place);
            if let Some(place) = self.expire_group(id, from, at, topics, room, records) {
                return Some((Arc::clone(id), place));
            }
        }
        None
    }

    /// The same for one group.
    fn expire_group(
        &self,
        id: &Arc<str>,
        from: Option<&LookFrom>,
        at: Moment,
        topics: &dyn Topics,
        room: &mut usize,
        records: &mut Vec<GroupRecord>,
    ) -> Option<LookFrom> {
        let entry = self.groups.get(id);
        let retention = entry.map_or(Retention::SinceCommit, |entry| entry.group.retention());
        let look = Look {
            group_id: id,
            retention,
            retention_ms: self.settings.offsets_retention_ms,
            now: at.wall.0,
            is_subscribed: |topic: &str| self.is_subscribed_to(id, topic),
            from,
        };
        match self.offsets.expire(&look, topics, room, records) {
            Looked::UpTo(place) => return Some(place),
            Looked::Through { is_left: true } => return None,
            Looked::Through { is_left: false } => {}
        }
        let group = &entry.filter(|entry| entry.group.is_idle())?.group;
        let tombstones = group.tombstones(id);
        let bytes = record::size(&tombstones);
        if *room < bytes
            && let Some(GroupRecord::OffsetCommit(last, _)) = records.last()
        {
            // Behind the last of its partitions, should it be one of this group.
            return Some((last.topic.as_str().into(), i32::MAX));
        }
        *room = room.saturating_sub(bytes);
        records.extend(tombstones);
        None
    }

    /// Removals for deleted topics, as many as one step takes; the rest a little later, so that other work gets its turn. A topic is
    /// done with when a later look finds nothing: the log may refuse the step.
    pub(super) fn remove_gone_topics(
        &mut self,
        at: Moment,
        topics: &dyn Topics,
        batch_bytes_max: usize,
    ) -> Out {
        let is_there = |key: OffsetCommitKey| {
            (self.offsets).has_partition(&key.group, &key.topic, key.partition)
        };
        let pause = if self.gone_tried.take().is_some_and(is_there) {
            GONE_RETRY
        } else {
            GONE_PAUSE
        };
        let mut records = Vec::new();
        let mut room = record::step_bytes_max(batch_bytes_max);
        let mut is_all = true;
        let offsets = &self.offsets;
        self.gone_topics.retain(|topic| {
            let current = topics.topic(topic).map(|(id, _)| id);
            let before = records.len();
            is_all = is_all && offsets.remove_topic(topic, current, &mut room, &mut records);
            !is_all || records.len() > before
        });
        if let Some(GroupRecord::OffsetCommit(key, _)) = records.first() {
            self.gone_tried = Some(key.clone());
        }
        let is_done = self.gone_topics.is_empty();
        self.gone_at = (!is_done).then(|| at.now.plus(pause));
        Out {
            records,
            ..Out::default()
        }
    }
}
