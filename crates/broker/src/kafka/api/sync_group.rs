//! SyncGroup: the leader brings the assignment of a generation, every member fetches its own.

use coord::group::ask::{MemberAssignment, Sync};
use coord::group::{Answer, Ask};
use wire::messages::sync_group_request::SyncGroupRequestAssignment;
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
    call.ask_group(&group_id, ask(request), |call, told| {
        call.reply(ApiKey::SyncGroup, &response(told))
    })
}

fn ask(request: SyncGroupRequest) -> Ask {
    let part = |part: SyncGroupRequestAssignment| MemberAssignment {
        member_id: part.member_id,
        assignment: part.assignment,
    };
    Ask::Sync(Sync {
        group_id: request.group_id,
        member_id: request.member_id,
        instance_id: request.group_instance_id,
        generation: request.generation_id,
        protocol_type: request.protocol_type,
        protocol: request.protocol_name,
        assignments: request.assignments.into_iter().map(part).collect(),
    })
}

fn response(told: Result<Answer, ErrorCode>) -> SyncGroupResponse {
    match told {
        Ok(Answer::Sync(Ok(synced))) => SyncGroupResponse {
            protocol_type: synced.protocol_type,
            protocol_name: synced.protocol,
            assignment: synced.assignment,
            ..Default::default()
        },
        Ok(Answer::Sync(Err(code))) => refuse(code),
        other => refuse(unexpected(other)),
    }
}

fn refuse(code: ErrorCode) -> SyncGroupResponse {
    SyncGroupResponse {
        error_code: code.code(),
        ..Default::default()
    }
}
