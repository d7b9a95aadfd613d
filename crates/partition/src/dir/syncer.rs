//! The sync of a log directory's volume, on a thread of its own: it may take long, and the segment writer continues meanwhile.

use std::io;
use std::sync::Arc;

use env::{Turn, Worker};
use model::Instant;

use super::log_dir::{LogDir, VolumeSync};
use crate::sync::Ordering;

/// Number of partitions to sync from which one sync of the volume is cheaper than those of the files.
pub(super) const VOLUME_SYNC_MIN: usize = 16;

impl LogDir {
    /// One sync for everything written, files that were closed meanwhile as well.
    pub(super) fn sync_volume(&self) -> io::Result<()> {
        let disk = &self.env.disk;
        disk.sync_volume(&self.path)?;
        disk.sync_dir(&self.path)
    }
}

/// Syncs the volume when the segment writer asks for it. Sync and news are turns of their own: what other
/// threads do between them, the simulator does too.
pub struct Syncer {
    dir: Arc<LogDir>,
    synced: Option<io::Result<()>>,
}

impl Syncer {
    pub fn new(dir: Arc<LogDir>) -> Syncer {
        Syncer { dir, synced: None }
    }
}

impl Worker for Syncer {
    fn turn(&mut self) -> Turn {
        if let Some(synced) = self.synced.take() {
            *self.dir.volume_sync.lock() = VolumeSync::Done(synced);
            self.dir.writer_bell.ring();
            return Turn::Again;
        }
        {
            let mut stage = self.dir.volume_sync.lock();
            if !matches!(*stage, VolumeSync::Asked) {
                return if self.dir.stopping.load(Ordering::Acquire) {
                    Turn::Done
                } else {
                    Turn::Sleep { until: None }
                };
            }
            *stage = VolumeSync::Running;
        }
        self.synced = Some(self.dir.sync_volume());
        Turn::Again
    }

    fn park(&mut self, until: Option<Instant>) {
        self.dir.syncer_bell.wait(until);
    }
}
