//! Snapshots of the metadata: fetched from the leader, or made of what is committed here (KIP-630), which a chore writes.

use std::sync::Arc;

use model::Instant;
use raft::{Event, SnapshotId};

use super::QuorumWorker;
use crate::quorum::snapshot_writer::{Draft, SnapshotWriter};

impl QuorumWorker {
    /// A snapshot was fetched to its end. What is wrong with it is found now, and it is fetched again.
    pub(super) fn finish_snapshot(&mut self, id: SnapshotId, size: u64) {
        let event = match self.snapshots.finish(self.disk(), id, size) {
            Ok(loaded) => {
                let mut plan = self.shared.metadata.plan.lock();
                plan.install(id, Arc::new(loaded.image));
                (self.shared.meters.counts).on_snapshot(self.shared.env.clock.now());
                let facts = loaded.facts;
                Event::SnapshotInstalled { id, size, facts }
            }
            Err(error) => {
                // The quorum reports it, once for many.
                tracing::debug!(target: env::logs::METADATA, "a snapshot that was fetched: {error}");
                Event::SnapshotDamaged { id }
            }
        };
        self.shared.metadata.step(event);
    }

    /// Takes a snapshot when the last one is old enough.
    pub(crate) fn take_snapshot_if_due(&mut self, now: Instant) {
        if self.shared.metadata.is_snapshot_due(now) {
            self.take_snapshot();
        }
    }

    /// Has what is committed written as a snapshot, beside this worker.
    pub(super) fn take_snapshot(&mut self) {
        let now = self.shared.env.clock.now();
        let taken = self.shared.metadata.plan.lock().for_snapshot(now);
        if let Some((id, image, facts)) = taken {
            self.snapshot_desk.put(Draft { id, image, facts });
        }
    }

    /// The chore that writes the snapshots of this worker.
    pub(crate) fn snapshot_writer(&self) -> SnapshotWriter {
        let (shared, desk) = (Arc::clone(&self.shared), Arc::clone(&self.snapshot_desk));
        SnapshotWriter::new(shared, desk, self.snapshots.clone())
    }
}
