//! The owner of a directory, found out before the first byte is written to it.
//!
//! Reads only. A directory is ours when a file says so that no other program writes, and new when it holds neither partitions nor
//! marks of another program; anything else is refused as it is, so that its owner still starts.

use std::io;
use std::path::Path;

use env::Env;
use log::checkpoint;

use super::error::OpenError;
use super::meta_properties;
use crate::dir::names::{is_of_a_log, partition_of};

/// Says that the metadata log is in this directory, from before its first record on.
pub(super) const METADATA_MARK: &str = "esker.metadata";

/// Files that Apache Kafka keeps in a data directory, and we never do.
const KAFKAS: [&str; 6] = [
    "bootstrap.checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
    ".kafka_cleanshutdown",
];

/// `Ok` for a directory of ours, for a new one, and for none.
pub fn check_ownership(env: &Env, path: &Path) -> Result<(), OpenError> {
    let at = |error| OpenError::Io {
        path: path.to_path_buf(),
        error,
    };
    let entries = match env.disk.read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(at(error)),
    };
    let has = |name: &str| entries.iter().any(|entry| entry.name == name);
    if has(checkpoint::FILE_NAME) || has(METADATA_MARK) {
        return Ok(());
    }
    // An earlier version left an empty journal in directories that it then refused: Kafka's marks come first.
    let kafkas = KAFKAS.into_iter().find(|name| has(name));
    let has_identity = has(meta_properties::IDENTITY_NAME);
    let mark = match kafkas {
        Some(mark) => mark.to_owned(),
        // Our `meta.properties` is written after the journal's directory was made.
        None if has("journal") => return Ok(()),
        None if has_identity => meta_properties::IDENTITY_NAME.to_owned(),
        None if has_partitions(env, path, |_| true).map_err(at)? => {
            return Err(OpenError::Unknown {
                path: path.to_path_buf(),
            });
        }
        None => return Ok(()),
    };
    let identity = meta_properties::read(env, path).ok().flatten();
    let whose = identity.map_or_else(String::new, |(_, identity)| {
        let cluster = identity.cluster_id.unwrap_or_default();
        format!(" (cluster {cluster}, node {})", identity.node_id)
    });
    Err(OpenError::Kafkas {
        path: path.to_path_buf(),
        whose,
        mark,
    })
}

pub(super) fn has_partitions(
    env: &Env,
    path: &Path,
    counts: impl Fn(&str) -> bool,
) -> io::Result<bool> {
    for entry in env.disk.read_dir(path)? {
        if entry.is_dir && partition_of(&entry.name).is_some() && counts(&entry.name) {
            let inside = env.disk.read_dir(&path.join(&entry.name))?;
            if inside.iter().any(is_of_a_log) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
