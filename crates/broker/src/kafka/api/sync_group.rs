//! SyncGroup: the leader brings the assignment of a generation, every member fetches its own.

use coord::group::{Answer, Ask};
use wire::messages::{SyncGroupRequest, SyncGroupResponse};
use wire::{ApiKey, ErrorCode};

use super::group::unexpected;
use crate::event_loop::Outcome;
use crate::kafka::call::Call;

/// From here on the request must say which protocol it syncs (KIP-559).
const PROTOCOL_VERSION: i16 = 5;

pub(crate) fn on_sync_group(call: &mut Call<'_>, request: SyncGroupRequest) -> Outcome {
    let names_protocol = request.protocol_type.is_some() && request.protocol_name.is_some();
    if call.version() >= PROTOCOL_VERSION && !names_protocol {
        let response = refuse(ErrorCode::InconsistentGroupProtocol);
        return call.reply(ApiKey::SyncGroup, &response);
    }
    let group_id = request.group_id.clone();
    call.ask_group(&group_id, Ask::Sync(request), |call, told| {
        let response = match told {
            Ok(Answer::Sync(response)) => response,
            other => refuse(unexpected(other)),
        };
        call.reply(ApiKey::SyncGroup, &response)
    })
}

fn refuse(code: ErrorCode) -> SyncGroupResponse {
    SyncGroupResponse {
        error_code: code.code(),
        ..Default::default()
    }
}
