//! ConsumerGroupHeartbeat (KIP-848): joins, leaves, tells what a member owns, and brings its next assignment.

use coord::group::{Answer, Ask, Client};
use wire::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use wire::{ApiKey, ErrorCode};

use super::group::unexpected;
use crate::shard::{Address, Outcome, Shard};

/// First version whose clients make their member id themselves (KIP-1082).
const OWN_MEMBER_ID_VERSION: i16 = 1;

impl Shard {
    pub(crate) fn on_consumer_group_heartbeat(
        &mut self,
        address: &Address,
        client: Client,
        request: ConsumerGroupHeartbeatRequest,
    ) -> Outcome {
        if !self.has_consumer_groups() {
            let response = ConsumerGroupHeartbeatResponse {
                error_code: ErrorCode::UnsupportedVersion.code(),
                ..Default::default()
            };
            return self.reply(address, ApiKey::ConsumerGroupHeartbeat, &response);
        }
        let group_id = request.group_id.clone();
        let ask = Ask::ConsumerHeartbeat {
            request,
            client,
            brings_member_id: address.version >= OWN_MEMBER_ID_VERSION,
            fresh: self.fresh_uuid(),
        };
        self.ask_group(address, &group_id, ask, |shard, address, told| {
            let response = match told {
                Ok(Answer::ConsumerHeartbeat(response)) => response,
                other => ConsumerGroupHeartbeatResponse {
                    error_code: unexpected(other).code(),
                    ..Default::default()
                },
            };
            shard.reply(address, ApiKey::ConsumerGroupHeartbeat, &response)
        })
    }
}
