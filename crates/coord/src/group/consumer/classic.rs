//! Members of the classic protocol in a consumer group: while a group migrates, both kinds work in it together.
//!
//! A classic member sees a group without a leader, whose generation is its own member epoch. JoinGroup is its heartbeat with
//! everything in it, SyncGroup fetches what it has, and Heartbeat says when to join again: when the group is assigned anew, or may
//! be, when it has to give something up, or when what it waits for is free.

use std::collections::BTreeSet;

use wire::ErrorCode;
use wire::group::GroupRecord;
use wire::group::consumer_group_member_metadata_value::{ClassicMemberMetadata, ClassicProtocol};

use super::member::{Member, Progress};
use super::partitions::owns;
use super::timers::Wait;
use super::{ConsumerGroup, Context, after, embedded, reason};
use crate::group::ask::{Heartbeat, Join, JoinRefusal, Joined, Leaver, Protocol, Sync, Synced};
use crate::group::classic::fits;
use crate::group::{Answer, Refusal};
use crate::{Caller, Step};

type Out = Step<GroupRecord, Answer>;

impl ConsumerGroup {
    pub fn classic_join(&mut self, caller: Caller<Join>, join: &Join, cx: &Context) -> Out {
        let id = match join.member_id.as_str() {
            "" => join.fresh.to_string(),
            id => id.to_owned(),
        };
        let (records, answer) = match self.try_classic_join(&id, join, cx) {
            Ok((records, joined)) => (records, Ok(joined)),
            Err(Refusal { code, .. }) => {
                let member_id = match code {
                    ErrorCode::MemberIdRequired => id,
                    _ => join.member_id.clone(),
                };
                (Vec::new(), Err(JoinRefusal { code, member_id }))
            }
        };
        Step {
            records,
            answers: vec![caller.answer(answer)],
            ..Step::default()
        }
    }

    fn try_classic_join(
        &mut self,
        id: &str,
        join: &Join,
        cx: &Context,
    ) -> Result<(Vec<GroupRecord>, Joined), Refusal> {
        let is_unknown = join.member_id.is_empty();
        self.refuse_if_full(id, cx.settings)?;
        if !fits(&join.protocols) {
            let message = "The member says more about itself than it may.";
            return Err(Refusal::new(ErrorCode::InvalidRequest, message));
        }
        let is_supported = self.is_one_supported(&join.protocols, id);
        let misfit = || {
            let message = "The member's protocols do not fit those of the group.";
            Refusal::new(ErrorCode::InconsistentGroupProtocol, message)
        };
        if join.protocol_type != embedded::CONSUMER || !is_supported {
            return Err(misfit());
        }
        // As in Kafka before the metadata are looked into.
        if is_unknown && join.needs_member_id && join.instance_id.is_none() {
            return Err(Refusal::new(ErrorCode::MemberIdRequired, ""));
        }
        // The first protocol speaks for the member: their subscriptions are the same.
        let subscription = (join.protocols.first())
            .and_then(|protocol| embedded::subscription(&protocol.metadata));
        let (_, subscription) = subscription.ok_or_else(misfit)?;
        let entry = match &join.instance_id {
            None => self.entry_of_dynamic(id, true)?,
            Some(instance) => self.entry_of_static(id, instance, is_unknown, false)?,
        };

        let mut member = entry.before.clone();
        if join.instance_id.is_some() {
            member.instance_id.clone_from(&join.instance_id);
        }
        if let Some(rack) = subscription
            .rack_id
            .as_ref()
            .filter(|rack| !rack.is_empty())
        {
            member.rack_id = Some(rack.clone());
        }
        member.rebalance_timeout_ms = join.rebalance_timeout_ms();
        member.topic_names = subscription.topics.iter().cloned().collect();
        member.pattern.clear();
        member.client_id.clone_from(&join.client.id);
        member.client_host.clone_from(&join.client.host);
        member.classic = Some(ClassicMemberMetadata {
            session_timeout_ms: join.session_timeout_ms,
            supported_protocols: (join.protocols.iter())
                .map(|protocol| ClassicProtocol {
                    name: protocol.name.clone(),
                    // A slice would keep the received frame.
                    metadata: bytes::Bytes::copy_from_slice(&protocol.metadata),
                })
                .collect(),
        });
        // The last of the consumer protocol speaks the classic one from now on. What it had is its own in the classic group too.
        let place = [entry.replaced.as_deref().unwrap_or(id)].into();
        if entry.was_consumer()
            && self.downgrades(&place, Some(&member), cx.settings)
            && let rebalances = !self.is_settled_with(&member, &entry.before, cx)
            && let Some(downgrade) = self.downgrade(&place, Some(&member), rebalances, cx)
        {
            let joined = joined(member.id, self.epoch, Some(downgrade.protocol));
            return Ok((downgrade.records, joined));
        }
        let reported = embedded::reported(&subscription, cx.topics);
        let mut records = Vec::new();
        let settled = self.replace_member(&entry, member, Some(&reported), cx, &mut records)?;

        self.timers.cancel(&settled.id, Wait::Join);
        self.timers
            .cancel(&settled.id, Wait::Revocation { epoch: 0 });
        let session = after(cx.at, join.session_timeout_ms);
        self.timers.set(&settled.id, Wait::Session, session);
        let sync = after(cx.at, settled.rebalance_timeout_ms);
        self.timers.set(&settled.id, Wait::Sync, sync);
        let protocol = protocol_name(&settled).map(str::to_owned);
        let joined = joined(settled.id, settled.epoch, protocol);
        Ok((records, joined))
    }

