//! State that is derived from batches and kept beside them: producer states as of the written end, leader epochs, the topic's id.
//!
//! The partition's own producer states run ahead of the files by what is still in memory; snapshots are taken of these here,
//! which follow the segment writer. A snapshot is a shortcut: damaged or missing, the batches say the same.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use env::disk::Open;
use env::{Disk, Env};
use log::producer::{self, ProducerStates, Unread};
use log::store::{Known, Store, StoreError};
use log::{Epochs, Syncing, checkpoint, metadata, txn_index};
use model::Offset;
use wire::Uuid;
use wire::records::Batch;

use crate::cuts::FileCut;

/// Snapshots kept per partition: the newest, and the one before in case the newest is damaged.
const SNAPSHOTS_KEPT: usize = 2;

/// Follows the written end of one partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Derived {
    pub(crate) producers: ProducerStates,
    /// Offsets of the snapshots in the directory, oldest first.
    snapshots: VecDeque<Offset>,
    pub(crate) are_epochs_stored: bool,
    is_id_stored: bool,
    /// Some batches of producers could not be read, from here on: no snapshot is taken until they are repaired and the states are rebuilt.
    pub(crate) unread_from: Option<Offset>,
}

impl Derived {
    /// Takes note of batches that `store` has, and notifies it of the transactions that were aborted in them.
    pub(crate) fn note(&mut self, batches: &[Batch], store: &Store) -> Result<(), StoreError> {
        for batch in batches {
            let marker = producer::marker_of(batch);
            let ended = self.producers.apply(batch, marker);
            if let Some(txn) = ended.filter(|txn| txn.aborted) {
                store.add_aborted(txn.into())?;
            } else if ended.is_none() && marker.is_some() && self.unread_from.is_some() {
                // The transaction may have begun in what cannot be read.
                store.doubt_txns(batch.base_offset())?;
            }
        }
        // Visibility is not asked of these states, so they need not wait until the markers are committed.
        self.producers.on_high_watermark(self.producers.end());
        Ok(())
    }

    /// The files were cut, or restarted. `carried` are the states that a restart goes on with.
    pub(crate) fn cut(
        &mut self,
        disk: &dyn Disk,
        store: &Store,
        cut: FileCut,
        carried: Option<ProducerStates>,
    ) -> Result<(), StoreError> {
        let at = |error| StoreError::Io {
            path: store.dir().to_path_buf(),
            error,
        };
        let (to, is_useless): (_, fn(Offset, Offset) -> bool) = match cut {
            FileCut::To(to) | FileCut::Lost(to) => (to, |taken, to| to < taken),
            FileCut::Restart { at, .. } => (at, |_, _| true),
        };
        let useless: Vec<Offset> = (self.snapshots.iter().copied())
            .filter(|taken| is_useless(*taken, to))
            .collect();
        producer::prune(disk, store.dir(), &useless).map_err(at)?;
        self.snapshots.retain(|taken| !is_useless(*taken, to));
        let has_any = !self.producers.is_empty() || self.producers.first_unstable().is_some();
        match cut {
            FileCut::To(to) | FileCut::Lost(to) if has_any || self.unread_from.is_some() => {
                self.make_anew(disk, store, to)?;
            }
            FileCut::To(_) | FileCut::Lost(_) | FileCut::Restart { .. } => {
                self.producers = carried.unwrap_or_else(|| ProducerStates::new(to));
                self.unread_from = None;
            }
        }
        self.producers.on_high_watermark(to);
        self.are_epochs_stored = false;
        Ok(())
    }

    /// Rebuilds the states of producers from what can be read up to `to`. If this broker comes to lead, producers with ids wait until the
    /// rest is repaired: nobody knows which of their batches are in the log.
    fn make_anew(&mut self, disk: &dyn Disk, store: &Store, to: Offset) -> Result<(), StoreError> {
        let rebuilt = producer::rebuild_readable(disk, store, to);
        let (states, unread) = rebuilt.map_err(|error| StoreError::Io {
            path: store.dir().to_path_buf(),
            error: io::Error::other(error.to_string()),
        })?;
        if let Some(Unread { at, why }) = &unread {
            tracing::error!(target: env::logs::SEGMENTS,
                "{}: the states of producers lack batches at or behind offset {at}: {why}",
                store.dir().display()
            );
            store.doubt_txns(*at)?;
        }
        self.producers = states;
        self.unread_from = unread.map(|unread| unread.at);
        Ok(())
    }

    /// Something was repaired: reads the batches again that could not be read. True if there were any: then the states were rebuilt.
    pub(crate) fn mend(&mut self, disk: &dyn Disk, store: &Store) -> Result<bool, StoreError> {
        let Some(from) = self.unread_from else {
            return Ok(false);
        };
        let end = self.producers.end().max(store.log_end());
        self.make_anew(disk, store, end)?;
        self.producers.on_high_watermark(end);
        if self.unread_from.is_none() {
            store.doubt_txns(from)?;
        }
        Ok(true)
    }

