//! ListGroups: the groups of every coordinator of this broker.

use coord::group::{Answer, Ask};
use wire::messages::{ListGroupsRequest, ListGroupsResponse};
use wire::{ApiKey, ErrorCode};

use super::group::unexpected;
use crate::coordinate::{Question, Said};
use crate::shard::{Address, Outcome, Shard};

impl Shard {
    pub(crate) fn on_list_groups(
        &mut self,
        address: &Address,
        request: ListGroupsRequest,
    ) -> Outcome {
        let partitions = self
            .topics()
            .named(meta::name::OFFSETS)
            .map_or(0, |topic| super::number(topic.partitions.len()));
        let questions = (0..partitions)
            .map(|partition| {
                let ask = Ask::List {
                    states: request.states_filter.clone(),
                    types: request.types_filter.clone(),
                };
                (partition, Question::Group(ask))
            })
            .collect();
        self.ask_all(address, questions, |shard, address, told| {
            let mut response = ListGroupsResponse::default();
            for told in told {
                match told.map(Said::group) {
                    Ok(Answer::List(groups)) => response.groups.extend(groups),
                    // A list with a part missing would look as if those groups were gone.
                    Err(ErrorCode::CoordinatorLoadInProgress) => {
                        response.error_code = ErrorCode::CoordinatorLoadInProgress.code();
                    }
                    // Not ours to list.
                    Err(ErrorCode::NotCoordinator) => {}
                    other => response.error_code = unexpected(other).code(),
                }
            }
            if response.error_code != 0 {
                response.groups.clear();
            }
            shard.reply(address, ApiKey::ListGroups, &response)
        })
    }
}
