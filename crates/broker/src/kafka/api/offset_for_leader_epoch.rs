//! OffsetForLeaderEpoch: where an epoch ended, so that a reader sees whether its log forked (KIP-101, KIP-320).

use model::LeaderEpoch;
use partition::Partition;
use wire::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use wire::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use wire::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
use wire::{ApiKey, ErrorCode};

use crate::error;
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::topics::Absent;

const UNKNOWN: i32 = -1;

pub(crate) fn on_offset_for_leader_epoch(
    call: &mut Call<'_>,
    request: OffsetForLeaderEpochRequest,
) -> Outcome {
    let topics = call.desk.topics();
    let topics = request
        .topics
        .iter()
        .map(|topic| OffsetForLeaderTopicResult {
            topic: topic.topic.clone(),
            partitions: topic
                .partitions
                .iter()
                .map(|asked| {
                    let found = topics.partition(&topic.topic, asked.partition);
                    end_of(found.map(|partition| &**partition), asked)
                })
                .collect(),
        })
        .collect();
    let response = OffsetForLeaderEpochResponse {
        topics,
        ..Default::default()
    };
    call.reply(ApiKey::OffsetForLeaderEpoch, &response)
}

fn end_of(
    partition: Result<&Partition, Absent>,
    asked: &OffsetForLeaderPartition,
) -> EpochEndOffset {
    let refused = |code: ErrorCode| EpochEndOffset {
        error_code: code.code(),
        partition: asked.partition,
        leader_epoch: UNKNOWN,
        end_offset: i64::from(UNKNOWN),
    };
    let partition = match partition {
        Ok(partition) => partition,
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