    pub fn classic_sync(&mut self, caller: Caller<Sync>, sync: &Sync, cx: &Context) -> Out {
        Step::answer(caller, self.try_classic_sync(sync, cx))
    }

    fn try_classic_sync(&mut self, sync: &Sync, cx: &Context) -> Result<Synced, ErrorCode> {
        let instance = sync.instance_id.as_deref();
        let member = self.classic_member(&sync.member_id, instance)?;
        if sync.generation != member.epoch {
            return Err(ErrorCode::IllegalGeneration);
        }
        let name = protocol_name(member);
        let kind = sync.protocol_type.as_deref();
        let protocol = sync.protocol.as_deref();
        if kind.is_some_and(|kind| kind != embedded::CONSUMER)
            || protocol.is_some_and(|it| Some(it) != name)
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        // One that has still to give up finishes that first: it joined for this epoch already. And one that joined while nothing
        // may be assigned yet is not sent to join again at once: it would do so without end.
        if member.epoch < self.assignment_epoch && member.progress != Progress::Unrevoked {
            let (id, join) = (member.id.clone(), after(cx.at, member.rebalance_timeout_ms));
            self.timers.set_if_absent(&id, Wait::Join, join);
            return Err(ErrorCode::RebalanceInProgress);
        }
        let synced = Synced {
            protocol_type: Some(embedded::CONSUMER.to_owned()),
            protocol: name.map(str::to_owned),
            assignment: embedded::assignment(&member.assigned, version(member), cx.topics),
        };
        let (id, session) = (member.id.clone(), after(cx.at, session_timeout_ms(member)));
        self.timers.cancel(&id, Wait::Sync);
        self.timers.set(&id, Wait::Session, session);
        Ok(synced)
    }

    pub fn classic_heartbeat(&mut self, beat: &Heartbeat, cx: &Context) -> Result<(), ErrorCode> {
        let instance = beat.instance_id.as_deref();
        let member = self.classic_member(&beat.member_id, instance)?;
        if beat.generation != member.epoch {
            return Err(ErrorCode::IllegalGeneration);
        }
        // Where there are none but guests, one of them has to come for the assignment to be made.
        let is_due = self.epoch > self.assignment_epoch && self.may_assign(cx);
        let joins = is_due
            || member.epoch < self.assignment_epoch
            || member.progress == Progress::Unrevoked
            || (member.progress == Progress::Unreleased && !self.is_waiting(member));
        let id = member.id.clone();
        let session = after(cx.at, session_timeout_ms(member));
        let join = after(cx.at, member.rebalance_timeout_ms);
        self.timers.set(&id, Wait::Session, session);
        if joins {
            self.timers.set_if_absent(&id, Wait::Join, join);
            return Err(ErrorCode::RebalanceInProgress);
        }
        Ok(())
    }

