//! JoinGroup: who is let in, under which id, and what it starts.

use std::collections::BTreeMap;

use bytes::Bytes;
use model::Instant;
use wire::ErrorCode;

use super::member::kept;
use super::{Classic, ClassicState, Member, fits, millis, refuse_join};
use crate::group::ask::{self, Joined, JoinedMember};
use crate::group::{Out, Settings};
use crate::{Caller, Moment};

/// A join that is parked ends after this time, so that members whose client gave up do not pile up (KAFKA-7610).
const NEWCOMER_WAIT_MS: i64 = 5 * 60 * 1000;

/// Member ids given out and not used yet in one group: about 1.5 MiB of them. Past it a newcomer is told that the group is full.
const PENDING_MAX: usize = 10_000;

/// A join and all that came with it.
pub(in crate::group) struct Join<'a> {
    pub(in crate::group) caller: Caller<ask::Join>,
    pub(in crate::group) ask: &'a ask::Join,
    pub(in crate::group) at: Moment,
    pub(in crate::group) settings: &'a Settings,
}

impl Join<'_> {
    pub(super) fn reason(&self) -> &str {
        said(self.ask.reason.as_deref())
    }

    pub(super) fn refuse(&self, code: ErrorCode) -> Out {
        refuse_join(self.caller, &self.ask.member_id, code)
    }

    fn fresh_id(&self) -> String {
        let name = self.ask.instance_id.as_deref();
        let hex = format!("{:032x}", u128::from_be_bytes(self.ask.fresh.0));
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &hex[part]);
        format!(
            "{}-{}",
            name.unwrap_or(&self.ask.client.id),
            parts.join("-")
        )
    }

    pub(super) fn member(&self) -> Member {
        Member {
            instance_id: self.ask.instance_id.clone(),
            client: self.ask.client.clone(),
            rebalance_timeout_ms: self.ask.rebalance_timeout_ms(),
            session_timeout_ms: self.ask.session_timeout_ms,
            protocols: kept(&self.ask.protocols),
            assignment: Bytes::new(),
            waits_join: Some(self.caller),
            waits_sync: None,
            is_new: true,
            deadline: None,
        }
    }
}

/// The reason that a client gave (KIP-800), at most as long as clients send it.
pub(super) fn said(reason: Option<&str>) -> &str {
    const REASON_BYTES_MAX: usize = 255;
    match reason {
        None | Some("") => "not provided",
        Some(reason) => &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)],
    }
}

impl Classic {
    pub(in crate::group) fn join(&mut self, join: &Join<'_>) -> Out {
        let ask = join.ask;
        let protocols = &ask.protocols;
        if !fits(protocols) {
            return join.refuse(ErrorCode::InvalidRequest);
        }
        if !self.has_room_for(&ask.member_id, join.settings.members_max) {
            self.pending.remove(&ask.member_id);
            return refuse_join(join.caller, "", ErrorCode::GroupMaxSizeReached);
        }
        if !self.supports(&ask.protocol_type, protocols) {
            return join.refuse(ErrorCode::InconsistentGroupProtocol);
        }
        if ask.member_id.is_empty() {
            self.join_newcomer(join)
        } else {
            self.join_known(join)
        }
    }

    fn has_room_for(&self, id: &str, members_max: usize) -> bool {
        match self.state {
            ClassicState::Empty => true,
            // Those that wait are counted: when the setting was lowered the last to join again are left out.
            ClassicState::PreparingRebalance => {
                let waits = |member: &Member| member.waits_join.is_some();
                self.members.get(id).is_some_and(waits)
                    || self.members.values().filter(|member| waits(member)).count() < members_max
            }
            ClassicState::CompletingRebalance | ClassicState::Stable => {
                self.members.contains_key(id) || self.members.len() < members_max
            }
        }
    }

    fn join_newcomer(&mut self, join: &Join<'_>) -> Out {
        let id = join.fresh_id();
        if let Some(instance_id) = &join.ask.instance_id {
            return match self.statics.get(instance_id).cloned() {
                Some(old) => self.replace_static(join, &old, id),
                None => self.admit(join, id),
            };
        }
        if !join.ask.needs_member_id {
            return self.admit(join, id);
        }
        if self.pending.len() >= PENDING_MAX {
            return join.refuse(ErrorCode::GroupMaxSizeReached);
        }
        let until = join.at.now.plus(millis(join.ask.session_timeout_ms.into()));
        self.wake_by(until);
        let out = refuse_join(join.caller, &id, ErrorCode::MemberIdRequired);
        self.pending.insert(id, until);
        out
    }

