//! JoinGroup: a member asks to be part of the next generation; answered when the group has come together.

use coord::group::{Answer, Ask, Client};
use wire::ApiKey;
use wire::messages::{JoinGroupRequest, JoinGroupResponse};

use super::group::unexpected;
use crate::event_loop::Outcome;
use crate::kafka::call::Call;

/// First version with a rebalance timeout of its own.
const REBALANCE_TIMEOUT_VERSION: i16 = 1;
/// First version that can be told its member id before it joins (KIP-394).
const MEMBER_ID_VERSION: i16 = 4;
/// First version whose answer may name no protocol.
const NO_PROTOCOL_VERSION: i16 = 7;
/// First version that can be told to skip the assignment (KIP-814).
const SKIP_ASSIGNMENT_VERSION: i16 = 9;

pub(crate) fn on_join_group(
    call: &mut Call<'_>,
    client: Client,
    mut request: JoinGroupRequest,
) -> Outcome {
    let version = call.version();
    if version < REBALANCE_TIMEOUT_VERSION {
        request.rebalance_timeout_ms = request.session_timeout_ms;
    }
    let (group_id, member_id) = (request.group_id.clone(), request.member_id.clone());
    let ask = Ask::Join {
        request,
        client,
        needs_member_id: version >= MEMBER_ID_VERSION,
        may_skip_assignment: version >= SKIP_ASSIGNMENT_VERSION,
        fresh: call.desk.fresh_uuid(),
    };
    call.ask_group(&group_id, ask, move |call, told| {
        let mut response = match told {
            Ok(Answer::Join(response)) => response,
            other => JoinGroupResponse {
                error_code: unexpected(other).code(),
                generation_id: -1,
                member_id,
                ..Default::default()
            },
        };
        if call.version() < NO_PROTOCOL_VERSION && response.protocol_name.is_none() {
            response.protocol_name = Some(String::new());
        }
        call.reply(ApiKey::JoinGroup, &response)
    })
}
