//! ConsumerGroupHeartbeat (KIP-848): joins, leaves, reports what a member owns, and brings its next assignment.

use coord::group::ask::{self, ConsumerHeartbeat, Sight, Standing};
use coord::group::{Client, Refusal};
use model::PartitionIndex;
use wire::messages::consumer_group_heartbeat_request::TopicPartitions as ReportedTopic;
use wire::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use wire::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use wire::{ApiKey, ErrorCode, Uuid};

use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::groups;

/// First version whose clients make their member id themselves (KIP-1082).
const OWN_MEMBER_ID_VERSION: i16 = 1;
/// A heartbeat that leaves the rebalance timeout as it was.
const SAME_TIMEOUT: i32 = -1;

pub(crate) fn on_consumer_group_heartbeat(
    call: &mut Call<'_>,
    client: Client,
    request: ConsumerGroupHeartbeatRequest,
) -> Outcome {
    let beat = beat(request, client, call.desk.fresh_uuid(), call.version());
    call.carry_out(groups::consumer_heartbeat, beat, |call, standing| {
        call.reply(ApiKey::ConsumerGroupHeartbeat, &response(standing))
    })
}

fn beat(
    request: ConsumerGroupHeartbeatRequest,
    client: Client,
    fresh: Uuid,
    version: i16,
) -> ConsumerHeartbeat {
    let timeout_ms = request.rebalance_timeout_ms;
    let owned = |topic: ReportedTopic| ask::TopicPartitions {
        topic_id: topic.topic_id,
        partitions: topic.partitions.into_iter().map(PartitionIndex).collect(),
    };
    ConsumerHeartbeat {
        group_id: request.group_id,
        member_id: request.member_id,
        instance_id: request.instance_id,
        member_epoch: request.member_epoch,
        client,
        rack_id: request.rack_id,
        rebalance_timeout_ms: (timeout_ms != SAME_TIMEOUT).then_some(timeout_ms),
        topic_names: request.subscribed_topic_names,
        pattern: request.subscribed_topic_regex,
        sight: Sight::default(),
        assignor: request.server_assignor,
        owned: (request.topic_partitions).map(|topics| topics.into_iter().map(owned).collect()),
        brings_member_id: version >= OWN_MEMBER_ID_VERSION,
        fresh,
    }
}

fn response(
    standing: Result<Result<Standing, Refusal>, ErrorCode>,
) -> ConsumerGroupHeartbeatResponse {
    match standing {
        Ok(Ok(standing)) => ConsumerGroupHeartbeatResponse {
            member_id: Some(standing.member_id),
            member_epoch: standing.member_epoch,
            heartbeat_interval_ms: standing.heartbeat_interval_ms,
            assignment: standing.assignment.map(assignment),
            ..Default::default()
        },
        Ok(Err(refusal)) => ConsumerGroupHeartbeatResponse {
            error_message: Some(refusal.message),
            ..refuse(refusal.code)
        },
        Err(code) => refuse(code),
    }
}

fn assignment(topics: Vec<ask::TopicPartitions>) -> Assignment {
    let topic = |topic: ask::TopicPartitions| TopicPartitions {
        topic_id: topic.topic_id,
        partitions: topic.partitions.into_iter().map(|index| index.0).collect(),
    };
    Assignment {
        topic_partitions: topics.into_iter().map(topic).collect(),
    }
}

fn refuse(code: ErrorCode) -> ConsumerGroupHeartbeatResponse {
    ConsumerGroupHeartbeatResponse {
        error_code: code.code(),
        ..Default::default()
    }
}
