//! FindCoordinator: which broker looks after a group, a transactional id or a share partition. The internal topic is created at
//! the first question for it.

use std::collections::BTreeSet;

use meta::decide::create_topics::auto_create;
use wire::messages::find_coordinator_response::Coordinator;
use wire::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use wire::{ApiKey, ErrorCode};

use super::View;
use super::admin::scene;
use super::admin::view;
use crate::event_loop::Outcome;
use crate::ids::random_uuid;
use crate::kafka::Attempt;
use crate::kafka::call::Call;

/// First version that asks for several keys at once (KIP-699).
const BATCH_VERSION: i16 = 4;
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const NO_NODE: i32 = -1;

/// The topic whose partitions are the coordinators of a kind of keys.
fn topic_of(key_type: i8) -> Option<&'static str> {
    match key_type {
        GROUP => Some(meta::name::OFFSETS),
        TRANSACTION => Some(meta::name::TRANSACTIONS),
        _ => None,
    }
}

pub(crate) fn on_find_coordinator(
    call: &mut Call<'_>,
    request: FindCoordinatorRequest,
    attempt: Attempt,
) -> Outcome {
    let scene = scene(call);
    let shared = std::sync::Arc::clone(&call.desk.shared);
    let topic = topic_of(request.key_type);
    let is_missing = topic.is_some_and(|name| scene.image.topic(name).is_none());
    if let Some(name) = topic.filter(|_| is_missing && attempt == Attempt::First) {
        let again = |call: &mut Call<'_>, attempt| on_find_coordinator(call, request, attempt);
        return call.change_first(again, |image, shared| {
            let settings = shared.config();
            let view = view(image, &settings, &shared.metadata.cluster_id, &scene.asker);
            let names = BTreeSet::from([name]);
            auto_create(view.image, view.broker, &names, &mut || {
                random_uuid(&shared.env)
            })
            .records
        });
    }
    let view = scene.view(&shared.metadata.cluster_id);
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
    let Some(topic) = topic_of(key_type) else {
        return refuse(ErrorCode::InvalidRequest, Some("unknown coordinator type"));
    };
    let count = view
        .image
        .topic(topic)
        .map_or(0, |topic| topic.partitions.len());
    let partition = coord::partition_of(key, i32::try_from(count).unwrap_or(i32::MAX));
    let leader = view
        .image
        .topic(topic)
        .and_then(|topic| topic.partitions.get(partition.unsigned_abs() as usize))
        .and_then(|partition| view.image.broker(partition.leader));
    let found = leader.and_then(|broker| Some((broker.id, view.address(broker)?)));
    match found {
        Some((id, address)) => Coordinator {
            key: key.into(),
            node_id: id.0,
            host: address.host,
            port: i32::from(address.port),
            error_code: 0,
            error_message: None,
        },
        None => refuse(ErrorCode::CoordinatorNotAvailable, None),
    }
}
