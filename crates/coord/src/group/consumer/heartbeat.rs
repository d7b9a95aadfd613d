//! A heartbeat, from check to answer: joining, staying, leaving.
//!
//! Fields that are absent have not changed. A heartbeat that carries all of them is a full one and is answered with the whole
//! assignment; so is a join, and a heartbeat that changed the assignment.

use model::PartitionIndex;
use wire::ErrorCode;
use wire::group::GroupRecord;

use super::member::{JOIN, LEAVE, LEAVE_STATIC, Member, Progress};
use super::partitions::{Owned, reports_within};
use super::refusal::check;
use super::settle::Entry;
use super::timers::Wait;
use super::{ConsumerGroup, Context, Settings, after, reason};
use crate::group::ask::{ConsumerHeartbeat, Standing, TopicPartitions};
use crate::group::{Answer, Refusal};
use crate::{Caller, Step};

/// While partitions move, the heartbeat interval is this part of the usual one, within what the operator allows.
const MOVING_SHARE: i32 = 5;

type Beaten = Result<(Vec<GroupRecord>, Standing), Refusal>;

impl ConsumerGroup {
    pub fn heartbeat(
        &mut self,
        caller: Caller<ConsumerHeartbeat>,
        beat: &ConsumerHeartbeat,
        cx: &Context,
    ) -> Step<GroupRecord, Answer> {
        let done = check(beat, cx.settings).and_then(|()| match beat.member_epoch {
            LEAVE | LEAVE_STATIC => self.leave(beat, cx),
            _ => self.stay(beat, cx),
        });
        let (records, answer) = match done {
            Ok((records, standing)) => (records, Ok(standing)),
            Err(refusal) => (Vec::new(), Err(refusal)),
        };
        Step {
            records,
            answers: vec![caller.answer(answer)],
            ..Step::default()
        }
    }

    fn stay(&mut self, beat: &ConsumerHeartbeat, cx: &Context) -> Beaten {
        let joins = beat.member_epoch == JOIN;
        if !joins && !self.exists() {
            return Err(Refusal::no_group(&self.id));
        }
        let id = if beat.member_id.is_empty() {
            beat.fresh.to_string()
        } else {
            beat.member_id.clone()
        };
        self.refuse_if_full(&id, cx.settings)?;
        let entry = match &beat.instance_id {
            None => self.entry_of_dynamic(&id, joins)?,
            Some(instance) => self.entry_of_static(&id, instance, joins, true)?,
        };
        let reported = beat.owned.as_deref();
        if !joins {
            check_epoch(&entry.before, beat)?;
        }

        let mut member = entry.before.clone();
        member.client_id.clone_from(&beat.client.id);
        member.client_host.clone_from(&beat.client.host);
        member.classic = None;
        update(&mut member, beat);
        self.lookout.offer(&beat.sight);
        let mut records = Vec::new();
        let settled = self.replace_member(&entry, member, reported, cx, &mut records)?;
        let session = after(cx.at, cx.settings.session_timeout_ms.value);
        self.timers.set(&settled.id, Wait::Session, session);
        self.timers.cancel(&settled.id, Wait::Join);
        self.timers.cancel(&settled.id, Wait::Sync);

        let subscribes = beat.topic_names.is_some() || beat.pattern.is_some();
        let is_full = beat.rebalance_timeout_ms.is_some() && subscribes && reported.is_some();
        let is_told = joins || is_full || settled.assigned != entry.before.assigned;
        let standing = Standing {
            member_epoch: settled.epoch,
            heartbeat_interval_ms: self.heartbeat_interval(&settled, &records, cx),
            assignment: is_told.then(|| assignment(&settled.assigned)),
            member_id: settled.id,
        };
        Ok((records, standing))
    }

    /// A member learns only from its next heartbeat what it is to give up or may take. While partitions move, and for one
    /// interval after they were assigned anew, members come more often: every move needs two of them one after the other.
    ///
    /// A member with its whole assignment learns nothing new before the pause between two assignments is over, and comes then: a crowd
    /// that joins would else spend its time on heartbeats. Who has no partition comes a little behind those that may have to
    /// give one up.
    fn heartbeat_interval(&self, member: &Member, records: &[GroupRecord], cx: &Context) -> i32 {
        let usual = cx.settings.heartbeat_interval_ms.value;
        let is_assigned_now = records.iter().any(|record| {
            matches!(
                record,
                GroupRecord::ConsumerGroupTargetAssignmentMetadata(..)
            )
        });
        let since = if is_assigned_now {
            0
        } else {
            cx.at.wall.0 - self.assigned_at.0
        };
        let is_moving = !records.is_empty()
            || member.progress != Progress::Stable
            || self.epoch != self.assignment_epoch
            || (0 <= since && since < i64::from(usual));
        if !is_moving {
            return usual;
        }
        let least = cx.settings.moving_interval_ms_min.max(1);
        let soon = (usual / MOVING_SHARE).max(least).min(usual);
        let pause = i64::from(cx.settings.assignment_interval_ms.value);
        if member.progress != Progress::Stable || !(0..pause).contains(&since) {
            return soon;
        }
        let left = i32::try_from(pause - since).unwrap_or(i32::MAX);
        let behind = if member.assigned.is_empty() {
            soon / 2
        } else {
            0
        };
        left.saturating_add(behind).clamp(soon, usual)
    }

