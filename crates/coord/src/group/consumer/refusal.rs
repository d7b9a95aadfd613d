//! Why a request to a consumer group is refused, and what is wrong with a heartbeat in itself.

use wire::ErrorCode;
use wire::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};

use super::Settings;
use super::assignor::Assignor;
use super::member::{JOIN, LEAVE, LEAVE_STATIC};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: ErrorCode,
    /// For the person who reads the client's log.
    pub message: String,
}

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

    #[must_use]
    pub fn into_response(self) -> ConsumerGroupHeartbeatResponse {
        ConsumerGroupHeartbeatResponse {
            error_code: self.code.code(),
            error_message: Some(self.message),
            ..ConsumerGroupHeartbeatResponse::default()
        }
    }
}

/// What no group could accept.
pub fn check(
    request: &ConsumerGroupHeartbeatRequest,
    brings_member_id: bool,
    settings: &Settings,
) -> Result<(), Refusal> {
    let demand = |holds: bool, message: &str| {
        holds
            .then_some(())
            .ok_or_else(|| Refusal::new(ErrorCode::InvalidRequest, message))
    };
    let given = |text: &Option<String>| text.as_ref().is_none_or(|text| !text.trim().is_empty());
    let epoch = request.member_epoch;

    demand(
        !request.member_id.trim().is_empty() || (!brings_member_id && epoch == JOIN),
        "MemberId can't be empty.",
    )?;
    demand(
        !request.group_id.trim().is_empty(),
        "GroupId can't be empty.",
    )?;
    demand(given(&request.instance_id), "InstanceId can't be empty.")?;
    demand(given(&request.rack_id), "RackId can't be empty.")?;
    match epoch {
        JOIN => {
            demand(
                request.rebalance_timeout_ms != -1,
                "RebalanceTimeoutMs must be provided in first request.",
            )?;
            demand(
                (request.topic_partitions.as_ref()).is_some_and(Vec::is_empty),
                "TopicPartitions must be empty when (re-)joining.",
            )?;
            // An empty list is a subscription to nothing, and welcome.
            demand(
                request.subscribed_topic_names.is_some()
                    || request.subscribed_topic_regex.is_some(),
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
            )?;
        }
        LEAVE_STATIC => demand(request.instance_id.is_some(), "InstanceId can't be null.")?,
        _ => demand(LEAVE <= epoch, "MemberEpoch is invalid.")?,
    }
    match &request.server_assignor {
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
