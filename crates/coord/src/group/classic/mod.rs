//! A group of the classic protocol: members elect a leader among them, who divides the work (KIP-62, 345, 394, 800, 814).
//!
//! The content of a record - generation, protocol, leader, members and their assignments - is taken from it by `replay` alone, and
//! only `replay` makes a group Stable. Who waits, who is silent and how far a rebalance is, is soft: after a restart the members
//! of the last generation go on, or fall silent and are removed. Every caller that waits here is answered exactly once.

mod hand_over;
mod join;
mod member;
mod protocol;
mod rebalance;
mod replace;
mod session;
mod sync;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::{Instant, Timestamp};
use wire::ErrorCode;
use wire::group::group_metadata_value::MemberMetadata;
use wire::group::{GroupMetadataValue, GroupRecord};

use self::hand_over::TakenOver;
use self::member::Member;
use super::ask::{self, JoinRefusal, Joined, Protocol};
use super::{Client, Out, record};
use crate::{Caller, Moment};

pub(super) use self::join::Join;
pub(super) use self::member::fits;
pub(super) use self::view::Committer;

/// How a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassicState {
    /// No members; there may be offsets.
    Empty,
    /// Waits for the members to join.
    PreparingRebalance,
    /// Waits for the leader's assignment.
    CompletingRebalance,
    Stable,
}

impl ClassicState {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ClassicState::Empty => "Empty",
            ClassicState::PreparingRebalance => "PreparingRebalance",
            ClassicState::CompletingRebalance => "CompletingRebalance",
            ClassicState::Stable => "Stable",
        }
    }

    #[must_use]
    pub fn named(name: &str) -> Option<ClassicState> {
        let mut all = [
            ClassicState::Empty,
            ClassicState::PreparingRebalance,
            ClassicState::CompletingRebalance,
            ClassicState::Stable,
        ]
        .into_iter();
        all.find(|state| state.name() == name)
    }
}

/// Why a group rebalanced last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebalance {
    pub reason: String,
    pub at: Timestamp,
    /// The generation that was given up.
    pub generation: i32,
}

/// The end of a join phase.
#[derive(Clone, Copy, Debug)]
enum JoinEnd {
    /// Of a group that had no members: more may be on their way, but are not waited for longer than to `latest`.
    Initial {
        latest: Instant,
    },
    Rebalance,
}

#[derive(Debug)]
pub(super) struct Classic {
    id: Arc<str>,
    state: ClassicState,
    previous: ClassicState,
    generation: i32,
    protocol_type: Option<String>,
    protocol: Option<String>,
    leader: Option<String>,
    /// Since when it is in this state; -1 when an old record did not say.
    since: Timestamp,
    members: BTreeMap<String, Member>,
    /// Member ids that were given out and did not join yet (KIP-394), and until when they may.
    pending: BTreeMap<String, Instant>,
    /// Members of this generation that did not fetch their assignment yet.
    unsynced: BTreeSet<String>,
    /// Member ids by instance id.
    statics: BTreeMap<String, String>,
    /// How many members support a protocol.
    supporters: BTreeMap<String, usize>,
    /// None: not a consumer group, or one whose subscriptions cannot be read.
    subscribed: Option<BTreeSet<String>>,
    join_end: Option<(Instant, JoinEnd)>,
    sync_end: Option<Instant>,
    /// When the last one came since the initial delay was extended.
    newcomer: Option<Instant>,
    /// A static member under its new id, until the record that says so is replayed.
    staged: Option<(String, Member)>,
    last_rebalance: Option<Rebalance>,
    taken_over: Option<TakenOver>,
    /// Not later than the earliest deadline in here.
    wake: Option<Instant>,
}

