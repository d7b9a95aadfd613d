//! OffsetDelete: committed offsets of partitions that nobody in the group reads (KIP-496).

use coord::group::{Answer, Ask};
use wire::messages::offset_delete_request::OffsetDeleteRequestTopic;
use wire::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use wire::messages::{OffsetDeleteRequest, OffsetDeleteResponse};
use wire::{ApiKey, ErrorCode};

use super::group::unexpected;
use crate::shard::{Address, Outcome, Shard};

impl Shard {
    pub(crate) fn on_offset_delete(
        &mut self,
        address: &Address,
        mut request: OffsetDeleteRequest,
    ) -> Outcome {
        let topics = self.topics();
        let asked = std::mem::take(&mut request.topics);
        let (known, unknown): (Vec<_>, Vec<_>) = asked
            .into_iter()
            .partition(|topic| topics.named(&topic.name).is_some());
        request.topics = known;
        let refused: Vec<OffsetDeleteResponseTopic> = unknown.iter().map(refuse).collect();
        let group_id = request.group_id.clone();
        self.ask_valid_group(
            address,
            &group_id,
            Ask::DeleteOffsets(request),
            |shard, address, told| {
                let response = match told {
                    Ok(Answer::DeleteOffsets(mut response)) => {
                        if response.error_code == 0 {
                            response.topics.extend(refused);
                        }
                        response
                    }
                    other => OffsetDeleteResponse {
                        error_code: unexpected(other).code(),
                        ..Default::default()
                    },
                };
                shard.reply(address, ApiKey::OffsetDelete, &response)
            },
        )
    }
}

fn refuse(topic: &OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic {
    let partitions = topic
        .partitions
        .iter()
        .map(|partition| OffsetDeleteResponsePartition {
            partition_index: partition.partition_index,
            error_code: ErrorCode::UnknownTopicOrPartition.code(),
        })
        .collect();
    OffsetDeleteResponseTopic {
        name: topic.name.clone(),
        partitions,
    }
}
