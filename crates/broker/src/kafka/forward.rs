//! Requests that the active controller carries out for this broker (KIP-590).
//!
//! Any broker takes any request of an administrator. One that changes the metadata travels to the active controller as it came, and
//! the answer goes back as it is.

use std::sync::Arc;

use bytes::Bytes;
use wire::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use wire::messages::{
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, ResponseHeader,
};
use wire::{ApiKey, Message, Reader, decode_request_header};

use super::api::incremental_alter_configs;
use super::call::Call;
use super::envelope::is_for_controller;
use crate::control::envelope::{self, EnvelopeAnswer};
use crate::mail::calls::Recipient;
use crate::net::{Outcome, Reply};
use crate::peers::Answer;

const BROKER_LOGGER: i8 = 8;

/// The nodes that a request is for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum For {
    /// This one answers it.
    Here,
    Controller,
    /// Levels of this node's loggers are set here, the settings by the controller.
    Both(Divided),
}

/// The two parts of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Divided {
    loggers: IncrementalAlterConfigsRequest,
    settings: IncrementalAlterConfigsRequest,
    /// The resources as they were asked for, which is the order of the answers.
    order: Vec<(i8, String)>,
}

/// The nodes that are to answer the request.
pub(super) fn destination(call: &Call<'_>, key: ApiKey, frame: &Bytes) -> For {
    let shared = &call.desk.shared;
    if shared.state.is_alone() || !is_for_controller(key) || shared.metadata.is_active() {
        return For::Here;
    }
    if key != ApiKey::IncrementalAlterConfigs {
        return For::Controller;
    }
    let mut reader = Reader::new(frame.clone());
    reader.bound_elements(call.desk.shared.catalog.settings().elements_max);
    let request = decode_request_header(&mut reader).ok();
    let request = request
        .and_then(|head| IncrementalAlterConfigsRequest::decode(&mut reader, head.version).ok());
    request.map_or(For::Controller, divide)
}

/// Each node answers for its own loggers.
fn divide(request: IncrementalAlterConfigsRequest) -> For {
    let order = request.resources.iter();
    let order = order.map(|of| (of.resource_type, of.resource_name.clone()));
    let order: Vec<(i8, String)> = order.collect();
    let resources = request.resources.into_iter();
    let (loggers, settings): (Vec<_>, Vec<_>) =
        resources.partition(|of| of.resource_type == BROKER_LOGGER);
    if loggers.is_empty() {
        return For::Controller;
    }
    if settings.is_empty() {
        return For::Here;
    }
    let part = |resources| IncrementalAlterConfigsRequest {
        resources,
        validate_only: request.validate_only,
    };
    For::Both(Divided {
        loggers: part(loggers),
        settings: part(settings),
        order,
    })
}

/// Answers one part of a request here, and has the active controller answer the other.
pub(super) fn in_two_parts(call: &mut Call<'_>, divided: Divided) -> Outcome {
    const KEY: ApiKey = ApiKey::IncrementalAlterConfigs;
    let Divided {
        loggers,
        settings,
        order,
    } = divided;
    let version = call.version();
    let Ok(request) = envelope::wrapped(&settings, version, &call.asker) else {
        return Outcome::Close;
    };
    let patience = call.desk.shared.catalog.config().request_wait_max;
    call.ask_node(
        (Recipient::Controller, patience),
        request,
        move |call, answer| {
            let theirs = answer.and_then(|answer| answer_within(answer, KEY, version));
            let Some(theirs) = theirs else {
                return Outcome::Close;
            };
            // After the settings: where nobody can set those, the client asks for all of it again.
            let scene = call.scene();
            let shared = Arc::clone(&call.desk.shared);
            let view = scene.view(shared.state.cluster_id());
            let (_, ours) = incremental_alter_configs::handle(&loggers, &view);
            call.reply(KEY, &joined(&order, ours, theirs))
        },
    )
}

/// The answer of the controller in its envelope.
fn answer_within<M: Message>(answer: Answer, key: ApiKey, version: i16) -> Option<M> {
    let answer: EnvelopeAnswer = answer.read()?;
    let data = answer.data.filter(|_| answer.code == 0)?;
    let mut reader = Reader::new(data);
    ResponseHeader::decode(&mut reader, key.response_header_version(version)).ok()?;
    M::decode(&mut reader, version).ok()
}

fn joined(
    order: &[(i8, String)],
    ours: IncrementalAlterConfigsResponse,
    theirs: IncrementalAlterConfigsResponse,
) -> IncrementalAlterConfigsResponse {
    let mut responses = ours.responses;
    responses.extend(theirs.responses);
    let place = |of: &AlterConfigsResourceResponse| {
        let mut places = order.iter();
        places.position(|(kind, name)| *kind == of.resource_type && *name == of.resource_name)
    };
    responses.sort_by_key(place);
    IncrementalAlterConfigsResponse {
        responses,
        throttle_time_ms: theirs.throttle_time_ms,
    }
}

/// Sends the request of a client to the active controller, and its answer back.
pub(super) fn to_controller(call: &mut Call<'_>, frame: Bytes) -> Outcome {
    let Ok(request) = envelope::request(frame, &call.asker) else {
        return Outcome::Close;
    };
    let patience = call.desk.shared.catalog.config().request_wait_max;
    let to = (Recipient::Controller, patience);
    call.ask_node(to, request, |_, answer| {
        let answer: Option<EnvelopeAnswer> = answer.and_then(Answer::read);
        let data = answer.and_then(|answer| answer.data.filter(|_| answer.code == 0));
        // Without a controller the client comes again, to this broker or to another.
        data.map_or(Outcome::Close, |data| Outcome::Reply(Reply::carried(data)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::messages::incremental_alter_configs_request::AlterConfigsResource;

    fn asked(resources: &[(i8, &str)]) -> IncrementalAlterConfigsRequest {
        let resource = |(kind, name): &(i8, &str)| AlterConfigsResource {
            resource_type: *kind,
            resource_name: (*name).to_owned(),
            ..AlterConfigsResource::default()
        };
        IncrementalAlterConfigsRequest {
            resources: resources.iter().map(resource).collect(),
            validate_only: true,
        }
    }

    fn answered(resources: &[(i8, &str)]) -> IncrementalAlterConfigsResponse {
        let resource = |(kind, name): &(i8, &str)| AlterConfigsResourceResponse {
            resource_type: *kind,
            resource_name: (*name).to_owned(),
            ..AlterConfigsResourceResponse::default()
        };
        IncrementalAlterConfigsResponse {
            throttle_time_ms: 0,
            responses: resources.iter().map(resource).collect(),
        }
    }

    #[test]
    fn loggers_are_set_here_and_settings_by_the_controller() {
        assert_eq!(divide(asked(&[(8, "1"), (8, "2")])), For::Here);
        assert_eq!(divide(asked(&[(2, "t"), (4, "1")])), For::Controller);
        assert_eq!(divide(asked(&[])), For::Controller);
        let all = [(2, "t"), (8, "1"), (4, "")];
        let For::Both(divided) = divide(asked(&all)) else {
            panic!("both");
        };
        assert_eq!(divided.loggers, asked(&[(8, "1")]));
        assert_eq!(divided.settings, asked(&[(2, "t"), (4, "")]));
        let ours = answered(&[(8, "1")]);
        let theirs = answered(&[(2, "t"), (4, "")]);
        assert_eq!(joined(&divided.order, ours, theirs), answered(&all));
    }
}
