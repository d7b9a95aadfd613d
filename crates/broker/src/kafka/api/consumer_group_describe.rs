//! ConsumerGroupDescribe: members of KIP-848 groups, with what they have and what they are to have.

use coord::group::{Answer, Ask};
use wire::messages::consumer_group_describe_response::DescribedGroup;
use wire::messages::{ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse};
use wire::{ApiKey, ErrorCode};

use super::group::unexpected;
use crate::kafka::access::{self, Resource};
use crate::shard::{Address, Outcome, Shard};

impl Shard {
    pub(crate) fn on_consumer_group_describe(
        &mut self,
        address: &Address,
        request: ConsumerGroupDescribeRequest,
    ) -> Outcome {
        if !self.has_consumer_groups() {
            let refused = |group_id| DescribedGroup {
                error_code: ErrorCode::UnsupportedVersion.code(),
                group_id,
                ..Default::default()
            };
            let response = ConsumerGroupDescribeResponse {
                groups: request.group_ids.into_iter().map(refused).collect(),
                ..Default::default()
            };
            return self.reply(address, ApiKey::ConsumerGroupDescribe, &response);
        }
        let ask = |group_id| Ask::ConsumerDescribe { group_id };
        let principal = self.principal(address);
        let tells_operations = request.include_authorized_operations;
        self.ask_groups(
            address,
            request.group_ids,
            ask,
            move |shard, address, told| {
                let describe = |(group_id, told)| {
                    let mut group = match told {
                        Ok(Answer::ConsumerDescribe(group)) => group,
                        other => DescribedGroup {
                            error_code: unexpected(other).code(),
                            group_id,
                            ..Default::default()
                        },
                    };
                    if tells_operations && group.error_code == 0 {
                        let resource = Resource::group(&group.group_id);
                        group.authorized_operations = access::operations(principal, resource);
                    }
                    group
                };
                let response = ConsumerGroupDescribeResponse {
                    groups: told.into_iter().map(describe).collect(),
                    ..Default::default()
                };
                shard.reply(address, ApiKey::ConsumerGroupDescribe, &response)
            },
        )
    }
}
