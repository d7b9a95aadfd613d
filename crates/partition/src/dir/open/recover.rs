//! Opening a log directory: lock it, read its checkpoint, bring the journal's rounds into the segment files.
//!
//! Two steps, because names and settings of partitions come from the metadata log, which lies in the journal itself:
//! [`Recovery::open_metadata`] first, [`Recovery::restore`] for everything else; [`Restored::finish`] ends with a checkpoint, so that
//! recovering twice equals recovering once. Bytes below the durable point that do not verify become a [`Hole`]; a log never comes back
//! shorter than it was acknowledged. Where nothing shows which logs lost something the directory stays closed until an operator accepts it
//! (see `accept_loss`). On a full disk, what finds no room stays in memory, the last checkpoint stays valid, and the segment writer
//! continues from there.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use env::Env;
use env::disk::Open;
use log::FilePool;
use log::checkpoint::{self, Checkpoint, LoadError, Version};
use log::journal::{self, Replayed, Step};
use model::{Offset, PartitionIndex};
use wire::Uuid;
use wire::records::Batch;

use super::error::OpenError;
use super::ever_named::EverNamed;
use super::lock;
use super::log_loader::{Found, PENDING_BYTES_MAX, Wrote};
use super::meta_properties::{self, Identity};
use super::ownership::{METADATA_MARK, has_partitions};
use super::recovery::Recovery;
use super::restored::Restored;
use super::{accept_loss, ownership, unreadable};
use crate::dir::backlog::UNWRITTEN_BYTES_MAX;
use crate::dir::log_dir::LogDir;
use crate::dir::names;
use crate::dir::settings::DirSettings;
use crate::dir::syncer::VOLUME_SYNC_MIN;

/// 256 MiB of batches that a full disk has no room for are kept in memory: the segment writer's 128 MiB of an earlier life,
/// and as much again for files that the checkpoint did not cover. More, and the start is refused.
const UNPLACED_BYTES_MAX: usize = 2 * UNWRITTEN_BYTES_MAX as usize;

/// The metadata log as it was found.
#[derive(Default)]
pub struct MetadataLog {
    pub batches: Vec<Batch>,
    /// Known to be committed, as of the last checkpoint.
    pub committed: Offset,
    /// The log starts here; batches in front of it may still be in files.
    pub log_start: Offset,
}

/// The failure of an operation at `path`.
fn failed_at(path: &Path) -> impl Fn(io::Error) -> OpenError + Copy {
    move |error| OpenError::Io {
        path: path.to_path_buf(),
        error,
    }
}

impl Recovery {
    /// Locks `path` (creating it if needed) and reads its identity and checkpoint.
    pub fn begin(
        env: &Env,
        path: &Path,
        settings: DirSettings,
        fresh: &dyn Fn() -> Identity,
    ) -> Result<(Recovery, Identity), OpenError> {
        let disk = &env.disk;
        let at = failed_at(path);
        let identity_path = path.join(meta_properties::IDENTITY_NAME);
        let of_identity = failed_at(&identity_path);
        ownership::check_ownership(env, path)?;
        let journal = LogDir::journal_path(path);
        disk.create_dir_all(&journal).map_err(failed_at(&journal))?;
        let lock = lock::lock(env, path)?;
        lock::sync_path(env, path).map_err(at)?;
        let folds_names = names::folds(&**disk, path, lock::LOCK_NAME).map_err(at)?;
        // Before anything is written: the sync of another directory on this volume may be the one that finds it lost.
        disk.watch_volume(path).map_err(at)?;
        let (id, identity) = match meta_properties::read(env, path).map_err(of_identity)? {
            Some((
                id,
                known @ Identity {
                    cluster_id: Some(_),
                    ..
                },
            )) => (id, known),
            // The process ended before all of its directories had the id of the cluster.
            Some((id, known)) => {
                let cluster_id = fresh().cluster_id;
                if let Some(cluster_id) = &cluster_id {
                    meta_properties::name_cluster(env, path, cluster_id).map_err(of_identity)?;
                }
                let node_id = known.node_id;
                (
                    id,
                    Identity {
                        cluster_id,
                        node_id,
                    },
                )
            }
            None => {
                let mut id = [0; 16];
                env.rng.fill(&mut id);
                let identity = fresh();
                meta_properties::write(env, path, Uuid(id), &identity).map_err(of_identity)?;
                (Uuid(id), identity)
            }
        };
        let stored = match Checkpoint::load_versioned(&**disk, path) {
            Ok(stored @ Some(_)) => stored,
            Ok(None) if has_partitions(env, path, |_| true).map_err(at)? => {
                let what = "checkpoint is missing beside partitions that need it".to_owned();
                return Err(OpenError::Damaged {
                    path: path.join(checkpoint::FILE_NAME),
                    what,
                });
            }
            Ok(None) => None,
            Err(LoadError::Io(error)) => {
                return Err(failed_at(&path.join(checkpoint::FILE_NAME))(error));
            }
            Err(LoadError::Newer) => {
                return Err(OpenError::Damaged {
                    path: path.join(checkpoint::FILE_NAME),
                    what: "checkpoint was written by a later version of esker; start that one"
                        .to_owned(),
                });
            }
            Err(LoadError::Damaged) => {
                return Err(OpenError::Damaged {
                    path: path.join(checkpoint::FILE_NAME),
                    what: "checkpoint does not verify".to_owned(),
                });
            }
        };
        let has_checkpoint = stored.is_some();
        let is_of_old = (stored.as_ref()).is_some_and(|(_, version)| *version == Version::First);
        let checkpoint = stored.map(|(checkpoint, _)| checkpoint).unwrap_or_default();
        let rows = checkpoint
            .rows
            .iter()
            .map(|row| ((row.topic, row.partition), *row))
            .collect();
        let recovery = Recovery {
            env: env.clone(),
            path: path.to_path_buf(),
            settings,
            id,
            lock,
            folds_names,
            files: FilePool::new(Arc::clone(disk), settings.segment_files_open_max),
            checkpoint,
            has_checkpoint,
            is_of_old,
            rows,
            logs: BTreeMap::new(),
            is_full: false,
            pending_bytes: 0,
            changed: 0,
            rescues: unreadable::list(env, path).map_err(at)?,
            taken_back: Vec::new(),
            has_given_up: false,
            metadata: None,
            is_loss_accepted: false,
            told: None,
            removed: BTreeSet::new(),
            strays: BTreeMap::new(),
            wall: env.clock.wall_ms(),
        };
        Ok((recovery, identity))
    }

