//! AlterPartitionReassignments: other replicas for partitions, or the end of a move (KIP-455, KIP-860).

use meta::Record;
use meta::decide::reassign::{ReassignError, Reassigned, Target, reassign};
use wire::ErrorCode;
use wire::messages::alter_partition_reassignments_request::ReassignableTopic;
use wire::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use wire::messages::{AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse};

use super::refusal;
use crate::ops::view::View;

#[must_use]
pub(crate) fn handle(
    request: &AlterPartitionReassignmentsRequest,
    view: &View<'_>,
) -> (Vec<Record>, AlterPartitionReassignmentsResponse) {
    let of_topic = |topic: &ReassignableTopic| {
        let targets = topic.partitions.iter().map(|partition| Target {
            partition: partition.partition_index,
            replicas: partition.replicas.clone(),
        });
        (topic.name.clone(), targets.collect())
    };
    let topics: Vec<(String, Vec<Target>)> = request.topics.iter().map(of_topic).collect();
    let may_change_factor = request.allow_replication_factor_change;
    let decided = reassign(view.image, view.broker, &topics, may_change_factor);
    let response = |(name, reassigned): (String, Vec<Reassigned>)| ReassignableTopicResponse {
        name,
        partitions: reassigned
            .into_iter()
            .map(|(partition, answer)| result(partition.0, answer))
            .collect(),
    };
    let response = AlterPartitionReassignmentsResponse {
        allow_replication_factor_change: may_change_factor,
        error_message: None,
        responses: decided.answers.into_iter().map(response).collect(),
        ..AlterPartitionReassignmentsResponse::default()
    };
    (decided.records, response)
}

fn result(
    partition_index: i32,
    answer: Result<(), ReassignError>,
) -> ReassignablePartitionResponse {
    let (code, error_message) = match answer {
        Ok(()) => (ErrorCode::None, None),
        Err(error) => (refusal::reassign(&error), Some(error.to_string())),
    };
    ReassignablePartitionResponse {
        partition_index,
        error_code: code.code(),
        error_message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::api::fixture::Fixture;
    use wire::messages::alter_partition_reassignments_request::ReassignablePartition;

    #[test]
    fn codes_are_those_of_kafka_4_3() {
        let fixture = Fixture::new("");
        let code = |name: &str, partition_index, replicas: Option<&[i32]>, may_change| {
            let partition = ReassignablePartition {
                partition_index,
                replicas: replicas.map(<[i32]>::to_vec),
            };
            let topic = ReassignableTopic {
                name: name.into(),
                partitions: vec![partition],
            };
            let request = AlterPartitionReassignmentsRequest {
                allow_replication_factor_change: may_change,
                topics: vec![topic],
                ..Default::default()
            };
            let (records, response) = handle(&request, &fixture.view());
            assert_eq!(records, [], "it is there, or refused");
            assert_eq!(response.error_code, 0);
            response.responses[0].partitions[0].error_code
        };
        assert_eq!(code("t", 0, Some(&[1]), true), 0);
        assert_eq!(code("t", 0, Some(&[1]), false), 0);
        assert_eq!(code("t", 0, Some(&[2]), true), 39);
        assert_eq!(code("t", 0, Some(&[1, 1]), true), 39);
        assert_eq!(code("t", 0, Some(&[-1]), true), 39);
        assert_eq!(code("t", 0, Some(&[]), true), 39);
        assert_eq!(code("t", 0, None, true), 85);
        assert_eq!(code("t", 3, Some(&[1]), true), 3);
        assert_eq!(code("t", -1, None, true), 3);
        assert_eq!(code("none", 0, Some(&[1]), true), 3);
    }
}
