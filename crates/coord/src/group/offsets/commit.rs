//! Commits become records; what is wrong with one partition does not touch the others.
//!
//! `Groups::commit` has decided before that the group takes commits of this member.

use model::Timestamp;
use wire::group::{GroupRecord, OffsetCommitKey, OffsetCommitValue};
use wire::{ErrorCode, Uuid};

use crate::Topics;
use crate::group::ask::{CommitPartition, CommitTopic, TopicKey};
use crate::group::{Settings, record};

/// The terms that all partitions of a commit have in common.
pub(in crate::group) struct Terms<'a> {
    pub(in crate::group) group_id: &'a str,
    /// The group refuses the whole commit.
    pub(in crate::group) refusal: Option<ErrorCode>,
    pub(in crate::group) now: Timestamp,
    pub(in crate::group) retention_ms: Option<i64>,
    pub(in crate::group) metadata_max: usize,
}

impl Terms<'_> {
    /// The records of the partitions that may be committed, and what became of each partition.
    pub(in crate::group) fn commit(
        &self,
        asked: Vec<CommitTopic>,
        topics: &dyn Topics,
    ) -> (Vec<GroupRecord>, Vec<Result<(), ErrorCode>>) {
        let count = asked.iter().map(|topic| topic.partitions.len()).sum();
        let mut records = Vec::with_capacity(if self.refusal.is_none() { count } else { 0 });
        let mut results = Vec::with_capacity(count);
        for CommitTopic { topic, partitions } in asked {
            let known = resolve(&topic, topics);
            for partition in partitions {
                let record = known.and_then(|known| self.record(known, partition));
                results.push(record.map(|record| records.push(record)));
            }
        }
        (records, results)
    }

    fn record(&self, topic: Known<'_>, asked: CommitPartition) -> Result<GroupRecord, ErrorCode> {
        if !(0..topic.partitions).contains(&asked.index.0) {
            return Err(ErrorCode::UnknownTopicOrPartition);
        }
        if let Some(code) = self.refusal {
            return Err(code);
        }
        if !fits(&asked.metadata, self.metadata_max) {
            return Err(ErrorCode::OffsetMetadataTooLarge);
        }
        let key = OffsetCommitKey {
            group: self.group_id.to_owned(),
            topic: topic.name.to_owned(),
            partition: asked.index.0,
        };
        let value = OffsetCommitValue {
            offset: asked.offset.0,
            leader_epoch: asked.leader_epoch.0,
            metadata: asked.metadata,
            commit_timestamp: self.now.0,
            expire_timestamp: self.expire_timestamp(),
            topic_id: topic.id,
        };
        Ok(record::offset(key, value))
    }

    fn expire_timestamp(&self) -> i64 {
        let expires = |retention_ms| self.now.0.saturating_add(retention_ms).max(0);
        self.retention_ms.map_or(-1, expires)
    }
}

/// True if a commit may say so much; counted as Kafka does.
fn fits(metadata: &str, metadata_max: usize) -> bool {
    metadata.encode_utf16().count() <= metadata_max
}

/// The partitions that a commit is about, with the id of their topic; not those that it will be refused for by themselves.
pub(in crate::group) fn acceptable<'a>(
    asked: &'a [CommitTopic],
    settings: &'a Settings,
    topics: &'a dyn Topics,
) -> impl Iterator<Item = (Uuid, i32)> + 'a {
    asked.iter().flat_map(move |asked| {
        let known = resolve(&asked.topic, topics).ok();
        asked.partitions.iter().filter_map(move |asked| {
            let known = known?;
            let is_there = (0..known.partitions).contains(&asked.index.0);
            (is_there && fits(&asked.metadata, settings.offset_metadata_max))
                .then_some((known.id, asked.index.0))
        })
    })
}

/// A topic that is there.
#[derive(Clone, Copy)]
pub(in crate::group) struct Known<'a> {
    pub(in crate::group) name: &'a str,
    pub(in crate::group) id: Uuid,
    /// Their number.
    pub(in crate::group) partitions: i32,
}

/// The topic that is meant. An id of zeroes is nobody's.
pub(in crate::group) fn resolve<'a>(
    key: &'a TopicKey,
    topics: &'a dyn Topics,
) -> Result<Known<'a>, ErrorCode> {
    let (name, unknown) = match key {
        TopicKey::Name(name) => (Some(name.as_str()), ErrorCode::UnknownTopicOrPartition),
        TopicKey::Id(id) => (topics.name(*id), ErrorCode::UnknownTopicId),
    };
    let name = name.ok_or(unknown)?;
    let (id, partitions) = topics.topic(name).ok_or(unknown)?;
    Ok(Known {
        name,
        id,
        partitions,
    })
}
