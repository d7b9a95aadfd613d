//! Requests to leaders: what a follower asks each of them for, and when it asks for no records.

use std::time::Duration;

use model::BrokerId;
use replica::{Terms, Way};

use super::{ReplicaWorker, lane};
use crate::peers::Outbound;

/// Beyond the wait that was asked for a leader is silent.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// A log directory that has as much to write as it may is looked at again so soon.
const FULL_WAIT: Duration = Duration::from_millis(20);
/// A throttle is looked at again so soon: its rate may have changed.
const THROTTLE_CHECK: Duration = Duration::from_secs(1);

impl ReplicaWorker {
    pub(super) fn terms(&self) -> Terms {
        let settings = self.shared.catalog.config();
        let number = |name, otherwise: i64| settings.broker.number(name).unwrap_or(otherwise);
        let millis = |name, otherwise| {
            Duration::from_millis(u64::try_from(number(name, otherwise)).unwrap_or(0))
        };
        let bytes = |name, otherwise| i32::try_from(number(name, otherwise)).unwrap_or(i32::MAX);
        Terms {
            wait_max: millis("replica.fetch.wait.max.ms", 500),
            bytes_max: bytes("replica.fetch.response.max.bytes", 10 << 20),
            partition_bytes_max: bytes("replica.fetch.max.bytes", 1 << 20),
            backoff: millis("replica.fetch.backoff.ms", 1_000),
        }
    }

    pub(super) fn send(&mut self) {
        self.engines.retain(|_, engine| !engine.is_over());
        self.leaders
            .keep(|leader| self.engines.contains_key(leader));
        self.hold_throttled();
        let terms = self.terms_now();
        let leaders: Vec<BrokerId> = self.engines.keys().copied().collect();
        for way in [Way::Tail, Way::Bulk] {
            for leader in &leaders {
                self.send_to(*leader, way, terms);
            }
        }
    }

    /// Leaders hear what is synced and send no records, while a log directory has as much to write as it may.
    fn terms_now(&mut self) -> Terms {
        let terms = self.terms();
        let is_full = self
            .shared
            .volumes
            .dirs()
            .iter()
            .any(|dir| dir.is_overloaded());
        let until = self.shared.env.clock.now().plus(FULL_WAIT);
        self.full_until = is_full.then_some(until);
        match self.full_until {
            None => terms,
            Some(_) => Terms {
                bytes_max: 0,
                wait_max: terms.wait_max.min(FULL_WAIT),
                ..terms
            },
        }
    }

    /// Replicas that are throttled and have far to go wait until the rate allows more.
    fn hold_throttled(&mut self) {
        let following = &self.shared.catalog.throttles.following;
        let now = self.shared.env.clock.now();
        if let Some(until) = following.opens_at(now) {
            let until = until.min(now.plus(THROTTLE_CHECK));
            for engine in self.engines.values_mut() {
                engine.hold(|key| following.has(key), Some(until));
            }
        }
    }

    fn send_to(&mut self, leader: BrokerId, way: Way, terms: Terms) {
        let now = self.shared.env.clock.now();
        let broker_epoch = self.shared.state.broker_epoch();
        let others = self.tail_bytes + self.shared.meters.produced_bytes();
        let Some(engine) = self.engines.get_mut(&leader) else {
            return;
        };
        while let Some(request) = engine.request(way, broker_epoch, terms, others, now) {
            let Some(endpoint) = self.shared.catalog.endpoint_of(leader) else {
                return engine.on_lost(way, terms, now);
            };
            let outbound = Outbound {
                target: (endpoint, lane(way)),
                request,
                until: Some(now.plus(terms.wait_max + SILENCE_MAX)),
                of: (leader, way),
            };
            self.links.send(&mut *self.poller, outbound);
            self.leaders.on_asked(leader, now);
        }
    }
}
