//! Commits become records; what is wrong with one partition does not touch the others.
//!
//! Whether the group takes commits of this member is decided before (`Groups::commit`).

use model::Timestamp;
use wire::group::{GroupRecord, OffsetCommitKey, OffsetCommitValue};
use wire::messages::offset_commit_request::OffsetCommitRequestTopic;
use wire::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use wire::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use wire::messages::{
    OffsetCommitRequest, OffsetCommitResponse, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};
use wire::{ErrorCode, Uuid};

use super::Offsets;
use crate::Topics;
use crate::group::{Settings, record};

/// What a client says about one partition.
struct Said<'a> {
    partition: i32,
    offset: i64,
    leader_epoch: i32,
    metadata: Option<&'a str>,
}

/// What all partitions of a commit have in common.
struct Commit<'a> {
    group_id: &'a str,
    /// The group refuses the whole commit.
    refusal: Option<ErrorCode>,
    now: i64,
    expire_timestamp: i64,
    metadata_max: usize,
    records: Vec<GroupRecord>,
}

impl Commit<'_> {
    fn partition(&mut self, topic: Result<Known<'_>, ErrorCode>, said: Said<'_>) -> i16 {
        let (topic, topic_id, _) = match (topic, self.refusal) {
            (Err(code), _) => return code.code(),
            (Ok((.., count)), _) if !(0..count).contains(&said.partition) => {
                return ErrorCode::UnknownTopicOrPartition.code();
            }
            (Ok(_), Some(code)) => return code.code(),
            (Ok(topic), None) => topic,
        };
        let metadata = said.metadata.unwrap_or_default();
        if !fits(metadata, self.metadata_max) {
            return ErrorCode::OffsetMetadataTooLarge.code();
        }
        let key = OffsetCommitKey {
            group: self.group_id.to_owned(),
            topic: topic.to_owned(),
            partition: said.partition,
        };
        let value = OffsetCommitValue {
            offset: said.offset,
            leader_epoch: said.leader_epoch,
            metadata: metadata.to_owned(),
            commit_timestamp: self.now,
            expire_timestamp: self.expire_timestamp,
            topic_id,
        };
        self.records.push(record::offset(key, value));
        ErrorCode::None.code()
    }
}

/// Whether a commit may say so much; counted as Kafka does.
fn fits(metadata: &str, metadata_max: usize) -> bool {
    metadata.encode_utf16().count() <= metadata_max
}

/// The partitions that a commit is about, with the id of their topic; not those that it will be refused for by themselves.
pub(in crate::group) fn acceptable<'a>(
    request: &'a OffsetCommitRequest,
    settings: &'a Settings,
    topics: &'a dyn Topics,
) -> impl Iterator<Item = (Uuid, i32)> + 'a {
    request.topics.iter().flat_map(move |topic| {
        let known = resolve(&topic.name, topic.topic_id, topics).ok();
        let said = topic.partitions.iter().map(|said| {
            let metadata = said.committed_metadata.as_deref();
            (said.partition_index, metadata.unwrap_or_default())
        });
        of_topic(known, said, settings)
    })
}

/// The same in a transaction.
pub(in crate::group) fn acceptable_of_txn<'a>(
    request: &'a TxnOffsetCommitRequest,
    settings: &'a Settings,
    topics: &'a dyn Topics,
) -> impl Iterator<Item = (Uuid, i32)> + 'a {
    request.topics.iter().flat_map(move |topic| {
        let known = resolve(&topic.name, Uuid::ZERO, topics).ok();
        let said = topic.partitions.iter().map(|said| {
            let metadata = said.committed_metadata.as_deref();
            (said.partition_index, metadata.unwrap_or_default())
        });
        of_topic(known, said, settings)
    })
}

fn of_topic<'a>(
    known: Option<Known<'a>>,
    said: impl Iterator<Item = (i32, &'a str)> + 'a,
    settings: &'a Settings,
) -> impl Iterator<Item = (Uuid, i32)> + 'a {
    said.filter_map(move |(partition, metadata)| {
        let (_, id, count) = known?;
        let is_there = (0..count).contains(&partition);
        (is_there && fits(metadata, settings.offset_metadata_max)).then_some((id, partition))
    })
}