    /// True if the metadata log `topic` is here, or will be: it may stay in the journal for a while.
    pub fn has_metadata(&self, topic: Uuid, name: &str) -> Result<bool, OpenError> {
        let disk = &self.env.disk;
        let has_row = self.rows.keys().any(|(of, _)| *of == topic);
        let files = [format!("{name}-0"), METADATA_MARK.to_owned()];
        let has_files = files.iter().try_fold(false, |has, file| {
            Ok(has || disk.exists(&self.path.join(file))?)
        });
        Ok(has_row || has_files.map_err(|error| self.io(error))?)
    }

    /// Marks this directory as the only one that has the metadata log.
    pub fn claim_metadata(&self) -> Result<(), OpenError> {
        let disk = &self.env.disk;
        let mark = disk.open(&self.path.join(METADATA_MARK), Open::Create);
        mark.and_then(|_| disk.sync_dir(&self.path))
            .map_err(|error| self.io(error))
    }

    /// True if a broker has worked with this directory: it has more than its identity.
    pub fn was_used(&self) -> bool {
        self.has_checkpoint
    }

    /// True if partitions are here beside the metadata log: to an empty one all of them would be strays.
    pub fn has_partitions_beside(&self, topic: Uuid, name: &str) -> Result<bool, OpenError> {
        if self.is_loss_accepted {
            return Ok(false); // then strays are set aside
        }
        let has_rows = self.rows.keys().any(|(of, _)| *of != topic);
        let metadata = format!("{name}-0");
        let has_files = has_partitions(&self.env, &self.path, |other| other != metadata);
        Ok(has_rows || has_files.map_err(|error| self.io(error))?)
    }

    /// The id that the metadata know this directory by.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Recovers one partition alone and returns all of its batches: the metadata log.
    pub fn open_metadata(&mut self, topic: Uuid, found: Found) -> Result<MetadataLog, OpenError> {
        let key = (topic, PartitionIndex(0));
        self.metadata = Some(topic);
        let mut found = Some(found);
        let mut only =
            |asked: (Uuid, PartitionIndex)| if asked == key { found.take() } else { None };
        self.replay(&mut only)?;
        if !self.logs.contains_key(&key)
            && let Some(found) = found.take()
        {
            let log = self.open_log(key, found)?;
            self.logs.insert(key, log);
        }
        let Some(log) = self.logs.get_mut(&key) else {
            return Ok(MetadataLog::default());
        };
        if !self.is_full && log.write(&self.files, self.wall)? == Wrote::Some {
            self.is_full = true;
        }
        // A topic that is missing from a damaged metadata log would look deleted, and its files would be removed.
        // Holes in front of the log start do not count: a snapshot stands for them.
        let missed = |hole: &&crate::partition::Hole| log.log_start < hole.to;
        if let Some(hole) = log.holes.iter().find(missed) {
            let what = format!(
                "metadata records {} to {} are lost; restore them from a copy of the directory",
                hole.from, hole.to
            );
            return Err(OpenError::Damaged {
                path: log.path.clone(),
                what,
            });
        }
        Ok(MetadataLog {
            batches: log.batches()?,
            committed: log.committed(),
            log_start: log.log_start,
        })
    }

