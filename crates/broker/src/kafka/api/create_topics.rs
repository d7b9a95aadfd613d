//! CreateTopics: new topics, or whether they could be created (KIP-4, KIP-525).

use config::Description;
use meta::Record;
use meta::decide::Uuids;
use meta::decide::create_topics::{CreateTopicError, NewTopic};
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use wire::messages::{CreateTopicsRequest, CreateTopicsResponse};

use super::refusal::{self, TOPIC};
use crate::ops::topics::Created;
use crate::ops::view::View;
use crate::ops::{Mode, Refused, topics};

/// The records to write, and the answer to give when they are durable.
#[must_use]
pub(crate) fn handle(
    request: &CreateTopicsRequest,
    view: &View<'_>,
    uuids: &mut dyn Uuids,
) -> (Vec<Record>, CreateTopicsResponse) {
    let topics: Vec<NewTopic> = request.topics.iter().map(wanted).collect();
    let mode = Mode::validate_if(request.validate_only);
    let (records, answers) = topics::create(view, topics, mode, uuids);
    let topics = answers
        .into_iter()
        .map(|(name, answer)| result(name, answer, view.broker))
        .collect();
    (
        records,
        CreateTopicsResponse {
            topics,
            ..CreateTopicsResponse::default()
        },
    )
}

fn wanted(topic: &CreatableTopic) -> NewTopic {
    NewTopic {
        name: topic.name.clone(),
        partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: topic
            .assignments
            .iter()
            .map(|one| (one.partition_index, one.broker_ids.clone()))
            .collect(),
        settings: topic
            .configs
            .iter()
            .map(|config| (config.name.clone(), config.value.clone()))
            .collect(),
    }
}

fn result(
    name: String,
    answer: Result<Created, Refused<CreateTopicError>>,
    broker: &config::Broker,
) -> CreatableTopicResult {
    match answer {
        Ok(Created {
            id,
            seen: Ok(topic),
        }) => CreatableTopicResult {
            name,
            topic_id: id,
            error_message: None,
            num_partitions: topic.partitions,
            replication_factor: topic.replication_factor,
            configs: Some(
                broker
                    .describe_topic(&topic.overrides)
                    .into_iter()
                    .map(setting)
                    .collect(),
            ),
            ..CreatableTopicResult::default()
        },
        Ok(Created {
            id,
            seen: Err(code),
        }) => CreatableTopicResult {
            name,
            topic_id: id,
            topic_config_error_code: code.code(),
            num_partitions: -1,
            replication_factor: -1,
            configs: Some(Vec::new()),
            ..CreatableTopicResult::default()
        },
        Err(refused) => CreatableTopicResult {
            name,
            error_code: refusal::of(&refused, TOPIC, refusal::create_topic).code(),
            error_message: refusal::told(&refused, TOPIC),
            num_partitions: -1,
            replication_factor: -1,
            configs: Some(Vec::new()),
            ..CreatableTopicResult::default()
        },
    }
}

fn setting(description: Description) -> CreatableTopicConfigs {
    CreatableTopicConfigs {
        name: description.name,
        value: description.value,
        read_only: description.read_only,
        config_source: description.source as i8,
        is_sensitive: description.sensitive,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::api::fixture::{Fixture, uuids};
    use wire::messages::create_topics_request::CreatableTopicConfig;

    fn creatable(name: &str) -> CreatableTopic {
        CreatableTopic {
            name: name.into(),
            num_partitions: 2,
            replication_factor: -1,
            ..CreatableTopic::default()
        }
    }

    fn codes(topics: Vec<CreatableTopic>) -> Vec<(String, i16)> {
        let request = CreateTopicsRequest {
            topics,
            ..CreateTopicsRequest::default()
        };
        let (_, response) = handle(&request, &Fixture::new("").view(), &mut uuids());
        response
            .topics
            .into_iter()
            .map(|topic| (topic.name, topic.error_code))
            .collect()
    }

    #[test]
    fn codes_are_those_of_kafka_4_3() {
        let sized = |num_partitions, replication_factor| CreatableTopic {
            num_partitions,
            replication_factor,
            ..creatable("n")
        };
        for (topic, code) in [
            (creatable("n"), 0),
            (creatable("a"), 36),
            (creatable("a b"), 17),
            (creatable("__cluster_metadata"), 42),
            (sized(0, 1), 37),
            (sized(1, 0), 38),
            (sized(1, 2), 38),
            (sized(100_001, 1), 44),
            (
                CreatableTopic {
                    configs: vec![CreatableTopicConfig {
                        name: "x".into(),
                        value: Some("1".into()),
                    }],
                    ..creatable("n")
                },
                40,
            ),
        ] {
            assert_eq!(codes(vec![topic.clone()]), [(topic.name, code)]);
        }
        assert_eq!(
            codes(vec![creatable("d"), creatable("e"), creatable("d")]),
            [("e".into(), 0), ("d".into(), 42)]
        );
    }

    #[test]
    fn a_name_that_a_volume_takes_for_another_is_refused_there() {
        let fixture = Fixture::new("");
        let request = CreateTopicsRequest {
            topics: ["A", "Orders", "orders", "__Consumer_Offsets", "b2"]
                .map(creatable)
                .to_vec(),
            ..CreateTopicsRequest::default()
        };
        let codes = |folds| {
            let view = fixture.view().folding_names(folds);
            let (_, response) = handle(&request, &view, &mut uuids());
            let topics = response.topics.into_iter();
            let mut codes: Vec<(String, i16)> =
                topics.map(|topic| (topic.name, topic.error_code)).collect();
            codes.sort();
            codes
                .into_iter()
                .map(|(_, code)| code)
                .collect::<Vec<i16>>()
        };
        // In the order of the names: A (there is an a), Orders, __Consumer_Offsets, b2, orders.
        assert_eq!(codes(true), [17, 0, 17, 0, 17]);
        assert_eq!(codes(false), [0, 0, 0, 0, 0]);
    }

    #[test]
    fn asking_whether_changes_nothing_and_answers_the_same() {
        let fixture = Fixture::new("");
        let ask = |validate_only| {
            let request = CreateTopicsRequest {
                topics: vec![creatable("n")],
                validate_only,
                ..CreateTopicsRequest::default()
            };
            handle(&request, &fixture.view(), &mut uuids())
        };
        let ((none, asked), (records, done)) = (ask(true), ask(false));
        assert_eq!((none.len(), records.len()), (0, 3));
        assert_eq!(asked, done);
    }

    #[test]
    fn the_answer_lists_the_settings_of_the_topic_with_their_sources() {
        let fixture = Fixture::new("log.segment.bytes=1073741824");
        let configs = vec![CreatableTopicConfig {
            name: "retention.ms".into(),
            value: Some("1000".into()),
        }];
        let topics = vec![CreatableTopic {
            configs,
            ..creatable("n")
        }];
        let (_, response) = handle(
            &CreateTopicsRequest {
                topics,
                ..CreateTopicsRequest::default()
            },
            &fixture.view(),
            &mut uuids(),
        );
        let topic = &response.topics[0];
        assert_eq!((topic.num_partitions, topic.replication_factor), (2, 1));
        assert_eq!(topic.error_message, None);
        let all = topic.configs.as_ref().expect("listed");
        let source = |name: &str| {
            all.iter()
                .find(|config| config.name == name)
                .map(|config| config.config_source)
        };
        assert_eq!(
            (
                source("retention.ms"),
                source("segment.bytes"),
                source("flush.ms")
            ),
            (Some(1), Some(4), Some(5))
        );
    }
}
