//! Making a log durable.
//!
//! No lock is held while the disk works. A sync that failed is never tried again: the kernel may have dropped the pages.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use env::FileHandle;
use model::Offset;

use super::{Store, StoreError, Tail};
use crate::journal::lacks_descriptors;
use crate::segment::Segment;

/// How far a log was written when a sync of the volume began.
pub struct Covered {
    life: u64,
    start: Offset,
    end: Offset,
    /// Segments with unsynced bytes, and how long they were.
    segments: Vec<(Arc<Segment>, u64)>,
}

struct SyncError {
    error: io::Error,
    is_final: bool,
}

impl Store {
    /// Makes everything written so far durable, and the entries of new files. Returns the end that this covers. After an
    /// error the caller takes the log directory offline.
    pub fn sync(&self) -> Result<Offset, StoreError> {
        let (dirty, dir_dirty, end, life) = {
            let mut tail = self.tail.lock();
            if tail.failed {
                return Err(StoreError::Offline {
                    dir: self.dir.to_path_buf(),
                });
            }
            // Handles are taken here: a segment that is retired while we sync has lost its name, its bytes not.
            let handle = |segment: &Arc<Segment>| {
                let file = segment.pinned_file();
                file.map(|file| (Arc::clone(segment), file))
            };
            let files: io::Result<Vec<_>> = tail.dirty.iter().map(handle).collect();
            // Without a descriptor nothing was synced, nor lost.
            tail.failed |= files.as_ref().is_err_and(|error| !lacks_descriptors(error));
            let files = files.map_err(|error| self.io(error))?;
            tail.dirty.clear();
            let life = self.lives.load(Ordering::Acquire);
            let dir_dirty = std::mem::take(&mut tail.dir_dirty);
            (files, dir_dirty, self.log_end(), life)
        };
        let synced = self.sync_files(&dirty, dir_dirty);
        let mut tail = self.tail.lock();
        tail.failed |= synced.as_ref().is_err_and(|synced| synced.is_final);
        // The files are synced, and their directory was not opened.
        tail.dir_dirty |= synced.as_ref().is_err_and(|synced| !synced.is_final);
        for (segment, _) in &dirty {
            // Written again meanwhile: stays open for the next sync.
            if !tail.dirty.iter().any(|again| Arc::ptr_eq(again, segment)) {
                segment.unpin();
            }
        }
        // Under the lock that a cut takes: it lowers what is synced after this, or has changed the life before.
        if synced.is_ok() && self.lives.load(Ordering::Acquire) == life {
            self.synced.fetch_max(end.0, Ordering::AcqRel);
        }
        drop(tail);
        self.pool.trim(dirty.len());
        synced.map_err(|synced| self.io(synced.error))?;
        Ok(end)
    }

    /// Syncs what was just written when too many files are open for unsynced bytes, so that this one can be closed. Slow,
    /// and bounded: it happens past some thousand partitions written since the last checkpoint.
    pub(super) fn relieve(&self, tail: &mut Tail) -> Result<(), StoreError> {
        if !self.pool.needs_relief() {
            return Ok(());
        }
        while let Some(segment) = tail.dirty.last() {
            let file = segment.pinned_file();
            tail.failed |= file.as_ref().is_err_and(|error| !lacks_descriptors(error));
            let synced = file.map_err(|error| self.io(error))?.sync_data();
            // Final even when it found no room: the pages may be gone.
            tail.failed |= synced.is_err();
            synced.map_err(|error| self.io(error))?;
            segment.close();
            tail.dirty.pop();
        }
        Ok(())
    }

    fn sync_files(
        &self,
        dirty: &[(Arc<Segment>, FileHandle)],
        dir_dirty: bool,
    ) -> Result<(), SyncError> {
        let is_final = |error| SyncError {
            is_final: true,
            error,
        };
        for (_, file) in dirty {
            file.sync_data().map_err(is_final)?;
        }
        for segment in self.segments.load().iter() {
            let txns = segment.take_unsynced_txns().into_iter().flatten();
            for file in txns.chain(segment.take_unsynced_heads()) {
                file.sync_data().map_err(is_final)?;
            }
        }
        match dir_dirty.then(|| self.disk().sync_dir(&self.dir)) {
            Some(Err(error)) => Err(SyncError {
                // A directory is opened to be synced.
                is_final: !lacks_descriptors(&error),
                error,
            }),
            _ => Ok(()),
        }
    }

    /// Something was written that no sync has covered.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        let tail = self.tail.lock();
        tail.dir_dirty || !tail.dirty.is_empty()
    }

    /// The files that a sync of the volume makes durable if it begins now.
    #[must_use]
    pub fn before_volume_sync(&self) -> Covered {
        let tail = self.tail.lock();
        let segments = tail.dirty.iter();
        Covered {
            life: self.lives.load(Ordering::Acquire),
            start: self.local_start(),
            end: self.log_end(),
            segments: segments
                .map(|segment| (Arc::clone(segment), segment.len()))
                .collect(),
        }
    }

    /// Takes over that the volume was synced: what was not written again meanwhile needs no sync of its own.
    pub fn on_volume_synced(&self, covered: &Covered) {
        let mut tail = self.tail.lock();
        // Cut since it began: other bytes lie there, and the next sync covers all.
        if tail.failed || self.lives.load(Ordering::Acquire) != covered.life {
            return;
        }
        let is_covered = |dirty: &mut Arc<Segment>| {
            let is_it = |(segment, len): &(Arc<Segment>, u64)| {
                Arc::ptr_eq(segment, dirty) && segment.len() == *len
            };
            covered.segments.iter().any(is_it)
        };
        for segment in tail.dirty.extract_if(.., is_covered) {
            segment.unpin();
        }
        // No segment was begun since, nor removed.
        tail.dir_dirty &= (self.local_start(), self.log_end()) != (covered.start, covered.end);
        // These are written for checkpoints only, one at a time.
        for segment in self.segments.load().iter() {
            segment.take_unsynced_txns();
            segment.on_heads_synced();
        }
        self.synced.fetch_max(covered.end.0, Ordering::AcqRel);
        drop(tail);
    }
}
