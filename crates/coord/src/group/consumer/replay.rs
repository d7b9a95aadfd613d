//! The only place where durable state changes. Takes the records of a log that was compacted: any may be missing that a later one
//! replaced, and a tombstone may name what is not there.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::Timestamp;
use wire::group::GroupRecord;

use super::member::Member;
use super::partitions::{each, target_from};
use super::records::Resolved;
use super::timers::Wait;
use super::{ConsumerGroup, EPOCH_INITIAL};

impl ConsumerGroup {
    /// Takes in a record of this group. Records of other kinds say nothing about it.
    pub fn replay(&mut self, record: &GroupRecord) {
        match record {
            GroupRecord::ConsumerGroupMetadata(_, value) => {
                self.epoch = (value.as_ref()).map_or(EPOCH_INITIAL, |value| value.epoch);
                self.has_epoch = value.is_some();
                self.metadata_hash = value.as_ref().map_or(0, |value| value.metadata_hash);
                if let Some((version, hash)) = self.hashed.take()
                    && hash == self.metadata_hash
                {
                    self.topics_version = Some(version);
                }
            }
            GroupRecord::ConsumerGroupPartitionMetadata(_, value) => {
                self.has_partition_metadata = value.is_some();
            }
            GroupRecord::ConsumerGroupMemberMetadata(key, Some(value)) => {
                self.change(&key.member_id, |member| member.set_metadata(value));
            }
            GroupRecord::ConsumerGroupMemberMetadata(key, None) => {
                if let Some(member) = self.members.remove(&key.member_id) {
                    self.unlist(&member);
                }
                self.timers.forget(&key.member_id);
                self.unwatched.remove(&key.member_id);
            }
            GroupRecord::ConsumerGroupCurrentMemberAssignment(key, Some(value)) => {
                self.change(&key.member_id, |member| member.set_current(value));
            }
            GroupRecord::ConsumerGroupCurrentMemberAssignment(key, None)
                if self.members.contains_key(&key.member_id) =>
            {
                self.change(&key.member_id, Member::clear_current);
            }
            GroupRecord::ConsumerGroupTargetAssignmentMetadata(_, value) => {
                self.assignment_epoch =
                    (value.as_ref()).map_or(EPOCH_INITIAL, |value| value.assignment_epoch);
                let at = value.as_ref().map_or(0, |value| value.assignment_timestamp);
                self.assigned_at = Timestamp(at);
            }
            GroupRecord::ConsumerGroupTargetAssignmentMember(key, Some(value)) => {
                let target = target_from(&value.topic_partitions);
                self.target.insert(key.member_id.clone(), target);
            }
            GroupRecord::ConsumerGroupTargetAssignmentMember(key, None) => {
                self.target.remove(&key.member_id);
            }
            GroupRecord::ConsumerGroupRegularExpression(key, Some(value)) => {
                let resolved = Resolved {
                    topics: value.topics.iter().cloned().collect(),
                    version: value.version,
                    at: Timestamp(value.timestamp),
                };
                (self.resolved).insert(key.regular_expression.clone(), resolved);
                self.lookout.on_written(&key.regular_expression);
            }
            GroupRecord::ConsumerGroupRegularExpression(key, None) => {
                self.resolved.remove(&key.regular_expression);
            }
            _ => {}
        }
    }

    fn change(&mut self, id: &str, change: impl FnOnce(&mut Member)) {
        let mut member = match self.members.remove(id) {
            Some(member) => {
                self.unlist(&member);
                member
            }
            None => {
                if !self.timers.has(id, Wait::Session) {
                    self.unwatched.insert(id.to_owned());
                }
                Member::new(id)
            }
        };
        change(&mut member);
        self.list(&member);
        self.members.insert(id.to_owned(), member);
    }

    fn list(&mut self, member: &Member) {
        if let Some(instance) = &member.instance_id {
            self.statics.insert(instance.clone(), member.id.clone());
        }
        for name in &member.topic_names {
            *self.name_counts.entry(name.clone()).or_default() += 1;
        }
        if !member.pattern.is_empty() {
            *(self.pattern_counts.entry(member.pattern.clone())).or_default() += 1;
        }
        self.guests_count += usize::from(member.classic.is_some());
        for name in member.protocol_names() {
            *(self.protocol_counts.entry(name.to_owned())).or_default() += 1;
        }
        let id: Arc<str> = member.id.as_str().into();
        for partition in each(&member.assigned).chain(each(&member.revoking)) {
            self.owners.insert(partition, Arc::clone(&id));
        }
    }

    fn unlist(&mut self, member: &Member) {
        if let Some(instance) = &member.instance_id
            && self.statics.get(instance) == Some(&member.id)
        {
            self.statics.remove(instance);
        }
        for name in &member.topic_names {
            count_down(&mut self.name_counts, name);
        }
        if !member.pattern.is_empty() {
            count_down(&mut self.pattern_counts, &member.pattern);
        }
        self.guests_count -= usize::from(member.classic.is_some());
        for name in member.protocol_names() {
            count_down(&mut self.protocol_counts, name);
        }
        for partition in each(&member.assigned).chain(each(&member.revoking)) {
            // A later record may have given it to somebody else.
            if self.owners.get(&partition).map(|owner| &**owner) == Some(member.id.as_str()) {
                self.owners.remove(&partition);
            }
        }
    }
}

fn count_down(counts: &mut BTreeMap<String, usize>, key: &str) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
