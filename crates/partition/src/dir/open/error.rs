//! Why a log directory cannot be opened.

use std::io;
use std::path::PathBuf;

use log::ReadError;
use log::journal;
use log::store::StoreError;
use wire::records::BatchError;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{} is in use by another broker ({holder})", path.display())]
    Locked { path: PathBuf, holder: String },
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{} belongs to node {found}, this is node {own}; set node.id={found} or use another directory", path.display())]
    Foreign {
        path: PathBuf,
        found: String,
        own: String,
    },
    #[error(
        "{} is a data directory of Apache Kafka{whose}: it has {mark} and nothing of ours; nothing in it was changed",
        path.display()
    )]
    Kafkas {
        path: PathBuf,
        whose: String,
        mark: String,
    },
    #[error(
        "{} has partitions, and nothing that says which program they belong to; nothing in it was changed",
        path.display()
    )]
    Unknown { path: PathBuf },
    #[error("{}: {what}", path.display())]
    Damaged { path: PathBuf, what: String },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("metadata log: {0}")]
    Batch(#[from] BatchError),
}

impl OpenError {
    /// The disk had no room.
    pub(super) fn is_full(&self) -> bool {
        match self {
            OpenError::Io { error, .. } => journal::is_full(error),
            OpenError::Store(error) => error.is_full(),
            _ => false,
        }
    }

    /// True if a broker with other directories may do without this one.
    pub fn is_of_one_dir(&self) -> bool {
        !matches!(
            self,
            OpenError::Locked { .. }
                | OpenError::Foreign { .. }
                | OpenError::Kafkas { .. }
                | OpenError::Unknown { .. }
        )
    }
}
