//! This broker as a member of its cluster: its requests to the active controller, and the answers.

use std::time::Duration;

use bytes::Bytes;
use model::{BrokerId, Instant};
use partition::LogDir;
use wire::messages::broker_registration_request as registration;
use wire::messages::{
    BrokerHeartbeatRequest, BrokerHeartbeatResponse, BrokerRegistrationRequest,
    BrokerRegistrationResponse,
};
use wire::{ApiKey, EncodeError, ErrorCode, Uuid};

use crate::control::broker_epoch_file::{self, Before, Known, Life};
use crate::control::clocks::{self, Clocks, Due};
use crate::control::lifecycle::{Ask, Heard, Lifecycle, Pace};
use crate::peers::{Answer, Encodable, Typed};
use crate::shared::Shared;

/// Why a broker serves no clients before it is a member.
pub(crate) fn not_counted_in(shared: &Shared) -> String {
    let sight = shared.metadata.quorum_sight();
    let Some(controller) = sight.controller() else {
        return sight.no_controller();
    };
    if let Some(unheard) = sight.unheard("does not answer this node") {
        return unheard;
    }
    let session = shared
        .catalog
        .config()
        .broker
        .quorum
        .session_timeout
        .as_secs();
    let node = shared.catalog.config().broker.node_id.0;
    match shared.state.refusal() {
        Some(ErrorCode::DuplicateBrokerRegistration) => format!(
            "{controller}, knows another process as node {node}. If this node ran a moment ago with another directory, that life is registered for \
             up to {session} s more; else stop the process that is wrong, or give it a node.id of its own"
        ),
        Some(ErrorCode::InconsistentClusterId) => format!(
            "{controller}, refuses this broker, whose directories are of cluster {}: it is of another one. Start this broker with empty \
             directories to join that cluster, or with the addresses of its own",
            shared.state.cluster_id(),
        ),
        _ => format!(
            "{controller}, has not let this broker in yet: see that each node is reached at the addresses that the others know of it"
        ),
    }
}

/// A broker that is no member says so after this pause, and then after pauses that are twice as long each.
const COMPLAINT_FIRST: Duration = Duration::from_secs(10);
const COMPLAINT_PAUSE_MAX: Duration = Duration::from_secs(320);
/// Directories are looked at this often; those that fail report it themselves.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The active controller, of any id.
const CONTROLLER: BrokerId = BrokerId(-1);
/// No life of this broker before is known to have lost nothing.
const NO_EPOCH: i64 = -1;

/// The broker as a member of its cluster.
pub(crate) struct Membership {
    pub(super) life: Lifecycle,
    request: BrokerRegistrationRequest,
    /// The lives that the next one is to know of.
    known: Known,
    /// The incarnation is durable, or was tried to be.
    is_announced: bool,
    /// A directory could not be written: it is tried again, because the next start claims nothing without it.
    is_unwritten: bool,
    complaints: Waiting,
    /// The broker serves nothing as a leader.
    is_silenced: bool,
    /// The log says so. It does not where that is for a moment, until the news of another leader are here.
    has_warned: bool,
    seen_dirs: SeenDirs,
    /// When directories are looked at again.
    look_at: Instant,
    /// The clock of the controller.
    clocks: Clocks,
}

/// The time of lines about a node that waits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waiting {
    /// The next line, and the pause behind it.
    next: Option<(Instant, Duration)>,
}

impl Waiting {
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let first = (now.plus(COMPLAINT_FIRST), COMPLAINT_FIRST * 2);
        let (at, pause) = *self.next.get_or_insert(first);
        let is_due = at <= now;
        if is_due {
            self.next = Some((now.plus(pause), (pause * 2).min(COMPLAINT_PAUSE_MAX)));
        }
        is_due
    }
}

/// Directories that the controller is told of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SeenDirs {
    failed: Vec<Uuid>,
    /// Full or slow.
    troubled: Vec<Uuid>,
}

impl SeenDirs {
    fn of(shared: &Shared, now: Instant) -> SeenDirs {
        let ids = |is: &dyn Fn(&LogDir) -> bool| -> Vec<Uuid> {
            let dirs = shared.volumes.dirs().iter().filter(|dir| is(dir));
            dirs.map(|dir| dir.id).collect()
        };
        SeenDirs {
            failed: ids(&LogDir::is_failed),
            troubled: ids(&|dir| !dir.is_failed() && dir.is_in_trouble(now)),
        }
    }
}

/// The answer to a request of the lifecycle.
pub(super) enum Told {
    Registered(i64),
    /// With the time at the controller in milliseconds since 1970, if it says so.
    Heard(Heard, Option<i64>),
}

