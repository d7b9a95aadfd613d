//! GetTelemetrySubscriptions and PushTelemetry (KIP-714): clients are told which metrics to push, and what they push is kept in
//! `__client_metrics`, the newest of each instance for a day at least.
//!
//! Served where `esker.client.metrics.enable` is set. What a push unfolds to is bounded, and what all together make the topic grow
//! by between two looks of retention; nobody waits for it to be durable.

use std::collections::BTreeSet;

use bytes::Bytes;
use log::producer::Origin;
use meta::ResourceKind;
use meta::decide::create_topics::auto_create;
use partition::{Moment, Stamp, Warrant};
use wire::messages::{
    GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse, PushTelemetryRequest,
    PushTelemetryResponse,
};
use wire::records::{BatchBuilder, Caps, Codec, CodecError};
use wire::{ApiKey, ErrorCode, RequestHead, Uuid};

use super::admin::view;
use super::error;
use crate::ids::random_uuid;
use crate::kafka::Attempt;
use crate::shard::{Address, Outcome, Shard};
use crate::telemetry::{Identity, Push};

/// What a push may unfold to, over its own bound: metrics shrink ten times and more, and a record of them must fit its topic.
const UNFOLDED_MAX: usize = 1_000_000;
/// As Kafka prefers them.
const CODECS: [Codec; 4] = [Codec::Zstd, Codec::Lz4, Codec::Gzip, Codec::Snappy];
/// Ids that mean something else.
const RESERVED: [Uuid; 2] = [
    Uuid::ZERO,
    Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
];

impl Shard {
    pub(crate) fn receives_client_metrics(&self) -> bool {
        self.shared.config().broker.receives_client_metrics
    }

    /// Who a client says it is, for subscriptions to tell it from others.
    pub(crate) fn identity(&self, address: &Address, head: &RequestHead) -> Identity {
        let mut identity = Identity {
            client_id: head.client_id.clone().unwrap_or_default(),
            ..Identity::default()
        };
        if let Some(connection) = self.connections.get(&address.conn) {
            identity.address = connection.peer.ip().to_string();
            identity.port = connection.peer.port();
            if let Some(software) = &connection.software {
                (identity.software_name, identity.software_version) = (**software).clone();
            }
        }
        identity
    }

