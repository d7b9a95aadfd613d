//! CreatePartitions: more partitions for topics (KIP-195).

use meta::Record;
use meta::decide::create_partitions::{CreatePartitionsError, Growth};
use wire::ErrorCode;
use wire::messages::create_partitions_response::CreatePartitionsTopicResult;
use wire::messages::{CreatePartitionsRequest, CreatePartitionsResponse};

use super::refusal::{self, TOPIC};
use crate::ops::view::View;
use crate::ops::{Mode, Refused, topics};

#[must_use]
pub(crate) fn handle(
    request: &CreatePartitionsRequest,
    view: &View<'_>,
) -> (Vec<Record>, CreatePartitionsResponse) {
    let growth =
        |topic: &wire::messages::create_partitions_request::CreatePartitionsTopic| Growth {
            name: topic.name.clone(),
            count: topic.count,
            assignments: topic
                .assignments
                .as_ref()
                .map(|all| all.iter().map(|one| one.broker_ids.clone()).collect()),
        };
    let growths: Vec<Growth> = request.topics.iter().map(growth).collect();
    let mode = Mode::validate_if(request.validate_only);
    let (records, answers) = topics::grow(view, growths, mode);
    let results = answers
        .into_iter()
        .map(|(name, answer)| result(name, answer))
        .collect();
    (
        records,
        CreatePartitionsResponse {
            results,
            ..CreatePartitionsResponse::default()
        },
    )
}

fn result(
    name: String,
    answer: Result<(), Refused<CreatePartitionsError>>,
) -> CreatePartitionsTopicResult {
    let (error_code, error_message) = match answer {
        Ok(()) => (ErrorCode::None, None),
        Err(refused) => (
            refusal::of(&refused, TOPIC, refusal::create_partitions),
            refusal::message(&refused),
        ),
    };
    CreatePartitionsTopicResult {
        name,
        error_code: error_code.code(),
        error_message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::api::fixture::Fixture;
    use wire::messages::create_partitions_request::{
        CreatePartitionsAssignment, CreatePartitionsTopic,
    };

    #[test]
    fn codes_are_those_of_kafka_4_3() {
        let fixture = Fixture::new("");
        let ask = |name: &str, count, brokers: Option<&[i32]>, validate_only| {
            let assignments = brokers.map(|ids| {
                vec![CreatePartitionsAssignment {
                    broker_ids: ids.to_vec(),
                }]
            });
            let topics = vec![CreatePartitionsTopic {
                name: name.into(),
                count,
                assignments,
            }];
            let (records, response) = handle(
                &CreatePartitionsRequest {
                    topics,
                    validate_only,
                    ..Default::default()
                },
                &fixture.view(),
            );
            (response.results[0].error_code, records.len())
        };
        assert_eq!(ask("t", 5, None, false), (0, 2));
        assert_eq!(ask("t", 5, None, true), (0, 0));
        assert_eq!(ask("t", 3, None, false), (37, 0));
        assert_eq!(ask("t", 0, None, false), (37, 0));
        assert_eq!(ask("none", 3, None, false), (3, 0));
        assert_eq!(ask("t", 5, Some(&[1]), false), (39, 0));
        assert_eq!(ask("t", 4, Some(&[1]), false), (0, 1));
        assert_eq!(ask("t", 4, Some(&[2]), false), (39, 0));
        assert_eq!(ask("t", 100_000, None, false), (44, 0));
    }
}
