//! OffsetCommit: how far a group has read. Answered when that is durable.

use coord::group::ask::{Commit, CommitPartition, CommitTopic, TopicKey};
use model::{LeaderEpoch, Offset, PartitionIndex};
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use wire::messages::{OffsetCommitRequest, OffsetCommitResponse};
use wire::{ApiKey, ErrorCode};

use super::group::code;
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::offsets::{self, Results};

/// First version whose members may belong to a KIP-848 group.
const MEMBER_EPOCH_VERSION: i16 = 9;
/// First version that names topics by their ids.
const IDS_VERSION: i16 = 10;
/// The offsets stay as long as the group says.
const NO_RETENTION: i64 = -1;

pub(crate) fn on_offset_commit(call: &mut Call<'_>, request: OffsetCommitRequest) -> Outcome {
    let unanswered = request.topics.iter().map(unanswered).collect();
    let commit = commit(request, call.version());
    call.carry_out(offsets::commit, commit, move |call, results| {
        let response = response(results, unanswered);
        call.reply(ApiKey::OffsetCommit, &response)
    })
}

/// The answer for a topic, without results.
fn unanswered(topic: &OffsetCommitRequestTopic) -> OffsetCommitResponseTopic {
    let partition = |asked: &OffsetCommitRequestPartition| OffsetCommitResponsePartition {
        partition_index: asked.partition_index,
        error_code: 0,
    };
    OffsetCommitResponseTopic {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partitions: topic.partitions.iter().map(partition).collect(),
    }
}

fn commit(request: OffsetCommitRequest, version: i16) -> Commit {
    let retention_ms = request.retention_time_ms;
    let topic = |topic: OffsetCommitRequestTopic| CommitTopic {
        topic: if version >= IDS_VERSION {
            TopicKey::Id(topic.topic_id)
        } else {
            TopicKey::Name(topic.name)
        },
        partitions: topic.partitions.into_iter().map(partition).collect(),
    };
    Commit {
        group_id: request.group_id,
        member_id: request.member_id,
        instance_id: request.group_instance_id,
        generation: request.generation_id_or_member_epoch,
        knows_member_epochs: version >= MEMBER_EPOCH_VERSION,
        retention_ms: (retention_ms != NO_RETENTION).then_some(retention_ms),
        topics: request.topics.into_iter().map(topic).collect(),
    }
}

fn partition(asked: OffsetCommitRequestPartition) -> CommitPartition {
    CommitPartition {
        index: PartitionIndex(asked.partition_index),
        offset: Offset(asked.committed_offset),
        leader_epoch: LeaderEpoch(asked.committed_leader_epoch),
        metadata: asked.committed_metadata.unwrap_or_default(),
    }
}

fn is_denied(partition: &OffsetCommitResponsePartition) -> bool {
    partition.error_code == ErrorCode::TopicAuthorizationFailed.code()
}

fn response(
    results: Result<Results, ErrorCode>,
    mut topics: Vec<OffsetCommitResponseTopic>,
) -> OffsetCommitResponse {
    let partitions = topics.iter_mut().flat_map(|topic| &mut topic.partitions);
    match results {
        Ok(results) => {
            for (partition, result) in partitions.zip(results) {
                partition.error_code = code(result);
            }
            // Topics that the asker may not read come first.
            topics.sort_by_key(|topic| !topic.partitions.iter().any(is_denied));
        }
        Err(code) => partitions.for_each(|partition| partition.error_code = code.code()),
    }
    OffsetCommitResponse {
        topics,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use wire::Uuid;

    use super::*;

    fn request() -> OffsetCommitRequest {
        let topic = |name: &str, partitions| OffsetCommitRequestTopic {
            name: name.to_owned(),
            topic_id: Uuid([7; 16]),
            partitions: (0..partitions)
                .map(|partition_index| OffsetCommitRequestPartition {
                    partition_index,
                    ..Default::default()
                })
                .collect(),
        };
        OffsetCommitRequest {
            topics: vec![topic("t", 2), topic("u", 1)],
            ..Default::default()
        }
    }

    #[test]
    fn a_list_of_partitions_is_converted_in_its_place() {
        let request = request();
        let partitions = request.topics[0].partitions.as_ptr();
        let commit = commit(request, 9);
        assert_eq!(commit.topics[0].partitions.as_ptr().cast(), partitions);
    }

    #[test]
    fn topics_are_named_by_their_ids_since_these_are_sent() {
        let key = |version| commit(request(), version).topics[0].topic.clone();
        assert_eq!(key(9), TopicKey::Name("t".to_owned()));
        assert_eq!(key(10), TopicKey::Id(Uuid([7; 16])));
    }

    #[test]
    fn each_partition_has_its_own_result_or_that_of_all() {
        let codes = |told| {
            let unanswered = request().topics.iter().map(unanswered).collect();
            let response = response(told, unanswered);
            let codes = |topic: OffsetCommitResponseTopic| {
                let partitions = topic.partitions.into_iter();
                let codes = partitions.map(|partition| partition.error_code);
                (topic.name, codes.collect::<Vec<_>>())
            };
            response.topics.into_iter().map(codes).collect::<Vec<_>>()
        };
        let unknown = ErrorCode::UnknownTopicOrPartition;
        let results = vec![Ok(()), Err(unknown), Ok(())];
        let own = codes(Ok(results));
        assert_eq!(own[0], ("t".to_owned(), vec![0, unknown.code()]));
        assert_eq!(own[1], ("u".to_owned(), vec![0]));
        let loading = ErrorCode::CoordinatorLoadInProgress;
        assert_eq!(codes(Err(loading))[0].1, [loading.code(); 2]);
    }
}
