//! DescribeGroups: state, protocol and members of classic groups.

use coord::group::{Answer, Ask};
use wire::ApiKey;
use wire::messages::describe_groups_response::DescribedGroup;
use wire::messages::{DescribeGroupsRequest, DescribeGroupsResponse};

use super::group::{operations, unexpected};
use crate::event_loop::Outcome;
use crate::kafka::call::Call;

/// First version in which a group that is not there is an error; before, it is described as dead (KIP-1043).
const NOT_FOUND_VERSION: i16 = 6;

pub(crate) fn on_describe_groups(call: &mut Call<'_>, request: DescribeGroupsRequest) -> Outcome {
    let is_strict = call.version() >= NOT_FOUND_VERSION;
    let ask = |group_id| Ask::Describe {
        group_id,
        is_strict,
    };
    let tells = request.include_authorized_operations;
    let asker = tells.then(|| call.asker.principal);
    call.ask_groups(request.groups, ask, move |call, told| {
        let describe = |(group_id, told)| {
            let mut group = match told {
                Ok(Answer::Describe(group)) => group,
                other => DescribedGroup {
                    error_code: unexpected(other).code(),
                    group_id,
                    ..Default::default()
                },
            };
            group.authorized_operations = operations(asker, &group.group_id, group.error_code);
            group
        };
        let response = DescribeGroupsResponse {
            groups: told.into_iter().map(describe).collect(),
            ..Default::default()
        };
        call.reply(ApiKey::DescribeGroups, &response)
    })
}
