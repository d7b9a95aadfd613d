//! Heartbeat: a member of a classic group is alive, and learns whether a rebalance has begun.

use coord::group::ask::Heartbeat;
use wire::ApiKey;
use wire::messages::{HeartbeatRequest, HeartbeatResponse};

use super::group::code;
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::groups;

pub(crate) fn on_heartbeat(call: &mut Call<'_>, request: HeartbeatRequest) -> Outcome {
    let beat = Heartbeat {
        group_id: request.group_id,
        member_id: request.member_id,
        instance_id: request.group_instance_id,
        generation: request.generation_id,
    };
    call.carry_out(groups::heartbeat, beat, |call, result| {
        let response = HeartbeatResponse {
            error_code: code(result),
            ..Default::default()
        };
        call.reply(ApiKey::Heartbeat, &response)
    })
}
