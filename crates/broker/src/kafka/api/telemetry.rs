//! GetTelemetrySubscriptions and PushTelemetry (KIP-714): clients are told which metrics to push, and what they push is kept in
//! `__client_metrics`, the newest of each instance for a day at least.
//!
//! Served where `esker.client.metrics.enable` is set. What a push unfolds to is bounded, and what all together make the topic grow
//! by between two looks of retention; nobody waits for it to be durable.

use std::sync::Arc;

use bytes::Bytes;
use log::producer::Origin;
use meta::ResourceKind;
use partition::{Acks, Moment, Stamp, Warrant};
use wire::messages::{
    GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse, PushTelemetryRequest,
    PushTelemetryResponse,
};
use wire::records::{BatchBuilder, Caps, Codec, CodecError};
use wire::{ApiKey, ErrorCode, RequestHead, Uuid};

use crate::error;
use crate::ids::random_uuid;
use crate::kafka::call::Attempt;
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::topics::create_internal;
use crate::telemetry::{Identity, Push};

/// Bytes that a push may unfold to, over its own bound: metrics shrink ten times and more, and a record of them must fit its topic.
const UNFOLDED_MAX: usize = 1_000_000;
/// As Kafka prefers them.
const CODECS: [Codec; 4] = [Codec::Zstd, Codec::Lz4, Codec::Gzip, Codec::Snappy];
/// Ids that mean something else.
const RESERVED: [Uuid; 2] = [
    Uuid::ZERO,
    Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
];

pub(crate) fn receives_client_metrics(call: &mut Call<'_>) -> bool {
    call.desk
        .shared
        .catalog
        .config()
        .broker
        .receives_client_metrics
}

/// The identity that a client claims, by which subscriptions tell it from others.
pub(crate) fn identity(call: &Call<'_>, head: &RequestHead) -> Identity {
    let (software_name, software_version) = match &call.asker.software {
        Some(software) => (**software).clone(),
        None => Default::default(),
    };
    Identity {
        client_id: head.client_id.clone().unwrap_or_default(),
        address: call.asker.peer.ip().to_string(),
        port: call.asker.peer.port(),
        software_name,
        software_version,
    }
}

pub(crate) fn on_get_telemetry_subscriptions(
    call: &mut Call<'_>,
    who: &Identity,
    request: &GetTelemetrySubscriptionsRequest,
) -> Outcome {
    let mut id = request.client_instance_id;
    while RESERVED.contains(&id) {
        id = random_uuid(&call.desk.shared.env);
    }
    take_subscriptions(call);
    let told = call
        .desk
        .shared
        .telemetry
        .lock()
        .ask(id, who, call.desk.now);
    let response = match told {
        Err(code) => GetTelemetrySubscriptionsResponse {
            error_code: code.code(),
            ..Default::default()
        },
        Ok((subscription_id, wanted)) => GetTelemetrySubscriptionsResponse {
            client_instance_id: id,
            subscription_id,
            accepted_compression_types: CODECS.map(|codec| codec.id() as i8).to_vec(),
            push_interval_ms: i32::try_from(wanted.interval.as_millis()).unwrap_or(i32::MAX),
            telemetry_max_bytes: i32::try_from(telemetry_bytes_max(call)).unwrap_or(i32::MAX),
            // Of an instance the last push is kept: it must say everything.
            delta_temporality: false,
            requested_metrics: wanted.metrics.into_iter().collect(),
            ..Default::default()
        },
    };
    call.reply(ApiKey::GetTelemetrySubscriptions, &response)
}

pub(crate) fn on_push_telemetry(
    call: &mut Call<'_>,
    who: Identity,
    request: PushTelemetryRequest,
    attempt: Attempt,
) -> Outcome {
    // A push that waited for its topic was let in before, and an instance is let in once.
    let admitted = match attempt {
        Attempt::First => admit_push(call, &who, &request),
        Attempt::Second | Attempt::Overdue => Ok(()),
    };
    let kept = match admitted.and_then(|()| unfolded(&request)) {
        Ok(Some(_)) if attempt == Attempt::First && lacks_topic(call) => {
            return create_client_metrics(call, who, request);
        }
        Ok(Some(metrics)) => keep_metrics(call, request.client_instance_id, &who, &metrics),
        Ok(None) => Ok(()),
        Err(code) => Err(code),
    };
    let code = kept.err().unwrap_or(ErrorCode::None);
    let response = PushTelemetryResponse {
        error_code: code.code(),
        ..Default::default()
    };
    call.reply(ApiKey::PushTelemetry, &response)
}

fn lacks_topic(call: &mut Call<'_>) -> bool {
    call.desk
        .topics()
        .named(meta::name::CLIENT_METRICS)
        .is_none()
}

/// Makes the topic, and handles the push again.
fn create_client_metrics(
    call: &mut Call<'_>,
    who: Identity,
    request: PushTelemetryRequest,
) -> Outcome {
    let again = move |call: &mut Call<'_>, attempt| on_push_telemetry(call, who, request, attempt);
    let scene = call.scene();
    let shared = Arc::clone(&call.desk.shared);
    let view = scene.view(shared.state.cluster_id());
    let command = create_internal(&view, meta::name::CLIENT_METRICS);
    call.change_first(command, again)
}

