//! The classic protocol: members join, fetch their assignment, stay, and leave.

use bytes::Bytes;
use wire::{ErrorCode, Uuid};

use super::Client;

/// One way in which the members could divide the work, and what a member says about itself in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protocol {
    pub name: String,
    pub metadata: Bytes,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Join {
    pub group_id: String,
    /// Empty for a newcomer.
    pub member_id: String,
    pub instance_id: Option<String>,
    pub client: Client,
    pub session_timeout_ms: i32,
    /// The session timeout where it is absent.
    pub rebalance_timeout_ms: Option<i32>,
    pub protocol_type: String,
    /// In order of preference.
    pub protocols: Vec<Protocol>,
    pub reason: Option<String>,
    /// A member without id is first given one and joins again with it (KIP-394).
    pub needs_member_id: bool,
    /// The leader may be told to skip its assignment (KIP-814).
    pub may_skip_assignment: bool,
    /// Unique, should the member need an id.
    pub fresh: Uuid,
}

impl Join {
    pub(in crate::group) fn rebalance_timeout_ms(&self) -> i32 {
        self.rebalance_timeout_ms.unwrap_or(self.session_timeout_ms)
    }
}

/// A member of a new generation. Its group has no leader where it is a guest in a consumer group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Joined {
    pub generation: i32,
    pub member_id: String,
    pub leader: Option<String>,
    pub protocol_type: Option<String>,
    pub protocol: Option<String>,
    /// All members, for the leader alone.
    pub members: Vec<JoinedMember>,
    pub skip_assignment: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct JoinedMember {
    pub member_id: String,
    pub instance_id: Option<String>,
    pub metadata: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinRefusal {
    pub code: ErrorCode,
    /// The id to join with, where one is required; else that of the ask, or empty where it means nothing any more.
    pub member_id: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sync {
    pub group_id: String,
    pub member_id: String,
    pub instance_id: Option<String>,
    pub generation: i32,
    /// Absent where the client does not say.
    pub protocol_type: Option<String>,
    pub protocol: Option<String>,
    /// From the leader: a part for each member.
    pub assignments: Vec<MemberAssignment>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MemberAssignment {
    pub member_id: String,
    pub assignment: Bytes,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Synced {
    pub protocol_type: Option<String>,
    pub protocol: Option<String>,
    pub assignment: Bytes,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heartbeat {
    pub group_id: String,
    pub member_id: String,
    pub instance_id: Option<String>,
    pub generation: i32,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Leave {
    pub group_id: String,
    pub members: Vec<Leaver>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Leaver {
    /// Empty where a tool names a static member by its instance alone.
    pub member_id: String,
    pub instance_id: Option<String>,
    pub reason: Option<String>,
}
