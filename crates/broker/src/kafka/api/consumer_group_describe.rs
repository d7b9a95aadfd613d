//! ConsumerGroupDescribe: members of KIP-848 groups, with what they have and what they are to have.

use coord::group::{Answer, Ask};
use wire::messages::consumer_group_describe_response::DescribedGroup;
use wire::messages::{ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse};
use wire::{ApiKey, ErrorCode};

use super::group::unexpected;
use super::{GROUP_OPERATIONS, NO_OPERATIONS};
use crate::coordinate::{Question, Said};
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
        let operations = if request.include_authorized_operations {
            GROUP_OPERATIONS
        } else {
            NO_OPERATIONS
        };
        let group_ids = request.group_ids;
        let questions = group_ids
            .iter()
            .map(|group_id| {
                let ask = Ask::ConsumerDescribe {
                    group_id: group_id.clone(),
                };
                (self.group_partition(group_id), Question::Group(ask))
            })
            .collect();
        self.ask_all(address, questions, move |shard, address, told| {
            let described = told.into_iter().zip(group_ids).map(|(told, group_id)| {
                let mut group = match told.map(Said::group) {
                    Ok(Answer::ConsumerDescribe(group)) => group,
                    other => DescribedGroup {
                        error_code: unexpected(other).code(),
                        group_id,
                        ..Default::default()
                    },
                };
                group.authorized_operations = operations;
                group
            });
            let response = ConsumerGroupDescribeResponse {
                groups: described.collect(),
                ..Default::default()
            };
            shard.reply(address, ApiKey::ConsumerGroupDescribe, &response)
        })
    }
}