impl Membership {
    pub(crate) fn new(
        broker: &meta::decide::register_broker::Broker,
        quorum: &config::Quorum,
        before: Before,
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
            incarnation_id: broker.incarnation,
            listeners: listeners.collect(),
            features: features.collect(),
            rack: broker.rack.clone(),
            log_dirs: broker.log_dirs.clone(),
            previous_broker_epoch: before.life.epoch.unwrap_or(NO_EPOCH),
            previous_incarnation_ids: before.life.incarnations,
            log_dir_lives: before.apart.iter().map(dir_life).collect(),
            ..BrokerRegistrationRequest::default()
        };
        let pace = Pace {
            interval: quorum.heartbeat_interval,
            session: quorum.session_timeout,
        };
        Membership {
            life: Lifecycle::new(pace, now),
            request,
            known: before.known,
            is_announced: false,
            is_unwritten: false,
            complaints: Waiting::default(),
            is_silenced: true,
            has_warned: true,
            seen_dirs: SeenDirs::default(),
            look_at: now,
            clocks: Clocks::default(),
        }
    }

    /// A directory that fails, gets full or slow, or is well again is news that a heartbeat brings at once.
    pub(super) fn watch_dirs(&mut self, shared: &Shared, now: Instant) {
        if now < self.look_at && !shared.volumes.take_news() {
            return;
        }
        self.look_at = now.plus(LOOK_EVERY);
        if self.is_unwritten {
            self.store(shared);
        }
        let seen = SeenDirs::of(shared, now);
        if seen != self.seen_dirs {
            self.seen_dirs = seen;
            self.life.hurry(now);
        }
    }

    /// When directories are to be looked at.
    pub(super) fn looks_at(&self) -> Instant {
        self.look_at
    }

    /// The request; `end` is that of the metadata that are published here.
    pub(super) fn request(&mut self, shared: &Shared, ask: Ask, end: i64) -> Typed {
        match ask {
            Ask::Register => {
                self.announce(shared);
                shared
                    .state
                    .cluster_id()
                    .clone_into(&mut self.request.cluster_id);
                Typed::new(self.request.clone())
            }
            Ask::Heartbeat { epoch, leaves } => {
                let failed = self.seen_dirs.failed.iter().copied();
                let settings = shared.catalog.config();
                let dirs = shared.volumes.dirs().iter();
                let cordoned = dirs.filter(|dir| settings.broker.is_cordoned(&dir.path));
                let cordoned: Vec<Uuid> = cordoned.map(|dir| dir.id).collect();
                Typed::new(Heartbeat(BrokerHeartbeatRequest {
                    broker_id: self.request.broker_id,
                    broker_epoch: epoch,
                    current_metadata_offset: end - 1,
                    want_fence: false,
                    want_shut_down: leaves,
                    offline_log_dirs: failed.collect(),
                    troubled_log_dirs: self.seen_dirs.troubled.clone(),
                    cordoned_log_dirs: Some(cordoned),
                    wall_time_ms: shared.env.clock.wall_ms().0,
                }))
            }
        }
    }

    /// The controller knows this broker, by that epoch from now on.
    pub(super) fn on_registered(&mut self, shared: &Shared, epoch: i64, now: Instant) {
        self.remember(shared, epoch);
        self.life.on_registered(Ok(epoch), now);
        shared.state.set_broker_epoch(epoch);
        shared.state.set_refusal(None);
    }

    /// A broker that was alone goes on under the registration that it wrote itself.
    pub(super) fn adopt(&mut self, shared: &Shared, epoch: i64, now: Instant) {
        self.remember(shared, epoch);
        self.life.adopt(epoch, now);
    }

    /// The registration may be granted without this life hearing of it: the next one follows it all the same.
    fn announce(&mut self, shared: &Shared) {
        if !self.is_announced {
            let BrokerRegistrationRequest {
                incarnation_id,
                log_dirs,
                ..
            } = &self.request;
            self.known.announce(*incarnation_id, log_dirs);
            self.store(shared);
        }
        self.is_announced = true;
    }

    /// The next life says that it follows this one, if it lost nothing.
    fn remember(&mut self, shared: &Shared, epoch: i64) {
        self.request.previous_broker_epoch = epoch;
        let mut known = self.known.clone();
        known.register(epoch, self.request.incarnation_id, &self.request.log_dirs);
        if self.known != known {
            self.known = known;
            self.store(shared);
        }
        self.is_announced = true;
    }

    fn store(&mut self, shared: &Shared) {
        let was_unwritten = std::mem::take(&mut self.is_unwritten);
        for dir in shared.volumes.dirs().iter().filter(|dir| !dir.is_failed()) {
            let Err(error) = broker_epoch_file::store(&*shared.env.disk, &dir.path, &self.known)
            else {
                continue;
            };
            self.is_unwritten = true;
            if !was_unwritten {
                tracing::error!(
                    target: env::logs::BROKER,
                    "cannot write the epoch of this broker to {}: {error}; it is tried again, and until then its replicas would count after \
                     a start as ones that may have lost something",
                    dir.path.display(),
                );
            }
        }
    }

    /// Says once that the broker stops acting as a leader, or that it does again. The shards see it by themselves.
    pub(super) fn watch_session(&mut self, shared: &Shared, now: Instant) {
        let is_silenced = self.life.leads_until().is_none_or(|until| until <= now);
        let serves = shared.state.is_serving();
        if is_silenced == self.is_silenced {
            return;
        }
        if serves {
            // Their coordinators resign, or begin anew.
            shared.mail.inboxes.wake_shards();
        }
        self.is_silenced = is_silenced;
        if is_silenced && self.life.leads_until().is_some() {
            self.has_warned = true;
            let session = shared.catalog.config().broker.quorum.session_timeout;
            tracing::warn!(
                target: env::logs::BROKER,
                "no answer of the active controller for nine tenths of broker.session.timeout.ms ({} ms): this broker acts as no leader \
                 until it is heard again, because others may be leaders by then",
                session.as_millis(),
            );
        } else if !is_silenced && self.has_warned && shared.state.is_serving() {
            self.has_warned = false;
            tracing::info!(target: env::logs::BROKER, "the active controller answers: this broker acts as a leader where it is one");
        }
    }

    /// The active controller said what time it is there. Between the request and this its clock went on by less than a heartbeat may take.
    pub(super) fn hear_clock(&mut self, shared: &Shared, wall_ms: i64, now: Instant) {
        let ahead_ms = wall_ms.saturating_sub(shared.env.clock.wall_ms().0);
        match self.clocks.on_heard(CONTROLLER, ahead_ms, now) {
            Some(Due::Apart { ahead_ms }) => tracing::warn!(
                target: env::logs::BROKER,
                "the clock of the active controller is {} that of this broker: timestamps, retention and the age of transactions differ by \
                 that. Set the clocks of all nodes by NTP",
                clocks::words(ahead_ms),
            ),
            Some(Due::Equal) => tracing::info!(
                target: env::logs::BROKER,
                "the clock of the active controller agrees with that of this broker again",
            ),
            None => {}
        }
    }

    /// When the broker stops acting as a leader if nobody answers it.
    pub(super) fn silenced_at(&self) -> Option<Instant> {
        self.life.leads_until().filter(|_| !self.is_silenced)
    }

    /// Says why the broker is no member yet, once that lasts, and then now and then.
    pub(super) fn complain(&mut self, shared: &Shared, code: ErrorCode, now: Instant) {
        let is_for_good = matches!(
            code,
            ErrorCode::DuplicateBrokerRegistration | ErrorCode::InconsistentClusterId
        );
        shared.state.set_refusal(Some(code).filter(|_| is_for_good));
        if !self.complaints.is_due(now) {
            return;
        }
        if is_for_good {
            tracing::error!(target: env::logs::BROKER, "no client is served: {}", not_counted_in(shared));
        } else if !shared.state.is_serving() {
            tracing::warn!(target: env::logs::BROKER, ?code, "no client is served: {}", not_counted_in(shared));
        }
    }
}