    pub(crate) fn on_get_telemetry_subscriptions(
        &mut self,
        address: &Address,
        who: &Identity,
        request: &GetTelemetrySubscriptionsRequest,
    ) -> Outcome {
        let mut id = request.client_instance_id;
        while RESERVED.contains(&id) {
            id = random_uuid(&self.shared.env);
        }
        self.take_subscriptions();
        let told = self.shared.telemetry.lock().ask(id, who, self.now);
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
                telemetry_max_bytes: i32::try_from(self.telemetry_bytes_max()).unwrap_or(i32::MAX),
                // Of an instance the last push is kept: it must say everything.
                delta_temporality: false,
                requested_metrics: wanted.metrics.into_iter().collect(),
                ..Default::default()
            },
        };
        self.reply(address, ApiKey::GetTelemetrySubscriptions, &response)
    }

    pub(crate) fn on_push_telemetry(
        &mut self,
        address: &Address,
        who: &Identity,
        request: &PushTelemetryRequest,
        frame: Bytes,
        attempt: Attempt,
    ) -> Outcome {
        // What waited for its topic was let in before, and an instance is let in once.
        let admitted = match attempt {
            Attempt::First => self.admit_push(who, request),
            Attempt::Second | Attempt::Overdue => Ok(()),
        };
        let kept = match admitted.and_then(|()| unfolded(request)) {
            Ok(Some(_)) if attempt == Attempt::First && self.lacks_topic() => {
                return self.create_client_metrics(address, frame);
            }
            Ok(Some(metrics)) => self.keep_metrics(request.client_instance_id, who, &metrics),
            Ok(None) => Ok(()),
            Err(code) => Err(code),
        };
        let code = kept.err().unwrap_or(ErrorCode::None);
        let response = PushTelemetryResponse {
            error_code: code.code(),
            ..Default::default()
        };
        self.reply(address, ApiKey::PushTelemetry, &response)
    }

    fn lacks_topic(&mut self) -> bool {
        self.topics().named(meta::name::CLIENT_METRICS).is_none()
    }

    /// Makes the topic, and handles the push again.
    fn create_client_metrics(&mut self, address: &Address, frame: Bytes) -> Outcome {
        let Some(scene) = self.scene(address) else {
            return Outcome::Close;
        };
        let asker = scene.asker;
        self.change_first(address, frame, |image, shared| {
            let settings = shared.config();
            let view = view(image, &settings, &shared.metadata.cluster_id, asker);
            let names = BTreeSet::from([meta::name::CLIENT_METRICS]);
            auto_create(view.image, view.broker, &names, &mut || {
                random_uuid(&shared.env)
            })
            .records
        })
    }

    fn admit_push(
        &mut self,
        who: &Identity,
        request: &PushTelemetryRequest,
    ) -> Result<(), ErrorCode> {
        let id = request.client_instance_id;
        if RESERVED.contains(&id) {
            return Err(ErrorCode::InvalidRequest);
        }
        self.take_subscriptions();
        let push = Push {
            subscription_id: request.subscription_id,
            is_last: request.terminating,
            is_codec_known: codec(request).is_some(),
            fits: request.metrics.len() <= self.telemetry_bytes_max(),
        };
        let mut telemetry = self.shared.telemetry.lock();
        telemetry.push(id, who, push, self.now)
    }

    /// Where the newest of each instance stays: compaction drops the others.
    fn keep_metrics(&mut self, id: Uuid, who: &Identity, metrics: &[u8]) -> Result<(), ErrorCode> {
        let topics = self.topics();
        let topic = topics.named(meta::name::CLIENT_METRICS);
        let Some(partition) = topic.and_then(|topic| topic.partition(0)) else {
            return Err(ErrorCode::UnknownServerError);
        };
        let mut batch = BatchBuilder::new().compression(Codec::Zstd);
        batch.push(
            self.wall,
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
        let mut telemetry = self.shared.telemetry.lock();
        telemetry.may_keep(batch.size(), self.now)?;
        drop(telemetry);
        let moment = Moment {
            now: self.now,
            wall: self.wall,
            stamp: &mut Stamp::default(),
        };
        let origin = Origin::Coordinator;
        let kept = partition.append_as(batch, origin, Warrant::None, None, moment);
        kept.map(drop)
            .map_err(|refused| match error::append(&refused) {
                ErrorCode::MessageTooLarge => ErrorCode::TelemetryTooLarge,
                code => code,
            })
    }

    fn take_subscriptions(&self) {
        let image = self.shared.metadata.image();
        let all = image.configured();
        let subscriptions = all.filter(|resource| resource.kind == ResourceKind::ClientMetrics);
        let settings: Vec<_> = subscriptions
            .map(|resource| image.overrides(resource))
            .collect();
        let settings = settings.iter().map(|overrides| &**overrides);
        let mut telemetry = self.shared.telemetry.lock();
        telemetry.subscribe(image.end(), settings);
    }

    fn telemetry_bytes_max(&self) -> usize {
        self.shared.config().broker.telemetry_bytes_max
    }
}

fn codec(request: &PushTelemetryRequest) -> Option<Codec> {
    let id = u8::try_from(request.compression_type).ok();
    id.and_then(Codec::from_id)
}

/// What is to be kept of a push; `None` where it brings nothing.
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
    use crate::shard::bench::{Bench, encoded};

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
        assert!(bench.shard.lacks_topic());

        bench.put(&encoded(&push, 0));
        assert!(bench.answer::<PushTelemetryRequest>(0).is_none());
        bench.commit();
        let told = bench.answer::<PushTelemetryRequest>(0);
        assert_eq!(told.expect("its topic is there").error_code, 0);
        let kept = bench.partition(meta::name::CLIENT_METRICS, 0);
        assert_eq!(kept.bounds().log_end.0, 1);
    }
}
