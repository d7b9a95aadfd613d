//! A node without the id of its cluster asks the leader for it.
//!
//! It learns the id from the metadata log, where that names it, or from a leader that calls on it. Where the leader is of Apache Kafka or of
//! an earlier version neither may come, and no broker registers without the id.

use std::time::Duration;

use model::Instant;
use raft::Event;

use super::{Author, LIFECYCLE_WAIT_MAX, QuorumWorker};
use crate::control::introduction;
use crate::peers::{Answer, Lane, Outbound};

/// The first question, and the pause between two.
const ASKED_EVERY: Duration = Duration::from_secs(1);

impl QuorumWorker {
    pub(super) fn introduce(&mut self, now: Instant) {
        if !self.shared.state.cluster_id().is_empty() {
            self.introduces_at = None;
            return;
        }
        let next = now.plus(ASKED_EVERY);
        let at = *self.introduces_at.get_or_insert(next);
        if now < at {
            return;
        }
        self.introduces_at = Some(next);
        self.introductions = self.introductions.wrapping_add(1);
        let Some(endpoint) = self.controller.clone() else {
            return;
        };
        self.send_out(Outbound {
            target: (endpoint, Lane::Controller),
            request: introduction::question(self.introductions),
            until: Some(now.plus(LIFECYCLE_WAIT_MAX)),
            of: Author::Introduction,
        });
    }

    pub(super) fn on_introduced(&mut self, answer: Answer) {
        if let Some(cluster) = introduction::read(answer) {
            self.shared.metadata.step(Event::ClusterTold { cluster });
        }
    }
}
