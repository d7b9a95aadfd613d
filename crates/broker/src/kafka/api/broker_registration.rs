//! BrokerRegistration: a broker becomes a member of the cluster (KIP-631). The active controller answers.

use std::collections::BTreeMap;

use meta::decide::registration::{Before, RegisterError, Registering};
use meta::image::Levels;
use meta::{Endpoint, SecurityProtocol};
use model::BrokerId;
use wire::messages::{BrokerRegistrationRequest, BrokerRegistrationResponse};
use wire::{ApiKey, ErrorCode};

use super::overdue::Overdue;
use crate::kafka::call::Call;
use crate::net::Outcome;

const NO_EPOCH: i64 = -1;

pub(crate) fn on_registration(call: &mut Call<'_>, request: BrokerRegistrationRequest) -> Outcome {
    let shared = std::sync::Arc::clone(&call.desk.shared);
    if request.cluster_id != shared.state.cluster_id() {
        return call.reply(
            ApiKey::BrokerRegistration,
            &refusal(ErrorCode::InconsistentClusterId),
        );
    }
    let ticket = call.ticket();
    let decided = shared
        .metadata
        .register_broker(ticket, &registering(request));
    call.answer_change(ApiKey::BrokerRegistration, decided, |answer| {
        match answer.map(|registered| registered.map_err(code)) {
            Ok(Ok(broker_epoch)) => BrokerRegistrationResponse {
                broker_epoch,
                ..BrokerRegistrationResponse::default()
            },
            Ok(Err(code)) | Err(code) => refusal(code),
        }
    })
}

fn refusal(code: ErrorCode) -> BrokerRegistrationResponse {
    BrokerRegistrationResponse {
        error_code: code.code(),
        broker_epoch: NO_EPOCH,
        ..BrokerRegistrationResponse::default()
    }
}

fn registering(request: BrokerRegistrationRequest) -> Registering {
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
    let before = |epoch: i64, incarnations| Before {
        epoch: (epoch != NO_EPOCH).then_some(epoch),
        incarnations,
    };
    let of_dirs = (request.log_dir_lives.into_iter()).map(|life| {
        (
            life.directory,
            before(life.broker_epoch, life.incarnation_ids),
        )
    });
    Registering {
        id: BrokerId(request.broker_id),
        incarnation: request.incarnation_id,
        endpoints: endpoints.collect(),
        features: features.collect::<BTreeMap<String, Levels>>(),
        rack: request.rack,
        log_dirs: request.log_dirs,
        before: before(
            request.previous_broker_epoch,
            request.previous_incarnation_ids,
        ),
        before_in: of_dirs.collect(),
    }
}

fn code(error: RegisterError) -> ErrorCode {
    match error {
        RegisterError::Duplicate => ErrorCode::DuplicateBrokerRegistration,
        RegisterError::NoDirectories
        | RegisterError::ReservedDirectory
        | RegisterError::DirectoryTwice
        | RegisterError::DirectoryOfOther { .. }
        | RegisterError::NoMetadataVersion => ErrorCode::InvalidRegistration,
        RegisterError::Feature { .. } => ErrorCode::UnsupportedVersion,
    }
}

impl Overdue for BrokerRegistrationResponse {
    fn time_out(&mut self) {
        *self = refusal(ErrorCode::RequestTimedOut);
    }
}
