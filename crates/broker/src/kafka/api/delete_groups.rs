//! DeleteGroups: empty groups go with everything they committed.

use coord::group::{Answer, Ask};
use wire::ApiKey;
use wire::messages::delete_groups_response::DeletableGroupResult;
use wire::messages::{DeleteGroupsRequest, DeleteGroupsResponse};

use super::group::unexpected;
use crate::coordinate::{Question, Said};
use crate::shard::{Address, Outcome, Shard};

impl Shard {
    pub(crate) fn on_delete_groups(
        &mut self,
        address: &Address,
        request: DeleteGroupsRequest,
    ) -> Outcome {
        let names = request.groups_names;
        let questions = names
            .iter()
            .map(|group_id| {
                let ask = Ask::Delete {
                    group_id: group_id.clone(),
                };
                (self.group_partition(group_id), Question::Group(ask))
            })
            .collect();
        self.ask_all(address, questions, move |shard, address, told| {
            let deleted = told.into_iter().zip(names).map(|(told, group_id)| {
                let told = told.map(Said::group);
                match told {
                    Ok(Answer::Delete(result)) => result,
                    other => DeletableGroupResult {
                        error_code: unexpected(other).code(),
                        group_id,
                    },
                }
            });
            let response = DeleteGroupsResponse {
                results: deleted.collect(),
                ..Default::default()
            };
            shard.reply(address, ApiKey::DeleteGroups, &response)
        })
    }
}
