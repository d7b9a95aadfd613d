//! LeaveGroup: members go, one by itself or several by an administrator's hand (KIP-345).

use coord::group::{Answer, Ask};
use wire::ApiKey;
use wire::messages::{LeaveGroupRequest, LeaveGroupResponse};

use super::group::unexpected;
use crate::event_loop::Outcome;
use crate::kafka::call::Call;

/// First version that names several members (KIP-345).
const MEMBERS_VERSION: i16 = 3;

pub(crate) fn on_leave_group(call: &mut Call<'_>, request: LeaveGroupRequest) -> Outcome {
    let group_id = request.group_id.clone();
    let ask = Ask::Leave {
        request,
        is_single: call.version() < MEMBERS_VERSION,
    };
    call.ask_group(&group_id, ask, |call, told| {
        let response = match told {
            Ok(Answer::Leave(response)) => response,
            other => LeaveGroupResponse {
                error_code: unexpected(other).code(),
                ..Default::default()
            },
        };
        call.reply(ApiKey::LeaveGroup, &response)
    })
}