pub(super) fn millis(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

impl Classic {
    pub(super) fn new(id: Arc<str>, wall: Timestamp) -> Self {
        Classic {
            id,
            state: ClassicState::Empty,
            previous: ClassicState::Empty,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            since: wall,
            members: BTreeMap::new(),
            pending: BTreeMap::new(),
            unsynced: BTreeSet::new(),
            statics: BTreeMap::new(),
            supporters: BTreeMap::new(),
            subscribed: None,
            join_end: None,
            sync_end: None,
            newcomer: None,
            staged: None,
            last_rebalance: None,
            taken_over: None,
            wake: None,
        }
    }

    pub(super) fn state(&self) -> ClassicState {
        self.state
    }

    pub(super) fn last_rebalance(&self) -> Option<&Rebalance> {
        self.last_rebalance.as_ref()
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        self.wake
    }

    /// Nobody is in it nor about to be.
    pub(super) fn is_idle(&self) -> bool {
        self.state == ClassicState::Empty && self.members.is_empty() && self.pending.is_empty()
    }

    /// It never had a generation, and nobody is about to make one.
    pub(super) fn is_unborn(&self) -> bool {
        self.is_idle() && self.generation == 0
    }

    /// A record of the group was written or read.
    pub(super) fn replay(&mut self, value: &GroupMetadataValue) {
        let mut known = std::mem::take(&mut self.members);
        if let Some((id, staged)) = self.staged.take() {
            known.entry(id).or_insert(staged);
        }
        self.statics.clear();
        self.supporters.clear();
        self.generation = value.generation;
        self.protocol_type = Some(value.protocol_type.clone()).filter(|name| !name.is_empty());
        self.protocol = value.protocol.clone();
        self.leader = value.leader.clone();
        self.since = Timestamp(value.current_state_timestamp);
        let protocol = value.protocol.as_deref().unwrap_or_default();
        for written in &value.members {
            let mut member = loaded(written, protocol);
            if let Some(known) = known.remove(&written.member_id) {
                member.keep(known, protocol);
            }
            self.insert(written.member_id.clone(), member);
        }
        self.unsynced.retain(|id| self.members.contains_key(id));
        self.previous = self.state;
        self.state = if self.members.is_empty() {
            ClassicState::Empty
        } else {
            ClassicState::Stable
        };
        self.join_end = None;
        self.subscribed = self.read_subscriptions();
    }

    /// The sessions of the members that were loaded begin now.
    pub(super) fn on_loaded(&mut self, at: Moment, members_max: usize) {
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for id in ids {
            self.renew(&id, at.now);
        }
        if self.members.len() > members_max {
            let reason = format!("{} members are more than may be", self.members.len());
            // All members have to join first, so this writes and answers nothing.
            let out = self.prepare_rebalance(&reason, at, 0);
            assert!(out.records.is_empty() && out.answers.is_empty());
        }
    }

    /// The group as a record, with the assignment that `assigned` has for a member.
    fn record(&self, assigned: impl Fn(&str, &Member) -> Bytes) -> GroupRecord {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let members = self.members.iter().map(|(id, member)| MemberMetadata {
            member_id: id.clone(),
            group_instance_id: member.instance_id.clone(),
            client_id: member.client.id.clone(),
            client_host: member.client.host.clone(),
            rebalance_timeout: member.rebalance_timeout_ms,
            session_timeout: member.session_timeout_ms,
            subscription: member.metadata(protocol),
            assignment: assigned(id, member),
        });
        let value = GroupMetadataValue {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation,
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            current_state_timestamp: self.since.0,
            members: members.collect(),
        };
        record::classic(&self.id, value)
    }

    fn insert(&mut self, id: String, member: Member) {
        if let Some(instance) = &member.instance_id {
            self.statics.insert(instance.clone(), id.clone());
        }
        for protocol in &member.protocols {
            *self.supporters.entry(protocol.name.clone()).or_default() += 1;
        }
        self.members.insert(id, member);
    }

    /// Takes a member out, without a look at what follows from it.
    fn take(&mut self, id: &str) -> Option<Member> {
        let member = self.members.remove(id)?;
        self.uncount(&member);
        if let Some(instance) = &member.instance_id {
            self.statics.remove(instance);
        }
        self.unsynced.remove(id);
        Some(member)
    }

    fn uncount(&mut self, member: &Member) {
        for protocol in &member.protocols {
            if let Some(count) = self.supporters.get_mut(&protocol.name) {
                *count -= 1;
                if *count == 0 {
                    self.supporters.remove(&protocol.name);
                }
            }
        }
    }

    fn is_leader(&self, id: &str) -> bool {
        self.leader.as_deref() == Some(id)
    }

    fn enter(&mut self, state: ClassicState, at: Moment) {
        self.previous = self.state;
        self.state = state;
        self.since = at.wall;
    }

    /// The session of a member begins anew.
    fn renew(&mut self, id: &str, now: Instant) {
        if let Some(member) = self.members.get_mut(id) {
            let deadline = now.plus(millis(member.session_timeout_ms.into()));
            member.deadline = Some(deadline);
            self.wake_by(deadline);
        }
    }

    fn wake_by(&mut self, deadline: Instant) {
        self.wake = Some(self.wake.map_or(deadline, |wake| wake.min(deadline)));
    }

    /// Member and instance belong together and to this group.
    fn check_member(&self, id: &str, instance_id: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance_id) = instance_id {
            match self.statics.get(instance_id) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(current) if current != id => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
            }
        }
        if self.members.contains_key(id) {
            Ok(())
        } else {
            Err(ErrorCode::UnknownMemberId)
        }
    }
}

/// A member as a record describes it.
fn loaded(written: &MemberMetadata, protocol: &str) -> Member {
    let rebalance_timeout_ms = match written.rebalance_timeout {
        // Version 0 does not have it.
        -1 => written.session_timeout,
        timeout_ms => timeout_ms,
    };
    Member {
        instance_id: written.group_instance_id.clone(),
        client: Client {
            id: written.client_id.clone(),
            host: written.client_host.clone(),
        },
        rebalance_timeout_ms,
        session_timeout_ms: written.session_timeout,
        protocols: vec![Protocol {
            name: protocol.to_owned(),
            metadata: detached(&written.subscription),
        }],
        assignment: detached(&written.assignment),
        waits_join: None,
        waits_sync: None,
        is_new: false,
        deadline: None,
    }
}

/// A copy: a slice would keep the frame or the batch that it was read from.
fn detached(bytes: &Bytes) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

fn join_refused(member_id: &str, code: ErrorCode) -> Result<Joined, JoinRefusal> {
    Err(JoinRefusal {
        code,
        member_id: member_id.to_owned(),
    })
}

pub(super) fn refuse_join(caller: Caller<ask::Join>, member_id: &str, code: ErrorCode) -> Out {
    Out::answer(caller, join_refused(member_id, code))
}

pub(super) fn refuse_sync(caller: Caller<ask::Sync>, code: ErrorCode) -> Out {
    Out::answer(caller, Err(code))
}
