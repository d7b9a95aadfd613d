//! ListGroups: the groups of every coordinator of this broker.

use std::sync::Arc;

use coord::group::ask::Listed;
use coord::group::{Answer, Ask};
use wire::messages::list_groups_response::ListedGroup;
use wire::messages::{ListGroupsRequest, ListGroupsResponse};
use wire::{ApiKey, ErrorCode};

use super::group::unexpected;
use crate::coordinate::{Question, Said};
use crate::event_loop::Outcome;
use crate::kafka::call::Call;

pub(crate) fn on_list_groups(call: &mut Call<'_>, request: ListGroupsRequest) -> Outcome {
    let partitions = call
        .desk
        .topics()
        .named(meta::name::OFFSETS)
        .map_or(0, |topic| super::number(topic.partitions.len()));
    call.ask_all(questions(partitions, request), |call, told| {
        let mut response = ListGroupsResponse::default();
        for told in told {
            match told.map(Said::group) {
                Ok(Answer::List(groups)) => {
                    response.groups.extend(groups.into_iter().map(listed));
                }
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

/// The same for each partition of the offsets topic.
fn questions(partitions: i32, request: ListGroupsRequest) -> Vec<(i32, Question)> {
    let states = Arc::new(request.states_filter.into_iter().collect());
    let types = Arc::new(request.types_filter.into_iter().collect());
    let ask = || Ask::List {
        states: Arc::clone(&states),
        types: Arc::clone(&types),
    };
    (0..partitions)
        .map(|partition| (partition, Question::Group(ask())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_coordinators_are_asked_with_one_filter() {
        let request = ListGroupsRequest {
            states_filter: vec!["Stable".to_owned(), "Nonsense".to_owned()],
            types_filter: vec!["Classic".to_owned()],
        };
        let asked = questions(50, request);
        assert_eq!(asked.len(), 50);
        for (partition, (at, question)) in (0..).zip(&asked) {
            let Question::Group(Ask::List { states, types }) = question else {
                panic!("another question");
            };
            assert_eq!(*at, partition);
            let holders = (Arc::strong_count(states), Arc::strong_count(types));
            assert_eq!(holders, (50, 50));
        }
    }
}
