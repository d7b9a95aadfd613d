//! A member of a consumer group, as the records know it.

use std::collections::BTreeSet;

use wire::group::consumer_group_member_metadata_value::ClassicMemberMetadata;
use wire::group::{
    ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue, GroupRecord,
};

use super::partitions::{self, Owned};

/// Epoch with which a member joins, or joins again.
pub(super) const JOIN: i32 = 0;
/// Epoch with which a member leaves for good.
pub(super) const LEAVE: i32 = -1;
/// Epoch with which a static member leaves, to come back soon; its epoch while it is away.
pub(super) const LEAVE_STATIC: i32 = -2;

/// How far a member is on its way to the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Progress {
    /// It has what it was to have in its epoch.
    #[default]
    Stable,
    /// It has to give up partitions first.
    Unrevoked,
    /// It waits for partitions that others have still to give up.
    Unreleased,
    /// A state of a later version: the member starts over.
    Unknown,
}

impl Progress {
    fn from_record(state: i8) -> Self {
        match state {
            0 => Progress::Stable,
            1 => Progress::Unrevoked,
            2 => Progress::Unreleased,
            _ => Progress::Unknown,
        }
    }

    fn to_record(self) -> i8 {
        match self {
            Progress::Stable => 0,
            Progress::Unrevoked => 1,
            Progress::Unreleased => 2,
            Progress::Unknown => 127,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member {
    pub(super) id: String,
    pub(super) instance_id: Option<String>,
    pub(super) rack_id: Option<String>,
    pub(super) client_id: String,
    pub(super) client_host: String,
    pub(super) topic_names: BTreeSet<String>,
    /// Empty where the member subscribes by names alone.
    pub(super) pattern: String,
    pub(super) rebalance_timeout_ms: i32,
    pub(super) assignor: Option<String>,
    /// Of a member that speaks the classic protocol.
    pub(super) classic: Option<ClassicMemberMetadata>,

    pub(super) epoch: i32,
    pub(super) epoch_before: i32,
    pub(super) progress: Progress,
    pub(super) assigned: Owned,
    pub(super) revoking: Owned,
}

impl Member {
    pub(super) fn new(id: impl Into<String>) -> Self {
        Member {
            id: id.into(),
            instance_id: None,
            rack_id: None,
            client_id: String::new(),
            client_host: String::new(),
            topic_names: BTreeSet::new(),
            pattern: String::new(),
            rebalance_timeout_ms: -1,
            assignor: None,
            classic: None,
            epoch: JOIN,
            epoch_before: JOIN,
            progress: Progress::Stable,
            assigned: Owned::new(),
            revoking: Owned::new(),
        }
    }

    /// Of the classic protocol, in order of the names. None of one that does not speak it.
    pub(super) fn protocol_names(&self) -> BTreeSet<&str> {
        let classic = self.classic.iter();
        classic
            .flat_map(|classic| &classic.supported_protocols)
            .map(|protocol| protocol.name.as_str())
            .collect()
    }

    pub(super) fn is_reconciled_to(&self, epoch: i32) -> bool {
        self.progress == Progress::Stable && self.epoch == epoch
    }

    pub(super) fn move_to_epoch(&mut self, epoch: i32) {
        self.epoch_before = self.epoch;
        self.epoch = epoch;
    }

    pub(super) fn set_metadata(&mut self, value: &ConsumerGroupMemberMetadataValue) {
        self.instance_id.clone_from(&value.instance_id);
        self.rack_id.clone_from(&value.rack_id);
        self.client_id.clone_from(&value.client_id);
        self.client_host.clone_from(&value.client_host);
        self.topic_names = value.subscribed_topic_names.iter().cloned().collect();
        self.pattern = value.subscribed_topic_regex.clone().unwrap_or_default();
        self.rebalance_timeout_ms = value.rebalance_timeout_ms;
        self.assignor.clone_from(&value.server_assignor);
        self.classic.clone_from(&value.classic_member_metadata);
    }

    pub(super) fn set_current(&mut self, value: &ConsumerGroupCurrentMemberAssignmentValue) {
        self.epoch = value.member_epoch;
        self.epoch_before = value.previous_member_epoch;
        self.progress = Progress::from_record(value.state);
        self.assigned = partitions::owned_from(&value.assigned_partitions, value.member_epoch);
        self.revoking =
            partitions::owned_from(&value.partitions_pending_revocation, value.member_epoch);
    }

    pub(super) fn clear_current(&mut self) {
        self.epoch = LEAVE;
        self.epoch_before = LEAVE;
        self.progress = Progress::Stable;
        self.assigned.clear();
        self.revoking.clear();
    }

    pub(super) fn metadata_record(&self, group: &str) -> GroupRecord {
        GroupRecord::ConsumerGroupMemberMetadata(
            ConsumerGroupMemberMetadataKey {
                group_id: group.to_owned(),
                member_id: self.id.clone(),
            },
            Some(ConsumerGroupMemberMetadataValue {
                instance_id: self.instance_id.clone(),
                rack_id: self.rack_id.clone(),
                client_id: self.client_id.clone(),
                client_host: self.client_host.clone(),
                subscribed_topic_names: self.topic_names.iter().cloned().collect(),
                subscribed_topic_regex: Some(self.pattern.clone()).filter(|it| !it.is_empty()),
                rebalance_timeout_ms: self.rebalance_timeout_ms,
                server_assignor: self.assignor.clone(),
                classic_member_metadata: self.classic.clone(),
            }),
        )
    }

    pub(super) fn current_record(&self, group: &str) -> GroupRecord {
        GroupRecord::ConsumerGroupCurrentMemberAssignment(
            ConsumerGroupCurrentMemberAssignmentKey {
                group_id: group.to_owned(),
                member_id: self.id.clone(),
            },
            Some(ConsumerGroupCurrentMemberAssignmentValue {
                member_epoch: self.epoch,
                previous_member_epoch: self.epoch_before,
                state: self.progress.to_record(),
                assigned_partitions: partitions::owned_to(&self.assigned),
                partitions_pending_revocation: partitions::owned_to(&self.revoking),
            }),
        )
    }
}
