//! Descriptions of groups and transactions as other coordinators give them.

use coord::group::ask::{
    ConsumerDescribed, ConsumerDescribedMember, Described, DescribedMember, GroupState, Kind,
    Listed, NamedPartitions,
};
use coord::group::consumer::ConsumerState;
use coord::group::consumer::assignor::Assignor;
use coord::group::{ClassicState, Client, Refusal};
use model::PartitionIndex;
use wire::ErrorCode;
use wire::messages::consumer_group_describe_response::{Assignment, Member};
use wire::messages::{
    consumer_group_describe_response, describe_groups_response, list_groups_response,
};

use crate::error::of_code;

/// The state of a classic group that is not there, in versions that have no code for that.
const DEAD: &str = "Dead";

/// The outcome of a description that was refused: the group is not there, or its coordinator does not answer.
fn refused(code: i16, message: Option<String>) -> Option<Result<Refusal, ErrorCode>> {
    match of_code(code) {
        ErrorCode::None => None,
        code @ ErrorCode::GroupIdNotFound => {
            let message = message.unwrap_or_default();
            Some(Ok(Refusal { code, message }))
        }
        code => Some(Err(code)),
    }
}

pub(super) fn classic(
    group: describe_groups_response::DescribedGroup,
) -> Result<Result<Described, Refusal>, ErrorCode> {
    if let Some(refused) = refused(group.error_code, group.error_message) {
        return refused.map(Err);
    }
    let Some(state) = ClassicState::named(&group.group_state) else {
        return match group.group_state.as_str() {
            DEAD => Ok(Err(Refusal {
                code: ErrorCode::GroupIdNotFound,
                message: String::new(),
            })),
            _ => Err(ErrorCode::UnknownServerError),
        };
    };
    let member = |member: describe_groups_response::DescribedGroupMember| DescribedMember {
        member_id: member.member_id,
        instance_id: member.group_instance_id,
        client: Client {
            id: member.client_id,
            host: member.client_host,
        },
        metadata: member.member_metadata,
        assignment: member.member_assignment,
    };
    let is_said = |text: &String| !text.is_empty();
    Ok(Ok(Described {
        state,
        protocol_type: Some(group.protocol_type).filter(is_said),
        protocol: Some(group.protocol_data).filter(is_said),
        members: group.members.into_iter().map(member).collect(),
        last_rebalance: group.last_rebalance,
    }))
}

pub(super) fn consumer(
    group: consumer_group_describe_response::DescribedGroup,
) -> Result<Result<ConsumerDescribed, Refusal>, ErrorCode> {
    if let Some(refused) = refused(group.error_code, group.error_message) {
        return refused.map(Err);
    }
    let state = ConsumerState::named(&group.group_state);
    Ok(Ok(ConsumerDescribed {
        state: state.ok_or(ErrorCode::UnknownServerError)?,
        epoch: group.group_epoch,
        assignment_epoch: group.assignment_epoch,
        // Another build, or Kafka, may have more of them.
        assignor: Assignor::named(&group.assignor_name).map_or("", Assignor::name),
        members: group.members.into_iter().map(member).collect(),
        last_rebalance: group.last_rebalance,
    }))
}

fn member(member: Member) -> ConsumerDescribedMember {
    /// That of Kafka's `MemberType`.
    const CLASSIC: i8 = 0;
    ConsumerDescribedMember {
        member_id: member.member_id,
        instance_id: member.instance_id,
        rack_id: member.rack_id,
        member_epoch: member.member_epoch,
        client: Client {
            id: member.client_id,
            host: member.client_host,
        },
        topic_names: member.subscribed_topic_names,
        pattern: (member.subscribed_topic_regex).filter(|pattern| !pattern.is_empty()),
        assignment: assigned(member.assignment),
        target: assigned(member.target_assignment),
        kind: if member.member_type == CLASSIC {
            Kind::Classic
        } else {
            Kind::Consumer
        },
    }
}

fn assigned(assignment: Assignment) -> Vec<NamedPartitions> {
    let topics = assignment.topic_partitions.into_iter();
    let topics = topics.map(|topic| NamedPartitions {
        topic_id: topic.topic_id,
        topic_name: topic.topic_name,
        partitions: topic.partitions.into_iter().map(PartitionIndex).collect(),
    });
    topics.collect()
}

/// A group of a list; none of a protocol that this build does not know.
pub(super) fn listed(group: list_groups_response::ListedGroup) -> Option<Listed> {
    let kind = group.group_type.to_ascii_lowercase();
    let state = match kind.as_str() {
        "classic" => GroupState::Classic(ClassicState::named(&group.group_state)?),
        "consumer" => GroupState::Consumer(ConsumerState::named(&group.group_state)?),
        _ => return None,
    };
    Some(Listed {
        group_id: group.group_id,
        state,
        protocol_type: Some(group.protocol_type).filter(|kind| !kind.is_empty()),
    })
}