    fn leave(&mut self, beat: &ConsumerHeartbeat, cx: &Context) -> Beaten {
        if !self.exists() {
            return Err(Refusal::no_group(&self.id));
        }
        let entry = match &beat.instance_id {
            None => self.entry_of_dynamic(&beat.member_id, false)?,
            Some(instance) => self.entry_of_static(&beat.member_id, instance, false, true)?,
        };
        let records = if beat.member_epoch == LEAVE_STATIC {
            // It keeps what it has, for a session, but what it was asked to give up is free.
            let mut away = entry.before;
            away.epoch = LEAVE_STATIC;
            away.revoking.clear();
            vec![away.current_record(&self.id)]
        } else {
            self.moves_on(reason::of_leaver(&beat.member_id), cx);
            self.fence(&[beat.member_id.as_str()].into(), cx, usize::MAX)
        };
        let standing = Standing {
            member_id: beat.member_id.clone(),
            member_epoch: beat.member_epoch,
            ..Standing::default()
        };
        Ok((records, standing))
    }

    pub(super) fn refuse_if_full(&self, id: &str, settings: &Settings) -> Result<(), Refusal> {
        if self.members.len() >= settings.members_max && !self.members.contains_key(id) {
            return Err(Refusal::new(
                ErrorCode::GroupMaxSizeReached,
                format!(
                    "The consumer group has reached its maximum capacity of {} members.",
                    settings.members_max
                ),
            ));
        }
        Ok(())
    }

    pub(super) fn entry_of_dynamic(&self, id: &str, joins: bool) -> Result<Entry, Refusal> {
        match self.members.get(id) {
            Some(member) => Ok(Entry::known(member)),
            None if joins => Ok(Entry::new(id)),
            None => Err(Refusal::unknown_member(id, &self.id)),
        }
    }

    /// The member of an instance id. One that joins under a new member id takes the place of the one before, if that has left or
    /// one of the two speaks the classic protocol.
    pub(super) fn entry_of_static(
        &self,
        id: &str,
        instance: &str,
        joins: bool,
        speaks_consumer: bool,
    ) -> Result<Entry, Refusal> {
        let holder = self
            .statics
            .get(instance)
            .and_then(|id| self.members.get(id));
        let Some(holder) = holder else {
            return if joins {
                // A member that was dynamic so far becomes static.
                Ok(self
                    .members
                    .get(id)
                    .map_or_else(|| Entry::new(id), Entry::known))
            } else {
                Err(Refusal::new(
                    ErrorCode::UnknownMemberId,
                    format!("Instance id {instance} is unknown."),
                ))
            };
        };
        if holder.id == id {
            return Ok(Entry::known(holder));
        }
        if !joins {
            return Err(Refusal::new(
                ErrorCode::FencedInstanceId,
                format!(
                    "Static member {id} with instance id {instance} was fenced by member {}.",
                    holder.id
                ),
            ));
        }
        if speaks_consumer && holder.classic.is_none() && holder.epoch != LEAVE_STATIC {
            return Err(Refusal::new(
                ErrorCode::UnreleasedInstanceId,
                format!(
                    "Static member {id} with instance id {instance} cannot join the group because the instance id is owned by {} member.",
                    holder.id
                ),
            ));
        }
        Ok(Entry::in_place_of(holder, id))
    }
}

/// A member may be one epoch behind when the answer that told the new one was lost; not if it has since done something else.
fn check_epoch(member: &Member, beat: &ConsumerHeartbeat) -> Result<(), Refusal> {
    let told = beat.member_epoch;
    let reported = beat.owned.as_deref();
    let comparison = if told > member.epoch {
        "greater"
    } else if told < member.epoch
        && (told != member.epoch_before || !reports_within(reported, &member.assigned))
    {
        "smaller"
    } else {
        return Ok(());
    };
    Err(Refusal::new(
        ErrorCode::FencedMemberEpoch,
        format!(
            "The consumer group member has a {comparison} member epoch ({told}) than the one known by the group coordinator ({}). \
             The member must abandon all its partitions and rejoin.",
            member.epoch
        ),
    ))
}

fn update(member: &mut Member, beat: &ConsumerHeartbeat) {
    if beat.instance_id.is_some() {
        member.instance_id.clone_from(&beat.instance_id);
    }
    if beat.rack_id.is_some() {
        member.rack_id.clone_from(&beat.rack_id);
    }
    if let Some(timeout_ms) = beat.rebalance_timeout_ms {
        member.rebalance_timeout_ms = timeout_ms;
    }
    if beat.assignor.is_some() {
        member.assignor.clone_from(&beat.assignor);
    }
    if let Some(names) = &beat.topic_names {
        member.topic_names = names.iter().cloned().collect();
    }
    if let Some(pattern) = &beat.pattern {
        member.pattern.clone_from(pattern);
    }
}

fn assignment(owned: &Owned) -> Vec<TopicPartitions> {
    (owned.iter())
        .map(|(&topic_id, partitions)| TopicPartitions {
            topic_id,
            partitions: partitions.keys().copied().map(PartitionIndex).collect(),
        })
        .collect()
}