    /// Takes topics, with their names, that the metadata delete in records that may not be committed, as far as this node knows. Where the
    /// files of one of their partitions are gone the deletion is committed: nothing else removes any.
    pub fn expect_removed(&mut self, topics: &BTreeMap<Uuid, Arc<str>>) -> Result<(), OpenError> {
        let disk = &*self.env.disk;
        let with_files = self.rows.values().filter(|row| row.has_files);
        for row in with_files {
            let Some(name) = topics.get(&row.topic) else {
                continue;
            };
            let path = self.path.join(format!("{name}-{}", row.partition));
            // Another topic of the name may have come.
            let owner = log::metadata::read(disk, &path).map_err(|error| self.io(error))?;
            if owner != Some(row.topic) {
                self.removed.insert((row.topic, row.partition));
            }
        }
        Ok(())
    }

    /// Brings back the partitions that `lookup` knows; some may live in another directory. Nothing is removed: others that are in `told`
    /// were deleted, and what the journal has of the rest is kept aside.
    pub fn restore(
        mut self,
        mut lookup: impl FnMut(Uuid, PartitionIndex) -> Option<Found>,
        told: Arc<EverNamed>,
    ) -> Result<Restored, OpenError> {
        self.told = Some(told);
        let removed = std::mem::take(&mut self.removed);
        let mut lookup = |topic, index| {
            let is_here = !removed.contains(&(topic, index));
            is_here.then(|| lookup(topic, index)).flatten()
        };
        let lost = self.checkpoint.lost.iter();
        let lost = lost.map(|lost| (lost.topic, lost.partition));
        let known: BTreeSet<_> = self.rows.keys().copied().chain(lost).collect();
        for key in known {
            if let (false, Some(found)) = (self.logs.contains_key(&key), lookup(key.0, key.1)) {
                let log = self.open_log(key, found)?;
                self.logs.insert(key, log);
            }
        }
        let replayed = self.replay(&mut |(topic, index)| lookup(topic, index))?;
        let keys: Vec<_> = self.logs.keys().copied().collect();
        for key in keys {
            self.write(key, 0)?;
        }
        Ok(Restored {
            recovery: self,
            replayed,
        })
    }

    /// Walks the journal; entries of partitions that `lookup` (or an earlier step) knows are applied, and those of partitions that the
    /// metadata never named are kept aside.
    fn replay(
        &mut self,
        lookup: &mut dyn FnMut((Uuid, PartitionIndex)) -> Option<Found>,
    ) -> Result<Replayed, OpenError> {
        let from = journal::From {
            sequence: self.checkpoint.sequence,
            checksum: self.checkpoint.checksum,
        };
        let disk = Arc::clone(&self.env.disk);
        let journal = LogDir::journal_path(&self.path);
        let mut skipped: BTreeSet<(Uuid, PartitionIndex)> = BTreeSet::new();
        let mut failed = None;
        let id = self.id;
        let path = self.path.clone();
        let already: BTreeSet<_> = self
            .logs
            .iter()
            .filter(|(key, log)| log.is_changed && self.metadata == Some(key.0))
            .map(|(key, _)| *key)
            .collect();
        let replayed = journal::replay(&*disk, &journal, id, from, |step| {
            let key = step.log();
            if skipped.contains(&key) || already.contains(&key) {
                return Ok(());
            }
            let taken = if self.logs.contains_key(&key) {
                self.apply(key, step)
            } else if let Some(found) = lookup(key) {
                self.open_log(key, found).and_then(|log| {
                    self.logs.insert(key, log);
                    self.apply(key, step)
                })
            } else if self.may_be_stray(key) {
                self.keep_stray(key, step)
            } else {
                skipped.insert(key);
                Ok(())
            };
            taken.map_err(|error| {
                failed = Some(error);
                io::ErrorKind::Other.into()
            })
        });
        let replayed = match (replayed, failed) {
            (_, Some(error)) => return Err(error),
            (Err(error), None) => {
                return Err(OpenError::Io {
                    path: journal,
                    error,
                });
            }
            (Ok(replayed), None) => replayed,
        };
        for damage in &replayed.damage {
            tracing::error!(target: env::logs::RECOVERY,
                "log dir {}: journal rounds {} to {} were durable and are damaged",
                path.display(),
                damage.from,
                damage.to
            );
        }
        self.is_loss_accepted |= accept_loss::check(&self.env, &self.path, &replayed.damage)?;
        Ok(replayed)
    }

    fn apply(&mut self, key: (Uuid, PartitionIndex), step: Step) -> Result<(), OpenError> {
        let Some(log) = self.logs.get_mut(&key) else {
            return Ok(());
        };
        let before = log.pending_bytes();
        let is_first = !std::mem::replace(&mut log.is_changed, true);
        log.apply(step, &*self.env.disk)?;
        // A cut lowers the number of pending bytes.
        self.pending_bytes = (self.pending_bytes + log.pending_bytes()).saturating_sub(before);
        self.write(key, PENDING_BYTES_MAX)?;
        self.changed += usize::from(is_first);
        if self.changed == VOLUME_SYNC_MIN {
            // One sync of the volume at the end is cheaper than those of the files, and more logs than may be open would be synced
            // one by one, each to be closed for the next.
            self.files.expect_volume_sync();
        }
        if self.is_full && self.pending_bytes > UNPLACED_BYTES_MAX {
            return Err(self.no_room());
        }
        Ok(())
    }
}
