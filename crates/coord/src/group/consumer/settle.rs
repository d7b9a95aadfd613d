//! The effect of a member that joined, changed or only beat on its group: epoch, target assignment, its own next step.

use std::collections::{BTreeMap, BTreeSet};

use wire::group::GroupRecord;

use super::member::{JOIN, Member, Progress};
use super::partitions::Target;
use super::reconcile::{Goal, advance};
use super::records::{self, Resolved};
use super::timers::Wait;
use super::{ConsumerGroup, Context, after, reason};
use crate::group::Refusal;
use crate::group::ask::TopicPartitions;

/// A member before its request is looked at.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) before: Member,
    /// The group has it already.
    pub(super) is_known: bool,
    /// The static member whose place it takes.
    pub(super) replaced: Option<String>,
}

impl Entry {
    pub(super) fn known(member: &Member) -> Self {
        Entry {
            before: member.clone(),
            is_known: true,
            replaced: None,
        }
    }

    pub(super) fn new(id: &str) -> Self {
        Entry {
            before: Member::new(id),
            is_known: false,
            replaced: None,
        }
    }

    /// It, or the one whose place it takes, spoke the consumer protocol until now.
    pub(super) fn was_consumer(&self) -> bool {
        (self.is_known || self.replaced.is_some()) && self.before.classic.is_none()
    }

    /// It has what the other had, under its own id.
    pub(super) fn in_place_of(holder: &Member, id: &str) -> Self {
        let before = Member {
            id: id.to_owned(),
            epoch: JOIN,
            epoch_before: JOIN,
            ..holder.clone()
        };
        Entry {
            before,
            is_known: false,
            replaced: Some(holder.id.clone()),
        }
    }
}

/// The group as it will be: some members gone, one new or changed, some patterns resolved anew.
pub(super) struct Outlook<'a> {
    pub(super) group: &'a ConsumerGroup,
    pub(super) gone: &'a BTreeSet<&'a str>,
    pub(super) member: Option<&'a Member>,
    pub(super) resolved: &'a BTreeMap<String, Resolved>,
}

impl<'a> Outlook<'a> {
    /// In the order of their ids.
    pub(super) fn members(&self) -> Vec<&'a Member> {
        let mut members: Vec<_> = (self.group.members.values())
            .filter(|it| !self.gone.contains(it.id.as_str()))
            .collect();
        if let Some(member) = self.member {
            match members.binary_search_by(|it| it.id.cmp(&member.id)) {
                Ok(at) => members[at] = member,
                Err(at) => members.insert(at, member),
            }
        }
        members
    }

    /// The members of the group that are gone or will be another.
    fn outdated(&self) -> impl Iterator<Item = &'a Member> + '_ {
        let changed = self.member.map(|member| member.id.as_str());
        (self.gone.iter().copied())
            .chain(changed.filter(|id| !self.gone.contains(id)))
            .filter_map(|id| self.group.members.get(id))
    }

    /// Patterns that somebody will subscribe to.
    pub(super) fn patterns(&self) -> BTreeSet<&'a str> {
        let mut counts: BTreeMap<&str, usize> = (self.group.pattern_counts.iter())
            .map(|(pattern, &count)| (pattern.as_str(), count))
            .collect();
        for member in self.outdated() {
            if let Some(count) = counts.get_mut(member.pattern.as_str()) {
                *count -= 1;
            }
        }
        let own = self.member.map(|it| it.pattern.as_str());
        let own = own.filter(|pattern| !pattern.is_empty());
        (counts.into_iter())
            .filter(|&(_, count)| count > 0)
            .map(|(pattern, _)| pattern)
            .chain(own)
            .collect()
    }

    pub(super) fn resolved(&self, pattern: &str) -> Option<&'a BTreeSet<String>> {
        (self.resolved.get(pattern))
            .or_else(|| self.group.resolved.get(pattern))
            .map(|resolved| &resolved.topics)
    }

    /// Every topic that somebody will subscribe to, whether it is there or not.
    pub(super) fn topic_names(&self) -> BTreeSet<&'a str> {
        let mut outdated: BTreeMap<&str, usize> = BTreeMap::new();
        for name in self.outdated().flat_map(|member| &member.topic_names) {
            *outdated.entry(name).or_default() += 1;
        }
        let own = self.member.into_iter().flat_map(|it| &it.topic_names);
        let resolved = (self.patterns().into_iter())
            .filter_map(|pattern| self.resolved(pattern))
            .flatten();
        (self.group.name_counts.iter())
            .filter(|&(name, count)| *count > outdated.get(name.as_str()).copied().unwrap_or(0))
            .map(|(name, _)| name)
            .chain(own)
            .chain(resolved)
            .map(String::as_str)
            .collect()
    }
}

