//! A node without the id of its cluster asks the leader for it.
//!
//! It learns the id from the metadata log, where that names it, or from a leader that calls on it. Where the leader is of Apache Kafka or of
//! an earlier version neither may come, and no broker registers without the id.

use std::time::Duration;

use model::Instant;
use raft::Event;

use super::{Author, LIFECYCLE_WAIT_MAX, QuorumWorker};
use crate::control::find_cluster;
use crate::peers::{Answer, Lane, Outbound};

/// The first question, and the pause between two.
const ASKED_EVERY: Duration = Duration::from_secs(1);

impl QuorumWorker {
    pub(super) fn find_cluster(&mut self, now: Instant) {
        if !self.shared.state.cluster_id().is_empty() {
            self.finds_cluster_at = None;
            return;
        }
        let next = now.plus(ASKED_EVERY);
        let at = *self.finds_cluster_at.get_or_insert(next);
        if now < at {
            return;
        }
        self.finds_cluster_at = Some(next);
        self.clusters_asked_for = self.clusters_asked_for.wrapping_add(1);
        let Some(endpoint) = self.controller.clone() else {
            return;
        };
        self.send_out(Outbound {
            target: (endpoint, Lane::Controller),
            request: find_cluster::question(self.clusters_asked_for),
            until: Some(now.plus(LIFECYCLE_WAIT_MAX)),
            of: Author::FindCluster,
        });
    }

    pub(super) fn on_cluster_found(&mut self, answer: Answer) {
        if let Some(cluster) = find_cluster::read(answer) {
            self.shared.metadata.step(Event::ClusterTold { cluster });
        }
    }
}
