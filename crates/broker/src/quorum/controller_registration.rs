//! This controller says where it listens and which features it supports (KIP-919), so that no level is finalized that it does not know.
//!
//! A machine without clock or connections. It asks until the metadata have this life of the process: an answer alone is not enough, for
//! the record may be lost with the leadership of the one that gave it.

use std::time::Duration;

use model::Instant;
use wire::messages::ControllerRegistrationRequest;
use wire::messages::controller_registration_request as asked;

/// The record of an answer takes so long to come here; a refusal is asked about again after as long, then twice, up to the other.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

pub(crate) struct ControllerRegistration {
    request: ControllerRegistrationRequest,
    /// `None` while a request is under way.
    due: Option<Instant>,
    pause: Duration,
}

impl ControllerRegistration {
    /// `incarnation` is of this run of the process.
    pub(crate) fn new(
        me: &raft::Me,
        incarnation: wire::Uuid,
        now: Instant,
    ) -> ControllerRegistration {
        let listeners = me.listeners.iter().map(|at| asked::Listener {
            name: at.name.clone(),
            host: at.endpoint.host.clone(),
            port: at.endpoint.port,
            security_protocol: meta::SecurityProtocol::PLAINTEXT.0,
        });
        let supported = meta::decide::register_broker::supported().into_iter();
        let features = supported.map(|(name, levels)| asked::Feature {
            name,
            min_supported_version: levels.min,
            max_supported_version: levels.max,
        });
        ControllerRegistration {
            request: ControllerRegistrationRequest {
                controller_id: me.replica.id.0,
                incarnation_id: incarnation,
                zk_migration_ready: false,
                listeners: listeners.collect(),
                features: features.collect(),
            },
            due: Some(now),
            pause: PAUSE_MIN,
        }
    }

    /// True if the metadata lack this life of the controller, and may have it.
    pub(crate) fn is_wanted(&self, image: &meta::Image) -> bool {
        let mut known = image.controllers();
        let is_known = known.any(|known| {
            known.id.0 == self.request.controller_id
                && known.incarnation == self.request.incarnation_id
        });
        !is_known && meta::MetadataVersion::V3_7_IV0 <= image.metadata_version()
    }

    /// When the request is due, if it is wanted.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due
    }

    /// The request, if it is due. Its answer, or its failure, has to be reported.
    pub(crate) fn take(&mut self, now: Instant) -> Option<&ControllerRegistrationRequest> {
        self.due.take_if(|due| *due <= now)?;
        Some(&self.request)
    }

    pub(crate) fn on_answer(&mut self, is_taken: bool, now: Instant) {
        self.pause = if is_taken {
            PAUSE_MIN
        } else {
            (self.pause * 2).min(PAUSE_MAX)
        };
        self.due = Some(now.plus(self.pause));
    }

    /// There is no controller now, or it cannot be reached.
    pub(crate) fn on_nobody(&mut self, now: Instant) {
        self.due = Some(now.plus(PAUSE_MIN));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_controller_asks_less_and_less_often_and_one_request_is_under_way_at_a_time() {
        let at = |secs| Instant(0).plus(Duration::from_secs(secs));
        let me = raft::Me {
            replica: raft::Replica {
                id: model::BrokerId(3),
                directory: wire::Uuid([1; 16]),
            },
            cluster: Some("c".into()),
            proposal: String::new(),
            listeners: Vec::new(),
            listener: "CONTROLLER".into(),
            seeds: Vec::new(),
            versions: raft::VersionRange { min: 0, max: 1 },
        };
        let mut registration = ControllerRegistration::new(&me, wire::Uuid([7; 16]), at(0));
        let request = registration.take(at(0)).expect("it is due");
        assert_eq!(request.controller_id, 3);
        assert!(
            (request.features.iter())
                .any(|it| it.name == "kraft.version" && it.max_supported_version == 1)
        );
        assert!(registration.take(at(9)).is_none(), "one is under way");
        for pause in [2, 4, 8, 16, 32, 60, 60] {
            registration.on_answer(false, at(100));
            assert_eq!(registration.deadline(), Some(at(100 + pause)));
        }
        registration.on_answer(true, at(100));
        assert_eq!(registration.deadline(), Some(at(101)));
        registration.take(at(101));
        registration.on_nobody(at(200));
        assert_eq!(registration.deadline(), Some(at(201)));
    }
}
