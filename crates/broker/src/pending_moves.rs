//! Which partitions are on their way to a log directory, in a file of that directory: `esker.moves`.
//!
//! Written whenever the list changes and read once, at the start, which goes on with those moves. Replaced atomically and
//! checksummed; no file means that nothing is on its way. One that is damaged is told and left out: the partitions stay where they
//! are, and whoever wants them elsewhere asks again. Does not say how far a move came.

use std::io::{self, IoSlice};
use std::path::Path;

use env::Disk;
use env::disk::Open;
use model::PartitionIndex;
use wire::Uuid;

const FILE_NAME: &str = "esker.moves";
const MAGIC: [u8; 8] = *b"ESKMOVE1";
const HEAD_BYTES: usize = 8 + 4;
const ROW_BYTES: usize = 16 + 4;
/// Two million partitions.
const FILE_BYTES_MAX: u64 = 40 << 20;

pub(crate) type Key = (Uuid, PartitionIndex);

/// Makes `wanted` the list of `dir`.
pub(crate) fn store(disk: &dyn Disk, dir: &Path, wanted: &[Key]) -> io::Result<()> {
    let path = dir.join(FILE_NAME);
    if wanted.is_empty() {
        match disk.remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        return disk.sync_dir(dir);
    }
    let temporary = dir.join("esker.moves.tmp");
    let file = disk.open(&temporary, Open::Truncate)?;
    file.write_at(&[IoSlice::new(&encode(wanted))], 0)?;
    file.sync_data()?;
    disk.rename(&temporary, &path)?;
    disk.sync_dir(dir)
}

/// The list of `dir`; an error of kind `InvalidData` when it is damaged.
pub(crate) fn load(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<Key>> {
    let file = match disk.open(&dir.join(FILE_NAME), Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let len = file.len()?;
    if len > FILE_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0)?;
    decode(&bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn encode(wanted: &[Key]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD_BYTES + wanted.len() * ROW_BYTES);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[0; 4]);
    for (topic, partition) in wanted {
        out.extend_from_slice(&topic.0);
        out.extend_from_slice(&partition.0.to_le_bytes());
    }
    let checksum = log::crc32c(&out[HEAD_BYTES..]);
    out[8..HEAD_BYTES].copy_from_slice(&checksum.to_le_bytes());
    out
}

fn decode(bytes: &[u8]) -> Option<Vec<Key>> {
    let (magic, rest) = bytes.split_first_chunk::<8>()?;
    let (checksum, rows) = rest.split_first_chunk::<4>()?;
    let (rows, torn) = rows.as_chunks::<ROW_BYTES>();
    let is_sound = *magic == MAGIC
        && torn.is_empty()
        && log::crc32c(rows.as_flattened()) == u32::from_le_bytes(*checksum);
    let key = |row: &[u8; ROW_BYTES]| {
        let (topic, partition) = row.split_first_chunk::<16>()?;
        let partition = i32::from_le_bytes(*partition.first_chunk()?);
        Some((Uuid(*topic), PartitionIndex(partition)))
    };
    is_sound.then(|| rows.iter().map(key).collect()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_byte_and_every_truncation_is_seen() {
        let wanted = [
            (Uuid([7; 16]), PartitionIndex(3)),
            (Uuid([9; 16]), PartitionIndex(0)),
        ];
        let bytes = encode(&wanted);
        assert_eq!(decode(&bytes).as_deref(), Some(&wanted[..]));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged), None, "flipped byte {at}");
            assert_eq!(decode(&bytes[..at]), None, "cut at {at}");
        }
    }
}
