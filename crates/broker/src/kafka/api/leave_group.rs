//! LeaveGroup: members go, one by itself or several by an administrator's hand (KIP-345).

use coord::group::{Answer, Ask};
use wire::ApiKey;
use wire::messages::{LeaveGroupRequest, LeaveGroupResponse};

use super::group::unexpected;
use crate::shard::{Address, Outcome, Shard};

/// First version that names several members (KIP-345).
const MEMBERS_VERSION: i16 = 3;

impl Shard {
    pub(crate) fn on_leave_group(
        &mut self,
        address: &Address,
        request: LeaveGroupRequest,
    ) -> Outcome {
        let group_id = request.group_id.clone();
        let ask = Ask::Leave {
            request,
            is_single: address.version < MEMBERS_VERSION,
        };
        self.ask_group(address, &group_id, ask, |shard, address, told| {
            let response = match told {
                Ok(Answer::Leave(response)) => response,
                other => LeaveGroupResponse {
                    error_code: unexpected(other).code(),
                    ..Default::default()
                },
            };
            shard.reply(address, ApiKey::LeaveGroup, &response)
        })
    }
}
