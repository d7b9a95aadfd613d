//! OffsetForLeaderEpoch: where an epoch ended, so that a reader sees whether its log forked (KIP-101, KIP-320).

use model::LeaderEpoch;
use wire::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use wire::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use wire::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
use wire::{ApiKey, ErrorCode, Uuid};

use crate::asker::access::Resource;
use crate::error;
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::guard::{Closed, Opened};
use crate::topics::{Absent, Topic};
use security::authorize::Operation;

const UNKNOWN: i32 = -1;

pub(crate) fn on_offset_for_leader_epoch(
    call: &mut Call<'_>,
    request: OffsetForLeaderEpochRequest,
) -> Outcome {
    let topics = call.desk.topics();
    let node = (call.asker).grant(Operation::ClusterAction, Resource::CLUSTER);
    let (mut results, mut hidden) = (Vec::new(), Vec::new());
    for topic in &request.topics {
        let opened = match &node {
            Ok(node) => {
                let topic = topics.named(&topic.topic);
                topic
                    .map(|topic| Opened::for_node(*node, topic))
                    .ok_or(Closed::UnknownName)
            }
            Err(_) => {
                let by_name = (Uuid::ZERO, topic.topic.as_str());
                Opened::find(&topics, &call.asker, Operation::Describe, by_name)
            }
        };
        let end = |asked| end_of(opened, asked);
        let result = OffsetForLeaderTopicResult {
            topic: topic.topic.clone(),
            partitions: topic.partitions.iter().map(end).collect(),
        };
        match opened {
            Err(Closed::Unauthorised) => hidden.push(result),
            _ => results.push(result),
        }
    }
    results.append(&mut hidden);
    let response = OffsetForLeaderEpochResponse {
        topics: results,
        ..Default::default()
    };
    call.reply(ApiKey::OffsetForLeaderEpoch, &response)
}

fn end_of(
    topic: Result<Opened<'_, Topic>, Closed>,
    asked: &OffsetForLeaderPartition,
) -> EpochEndOffset {
    let refused = |code: ErrorCode| EpochEndOffset {
        error_code: code.code(),
        partition: asked.partition,
        leader_epoch: UNKNOWN,
        end_offset: i64::from(UNKNOWN),
    };
    let partition = match topic {
        Ok(topic) => topic.partition(asked.partition),
        Err(Closed::Unauthorised) => return refused(ErrorCode::TopicAuthorizationFailed),
        Err(Closed::UnknownName | Closed::UnknownId) => Err(Absent::Unknown),
    };
    let partition = match partition {
        Ok(partition) => partition.get(Operation::Describe),
        Err(why) => return refused(error::absent(why)),
    };
    if let Err(error) = partition.check_epoch(LeaderEpoch(asked.current_leader_epoch)) {
        return refused(error::read(&error));
    }
    let (epoch, end) = partition.end_for_epoch(LeaderEpoch(asked.leader_epoch));
    EpochEndOffset {
        error_code: 0,
        partition: asked.partition,
        leader_epoch: epoch.0,
        end_offset: end.0,
    }
}
