//! ListGroups: the groups of every coordinator of this broker.

use coord::group::ask::Listed;
use wire::ApiKey;
use wire::messages::list_groups_response::ListedGroup;
use wire::messages::{ListGroupsRequest, ListGroupsResponse};

use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::groups::{self, List};

pub(crate) fn on_list_groups(call: &mut Call<'_>, request: ListGroupsRequest) -> Outcome {
    let list = List {
        states: request.states_filter.into_iter().collect(),
        types: request.types_filter.into_iter().collect(),
    };
    call.carry_out(groups::list, list, |call, groups| {
        let response = match groups {
            Ok(groups) => ListGroupsResponse {
                groups: groups.into_iter().map(listed).collect(),
                ..Default::default()
            },
            Err(code) => ListGroupsResponse {
                error_code: code.code(),
                ..Default::default()
            },
        };
        call.reply(ApiKey::ListGroups, &response)
    })
}

fn listed(group: Listed) -> ListedGroup {
    ListedGroup {
        group_id: group.group_id,
        protocol_type: group.protocol_type.unwrap_or_default(),
        group_state: group.state.name().to_owned(),
        group_type: group.state.kind().name().to_owned(),
    }
}
