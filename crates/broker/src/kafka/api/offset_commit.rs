//! OffsetCommit: how far a group has read. Answered when that is durable.

use coord::group::{Answer, Ask};
use wire::messages::offset_commit_request::OffsetCommitRequestTopic;
use wire::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use wire::messages::{OffsetCommitRequest, OffsetCommitResponse};
use wire::{ApiKey, ErrorCode};

use super::group::unexpected;
use crate::event_loop::Outcome;
use crate::kafka::call::Call;

/// First version whose members may belong to a KIP-848 group.
const MEMBER_EPOCH_VERSION: i16 = 9;
/// First version that names topics by their ids; earlier ones know no errors of ids.
const IDS_VERSION: i16 = 10;

pub(crate) fn on_offset_commit(call: &mut Call<'_>, request: OffsetCommitRequest) -> Outcome {
    let (group_id, asked) = (request.group_id.clone(), request.topics.clone());
    let ask = Ask::Commit {
        request,
        knows_member_epochs: call.version() >= MEMBER_EPOCH_VERSION,
    };
    call.ask_group(&group_id, ask, move |call, told| {
        let response = match told {
            Ok(Answer::Commit(mut response)) => {
                if call.version() < IDS_VERSION {
                    (response.topics.iter_mut()).for_each(without_ids);
                }
                response
            }
            other => {
                let code = unexpected(other);
                OffsetCommitResponse {
                    topics: asked.iter().map(|topic| refuse(topic, code)).collect(),
                    ..Default::default()
                }
            }
        };
        call.reply(ApiKey::OffsetCommit, &response)
    })
}

/// A topic without a name was looked for by its id.
fn without_ids(topic: &mut OffsetCommitResponseTopic) {
    for partition in &mut topic.partitions {
        if partition.error_code == ErrorCode::UnknownTopicId.code() {
            partition.error_code = ErrorCode::UnknownTopicOrPartition.code();
        }
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
