//! OffsetDelete: committed offsets of partitions that nobody in the group reads (KIP-496).

use coord::group::{Answer, Ask};
use wire::ApiKey;
use wire::messages::{OffsetDeleteRequest, OffsetDeleteResponse};

use super::group::unexpected;
use crate::event_loop::Outcome;
use crate::kafka::call::Call;

pub(crate) fn on_offset_delete(call: &mut Call<'_>, request: OffsetDeleteRequest) -> Outcome {
    let group_id = request.group_id.clone();
    let ask = Ask::DeleteOffsets(request);
    call.ask_group(&group_id, ask, |call, told| {
        let response = match told {
            Ok(Answer::DeleteOffsets(response)) => response,
            other => OffsetDeleteResponse {
                error_code: unexpected(other).code(),
                ..Default::default()
            },
        };
        call.reply(ApiKey::OffsetDelete, &response)
    })
}
