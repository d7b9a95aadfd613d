//! OffsetCommit: how far a group has read. Answered when that is durable.

use coord::group::{Answer, Ask};
use wire::messages::offset_commit_request::OffsetCommitRequestTopic;
use wire::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use wire::messages::{OffsetCommitRequest, OffsetCommitResponse};
use wire::{ApiKey, ErrorCode};

use super::group::unexpected;
use crate::shard::{Address, Outcome, Shard};

/// First version whose members may belong to a KIP-848 group.
const MEMBER_EPOCH_VERSION: i16 = 9;

impl Shard {
    pub(crate) fn on_offset_commit(
        &mut self,
        address: &Address,
        request: OffsetCommitRequest,
    ) -> Outcome {
        let (group_id, asked) = (request.group_id.clone(), request.topics.clone());
        let ask = Ask::Commit {
            request,
            knows_member_epochs: address.version >= MEMBER_EPOCH_VERSION,
        };
        self.ask_group(address, &group_id, ask, move |shard, address, told| {
            let response = match told {
                Ok(Answer::Commit(response)) => response,
                other => {
                    let code = match other {
                        Err(ErrorCode::MessageTooLarge) => ErrorCode::InvalidCommitOffsetSize,
                        other => unexpected(other),
                    };
                    OffsetCommitResponse {
                        topics: asked.iter().map(|topic| refuse(topic, code)).collect(),
                        ..Default::default()
                    }
                }
            };
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
