//! DeleteTopics: by name, and by id since version 6 (KIP-516).

use meta::Record;
use meta::decide::Uuids;
use meta::decide::delete_topics::Target;
use wire::messages::delete_topics_response::DeletableTopicResult;
use wire::messages::{DeleteTopicsRequest, DeleteTopicsResponse};
use wire::{ErrorCode, Uuid};

use super::refusal;
use crate::ops::topics::{self, DeleteRefusal};
use crate::ops::view::View;

/// First version that names topics one by one.
const STATES_FROM: i16 = 6;
/// First version whose clients know that deleting may be switched off.
const DISABLED_FROM: i16 = 3;

#[must_use]
pub(crate) fn handle(
    request: &DeleteTopicsRequest,
    version: i16,
    view: &View<'_>,
    uuids: &mut dyn Uuids,
) -> (Vec<Record>, DeleteTopicsResponse) {
    let targets: Vec<Target> = if STATES_FROM <= version {
        request
            .topics
            .iter()
            .map(|topic| Target {
                name: topic.name.clone(),
                id: topic.topic_id,
            })
            .collect()
    } else {
        request
            .topic_names
            .iter()
            .map(|name| Target {
                name: Some(name.clone()),
                id: Uuid::ZERO,
            })
            .collect()
    };
    let (records, answers) = topics::delete(view, targets);
    let answer = |(target, answer): (Target, Result<(), DeleteRefusal>)| match answer {
        Ok(()) => result(target, ErrorCode::None, None),
        Err(DeleteRefusal::SwitchedOff) => {
            let code = if DISABLED_FROM <= version {
                ErrorCode::TopicDeletionDisabled
            } else {
                ErrorCode::InvalidRequest
            };
            let words = ErrorCode::TopicDeletionDisabled.message();
            result(target, code, Some(words.into()))
        }
        Err(DeleteRefusal::Unauthorised) => {
            let code = ErrorCode::TopicAuthorizationFailed;
            result(target, code, Some(code.message().into()))
        }
        Err(DeleteRefusal::Because(error)) => result(
            target,
            refusal::delete_topic(&error),
            Some(error.to_string()),
        ),
    };
    let mut responses: Vec<DeletableTopicResult> = answers.into_iter().map(answer).collect();
    if view.asker.authority.is_some() {
        // The place of an answer must not tell topics that are not there from those that the asker may not see.
        responses.sort_by_cached_key(|_| uuids.next());
    }
    (
        records,
        DeleteTopicsResponse {
            responses,
            ..DeleteTopicsResponse::default()
        },
    )
}

fn result(target: Target, code: ErrorCode, error_message: Option<String>) -> DeletableTopicResult {
    DeletableTopicResult {
        name: target.name,
        topic_id: target.id,
        error_code: code.code(),
        error_message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::api::fixture::{Fixture, uuids};
    use wire::messages::delete_topics_request::DeleteTopicState;

    #[test]
    fn a_deleted_topic_is_answered_with_its_name_and_its_id() {
        let fixture = Fixture::new("");
        let id = fixture.id("t");
        for (name, topic_id) in [(Some("t".to_owned()), Uuid::ZERO), (None, id)] {
            let topics = vec![DeleteTopicState { name, topic_id }];
            let (records, response) = handle(
                &DeleteTopicsRequest {
                    topics,
                    ..Default::default()
                },
                6,
                &fixture.view(),
                &mut uuids(),
            );
            assert_eq!(records.len(), 1);
            assert_eq!(
                response.responses,
                [result(
                    Target {
                        name: Some("t".into()),
                        id
                    },
                    ErrorCode::None,
                    None
                )]
            );
        }
    }

    #[test]
    fn a_topic_named_by_name_and_by_id_stays_and_is_answered_once() {
        let fixture = Fixture::new("");
        let id = fixture.id("t");
        let by = |name: Option<&str>, topic_id| DeleteTopicState {
            name: name.map(Into::into),
            topic_id,
        };
        let request = DeleteTopicsRequest {
            topics: vec![by(None, id), by(Some("t"), Uuid::ZERO)],
            ..Default::default()
        };
        let (records, response) = handle(&request, 6, &fixture.view(), &mut uuids());
        assert_eq!(records, []);
        let target = Target {
            name: Some("t".into()),
            id,
        };
        let words = "The provided topic name maps to an ID that was already supplied.";
        let refused = result(target, ErrorCode::InvalidRequest, Some(words.into()));
        assert_eq!(response.responses, [refused]);
    }

    #[test]
    fn older_requests_name_their_topics_in_a_list() {
        let names = ["a", "nope", "", "t", "t"].map(String::from).to_vec();
        let request = DeleteTopicsRequest {
            topic_names: names,
            ..Default::default()
        };
        let (records, response) = handle(&request, 5, &Fixture::new("").view(), &mut uuids());
        let codes: Vec<i16> = response
            .responses
            .iter()
            .map(|one| one.error_code)
            .collect();
        assert_eq!((codes, records.len()), (vec![0, 3, 3, 42], 1));
    }

    #[test]
    fn deleting_may_be_switched_off() {
        let fixture = Fixture::new("delete.topic.enable=false");
        let request = DeleteTopicsRequest {
            topic_names: vec!["a".into()],
            ..Default::default()
        };
        for (version, code) in [(1, 42), (3, 73)] {
            let (records, response) = handle(&request, version, &fixture.view(), &mut uuids());
            assert_eq!((records.len(), response.responses[0].error_code), (0, code));
        }
    }
}
