//! What can be asked of the groups, free of protocol versions, and what they answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use wire::Uuid;
use wire::messages::consumer_group_describe_response::DescribedGroup as DescribedConsumerGroup;
use wire::messages::delete_groups_response::DeletableGroupResult;
use wire::messages::describe_groups_response::DescribedGroup;
use wire::messages::list_groups_response::ListedGroup;
use wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use wire::messages::offset_fetch_response::OffsetFetchResponseGroup;
use wire::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, HeartbeatRequest,
    HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse,
    OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest, OffsetDeleteResponse,
    SyncGroupRequest, SyncGroupResponse, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};

/// The client behind a request, as descriptions show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    pub id: String,
    pub host: String,
}

/// Names that pass, in any case; all do where there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter(BTreeSet<String>);

impl FromIterator<String> for Filter {
    fn from_iter<I: IntoIterator<Item = String>>(names: I) -> Self {
        let lower = |mut name: String| {
            name.make_ascii_lowercase();
            name
        };
        Filter(names.into_iter().map(lower).collect())
    }
}

impl Filter {
    pub(super) fn passes(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.contains(&name.to_ascii_lowercase())
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    Join {
        request: JoinGroupRequest,
        client: Client,
        /// A member without id is first given one and joins again with it (KIP-394, since version 4).
        needs_member_id: bool,
        /// The leader may be told to skip its assignment (KIP-814, since version 9).
        may_skip_assignment: bool,
        /// Unique, should the member need an id.
        fresh: Uuid,
    },
    Sync(SyncGroupRequest),
    Heartbeat(HeartbeatRequest),
    Leave {
        request: LeaveGroupRequest,
        /// One member leaves, which the request names itself, and the answer has its error on top (up to version 2).
        is_single: bool,
    },
    ConsumerHeartbeat {
        request: ConsumerGroupHeartbeatRequest,
        client: Client,
        /// The client makes its member id itself (since version 1).
        brings_member_id: bool,
        /// Unique, should the member need an id.
        fresh: Uuid,
    },
    Commit {
        request: OffsetCommitRequest,
        /// Members of consumer groups may commit with a member epoch (since version 9).
        knows_member_epochs: bool,
    },
    TxnCommit(TxnOffsetCommitRequest),
    FetchOffsets {
        group: OffsetFetchRequestGroup,
        /// Partitions with offsets of an open transaction answer UNSTABLE_OFFSET_COMMIT (KIP-447).
        require_stable: bool,
    },
    DeleteOffsets(OffsetDeleteRequest),
    /// DescribeGroups; groups of the other protocol are not found (`is_strict`, since version 6) or dead (before).
    Describe {
        group_id: String,
        is_strict: bool,
    },
    ConsumerDescribe {
        group_id: String,
    },
    /// ListGroups. Shared: a client may send as many names as it likes, and every coordinator is asked.
    List {
        states: Arc<Filter>,
        types: Arc<Filter>,
    },
    Delete {
        group_id: String,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Join(JoinGroupResponse),
    Sync(SyncGroupResponse),
    Heartbeat(HeartbeatResponse),
    Leave(LeaveGroupResponse),
    ConsumerHeartbeat(ConsumerGroupHeartbeatResponse),
    Commit(OffsetCommitResponse),
    TxnCommit(TxnOffsetCommitResponse),
    FetchOffsets(OffsetFetchResponseGroup),
    DeleteOffsets(OffsetDeleteResponse),
    Describe(DescribedGroup),
    ConsumerDescribe(DescribedConsumerGroup),
    List(Vec<ListedGroup>),
    Delete(DeletableGroupResult),
}
