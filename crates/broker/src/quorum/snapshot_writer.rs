//! The chore that encodes snapshots of the metadata and writes them, on a thread of its own: both take long where there are many partitions,
//! and the time of the quorum does not wait for them.
//!
//! Owns the draft that is to be written: the newest, since one says all that those before it did. One that cannot be written is tried again after a
//! pause, and nothing depends on it meanwhile: the log keeps its records until the machine hears of a later snapshot.

use std::sync::Arc;
use std::time::Duration;

use env::{Bell, Turn, Worker};
use meta::Image;
use meta::checkpoint::{self, Head};
use model::Instant;
use parking_lot::Mutex;
use raft::{Event, SnapshotFacts, SnapshotId, VoterSet};

use crate::control::snapshot_files::SnapshotDir;
use crate::shared::Shared;

/// A draft that could not be written is tried again after this pause.
const RETRY: Duration = Duration::from_secs(5);

/// A snapshot that is to be written.
pub(super) struct Draft {
    pub(super) id: SnapshotId,
    pub(super) image: Arc<Image>,
    pub(super) facts: SnapshotFacts,
}

#[derive(Default)]
struct Slot {
    draft: Option<Draft>,
    is_closed: bool,
}

/// The way to the chore.
pub(super) struct SnapshotDesk {
    slot: Mutex<Slot>,
    bell: Arc<dyn Bell>,
}

impl SnapshotDesk {
    pub(super) fn new(bell: Arc<dyn Bell>) -> SnapshotDesk {
        SnapshotDesk {
            slot: Mutex::default(),
            bell,
        }
    }

    /// Has the chore write a snapshot, instead of an earlier one that it has not written.
    pub(super) fn put(&self, draft: Draft) {
        self.slot.lock().draft = Some(draft);
        self.bell.ring();
    }

    /// The broker stops: what is not written is made anew by the next start.
    pub(super) fn close(&self) {
        self.slot.lock().is_closed = true;
        self.bell.ring();
    }
}

pub(crate) struct SnapshotWriter {
    shared: Arc<Shared>,
    desk: Arc<SnapshotDesk>,
    dir: SnapshotDir,
    draft: Option<Draft>,
    /// Set after a failure.
    rests_until: Option<Instant>,
    has_complained: bool,
}

impl SnapshotWriter {
    pub(super) fn new(shared: Arc<Shared>, desk: Arc<SnapshotDesk>, dir: SnapshotDir) -> Self {
        SnapshotWriter {
            shared,
            desk,
            dir,
            draft: None,
            rests_until: None,
            has_complained: false,
        }
    }

    fn write(&mut self, draft: Draft, now: Instant) {
        match self.try_to_write(&draft) {
            Ok(size) => self.on_written(draft.id, size, now),
            Err(error) => {
                if !self.has_complained {
                    tracing::error!(
                        target: env::logs::METADATA,
                        "cannot write a snapshot of the metadata: {error}; it is tried again every {} s, and the metadata log keeps its records until then",
                        RETRY.as_secs(),
                    );
                    self.shared.meters.counts.on_snapshot_failed(now);
                }
                self.has_complained = true;
                self.rests_until = Some(now.plus(RETRY));
                self.draft = Some(draft);
            }
        }
    }

    fn try_to_write(&self, draft: &Draft) -> Result<u64, String> {
        let env = &self.shared.env;
        let head = Head {
            time: None,
            kraft_version: draft.facts.version,
            voters: draft.facts.voters.as_ref().map(VoterSet::to_record),
            cluster_id: draft.facts.cluster.clone(),
        };
        let bytes = checkpoint::write(&draft.image, &head, env.clock.wall_ms());
        let bytes = bytes.map_err(|error| error.to_string())?;
        let done = self.dir.write(&*env.disk, draft.id, &bytes);
        done.map_err(|error| error.to_string())?;
        Ok(bytes.len() as u64)
    }

    fn is_known(&self, id: SnapshotId) -> bool {
        let plan = self.shared.metadata.plan.lock();
        plan.quorum.log().snapshot_size(id).is_some()
    }

    /// The log may begin at the snapshot before this one: two are kept.
    fn on_written(&mut self, id: SnapshotId, size: u64, now: Instant) {
        if std::mem::take(&mut self.has_complained) {
            tracing::info!(target: env::logs::METADATA, "snapshots of the metadata are written again");
        }
        let shared = &self.shared;
        shared.meters.counts.on_snapshot(now);
        let before = shared.metadata.last_snapshot();
        shared.metadata.step(Event::SnapshotWritten { id, size });
        // A later one may have been fetched meanwhile, and the machine has no use for this one.
        if !self.is_known(id) {
            let done = self.dir.delete(&*shared.env.disk, id);
            if let Err(error) = done {
                tracing::error!(target: env::logs::METADATA, "cannot remove an old snapshot of the metadata: {error}");
            }
            return;
        }
        if let Some(to) = before.filter(|before| *before < id) {
            shared.metadata.step(Event::Trim { to });
        }
        tracing::debug!(target: env::logs::METADATA, %id, size, "wrote a snapshot of the metadata");
    }
}

impl Worker for SnapshotWriter {
    fn turn(&mut self) -> Turn {
        let mut slot = self.desk.slot.lock();
        if slot.is_closed {
            return Turn::Done;
        }
        let newer = slot.draft.take();
        drop(slot);
        self.draft = newer.or_else(|| self.draft.take());
        let now = self.shared.env.clock.now();
        if let Some(until) = self.rests_until.filter(|until| now < *until) {
            return Turn::Sleep { until: Some(until) };
        }
        self.rests_until = None;
        if let Some(draft) = self.draft.take() {
            self.write(draft, now);
        }
        let until = self.rests_until;
        Turn::Sleep { until }
    }

    fn park(&mut self, until: Option<Instant>) {
        self.desk.bell.wait(until);
    }
}
