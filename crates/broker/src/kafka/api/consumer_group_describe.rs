//! ConsumerGroupDescribe: members of KIP-848 groups, with what they have and what they are to have.

use coord::group::Refusal;
use coord::group::ask::{ConsumerDescribed, ConsumerDescribedMember, Kind, NamedPartitions};
use wire::messages::consumer_group_describe_response::{
    Assignment, DescribedGroup, Member, TopicPartitions,
};
use wire::messages::{ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse};
use wire::{ApiKey, ErrorCode};

use super::group::operations;
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::groups;

const HIDDEN_TOPICS: &str =
    "The group has described topic(s) that the client is not authorized to describe.";

pub(crate) fn on_consumer_group_describe(
    call: &mut Call<'_>,
    request: ConsumerGroupDescribeRequest,
) -> Outcome {
    let tells = request.include_authorized_operations;
    let asker = tells.then(|| std::sync::Arc::clone(&call.asker));
    let group_ids = request.group_ids;
    call.carry_out(
        groups::describe_consumers,
        group_ids,
        move |call, groups| {
            let describe = |(group_id, told)| {
                let mut group = described(group_id, told);
                group.authorized_operations =
                    operations(asker.as_deref(), &group.group_id, group.error_code);
                group
            };
            let response = ConsumerGroupDescribeResponse {
                groups: groups.into_iter().map(describe).collect(),
                ..Default::default()
            };
            call.reply(ApiKey::ConsumerGroupDescribe, &response)
        },
    )
}

fn described(
    group_id: String,
    told: Result<Result<ConsumerDescribed, Refusal>, ErrorCode>,
) -> DescribedGroup {
    match told {
        Ok(Ok(group)) => DescribedGroup {
            // A message beside no error would look like one.
            last_rebalance: group.last_rebalance,
            group_id,
            group_state: group.state.name().to_owned(),
            group_epoch: group.epoch,
            assignment_epoch: group.assignment_epoch,
            assignor_name: group.assignor.to_owned(),
            members: group.members.into_iter().map(member).collect(),
            ..Default::default()
        },
        Ok(Err(refusal)) => DescribedGroup {
            error_code: refusal.code.code(),
            error_message: Some(refusal.message),
            group_id,
            ..Default::default()
        },
        Err(code) => DescribedGroup {
            error_code: code.code(),
            error_message: (code == ErrorCode::TopicAuthorizationFailed)
                .then(|| HIDDEN_TOPICS.to_owned()),
            group_id,
            ..Default::default()
        },
    }
}

fn member(member: ConsumerDescribedMember) -> Member {
    Member {
        member_id: member.member_id,
        instance_id: member.instance_id,
        rack_id: member.rack_id,
        member_epoch: member.member_epoch,
        client_id: member.client.id,
        client_host: member.client.host,
        subscribed_topic_names: member.topic_names,
        // Empty where there is none, as in Kafka.
        subscribed_topic_regex: Some(member.pattern.unwrap_or_default()),
        assignment: assignment(member.assignment),
        target_assignment: assignment(member.target),
        member_type: match member.kind {
            Kind::Classic => 0,
            Kind::Consumer => 1,
        },
    }
}

fn assignment(topics: Vec<NamedPartitions>) -> Assignment {
    let topic = |topic: NamedPartitions| TopicPartitions {
        topic_id: topic.topic_id,
        topic_name: topic.topic_name,
        partitions: topic.partitions.into_iter().map(|index| index.0).collect(),
    };
    Assignment {
        topic_partitions: topics.into_iter().map(topic).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_is_not_there_has_no_state() {
        let why = Refusal {
            code: ErrorCode::GroupIdNotFound,
            message: "Group a not found.".to_owned(),
        };
        let group = described("a".to_owned(), Ok(Err(why)));
        let not_found = ErrorCode::GroupIdNotFound.code();
        assert_eq!((group.error_code, &*group.group_state), (not_found, ""));
    }
}
