//! From one protocol to the other, while the group works (`group.consumer.migration.policy`).
//!
//! A classic group becomes a consumer group when the first member of the consumer protocol joins. It is classic again when classic
//! members remain and the last other one has gone, or has come back as a classic one. Either way nobody loses a partition by the
//! change itself: what members had is what they have, and the epoch goes on from the generation or the other way round.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use wire::group::consumer_group_member_metadata_value::{ClassicMemberMetadata, ClassicProtocol};
use wire::group::group_metadata_value::MemberMetadata;
use wire::group::{GroupMetadataKey, GroupMetadataValue, GroupRecord};

use super::member::{LEAVE_STATIC, Member, Progress};
use super::partitions::{Owned, each, each_target};
use super::settle::Outlook;
use super::{ConsumerGroup, Context, Settings, embedded, records, target};
use crate::group::ask::{ConsumerHeartbeat, Protocol};
use crate::group::{Answer, Client, Refusal};
use crate::{Caller, Step};

/// A classic group that is to become a consumer group.
#[derive(Clone, Debug, Default)]
pub struct ClassicGroup {
    pub protocol_type: String,
    /// The protocol of the generation.
    pub protocol: String,
    pub generation: i32,
    pub members: Vec<ClassicMember>,
}

#[derive(Clone, Debug, Default)]
pub struct ClassicMember {
    pub id: String,
    pub instance_id: Option<String>,
    pub client: Client,
    pub rebalance_timeout_ms: i32,
    pub session_timeout_ms: i32,
    /// Names and metadata, in order of preference.
    pub protocols: Vec<(String, Bytes)>,
    pub assignment: Bytes,
}

/// Facts of the consumer group that a classic group was, which no record holds.
#[derive(Debug, Default)]
pub struct HandedBack {
    /// All that its members speak. The record has the one that was chosen.
    pub protocols: BTreeMap<String, Vec<Protocol>>,
    /// True if members do not, or may not, have what they are to have.
    pub rebalances: bool,
}

/// A consumer group that is to be a classic one.
pub(super) struct Downgrade {
    /// Of the generation that the group begins with.
    pub(super) protocol: String,
    pub(super) records: Vec<GroupRecord>,
}

/// Why a group does not migrate whose members say more than Kafka's own assignors do, and what to do.
const CUSTOM_PROTOCOL: &str = "the embedded consumer protocol is malformed or that of a custom assignor; \
    have all members use assignors of Kafka (range, round robin, sticky) before the upgrade";

impl ConsumerGroup {
    /// A member of the consumer protocol joins a classic group. The step removes the classic group and makes this one; a refusal
    /// has no records, and the group stays what it was.
    pub fn upgrade(
        id: &str,
        classic: &ClassicGroup,
        caller: Caller<ConsumerHeartbeat>,
        beat: &ConsumerHeartbeat,
        cx: &Context,
    ) -> Step<GroupRecord, Answer> {
        let (mut group, mut records) = match ConsumerGroup::from_classic(id, classic, cx) {
            Ok(made) => made,
            Err(refusal) => {
                return Step::answer(caller, Err(refusal));
            }
        };
        let mut step = group.heartbeat(caller, beat, cx);
        if !step.records.is_empty() {
            records.append(&mut step.records);
            step.records = records;
        }
        step
    }