fn dir_life((directory, life): (&Uuid, &Life)) -> registration::LogDirLife {
    registration::LogDirLife {
        directory: *directory,
        broker_epoch: life.epoch.unwrap_or(NO_EPOCH),
        incarnation_ids: life.incarnations.clone(),
    }
}

/// First version that says which directories are cordoned. A controller that speaks an older one knows nothing of that.
const CORDONS_SINCE: i16 = 2;

struct Heartbeat(BrokerHeartbeatRequest);

impl Encodable for Heartbeat {
    fn key(&self) -> ApiKey {
        ApiKey::BrokerHeartbeat
    }

    fn frame(&self, version: i16, correlation: i32) -> Result<Bytes, EncodeError> {
        if CORDONS_SINCE <= version {
            return self.0.frame(version, correlation);
        }
        let older = BrokerHeartbeatRequest {
            cordoned_log_dirs: None,
            ..self.0.clone()
        };
        older.frame(version, correlation)
    }
}

/// Reads an answer; a refusal is its code.
pub(super) fn read(ask: Ask, answer: Answer) -> Result<Told, ErrorCode> {
    let broken = || ErrorCode::CorruptMessage;
    let refused = |code: i16| match ErrorCode::try_from(code) {
        Ok(ErrorCode::None) => Ok(()),
        Ok(code) => Err(code),
        Err(_) => Err(ErrorCode::UnknownServerError),
    };
    match ask {
        Ask::Register => {
            let read: BrokerRegistrationResponse = answer.read().ok_or_else(broken)?;
            refused(read.error_code)?;
            Ok(Told::Registered(read.broker_epoch))
        }
        Ask::Heartbeat { .. } => {
            let read: BrokerHeartbeatResponse = answer.read().ok_or_else(broken)?;
            refused(read.error_code)?;
            let wall_ms = Some(read.wall_time_ms).filter(|ms| 0 <= *ms);
            Ok(Told::Heard(heard(&read), wall_ms))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_waits_says_so_more_and_more_rarely() {
        let mut waiting = Waiting::default();
        let at = |second| Instant(0).plus(Duration::from_secs(second));
        let lines: Vec<u64> = (0..1_500)
            .filter(|second| waiting.is_due(at(*second)))
            .collect();
        assert_eq!(lines, [10, 30, 70, 150, 310, 630, 950, 1_270]);
    }
}
