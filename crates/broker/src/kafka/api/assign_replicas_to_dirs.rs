//! AssignReplicasToDirs: a broker says which of its log directories have which replicas (KIP-858). The active controller answers.

use meta::decide::assign_dirs::{AssignDirError, AssignDirsError, Assignment};
use model::{BrokerId, PartitionIndex};
use wire::messages::assign_replicas_to_dirs_response::{DirectoryData, PartitionData, TopicData};
use wire::messages::{AssignReplicasToDirsRequest, AssignReplicasToDirsResponse};
use wire::{ApiKey, ErrorCode};

use super::overdue::Overdue;
use crate::control::controller::code_of;
use crate::kafka::call::Call;
use crate::net::Outcome;

type Answer = Result<(), AssignDirError>;

pub(crate) fn on_assign(call: &mut Call<'_>, request: AssignReplicasToDirsRequest) -> Outcome {
    let ticket = call.ticket();
    let broker = (BrokerId(request.broker_id), request.broker_epoch);
    let assignments: Vec<Assignment> = assignments(&request).collect();
    let decided = (call.desk.shared)
        .metadata
        .assign_dirs(ticket, broker, &assignments);
    call.answer_change(ApiKey::AssignReplicasToDirs, decided, |answer| match answer
        .map(|decided| decided.map_err(refused_with))
    {
        Ok(Ok(answers)) => AssignReplicasToDirsResponse {
            directories: directories(&assignments, &answers),
            ..AssignReplicasToDirsResponse::default()
        },
        Ok(Err(code)) | Err(code) => refusal(code),
    })
}

fn refusal(code: ErrorCode) -> AssignReplicasToDirsResponse {
    AssignReplicasToDirsResponse {
        error_code: code.code(),
        ..AssignReplicasToDirsResponse::default()
    }
}

fn refused_with(error: AssignDirsError) -> ErrorCode {
    match error {
        AssignDirsError::Unsupported => ErrorCode::UnsupportedVersion,
        AssignDirsError::Epoch(error) => code_of(error),
    }
}

fn assignments(request: &AssignReplicasToDirsRequest) -> impl Iterator<Item = Assignment> + '_ {
    (request.directories.iter()).flat_map(|dir| {
        (dir.topics.iter()).flat_map(|topic| {
            topic.partitions.iter().map(|partition| Assignment {
                dir: dir.id,
                topic: topic.topic_id,
                partition: PartitionIndex(partition.partition_index),
            })
        })
    })
}

/// Assignments to one directory, and of one topic, are next to each other, as they were asked for.
fn directories(assignments: &[Assignment], answers: &[Answer]) -> Vec<DirectoryData> {
    let answered: Vec<_> = assignments.iter().zip(answers).collect();
    let to_one_dir = answered.chunk_by(|one, next| one.0.dir == next.0.dir);
    let directory = |answered: &[(&Assignment, &Answer)]| DirectoryData {
        id: answered.first().map(|of| of.0.dir).unwrap_or_default(),
        topics: (answered.chunk_by(|one, next| one.0.topic == next.0.topic))
            .map(topic)
            .collect(),
    };
    to_one_dir.map(directory).collect()
}

fn topic(answered: &[(&Assignment, &Answer)]) -> TopicData {
    let partition = |(assignment, answer): &(&Assignment, &Answer)| PartitionData {
        partition_index: assignment.partition.0,
        error_code: answer.map_or_else(code, |()| ErrorCode::None).code(),
    };
    TopicData {
        topic_id: answered.first().map(|of| of.0.topic).unwrap_or_default(),
        partitions: answered.iter().map(partition).collect(),
    }
}

fn code(error: AssignDirError) -> ErrorCode {
    match error {
        AssignDirError::UnknownTopic => ErrorCode::UnknownTopicId,
        AssignDirError::UnknownPartition => ErrorCode::UnknownTopicOrPartition,
        AssignDirError::NotReplica => ErrorCode::NotLeaderOrFollower,
    }
}

impl Overdue for AssignReplicasToDirsResponse {
    fn time_out(&mut self) {
        *self = refusal(ErrorCode::RequestTimedOut);
    }
}

#[cfg(test)]
mod tests {
    use wire::Uuid;
    use wire::messages::assign_replicas_to_dirs_request as asked;

    use super::*;

    #[test]
    fn answers_come_by_directory_and_topic_in_the_order_of_the_request() {
        let id = |number| Uuid([number; 16]);
        let topic = |number, partitions: &[i32]| asked::TopicData {
            topic_id: id(number),
            partitions: (partitions.iter())
                .map(|index| asked::PartitionData {
                    partition_index: *index,
                })
                .collect(),
        };
        let directory = |number, topics| asked::DirectoryData {
            id: id(number),
            topics,
        };
        let request = AssignReplicasToDirsRequest {
            directories: vec![
                directory(101, vec![topic(1, &[3, 4]), topic(2, &[0])]),
                directory(102, vec![topic(1, &[5])]),
            ],
            ..AssignReplicasToDirsRequest::default()
        };
        let assignments: Vec<Assignment> = assignments(&request).collect();
        let answers = [
            Ok(()),
            Err(AssignDirError::NotReplica),
            Err(AssignDirError::UnknownTopic),
            Err(AssignDirError::UnknownPartition),
        ];
        let flat: Vec<(Uuid, Uuid, i32, i16)> = (directories(&assignments, &answers).iter())
            .flat_map(|dir| {
                let of_topic = |topic: &TopicData| {
                    let partitions = topic.partitions.iter();
                    let id = topic.topic_id;
                    let row = |of: &PartitionData| (dir.id, id, of.partition_index, of.error_code);
                    partitions.map(row).collect::<Vec<_>>()
                };
                dir.topics.iter().flat_map(of_topic).collect::<Vec<_>>()
            })
            .collect();
        let expected = [
            (id(101), id(1), 3, 0),
            (id(101), id(1), 4, 6),
            (id(101), id(2), 0, 100),
            (id(102), id(1), 5, 3),
        ];
        assert_eq!(flat, expected);
    }
}
