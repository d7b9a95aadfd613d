//! Presence of members: heartbeats, leaving, and members that fall silent.

use wire::ErrorCode;

use super::join::said;
use super::{Classic, ClassicState};
use crate::Moment;
use crate::group::ask::{Heartbeat, Leaver};
use crate::group::{Out, Settings};

impl Classic {
    pub(in crate::group) fn heartbeat(
        &mut self,
        beat: &Heartbeat,
        at: Moment,
    ) -> Result<(), ErrorCode> {
        let id = &beat.member_id;
        self.check_member(id, beat.instance_id.as_deref())?;
        if beat.generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        self.renew(id, at.now);
        match self.state {
            ClassicState::Empty => Err(ErrorCode::UnknownMemberId),
            ClassicState::PreparingRebalance => Err(ErrorCode::RebalanceInProgress),
            ClassicState::CompletingRebalance | ClassicState::Stable => Ok(()),
        }
    }

    /// A commit shows that the member lives.
    pub(in crate::group) fn on_commit(&mut self, id: &str, at: Moment) {
        if matches!(
            self.state,
            ClassicState::Stable | ClassicState::PreparingRebalance
        ) {
            self.renew(id, at.now);
        }
    }

    /// The outcome for each leaver, and the consequences for the others.
    pub(in crate::group) fn leave(
        &mut self,
        leavers: &[Leaver],
        at: Moment,
        settings: &Settings,
    ) -> (Vec<Result<(), ErrorCode>>, Out) {
        let mut out = Out::default();
        let mut results = Vec::with_capacity(leavers.len());
        let mut reason = None;
        for leaving in leavers {
            let left = self.leave_one(leaving);
            results.push(left.as_ref().map(drop).map_err(|code| *code));
            if let Ok(left) = left {
                out.extend(left);
                let id = match (&*leaving.member_id, &leaving.instance_id) {
                    ("", Some(instance_id)) => instance_id,
                    (id, _) => id,
                };
                let client = said(leaving.reason.as_deref());
                reason = Some(format!("member {id} left; client reason: {client}"));
            }
        }
        if let Some(reason) = reason {
            out.extend(match self.state {
                ClassicState::Stable | ClassicState::CompletingRebalance => {
                    self.rebalance_or_complete(&reason, at, settings)
                }
                ClassicState::PreparingRebalance => self.complete_if_all_joined(at),
                ClassicState::Empty => Out::default(),
            });
        }
        (results, out)
    }

    fn leave_one(&mut self, leaving: &Leaver) -> Result<Out, ErrorCode> {
        let instance_id = leaving.instance_id.as_deref();
        if leaving.member_id.is_empty() {
            // Tools remove a static member by its instance id alone.
            let id = instance_id.and_then(|instance_id| self.statics.get(instance_id));
            let id = id.cloned().ok_or(ErrorCode::UnknownMemberId)?;
            return Ok(self.drop_member(&id));
        }
        if self.pending.remove(&leaving.member_id).is_some() {
            return Ok(Out::default());
        }
        self.check_member(&leaving.member_id, instance_id)?;
        Ok(self.drop_member(&leaving.member_id))
    }

    /// Everything whose time is up.
    pub(in crate::group) fn tick(&mut self, at: Moment, settings: &Settings) -> Out {
        let delay_ms = settings.initial_rebalance_delay_ms;
        let mut out = self.begin_taken_over(at, settings);
        if self.forget_pending(at.now) && self.is_complete() {
            out.extend(self.complete_join(at));
        }
        out.extend(self.expire_sessions(at, settings));
        if let Some((when, end)) = self.join_end
            && when <= at.now
        {
            self.join_end = None;
            out.extend(self.on_join_end(end, at, delay_ms));
        }
        if self.sync_end.is_some_and(|when| when <= at.now) {
            out.extend(self.on_sync_end(at, delay_ms));
        }
        self.wake = self.earliest();
        out
    }

    fn is_complete(&self) -> bool {
        self.state == ClassicState::PreparingRebalance && self.has_all_joined()
    }

    fn expire_sessions(&mut self, at: Moment, settings: &Settings) -> Out {
        let mut silent = Vec::new();
        for (id, member) in &mut self.members {
            if member.deadline.is_some_and(|deadline| deadline <= at.now) {
                // Its session goes on when it is answered.
                member.deadline = None;
                if !member.is_excused() {
                    silent.push(id.clone());
                }
            }
        }
        let mut out = Out::default();
        if silent.is_empty() {
            return out;
        }
        for id in &silent {
            out.extend(self.drop_member(id));
        }
        let first = silent.first().map_or("", |id| id);
        let reason = match silent.len() {
            1 => format!("member {first} was silent for its session timeout"),
            count => format!("{count} members were silent for their session timeout"),
        };
        match self.state {
            ClassicState::Stable | ClassicState::CompletingRebalance => {
                out.extend(self.rebalance_or_complete(&reason, at, settings));
            }
            ClassicState::PreparingRebalance if self.has_all_joined() => {
                out.extend(self.complete_join(at));
            }
            ClassicState::PreparingRebalance | ClassicState::Empty => {}
        }
        out
    }

    fn earliest(&self) -> Option<model::Instant> {
        let sessions = self.members.values().filter_map(|member| member.deadline);
        let pending = self.pending.values().copied();
        let ends = self
            .join_end
            .map(|(when, _)| when)
            .into_iter()
            .chain(self.sync_end);
        sessions.chain(pending).chain(ends).min()
    }
}
