//! Why a log directory cannot be opened.

use std::io;
use std::path::{Path, PathBuf};

use log::ReadError;
use log::journal;
use log::store::StoreError;
use wire::records::BatchError;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{} is in use by another broker ({holder})", path.display())]
    Locked { path: PathBuf, holder: String },
    #[error("{}", words(path, error))]
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

/// Words about an operation at `path` that failed, with what to do where the operator can.
fn words(path: &Path, error: &io::Error) -> String {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => format!(
            "cannot write to {path}: {error}; the broker writes its log there: mount it writable, or name another directory in log.dirs"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "cannot read and write {path}: {error}; the broker keeps its log there: give its user the rights to the directory and all in it, or \
             name another directory in log.dirs"
        ),
        _ => format!("{path}: {error}"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_rights_comes_with_what_was_wanted_and_what_to_do() {
        let said = |kind: io::ErrorKind| {
            let path = PathBuf::from("/data/.lock");
            let error = kind.into();
            OpenError::Io { path, error }.to_string()
        };
        let read_only = said(io::ErrorKind::ReadOnlyFilesystem);
        assert!(
            read_only.starts_with("cannot write to /data/.lock: ")
                && read_only.contains("mount it writable"),
            "{read_only}"
        );
        let denied = said(io::ErrorKind::PermissionDenied);
        assert!(
            denied.starts_with("cannot read and write /data/.lock: ")
                && denied.contains("give its user the rights"),
            "{denied}"
        );
        for text in [read_only, denied] {
            assert!(
                text.ends_with("name another directory in log.dirs"),
                "{text}"
            );
        }
        let other = said(io::ErrorKind::StorageFull);
        assert!(other.starts_with("/data/.lock: "), "{other}");
    }
}
