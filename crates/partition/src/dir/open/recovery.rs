//! A log directory on its way to be opened: what is known of it so far.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use env::Env;
use env::disk::Lock;
use log::FilePool;
use log::checkpoint::{self, Checkpoint};
use model::{PartitionIndex, Timestamp};
use wire::Uuid;

use super::error::OpenError;
use super::ever_named::EverNamed;
use super::log_loader::Log;
use crate::dir::settings::DirSettings;

/// A locked directory whose journal is not replayed yet.
pub struct Recovery {
    pub(super) env: Env,
    pub(super) path: PathBuf,
    pub(super) settings: DirSettings,
    pub(super) id: Uuid,
    pub(super) lock: Box<dyn Lock>,
    /// True if the volume takes names that differ in case alone for one.
    pub(super) folds_names: bool,
    pub(super) files: Arc<FilePool>,
    pub(super) checkpoint: Checkpoint,
    /// True if the checkpoint was read from its file; the very first start has none.
    pub(super) has_checkpoint: bool,
    /// True if an older version wrote the checkpoint.
    pub(super) is_of_old: bool,
    pub(super) rows: BTreeMap<(Uuid, PartitionIndex), checkpoint::Row>,
    pub(super) logs: BTreeMap<(Uuid, PartitionIndex), Log>,
    /// True if the disk has no room for what is replayed.
    pub(super) is_full: bool,
    /// Batches that wait in memory for the files, of all logs.
    pub(super) pending_bytes: usize,
    /// Logs that the journal has something of.
    pub(super) changed: usize,
    /// Names of directories with what was rescued of partitions whose files could not be read.
    pub(super) rescues: BTreeSet<String>,
    /// Rescue directories whose records are back in their partitions; removed when that is durable.
    pub(super) taken_back: Vec<PathBuf>,
    /// True if files of some partitions were set aside, because they cannot be read and other brokers have them.
    pub(super) has_given_up: bool,
    /// The log without which there is no start.
    pub(super) metadata: Option<Uuid>,
    /// True if an operator accepted that logs are shorter than they were, the metadata log perhaps among them.
    pub(super) is_loss_accepted: bool,
    /// Partitions that the metadata log ever named; `None` until it is read.
    pub(super) told: Option<Arc<EverNamed>>,
    /// Partitions whose deletion took their files.
    pub(super) removed: BTreeSet<(Uuid, PartitionIndex)>,
    /// Logs to be set aside: of partitions that the metadata log never named, or that live in another directory.
    pub(super) strays: BTreeMap<(Uuid, PartitionIndex), Stray>,
    pub(super) wall: Timestamp,
}

/// A log that is set aside.
pub(super) struct Stray {
    pub(super) log: Log,
    pub(super) why: &'static str,
    /// Id in the names of its directory, until it is whole and after.
    pub(super) unique: Uuid,
}

impl Recovery {
    pub(super) fn io(&self, error: io::Error) -> OpenError {
        OpenError::Io {
            path: self.path.clone(),
            error,
        }
    }

    pub(super) fn no_room(&self) -> OpenError {
        OpenError::Io {
            path: self.path.clone(),
            error: io::ErrorKind::StorageFull.into(),
        }
    }
}
