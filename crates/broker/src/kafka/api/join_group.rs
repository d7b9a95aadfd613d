//! JoinGroup: a member asks to be part of the next generation; answered when the group has come together.

use coord::group::Client;
use coord::group::ask::{Join, JoinRefusal, Joined, JoinedMember, Protocol};
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::join_group_response::JoinGroupResponseMember;
use wire::messages::{JoinGroupRequest, JoinGroupResponse};
use wire::{ApiKey, ErrorCode, Uuid};

use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::groups;

/// First version with a rebalance timeout of its own.
const REBALANCE_TIMEOUT_VERSION: i16 = 1;
/// First version that can be told its member id before it joins (KIP-394).
const MEMBER_ID_VERSION: i16 = 4;
/// First version whose answer may name no protocol.
const NO_PROTOCOL_VERSION: i16 = 7;
/// First version that can be told to skip the assignment (KIP-814).
const SKIP_ASSIGNMENT_VERSION: i16 = 9;

pub(crate) fn on_join_group(
    call: &mut Call<'_>,
    client: Client,
    request: JoinGroupRequest,
) -> Outcome {
    let member_id = request.member_id.clone();
    let join = join(request, client, call.desk.fresh_uuid(), call.version());
    call.carry_out(groups::join, join, move |call, joined| {
        let response = response(joined, member_id, call.version());
        call.reply(ApiKey::JoinGroup, &response)
    })
}

fn join(request: JoinGroupRequest, client: Client, fresh: Uuid, version: i16) -> Join {
    let has_rebalance_timeout =
        version >= REBALANCE_TIMEOUT_VERSION && request.rebalance_timeout_ms >= 0;
    let protocol = |protocol: JoinGroupRequestProtocol| Protocol {
        name: protocol.name,
        metadata: protocol.metadata,
    };
    Join {
        group_id: request.group_id,
        member_id: request.member_id,
        instance_id: request.group_instance_id,
        client,
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms: has_rebalance_timeout.then_some(request.rebalance_timeout_ms),
        protocol_type: request.protocol_type,
        protocols: request.protocols.into_iter().map(protocol).collect(),
        reason: request.reason,
        needs_member_id: version >= MEMBER_ID_VERSION,
        may_skip_assignment: version >= SKIP_ASSIGNMENT_VERSION,
        fresh,
    }
}

/// The response to a member that asked as `member_id`.
fn response(
    joined: Result<Result<Joined, JoinRefusal>, ErrorCode>,
    member_id: String,
    version: i16,
) -> JoinGroupResponse {
    let joined = joined.unwrap_or_else(|code| {
        // Before a coordinator hears of it, as Kafka's broker answers.
        let is_denied = code == ErrorCode::GroupAuthorizationFailed;
        let member_id = if is_denied { String::new() } else { member_id };
        Err(JoinRefusal { code, member_id })
    });
    let joined = match joined {
        Ok(joined) => joined,
        Err(JoinRefusal { code, member_id }) => {
            return JoinGroupResponse {
                error_code: code.code(),
                protocol_name: named(None, version),
                member_id,
                ..Default::default()
            };
        }
    };
    let member = |member: JoinedMember| JoinGroupResponseMember {
        member_id: member.member_id,
        group_instance_id: member.instance_id,
        metadata: member.metadata,
    };
    JoinGroupResponse {
        generation_id: joined.generation,
        protocol_type: joined.protocol_type,
        protocol_name: named(joined.protocol, version),
        leader: joined.leader.unwrap_or_default(),
        skip_assignment: joined.skip_assignment,
        member_id: joined.member_id,
        members: joined.members.into_iter().map(member).collect(),
        ..Default::default()
    }
}

/// The protocol as a version tells it: the early ones have an empty name for none.
fn named(protocol: Option<String>, version: i16) -> Option<String> {
    if version < NO_PROTOCOL_VERSION {
        return Some(protocol.unwrap_or_default());
    }
    protocol
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(rebalance_timeout_ms: i32, version: i16) -> Join {
        let request = JoinGroupRequest {
            rebalance_timeout_ms,
            ..Default::default()
        };
        join(request, Client::default(), Uuid::ZERO, version)
    }

    #[test]
    fn a_version_says_what_its_clients_understand() {
        let understood = |version| {
            let join = asked(7, version);
            let timeout = join.rebalance_timeout_ms;
            (timeout, join.needs_member_id, join.may_skip_assignment)
        };
        assert_eq!(understood(0), (None, false, false));
        assert_eq!(understood(3), (Some(7), false, false));
        assert_eq!(understood(8), (Some(7), true, false));
        assert_eq!(understood(9), (Some(7), true, true));
        assert_eq!(asked(-1, 9).rebalance_timeout_ms, None);
    }

    #[test]
    fn early_versions_are_told_an_empty_protocol_where_there_is_none() {
        let joined = || Ok(Ok(Joined::default()));
        let refused = || Err(ErrorCode::GroupAuthorizationFailed);
        for told in [joined, refused] {
            let protocol = |version| response(told(), String::new(), version).protocol_name;
            assert_eq!(protocol(6).as_deref(), Some(""));
            assert_eq!(protocol(7), None);
        }
    }

    #[test]
    fn a_refusal_names_the_member_that_asked_or_the_id_to_ask_with() {
        let refused = |told| response(told, "asked".to_owned(), 9);
        let loading = refused(Err(ErrorCode::CoordinatorLoadInProgress));
        assert_eq!((loading.generation_id, &*loading.member_id), (-1, "asked"));
        let required = refused(Ok(Err(JoinRefusal {
            code: ErrorCode::MemberIdRequired,
            member_id: "given".to_owned(),
        })));
        assert_eq!(required.error_code, ErrorCode::MemberIdRequired.code());
        assert_eq!(required.member_id, "given");
    }
}
