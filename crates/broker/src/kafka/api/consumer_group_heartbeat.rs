//! ConsumerGroupHeartbeat (KIP-848): joins, leaves, tells what a member owns, and brings its next assignment.

use coord::group::{Answer, Ask, Client};
use wire::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use wire::{ApiKey, ErrorCode};

use super::group::has_consumer_groups;
use super::group::unexpected;
use crate::event_loop::Outcome;
use crate::kafka::call::Call;

/// First version whose clients make their member id themselves (KIP-1082).
const OWN_MEMBER_ID_VERSION: i16 = 1;

pub(crate) fn on_consumer_group_heartbeat(
    call: &mut Call<'_>,
    client: Client,
    request: ConsumerGroupHeartbeatRequest,
) -> Outcome {
    if !has_consumer_groups(call) {
        let response = ConsumerGroupHeartbeatResponse {
            error_code: ErrorCode::UnsupportedVersion.code(),
            ..Default::default()
        };
        return call.reply(ApiKey::ConsumerGroupHeartbeat, &response);
    }
    let group_id = request.group_id.clone();
    let ask = Ask::ConsumerHeartbeat {
        request,
        client,
        brings_member_id: call.version() >= OWN_MEMBER_ID_VERSION,
        fresh: call.desk.fresh_uuid(),
    };
    call.ask_group(&group_id, ask, |call, told| {
        let response = match told {
            Ok(Answer::ConsumerHeartbeat(response)) => response,
            other => ConsumerGroupHeartbeatResponse {
                error_code: unexpected(other).code(),
                ..Default::default()
            },
        };
        call.reply(ApiKey::ConsumerGroupHeartbeat, &response)
    })
}
