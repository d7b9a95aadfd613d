//! OffsetDelete: committed offsets of partitions that nobody in the group reads (KIP-496).

use coord::group::ask::{DeleteOffsets, DeleteTopic};
use model::PartitionIndex;
use wire::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use wire::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use wire::messages::{OffsetDeleteRequest, OffsetDeleteResponse};
use wire::{ApiKey, ErrorCode};

use super::group::code;
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::offsets::{self, Results};

pub(crate) fn on_offset_delete(call: &mut Call<'_>, request: OffsetDeleteRequest) -> Outcome {
    let unanswered = request.topics.iter().map(unanswered).collect();
    call.carry_out(offsets::delete, delete(request), |call, results| {
        let response = response(results, unanswered);
        call.reply(ApiKey::OffsetDelete, &response)
    })
}

/// The answer for a topic, without results.
fn unanswered(topic: &OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic {
    let partition = |asked: &OffsetDeleteRequestPartition| OffsetDeleteResponsePartition {
        partition_index: asked.partition_index,
        error_code: 0,
    };
    OffsetDeleteResponseTopic {
        name: topic.name.clone(),
        partitions: topic.partitions.iter().map(partition).collect(),
    }
}

fn delete(request: OffsetDeleteRequest) -> DeleteOffsets {
    let index = |asked: OffsetDeleteRequestPartition| PartitionIndex(asked.partition_index);
    let topic = |topic: OffsetDeleteRequestTopic| DeleteTopic {
        name: topic.name,
        partitions: topic.partitions.into_iter().map(index).collect(),
    };
    DeleteOffsets {
        group_id: request.group_id,
        topics: request.topics.into_iter().map(topic).collect(),
    }
}

fn is_denied(partition: &OffsetDeleteResponsePartition) -> bool {
    partition.error_code == ErrorCode::TopicAuthorizationFailed.code()
}

fn response(
    results: Result<Results, ErrorCode>,
    mut topics: Vec<OffsetDeleteResponseTopic>,
) -> OffsetDeleteResponse {
    match results {
        Ok(results) => {
            let partitions = topics.iter_mut().flat_map(|topic| &mut topic.partitions);
            for (partition, result) in partitions.zip(results) {
                partition.error_code = code(result);
            }
            // Topics that the asker may not read come first.
            topics.sort_by_key(|topic| !topic.partitions.iter().any(is_denied));
            OffsetDeleteResponse {
                topics,
                ..Default::default()
            }
        }
        Err(code) => OffsetDeleteResponse {
            error_code: code.code(),
            ..Default::default()
        },
    }
}
