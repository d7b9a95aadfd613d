//! LeaveGroup: members go, one by itself or several by an administrator's hand (KIP-345).

use coord::group::{Answer, Ask};
use wire::ApiKey;
use wire::messages::leave_group_request::MemberIdentity;
use wire::messages::{LeaveGroupRequest, LeaveGroupResponse};

use super::group::unexpected;
use crate::shard::{Address, Outcome, Shard};

/// First version that names several members.
const BATCH_VERSION: i16 = 3;

impl Shard {
    pub(crate) fn on_leave_group(
        &mut self,
        address: &Address,
        mut request: LeaveGroupRequest,
    ) -> Outcome {
        if address.version < BATCH_VERSION {
            request.members = vec![MemberIdentity {
                member_id: std::mem::take(&mut request.member_id),
                ..Default::default()
            }];
        }
        let group_id = request.group_id.clone();
        self.ask_valid_group(
            address,
            &group_id,
            Ask::Leave(request),
            |shard, address, told| {
                let mut response = match told {
                    Ok(Answer::Leave(response)) => response,
                    other => LeaveGroupResponse {
                        error_code: unexpected(other).code(),
                        ..Default::default()
                    },
                };
                if address.version < BATCH_VERSION {
                    // The only member's error is that of the request.
                    let of_member = response.members.first().map(|member| member.error_code);
                    if response.error_code == 0 {
                        response.error_code = of_member.unwrap_or(0);
                    }
                    response.members.clear();
                }
                shard.reply(address, ApiKey::LeaveGroup, &response)
            },
        )
    }
}
