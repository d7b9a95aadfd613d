//! FindCoordinator: which broker looks after a group, a transactional id or a share partition. The internal topic is created at
//! the first question for it.

use std::collections::BTreeSet;

use meta::decide::create_topics::check_brokers;
use wire::messages::find_coordinator_response::Coordinator;
use wire::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use wire::{ApiKey, ErrorCode};

use crate::asker::access::Resource;
use crate::kafka::call::Attempt;
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::cluster::{Coordinated, find_coordinator};
use crate::ops::topics::create_by_the_way;
use crate::ops::view::View;
use security::authorize::Operation;

/// First version that asks for several keys at once (KIP-699).
const BATCH_VERSION: i16 = 4;
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
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
    let topic = kind_of(request.key_type).map(Coordinated::topic);
    let is_missing = topic.is_some_and(|name| scene.image.topic(name).is_none());
    if let Some(name) = topic.filter(|_| is_missing && attempt == Attempt::First) {
        let again = |call: &mut Call<'_>, attempt| on_find_coordinator(call, request, attempt);
        let view = scene.view(shared.state.cluster_id());
        let command = create_by_the_way(&view, &BTreeSet::from([name]));
        return call.change_first(command, again);
    }
    let view = scene.view(shared.state.cluster_id());
    let response = handle(&request, call.version(), &view);
    call.reply(ApiKey::FindCoordinator, &response)
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
                .map(|key| find(key, request.key_type, view))
                .collect(),
            ..Default::default()
        };
    }
    let found = find(&request.key, request.key_type, view);
    FindCoordinatorResponse {
        error_code: found.error_code,
        error_message: found.error_message,
        node_id: found.node_id,
        host: found.host,
        port: found.port,
        ..Default::default()
    }
}

fn find(key: &str, key_type: i8, view: &View<'_>) -> Coordinator {
    let refuse = |code: ErrorCode, message: Option<&str>| Coordinator {
        key: key.into(),
        node_id: NO_NODE,
        host: String::new(),
        port: NO_NODE,
        error_code: code.code(),
        error_message: message.map(str::to_owned),
    };
    let Some(kind) = kind_of(key_type) else {
        return refuse(ErrorCode::InvalidRequest, Some("unknown coordinator type"));
    };
    let may = match kind {
        Coordinated::Group => Resource::group(key),
        Coordinated::Transaction => Resource::transactional_id(key),
    };
    if !view.asker.may(Operation::Describe, may) {
        let code = match kind {
            Coordinated::Group => ErrorCode::GroupAuthorizationFailed,
            Coordinated::Transaction => ErrorCode::TransactionalIdAuthorizationFailed,
        };
        return refuse(code, None);
    }
    let found = find_coordinator(view, kind, key);
    match found {
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
            refuse(ErrorCode::CoordinatorNotAvailable, why.as_deref())
        }
    }
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