    fn join_known(&mut self, join: &Join<'_>) -> Out {
        let ask = join.ask;
        let id = &ask.member_id;
        if self.pending.contains_key(id) {
            return match ask.instance_id {
                // Pending ids are given to dynamic members only.
                Some(_) => join.refuse(ErrorCode::UnknownServerError),
                None => self.admit(join, id.clone()),
            };
        }
        if let Err(code) = self.check_member(id, ask.instance_id.as_deref()) {
            return join.refuse(code);
        }
        let is_same = self
            .members
            .get(id)
            .is_some_and(|member| member.matches(&ask.protocols));
        let why = match self.state {
            ClassicState::Empty => return join.refuse(ErrorCode::UnknownMemberId),
            ClassicState::PreparingRebalance => "joins during the rebalance",
            // It may have missed the answer to its first join: answer once more.
            ClassicState::CompletingRebalance if is_same => return self.tell_again(join),
            // A leader that joins has seen something that changes the assignment.
            ClassicState::Stable if self.is_leader(id) => "is the leader and joined again",
            ClassicState::Stable if is_same => return self.tell_again(join),
            ClassicState::CompletingRebalance | ClassicState::Stable => "changed its protocols",
        };
        let reason = format!("member {id} {why}; client reason: {}", join.reason());
        let mut out = self.update(join, id);
        out.extend(self.rebalance_or_complete(&reason, join.at, join.settings));
        out
    }

    fn tell_again(&self, join: &Join<'_>) -> Out {
        // A leader in a Stable group never gets here.
        let answer = self.joined(&join.ask.member_id);
        Out::answer(join.caller, Ok(answer))
    }

    /// The member said something new and waits for the others.
    pub(super) fn update(&mut self, join: &Join<'_>, id: &str) -> Out {
        let Some(mut member) = self.take(id) else {
            return Out::default();
        };
        member.protocols = kept(&join.ask.protocols);
        member.rebalance_timeout_ms = join.ask.rebalance_timeout_ms();
        member.session_timeout_ms = join.ask.session_timeout_ms;
        let earlier = member.waits_join.replace(join.caller);
        self.insert(id.to_owned(), member);
        // The client asked once more, on another connection: the one that still waits must not wait for ever.
        let mut out = Out::default();
        if let Some(earlier) = earlier {
            out = refuse_join(earlier, id, ErrorCode::RebalanceInProgress);
        }
        out
    }

    fn admit(&mut self, join: &Join<'_>, id: String) -> Out {
        if self.state == ClassicState::PreparingRebalance && self.previous == ClassicState::Empty {
            self.newcomer = Some(join.at.now);
        }
        if self.members.is_empty() {
            self.protocol_type = Some(join.ask.protocol_type.clone());
        }
        if self.leader.is_none() {
            self.leader = Some(id.clone());
        }
        self.pending.remove(&id);
        let mut member = join.member();
        let deadline = join.at.now.plus(millis(NEWCOMER_WAIT_MS));
        member.deadline = Some(deadline);
        self.wake_by(deadline);
        let reason = format!("member {id} is new; client reason: {}", join.reason());
        self.insert(id, member);
        self.rebalance_or_complete(&reason, join.at, join.settings)
    }

    /// The answer for a member of the current generation; the leader also learns who the others are.
    pub(super) fn joined(&self, id: &str) -> Joined {
        let members = if self.is_leader(id) {
            self.roll()
        } else {
            Vec::new()
        };
        Joined {
            generation: self.generation,
            member_id: id.to_owned(),
            leader: self.leader.clone(),
            protocol_type: self.protocol_type.clone(),
            protocol: Some(self.protocol.clone().unwrap_or_default()),
            members,
            skip_assignment: false,
        }
    }

    pub(super) fn roll(&self) -> Vec<JoinedMember> {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let entry = |(id, member): (&String, &Member)| JoinedMember {
            member_id: id.clone(),
            instance_id: member.instance_id.clone(),
            metadata: member.metadata(protocol),
        };
        self.members.iter().map(entry).collect()
    }

    /// Pending ids whose time is up are forgotten.
    pub(super) fn forget_pending(&mut self, now: Instant) -> bool {
        let before = self.pending.len();
        let kept: BTreeMap<String, Instant> = std::mem::take(&mut self.pending)
            .into_iter()
            .filter(|(_, until)| now < *until)
            .collect();
        self.pending = kept;
        self.pending.len() < before
    }
}
