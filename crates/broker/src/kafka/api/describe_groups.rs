//! DescribeGroups: state, protocol and members of classic groups.

use coord::group::{Answer, Ask};
use wire::ApiKey;
use wire::messages::describe_groups_response::DescribedGroup;
use wire::messages::{DescribeGroupsRequest, DescribeGroupsResponse};

use super::group::unexpected;
use super::{GROUP_OPERATIONS, NO_OPERATIONS};
use crate::coordinate::{Question, Said};
use crate::shard::{Address, Outcome, Shard};

/// First version in which a group that is not there is an error; before, it is described as dead (KIP-1043).
const NOT_FOUND_VERSION: i16 = 6;

impl Shard {
    pub(crate) fn on_describe_groups(
        &mut self,
        address: &Address,
        request: DescribeGroupsRequest,
    ) -> Outcome {
        let operations = if request.include_authorized_operations {
            GROUP_OPERATIONS
        } else {
            NO_OPERATIONS
        };
        let is_strict = address.version >= NOT_FOUND_VERSION;
        let groups = request.groups;
        let questions = groups
            .iter()
            .map(|group_id| {
                let ask = Ask::Describe {
                    group_id: group_id.clone(),
                    is_strict,
                };
                (self.group_partition(group_id), Question::Group(ask))
            })
            .collect();
        self.ask_all(address, questions, move |shard, address, told| {
            let described = told.into_iter().zip(groups).map(|(told, group_id)| {
                let told = told.map(Said::group);
                let mut group = match told {
                    Ok(Answer::Describe(group)) => group,
                    other => DescribedGroup {
                        error_code: unexpected(other).code(),
                        group_id,
                        ..Default::default()
                    },
                };
                group.authorized_operations = operations;
                group
            });
            let response = DescribeGroupsResponse {
                groups: described.collect(),
                ..Default::default()
            };
            shard.reply(address, ApiKey::DescribeGroups, &response)
        })
    }
}
