//! ControllerRegistration: a controller says where it listens and what it supports (KIP-919). The active controller answers.

use std::collections::BTreeMap;

use meta::decide::controller::{RegisteringController, UnfitController};
use meta::image::Levels;
use meta::{Endpoint, SecurityProtocol};
use model::BrokerId;
use wire::messages::{ControllerRegistrationRequest, ControllerRegistrationResponse};
use wire::{ApiKey, ErrorCode};

use super::overdue::Overdue;
use crate::kafka::call::Call;
use crate::net::Outcome;

pub(crate) fn on_registration(
    call: &mut Call<'_>,
    request: ControllerRegistrationRequest,
) -> Outcome {
    let ticket = call.ticket();
    let controller = registering(request);
    let decided = call
        .desk
        .shared
        .metadata
        .register_controller(ticket, &controller);
    call.answer_change(
        ApiKey::ControllerRegistration,
        decided,
        |answer| match answer {
            Ok(Ok(())) => ControllerRegistrationResponse::default(),
            Ok(Err(why)) => refusal(code_of(why), Some(why.to_string())),
            Err(code) => refusal(code, None),
        },
    )
}

fn code_of(why: UnfitController) -> ErrorCode {
    match why {
        UnfitController::TooOld => ErrorCode::UnsupportedVersion,
        UnfitController::Id(_) => ErrorCode::InvalidRequest,
    }
}

fn refusal(code: ErrorCode, error_message: Option<String>) -> ControllerRegistrationResponse {
    ControllerRegistrationResponse {
        error_code: code.code(),
        error_message,
        ..ControllerRegistrationResponse::default()
    }
}

fn registering(request: ControllerRegistrationRequest) -> RegisteringController {
    let endpoints = request.listeners.into_iter().map(|at| Endpoint {
        name: at.name,
        host: at.host,
        port: at.port,
        protocol: SecurityProtocol(at.security_protocol),
    });
    let features = request.features.into_iter().map(|feature| {
        let levels = Levels {
            min: feature.min_supported_version,
            max: feature.max_supported_version,
        };
        (feature.name, levels)
    });
    RegisteringController {
        id: BrokerId(request.controller_id),
        incarnation: request.incarnation_id,
        endpoints: endpoints.collect(),
        features: features.collect::<BTreeMap<String, Levels>>(),
    }
}

impl Overdue for ControllerRegistrationResponse {
    fn time_out(&mut self) {
        *self = refusal(ErrorCode::RequestTimedOut, None);
    }
}
