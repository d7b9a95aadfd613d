//! Members that leave, are not heard of, or do not give up in time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use wire::group::GroupRecord;

use super::records;
use super::settle::Outlook;
use super::target::NEVER;
use super::timers::Wait;
use super::{ConsumerGroup, Context, reason};
use crate::Step;
use crate::group::{Answer, record};

/// Bytes of a batch besides its records.
pub(super) const BATCH_BYTES: usize = 61;

/// When to try again, should the records be refused.
pub(super) const RETRY: Duration = Duration::from_millis(500);

impl ConsumerGroup {
    /// Members whose time is up are gone: at least one, and as many as fit a batch; the rest at the next tick, which is due at once. Where there are none, patterns have their turn.
    pub fn tick(&mut self, cx: &Context, batch_bytes_max: usize) -> Step<GroupRecord, Answer> {
        self.watch(cx);
        let mut late = BTreeSet::new();
        let mut first = None;
        let mut room = record::step_bytes_max(batch_bytes_max);
        for (id, wait) in self.timers.due(cx.at.now) {
            let is_late = match (self.members.get(&id), wait) {
                (None, _) => false,
                (Some(member), Wait::Revocation { epoch }) => member.epoch == epoch,
                (Some(_), Wait::Session | Wait::Join | Wait::Sync) => true,
            };
            if is_late {
                // Its second deadline needs no second removal.
                let bytes = if late.contains(&id) {
                    0
                } else {
                    self.removal_bytes(&id)
                };
                if room < bytes && !late.is_empty() {
                    break;
                }
                room = room.saturating_sub(bytes);
                self.timers.set(&id, wait, cx.at.now.plus(RETRY));
                first.get_or_insert_with(|| (id.clone(), wait));
                late.insert(id);
            } else {
                self.timers.cancel(&id, wait);
            }
        }
        let late: BTreeSet<&str> = late.iter().map(String::as_str).collect();
        Step {
            records: match first {
                None => self.look(cx, batch_bytes_max),
                Some((first, wait)) => {
                    self.moves_on(reason::of_late(&first, wait, late.len()), cx);
                    self.fence(&late, cx, batch_bytes_max)
                }
            },
            ..Step::default()
        }
    }

    /// About how many bytes of a batch it takes to remove the member, and the pattern that it may be the last to subscribe to.
    fn removal_bytes(&self, id: &str) -> usize {
        let pattern = self.members.get(id).map_or("", |member| &member.pattern);
        let member =
            records::member_tombstones(&self.id, "").len() * record::gone_size(&self.id, id);
        member + record::gone_size(&self.id, pattern)
    }

    /// The records that remove members, and make the group a classic one if none but classic members stay. One whose record would
    /// not fit a batch stays a consumer group, so that its members can go. What members had is free with the replay of these.
    pub(super) fn fence(
        &mut self,
        gone: &BTreeSet<&str>,
        cx: &Context,
        batch_bytes_max: usize,
    ) -> Vec<GroupRecord> {
        if self.downgrades(gone, None, cx.settings)
            && let Some(downgrade) = self.downgrade(gone, None, true, cx)
            && BATCH_BYTES + record::size(&downgrade.records) <= batch_bytes_max
        {
            return downgrade.records;
        }
        let none = BTreeMap::new();
        let outlook = Outlook {
            group: self,
            gone,
            member: None,
            resolved: &none,
        };
        let mut records = Vec::new();
        for member in gone {
            records.extend(records::member_tombstones(&self.id, member));
        }
        let patterns = outlook.patterns();
        for pattern in self.resolved.keys() {
            if !patterns.contains(pattern.as_str()) {
                records.push(records::pattern(&self.id, pattern, None));
            }
        }
        let hash = outlook.metadata_hash(cx.topics);
        let epoch = self.epoch + 1;
        records.push(records::epoch(&self.id, epoch, hash));
        // Nobody is left who could be assigned anything: nothing has to be computed for the new epoch, and the next member is not held up.
        if gone.len() == self.members.len() {
            records.push(records::target_epoch(&self.id, epoch, NEVER));
        }
        records
    }

    /// The records that remove the group and all that is in it, but its offsets.
    #[must_use]
    pub fn tombstones(&self) -> Vec<GroupRecord> {
        let mut records = Vec::new();
        for member in self.members.keys() {
            records.extend(records::member_tombstones(&self.id, member));
        }
        for pattern in self.resolved.keys() {
            records.push(records::pattern(&self.id, pattern, None));
        }
        if self.has_partition_metadata {
            records.push(records::partition_metadata_tombstone(&self.id));
        }
        records.extend(records::group_tombstones(&self.id));
        records
    }
}
