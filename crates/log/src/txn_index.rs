//! Aborted transactions of one segment (`.txnindex`), in Kafka's layout.
//!
//! Entries are in order of the marker that aborted. A consumer that reads committed data is given those that overlap what
//! it fetched, and drops their records.

use std::io::{self, IoSlice};
use std::path::Path;

use env::disk::Open;
use env::{Disk, FileHandle};
use model::{Offset, ProducerId};

use crate::producer::CompletedTxn;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTxn {
    pub producer_id: ProducerId,
    pub first_offset: Offset,
    /// Offset of the marker.
    pub last_offset: Offset,
    /// Last stable offset after the marker: nothing below it is aborted by a later entry.
    pub last_stable_offset: Offset,
}

impl From<CompletedTxn> for AbortedTxn {
    fn from(ended: CompletedTxn) -> AbortedTxn {
        AbortedTxn {
            producer_id: ended.producer_id,
            first_offset: ended.first_offset,
            last_offset: ended.last_offset,
            last_stable_offset: ended.last_stable_offset,
        }
    }
}

const VERSION: i16 = 0;
pub const ENTRY_SIZE: usize = 34;
/// Entries read from one file: 34 MiB, far beyond what one segment gathers.
const ENTRIES_MAX: u64 = 1 << 20;

impl AbortedTxn {
    #[must_use]
    pub fn encode(&self) -> [u8; ENTRY_SIZE] {
        let mut out = [0; ENTRY_SIZE];
        out[..2].copy_from_slice(&VERSION.to_be_bytes());
        let fields = [
            self.producer_id.0,
            self.first_offset.0,
            self.last_offset.0,
            self.last_stable_offset.0,
        ];
        for (slot, field) in out[2..].chunks_exact_mut(8).zip(fields) {
            slot.copy_from_slice(&field.to_be_bytes());
        }
        out
    }

    /// `None` when the bytes are no entry.
    #[must_use]
    pub fn decode(bytes: &[u8; ENTRY_SIZE]) -> Option<AbortedTxn> {
        let mut fields = [0i64; 4];
        for (field, chunk) in fields.iter_mut().zip(bytes[2..].chunks_exact(8)) {
            *field = i64::from_be_bytes(*chunk.first_chunk()?);
        }
        let [producer, first, last, stable] = fields;
        let sound =
            bytes[..2] == VERSION.to_be_bytes() && 0 <= first && first <= last && producer >= 0;
        sound.then_some(AbortedTxn {
            producer_id: ProducerId(producer),
            first_offset: Offset(first),
            last_offset: Offset(last),
            last_stable_offset: Offset(stable),
        })
    }
}

/// The entries of a file up to the first that is none; a missing file has none.
pub fn load(disk: &dyn Disk, path: &Path) -> io::Result<Vec<AbortedTxn>> {
    let file = match disk.open(path, Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut entries = Vec::new();
    let count = (file.len()? / ENTRY_SIZE as u64).min(ENTRIES_MAX);
    let mut bytes = [0; ENTRY_SIZE];
    for at in 0..count {
        file.read_exact_at(&mut bytes, at * ENTRY_SIZE as u64)?;
        match AbortedTxn::decode(&bytes) {
            Some(entry) => entries.push(entry),
            None => break,
        }
    }
    Ok(entries)
}

/// Writes `entries` behind the first `at` of the file. What stood there before is not touched, so that a power cut cannot take
/// an entry that a checkpoint vouches for. The caller syncs the file, and its directory when `at` is 0.
pub fn append(
    disk: &dyn Disk,
    path: &Path,
    at: usize,
    entries: &[AbortedTxn],
) -> io::Result<FileHandle> {
    let bytes: Vec<u8> = entries.iter().flat_map(AbortedTxn::encode).collect();
    let file = disk.open(path, Open::Create)?;
    file.write_at(&[IoSlice::new(&bytes)], (at * ENTRY_SIZE) as u64)?;
    Ok(file)
}

/// Drops the entries whose marker lies at or above `end`.
pub fn cut(disk: &dyn Disk, path: &Path, end: Offset) -> io::Result<()> {
    let entries = load(disk, path)?;
    let kept = entries.partition_point(|entry| entry.last_offset < end);
    if kept == entries.len() {
        return Ok(());
    }
    disk.open(path, Open::Write)?
        .set_len((kept * ENTRY_SIZE) as u64)
}

/// Writes all entries, also none, as the whole content of `path`, and syncs it.
pub fn create(disk: &dyn Disk, path: &Path, entries: &[AbortedTxn]) -> io::Result<()> {
    let bytes: Vec<u8> = entries.iter().flat_map(AbortedTxn::encode).collect();
    let file = disk.open(path, Open::Truncate)?;
    if !bytes.is_empty() {
        file.write_at(&[IoSlice::new(&bytes)], 0)?;
    }
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_survives_its_bytes_and_zeros_are_none() {
        let entry = AbortedTxn {
            producer_id: ProducerId(7),
            first_offset: Offset(10),
            last_offset: Offset(20),
            last_stable_offset: Offset(15),
        };
        assert_eq!(AbortedTxn::decode(&entry.encode()), Some(entry));
        let mut other_version = entry.encode();
        other_version[1] = 1;
        assert_eq!(AbortedTxn::decode(&other_version), None);
        let mut backwards = entry.encode();
        backwards[17] = 21;
        assert_eq!(AbortedTxn::decode(&backwards), None);
    }
}
