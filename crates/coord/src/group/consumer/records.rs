//! Records of a consumer group that are not a member's own, and every tombstone.

use std::collections::BTreeSet;

use model::Timestamp;
use wire::group::{
    ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey, ConsumerGroupMetadataValue, ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue,
    GroupRecord,
};

use super::partitions::{self, Target};

/// The topics that a pattern stood for, of the version and time of the topics they were taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) topics: BTreeSet<String>,
    pub(super) version: i64,
    pub(super) at: Timestamp,
}

pub(super) fn epoch(group: &str, epoch: i32, metadata_hash: i64) -> GroupRecord {
    GroupRecord::ConsumerGroupMetadata(
        ConsumerGroupMetadataKey {
            group_id: group.to_owned(),
        },
        Some(ConsumerGroupMetadataValue {
            epoch,
            metadata_hash,
        }),
    )
}

pub(super) fn target_epoch(group: &str, epoch: i32, at: Timestamp) -> GroupRecord {
    GroupRecord::ConsumerGroupTargetAssignmentMetadata(
        ConsumerGroupTargetAssignmentMetadataKey {
            group_id: group.to_owned(),
        },
        Some(ConsumerGroupTargetAssignmentMetadataValue {
            assignment_epoch: epoch,
            assignment_timestamp: at.0,
        }),
    )
}

pub(super) fn target(group: &str, member: &str, target: &Target) -> GroupRecord {
    GroupRecord::ConsumerGroupTargetAssignmentMember(
        ConsumerGroupTargetAssignmentMemberKey {
            group_id: group.to_owned(),
            member_id: member.to_owned(),
        },
        Some(ConsumerGroupTargetAssignmentMemberValue {
            topic_partitions: partitions::target_to(target),
        }),
    )
}

pub(super) fn pattern(group: &str, pattern: &str, resolved: Option<&Resolved>) -> GroupRecord {
    GroupRecord::ConsumerGroupRegularExpression(
        ConsumerGroupRegularExpressionKey {
            group_id: group.to_owned(),
            regular_expression: pattern.to_owned(),
        },
        resolved.map(|resolved| ConsumerGroupRegularExpressionValue {
            topics: resolved.topics.iter().cloned().collect(),
            version: resolved.version,
            timestamp: resolved.at.0,
        }),
    )
}

/// A member is gone. What it has is freed first, the member itself goes last.
pub(super) fn member_tombstones(group: &str, member: &str) -> [GroupRecord; 3] {
    [
        GroupRecord::ConsumerGroupCurrentMemberAssignment(
            ConsumerGroupCurrentMemberAssignmentKey {
                group_id: group.to_owned(),
                member_id: member.to_owned(),
            },
            None,
        ),
        GroupRecord::ConsumerGroupTargetAssignmentMember(
            ConsumerGroupTargetAssignmentMemberKey {
                group_id: group.to_owned(),
                member_id: member.to_owned(),
            },
            None,
        ),
        GroupRecord::ConsumerGroupMemberMetadata(
            ConsumerGroupMemberMetadataKey {
                group_id: group.to_owned(),
                member_id: member.to_owned(),
            },
            None,
        ),
    ]
}

/// Kafka before 4.1 kept what it knew of topics in a record; the hash in the group's record took its place.
pub(super) fn partition_metadata_tombstone(group: &str) -> GroupRecord {
    GroupRecord::ConsumerGroupPartitionMetadata(
        ConsumerGroupPartitionMetadataKey {
            group_id: group.to_owned(),
        },
        None,
    )
}

pub(super) fn group_tombstones(group: &str) -> [GroupRecord; 2] {
    [
        GroupRecord::ConsumerGroupTargetAssignmentMetadata(
            ConsumerGroupTargetAssignmentMetadataKey {
                group_id: group.to_owned(),
            },
            None,
        ),
        GroupRecord::ConsumerGroupMetadata(
            ConsumerGroupMetadataKey {
                group_id: group.to_owned(),
            },
            None,
        ),
    ]
}
