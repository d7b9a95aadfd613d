//! OffsetCommit: how far a group has read. Answered when that is durable.

use coord::group::{Answer, Ask};
use wire::messages::offset_commit_request::OffsetCommitRequestTopic;
use wire::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use wire::messages::{OffsetCommitRequest, OffsetCommitResponse};
use wire::{ApiKey, ErrorCode, Uuid};

use super::group::unexpected;
use crate::shard::{Address, Outcome, Shard};

/// First version whose members may belong to a KIP-848 group.
const MEMBER_EPOCH_VERSION: i16 = 9;
/// First version in which topics are named by id.
const TOPIC_ID_VERSION: i16 = 10;

impl Shard {
    pub(crate) fn on_offset_commit(
        &mut self,
        address: &Address,
        mut request: OffsetCommitRequest,
    ) -> Outcome {
        let topics = self.topics();
        let by_id = address.version >= TOPIC_ID_VERSION;
        let mut refused = Vec::new();
        let mut known = Vec::with_capacity(request.topics.len());
        for mut topic in std::mem::take(&mut request.topics) {
            let found = match by_id {
                true => topics.with_id(topic.topic_id),
                false => topics.named(&topic.name),
            };
            match found {
                Some(found) => {
                    topic.name = found.name.as_ref().into();
                    topic.topic_id = found.id;
                    let is_there = |index: i32| found.partition(index).is_some();
                    let (there, absent): (Vec<_>, Vec<_>) = std::mem::take(&mut topic.partitions)
                        .into_iter()
                        .partition(|partition| is_there(partition.partition_index));
                    if !absent.is_empty() {
                        let absent = OffsetCommitRequestTopic {
                            partitions: absent,
                            ..topic.clone()
                        };
                        refused.push(refuse(&absent, ErrorCode::UnknownTopicOrPartition));
                    }
                    topic.partitions = there;
                    if !topic.partitions.is_empty() {
                        known.push(topic);
                    }
                }
                None if by_id => refused.push(refuse(&topic, ErrorCode::UnknownTopicId)),
                None => refused.push(refuse(&topic, ErrorCode::UnknownTopicOrPartition)),
            }
        }
        if known.is_empty() && !refused.is_empty() {
            let response = OffsetCommitResponse {
                topics: refused,
                ..Default::default()
            };
            return self.reply(address, ApiKey::OffsetCommit, &response);
        }
        let asked = known.clone();
        request.topics = known;
        let group_id = request.group_id.clone();
        let ask = Ask::Commit {
            request,
            knows_member_epochs: address.version >= MEMBER_EPOCH_VERSION,
        };
        self.ask_group(address, &group_id, ask, move |shard, address, told| {
            let mut response = match told {
                Ok(Answer::Commit(response)) => response,
                other => {
                    let code = unexpected(other);
                    OffsetCommitResponse {
                        topics: asked.iter().map(|topic| refuse(topic, code)).collect(),
                        ..Default::default()
                    }
                }
            };
            for topic in &mut response.topics {
                topic.topic_id = asked
                    .iter()
                    .find(|asked| asked.name == topic.name)
                    .map_or(Uuid::ZERO, |asked| asked.topic_id);
            }
            response.topics.extend(refused);
            shard.reply(address, ApiKey::OffsetCommit, &response)
        })
    }
}

fn refuse(topic: &OffsetCommitRequestTopic, code: ErrorCode) -> OffsetCommitResponseTopic {
    OffsetCommitResponseTopic {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partitions: topic
            .partitions
            .iter()
            .map(|partition| OffsetCommitResponsePartition {
                partition_index: partition.partition_index,
                error_code: code.code(),
            })
            .collect(),
    }
}
