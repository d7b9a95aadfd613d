//! Partitions whose files cannot be read at a start: they are offline for the life of the process, the others are not.
//!
//! The files stay as they are, and so does what the checkpoint says of them, for a later start that can read them. Records of such a
//! partition in the journal are put aside in a log of their own, beside the partition's directory, so that the journal can be used again;
//! that start takes them back. Invariant: no acknowledged record is only in memory, and none is in the way of a topic that is created again
//! under the same name (the names of what is put aside have the topic's id).

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use env::disk::Open;
use env::{Disk, Env};
use log::checkpoint;
use log::journal::is_full;
use log::store::{Store, StoreError};
use model::PartitionIndex;
use wire::Uuid;

use super::error::OpenError;
use super::log_loader::{Found, Log, Wrote};
use super::recovery::Recovery;
use crate::dir::names::{fold_together, is_rescued_name, is_there, rescued_name};
use crate::dir::rows;
use crate::partition::Hole;

/// Bytes at the end of each file that are tried before its partition is given up: all of an index file, and of a log the part that a start
/// may have to walk.
const TRIED_BYTES_MAX: u64 = 8 << 20;

/// The names of what earlier starts have put aside.
pub(super) fn list(env: &Env, path: &Path) -> io::Result<BTreeSet<String>> {
    let entries = env.disk.read_dir(path)?;
    let names = entries.into_iter().map(|entry| entry.name);
    Ok(names.filter(|name| is_rescued_name(name)).collect())
}

impl Recovery {
    /// Opens the files of a partition as the checkpoint knows them, or what there is without them.
    pub(super) fn open_log(
        &mut self,
        key: (Uuid, PartitionIndex),
        found: Found,
    ) -> Result<Log, OpenError> {
        let path = self.path.join(format!("{}-{}", found.topic, key.1));
        let rescue = rescued_name(&found.topic, key.1, key.0);
        let is_anothers = self.is_anothers(key, &path)?;
        let lost = self.checkpoint.lost.iter();
        let holes: Vec<Hole> = lost
            .filter(|lost| (lost.topic, lost.partition) == key)
            .map(|lost| Hole {
                from: lost.from,
                to: lost.to,
            })
            .collect();
        let is_rescued = self.rescues.contains(&rescue);
        let rescue = self.path.join(rescue);
        if is_anothers {
            env::tell!(
                "partition {} offline: its name differs in case alone from that of another topic, and the volume takes the two for one",
                path.display()
            );
            let row = self.rows.get(&key).copied();
            let row = row.unwrap_or_else(|| rows::empty(key));
            let mut log = Log::new(key, path, found, Some(&row), holes);
            let store = if is_rescued {
                Some(self.open_rescued(&rescue, &log.found)?)
            } else {
                None
            };
            log.do_without_files(rescue, row, store);
            return Ok(log);
        }
        if !self.rows.get(&key).is_some_and(|row| row.has_files) {
            self.clear_the_way(key, &path)?;
        }
        let row = self.rows.get(&key);
        let opened = Log::open(
            &self.env,
            &self.files,
            key,
            path.clone(),
            found.clone(),
            row,
            holes.clone(),
        );
        match opened {
            Ok(mut log) if is_rescued => {
                log.take_back(&self.open_rescued(&rescue, &log.found)?)?;
                self.taken_back.push(rescue);
                Ok(log)
            }
            Err(error) => {
                let missing = self.row_without_files(key, &path);
                let is_missing = missing.is_some();
                let row = missing.or_else(|| self.may_do_without(key, &path, &error));
                let row = row.ok_or(error)?;
                let mut log = Log::new(key, path, found, Some(&row), holes);
                (log.is_missing, log.may_be_lost) = (is_missing, true);
                let store = if is_rescued {
                    Some(self.open_rescued(&rescue, &log.found)?)
                } else {
                    None
                };
                log.do_without_files(rescue, row, store);
                Ok(log)
            }
            opened => opened,
        }
    }

    /// The directory is that of another topic, whose name the volume takes for the same. Whichever has files there keeps it, or
    /// comes first.
    fn is_anothers(&self, key: (Uuid, PartitionIndex), path: &Path) -> Result<bool, OpenError> {
        if !self.folds_names {
            return Ok(false);
        }
        let disk = &*self.env.disk;
        let is_taken = disk.exists(path).map_err(|error| self.io(error))?
            && !is_there(disk, path, true).map_err(|error| self.io(error))?;
        let name = |path: &Path| path.to_string_lossy().into_owned();
        let is_like = |(of, log): (&(Uuid, PartitionIndex), &Log)| {
            *of != key && log.unread.is_none() && fold_together(&name(&log.path), &name(path))
        };
        Ok(is_taken || self.logs.iter().any(is_like))
    }

    /// Writes what a log has pending, if that is more than `bytes`.
    pub(super) fn write(
        &mut self,
        key: (Uuid, PartitionIndex),
        bytes: usize,
    ) -> Result<(), OpenError> {
        let Some(log) = self.logs.get_mut(&key) else {
            return Ok(());
        };
        let before = log.pending_bytes();
        if self.is_full || before < bytes {
            return Ok(());
        }
        let wrote = match log.write(&self.files, self.wall) {
            Ok(wrote) => wrote,
            // The first write walks what the index files lack; that may be what cannot be read.
            Err(error) => self.write_elsewhere(key, error.into())?,
        };
        self.is_full = wrote == Wrote::Some;
        let after = self.logs.get(&key).map_or(0, Log::pending_bytes);
        self.pending_bytes = (self.pending_bytes + after).saturating_sub(before);
        Ok(())
    }

