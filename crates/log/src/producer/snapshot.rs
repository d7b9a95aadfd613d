//! Producer states as a file, `<offset>.snapshot`, in Kafka's layout (version 1).
//!
//! Kafka keeps one batch per producer there, so after its restart a repeat of an earlier one looks like a gap. We append the
//! others behind Kafka's part, where its reader does not look; a file of Kafka reads as if they had been forgotten.
//! Snapshots are caches: a damaged one is removed and an older one taken, in the end the log alone.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use env::Disk;
use env::disk::Open;
use model::{Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};

use super::{BATCHES_KEPT, Producer, ProducerStates, Written};
use crate::epochs::Syncing;
use crate::file_name::file_name;

const VERSION: i16 = 1;
const ENTRIES_AT: usize = 6;
const ENTRY_SIZE: usize = 46;
/// Starts our part behind Kafka's.
const MORE_MAGIC: [u8; 4] = *b"more";
const WRITTEN_SIZE: usize = 24;
/// 1 GiB: some ten million producers of one partition.
const SNAPSHOT_BYTES_MAX: u64 = 1 << 30;

#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("snapshot version {version} is unknown")]
    Version { version: i16 },
    #[error("snapshot does not verify")]
    Damaged,
}

impl ProducerStates {
    /// The bytes of a snapshot.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let producers = self.sorted();
        let mut out = Vec::with_capacity(ENTRIES_AT + 4 + producers.len() * ENTRY_SIZE);
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(producers.len() as u32).to_be_bytes());
        for (id, producer) in &producers {
            let last = producer.last().copied().unwrap_or(NOTHING_WRITTEN);
            out.extend_from_slice(&id.0.to_be_bytes());
            out.extend_from_slice(&producer.epoch.0.to_be_bytes());
            out.extend_from_slice(&last.last_sequence.0.to_be_bytes());
            out.extend_from_slice(&last.last_offset.0.to_be_bytes());
            out.extend_from_slice(&last.offset_delta.to_be_bytes());
            out.extend_from_slice(&producer.last_timestamp.0.to_be_bytes());
            out.extend_from_slice(&producer.coordinator_epoch.to_be_bytes());
            out.extend_from_slice(&producer.txn_start.unwrap_or(Offset(-1)).0.to_be_bytes());
        }
        out.extend_from_slice(&MORE_MAGIC);
        for (_, producer) in &producers {
            // The last one again, for its own timestamp: Kafka's field is that of the latest batch or marker.
            out.push(producer.written.len() as u8);
            for batch in &producer.written {
                out.extend_from_slice(&batch.last_sequence.0.to_be_bytes());
                out.extend_from_slice(&batch.last_offset.0.to_be_bytes());
                out.extend_from_slice(&batch.offset_delta.to_be_bytes());
                out.extend_from_slice(&batch.timestamp.0.to_be_bytes());
            }
        }
        let crc = crc_fast::crc32_iscsi(&out[ENTRIES_AT..]);
        out[2..ENTRIES_AT].copy_from_slice(&crc.to_be_bytes());
        out
    }

    /// Reads a snapshot taken at `end`.
    pub fn decode(bytes: &[u8], end: Offset) -> Result<ProducerStates, SnapshotError> {
        let mut reader = Reader(bytes);
        let version = reader.i16()?;
        if version != VERSION {
            return Err(SnapshotError::Version { version });
        }
        let crc = reader.i32()? as u32;
        if crc != crc_fast::crc32_iscsi(reader.0) {
            return Err(SnapshotError::Damaged);
        }
        let count = usize::try_from(reader.i32()?).map_err(|_| SnapshotError::Damaged)?;
        if count > reader.0.len() / ENTRY_SIZE {
            return Err(SnapshotError::Damaged);
        }
        let mut producers = Vec::with_capacity(count);
        for _ in 0..count {
            producers.push(reader.producer()?);
        }
        if reader.0.starts_with(&MORE_MAGIC) {
            reader.take::<4>()?;
            for (_, producer) in &mut producers {
                producer.written = reader.written()?;
            }
        }
        let mut states = ProducerStates::new(end);
        for (id, producer) in producers {
            if !states.restore(id, producer) {
                return Err(SnapshotError::Damaged);
            }
        }
        Ok(states)
    }
}

