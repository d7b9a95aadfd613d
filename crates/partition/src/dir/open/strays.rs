//! Directories that no partition claims at a start: removed, or set aside for an operator.
//!
//! Invariant: nothing is removed only because the metadata do not know it. A partition that they once named was deleted, or another
//! directory has all of it (`restored`), and its files are removed. A partition that they never named is younger than they are, as when an
//! older copy of the metadata was put back: its directory is renamed as Kafka renames it, to a name that no start takes for that of a
//! partition, and its bytes stay as they are. Batches that only the journal has are written to a log of their own beside it, since the
//! journal is used again. Brings nothing of this back.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::disk::Entry;
use log::config::LogConfig;
use log::journal::Step;
use log::{Syncing, metadata};
use model::{LeaderEpoch, PartitionIndex};
use wire::Uuid;

use super::error::OpenError;
use super::log_loader::{Found, Log, PENDING_BYTES_MAX, Wrote};
use super::recovery::{Recovery, Stray};
use crate::dir::names::{
    FUTURE_SUFFIX, GRAVE_SUFFIX, STRAY_SUFFIX, future_name, grave_name, hex, is_of_a_log,
    is_restart_name, is_there, name_with, partition_of, rescued_name, rescued_partition_of,
    restart_name,
};

impl Recovery {
    /// Takes an entry of a partition that is not to be opened.
    pub(super) fn keep_stray(
        &mut self,
        key: (Uuid, PartitionIndex),
        step: Step,
    ) -> Result<(), OpenError> {
        if !self.strays.contains_key(&key) {
            let topic = self.name_of_stray(key)?;
            let unique = self.unique();
            let path = self.path.join(future_name(&topic, key.1, unique));
            let found = Found {
                topic,
                epoch: LeaderEpoch(0),
                config: Arc::new(LogConfig::default()),
                has_others: false,
            };
            let log = Log::new(key, path, found, None, Vec::new());
            let why = "as the journal had them: the metadata log never told of it";
            self.strays.insert(key, Stray { log, why, unique });
        }
        let Some(stray) = self.strays.get_mut(&key) else {
            return Ok(());
        };
        stray.log.apply(step, &*self.env.disk)?;
        if stray.log.pending_bytes() < PENDING_BYTES_MAX {
            Ok(())
        } else {
            self.write_stray(key)
        }
    }

    /// Takes a log of a partition that lives in another directory.
    pub(super) fn keep_other(&mut self, key: (Uuid, PartitionIndex), log: Log) {
        let why = "the partition lives in another log directory, whose log is not the same";
        let unique = self.unique();
        self.strays.insert(key, Stray { log, why, unique });
    }

    fn write_stray(&mut self, key: (Uuid, PartitionIndex)) -> Result<(), OpenError> {
        let Some(stray) = self.strays.get_mut(&key) else {
            return Ok(());
        };
        match stray.log.write(&self.files, self.wall)? {
            Wrote::All => Ok(()),
            // A start without room for these batches fails: nothing else keeps them once the journal is used again.
            Wrote::Some => Err(self.no_room()),
        }
    }

    /// Makes durable the logs that are set aside. Until then a log that only the journal has carries the name of what a crash leaves, and
    /// the others keep the name that they had: after a crash the checkpoint and the journal still have them, and the next start sets them
    /// aside again.
    pub(super) fn store_strays(&mut self) -> Result<(), OpenError> {
        let keys: Vec<_> = self.strays.keys().copied().collect();
        for key in keys {
            self.write_stray(key)?;
            let Some(Stray {
                mut log,
                why,
                unique,
            }) = self.strays.remove(&key)
            else {
                continue;
            };
            let Some(store) = log.store.take() else {
                continue; // trims alone
            };
            let (disk, files) = (&*self.env.disk, store.dir().to_path_buf());
            let files = files.as_path();
            let at = |error| OpenError::Io {
                path: files.to_path_buf(),
                error,
            };
            let epochs = Some(&log.epochs);
            (log.derived
                .store(disk, files, key.0, epochs, None, Syncing::Now))
            .map_err(at)?;
            store.write_long_indexes()?;
            store.sync()?;
            let ends = (store.files_start(), store.log_end());
            drop(store);
            let name = stray_name(&log.found.topic, key.1, unique);
            disk.rename(files, &self.path.join(&name)).map_err(at)?;
            disk.sync_dir(&self.path).map_err(at)?;
            tracing::warn!(target: env::logs::RECOVERY,
                "{}: offsets {} to {} of partition {} of topic {} (id {}) are set aside here, {why}",
                self.path.join(name).display(),
                ends.0,
                ends.1,
                key.1,
                log.found.topic,
                key.0
            );
        }
        Ok(())
    }

