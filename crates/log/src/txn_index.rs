//! Aborted transactions of one segment (`.txnindex`), in Kafka's layout, and beside it a checksum of each entry (`.txncheck`).
//!
//! Entries are in order of the marker that aborted. A consumer that reads committed data is given those that overlap what
//! it fetched, and drops their records: a wrong entry hides committed records or shows aborted ones. Kafka's layout has no room for
//! a checksum, so it has a file of its own, whose n-th number is of the n-th entry. Both files grow and are cut alike. Says whether
//! they agree; what is done when they do not is the store's decision.

use std::io::{self, IoSlice};
use std::path::Path;

use env::disk::Open;
use env::{Disk, FileHandle};
use model::{Offset, ProducerId};

use crate::file_name::file_name;
use crate::producer::CompletedTxn;

pub const EXTENSION: &str = "txnindex";
pub const CHECKS_EXTENSION: &str = "txncheck";

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
const CHECK_SIZE: usize = 4;
/// Entries of one file. A batch with its marker takes 140 bytes and more, so 2 GiB of a segment hold no more of them.
const ENTRIES_MAX: u64 = 16 << 20;

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

/// The two files of a segment.
pub struct Files {
    index: Box<Path>,
    checks: Box<Path>,
    base: Offset,
}

/// The content of the files.
#[derive(Debug, PartialEq, Eq)]
pub struct Stored {
    /// The entries that verify, in order.
    pub entries: Vec<AbortedTxn>,
    /// Every entry verifies, and no file has more than the other. Files that were never made have no entries.
    pub is_sound: bool,
}

impl Files {
    #[must_use]
    pub fn of(dir: &Path, base: Offset) -> Files {
        Files {
            index: dir.join(file_name(base, EXTENSION)).into(),
            checks: dir.join(file_name(base, CHECKS_EXTENSION)).into(),
            base,
        }
    }

    /// The same with `suffix` behind their names, while they are not those of the segment.
    #[must_use]
    pub fn on_the_way(dir: &Path, base: Offset, suffix: &str) -> Files {
        let path = |extension| dir.join(file_name(base, extension) + suffix).into();
        Files {
            index: path(EXTENSION),
            checks: path(CHECKS_EXTENSION),
            base,
        }
    }

    /// Of an entry where it stands: one of another place or segment does not verify.
    fn check(&self, at: usize, entry: &[u8]) -> u32 {
        let mut bytes = [0; 16 + ENTRY_SIZE];
        bytes[..8].copy_from_slice(&self.base.0.to_be_bytes());
        bytes[8..16].copy_from_slice(&(at as u64).to_be_bytes());
        for (slot, byte) in bytes[16..].iter_mut().zip(entry) {
            *slot = *byte;
        }
        crate::crc32c(&bytes)
    }

    fn encode(&self, at: usize, entries: &[AbortedTxn]) -> (Vec<u8>, Vec<u8>) {
        let mut index = Vec::with_capacity(entries.len() * ENTRY_SIZE);
        let mut checks = Vec::with_capacity(entries.len() * CHECK_SIZE);
        for (number, entry) in entries.iter().enumerate() {
            let bytes = entry.encode();
            checks.extend_from_slice(&self.check(at + number, &bytes).to_be_bytes());
            index.extend_from_slice(&bytes);
        }
        (index, checks)
    }

