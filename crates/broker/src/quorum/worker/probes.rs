//! Brokers of which the active controller does not know whether they live: it dials them, and takes a refusal for the proof that the
//! process is gone (`docs/decisions/fencing.md`). Whatever else comes proves nothing, and their sessions go on.

use std::time::Duration;

use model::{BrokerId, Instant};
use raft::Endpoint;
use wire::messages::ApiVersionsRequest;

use super::{Author, QuorumWorker};
use crate::peers::{Lane, Outbound};

/// A broker that neither answers nor refuses by then is left to its session.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// A dial that breaks meets a process that is about to end: its connections are closed before the address is free. It is dialled again after
/// this pause.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// What came of a dial.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Probed {
    Refused,
    /// There was a connection, and it ended, or nothing came of it in time.
    Broken,
    Answered,
}

/// A broker that was lost sight of.
pub(super) struct Suspect {
    broker: BrokerId,
    epoch: i64,
    endpoint: Endpoint,
    /// One that was heard of later lives.
    since: Instant,
}

impl QuorumWorker {
    /// A new controller has heard of nobody, and the broker of the one before may be what ended its leadership.
    pub(super) fn probe_all(&mut self) {
        if !self.shared.metadata.is_active() || self.shared.state.is_alone() {
            return;
        }
        let me = self.shared.catalog.config().broker.node_id;
        let image = self.shared.catalog.image();
        let others = image.brokers();
        let others = others.filter(|broker| !broker.is_fenced && broker.id != me);
        for broker in others {
            self.probe(broker.id, broker.epoch);
        }
    }

    /// The connection of a broker has ended.
    pub(super) fn probe(&mut self, broker: BrokerId, epoch: i64) {
        if !self.shared.metadata.is_active() {
            return;
        }
        let Some(endpoint) = self.shared.catalog.endpoint_of(broker) else {
            return;
        };
        let since = self.shared.env.clock.now();
        self.dial(Suspect {
            broker,
            epoch,
            endpoint,
            since,
        });
    }

    fn dial(&mut self, suspect: Suspect) {
        self.send_out(Outbound {
            target: (suspect.endpoint.clone(), Lane::Probe),
            // Every broker answers this one.
            request: ApiVersionsRequest::default(),
            until: Some(suspect.since.plus(WAIT_MAX)),
            of: Author::Probe(suspect),
        });
    }

    pub(super) fn on_probed(&mut self, suspect: Suspect, probed: Probed) {
        let target = (suspect.endpoint.clone(), Lane::Probe);
        self.links.hang_up(&mut *self.poller, &target);
        match probed {
            Probed::Refused => {
                (self.shared)
                    .metadata
                    .fence_dead(suspect.broker, suspect.epoch, suspect.since);
            }
            Probed::Broken => {
                let at = self.shared.env.clock.now().plus(AGAIN_AFTER);
                if at < suspect.since.plus(WAIT_MAX) {
                    self.suspects.push((at, suspect));
                }
            }
            Probed::Answered => {}
        }
    }

    /// Dials the brokers again whose dials broke.
    pub(super) fn dial_again(&mut self, now: Instant) {
        let due = self.suspects.extract_if(.., |(at, _)| *at <= now);
        let due: Vec<Suspect> = due.map(|(_, suspect)| suspect).collect();
        for suspect in due {
            self.dial(suspect);
        }
    }
}