    pub(super) fn from_classic(
        id: &str,
        classic: &ClassicGroup,
        cx: &Context,
    ) -> Result<(ConsumerGroup, Vec<GroupRecord>), Refusal> {
        let refuse = |why: &str| {
            Refusal::new(
                wire::ErrorCode::GroupIdNotFound,
                format!("Cannot upgrade classic group {id} to consumer group because {why}."),
            )
        };
        if !cx.settings.migration.upgrades() {
            return Err(refuse("online upgrade is disabled"));
        }
        if classic.protocol_type != embedded::CONSUMER {
            return Err(refuse("it does not use the consumer embedded protocol"));
        }
        if classic.members.len() > cx.settings.members_max {
            return Err(refuse("its size exceeds the consumer group maximum size"));
        }
        let mut members = Vec::with_capacity(classic.members.len());
        for member in &classic.members {
            let made = made_consumer(member, classic, cx).ok_or_else(|| refuse(CUSTOM_PROTOCOL))?;
            members.push(made);
        }

        let mut made = vec![GroupRecord::GroupMetadata(
            GroupMetadataKey {
                group: id.to_owned(),
            },
            None,
        )];
        made.extend(members.iter().map(|member| member.metadata_record(id)));
        for member in &members {
            let target = (member.assigned.iter())
                .map(|(&topic, it)| (topic, it.keys().copied().collect()))
                .collect();
            made.push(records::target(id, &member.id, &target));
        }
        // Nothing was assigned by this protocol yet: the first assignment need not wait.
        made.push(records::target_epoch(id, classic.generation, target::NEVER));
        made.extend(members.iter().map(|member| member.current_record(id)));
        let mut group = ConsumerGroup::new(id);
        made.iter().for_each(|record| group.replay(record));
        // The topics are those that the classic group was assigned by: a static member that only changes its protocol moves nobody.
        let resolved = BTreeMap::new();
        let outlook = Outlook {
            group: &group,
            gone: &BTreeSet::new(),
            member: None,
            resolved: &resolved,
        };
        let hash = outlook.metadata_hash(cx.topics);
        let epoch = records::epoch(id, classic.generation, hash);
        group.replay(&epoch);
        made.push(epoch);
        Ok((group, made))
    }

    /// True if those who stay, and one that joins, could go on as a classic group, and are to.
    pub(super) fn downgrades(
        &self,
        gone: &BTreeSet<&str>,
        joining: Option<&Member>,
        settings: &Settings,
    ) -> bool {
        let is_guest = |member: &Member| usize::from(member.classic.is_some());
        let leavers = (gone.iter()).filter_map(|&id| self.members.get(id));
        let leaving: usize = leavers.clone().map(is_guest).sum();
        let guests = self.guests_count - leaving + joining.map_or(0, is_guest);
        let remain = self.members.len() - leavers.count() + usize::from(joining.is_some());
        settings.migration.downgrades()
            && (1..=settings.classic_members_max).contains(&remain)
            && guests == remain
    }

