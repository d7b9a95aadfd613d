//! AlterPartition: the leader of partitions asks for other ISRs (KIP-497, KIP-903, KIP-966). The active controller answers.

use meta::decide::alter_partition::{AlterPartitionError, AnswerFor, Member, Proposal};
use model::{BrokerId, LeaderEpoch, PartitionIndex};
use wire::messages::alter_partition_request as asked;
use wire::messages::alter_partition_response::{PartitionData, TopicData};
use wire::messages::{AlterPartitionRequest, AlterPartitionResponse};
use wire::{ApiKey, ErrorCode};

use super::numbers;
use super::overdue::Overdue;
use crate::control::controller::code_of;
use crate::kafka::call::Call;
use crate::net::Outcome;

/// Versions from this one on name members with their broker epochs.
const WITH_EPOCHS: i16 = 3;
/// The leader knows no epoch of the member.
const NO_EPOCH: i64 = -1;

pub(crate) fn on_alter_partition(call: &mut Call<'_>, request: AlterPartitionRequest) -> Outcome {
    let ticket = call.ticket();
    let version = call.version();
    let leader = (BrokerId(request.broker_id), request.broker_epoch);
    let proposals: Vec<Proposal> = proposals(&request, version).collect();
    let decided = (call.desk.shared)
        .metadata
        .alter_partitions(ticket, leader, &proposals);
    call.answer_change(ApiKey::AlterPartition, decided, |answer| {
        match answer.map(|altered| altered.map_err(code_of)) {
            Ok(Ok(answers)) => AlterPartitionResponse {
                topics: topics(&answers),
                ..AlterPartitionResponse::default()
            },
            Ok(Err(code)) | Err(code) => refusal(code),
        }
    })
}

fn refusal(code: ErrorCode) -> AlterPartitionResponse {
    AlterPartitionResponse {
        error_code: code.code(),
        ..AlterPartitionResponse::default()
    }
}

fn proposals(request: &AlterPartitionRequest, version: i16) -> impl Iterator<Item = Proposal> + '_ {
    (request.topics.iter()).flat_map(move |topic| {
        let partitions = topic.partitions.iter();
        partitions.map(move |partition| Proposal {
            topic: topic.topic_id,
            partition: PartitionIndex(partition.partition_index),
            leader_epoch: LeaderEpoch(partition.leader_epoch),
            partition_epoch: partition.partition_epoch,
            isr: isr(partition, version),
            is_recovering: partition.leader_recovery_state != 0,
        })
    })
}

fn isr(partition: &asked::PartitionData, version: i16) -> Vec<Member> {
    if version < WITH_EPOCHS {
        let members = partition.new_isr.iter();
        let member = |id: &i32| Member {
            broker: BrokerId(*id),
            epoch: None,
        };
        return members.map(member).collect();
    }
    let members = partition.new_isr_with_epochs.iter();
    let member = |member: &asked::BrokerState| Member {
        broker: BrokerId(member.broker_id),
        epoch: (member.broker_epoch != NO_EPOCH).then_some(member.broker_epoch),
    };
    members.map(member).collect()
}

/// Answers to partitions of one topic are next to each other, as they were asked for.
fn topics(answers: &[AnswerFor]) -> Vec<TopicData> {
    let of_one_topic = answers.chunk_by(|one, next| one.0 == next.0);
    let topic = |answers: &[AnswerFor]| TopicData {
        topic_id: answers.first().map(|first| first.0).unwrap_or_default(),
        partitions: answers.iter().map(partition).collect(),
    };
    of_one_topic.map(topic).collect()
}

fn partition((_, index, answer): &AnswerFor) -> PartitionData {
    match answer {
        Ok(altered) => PartitionData {
            partition_index: index.0,
            leader_id: altered.leader.0,
            leader_epoch: altered.leader_epoch.0,
            isr: numbers(&altered.isr),
            leader_recovery_state: i8::from(altered.is_recovering),
            partition_epoch: altered.partition_epoch,
            ..PartitionData::default()
        },
        Err(error) => PartitionData {
            partition_index: index.0,
            error_code: code(*error).code(),
            ..PartitionData::default()
        },
    }
}

