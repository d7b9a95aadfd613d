//! Records of `__consumer_offsets` as Kafka writes them: which version, and what a removal looks like.

use wire::Uuid;
use wire::group::{
    GroupMetadataKey, GroupMetadataValue, GroupRecord, LegacyOffsetCommitKey,
    LegacyOffsetCommitValue, OffsetCommitKey, OffsetCommitValue,
};

/// Records of one step that nobody asked for stay below this, so that other work gets its turn; what is left over follows with
/// the next tick.
const STEP_BYTES_MAX: usize = 256 << 10;

/// Bytes of a record in a batch besides key and value, at most.
const RECORD_BYTES: usize = 40;

/// Bytes of a step that can be divided where a batch may have `batch_bytes_max`: batches have a header, and may grow a little
/// when they are compressed.
pub(super) fn step_bytes_max(batch_bytes_max: usize) -> usize {
    STEP_BYTES_MAX.min(batch_bytes_max / 2)
}

/// The version in which the value of `record` is written: the one of Kafka 4.4, so that it can take over the log.
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

/// An offset under a key of the first Kafka that had them in its log.
pub(super) fn as_offset(
    key: &LegacyOffsetCommitKey,
    value: Option<&LegacyOffsetCommitValue>,
) -> (OffsetCommitKey, Option<OffsetCommitValue>) {
    let key = OffsetCommitKey {
        group: key.group.clone(),
        topic: key.topic.clone(),
        partition: key.partition,
    };
    let value = value.map(|value| OffsetCommitValue {
        offset: value.offset,
        leader_epoch: -1,
        metadata: value.metadata.clone(),
        commit_timestamp: value.commit_timestamp,
        expire_timestamp: -1,
        topic_id: Uuid::ZERO,
    });
    (key, value)
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

/// How many bytes of a batch the records need, at most. One that cannot be encoded will not be written.
pub(super) fn size(records: &[GroupRecord]) -> usize {
    let size = |record: &GroupRecord| {
        let (key, value) = record.encode(record_version(record)).unwrap_or_default();
        RECORD_BYTES + key.len() + value.map_or(0, |value| value.len())
    };
    records.iter().map(size).sum()
}
