//! This broker as a member of its cluster: its requests to the active controller, and the answers.

use bytes::Bytes;
use model::Instant;
use wire::messages::broker_registration_request as registration;
use wire::messages::{
    BrokerHeartbeatRequest, BrokerHeartbeatResponse, BrokerRegistrationRequest,
    BrokerRegistrationResponse,
};
use wire::{ApiKey, EncodeError, ErrorCode, Message, Reader, Request, Uuid};

use super::lifecycle::{Ask, Heard, Lifecycle};
use crate::shared::Shared;

/// Why a broker serves no clients before it is a member.
pub(crate) const NOT_COUNTED_IN: &str = "the active controller has not counted this broker in. It takes a majority of the voters to have \
     one: start them, and see that each is reached at its address in controller.quorum.voters";
/// A broker that is no member says so this often.
const COMPLAINT_EVERY: std::time::Duration = std::time::Duration::from_secs(10);
/// No run of this broker before is known to have ended cleanly.
const NO_EPOCH: i64 = -1;

/// The broker as a member of its cluster.
pub(crate) struct Membership {
    pub(super) life: Lifecycle,
    request: BrokerRegistrationRequest,
    complained_at: Option<Instant>,
}

/// The answer to a request of the lifecycle.
pub(super) enum Told {
    Registered(i64),
    Heard(Heard),
}

impl Membership {
    pub(crate) fn new(
        broker: &meta::decide::register_broker::Broker,
        cluster_id: &str,
        heartbeat_interval: std::time::Duration,
        now: Instant,
    ) -> Membership {
        let listeners = broker.endpoints.iter().map(|at| registration::Listener {
            name: at.name.clone(),
            host: at.host.clone(),
            port: at.port,
            security_protocol: at.protocol.0,
        });
        let supported = meta::decide::register_broker::supported();
        let features = supported.into_iter();
        let features = features.map(|(name, levels)| registration::Feature {
            name,
            min_supported_version: levels.min,
            max_supported_version: levels.max,
        });
        let request = BrokerRegistrationRequest {
            broker_id: broker.id.0,
            cluster_id: cluster_id.to_owned(),
            incarnation_id: broker.incarnation,
            listeners: listeners.collect(),
            features: features.collect(),
            rack: broker.rack.clone(),
            log_dirs: broker.log_dirs.clone(),
            previous_broker_epoch: NO_EPOCH,
            ..BrokerRegistrationRequest::default()
        };
        Membership {
            life: Lifecycle::new(heartbeat_interval, now),
            request,
            complained_at: None,
        }
    }

    /// The frame of a request; `end` is that of the metadata that are published here.
    pub(super) fn frame(
        &self,
        shared: &Shared,
        ask: Ask,
        end: i64,
    ) -> Result<((ApiKey, i16), Bytes), EncodeError> {
        match ask {
            Ask::Register => frame(&self.request),
            Ask::Heartbeat { epoch, leaves } => {
                let dirs = shared.dirs().iter();
                let failed = dirs.filter(|dir| dir.is_failed()).map(|dir| dir.id);
                let settings = shared.config();
                let dirs = shared.dirs().iter();
                let cordoned = dirs.filter(|dir| settings.broker.is_cordoned(&dir.path));
                let cordoned: Vec<Uuid> = cordoned.map(|dir| dir.id).collect();
                frame(&BrokerHeartbeatRequest {
                    broker_id: self.request.broker_id,
                    broker_epoch: epoch,
                    current_metadata_offset: end - 1,
                    want_fence: false,
                    want_shut_down: leaves,
                    offline_log_dirs: failed.collect(),
                    cordoned_log_dirs: Some(cordoned),
                })
            }
        }
    }

    /// Says why the broker is no member yet, once that lasts, and then now and then.
    pub(super) fn complain(&mut self, shared: &Shared, code: ErrorCode, now: Instant) {
        let last = *self.complained_at.get_or_insert(now);
        if now < last.plus(COMPLAINT_EVERY) {
            return;
        }
        self.complained_at = Some(now);
        let node = shared.config().broker.node_id.0;
        if code == ErrorCode::DuplicateBrokerRegistration {
            tracing::error!(
                target: env::logs::BROKER,
                "another broker of this cluster runs as node {node}: give this one a node.id of its own",
            );
        } else if !shared.metadata.is_serving() {
            tracing::warn!(target: env::logs::BROKER, ?code, "no client is served: {NOT_COUNTED_IN}");
        }
    }
}

fn version<R: Request>() -> i16 {
    R::KEY.max_version_stable()
}

fn frame<R: Request>(request: &R) -> Result<((ApiKey, i16), Bytes), EncodeError> {
    let version = version::<R>();
    let encoded = wire::frame::encode_request(request, version, 0, Some("esker"))?;
    Ok(((R::KEY, version), encoded.into_bytes()?))
}

/// Reads an answer; a refusal is its code.
pub(super) fn read(ask: Ask, version: i16, body: Bytes) -> Result<Told, ErrorCode> {
    let broken = || ErrorCode::CorruptMessage;
    let refused = |code: i16| match ErrorCode::try_from(code) {
        Ok(ErrorCode::None) => Ok(()),
        Ok(code) => Err(code),
        Err(_) => Err(ErrorCode::UnknownServerError),
    };
    match ask {
        Ask::Register => {
            let read: BrokerRegistrationResponse = decode(body, version).ok_or_else(broken)?;
            refused(read.error_code)?;
            Ok(Told::Registered(read.broker_epoch))
        }
        Ask::Heartbeat { .. } => {
            let read: BrokerHeartbeatResponse = decode(body, version).ok_or_else(broken)?;
            refused(read.error_code)?;
            Ok(Told::Heard(heard(&read)))
        }
    }
}

/// The answer to a heartbeat, for the lifecycle.
fn heard(response: &BrokerHeartbeatResponse) -> Heard {
    Heard {
        is_fenced: response.is_fenced,
        may_stop: response.should_shut_down,
    }
}

/// Reads a message of a known version.
fn decode<M: Message>(body: Bytes, version: i16) -> Option<M> {
    M::decode(&mut Reader::new(body), version).ok()
}
