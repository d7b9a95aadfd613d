//! One log on its way back at a start: its files as the checkpoint vouches for them, then what the journal adds.
//!
//! Owns the files of its partition until it becomes a [`Partition`]. What was durable and cannot be read becomes a [`Hole`].

use std::path::PathBuf;
use std::sync::Arc;

use env::Env;
use log::checkpoint;
use log::journal::{Entry, What};
use log::store::{Known, Read, Store, StoreError};
use log::{Epochs, FilePool};
use model::{Offset, PartitionIndex, Timestamp};
use wire::Uuid;
use wire::records::{Batch, BatchError, Source};

use super::{Found, LogDir, OpenError, writer};
use crate::derived::{self, Derived};
use crate::partition::{Hole, Partition, Start};

/// One partition on its way back.
pub(super) struct Log {
    pub(super) found: Found,
    pub(super) path: PathBuf,
    pub(super) store: Option<Store>,
    pub(super) log_start: Offset,
    pub(super) derived: Derived,
    pub(super) epochs: Epochs,
    pub(super) holes: Vec<Hole>,
    pending: Vec<Batch>,
    pending_bytes: usize,
    pub(super) is_changed: bool,
}

/// Replayed batches are written in runs of this.
const PENDING_BYTES_MAX: usize = 1 << 20;

impl Log {
    /// Opens a partition's files and cuts them back to the checkpoint: what lies behind it was not synced, and is in the journal.
    pub(super) fn open(
        env: &Env,
        files: &Arc<FilePool>,
        path: PathBuf,
        found: Found,
        row: Option<&checkpoint::Row>,
        holes: Vec<Hole>,
    ) -> Result<Log, OpenError> {
        let has_files = env.disk.exists(&path).map_err(|error| OpenError::Io {
            path: path.clone(),
            error,
        })?;
        let mut log = Log {
            epochs: Epochs::default(),
            derived: Derived::default(),
            store: None,
            log_start: row.map_or(Offset::ZERO, |row| row.log_start),
            holes,
            pending: Vec::new(),
            pending_bytes: 0,
            is_changed: false,
            found,
            path,
        };
        match row.filter(|row| row.has_files) {
            Some(row) => {
                let known = Known {
                    log_start: row.log_start,
                    log_end: row.log_end,
                    active_base: row.active_base,
                    active_len: row.active_len.0,
                };
                derived::cut_files(&*env.disk, &log.path, &known).map_err(|error| {
                    OpenError::Io {
                        path: log.path.clone(),
                        error,
                    }
                })?;
                let (store, state) =
                    Store::open(files, &log.path, Arc::clone(&log.found.config), Some(known))?;
                if state.known_is_stale || !state.is_clean() {
                    store.truncate_to(row.log_end)?;
                }
                if state.log_end < row.log_end {
                    log.holes.push(Hole {
                        from: state.log_end,
                        to: row.log_end,
                    });
                    eprintln!(
                        "{}: offsets {} to {} were durable and are damaged",
                        log.path.display(),
                        state.log_end,
                        row.log_end
                    );
                }
                let (derived, epochs) = derived::load(env, &store, row)?;
                log.derived = derived;
                log.epochs = epochs;
                log.store = Some(store);
            }
            // Files that no checkpoint covers hold nothing that the journal lacks.
            None if has_files => {
                env.disk
                    .remove_dir_all(&log.path)
                    .map_err(|error| OpenError::Io {
                        path: log.path.clone(),
                        error,
                    })?;
            }
            None => {}
        }
        Ok(log)
    }

    fn end(&self) -> Offset {
        self.pending
            .last()
            .map_or_else(|| self.written_end(), |batch| batch.next_offset())
    }

    fn written_end(&self) -> Offset {
        self.store.as_ref().map_or(self.log_start, Store::log_end)
    }

    pub(super) fn apply(
        &mut self,
        entry: Entry,
        files: &Arc<FilePool>,
        wall: Timestamp,
    ) -> Result<(), StoreError> {
        self.is_changed = true;
        match entry.what {
            What::Trim { start } => self.log_start = self.log_start.max(start),
            // A checkpoint that was taken later already holds it.
            What::Batch(batch) if batch.base_offset() < self.end() => {}
            What::Batch(batch) => {
                if batch.base_offset() > self.end() {
                    let hole = Hole {
                        from: self.end(),
                        to: batch.base_offset(),
                    };
                    eprintln!(
                        "{}: offsets {} to {} were durable and are damaged",
                        self.path.display(),
                        hole.from,
                        hole.to
                    );
                    self.holes.push(hole);
                }
                self.epochs
                    .assign(batch.leader_epoch(), batch.base_offset());
                self.pending_bytes += batch.size();
                self.pending.push(batch);
                if self.pending_bytes > PENDING_BYTES_MAX {
                    self.write(files, wall)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn write(
        &mut self,
        files: &Arc<FilePool>,
        wall: Timestamp,
    ) -> Result<(), StoreError> {
        if !self.pending.is_empty() {
            let store = match &self.store {
                Some(store) => store,
                None => {
                    let start = self
                        .pending
                        .first()
                        .map_or(self.log_start, |batch| batch.base_offset());
                    self.store.insert(Store::create(
                        files,
                        &self.path,
                        Arc::clone(&self.found.config),
                        start,
                    )?)
                }
            };
            store.append(&self.pending, wall)?;
            self.derived.note(&self.pending, store)?;
            self.pending.clear();
            self.pending_bytes = 0;
        }
        if let Some(store) = &self.store {
            store.advance_log_start(self.log_start);
        }
        Ok(())
    }

    pub(super) fn row(
        &self,
        (topic, partition): (Uuid, PartitionIndex),
    ) -> Option<checkpoint::Row> {
        let known = self.store.as_ref().map(Store::known);
        let has_producers = !self.derived.producers.is_empty();
        writer::row(topic, partition, self.log_start, known, has_producers)
    }

    pub(super) fn into_partition(
        self,
        (topic, index): (Uuid, PartitionIndex),
        dir: &Arc<LogDir>,
    ) -> Arc<Partition> {
        let log_end = self.written_end();
        let start = Start {
            log_start: self.log_start.min(log_end),
            log_end,
            epoch: self.found.epoch,
            epochs: self.epochs,
            derived: self.derived,
            config: self.found.config,
            store: self.store,
            holes: self.holes,
        };
        Partition::new(topic, self.found.topic, index, Arc::clone(dir), start)
    }
}

pub(super) fn read_all(store: &Store) -> Result<Vec<Batch>, OpenError> {
    let mut batches = Vec::new();
    let mut from = store.log_start();
    while let Read::Slice(slice) = store.read(from, store.log_end(), PENDING_BYTES_MAX)? {
        let bytes = slice.read().map_err(|error| OpenError::Io {
            path: store.dir().to_path_buf(),
            error,
        })?;
        let before = from;
        for batch in Batch::cut(&bytes, Source::Log) {
            let batch = match batch {
                Err(BatchError::Truncated { .. }) => break,
                batch => batch?,
            };
            if batch.next_offset() > from {
                from = batch.next_offset();
                batches.push(batch);
            }
        }
        if from == before {
            return Err(OpenError::Damaged {
                path: store.dir().to_path_buf(),
                what: format!("no batch at offset {from}"),
            });
        }
    }
    Ok(batches)
}