    /// Removes or sets aside what is in the way of a partition's directory: no checkpoint knows files of it there.
    pub(super) fn clear_the_way(
        &mut self,
        key: (Uuid, PartitionIndex),
        path: &Path,
    ) -> Result<(), OpenError> {
        let disk = &self.env.disk;
        if !is_there(&**disk, path, self.folds_names).map_err(|error| self.io(error))? {
            return Ok(());
        }
        match (metadata::read(&**disk, path), partition_of_path(path)) {
            (Ok(Some(id)), Some((topic, index))) if id != key.0 && !self.knew((id, index)) => {
                self.set_aside(path, topic, index, Some(id))
            }
            // Files that no checkpoint covers hold nothing that the journal lacks.
            _ => self.remove(path),
        }
    }

    /// Removes or sets aside directories of deleted topics, and of partitions that live elsewhere or that the metadata never named.
    pub(super) fn clear_unclaimed(&mut self) -> Result<(), OpenError> {
        let known: BTreeSet<_> = self.logs.values().map(|log| log.path.clone()).collect();
        let rescued: BTreeSet<_> = (self.logs.iter())
            .map(|((topic, index), log)| rescued_name(&log.found.topic, *index, *topic))
            .collect();
        let entries = self.env.disk.read_dir(&self.path);
        let entries = entries.map_err(|error| self.io(error))?;
        let carried: BTreeSet<_> = (self.logs.iter())
            .filter_map(|(key, log)| Some(restart_name(*key, log.carried_at()?)))
            .collect();
        for Entry { name, .. } in entries.iter().filter(|entry| !entry.is_dir) {
            if is_restart_name(name) && !carried.contains(name) {
                let removed = self.env.disk.remove_file(&self.path.join(name));
                removed.map_err(|error| self.io(error))?;
            }
        }
        for Entry { name, .. } in entries.into_iter().filter(|entry| entry.is_dir) {
            let path = self.path.join(&name);
            let is_claimed = known.contains(&path) || rescued.contains(&name);
            if is_claimed {
                continue;
            } else if let Some((topic, index)) = partition_of(&name) {
                self.clear_partition(&path, topic, index)?;
            } else if let Some((topic, index, id)) = rescued_partition_of(&name) {
                if self.knew((id, index)) {
                    self.remove(&path)?
                } else {
                    self.set_aside(&path, topic, index, Some(id))?
                }
            } else if is_leftover(&name) {
                self.remove(&path)?;
            }
        }
        Ok(())
    }

    fn clear_partition(
        &mut self,
        path: &Path,
        topic: &str,
        index: PartitionIndex,
    ) -> Result<(), OpenError> {
        let entries = self.env.disk.read_dir(path);
        let entries = entries.map_err(|error| self.io(error))?;
        // Somebody's `backup-2026` has the name of a partition too.
        if !entries.iter().all(is_of_a_log) {
            tracing::warn!(target: env::logs::RECOVERY,
                "{} is left alone: no partition of a known topic, and not all in it is of one",
                path.display()
            );
            return Ok(());
        }
        let (was_told_of, id) = match metadata::read(&*self.env.disk, path) {
            Ok(Some(id)) => (self.knew((id, index)), Some(id)),
            // A crash left the directory before its first checkpoint, which writes the id before it vouches for a file: all records in it
            // are in the journal. Where the metadata never named the topic, though, the journal may be an older copy as well.
            Ok(None) => (self.knew_name(&format!("{topic}-{index}")), None),
            Err(_) => (false, None),
        };
        // The loss that was accepted may be that of a later change of the metadata.
        if was_told_of && !self.is_loss_accepted {
            self.remove(path)
        } else {
            self.set_aside(path, topic, index, id)
        }
    }

    fn set_aside(
        &self,
        path: &Path,
        topic: &str,
        index: PartitionIndex,
        id: Option<Uuid>,
    ) -> Result<(), OpenError> {
        let aside = self.rename_aside(path, topic, index)?;
        let id = id.map_or("unreadable".to_owned(), |id| id.to_string());
        let why = if self.is_loss_accepted {
            "no partition that the metadata log knows after an accepted loss"
        } else {
            "the metadata log never told of it, and may be an older copy"
        };
        tracing::warn!(target: env::logs::RECOVERY,
            "{} is set aside as {}: {why} (topic id {id}); nobody serves it, `esker inspect` reads it, remove it when it is not needed",
            path.display(),
            aside.display(),
        );
        Ok(())
    }

    /// Gives a directory a name that no start takes for a partition's.
    pub(super) fn rename_aside(
        &self,
        path: &Path,
        topic: &str,
        index: PartitionIndex,
    ) -> Result<PathBuf, OpenError> {
        let disk = &self.env.disk;
        let aside = loop {
            let aside = self.path.join(stray_name(topic, index, self.unique()));
            if !disk.exists(&aside).map_err(|error| self.io(error))? {
                break aside;
            }
        };
        // Durable before anything takes the name, and before a checkpoint without its row.
        disk.rename(path, &aside)
            .and_then(|()| disk.sync_dir(&self.path))
            .map_err(|error| self.io(error))?;
        Ok(aside)
    }