const NOTHING_WRITTEN: Written = Written {
    last_sequence: Sequence(-1),
    last_offset: Offset(-1),
    offset_delta: 0,
    timestamp: Timestamp::NONE,
};

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let (taken, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or(SnapshotError::Damaged)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn i16(&mut self) -> Result<i16, SnapshotError> {
        self.take().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Result<i32, SnapshotError> {
        self.take().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> Result<i64, SnapshotError> {
        self.take().map(i64::from_be_bytes)
    }

    fn producer(&mut self) -> Result<(ProducerId, Producer), SnapshotError> {
        let id = ProducerId(self.i64()?);
        let epoch = ProducerEpoch(self.i16()?);
        let last_sequence = Sequence(self.i32()?);
        let last_offset = Offset(self.i64()?);
        let offset_delta = self.i32()?;
        let timestamp = Timestamp(self.i64()?);
        let coordinator_epoch = self.i32()?;
        let txn_start = self.i64()?;
        let last = Written {
            last_sequence,
            last_offset,
            offset_delta,
            timestamp,
        };
        let producer = Producer {
            epoch,
            written: if last_offset.0 < 0 {
                Vec::new()
            } else {
                vec![last]
            },
            coordinator_epoch,
            last_timestamp: timestamp,
            txn_start: (txn_start >= 0).then_some(Offset(txn_start)),
        };
        if offset_delta < 0 {
            Err(SnapshotError::Damaged)
        } else {
            Ok((id, producer))
        }
    }

    fn written(&mut self) -> Result<Vec<Written>, SnapshotError> {
        let count = usize::from(self.take::<1>()?[0]);
        if count > BATCHES_KEPT || count * WRITTEN_SIZE > self.0.len() {
            return Err(SnapshotError::Damaged);
        }
        (0..count).map(|_| self.written_one()).collect()
    }

    fn written_one(&mut self) -> Result<Written, SnapshotError> {
        let written = Written {
            last_sequence: Sequence(self.i32()?),
            last_offset: Offset(self.i64()?),
            offset_delta: self.i32()?,
            timestamp: Timestamp(self.i64()?),
        };
        // The last one goes into Kafka's part of the next snapshot, where a negative number has another meaning or none.
        if written.last_offset.0 < 0 || written.offset_delta < 0 {
            return Err(SnapshotError::Damaged);
        }
        Ok(written)
    }
}

/// Path of the snapshot taken at `offset`.
#[must_use]
pub fn path(dir: &Path, offset: Offset) -> PathBuf {
    dir.join(file_name(offset, "snapshot"))
}

/// Writes the snapshot of `states` at their end; its directory entry is the caller's to sync. A torn one does not verify.
pub fn write(
    disk: &dyn Disk,
    dir: &Path,
    states: &ProducerStates,
    syncing: Syncing,
) -> io::Result<()> {
    let bytes = states.encode();
    let file = disk.open(&path(dir, states.end()), Open::Truncate)?;
    file.write_at(&[IoSlice::new(&bytes)], 0)?;
    match syncing {
        Syncing::Now => file.sync_data(),
        Syncing::WithVolume => Ok(()),
    }
}

/// Reads the snapshot taken at `offset`.
pub fn read(disk: &dyn Disk, dir: &Path, offset: Offset) -> Result<ProducerStates, SnapshotError> {
    let file = disk.open(&path(dir, offset), Open::Read)?;
    let len = file.len()?;
    if len > SNAPSHOT_BYTES_MAX {
        return Err(SnapshotError::Damaged);
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0)?;
    ProducerStates::decode(&bytes, offset)
}

/// Removes the snapshots at `offsets`.
pub fn prune(disk: &dyn Disk, dir: &Path, offsets: &[Offset]) -> io::Result<()> {
    for offset in offsets {
        match disk.remove_file(&path(dir, *offset)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
