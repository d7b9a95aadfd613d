//! Sparse indexes of one segment: entries of fixed size in rising order, found by binary search.
//!
//! The entries of the active segment live in memory; those of a sealed one stay in its file. Indexes are caches: whatever
//! looks wrong is thrown away and built again from the batches, and nothing is decided by them that a batch header does not
//! confirm. Byte layouts are Kafka's.

use std::io::{self, IoSlice};
use std::path::Path;

use env::disk::Open;
use env::{Disk, File};
use model::Offset;

use crate::epochs::{Syncing, replace_file};
use crate::file_name::file_name;

/// An entry of an index file.
pub trait Entry: Copy + PartialEq + std::fmt::Debug {
    const SIZE: usize;
    /// Part of the file name behind the base offset.
    const EXTENSION: &'static str;

    fn key(&self) -> i64;
    /// `bytes` has `SIZE` bytes.
    fn read(bytes: &[u8]) -> Self;
    fn write(&self, out: &mut Vec<u8>);
}

/// `.index`: where the batch starts whose last offset is `base + relative`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetEntry {
    pub relative: i32,
    pub position: i32,
}

fn int(bytes: &[u8], at: usize) -> i32 {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |four| i32::from_be_bytes(*four))
}

impl Entry for OffsetEntry {
    const SIZE: usize = 8;
    const EXTENSION: &'static str = "index";

    fn key(&self) -> i64 {
        i64::from(self.relative)
    }

    fn read(bytes: &[u8]) -> Self {
        OffsetEntry {
            relative: int(bytes, 0),
            position: int(bytes, 4),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.relative.to_be_bytes());
        out.extend_from_slice(&self.position.to_be_bytes());
    }
}

/// `.timeindex`: the largest timestamp up to here, and the last offset of the batch that brought it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeEntry {
    pub timestamp: i64,
    pub relative: i32,
}

impl Entry for TimeEntry {
    const SIZE: usize = 12;
    const EXTENSION: &'static str = "timeindex";

    fn key(&self) -> i64 {
        self.timestamp
    }

    fn read(bytes: &[u8]) -> Self {
        let high = i64::from(int(bytes, 0)) << 32;
        TimeEntry {
            timestamp: high | i64::from(int(bytes, 4) as u32),
            relative: int(bytes, 8),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.timestamp.to_be_bytes());
        out.extend_from_slice(&self.relative.to_be_bytes());
    }
}

/// The last entry whose key is at most `key`.
pub fn floor<E: Entry>(entries: &[E], key: i64) -> Option<E> {
    let after = entries.partition_point(|entry| entry.key() <= key);
    after.checked_sub(1).and_then(|at| entries.get(at)).copied()
}

/// [`floor`] in a file of `count` entries: halves down to one page, then reads that.
pub fn floor_in_file<E: Entry>(file: &dyn File, count: u64, key: i64) -> io::Result<Option<E>> {
    const PAGE_BYTES: usize = 4096;
    let page = (PAGE_BYTES / E::SIZE) as u64;
    let mut bytes = [0u8; PAGE_BYTES];
    let (mut low, mut high) = (0, count);
    while high - low > page {
        let middle = low + (high - low) / 2;
        let one = &mut bytes[..E::SIZE];
        file.read_exact_at(one, middle * E::SIZE as u64)?;
        if E::read(one).key() <= key {
            low = middle
        } else {
            high = middle
        }
    }
    let rest = &mut bytes[..(high - low) as usize * E::SIZE];
    file.read_exact_at(rest, low * E::SIZE as u64)?;
    let entries: Vec<E> = rest.chunks_exact(E::SIZE).map(E::read).collect();
    Ok(floor(&entries, key))
}

/// The first entry of a file of `count` that is not `before`; entries must be ordered by it.
pub fn first_in_file<E: Entry>(
    file: &dyn File,
    count: u64,
    before: impl Fn(&E) -> bool,
) -> io::Result<Option<E>> {
    let mut bytes = vec![0; E::SIZE];
    let (mut low, mut high, mut found) = (0, count, None);
    while low < high {
        let middle = low + (high - low) / 2;
        file.read_exact_at(&mut bytes, middle * E::SIZE as u64)?;
        let entry = E::read(&bytes);
        if before(&entry) {
            low = middle + 1;
        } else {
            (high, found) = (middle, Some(entry));
        }
    }
    Ok(found)
}

