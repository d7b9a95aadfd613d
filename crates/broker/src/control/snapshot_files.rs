//! The files of snapshots (KIP-630), of the metadata log: written, fetched, read to their last byte before they are believed.
//!
//! A file has its name only once it is whole, verified and synced; until then it is a `.part`, which the next start removes.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use env::Disk;
use env::disk::Open;
use meta::Image;
use meta::checkpoint::{self, CheckpointError};
use raft::{SnapshotFacts, SnapshotId, VoterSet};

/// More than any metadata take: 20 million partitions.
const BYTES_MAX: u64 = 4 << 30;
const PART: &str = ".part";

#[derive(Debug, thiserror::Error)]
pub(crate) enum SnapshotError {
    #[error("{path}: {error}")]
    Io { path: String, error: io::Error },
    #[error("{path}: {error}")]
    Damaged {
        path: String,
        error: CheckpointError,
    },
    #[error("{path}: its voters cannot be read")]
    Voters { path: String },
}

/// A snapshot that was read to its end.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) id: SnapshotId,
    pub(crate) image: Image,
    pub(crate) facts: SnapshotFacts,
}

/// The directory of the snapshots of one metadata log.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotDir(PathBuf);

impl SnapshotDir {
    /// A directory of their own: recovery may remove that of the segments, when the journal has all that is in it.
    pub(crate) fn of(log_dir: &Path) -> SnapshotDir {
        SnapshotDir(log_dir.join("snapshots"))
    }

    fn path(&self, id: SnapshotId) -> PathBuf {
        self.0.join(to_meta(id).file_name())
    }

    fn part(&self, id: SnapshotId) -> PathBuf {
        self.0.join(format!("{}{PART}", to_meta(id).file_name()))
    }

    /// The snapshots there are, oldest first, with their sizes. Removes what was not finished.
    pub(crate) fn list(&self, disk: &dyn Disk) -> io::Result<Vec<(SnapshotId, u64)>> {
        if !disk.exists(&self.0)? {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for entry in disk.read_dir(&self.0)? {
            let path = self.0.join(&entry.name);
            if let Some(id) = checkpoint::SnapshotId::of_file(&entry.name) {
                found.push((of_meta(id), entry.len));
            } else if entry.name.strip_suffix(PART).is_some() {
                disk.remove_file(&path)?;
            }
        }
        found.sort();
        Ok(found)
    }

    /// Reads a snapshot to its last byte.
    pub(crate) fn load(&self, disk: &dyn Disk, id: SnapshotId) -> Result<Loaded, SnapshotError> {
        self.read(disk, id, &self.path(id))
    }

    fn read(&self, disk: &dyn Disk, id: SnapshotId, path: &Path) -> Result<Loaded, SnapshotError> {
        let name = || path.display().to_string();
        let bytes = read_all(disk, path).map_err(|error| SnapshotError::Io {
            path: name(),
            error,
        })?;
        let (image, head) = checkpoint::read(&bytes, to_meta(id)).map_err(|error| {
            let path = name();
            SnapshotError::Damaged { path, error }
        })?;
        let voters = match head.voters {
            None => None,
            Some(record) => {
                let set = VoterSet::from_record(&record);
                Some(set.ok_or_else(|| SnapshotError::Voters { path: name() })?)
            }
        };
        let facts = SnapshotFacts {
            voters,
            version: head.kraft_version,
            cluster: head.cluster_id,
        };
        Ok(Loaded { id, image, facts })
    }

    /// Writes the bytes of a snapshot durably, under its name.
    pub(crate) fn write(&self, disk: &dyn Disk, id: SnapshotId, bytes: &Bytes) -> io::Result<()> {
        self.write_part(disk, id, 0, bytes)?;
        self.name(disk, id)
    }

    /// Bytes of a snapshot that is fetched.
    pub(crate) fn write_part(
        &self,
        disk: &dyn Disk,
        id: SnapshotId,
        position: u64,
        bytes: &Bytes,
    ) -> io::Result<()> {
        if !disk.exists(&self.0)? {
            disk.create_dir_all(&self.0)?;
            self.0
                .parent()
                .map_or(Ok(()), |log_dir| disk.sync_dir(log_dir))?;
        }
        let how = if position == 0 {
            Open::Truncate
        } else {
            Open::Write
        };
        let file = disk.open(&self.part(id), how)?;
        file.write_at(&[IoSlice::new(bytes)], position)
    }

    /// A fetched snapshot is complete: verified, it gets its name.
    pub(crate) fn finish(
        &self,
        disk: &dyn Disk,
        id: SnapshotId,
        size: u64,
    ) -> Result<Loaded, SnapshotError> {
        let part = self.part(id);
        let io = |error| SnapshotError::Io {
            path: part.display().to_string(),
            error,
        };
        let file = disk.open(&part, Open::Write).map_err(io)?;
        file.set_len(size).map_err(io)?;
        let loaded = self.read(disk, id, &part)?;
        self.name(disk, id).map_err(io)?;
        Ok(loaded)
    }

    fn name(&self, disk: &dyn Disk, id: SnapshotId) -> io::Result<()> {
        let part = self.part(id);
        disk.open(&part, Open::Write)?.sync_data()?;
        disk.rename(&part, &self.path(id))?;
        disk.sync_dir(&self.0)
    }

    /// The download is given up.
    pub(crate) fn drop_part(&self, disk: &dyn Disk, id: SnapshotId) -> io::Result<()> {
        remove(disk, &self.part(id))
    }

    pub(crate) fn delete(&self, disk: &dyn Disk, id: SnapshotId) -> io::Result<()> {
        remove(disk, &self.path(id))
    }

    /// Some bytes of a snapshot, for another node.
    pub(crate) fn slice(
        &self,
        disk: &dyn Disk,
        id: SnapshotId,
        position: u64,
        bytes_max: u32,
    ) -> io::Result<Bytes> {
        let file = disk.open(&self.path(id), Open::Read)?;
        let left = file.len()?.saturating_sub(position);
        let len = usize::try_from(left.min(bytes_max.into())).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, position)?;
        Ok(bytes.into())
    }
}

fn read_all(disk: &dyn Disk, path: &Path) -> io::Result<Bytes> {
    let file = disk.open(path, Open::Read)?;
    let len = file.len()?;
    if BYTES_MAX < len {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes.into())
}

fn remove(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    if disk.exists(path)? {
        disk.remove_file(path)?;
    }
    Ok(())
}

fn to_meta(id: SnapshotId) -> checkpoint::SnapshotId {
    checkpoint::SnapshotId {
        end: id.end,
        epoch: id.epoch,
    }
}

fn of_meta(id: checkpoint::SnapshotId) -> SnapshotId {
    SnapshotId {
        epoch: id.epoch,
        end: id.end,
    }
}
