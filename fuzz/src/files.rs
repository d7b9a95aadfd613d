//! Files of a log directory as an input spells them, on a disk in memory, and their checksums mended where the input says so:
//! mutations would hardly get past them otherwise.

use std::io::IoSlice;
use std::path::{Path, PathBuf};

use env::Disk;
use env::disk::Open;
use env::sim::{Faults, Machine};
use log::journal::PAGE;
use model::Offset;

/// Bases of segments: near enough for a small input to fill what is between, and those of the log's tests.
pub const BASES: [i64; 10] = [0, 2, 5, 40, 100, 111, 125, 150, 155, 160];
/// The files in the directory of a partition.
pub const EXTENSIONS: [&str; 8] = [
    "log",
    "index",
    "timeindex",
    "txnindex",
    "txncheck",
    "snapshot",
    "log.swap",
    "cleaned",
];

/// A machine with an empty disk without faults. It is off as soon as it is dropped.
pub fn machine() -> Machine {
    Machine::new(1, Faults::default())
}

pub fn put(disk: &dyn Disk, path: &Path, bytes: &[u8]) {
    let dir = path.parent().expect("a path in a directory");
    disk.create_dir_all(dir).expect("a disk without faults");
    let file = disk.open(path, Open::Truncate).expect("as above");
    file.write_at(&[IoSlice::new(bytes)], 0).expect("as above");
    disk.sync_volume(dir).expect("as above");
}

/// Pieces of an input: a byte that says what, a length of two bytes, and that many bytes or as many as there are.
pub fn pieces(mut input: &[u8]) -> Vec<(u8, &[u8])> {
    let mut pieces = Vec::new();
    while let [what, high, low, rest @ ..] = input {
        let len = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        let (piece, rest) = rest.split_at(len);
        pieces.push((*what, piece));
        input = rest;
    }
    pieces
}

pub fn piece(what: u8, bytes: &[u8]) -> Vec<u8> {
    let len = u16::try_from(bytes.len()).expect("a short piece");
    [&[what][..], &len.to_be_bytes(), bytes].concat()
}

/// Name in the directory of a partition: the low bits choose the kind, the high ones the base.
pub fn name_of(what: u8) -> String {
    match what & 0x0f {
        8 => "leader-epoch-checkpoint".to_owned(),
        9 => "partition.metadata".to_owned(),
        kind => {
            let base = Offset(BASES[usize::from(what >> 4) % BASES.len()]);
            let extension = EXTENSIONS[usize::from(kind) % EXTENSIONS.len()];
            log::file_name(base, extension)
        }
    }
}

/// Every batch that is there as a whole gets the checksum of its bytes.
pub fn mend_batches(bytes: &mut [u8]) {
    let mut at = 0;
    while let Some(batch) = bytes.get_mut(at..) {
        let Some(length) = int(batch, 8) else { return };
        let size = 12 + length.max(0) as usize;
        if size < 61 || batch.len() < size {
            return;
        }
        let checksum = log::crc32c(&batch[21..size]);
        batch[17..21].copy_from_slice(&checksum.to_be_bytes());
        at += size;
    }
}

pub fn mend_checkpoint(bytes: &mut [u8]) {
    if let Some((head, rest)) = bytes.split_at_mut_checked(16) {
        head[8..12].copy_from_slice(&log::crc32c(rest).to_le_bytes());
    }
}

pub fn mend_snapshot(bytes: &mut [u8]) {
    if let Some((head, rest)) = bytes.split_at_mut_checked(6) {
        head[2..6].copy_from_slice(&log::crc32c(rest).to_be_bytes());
    }
}

/// Header of the piece and every round get their checksums, and each round that of the one before it.
pub fn mend_journal(bytes: &mut [u8]) {
    if bytes.len() < 64 {
        return;
    }
    let checksum = log::crc32c(&bytes[12..60]);
    bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
    let mut previous = bytes[44..48].to_vec();
    let mut at = PAGE as usize;
    while let Some(round) = bytes.get_mut(at..) {
        if round.len() < 64 || round[..4] != *b"ESKR" {
            at += PAGE as usize;
            if at >= bytes.len() {
                return;
            }
            continue;
        }
        round[8..12].copy_from_slice(&previous);
        let number = |at: usize| u32::from_le_bytes(round[at..at + 4].try_into().expect("four"));
        // Head, 89 bytes for each entry, echo.
        let front = 64 + u64::from(number(12)) * 89 + u64::from(number(48));
        let Some(sealed) = usize::try_from(front)
            .ok()
            .and_then(|end| round.get(8..end))
        else {
            return;
        };
        let checksum = log::crc32c(sealed).to_le_bytes();
        round[4..8].copy_from_slice(&checksum);
        previous = checksum.to_vec();
        let bodies = u64::from_le_bytes(round[40..48].try_into().expect("eight"));
        let span = front
            .saturating_add(bodies)
            .div_ceil(PAGE)
            .saturating_mul(PAGE);
        at = at.saturating_add(usize::try_from(span).unwrap_or(usize::MAX));
    }
}

/// A piece of the journal from runs of bytes, each padded to whole pages: a short input may have many.
pub fn padded(runs: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for run in runs {
        out.extend_from_slice(run);
        out.resize(out.len().next_multiple_of(PAGE as usize), 0);
    }
    out
}

/// The runs of a piece without the zeroes at the end of their pages.
pub fn unpadded(piece: &[u8]) -> Vec<&[u8]> {
    let pages = piece.chunks(PAGE as usize);
    let runs = pages.map(|page| {
        let end = page
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |at| at + 1);
        &page[..end]
    });
    runs.collect()
}

pub fn partition_dir() -> PathBuf {
    PathBuf::from("/data/t-0")
}

fn int(bytes: &[u8], at: usize) -> Option<i32> {
    let four = bytes.get(at..at + 4)?;
    Some(i32::from_be_bytes(four.try_into().ok()?))
}