    pub fn load(&self, disk: &dyn Disk) -> io::Result<Stored> {
        let index = read(disk, &self.index, ENTRY_SIZE)?;
        let checks = read(disk, &self.checks, CHECK_SIZE)?;
        let (Some(index), Some(checks)) = (index, checks) else {
            return Ok(Stored {
                entries: Vec::new(),
                is_sound: false,
            });
        };
        let (index, rest) = index.as_chunks::<ENTRY_SIZE>();
        let (checks, more) = checks.as_chunks::<CHECK_SIZE>();
        let mut is_sound = rest.is_empty() && more.is_empty() && index.len() == checks.len();
        let mut entries: Vec<AbortedTxn> = Vec::new();
        for (at, (bytes, check)) in index.iter().zip(checks).enumerate() {
            let verified = (self.check(at, bytes) == u32::from_be_bytes(*check))
                .then(|| AbortedTxn::decode(bytes))
                .flatten();
            let last = entries.last().map_or(Offset(-1), |last| last.last_offset);
            match verified.filter(|entry| last < entry.last_offset) {
                Some(entry) => entries.push(entry),
                None => is_sound = false,
            }
        }
        Ok(Stored { entries, is_sound })
    }

    /// Writes `entries` behind the first `at`. What stood there before is not touched, so that a power cut cannot take an entry
    /// that a checkpoint vouches for. The caller syncs the files, and their directory when `at` is 0.
    pub fn append(
        &self,
        disk: &dyn Disk,
        at: usize,
        entries: &[AbortedTxn],
    ) -> io::Result<[FileHandle; 2]> {
        let (index, checks) = self.encode(at, entries);
        let [index_file, checks_file] = self.open(disk)?;
        index_file.write_at(&[IoSlice::new(&index)], (at * ENTRY_SIZE) as u64)?;
        checks_file.write_at(&[IoSlice::new(&checks)], (at * CHECK_SIZE) as u64)?;
        Ok([index_file, checks_file])
    }

    /// The files as they are, to be synced.
    pub fn open(&self, disk: &dyn Disk) -> io::Result<[FileHandle; 2]> {
        let index = disk.open(&self.index, Open::Create)?;
        let checks = disk.open(&self.checks, Open::Create)?;
        Ok([index, checks])
    }

    /// Drops the entries whose marker lies at or above `end`. Files that do not verify stay as they are: what is missing in them is
    /// found in the batches, and less of them would look sound.
    pub fn cut(&self, disk: &dyn Disk, end: Offset) -> io::Result<()> {
        let Stored { entries, is_sound } = self.load(disk)?;
        let kept = entries.partition_point(|entry| entry.last_offset < end);
        if !is_sound || kept == entries.len() {
            return Ok(());
        }
        for (path, size) in [(&self.index, ENTRY_SIZE), (&self.checks, CHECK_SIZE)] {
            disk.open(path, Open::Write)?
                .set_len((kept * size) as u64)?;
        }
        Ok(())
    }

    /// Writes all entries, also none, as the whole content, and syncs it.
    pub fn create(&self, disk: &dyn Disk, entries: &[AbortedTxn]) -> io::Result<()> {
        let (index, checks) = self.encode(0, entries);
        for (path, bytes) in [(&self.index, index), (&self.checks, checks)] {
            let file = disk.open(path, Open::Truncate)?;
            if !bytes.is_empty() {
                file.write_at(&[IoSlice::new(&bytes)], 0)?;
            }
            file.sync_data()?;
        }
        Ok(())
    }

    /// Takes the names of `other`. Between the two steps its files do not agree, so a crash there is seen.
    pub fn rename_to(&self, disk: &dyn Disk, other: &Files) -> io::Result<()> {
        for (from, to) in [(&self.index, &other.index), (&self.checks, &other.checks)] {
            match disk.rename(from, to) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes what is there of them.
    pub fn remove(&self, disk: &dyn Disk) -> io::Result<()> {
        for path in [&self.index, &self.checks] {
            match disk.remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The whole of a file, empty when it is missing; `None` when it is longer than any with entries of `size`.
fn read(disk: &dyn Disk, path: &Path, size: usize) -> io::Result<Option<Vec<u8>>> {
    let file = match disk.open(path, Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(Vec::new())),
        Err(error) => return Err(error),
    };
    let len = file.len()?;
    if len > ENTRIES_MAX * size as u64 {
        return Ok(None);
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_survives_its_bytes_and_others_are_none() {
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