    fn write_elsewhere(
        &mut self,
        key: (Uuid, PartitionIndex),
        error: OpenError,
    ) -> Result<Wrote, OpenError> {
        let log = self.logs.get(&key);
        // Batches that went to its files are not pending any more, and not durable yet.
        let Some(log) = log.filter(|log| !log.is_written && log.unread.is_none()) else {
            return Err(error);
        };
        let row = self.may_do_without(key, &log.path, &error).ok_or(error)?;
        let rescue = self.path.join(rescued_name(&log.found.topic, key.1, key.0));
        let store = if self.taken_back.contains(&rescue) {
            Some(self.open_rescued(&rescue, &log.found)?)
        } else {
            None
        };
        self.taken_back.retain(|taken| *taken != rescue);
        let Some(log) = self.logs.get_mut(&key) else {
            return Ok(Wrote::All);
        };
        log.do_without_files(rescue, row, store);
        log.may_be_lost = true;
        Ok(log.write(&self.files, self.wall)?)
    }

    /// The checkpoint's row of the partition, if the error is one of reading its files alone and the broker can start
    /// without it.
    fn may_do_without(
        &self,
        key: (Uuid, PartitionIndex),
        path: &Path,
        error: &OpenError,
    ) -> Option<checkpoint::Row> {
        let is_io = match error {
            OpenError::Io { error, .. } | OpenError::Store(StoreError::Io { error, .. }) => {
                !is_full(error)
            }
            _ => false,
        };
        // Files that no checkpoint covers are needed by nobody.
        let row = self.rows.get(&key).filter(|row| row.has_files)?;
        let is_confined =
            is_io && self.metadata != Some(key.0) && try_reading(&*self.env.disk, path).is_err();
        if !is_confined {
            return None;
        }
        tracing::error!(target: env::logs::RECOVERY, "partition {} offline: {error}", path.display());
        Some(*row)
    }

    /// The checkpoint's row of a partition whose directory is not there: it may live in another one, and have left this one
    /// since that checkpoint.
    fn row_without_files(
        &self,
        key: (Uuid, PartitionIndex),
        path: &Path,
    ) -> Option<checkpoint::Row> {
        let row = self.rows.get(&key).filter(|row| row.has_files)?;
        let may_be_elsewhere = self.metadata != Some(key.0);
        let is_there = self.env.disk.exists(path);
        (may_be_elsewhere && is_there.is_ok_and(|is_there| !is_there)).then_some(*row)
    }

    fn open_rescued(&self, path: &Path, found: &Found) -> Result<Store, OpenError> {
        let config = Arc::clone(&found.config);
        let (store, state) = Store::open(&self.files, path, config, None)?;
        // Batches that were not durable when that start ended come from the journal again.
        if !state.is_clean() {
            store.truncate_to(state.log_end)?;
        }
        Ok(store)
    }

    /// Files that cannot be read, or are not there, are no reason to do without a partition that other brokers have: they are set aside,
    /// and its log is fetched again.
    pub(super) fn give_up_unreadable(&mut self) -> Result<(), OpenError> {
        let is_lost = |log: &Log| log.may_be_lost && log.unread.is_some() && log.found.has_others;
        let lost = self.logs.iter().filter(|(_, log)| is_lost(log));
        for key in lost.map(|(key, _)| *key).collect::<Vec<_>>() {
            let Some(mut log) = self.logs.remove(&key) else {
                continue;
            };
            let rescued = log.store.take().map(|store| store.dir().to_path_buf());
            let files = (!log.is_missing).then(|| log.path.clone());
            for path in rescued.into_iter().chain(files) {
                let aside = self.rename_aside(&path, &log.found.topic, key.1)?;
                tracing::warn!(target: env::logs::RECOVERY,
                    "{} is set aside as {}: not all of the partition's files can be read",
                    path.display(),
                    aside.display(),
                );
            }
            tracing::error!(target: env::logs::RECOVERY,
                "{}: what was here is lost, and is fetched again from another replica",
                log.path.display(),
            );
            log.give_up_files();
            self.has_given_up = true;
            self.logs.insert(key, log);
        }
        Ok(())
    }

    /// Makes durable what is put aside: from the next checkpoint on the journal need not have it.
    pub(super) fn sync_rescued(&self) -> Result<(), OpenError> {
        let mut any = false;
        for log in self.logs.values().filter(|log| log.unread.is_some()) {
            // A disk without room for it is one without room for a start: nothing else may keep it.
            if log.pending_bytes() > 0 {
                return Err(self.no_room());
            }
            if let Some(store) = &log.store {
                store.sync()?;
                any = true;
            }
        }
        if any {
            let synced = self.env.disk.sync_dir(&self.path);
            synced.map_err(|error| OpenError::Io {
                path: self.path.clone(),
                error,
            })?;
        }
        Ok(())
    }
}

/// Reads what a start reads of a partition; an error is one of these files.
fn try_reading(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    if !disk.exists(dir)? {
        return Ok(());
    }
    let mut buffer = vec![0; 1 << 16];
    for entry in disk
        .read_dir(dir)?
        .into_iter()
        .filter(|entry| !entry.is_dir)
    {
        let file = disk.open(&dir.join(&entry.name), Open::Read)?;
        let len = file.len()?;
        let mut position = len.saturating_sub(TRIED_BYTES_MAX);
        while position < len {
            match file.read_at(&mut buffer, position)? {
                0 => break,
                read => position += read as u64,
            }
        }
    }
    Ok(())
}
