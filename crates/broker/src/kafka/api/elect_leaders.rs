//! ElectLeaders: the preferred leader, or any leader where there is none (KIP-183, KIP-460).

use meta::Record;
use meta::decide::elect_leaders::{ElectError, Elected, Election};
use wire::ErrorCode;
use wire::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use wire::messages::{ElectLeadersRequest, ElectLeadersResponse};

use super::refusal;
use crate::asker::access::Resource;
use crate::ops::cluster;
use crate::ops::view::View;
use security::authorize::Operation;

#[must_use]
pub(crate) fn handle(
    request: &ElectLeadersRequest,
    view: &View<'_>,
) -> (Vec<Record>, ElectLeadersResponse) {
    let asked: Option<Vec<(String, Vec<i32>)>> = request.topic_partitions.as_ref().map(|topics| {
        let one = |topic: &wire::messages::elect_leaders_request::TopicPartitions| {
            (topic.topic.clone(), topic.partitions.clone())
        };
        topics.iter().map(one).collect()
    });
    let Some(election) = Election::from_wire(request.election_type) else {
        let words = format!("Unknown election type {}", request.election_type);
        let response = refused(ErrorCode::InvalidRequest, &words, asked);
        return (Vec::new(), response);
    };
    let granted = match view.asker.grant(Operation::Alter, Resource::CLUSTER) {
        Ok(granted) => granted,
        Err(code) => return (Vec::new(), refused(code, code.message(), asked)),
    };
    let (records, elected) = cluster::elect(view, granted, election, asked.as_deref());
    let of_topic = |(topic, elected): (String, Vec<Elected>)| ReplicaElectionResult {
        topic,
        partition_result: elected
            .into_iter()
            .map(|(partition, answer)| result(partition.0, answer))
            .collect(),
    };
    let response = ElectLeadersResponse {
        replica_election_results: elected.into_iter().map(of_topic).collect(),
        ..ElectLeadersResponse::default()
    };
    (records, response)
}

fn result(partition_id: i32, answer: Result<(), ElectError>) -> PartitionResult {
    let (code, error_message) = match answer {
        Ok(()) => (ErrorCode::None, None),
        Err(error) => (refusal::elect(&error), Some(error.to_string())),
    };
    PartitionResult {
        partition_id,
        error_code: code.code(),
        error_message,
    }
}

/// Refused as a whole, and once more for each partition.
fn refused(
    code: ErrorCode,
    words: &str,
    asked: Option<Vec<(String, Vec<i32>)>>,
) -> ElectLeadersResponse {
    let error_code = code.code();
    let one = |partition_id| PartitionResult {
        partition_id,
        error_code,
        error_message: Some(words.to_owned()),
    };
    let of_topic = |(topic, partitions): (String, Vec<i32>)| ReplicaElectionResult {
        topic,
        partition_result: partitions.into_iter().map(one).collect(),
    };
    ElectLeadersResponse {
        error_code,
        replica_election_results: asked.into_iter().flatten().map(of_topic).collect(),
        ..ElectLeadersResponse::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::api::fixture::Fixture;
    use wire::messages::elect_leaders_request::TopicPartitions;

    fn ask(election_type: i8, asked: Option<(&str, &[i32])>) -> (usize, ElectLeadersResponse) {
        let topic_partitions = asked.map(|(topic, partitions)| {
            vec![TopicPartitions {
                topic: topic.into(),
                partitions: partitions.to_vec(),
            }]
        });
        let request = ElectLeadersRequest {
            election_type,
            topic_partitions,
            timeout_ms: 1000,
        };
        let (records, response) = handle(&request, &Fixture::new("").view());
        (records.len(), response)
    }

    #[test]
    fn codes_are_those_of_kafka_4_3() {
        for (election, asked, codes) in [
            (0, ("t", &[0, 2][..]), &[84, 84][..]),
            (1, ("t", &[0]), &[84]),
            (0, ("t", &[3, -1]), &[3, 3]),
            (0, ("none", &[0]), &[3]),
            (7, ("t", &[0]), &[42]),
        ] {
            let (records, response) = ask(election, Some(asked));
            let results = &response.replica_election_results[0].partition_result;
            let got: Vec<i16> = results.iter().map(|result| result.error_code).collect();
            assert_eq!((got.as_slice(), records), (codes, 0), "{asked:?}");
            assert_eq!(response.error_code, if election == 7 { 42 } else { 0 });
        }
    }

    #[test]
    fn of_all_partitions_those_with_their_leader_are_not_named() {
        let (records, response) = ask(0, None);
        let topics = response.replica_election_results.iter();
        let named: Vec<(&str, usize)> = topics
            .map(|topic| (topic.topic.as_str(), topic.partition_result.len()))
            .collect();
        assert_eq!((records, named), (0, vec![("a", 0), ("t", 0)]));
    }
}