    /// The same states for files in another directory, which has nothing of them on disk yet.
    pub(crate) fn elsewhere(&self) -> Derived {
        Derived {
            producers: self.producers.clone(),
            unread_from: self.unread_from,
            ..Derived::default()
        }
    }

    /// The last offset at which the files may begin, where a cut may come to `committed`: states of producers are made of a snapshot and of
    /// what is behind it.
    pub(crate) fn files_begin_max(&self, committed: Offset) -> Offset {
        let below = self.snapshots.iter().filter(|taken| **taken <= committed);
        match below.max() {
            Some(taken) => *taken,
            None if self.has_producers() || !self.snapshots.is_empty() => Offset::ZERO,
            None => Offset(i64::MAX),
        }
    }

    pub(crate) fn has_producers(&self) -> bool {
        !self.producers.is_empty() || self.unread_from.is_some()
    }

    /// Writes what changed since the last time. Where local files go sooner than the log, the newest snapshot at or below `needed_from`
    /// stays: what is committed is never cut, so that states can be made of it and of files, however early these begin.
    pub(crate) fn store(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        topic: Uuid,
        epochs: Option<&Epochs>,
        needed_from: Option<Offset>,
        syncing: Syncing,
    ) -> io::Result<()> {
        if !self.is_id_stored {
            metadata::write(disk, dir, topic, syncing)?;
            self.is_id_stored = true;
        }
        if let Some(epochs) = epochs {
            epochs.write(disk, dir, syncing)?;
            self.are_epochs_stored = true;
        }
        let end = self.producers.end();
        let is_known = self.unread_from.is_none() && !self.producers.is_empty();
        if is_known && self.snapshots.back() != Some(&end) {
            producer::write(disk, dir, &self.producers, syncing)?;
            if syncing == Syncing::Now {
                disk.sync_dir(dir)?;
            }
            self.snapshots.push_back(end);
            self.prune(disk, dir, needed_from)?;
        }
        Ok(())
    }

    /// Removes the oldest snapshots but for those that are kept.
    fn prune(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        needed_from: Option<Offset>,
    ) -> io::Result<()> {
        let is_needed = |next: Option<&Offset>| {
            needed_from.is_some_and(|from| next.is_none_or(|next| from < *next))
        };
        while self.snapshots.len() > SNAPSHOTS_KEPT && !is_needed(self.snapshots.get(1)) {
            let old = self.snapshots.pop_front();
            producer::prune(disk, dir, old.as_slice())?;
        }
        Ok(())
    }
}

/// The derived state of a partition whose files were just opened at a checkpoint's `row`. Where other brokers have replicas, rot hides
/// producers until it is repaired.
pub(crate) fn load(
    env: &Env,
    store: &Store,
    row: &checkpoint::Row,
    has_others: bool,
) -> Result<Derived, StoreError> {
    let disk = &*env.disk;
    let at = |error| StoreError::Io {
        path: store.dir().to_path_buf(),
        error,
    };
    let mut derived = Derived {
        is_id_stored: true,
        ..Derived::default()
    };
    derived.producers = ProducerStates::new(row.log_end);
    if row.has_producers {
        match producer::read(disk, store.dir(), row.log_end) {
            Ok(states) => derived.producers = states,
            Err(_) if has_others => derived.make_anew(disk, store, row.log_end)?,
            Err(_) => {
                let rebuilt = producer::rebuild(disk, store, row.log_end);
                derived.producers =
                    rebuilt.map_err(|error| at(io::Error::other(error.to_string())))?;
            }
        }
    }
    let mut snapshots = store.snapshots()?;
    snapshots.sort_unstable();
    derived.snapshots = snapshots.into();
    let needed_from = (Offset::ZERO < row.restart_point).then_some(row.committed);
    derived.prune(disk, store.dir(), needed_from).map_err(at)?;
    // A checkpoint that was not completed may have stored epochs of records that it never vouched for. These records may come again from
    // the journal, or never.
    derived.are_epochs_stored = !store.forget_epochs(row.log_end);
    Ok(derived)
}

/// Removes what lies behind a checkpoint's state: it was not synced, and the journal has it.
pub(crate) fn cut_files(disk: &dyn Disk, dir: &Path, known: &Known) -> io::Result<()> {
    if !disk.exists(dir)? {
        return Ok(());
    }
    for entry in disk.read_dir(dir)? {
        let Some((base, extension)) = entry.name.split_once('.') else {
            continue;
        };
        let Ok(base) = base.parse::<i64>() else {
            continue;
        };
        let path = dir.join(&entry.name);
        if extension == "txnindex" && Offset(base) == known.active_base {
            txn_index::Files::of(dir, Offset(base)).cut(disk, known.log_end)?;
        }
        let is_later = match extension {
            "snapshot" => Offset(base) > known.log_end,
            "log" | "index" | "timeindex" | "txnindex" | "txncheck" | "headcheck" => {
                Offset(base) > known.active_base
            }
            _ => false,
        };
        if is_later {
            disk.remove_file(&path)?;
        } else if extension == "log"
            && Offset(base) == known.active_base
            && entry.len > known.active_len
        {
            disk.open(&path, Open::Write)?.set_len(known.active_len)?;
        }
    }
    Ok(())
}
