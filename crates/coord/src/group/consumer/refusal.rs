//! Why an ask of a consumer group is refused, and what is wrong with a heartbeat in itself.

use wire::ErrorCode;

use super::Settings;
use super::assignor::Assignor;
use super::member::{JOIN, LEAVE, LEAVE_STATIC};
use crate::group::ask::{ConsumerHeartbeat, Refusal};

impl Refusal {
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Refusal {
            code,
            message: message.into(),
        }
    }

    pub(super) fn unknown_member(member: &str, group: &str) -> Self {
        Refusal::new(
            ErrorCode::UnknownMemberId,
            format!("Member {member} is not a member of group {group}."),
        )
    }

    pub(super) fn no_group(group: &str) -> Self {
        Refusal::new(
            ErrorCode::GroupIdNotFound,
            format!("Consumer group {group} not found."),
        )
    }
}

/// The requests that no group could accept.
pub fn check(beat: &ConsumerHeartbeat, settings: &Settings) -> Result<(), Refusal> {
    let demand = |holds: bool, message: &str| {
        holds
            .then_some(())
            .ok_or_else(|| Refusal::new(ErrorCode::InvalidRequest, message))
    };
    let given = |text: &Option<String>| text.as_ref().is_none_or(|text| !text.trim().is_empty());
    let epoch = beat.member_epoch;

    demand(
        !beat.member_id.trim().is_empty() || (!beat.brings_member_id && epoch == JOIN),
        "MemberId can't be empty.",
    )?;
    demand(!beat.group_id.trim().is_empty(), "GroupId can't be empty.")?;
    demand(given(&beat.instance_id), "InstanceId can't be empty.")?;
    demand(given(&beat.rack_id), "RackId can't be empty.")?;
    match epoch {
        JOIN => {
            demand(
                beat.rebalance_timeout_ms.is_some(),
                "RebalanceTimeoutMs must be provided in first request.",
            )?;
            demand(
                (beat.owned.as_ref()).is_some_and(Vec::is_empty),
                "TopicPartitions must be empty when (re-)joining.",
            )?;
            // An empty list is a subscription to nothing, and welcome.
            demand(
                beat.topic_names.is_some() || beat.pattern.is_some(),
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
            )?;
        }
        LEAVE_STATIC => demand(beat.instance_id.is_some(), "InstanceId can't be null.")?,
        _ => demand(LEAVE <= epoch, "MemberEpoch is invalid.")?,
    }
    match &beat.assignor {
        Some(name) if !supports(settings, name) => {
            let names: Vec<_> = settings.assignors.iter().map(|it| it.name()).collect();
            Err(Refusal::new(
                ErrorCode::UnsupportedAssignor,
                format!(
                    "ServerAssignor {name} is not supported. Supported assignors: {}.",
                    names.join(", ")
                ),
            ))
        }
        _ => Ok(()),
    }
}

fn supports(settings: &Settings, name: &str) -> bool {
    Assignor::named(name).is_some_and(|assignor| settings.assignors.contains(&assignor))
}