impl ConsumerGroup {
    /// The member as it is after `member` took the place of `entry`, with the records that make it so.
    pub(super) fn replace_member(
        &mut self,
        entry: &Entry,
        member: Member,
        reported: Option<&[TopicPartitions]>,
        cx: &Context,
        records: &mut Vec<GroupRecord>,
    ) -> Result<Member, Refusal> {
        let before = &entry.before;
        if let Some(replaced) = &entry.replaced {
            records.extend(records::member_tombstones(&self.id, replaced));
            records.push(member.metadata_record(&self.id));
            let target = self.target_of(replaced);
            records.push(records::target(&self.id, &member.id, &target));
            records.push(before.current_record(&self.id));
        } else if !entry.is_known || member != *before {
            records.push(member.metadata_record(&self.id));
        }

        let found = self.take_pattern(entry, &member, cx)?;
        let resolved: BTreeMap<String, Resolved> = (found.into_iter())
            .map(|found| (member.pattern.clone(), found))
            .collect();
        let may_give_up =
            self.looks_again(cx) || !entry.is_known || member.pattern != before.pattern;
        let gone: BTreeSet<&str> = entry.replaced.iter().map(String::as_str).collect();
        let outlook = Outlook {
            group: self,
            gone: &gone,
            member: Some(&member),
            resolved: &resolved,
        };
        if may_give_up {
            let patterns = outlook.patterns();
            let given_up = (self.resolved.keys()).filter(|it| !patterns.contains(it.as_str()));
            records.extend(given_up.map(|it| records::pattern(&self.id, it, None)));
        }
        for (pattern, resolved) in &resolved {
            records.push(records::pattern(&self.id, pattern, Some(resolved)));
        }
        let is_resubscribed =
            member.topic_names != before.topic_names || member.pattern != before.pattern;
        let mut bumps = is_resubscribed;
        let mut epoch = self.epoch;
        let mut fits = None;
        let mut hashed = None;
        if bumps || self.topics_version != Some(cx.topics.version()) {
            let hash = outlook.metadata_hash(cx.topics);
            bumps |= hash != self.metadata_hash;
            if bumps {
                epoch += 1;
                records.push(records::epoch(&self.id, epoch, hash));
                hashed = Some((cx.topics.version(), hash));
                if self.has_partition_metadata {
                    records.push(records::partition_metadata_tombstone(&self.id));
                }
            } else {
                fits = Some(cx.topics.version());
            }
        }

        let inherited = entry.replaced.as_deref().unwrap_or(&member.id);
        let (target_epoch, target) = if epoch > self.assignment_epoch && self.may_assign(cx) {
            let target = outlook.assign(epoch, cx, records);
            (epoch, target.get(&member.id).cloned().unwrap_or_default())
        } else {
            (self.assignment_epoch, self.target_of(inherited))
        };

        let mut next = None;
        if is_resubscribed || !member.is_reconciled_to(target_epoch) {
            let is_free = |topic, partition| {
                (self.owners.get(&(topic, partition)))
                    .is_none_or(|owner| **owner == *member.id || **owner == *inherited)
            };
            let is_subscribed = |topic| {
                cx.topics.name(topic).is_some_and(|name| {
                    member.topic_names.contains(name)
                        || (outlook.resolved(&member.pattern))
                            .is_some_and(|topics| topics.contains(name))
                })
            };
            let goal = Goal {
                epoch: target_epoch,
                target: &target,
                is_resubscribed,
                is_subscribed: &is_subscribed,
                is_free: &is_free,
                reported,
            };
            next = Some(advance(&member, &goal)?).filter(|next| *next != member);
        }
        if let Some(next) = &next {
            records.push(next.current_record(&self.id));
            if next.classic.is_none() {
                self.await_revocation(next, cx);
            }
        }
        if fits.is_some() {
            self.topics_version = fits;
        }
        self.hashed = hashed;
        if epoch > self.epoch {
            self.moves_on(reason::of_member(entry, &member, is_resubscribed), cx);
        }
        Ok(next.unwrap_or(member))
    }

    fn await_revocation(&mut self, member: &Member, cx: &Context) {
        let wait = Wait::Revocation {
            epoch: member.epoch,
        };
        if member.progress == Progress::Unrevoked {
            let at = after(cx.at, member.rebalance_timeout_ms);
            self.timers.set(&member.id, wait, at);
        } else {
            self.timers.cancel(&member.id, wait);
        }
    }

    pub(super) fn target_of(&self, member: &str) -> Target {
        self.target.get(member).cloned().unwrap_or_default()
    }
}
