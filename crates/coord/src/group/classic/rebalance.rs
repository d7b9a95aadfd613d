//! From one generation to the next: wait for the members, choose leader and protocol, then wait for the assignment.

use model::Instant;
use wire::ErrorCode;

use super::{Classic, ClassicState, JoinEnd, Member, Rebalance, join_refused, millis};
use crate::group::ask;
use crate::group::{Out, Settings};
use crate::{Caller, Moment};

impl Classic {
    /// A rebalance begins, or, if one is under way, ends when this was all it waited for.
    pub(super) fn rebalance_or_complete(
        &mut self,
        reason: &str,
        at: Moment,
        settings: &Settings,
    ) -> Out {
        if self.state == ClassicState::PreparingRebalance {
            self.complete_if_all_joined(at)
        } else {
            self.prepare_rebalance(reason, at, settings.initial_rebalance_delay_ms)
        }
    }

    pub(super) fn prepare_rebalance(&mut self, reason: &str, at: Moment, delay_ms: i32) -> Out {
        let mut out = Out::default();
        if self.state == ClassicState::CompletingRebalance {
            out = self.cancel_syncs(ErrorCode::RebalanceInProgress, at);
        }
        self.unsynced.clear();
        self.sync_end = None;
        self.last_rebalance = Some(Rebalance {
            reason: reason.to_owned(),
            at: at.wall,
            generation: self.generation,
        });
        let is_initial = self.state == ClassicState::Empty;
        self.enter(ClassicState::PreparingRebalance, at);
        if is_initial {
            let delay_ms = i64::from(delay_ms.max(0));
            let most_ms = self.rebalance_timeout_ms().max(delay_ms);
            let latest = at.now.plus(millis(most_ms));
            self.newcomer = None;
            self.end_join_in(delay_ms, JoinEnd::Initial { latest }, at);
        } else if self.has_all_joined() {
            out.extend(self.complete_join(at));
        } else {
            self.end_join_in(self.rebalance_timeout_ms(), JoinEnd::Rebalance, at);
        }
        out
    }

    /// Members that wait for an assignment of this generation do so in vain.
    fn cancel_syncs(&mut self, code: ErrorCode, at: Moment) -> Out {
        let waiting = self.take_syncs(at);
        let answers = waiting
            .into_iter()
            .map(|(_, caller)| caller.answer(Err(code)));
        Out {
            answers: answers.collect(),
            ..Out::default()
        }
    }

    /// Those that wait for an assignment, whose sessions go on from now.
    pub(super) fn take_syncs(&mut self, at: Moment) -> Vec<(String, Caller<ask::Sync>)> {
        let mut waiting = Vec::new();
        for (id, member) in &mut self.members {
            if let Some(caller) = member.waits_sync.take() {
                waiting.push((id.clone(), caller));
            }
        }
        for (id, _) in &waiting {
            self.renew(id, at.now);
        }
        waiting
    }

    fn end_join_in(&mut self, ms: i64, end: JoinEnd, at: Moment) {
        self.end_join_at(at.now.plus(millis(ms)), end);
    }

    fn end_join_at(&mut self, when: Instant, end: JoinEnd) {
        self.join_end = Some((when, end));
        self.wake_by(when);
    }

    /// The longest that any member may take to join.
    fn rebalance_timeout_ms(&self) -> i64 {
        let timeouts = self
            .members
            .values()
            .map(|member| member.rebalance_timeout_ms);
        timeouts.max().unwrap_or(0).max(0).into()
    }

    pub(super) fn has_all_joined(&self) -> bool {
        self.pending.is_empty()
            && self
                .members
                .values()
                .all(|member| member.waits_join.is_some())
    }

    /// The first generation of a group is not begun early: its delay is there to be waited for.
    pub(super) fn complete_if_all_joined(&mut self, at: Moment) -> Out {
        let is_initial = self.previous == ClassicState::Empty;
        if self.state == ClassicState::PreparingRebalance && !is_initial && self.has_all_joined() {
            self.complete_join(at)
        } else {
            Out::default()
        }
    }

