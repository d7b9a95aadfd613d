//! Heartbeats of consumer groups find their group, or make one; an empty group changes its protocol on the way.

use std::sync::Arc;

use wire::ErrorCode;
use wire::group::GroupRecord;

use super::ask::{ConsumerDescribed, ConsumerHeartbeat};
use super::classic::ClassicState;
use super::consumer::{ConsumerGroup, Context, check};
use super::entry::{Entry, Group};
use super::{Groups, Out, Rebalance, Refusal};
use crate::{Caller, Moment, Topics};

/// The group that a record of the consumer protocol is about.
pub(super) fn group_of(record: &GroupRecord) -> Option<(&str, bool)> {
    Some(match record {
        GroupRecord::ConsumerGroupCurrentMemberAssignment(key, value) => {
            (&key.group_id, value.is_some())
        }
        GroupRecord::ConsumerGroupMemberMetadata(key, value) => (&key.group_id, value.is_some()),
        GroupRecord::ConsumerGroupMetadata(key, value) => (&key.group_id, value.is_some()),
        GroupRecord::ConsumerGroupPartitionMetadata(key, value) => (&key.group_id, value.is_some()),
        GroupRecord::ConsumerGroupRegularExpression(key, value) => (&key.group_id, value.is_some()),
        GroupRecord::ConsumerGroupTargetAssignmentMember(key, value) => {
            (&key.group_id, value.is_some())
        }
        GroupRecord::ConsumerGroupTargetAssignmentMetadata(key, value) => {
            (&key.group_id, value.is_some())
        }
        _ => return None,
    })
}

impl Groups {
    pub(super) fn replay_consumer(&mut self, record: &GroupRecord) {
        let Some((id, is_value)) = group_of(record) else {
            return;
        };
        let id: Arc<str> = self
            .groups
            .get_key_value(id)
            .map_or_else(|| id.into(), |(id, _)| Arc::clone(id));
        let has_consumer = |entry: &Entry| matches!(entry.group, Group::Consumer(_));
        if !self.groups.get(&id).is_some_and(has_consumer) {
            // Removals of a group that is classic by now, or gone.
            if !is_value {
                return;
            }
            let mut group = ConsumerGroup::new(&*id);
            group.goes_on_from(self.changed_over.take());
            self.put_consumer(&id, group);
        }
        if let Some(entry) = self.groups.get_mut(&id)
            && let Group::Consumer(consumer) = &mut entry.group
        {
            entry.is_written = true;
            consumer.replay(record);
            if let GroupRecord::ConsumerGroupMetadata(_, None) = record {
                let handed_back = consumer.take_handed_back();
                self.handed_back = handed_back.map(|it| (Arc::clone(&id), it));
                self.remove(&id);
            } else if consumer.exists() {
                // A compacted log may begin a group with any of its records.
                self.on_group_changed(&id);
            }
        }
    }

    pub(super) fn beat(
        &mut self,
        caller: Caller<ConsumerHeartbeat>,
        beat: &ConsumerHeartbeat,
        at: Moment,
        topics: &dyn Topics,
    ) -> Out {
        let settings = Arc::clone(&self.settings);
        let id = &beat.group_id;
        let cx = Context {
            at,
            topics,
            settings: settings.consumer_of(id),
        };
        match self.groups.get_mut(id.as_str()) {
            Some(Entry {
                group: Group::Consumer(consumer),
                ..
            }) => {
                let out = consumer.heartbeat(caller, beat, &cx);
                self.index(id);
                if out.records.is_empty() {
                    self.on_group_changed(id);
                }
                return out;
            }
            Some(Entry {
                group: Group::Classic(classic),
                ..
            }) if classic.state() != ClassicState::Empty
                && !self.foreign.contains_key(id.as_str()) =>
            {
                // First, as the upgrade copies all that the group has.
                if let Err(refusal) = check(beat, cx.settings) {
                    return Out::answer(caller, Err(refusal));
                }
                // Only one who joins changes the protocol of a group.
                if beat.member_epoch != 0 {
                    return refuse(caller, id);
                }
                let before = classic.as_handed_over();
                let mut out = ConsumerGroup::upgrade(id, &before, caller, beat, &cx);
                if !out.records.is_empty() {
                    self.changed_over = Some(Rebalance {
                        reason: "the first member of the consumer protocol joined".to_owned(),
                        at: at.wall,
                        generation: before.generation,
                    });
                    out.extend(classic.send_away());
                }
                return out;
            }
            _ if self.foreign.contains_key(id.as_str()) => return refuse(caller, id),
            _ => {}
        }
        // Of an empty classic group the offsets stay; the rest begins anew.
        let mut consumer = ConsumerGroup::new(id.as_str());
        let first = consumer.heartbeat(caller, beat, &cx);
        if first.records.is_empty() {
            return first;
        }
        let mut out = Out::default();
        if let Some(entry) = self
            .groups
            .get(id.as_str())
            .filter(|entry| entry.is_written)
        {
            out.records = entry.group.tombstones(id);
        }
        out.extend(first);
        self.remove(id);
        self.put_consumer(&id.as_str().into(), consumer);
        out
    }

    fn put_consumer(&mut self, id: &Arc<str>, consumer: ConsumerGroup) {
        self.remove(id);
        let entry = Entry {
            group: Group::Consumer(Box::new(consumer)),
            wake: None,
            is_written: false,
        };
        self.groups.insert(Arc::clone(id), entry);
        self.index(id);
    }

    pub(super) fn describe_consumer(
        &self,
        group_id: &str,
        at: Moment,
        topics: &dyn Topics,
    ) -> Result<ConsumerDescribed, Refusal> {
        let message = match self.groups.get(group_id).map(|entry| &entry.group) {
            Some(Group::Consumer(consumer)) => {
                return Ok(consumer.describe(&Context {
                    at,
                    topics,
                    settings: self.settings.consumer_of(group_id),
                }));
            }
            None if !self.offsets.has(group_id) => format!("Group {group_id} not found."),
            _ => not_consumer(group_id),
        };
        Err(Refusal {
            code: ErrorCode::GroupIdNotFound,
            message,
        })
    }
}

fn not_consumer(id: &str) -> String {
    format!("Group {id} is not a consumer group.")
}

fn refuse(caller: Caller<ConsumerHeartbeat>, id: &str) -> Out {
    let refusal = Refusal {
        code: ErrorCode::GroupIdNotFound,
        message: not_consumer(id),
    };
    Out::answer(caller, Err(refusal))
}
