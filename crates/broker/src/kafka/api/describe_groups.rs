//! DescribeGroups: state, protocol and members of classic groups.

use coord::group::Refusal;
use coord::group::ask::{Described, DescribedMember};
use wire::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use wire::messages::{DescribeGroupsRequest, DescribeGroupsResponse};
use wire::{ApiKey, ErrorCode};

use super::group::{DEAD, operations};
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::groups;

/// First version in which a group that is not there is an error, and errors have a message; before, it is described as dead
/// (KIP-1043).
const NOT_FOUND_VERSION: i16 = 6;
/// First version with fields that clients may not know.
const TAGGED_VERSION: i16 = 5;

pub(crate) fn on_describe_groups(call: &mut Call<'_>, request: DescribeGroupsRequest) -> Outcome {
    let tells = request.include_authorized_operations;
    let asker = tells.then(|| std::sync::Arc::clone(&call.asker));
    call.carry_out(groups::describe, request.groups, move |call, groups| {
        let describe = |(group_id, told)| {
            let mut group = described(group_id, told, call.version());
            group.authorized_operations =
                operations(asker.as_deref(), &group.group_id, group.error_code);
            group
        };
        let response = DescribeGroupsResponse {
            groups: groups.into_iter().map(describe).collect(),
            ..Default::default()
        };
        call.reply(ApiKey::DescribeGroups, &response)
    })
}

fn described(
    group_id: String,
    told: Result<Result<Described, Refusal>, ErrorCode>,
    version: i16,
) -> DescribedGroup {
    let has_messages = version >= NOT_FOUND_VERSION;
    match told {
        Ok(Ok(group)) => DescribedGroup {
            // A message beside no error would look like one.
            last_rebalance: group.last_rebalance.filter(|_| TAGGED_VERSION <= version),
            group_id,
            group_state: group.state.name().to_owned(),
            protocol_type: group.protocol_type.unwrap_or_default(),
            protocol_data: group.protocol.unwrap_or_default(),
            members: group.members.into_iter().map(member).collect(),
            ..Default::default()
        },
        Ok(Err(refusal)) => DescribedGroup {
            error_code: if has_messages { refusal.code.code() } else { 0 },
            error_message: has_messages.then_some(refusal.message),
            group_id,
            group_state: DEAD.to_owned(),
            ..Default::default()
        },
        Err(code) => DescribedGroup {
            error_code: code.code(),
            group_id,
            ..Default::default()
        },
    }
}

fn member(member: DescribedMember) -> DescribedGroupMember {
    DescribedGroupMember {
        member_id: member.member_id,
        group_instance_id: member.instance_id,
        client_id: member.client.id,
        client_host: member.client.host,
        member_metadata: member.metadata,
        member_assignment: member.assignment,
    }
}

#[cfg(test)]
mod tests {
    use coord::group::ClassicState;

    use super::*;

    fn told(answer: Result<Described, Refusal>, version: i16) -> (i16, Option<String>, String) {
        let group = described("g".to_owned(), Ok(answer), version);
        (group.error_code, group.error_message, group.group_state)
    }

    #[test]
    fn a_group_that_is_not_there_is_dead_and_since_version_6_not_found() {
        let refusal = Refusal {
            code: ErrorCode::GroupIdNotFound,
            message: "Group g not found.".to_owned(),
        };
        let message = refusal.message.clone();
        let dead = "Dead".to_owned();
        assert_eq!(told(Err(refusal.clone()), 5), (0, None, dead.clone()));
        let code = ErrorCode::GroupIdNotFound.code();
        assert_eq!(told(Err(refusal), 6), (code, Some(message), dead));
    }

    #[test]
    fn the_reason_of_the_last_rebalance_stands_in_a_field_of_its_own() {
        let group = Described {
            state: ClassicState::Empty,
            protocol_type: None,
            protocol: None,
            members: Vec::new(),
            last_rebalance: Some("member a left".to_owned()),
        };
        assert_eq!(told(Ok(group.clone()), 6).1, None);
        let reason = |version| {
            let answer = Ok(Ok(group.clone()));
            described("g".to_owned(), answer, version).last_rebalance
        };
        assert_eq!(reason(4), None);
        assert_eq!(reason(5).as_deref(), Some("member a left"));
    }
}
