//! Snapshots of the metadata: fetched from the leader, or made of what is committed here (KIP-630).

use std::sync::Arc;

use meta::checkpoint::{self, Head};
use model::Instant;
use raft::{Event, SnapshotId, VoterSet};

use super::QuorumWorker;

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
    pub(in crate::control) fn take_snapshot_if_due(&mut self, now: Instant) {
        if self.shared.metadata.is_snapshot_due(now) {
            self.take_snapshot();
        }
    }

    /// Writes what is committed as a snapshot, and lets the log begin at the one before it: two are kept.
    pub(super) fn take_snapshot(&mut self) {
        let now = self.shared.env.clock.now();
        let taken = self.shared.metadata.plan.lock().for_snapshot(now);
        let Some((id, image, facts)) = taken else {
            return;
        };
        let head = Head {
            time: None,
            kraft_version: facts.version,
            voters: facts.voters.as_ref().map(VoterSet::to_record),
            cluster_id: facts.cluster,
        };
        let now = self.shared.env.clock.wall_ms();
        let written = checkpoint::write(&image, &head, now).map_err(|error| error.to_string());
        let written = written.and_then(|bytes| {
            let done = self.snapshots.write(self.disk(), id, &bytes);
            done.map(|()| bytes.len() as u64)
                .map_err(|error| error.to_string())
        });
        match written {
            Err(error) => {
                tracing::error!(target: env::logs::METADATA, "cannot write a snapshot of the metadata: {error}");
            }
            Ok(size) => {
                (self.shared.meters.counts).on_snapshot(self.shared.env.clock.now());
                let before = self.shared.metadata.last_snapshot();
                (self.shared)
                    .metadata
                    .step(Event::SnapshotWritten { id, size });
                if let Some(to) = before.filter(|before| *before < id) {
                    self.shared.metadata.step(Event::Trim { to });
                }
                tracing::debug!(target: env::logs::METADATA, %id, size, "wrote a snapshot of the metadata");
            }
        }
    }
}
