//! DeleteGroups: empty groups go with everything they committed.

use coord::group::{Answer, Ask};
use wire::ApiKey;
use wire::messages::delete_groups_response::DeletableGroupResult;
use wire::messages::{DeleteGroupsRequest, DeleteGroupsResponse};

use super::group::{code, unexpected};
use crate::event_loop::Outcome;
use crate::kafka::call::Call;

pub(crate) fn on_delete_groups(call: &mut Call<'_>, request: DeleteGroupsRequest) -> Outcome {
    let ask = |group_id| Ask::Delete { group_id };
    call.ask_groups(request.groups_names, ask, |call, told| {
        let deleted = |(group_id, told)| DeletableGroupResult {
            group_id,
            error_code: code(match told {
                Ok(Answer::Delete(result)) => result,
                other => Err(unexpected(other)),
            }),
        };
        let response = DeleteGroupsResponse {
            results: told.into_iter().map(deleted).collect(),
            ..Default::default()
        };
        call.reply(ApiKey::DeleteGroups, &response)
    })
}