    /// The outcome for each leaver, of either protocol, and the records that remove them.
    pub fn classic_leave(
        &mut self,
        leavers: &[Leaver],
        cx: &Context,
    ) -> (Vec<Result<(), ErrorCode>>, Vec<GroupRecord>) {
        let mut gone = BTreeSet::new();
        let mut results = Vec::with_capacity(leavers.len());
        for leaver in leavers {
            let instance = leaver.instance_id.as_deref();
            // Tools name a static member by its instance alone.
            let id = match (leaver.member_id.as_str(), instance) {
                ("", Some(instance)) => self.statics.get(instance).map_or("", String::as_str),
                (id, _) => id,
            };
            results.push(self.member(id, instance).map(|member| {
                gone.insert(member.id.clone());
            }));
        }
        let gone: BTreeSet<&str> = gone.iter().map(String::as_str).collect();
        let records = match gone.first() {
            None => Vec::new(),
            Some(first) => {
                self.moves_on(reason::of_leaver(first), cx);
                self.fence(&gone, cx, usize::MAX)
            }
        };
        (results, records)
    }

    fn classic_member(&self, id: &str, instance: Option<&str>) -> Result<&Member, ErrorCode> {
        let member = self.member(id, instance)?;
        if member.classic.is_none() {
            return Err(ErrorCode::UnknownMemberId);
        }
        Ok(member)
    }

    fn member(&self, id: &str, instance: Option<&str>) -> Result<&Member, ErrorCode> {
        if let Some(instance) = instance {
            match self.statics.get(instance) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(holder) if holder != id => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
            }
        }
        self.members.get(id).ok_or(ErrorCode::UnknownMemberId)
    }

    /// True if every classic member but `id` could use one of the protocols.
    fn is_one_supported(&self, protocols: &[Protocol], id: &str) -> bool {
        let own = self.members.get(id);
        let own_names = own.map(Member::protocol_names).unwrap_or_default();
        let is_guest = own.is_some_and(|member| member.classic.is_some());
        let others = self.guests_count - usize::from(is_guest);
        protocols.iter().any(|protocol| {
            let name = protocol.name.as_str();
            let count = self.protocol_counts.get(name).copied().unwrap_or(0);
            count - usize::from(own_names.contains(name)) == others
        })
    }

    /// Somebody else has still something of what the member is to have.
    fn is_waiting(&self, member: &Member) -> bool {
        let target = self.target.get(&member.id).into_iter().flatten();
        target
            .flat_map(|(&topic, partitions)| partitions.iter().map(move |&it| (topic, it)))
            .any(|(topic, partition)| {
                !owns(&member.assigned, topic, partition)
                    && (self.owners.get(&(topic, partition)))
                        .is_some_and(|owner| **owner != *member.id)
            })
    }
}

fn joined(member_id: String, generation: i32, protocol: Option<String>) -> Joined {
    Joined {
        generation,
        member_id,
        protocol_type: Some(embedded::CONSUMER.to_owned()),
        protocol,
        ..Joined::default()
    }
}

fn protocol_name(member: &Member) -> Option<&str> {
    let protocols = &member.classic.as_ref()?.supported_protocols;
    protocols.first().map(|protocol| protocol.name.as_str())
}

/// Of the embedded messages that the member speaks.
fn version(member: &Member) -> i16 {
    (member.classic.as_ref())
        .and_then(|classic| classic.supported_protocols.first())
        .and_then(|protocol| embedded::subscription(&protocol.metadata))
        .map_or(0, |(version, _)| version)
}

fn session_timeout_ms(member: &Member) -> i32 {
    (member.classic.as_ref()).map_or(0, |classic| classic.session_timeout_ms)
}