/// The entries of an index file.
pub struct Stored<E> {
    pub entries: Vec<E>,
    /// The last entry is there twice, and nothing behind it.
    pub is_doubled: bool,
}

impl<E> Stored<E> {
    pub fn none() -> Stored<E> {
        Stored {
            entries: Vec::new(),
            is_doubled: false,
        }
    }
}

/// The entries of a file as long as they rise; a torn or zeroed tail ends them. Missing files have none.
pub fn load<E: Entry + PartialEq>(disk: &dyn Disk, path: &Path) -> io::Result<Stored<E>> {
    let file = match disk.open(path, Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Stored::none()),
        Err(error) => return Err(error),
    };
    // Ten times the default bound of an index; more than that is no index of ours.
    const INDEX_BYTES_MAX: u64 = 100 << 20;
    let len = file.len()?;
    if len > INDEX_BYTES_MAX {
        return Ok(Stored::none());
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0)?;
    let mut stored = Stored::none();
    let entries: &mut Vec<E> = &mut stored.entries;
    let mut chunks = bytes.chunks_exact(E::SIZE);
    for bytes in chunks.by_ref() {
        let entry = E::read(bytes);
        let rises = entries.last().is_none_or(|last| entry.key() > last.key());
        if !rises || bytes.iter().all(|byte| *byte == 0) {
            stored.is_doubled = entries.last() == Some(&entry) && chunks.len() == 0;
            break;
        }
        entries.push(entry);
    }
    Ok(stored)
}

/// Writes all entries as the whole content of `path`. Not synced: a cache may be lost.
pub fn store<E: Entry>(disk: &dyn Disk, path: &Path, entries: &[E]) -> io::Result<()> {
    let bytes = bytes_of(entries);
    let file = disk.open(path, Open::Truncate)?;
    if bytes.is_empty() {
        Ok(())
    } else {
        file.write_at(&[IoSlice::new(&bytes)], 0)
    }
}

/// The same, and a power cut leaves all entries or none of them.
pub(crate) fn store_whole<E: Entry>(
    disk: &dyn Disk,
    dir: &Path,
    base: Offset,
    entries: &[E],
) -> io::Result<()> {
    let name = file_name(base, E::EXTENSION);
    replace_file(disk, dir, &name, &bytes_of(entries), Syncing::Now)
}

fn bytes_of<E: Entry>(entries: &[E]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entries.len() * E::SIZE);
    for entry in entries {
        entry.write(&mut bytes);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_the_bytes_of_kafka() {
        let mut out = Vec::new();
        OffsetEntry {
            relative: 258,
            position: 65_537,
        }
        .write(&mut out);
        assert_eq!(out, [0, 0, 1, 2, 0, 1, 0, 1]);
        assert_eq!(
            OffsetEntry::read(&out),
            OffsetEntry {
                relative: 258,
                position: 65_537
            }
        );
        let entry = TimeEntry {
            timestamp: 0x0102_0304_8506_0708,
            relative: 9,
        };
        out.clear();
        entry.write(&mut out);
        assert_eq!(out, [1, 2, 3, 4, 0x85, 6, 7, 8, 0, 0, 0, 9]);
        assert_eq!(TimeEntry::read(&out), entry);
    }

    #[test]
    fn floor_finds_the_last_entry_not_above_the_key() {
        let entries: Vec<OffsetEntry> = (1..=100)
            .map(|i| OffsetEntry {
                relative: i * 10,
                position: i,
            })
            .collect();
        assert_eq!(floor(&entries, 9), None);
        assert_eq!(floor(&entries, 10).map(|e| e.position), Some(1));
        assert_eq!(floor(&entries, 999).map(|e| e.position), Some(99));
        assert_eq!(floor(&entries, i64::MAX).map(|e| e.position), Some(100));
    }
}