fn admit_push(
    call: &mut Call<'_>,
    who: &Identity,
    request: &PushTelemetryRequest,
) -> Result<(), ErrorCode> {
    let id = request.client_instance_id;
    if RESERVED.contains(&id) {
        return Err(ErrorCode::InvalidRequest);
    }
    take_subscriptions(call);
    let push = Push {
        subscription_id: request.subscription_id,
        is_last: request.terminating,
        is_codec_known: codec(request).is_some(),
        fits: request.metrics.len() <= telemetry_bytes_max(call),
    };
    let mut telemetry = call.desk.shared.telemetry.lock();
    telemetry.push(id, who, push, call.desk.now)
}

/// Where the newest of each instance stays: compaction drops the others.
fn keep_metrics(
    call: &mut Call<'_>,
    id: Uuid,
    who: &Identity,
    metrics: &[u8],
) -> Result<(), ErrorCode> {
    let topics = call.desk.topics();
    let topic = topics.named(meta::name::CLIENT_METRICS);
    let Some(Ok(partition)) = topic.map(|topic| topic.partition(0)) else {
        return Err(ErrorCode::UnknownServerError);
    };
    let mut batch = BatchBuilder::new().compression(Codec::Zstd);
    batch.push(
        call.desk.wall,
        Some(id.to_string().as_bytes()),
        Some(metrics),
        &[
            ("client_id", Some(who.client_id.as_bytes())),
            ("software_name", Some(who.software_name.as_bytes())),
            ("software_version", Some(who.software_version.as_bytes())),
            ("address", Some(who.address.as_bytes())),
        ],
    );
    let batch = batch.build();
    let mut telemetry = call.desk.shared.telemetry.lock();
    telemetry.may_keep(batch.size(), call.desk.now)?;
    drop(telemetry);
    let moment = Moment {
        now: call.desk.now,
        wall: call.desk.wall,
        stamp: &mut Stamp::default(),
    };
    let origin = Origin::Coordinator;
    let kept = partition.append_as(batch, origin, Warrant::None, Acks::None, moment);
    kept.map(drop)
        .map_err(|refused| match error::append(&refused) {
            ErrorCode::MessageTooLarge => ErrorCode::TelemetryTooLarge,
            code => code,
        })
}

fn take_subscriptions(call: &mut Call<'_>) {
    let image = call.desk.shared.catalog.image();
    let all = image.configured();
    let subscriptions = all.filter(|resource| resource.kind == ResourceKind::ClientMetrics);
    let settings: Vec<_> = subscriptions
        .map(|resource| image.overrides(resource))
        .collect();
    let settings = settings.iter().map(|overrides| &**overrides);
    let mut telemetry = call.desk.shared.telemetry.lock();
    telemetry.subscribe(image.end(), settings);
}

fn telemetry_bytes_max(call: &mut Call<'_>) -> usize {
    call.desk.shared.catalog.config().broker.telemetry_bytes_max
}

fn codec(request: &PushTelemetryRequest) -> Option<Codec> {
    let id = u8::try_from(request.compression_type).ok();
    id.and_then(Codec::from_id)
}

/// The metrics to keep of a push; `None` where it brings none.
fn unfolded(request: &PushTelemetryRequest) -> Result<Option<Bytes>, ErrorCode> {
    if request.metrics.is_empty() {
        return Ok(None);
    }
    let caps = Caps {
        bytes_max: UNFOLDED_MAX,
        ..Caps::default()
    };
    let codec = codec(request).unwrap_or_default();
    let metrics = codec.decompress(&request.metrics, caps);
    metrics.map(Some).map_err(|error| match error {
        CodecError::TooLarge { .. } => ErrorCode::TelemetryTooLarge,
        _ => ErrorCode::InvalidRecord,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_loop::bench::{Bench, encoded};

    #[test]
    fn only_a_push_that_is_kept_makes_the_topic() {
        let mut bench = Bench::with(&[("esker.client.metrics.enable", "true")]);
        let id = Uuid([7; 16]);
        bench.put(&encoded(
            &GetTelemetrySubscriptionsRequest {
                client_instance_id: id,
            },
            0,
        ));
        let told = bench.answer::<GetTelemetrySubscriptionsRequest>(0);
        let subscription_id = told.expect("told at once").subscription_id;
        let push = PushTelemetryRequest {
            client_instance_id: id,
            subscription_id,
            metrics: b"metrics".as_slice().into(),
            ..Default::default()
        };
        let nobody = PushTelemetryRequest {
            client_instance_id: Uuid::ZERO,
            ..push.clone()
        };
        let stranger = PushTelemetryRequest {
            client_instance_id: Uuid([8; 16]),
            ..push.clone()
        };
        for (refused, code) in [
            (&nobody, ErrorCode::InvalidRequest),
            (&stranger, ErrorCode::UnknownSubscriptionId),
        ] {
            bench.put(&encoded(refused, 0));
            let told = bench.answer::<PushTelemetryRequest>(0);
            assert_eq!(told.expect("told at once").error_code, code.code());
        }
        assert!({
            let topics = bench.shard.desk.topics();
            topics.named(meta::name::CLIENT_METRICS).is_none()
        });

        bench.put(&encoded(&push, 0));
        assert!(bench.answer::<PushTelemetryRequest>(0).is_none());
        bench.commit();
        let told = bench.answer::<PushTelemetryRequest>(0);
        assert_eq!(told.expect("its topic is there").error_code, 0);
        let kept = bench.partition(meta::name::CLIENT_METRICS, 0);
        assert_eq!(kept.bounds().log_end.0, 1);
    }
}
