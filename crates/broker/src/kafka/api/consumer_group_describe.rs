//! ConsumerGroupDescribe: members of KIP-848 groups, with what they have and what they are to have.

use coord::group::{Answer, Ask};
use wire::messages::consumer_group_describe_response::DescribedGroup;
use wire::messages::{ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse};
use wire::{ApiKey, ErrorCode};

use super::group::has_consumer_groups;
use super::group::{operations, unexpected};
use crate::event_loop::Outcome;
use crate::kafka::call::Call;

pub(crate) fn on_consumer_group_describe(
    call: &mut Call<'_>,
    request: ConsumerGroupDescribeRequest,
) -> Outcome {
    if !has_consumer_groups(call) {
        let refused = |group_id| DescribedGroup {
            error_code: ErrorCode::UnsupportedVersion.code(),
            group_id,
            ..Default::default()
        };
        let response = ConsumerGroupDescribeResponse {
            groups: request.group_ids.into_iter().map(refused).collect(),
            ..Default::default()
        };
        return call.reply(ApiKey::ConsumerGroupDescribe, &response);
    }
    let ask = |group_id| Ask::ConsumerDescribe { group_id };
    let tells = request.include_authorized_operations;
    let asker = tells.then(|| call.asker.principal);
    call.ask_groups(request.group_ids, ask, move |call, told| {
        let describe = |(group_id, told)| {
            let mut group = match told {
                Ok(Answer::ConsumerDescribe(group)) => group,
                other => DescribedGroup {
                    error_code: unexpected(other).code(),
                    group_id,
                    ..Default::default()
                },
            };
            group.authorized_operations = operations(asker, &group.group_id, group.error_code);
            group
        };
        let response = ConsumerGroupDescribeResponse {
            groups: told.into_iter().map(describe).collect(),
            ..Default::default()
        };
        call.reply(ApiKey::ConsumerGroupDescribe, &response)
    })
}
