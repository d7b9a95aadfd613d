//! DeleteGroups: empty groups go with everything they committed.

use wire::ApiKey;
use wire::messages::delete_groups_response::DeletableGroupResult;
use wire::messages::{DeleteGroupsRequest, DeleteGroupsResponse};

use super::group::code;
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::groups;

pub(crate) fn on_delete_groups(call: &mut Call<'_>, request: DeleteGroupsRequest) -> Outcome {
    call.carry_out(groups::delete, request.groups_names, |call, results| {
        let deleted = |(group_id, result)| DeletableGroupResult {
            group_id,
            error_code: code(result),
            error_message: None,
        };
        let response = DeleteGroupsResponse {
            results: results.into_iter().map(deleted).collect(),
            ..Default::default()
        };
        call.reply(ApiKey::DeleteGroups, &response)
    })
}
