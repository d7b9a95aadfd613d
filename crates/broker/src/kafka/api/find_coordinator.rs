//! FindCoordinator: which broker looks after a group, a transactional id or a share partition. The internal topic is created at
//! the first question for it.

use meta::decide::create_topics::check_brokers;
use wire::messages::find_coordinator_response::Coordinator;
use wire::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use wire::{ApiKey, ErrorCode};

use crate::asker::access::Resource;
use crate::asker::{Asker, Granted};
use crate::kafka::call::Attempt;
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::cluster::{Coordinated, find_coordinator};
use crate::ops::topics::create_internal;
use crate::ops::view::View;
use security::authorize::Operation;

/// First version that asks for several keys at once (KIP-699).
const BATCH_VERSION: i16 = 4;
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;
/// First version that asks for share partitions (KIP-932).
const SHARE_VERSION: i16 = 6;
const NO_NODE: i32 = -1;

fn kind_of(key_type: i8) -> Option<Coordinated> {
    match key_type {
        GROUP => Some(Coordinated::Group),
        TRANSACTION => Some(Coordinated::Transaction),
        _ => None,
    }
}

pub(crate) fn on_find_coordinator(
    call: &mut Call<'_>,
    request: FindCoordinatorRequest,
    attempt: Attempt,
) -> Outcome {
    let scene = call.scene();
    let shared = std::sync::Arc::clone(&call.desk.shared);
    let version = call.version();
    if request.key_type == SHARE && SHARE_VERSION <= version {
        let acts = call
            .asker
            .grant(Operation::ClusterAction, Resource::CLUSTER);
        if let Err(code) = acts {
            let response = refuse_all(&request, code);
            return call.reply(ApiKey::FindCoordinator, &response);
        }
    }
    // For those alone who may hear of a coordinator that is in it.
    let topic = kind_of(request.key_type).filter(|kind| {
        let mut keys = keys(&request, version);
        keys.any(|key| may_find(&call.asker, *kind, key).is_ok())
    });
    let topic = topic.map(Coordinated::topic);
    let is_missing = topic.is_some_and(|name| scene.image.topic(name).is_none());
    if let Some(name) = topic.filter(|_| is_missing && attempt == Attempt::First) {
        let again = |call: &mut Call<'_>, attempt| on_find_coordinator(call, request, attempt);
        let view = scene.view(shared.state.cluster_id());
        let command = create_internal(&view, name);
        return call.change_first(command, again);
    }
    let view = scene.view(shared.state.cluster_id());
    let response = handle(&request, call.version(), &view);
    call.reply(ApiKey::FindCoordinator, &response)
}

/// The keys that are asked about.
fn keys(request: &FindCoordinatorRequest, version: i16) -> impl Iterator<Item = &str> {
    let only = (version < BATCH_VERSION).then_some(request.key.as_str());
    let several = request.coordinator_keys.iter().map(String::as_str);
    only.into_iter()
        .chain(several.filter(move |_| BATCH_VERSION <= version))
}

fn may_find<'a>(asker: &Asker, kind: Coordinated, key: &'a str) -> Result<Granted<'a>, ErrorCode> {
    let resource = match kind {
        Coordinated::Group => Resource::group(key),
        Coordinated::Transaction => Resource::transactional_id(key),
    };
    asker.grant(Operation::Describe, resource)
}

/// Refused whole, and so each key.
fn refuse_all(request: &FindCoordinatorRequest, code: ErrorCode) -> FindCoordinatorResponse {
    let keys = request.coordinator_keys.iter();
    FindCoordinatorResponse {
        coordinators: keys
            .map(|key| refuse(key, code, Some(code.message())))
            .collect(),
        ..Default::default()
    }
}

fn refuse(key: &str, code: ErrorCode, message: Option<&str>) -> Coordinator {
    Coordinator {
        key: key.into(),
        node_id: NO_NODE,
        host: String::new(),
        port: NO_NODE,
        error_code: code.code(),
        error_message: message.map(str::to_owned),
    }
}

#[must_use]
pub(crate) fn handle(
    request: &FindCoordinatorRequest,
    version: i16,
    view: &View<'_>,
) -> FindCoordinatorResponse {
    if version >= BATCH_VERSION {
        return FindCoordinatorResponse {
            coordinators: request
                .coordinator_keys
                .iter()
                .map(|key| {
                    let found = find(key, request.key_type, view);
                    found.unwrap_or_else(|code| refuse(key, code, None))
                })
                .collect(),
            ..Default::default()
        };
    }
    let found = find(&request.key, request.key_type, view);
    let found = found.unwrap_or_else(|code| refuse(&request.key, code, Some(code.message())));
    FindCoordinatorResponse {
        error_code: found.error_code,
        error_message: found.error_message,
        node_id: found.node_id,
        host: found.host,
        port: found.port,
        ..Default::default()
    }
}

/// The coordinator, or the code for an asker that may not hear of it.
fn find(key: &str, key_type: i8, view: &View<'_>) -> Result<Coordinator, ErrorCode> {
    let Some(kind) = kind_of(key_type) else {
        let words = Some("unknown coordinator type");
        return Ok(refuse(key, ErrorCode::InvalidRequest, words));
    };
    let granted = may_find(view.asker, kind, key)?;
    Ok(match find_coordinator(view, kind, granted) {
        Some((id, address)) => Coordinator {
            key: key.into(),
            node_id: id.0,
            host: address.host,
            port: i32::from(address.port),
            error_code: 0,
            error_message: None,
        },
        None => {
            let why = why_none(kind, view);
            refuse(key, ErrorCode::CoordinatorNotAvailable, why.as_deref())
        }
    })
}

/// The reason that an internal topic is not made, where that is known.
fn why_none(kind: Coordinated, view: &View<'_>) -> Option<String> {
    let name = kind.topic();
    if view.image.topic(name).is_some() {
        return None;
    }
    let few = check_brokers(view.image, view.broker, name).err()?;
    Some(format!("the topic {name} is missing: {few}"))
}
