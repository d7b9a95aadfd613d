//! Records of `__consumer_offsets` as Kafka writes them: which version, and what a removal looks like.

use wire::group::{
    GroupMetadataKey, GroupMetadataValue, GroupRecord, OffsetCommitKey, OffsetCommitValue,
};

/// Records of one step that nobody asked for stay below this, so that their batch is within `message.max.bytes` of any
/// sensible setting; what is left over follows with the next tick. A key can have 32 KiB, so the true bound is 288 KiB.
pub(super) const STEP_BYTES_MAX: usize = 256 << 10;

/// The version in which the value of `record` is written: the one of Kafka 4.3, so that it can take over the log.
#[must_use]
pub fn record_version(record: &GroupRecord) -> i16 {
    match record {
        GroupRecord::GroupMetadata(..) => 3,
        // Only version 1 has the time at which the offset expires by itself.
        GroupRecord::OffsetCommit(_, Some(value)) if value.expire_timestamp >= 0 => 1,
        GroupRecord::OffsetCommit(..) => 4,
        _ => 0,
    }
}

pub(super) fn offset(key: OffsetCommitKey, value: OffsetCommitValue) -> GroupRecord {
    GroupRecord::OffsetCommit(key, Some(value))
}

pub(super) fn offset_gone(group: &str, topic: &str, partition: i32) -> GroupRecord {
    let key = OffsetCommitKey {
        group: group.to_owned(),
        topic: topic.to_owned(),
        partition,
    };
    GroupRecord::OffsetCommit(key, None)
}

pub(super) fn classic(group: &str, value: GroupMetadataValue) -> GroupRecord {
    let key = GroupMetadataKey {
        group: group.to_owned(),
    };
    GroupRecord::GroupMetadata(key, Some(value))
}

pub(super) fn classic_gone(group: &str) -> GroupRecord {
    let key = GroupMetadataKey {
        group: group.to_owned(),
    };
    GroupRecord::GroupMetadata(key, None)
}

/// About how many bytes of a batch a removal needs.
pub(super) fn gone_size(group: &str, topic: &str) -> usize {
    32 + group.len() + topic.len()
}

/// About how many bytes of a batch a removal of an offset needs; other records count as none.
pub(super) fn size(record: &GroupRecord) -> usize {
    match record {
        GroupRecord::OffsetCommit(key, None) => gone_size(&key.group, &key.topic),
        _ => 0,
    }
}