    /// The time for joining is up. A new group begins when nobody has come for the initial delay: Kafka looks back once in each
    /// such delay, and so begins up to one later.
    pub(super) fn on_join_end(&mut self, end: JoinEnd, at: Moment, delay_ms: i32) -> Out {
        let newcomer = self.newcomer.take();
        if let (JoinEnd::Initial { latest }, Some(came)) = (end, newcomer) {
            let quiet = came.plus(millis(delay_ms.into())).min(latest);
            if at.now < quiet {
                self.end_join_at(quiet, end);
                return Out::default();
            }
        }
        self.complete_join(at)
    }

    /// Dynamic members that did not join are out; static ones stay until their session ends.
    pub(super) fn complete_join(&mut self, at: Moment) -> Out {
        self.join_end = None;
        let absent = |member: &Member| member.waits_join.is_none();
        let gone: Vec<String> = self
            .members
            .iter()
            .filter(|(_, member)| absent(member) && member.instance_id.is_none())
            .map(|(id, _)| id.clone())
            .collect();
        for id in &gone {
            self.drop_member(id);
        }
        if !self.members.is_empty() && !self.elect() {
            // Only static members, none of which came: they have their session to do so.
            self.end_join_in(self.rebalance_timeout_ms(), JoinEnd::Rebalance, at);
            return Out::default();
        }
        self.generation = self.generation.wrapping_add(1).max(0);
        self.unsynced.clear();
        self.protocol = self.choose_protocol();
        self.subscribed = self.read_subscriptions();
        if self.members.is_empty() {
            self.enter(ClassicState::Empty, at);
            return Out {
                records: vec![self.record(|_, member| member.assignment.clone())],
                ..Out::default()
            };
        }
        self.enter(ClassicState::CompletingRebalance, at);
        self.tell_joined(at)
    }

    /// Everyone learns of the new generation and has as long as a rebalance may take to fetch the assignment.
    fn tell_joined(&mut self, at: Moment) -> Out {
        let mut out = Out::default();
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for id in ids {
            let answer = Ok(self.joined(&id));
            if let Some(member) = self.members.get_mut(&id) {
                member.is_new = false;
                let waiting = member.waits_join.take();
                out.answers
                    .extend(waiting.map(|caller| caller.answer(answer)));
            }
            self.renew(&id, at.now);
            self.unsynced.insert(id);
        }
        let until = at.now.plus(millis(self.rebalance_timeout_ms()));
        self.sync_end = Some(until);
        self.wake_by(until);
        out
    }

    /// The leader has joined, or another that has is made leader; false when nobody has.
    fn elect(&mut self) -> bool {
        let has_joined = |id: &String| {
            let member = self.members.get(id);
            member.is_some_and(|member| member.waits_join.is_some())
        };
        if !self.leader.as_ref().is_some_and(has_joined) {
            let Some(joined) = self.members.keys().find(|id| has_joined(id)) else {
                return false;
            };
            self.leader = Some(joined.clone());
        }
        true
    }

    /// Takes a member out for good; a leader is followed by the first of the others. Whoever waited for it is returned.
    pub(super) fn drop_member(&mut self, id: &str) -> Out {
        let mut out = Out::default();
        let Some(member) = self.take(id) else {
            return out;
        };
        if self.is_leader(id) {
            self.leader = self.members.keys().next().cloned();
        }
        let code = ErrorCode::UnknownMemberId;
        if let Some(caller) = member.waits_join {
            // It joins again, as a new member, should it still be there.
            out.answers.push(caller.answer(join_refused("", code)));
        }
        if let Some(caller) = member.waits_sync {
            out.answers.push(caller.answer(Err(code)));
        }
        out
    }

    /// Members that did not fetch their assignment in time are out.
    pub(super) fn on_sync_end(&mut self, at: Moment, delay_ms: i32) -> Out {
        self.sync_end = None;
        let late = std::mem::take(&mut self.unsynced);
        let is_open = matches!(
            self.state,
            ClassicState::CompletingRebalance | ClassicState::Stable
        );
        if late.is_empty() || !is_open {
            return Out::default();
        }
        let mut out = Out::default();
        for id in &late {
            out.extend(self.drop_member(id));
        }
        let reason = format!("{} members did not sync in time", late.len());
        out.extend(self.prepare_rebalance(&reason, at, delay_ms));
        out
    }
}