    fn remaining<'a>(
        &'a self,
        gone: &'a BTreeSet<&str>,
        joining: Option<&'a Member>,
    ) -> impl Iterator<Item = &'a Member> {
        (self.members.values())
            .filter(|member| !gone.contains(member.id.as_str()))
            .chain(joining)
    }

    /// True if all is as it shall be once `joining` has the place of `before`.
    pub(super) fn is_settled_with(&self, joining: &Member, before: &Member, cx: &Context) -> bool {
        let gone = BTreeSet::new();
        let resolved = BTreeMap::new();
        let outlook = Outlook {
            group: self,
            gone: &gone,
            member: None,
            resolved: &resolved,
        };
        let is_subscription_same =
            joining.topic_names == before.topic_names && joining.pattern == before.pattern;
        let has_its_target = |member: &Member| {
            let is_away = member.epoch == LEAVE_STATIC && member.progress == Progress::Stable;
            (is_away || member.is_reconciled_to(self.assignment_epoch))
                && each(&member.assigned).eq(each_target(&self.target_of(&member.id)))
        };
        is_subscription_same
            && self.epoch == self.assignment_epoch
            && self.metadata_hash == outlook.metadata_hash(cx.topics)
            && self.members.values().all(has_its_target)
    }

    /// For the classic group that this one is to be, when its records are replayed.
    pub fn take_handed_back(&mut self) -> Option<HandedBack> {
        self.handed_back.take()
    }

    /// The records that make a classic group of those who stay and the one that joins.
    pub(super) fn downgrade(
        &mut self,
        gone: &BTreeSet<&str>,
        joining: Option<&Member>,
        rebalances: bool,
        cx: &Context,
    ) -> Option<Downgrade> {
        let remain: Vec<&Member> = self.remaining(gone, joining).collect();
        // They all support one: who did not was not let in.
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for name in remain.iter().flat_map(|member| member.protocol_names()) {
            *counts.entry(name).or_default() += 1;
        }
        let first = remain.first()?;
        let chosen = (protocols(first).iter())
            .find(|protocol| counts.get(&*protocol.name) == Some(&remain.len()))?;
        let members = remain.iter().map(|member| {
            let metadata = (protocols(member).iter())
                .find(|protocol| protocol.name == chosen.name)
                .map(|protocol| protocol.metadata.clone())
                .unwrap_or_default();
            let version = embedded::subscription(&metadata).map_or(0, |(version, _)| version);
            let classic = member.classic.as_ref();
            MemberMetadata {
                member_id: member.id.clone(),
                group_instance_id: member.instance_id.clone(),
                client_id: member.client_id.clone(),
                client_host: member.client_host.clone(),
                rebalance_timeout: member.rebalance_timeout_ms,
                session_timeout: classic.map_or(0, |classic| classic.session_timeout_ms),
                subscription: metadata,
                assignment: embedded::assignment(&member.assigned, version, cx.topics),
            }
        });
        let name = chosen.name.clone();
        let value = GroupMetadataValue {
            protocol_type: embedded::CONSUMER.to_owned(),
            generation: self.epoch,
            protocol: Some(name.clone()),
            leader: Some(first.id.clone()),
            current_state_timestamp: cx.at.wall.0,
            members: members.collect(),
        };
        let spoken = remain.iter().map(|member| {
            let protocol = |protocol: &ClassicProtocol| Protocol {
                name: protocol.name.clone(),
                metadata: protocol.metadata.clone(),
            };
            let spoken = protocols(member).iter().map(protocol).collect();
            (member.id.clone(), spoken)
        });
        self.handed_back = Some(HandedBack {
            protocols: spoken.collect(),
            rebalances,
        });
        let mut records = self.tombstones();
        records.push(GroupRecord::GroupMetadata(
            GroupMetadataKey {
                group: self.id.clone(),
            },
            Some(value),
        ));
        Some(Downgrade {
            protocol: name,
            records,
        })
    }
}

fn protocols(member: &Member) -> &[ClassicProtocol] {
    let classic = member.classic.as_ref();
    classic.map_or(&[], |classic| &classic.supported_protocols)
}

fn made_consumer(classic: &ClassicMember, group: &ClassicGroup, cx: &Context) -> Option<Member> {
    // Before its first generation a group has not chosen a protocol.
    let (_, metadata) = (classic.protocols.iter())
        .find(|(name, _)| group.protocol.is_empty() || *name == group.protocol)?;
    let (_, subscription) = embedded::subscription(metadata)?;
    let mut assigned = Owned::new();
    for (topic, partitions) in embedded::assigned(&classic.assignment, cx.topics)? {
        let epochs = partitions.into_iter().map(|it| (it, group.generation));
        assigned.insert(topic, epochs.collect());
    }
    Some(Member {
        instance_id: classic.instance_id.clone(),
        rack_id: subscription.rack_id.filter(|rack| !rack.is_empty()),
        client_id: classic.client.id.clone(),
        client_host: classic.client.host.clone(),
        topic_names: subscription.topics.into_iter().collect(),
        rebalance_timeout_ms: classic.rebalance_timeout_ms,
        classic: Some(ClassicMemberMetadata {
            session_timeout_ms: classic.session_timeout_ms,
            supported_protocols: (classic.protocols.iter())
                .map(|(name, metadata)| ClassicProtocol {
                    name: name.clone(),
                    metadata: metadata.clone(),
                })
                .collect(),
        }),
        epoch: group.generation,
        epoch_before: group.generation,
        assigned,
        ..Member::new(&classic.id)
    })
}
