//! The files beside the segments: indexes, producer snapshots, leader epochs.
//!
//! Indexes are checked against the batch headers of their segment, where it is there.

use std::io;
use std::path::Path;

use env::Disk;
use env::disk::Open;
use log::index::{self, Entry, OffsetEntry, Stored, TimeEntry};
use log::scan::{HeadScan, ScanError};
use log::{Epochs, ProducerStates, txn_index};
use model::Offset;

use super::report::Report;

/// Larger than any file of these kinds, smaller than what would fill the memory.
const FILE_BYTES_MAX: u64 = 1 << 30;

pub(super) fn read(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path, Open::Read)?;
    let len = file.len()?;
    if len > FILE_BYTES_MAX {
        return Err(io::Error::other(format!(
            "{len} bytes are too many for such a file"
        )));
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// A batch of the segment beside an index: where it starts, its first and its last offset.
struct Span {
    position: u64,
    first: i64,
    last: i64,
}

/// The batches of the segment beside an index, as far as their headers make sense; `None` without a segment.
fn spans(disk: &dyn Disk, index: &Path, base: i64) -> io::Result<Option<Vec<Span>>> {
    let file = match disk.open(&index.with_extension("log"), Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut scan = HeadScan::new(&*file, 0, file.len()?, Offset(base));
    let mut spans = Vec::new();
    loop {
        match scan.step() {
            Ok(Some((position, head))) => {
                spans.push(Span {
                    position,
                    first: head.base_offset().0,
                    last: head.last_offset().0,
                });
            }
            // The segment's own report names its damage.
            Ok(None) | Err(ScanError::Damage(_)) => return Ok(Some(spans)),
            Err(ScanError::Io(error)) => return Err(error),
        }
    }
}

/// Entries that rise, and what stands behind them when it is not the zeros of preallocation.
fn entries<E: Entry + PartialEq>(
    disk: &dyn Disk,
    path: &Path,
) -> io::Result<(Vec<E>, u64, Option<String>)> {
    let Stored {
        entries,
        is_doubled,
    } = index::load::<E>(disk, path)?;
    let bytes = read(disk, path)?;
    // A time index may end with its last entry twice.
    let known = entries.len() + usize::from(is_doubled && E::EXTENSION == TimeEntry::EXTENSION);
    let rest = bytes.get(known * E::SIZE..).unwrap_or_default();
    let torn = rest.iter().any(|byte| *byte != 0);
    let damage =
        torn.then(|| format!("entry {} does not rise above the one before", entries.len()));
    Ok((entries, bytes.len() as u64, damage))
}

pub(super) fn offset_index(disk: &dyn Disk, path: &Path, base: i64) -> io::Result<Report> {
    let (entries, bytes, mut damage) = entries::<OffsetEntry>(disk, path)?;
    let offset = |entry: &OffsetEntry| base + i64::from(entry.relative);
    if let Some(spans) = spans(disk, path, base)? {
        let wrong = |entry: &&OffsetEntry| {
            let at =
                spans.binary_search_by_key(&i64::from(entry.position), |span| span.position as i64);
            !at.is_ok_and(|at| spans[at].first <= offset(entry) && offset(entry) <= spans[at].last)
        };
        let words = |entry: &OffsetEntry| {
            format!(
                "offset {} is not in a batch at position {}",
                offset(entry),
                entry.position
            )
        };
        damage = damage.or(entries.iter().find(wrong).map(words));
    }
    let (first, last) = (entries.first().map(offset), entries.last().map(offset));
    Ok(Report {
        kind: "offset index",
        entries: entries.len() as u64,
        first,
        last,
        bytes,
        damage,
    })
}

pub(super) fn time_index(disk: &dyn Disk, path: &Path, base: i64) -> io::Result<Report> {
    let (entries, bytes, mut damage) = entries::<TimeEntry>(disk, path)?;
    let offset = |entry: &TimeEntry| base + i64::from(entry.relative);
    if let Some(spans) = spans(disk, path, base)? {
        let wrong = |entry: &&TimeEntry| {
            let after = spans.partition_point(|span| span.first <= offset(entry));
            after
                .checked_sub(1)
                .is_none_or(|at| spans[at].last < offset(entry))
        };
        damage = damage.or(entries
            .iter()
            .find(wrong)
            .map(|entry| format!("offset {} is in no batch", offset(entry))));
    }
    let (first, last) = (entries.first().map(offset), entries.last().map(offset));
    Ok(Report {
        kind: "time index",
        entries: entries.len() as u64,
        first,
        last,
        bytes,
        damage,
    })
}

/// Entries of the index of aborted transactions: version, producer, first and last offset, last stable offset.
pub(super) fn txn_index(disk: &dyn Disk, path: &Path, base: i64) -> io::Result<Report> {
    const ENTRY: usize = 34;
    let bytes = read(disk, path)?;
    let long = |entry: &[u8], at: usize| {
        entry
            .get(at..)
            .and_then(|rest| rest.first_chunk())
            .map_or(-1, |eight| i64::from_be_bytes(*eight))
    };
    let (mut first, mut last, mut damage) = (None, None, None);
    let entries = bytes.chunks_exact(ENTRY);
    if !entries.remainder().is_empty() {
        damage = Some("ends inside an entry".to_owned());
    }
    for entry in bytes.chunks_exact(ENTRY) {
        let (from, to) = (long(entry, 10), long(entry, 18));
        if entry[..2] != [0, 0] || from < 0 || to < from {
            damage.get_or_insert_with(|| format!("a transaction from {from} to {to}"));
        }
        first = first.or(Some(from));
        last = last.max(Some(to));
    }
    // Kafka keeps no checks.
    let has_checks = disk.exists(&path.with_extension(txn_index::CHECKS_EXTENSION))?;
    if let Some(dir) = path.parent().filter(|_| has_checks && damage.is_none()) {
        let stored = txn_index::Files::of(dir, Offset(base)).load(disk)?;
        damage = (!stored.is_sound).then(|| "does not agree with its checksums".to_owned());
    }
    Ok(Report {
        kind: "transaction index",
        entries: entries.len() as u64,
        first,
        last,
        bytes: bytes.len() as u64,
        damage,
    })
}

pub(super) fn snapshot(disk: &dyn Disk, path: &Path, offset: i64) -> io::Result<Report> {
    let bytes = read(disk, path)?;
    // The number of producers stands behind version and checksum.
    let count = bytes
        .get(6..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |four| u32::from_be_bytes(*four));
    let (entries, damage) = match ProducerStates::decode(&bytes, Offset(offset)) {
        Ok(_) => (u64::from(count), None),
        Err(error) => (0, Some(error.to_string())),
    };
    Ok(Report {
        kind: "producer snapshot",
        entries,
        first: None,
        last: None,
        bytes: bytes.len() as u64,
        damage,
    })
}

pub(super) fn epochs(disk: &dyn Disk, path: &Path) -> io::Result<Report> {
    let bytes = read(disk, path)?;
    let known = std::str::from_utf8(&bytes).ok().and_then(Epochs::decode);
    let damage = known
        .is_none()
        .then(|| "is not a list of rising epochs".to_owned());
    let entries = known.as_ref().map_or(&[][..], Epochs::entries);
    let (first, last) = (
        entries.first().map(|entry| entry.start.0),
        entries.last().map(|entry| entry.start.0),
    );
    Ok(Report {
        kind: "leader epochs",
        entries: entries.len() as u64,
        first,
        last,
        bytes: bytes.len() as u64,
        damage,
    })
}
