//! SyncGroup: the leader brings the assignment of a generation, every member fetches its own.

use coord::group::ask::{MemberAssignment, Sync, Synced};
use wire::messages::sync_group_request::SyncGroupRequestAssignment;
use wire::messages::{SyncGroupRequest, SyncGroupResponse};
use wire::{ApiKey, ErrorCode};

use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::groups;

/// From here on the request must say which protocol it syncs (KIP-559).
const PROTOCOL_VERSION: i16 = 5;

pub(crate) fn on_sync_group(call: &mut Call<'_>, request: SyncGroupRequest) -> Outcome {
    let names_protocol = request.protocol_type.is_some() && request.protocol_name.is_some();
    if call.version() >= PROTOCOL_VERSION && !names_protocol {
        let response = refuse(ErrorCode::InconsistentGroupProtocol);
        return call.reply(ApiKey::SyncGroup, &response);
    }
    call.carry_out(groups::sync, sync(request), |call, synced| {
        let response = synced.map_or_else(refuse, response);
        call.reply(ApiKey::SyncGroup, &response)
    })
}

fn sync(request: SyncGroupRequest) -> Sync {
    let part = |part: SyncGroupRequestAssignment| MemberAssignment {
        member_id: part.member_id,
        assignment: part.assignment,
    };
    Sync {
        group_id: request.group_id,
        member_id: request.member_id,
        instance_id: request.group_instance_id,
        generation: request.generation_id,
        protocol_type: request.protocol_type,
        protocol: request.protocol_name,
        assignments: request.assignments.into_iter().map(part).collect(),
    }
}

fn response(synced: Synced) -> SyncGroupResponse {
    SyncGroupResponse {
        protocol_type: synced.protocol_type,
        protocol_name: synced.protocol,
        assignment: synced.assignment,
        ..Default::default()
    }
}

fn refuse(code: ErrorCode) -> SyncGroupResponse {
    SyncGroupResponse {
        error_code: code.code(),
        ..Default::default()
    }
}
