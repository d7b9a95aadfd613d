//! Heartbeat: a member of a classic group is alive, and learns whether a rebalance has begun.

use coord::group::{Answer, Ask};
use wire::messages::{HeartbeatRequest, HeartbeatResponse};
use wire::{ApiKey, ErrorCode};

use super::group::unexpected;
use crate::event_loop::Outcome;
use crate::kafka::call::Call;

pub(crate) fn on_heartbeat(call: &mut Call<'_>, request: HeartbeatRequest) -> Outcome {
    let group_id = request.group_id.clone();
    call.ask_group(&group_id, Ask::Heartbeat(request), |call, told| {
        let response = match told {
            Ok(Answer::Heartbeat(response)) => response,
            // The member may well be alive: it is looked for once its group is loaded.
            Err(ErrorCode::CoordinatorLoadInProgress) => HeartbeatResponse::default(),
            other => HeartbeatResponse {
                error_code: unexpected(other).code(),
                ..Default::default()
            },
        };
        call.reply(ApiKey::Heartbeat, &response)
    })
}
