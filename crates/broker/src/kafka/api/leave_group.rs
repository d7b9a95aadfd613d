//! LeaveGroup: members go, one by itself or several by an administrator's hand (KIP-345).

use coord::group::ask::{Leave, Leaver};
use wire::messages::leave_group_request::MemberIdentity;
use wire::messages::leave_group_response::MemberResponse;
use wire::messages::{LeaveGroupRequest, LeaveGroupResponse};
use wire::{ApiKey, ErrorCode};

use super::group::code;
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::groups;

/// First version that names several members (KIP-345). Before, the request itself names one, and the answer has its error on top.
const MEMBERS_VERSION: i16 = 3;

pub(crate) fn on_leave_group(call: &mut Call<'_>, mut request: LeaveGroupRequest) -> Outcome {
    let group_id = std::mem::take(&mut request.group_id);
    let members = leaving(request, call.version());
    let leave = leave(group_id, &members);
    call.carry_out(groups::leave, leave, move |call, left| {
        let response = response(left, members, call.version());
        call.reply(ApiKey::LeaveGroup, &response)
    })
}

fn leaving(request: LeaveGroupRequest, version: i16) -> Vec<MemberIdentity> {
    if version >= MEMBERS_VERSION {
        return request.members;
    }
    vec![MemberIdentity {
        member_id: request.member_id,
        ..Default::default()
    }]
}

fn leave(group_id: String, members: &[MemberIdentity]) -> Leave {
    let leaver = |member: &MemberIdentity| Leaver {
        member_id: member.member_id.clone(),
        instance_id: member.group_instance_id.clone(),
        reason: member.reason.clone(),
    };
    Leave {
        group_id,
        members: members.iter().map(leaver).collect(),
    }
}

fn response(
    left: Result<Vec<Result<(), ErrorCode>>, ErrorCode>,
    members: Vec<MemberIdentity>,
    version: i16,
) -> LeaveGroupResponse {
    let mut response = LeaveGroupResponse::default();
    match left {
        Err(code) => response.error_code = code.code(),
        Ok(results) if version < MEMBERS_VERSION => {
            response.error_code = results.into_iter().next().map_or(0, code);
        }
        Ok(results) => {
            let told = members.into_iter().zip(results);
            let member = |(member, result): (MemberIdentity, _)| MemberResponse {
                member_id: member.member_id,
                group_instance_id: member.group_instance_id,
                error_code: code(result),
            };
            response.members = told.map(member).collect();
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_versions_name_one_member_and_have_its_error_on_top() {
        let unknown = ErrorCode::UnknownMemberId;
        let left = |version| {
            let request = LeaveGroupRequest {
                member_id: "a".to_owned(),
                members: vec![MemberIdentity {
                    member_id: "b".to_owned(),
                    ..Default::default()
                }],
                ..Default::default()
            };
            let members = leaving(request, version);
            let leave = leave("g".to_owned(), &members);
            let response = response(Ok(vec![Err(unknown)]), members, version);
            let of_member = response.members.first().map(|member| member.error_code);
            (
                leave.members[0].member_id.clone(),
                response.error_code,
                of_member,
            )
        };
        assert_eq!(left(2), ("a".to_owned(), unknown.code(), None));
        assert_eq!(left(3), ("b".to_owned(), 0, Some(unknown.code())));
    }
}
