//! Heartbeat: a member of a classic group is alive, and learns whether a rebalance has begun.

use coord::group::ask::Heartbeat;
use coord::group::{Answer, Ask};
use wire::messages::{HeartbeatRequest, HeartbeatResponse};
use wire::{ApiKey, ErrorCode};

use super::group::{code, unexpected};
use crate::event_loop::Outcome;
use crate::kafka::call::Call;

pub(crate) fn on_heartbeat(call: &mut Call<'_>, request: HeartbeatRequest) -> Outcome {
    let group_id = request.group_id.clone();
    call.ask_group(&group_id, ask(request), |call, told| {
        call.reply(ApiKey::Heartbeat, &response(told))
    })
}

fn ask(request: HeartbeatRequest) -> Ask {
    Ask::Heartbeat(Heartbeat {
        group_id: request.group_id,
        member_id: request.member_id,
        instance_id: request.group_instance_id,
        generation: request.generation_id,
    })
}

fn response(told: Result<Answer, ErrorCode>) -> HeartbeatResponse {
    let result = match told {
        Ok(Answer::Heartbeat(result)) => result,
        // The member may well be alive: it is looked for once its group is loaded.
        Err(ErrorCode::CoordinatorLoadInProgress) => Ok(()),
        other => Err(unexpected(other)),
    };
    HeartbeatResponse {
        error_code: code(result),
        ..Default::default()
    }
}