    /// Removes a directory. It is renamed first: what a crash leaves of a log must not be taken for one that is shorter.
    fn remove(&self, path: &Path) -> Result<(), OpenError> {
        let disk = &self.env.disk;
        let grave = match partition_of_path(path) {
            Some((topic, index)) => self.path.join(grave_name(topic, index, self.unique())),
            None => path.to_path_buf(),
        };
        let is_renamed = grave != path;
        let renamed = if is_renamed {
            (disk.rename(path, &grave)).and_then(|()| disk.sync_dir(&self.path))
        } else {
            Ok(())
        };
        let removed = renamed.and_then(|()| disk.remove_dir_all(&grave));
        removed.map_err(|error| self.io(error))
    }

    /// True if the metadata log is read and never named a partition.
    pub(super) fn may_be_stray(&self, key: (Uuid, PartitionIndex)) -> bool {
        self.told.is_some() && !self.knew(key)
    }

    fn knew(&self, key: (Uuid, PartitionIndex)) -> bool {
        let told = self.told.as_ref();
        told.is_some_and(|told| told.partitions.contains(&key))
    }

    fn knew_name(&self, of_dir: &str) -> bool {
        let told = self.told.as_ref();
        told.is_some_and(|told| told.names.contains(of_dir))
    }

    /// The topic's name, from the partition's directory, set aside or not; a partition without files is called by the topic's id.
    fn name_of_stray(&self, key: (Uuid, PartitionIndex)) -> Result<Arc<str>, OpenError> {
        let disk = &*self.env.disk;
        let entries = disk.read_dir(&self.path).map_err(|error| self.io(error))?;
        let is_of_it = |name: &str| {
            let id = metadata::read(disk, &self.path.join(name));
            id.is_ok_and(|id| id == Some(key.0))
        };
        let mut topics = entries.iter().filter_map(|entry| {
            let name = entry.name.strip_suffix(STRAY_SUFFIX);
            let name = name.and_then(|name| Some(name.rsplit_once('.')?.0));
            let (topic, index) = partition_of(name.unwrap_or(&entry.name))?;
            if index != key.1 {
                return None;
            }
            is_of_it(&entry.name).then(|| topic.into())
        });
        Ok(topics.next().unwrap_or_else(|| key.0.to_string().into()))
    }

    fn unique(&self) -> Uuid {
        let mut id = [0; 16];
        self.env.rng.fill(&mut id);
        Uuid(id)
    }
}

/// The name that Kafka gives a stray partition, with a random id as there.
fn stray_name(topic: &str, index: PartitionIndex, unique: Uuid) -> String {
    name_with(topic, &format!("-{index}.{}{STRAY_SUFFIX}", hex(unique)))
}

/// True for a directory that a crash leaves of a partition that was being removed, or on its way here. Somebody's `to-delete` is none.
fn is_leftover(name: &str) -> bool {
    let of = [GRAVE_SUFFIX, FUTURE_SUFFIX].map(|suffix| name.strip_suffix(suffix));
    let parts = of
        .into_iter()
        .flatten()
        .filter_map(|of| of.rsplit_once('.'));
    let is_id = |id: &str| {
        let is_hex = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex || id.parse::<Uuid>().is_ok()
    };
    let mut ours = parts.filter(|(partition, id)| partition_of(partition).is_some() && is_id(id));
    ours.next().is_some()
}

fn partition_of_path(path: &Path) -> Option<(&str, PartitionIndex)> {
    partition_of(path.file_name()?.to_str()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_ends_like_a_leftover_is_somebody_elses() {
        let (index, id) = (PartitionIndex(12_345), Uuid([255; 16]));
        for topic in ["t", "t.x-y", &"t".repeat(249)] {
            assert!(is_leftover(&grave_name(topic, index, id)));
            assert!(is_leftover(&future_name(topic, index, id)));
        }
        for other in [
            "to-delete",
            "my-future",
            "t-0-delete",
            "t-0.old-delete",
            "t.x-future",
        ] {
            assert!(!is_leftover(other), "{other}");
        }
    }

    #[test]
    fn a_stray_has_the_name_that_kafka_gives_it_and_is_no_partition() {
        let unique = Uuid(std::array::from_fn(|at| at as u8 * 16));
        let name = stray_name("t.x-y", PartitionIndex(7), unique);
        assert_eq!(name, "t.x-y-7.00102030405060708090a0b0c0d0e0f0-stray");
        assert_eq!(partition_of(&name), None);
        assert_eq!(rescued_partition_of(&name), None);
        assert!(!name.ends_with(GRAVE_SUFFIX) && !name.ends_with(FUTURE_SUFFIX));
        let long = stray_name(&"t".repeat(249), PartitionIndex(12_345), unique);
        assert_eq!(long.len(), 255);
        assert!(long.ends_with("-12345.00102030405060708090a0b0c0d0e0f0-stray"));
    }
}