/// Name and id of a topic, and how many partitions it has.
type Known<'a> = (&'a str, Uuid, i32);

/// A topic that was given by its name, or by its id where it has none. An id of zeroes is nobody's.
pub(in crate::group) fn resolve<'a>(
    name: &'a str,
    id: Uuid,
    topics: &'a dyn Topics,
) -> Result<Known<'a>, ErrorCode> {
    if name.is_empty() {
        let name = topics.name(id).ok_or(ErrorCode::UnknownTopicId)?;
        let (_, count) = topics.topic(name).ok_or(ErrorCode::UnknownTopicId)?;
        return Ok((name, id, count));
    }
    let (id, count) = topics
        .topic(name)
        .ok_or(ErrorCode::UnknownTopicOrPartition)?;
    Ok((name, id, count))
}

impl Offsets {
    pub(in crate::group) fn commit(
        request: &OffsetCommitRequest,
        refusal: Option<ErrorCode>,
        wall: Timestamp,
        settings: &Settings,
        topics: &dyn Topics,
    ) -> (Vec<GroupRecord>, OffsetCommitResponse) {
        let mut commit = Commit {
            group_id: &request.group_id,
            refusal,
            now: wall.0,
            expire_timestamp: match request.retention_time_ms {
                -1 => -1,
                retention_ms => wall.0.saturating_add(retention_ms).max(0),
            },
            metadata_max: settings.offset_metadata_max,
            records: Vec::new(),
        };
        let answer = |topic: &OffsetCommitRequestTopic| {
            let resolved = resolve(&topic.name, topic.topic_id, topics);
            let partitions = topic.partitions.iter().map(|partition| {
                let said = Said {
                    partition: partition.partition_index,
                    offset: partition.committed_offset,
                    leader_epoch: partition.committed_leader_epoch,
                    metadata: partition.committed_metadata.as_deref(),
                };
                OffsetCommitResponsePartition {
                    partition_index: partition.partition_index,
                    error_code: commit.partition(resolved, said),
                }
            });
            OffsetCommitResponseTopic {
                name: topic.name.clone(),
                topic_id: topic.topic_id,
                partitions: partitions.collect(),
            }
        };
        let response = OffsetCommitResponse {
            topics: request.topics.iter().map(answer).collect(),
            ..OffsetCommitResponse::default()
        };
        (commit.records, response)
    }

    pub(in crate::group) fn txn_commit(
        request: &TxnOffsetCommitRequest,
        refusal: Option<ErrorCode>,
        wall: Timestamp,
        settings: &Settings,
        topics: &dyn Topics,
    ) -> (Vec<GroupRecord>, TxnOffsetCommitResponse) {
        let mut commit = Commit {
            group_id: &request.group_id,
            refusal,
            now: wall.0,
            expire_timestamp: -1,
            metadata_max: settings.offset_metadata_max,
            records: Vec::new(),
        };
        let mut answered = Vec::with_capacity(request.topics.len());
        for topic in &request.topics {
            let resolved = resolve(&topic.name, Uuid::ZERO, topics);
            let partitions = topic.partitions.iter().map(|partition| {
                let said = Said {
                    partition: partition.partition_index,
                    offset: partition.committed_offset,
                    leader_epoch: partition.committed_leader_epoch,
                    metadata: partition.committed_metadata.as_deref(),
                };
                TxnOffsetCommitResponsePartition {
                    partition_index: partition.partition_index,
                    error_code: commit.partition(resolved, said),
                }
            });
            answered.push(TxnOffsetCommitResponseTopic {
                name: topic.name.clone(),
                partitions: partitions.collect(),
            });
        }
        let response = TxnOffsetCommitResponse {
            topics: answered,
            ..TxnOffsetCommitResponse::default()
        };
        (commit.records, response)
    }
}
