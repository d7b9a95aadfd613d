//! SyncGroup: the leader brings the assignment of a generation, every member fetches its own.

use coord::group::{Answer, Ask};
use wire::messages::{SyncGroupRequest, SyncGroupResponse};
use wire::{ApiKey, ErrorCode};

use super::group::unexpected;
use crate::shard::{Address, Outcome, Shard};

/// From here on the request must say which protocol it syncs (KIP-559).
const PROTOCOL_VERSION: i16 = 5;

impl Shard {
    pub(crate) fn on_sync_group(
        &mut self,
        address: &Address,
        request: SyncGroupRequest,
    ) -> Outcome {
        let names_protocol = request.protocol_type.is_some() && request.protocol_name.is_some();
        if address.version >= PROTOCOL_VERSION && !names_protocol {
            let response = refuse(ErrorCode::InconsistentGroupProtocol);
            return self.reply(address, ApiKey::SyncGroup, &response);
        }
        let group_id = request.group_id.clone();
        self.ask_group(
            address,
            &group_id,
            Ask::Sync(request),
            |shard, address, told| {
                let response = match told {
                    Ok(Answer::Sync(response)) => response,
                    other => refuse(unexpected(other)),
                };
                shard.reply(address, ApiKey::SyncGroup, &response)
            },
        )
    }
}

fn refuse(code: ErrorCode) -> SyncGroupResponse {
    SyncGroupResponse {
        error_code: code.code(),
        ..Default::default()
    }
}
