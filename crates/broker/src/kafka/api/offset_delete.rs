//! OffsetDelete: committed offsets of partitions that nobody in the group reads (KIP-496).

use coord::group::{Answer, Ask};
use wire::ApiKey;
use wire::messages::{OffsetDeleteRequest, OffsetDeleteResponse};

use super::group::unexpected;
use crate::shard::{Address, Outcome, Shard};

impl Shard {
    pub(crate) fn on_offset_delete(
        &mut self,
        address: &Address,
        request: OffsetDeleteRequest,
    ) -> Outcome {
        let group_id = request.group_id.clone();
        let ask = Ask::DeleteOffsets(request);
        self.ask_group(address, &group_id, ask, |shard, address, told| {
            let response = match told {
                Ok(Answer::DeleteOffsets(response)) => response,
                other => OffsetDeleteResponse {
                    error_code: unexpected(other).code(),
                    ..Default::default()
                },
            };
            shard.reply(address, ApiKey::OffsetDelete, &response)
        })
    }
}
