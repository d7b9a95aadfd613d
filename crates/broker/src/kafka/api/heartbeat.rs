//! Heartbeat: a member of a classic group is alive, and learns whether a rebalance has begun.

use coord::group::{Answer, Ask};
use wire::messages::{HeartbeatRequest, HeartbeatResponse};
use wire::{ApiKey, ErrorCode};

use super::group::unexpected;
use crate::shard::{Address, Outcome, Shard};

impl Shard {
    pub(crate) fn on_heartbeat(&mut self, address: &Address, request: HeartbeatRequest) -> Outcome {
        let group_id = request.group_id.clone();
        self.ask_group(
            address,
            &group_id,
            Ask::Heartbeat(request),
            |shard, address, told| {
                let response = match told {
                    Ok(Answer::Heartbeat(response)) => response,
                    // The member may well be alive: it is looked for once its group is loaded.
                    Err(ErrorCode::CoordinatorLoadInProgress) => HeartbeatResponse::default(),
                    other => HeartbeatResponse {
                        error_code: unexpected(other).code(),
                        ..Default::default()
                    },
                };
                shard.reply(address, ApiKey::Heartbeat, &response)
            },
        )
    }
}