fn code(error: AlterPartitionError) -> ErrorCode {
    match error {
        AlterPartitionError::UnknownTopic => ErrorCode::UnknownTopicId,
        AlterPartitionError::UnknownPartition => ErrorCode::UnknownTopicOrPartition,
        AlterPartitionError::NotController => ErrorCode::NotController,
        AlterPartitionError::FencedLeaderEpoch => ErrorCode::FencedLeaderEpoch,
        AlterPartitionError::InvalidRequest => ErrorCode::InvalidRequest,
        AlterPartitionError::InvalidUpdateVersion => ErrorCode::InvalidUpdateVersion,
        AlterPartitionError::IneligibleReplica => ErrorCode::IneligibleReplica,
        AlterPartitionError::NewLeaderElected => ErrorCode::NewLeaderElected,
    }
}

impl Overdue for AlterPartitionResponse {
    fn time_out(&mut self) {
        *self = refusal(ErrorCode::RequestTimedOut);
    }
}

#[cfg(test)]
mod tests {
    use meta::decide::alter_partition::Altered;
    use wire::Uuid;

    use super::*;

    fn request(isr: &[(i32, i64)]) -> AlterPartitionRequest {
        let members = isr
            .iter()
            .map(|(broker_id, broker_epoch)| asked::BrokerState {
                broker_id: *broker_id,
                broker_epoch: *broker_epoch,
            });
        AlterPartitionRequest {
            topics: vec![asked::TopicData {
                topic_id: Uuid([7; 16]),
                partitions: vec![asked::PartitionData {
                    partition_index: 2,
                    leader_epoch: 5,
                    new_isr: isr.iter().map(|(broker_id, _)| *broker_id).collect(),
                    new_isr_with_epochs: members.collect(),
                    leader_recovery_state: 0,
                    partition_epoch: 9,
                }],
            }],
            ..AlterPartitionRequest::default()
        }
    }

    /// A request of version 2 has no epochs, one of version 3 no bare ids.
    #[test]
    fn members_are_read_from_the_field_of_the_version() {
        let request = request(&[(1, 40), (3, NO_EPOCH)]);
        let isr = |version| {
            let proposal = proposals(&request, version).next().expect("there is one");
            let members = proposal.isr.into_iter();
            let members = members.map(|member| (member.broker.0, member.epoch));
            members.collect::<Vec<_>>()
        };
        assert_eq!(isr(2), [(1, None), (3, None)]);
        assert_eq!(isr(3), [(1, Some(40)), (3, None)]);
    }

    #[test]
    fn answers_come_by_topic_in_the_order_of_the_request() {
        let (one, two) = (Uuid([1; 16]), Uuid([2; 16]));
        let altered = Altered {
            leader: BrokerId(3),
            leader_epoch: LeaderEpoch(4),
            isr: vec![BrokerId(3), BrokerId(1)],
            is_recovering: false,
            partition_epoch: 6,
        };
        let fenced = AlterPartitionError::FencedLeaderEpoch;
        let answers = [
            (one, PartitionIndex(1), Ok(altered)),
            (one, PartitionIndex(0), Err(fenced)),
            (
                two,
                PartitionIndex(0),
                Err(AlterPartitionError::UnknownTopic),
            ),
        ];
        let topics = topics(&answers);
        let ids: Vec<Uuid> = topics.iter().map(|topic| topic.topic_id).collect();
        assert_eq!(ids, [one, two]);
        let [done, refused] = topics[0].partitions.as_slice() else {
            panic!("two were asked for");
        };
        assert_eq!((done.partition_index, done.error_code), (1, 0));
        assert_eq!((done.leader_id, done.leader_epoch), (3, 4));
        assert_eq!(
            (done.isr.as_slice(), done.partition_epoch),
            (&[3, 1][..], 6)
        );
        let code = ErrorCode::FencedLeaderEpoch.code();
        assert_eq!((refused.partition_index, refused.error_code), (0, code));
        let code = ErrorCode::UnknownTopicId.code();
        assert_eq!(topics[1].partitions[0].error_code, code);
    }
}
