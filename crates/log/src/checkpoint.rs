//! The checkpoint of a log directory: up to which journal round the segment files alone hold everything.
//!
//! Owns the file `esker.checkpoint`: replaced atomically, checksummed, read at start before the journal. The rows let a
//! start trust the tails of segments without scanning them. Does not sync segments: that is done before it is written.

use std::io::{self, IoSlice};
use std::path::Path;

use env::Disk;
use env::disk::Open;
use model::{Offset, PartitionIndex, Position};
use wire::Uuid;

pub const FILE_NAME: &str = "esker.checkpoint";
const MAGIC: [u8; 8] = *b"ESKCHKP1";
const HEAD_BYTES: usize = 48;
const ROW_BYTES: usize = 16 + 4 + 4 + 8 * 4;
const LOST_BYTES: usize = 16 + 4 + 4 + 8 * 2;
/// 128 MiB of rows are two million partitions in one directory; a longer file is not a checkpoint.
const FILE_BYTES_MAX: u64 = 128 << 20;

/// One partition as the synced files hold it. Flags: 1 has files, 2 has producers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub topic: Uuid,
    pub partition: PartitionIndex,
    /// The local start as well, for as long as there is no tier.
    pub log_start: Offset,
    /// Next offset after the last one in synced segment files.
    pub log_end: Offset,
    pub active_base: Offset,
    pub active_len: Position,
    /// False for a partition that has a log start but no file yet.
    pub has_files: bool,
    /// A producer snapshot was taken at `log_end`.
    pub has_producers: bool,
}

/// Offsets `from..to` of a partition that were acknowledged and cannot be read any more: told for as long as the log spans
/// them, never skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    pub topic: Uuid,
    pub partition: PartitionIndex,
    pub from: Offset,
    pub to: Offset,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Journal rounds up to here need no replay.
    pub sequence: u64,
    pub checksum: u32,
    /// Number of the journal piece in use: a later one must be higher even if no piece file is left.
    pub piece: u64,
    pub rows: Vec<Row>,
    pub lost: Vec<Lost>,
}

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("checkpoint is damaged")]
    Damaged,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Checkpoint {
    pub fn store(&self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        let bytes = self.encode();
        let temporary = dir.join("esker.checkpoint.tmp");
        let file = disk.open(&temporary, Open::Truncate)?;
        file.write_at(&[IoSlice::new(&bytes)], 0)?;
        file.sync_data()?;
        disk.rename(&temporary, &dir.join(FILE_NAME))?;
        disk.sync_dir(dir)
    }

    /// `Ok(None)`: a directory that never had one.
    pub fn load(disk: &dyn Disk, dir: &Path) -> Result<Option<Checkpoint>, LoadError> {
        let path = dir.join(FILE_NAME);
        if !disk.exists(&path)? {
            return Ok(None);
        }
        let file = disk.open(&path, Open::Read)?;
        let len = file.len()?;
        if !(HEAD_BYTES as u64..=FILE_BYTES_MAX).contains(&len) {
            return Err(LoadError::Damaged);
        }
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Checkpoint::decode(&bytes)
            .map(Some)
            .ok_or(LoadError::Damaged)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(
            HEAD_BYTES + self.rows.len() * ROW_BYTES + self.lost.len() * LOST_BYTES,
        );
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&u64::from(self.checksum).to_le_bytes());
        out.extend_from_slice(&self.piece.to_le_bytes());
        out.extend_from_slice(&(self.rows.len() as u64).to_le_bytes());
        for row in &self.rows {
            out.extend_from_slice(&row.topic.0);
            out.extend_from_slice(&row.partition.0.to_le_bytes());
            let flags = u32::from(row.has_files) | u32::from(row.has_producers) << 1;
            out.extend_from_slice(&flags.to_le_bytes());
            for number in [
                row.log_start.0 as u64,
                row.log_end.0 as u64,
                row.active_base.0 as u64,
                row.active_len.0,
            ] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        for lost in &self.lost {
            out.extend_from_slice(&lost.topic.0);
            out.extend_from_slice(&lost.partition.0.to_le_bytes());
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(&lost.from.0.to_le_bytes());
            out.extend_from_slice(&lost.to.0.to_le_bytes());
        }
        let checksum = crate::crc32c(&out[16..]);
        out[8..12].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Checkpoint> {
        let mut fields = Fields(bytes);
        if fields.take::<8>()? != MAGIC {
            return None;
        }
        let checksum = fields.u32()?;
        fields.u32()?;
        if crate::crc32c(fields.0) != checksum {
            return None;
        }
        let mut checkpoint = Checkpoint {
            sequence: fields.u64()?,
            checksum: fields.u64()? as u32,
            piece: fields.u64()?,
            rows: Vec::new(),
            lost: Vec::new(),
        };
        let count = fields.u64()?;
        if count > (fields.0.len() / ROW_BYTES) as u64 {
            return None;
        }
        for _ in 0..count {
            let topic = Uuid(fields.take()?);
            let partition = PartitionIndex(fields.u32()? as i32);
            let flags = fields.u32()?;
            checkpoint.rows.push(Row {
                topic,
                partition,
                log_start: Offset(fields.u64()? as i64),
                log_end: Offset(fields.u64()? as i64),
                active_base: Offset(fields.u64()? as i64),
                active_len: Position(fields.u64()?),
                has_files: flags & 1 != 0,
                has_producers: flags & 2 != 0,
            });
        }
        while !fields.0.is_empty() {
            let topic = Uuid(fields.take()?);
            let partition = PartitionIndex(fields.u32()? as i32);
            fields.u32()?;
            checkpoint.lost.push(Lost {
                topic,
                partition,
                from: Offset(fields.u64()? as i64),
                to: Offset(fields.u64()? as i64),
            });
        }
        Some(checkpoint)
    }
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_byte_and_every_truncation_is_seen() {
        let row = Row {
            topic: Uuid([7; 16]),
            partition: PartitionIndex(3),
            log_start: Offset(5),
            log_end: Offset(9),
            active_base: Offset(5),
            active_len: Position(300),
            has_files: true,
            has_producers: false,
        };
        let checkpoint = Checkpoint {
            sequence: 12,
            checksum: 34,
            piece: 2,
            rows: vec![row; 3],
            lost: vec![
                Lost {
                    topic: row.topic,
                    partition: row.partition,
                    from: Offset(6),
                    to: Offset(8),
                };
                2
            ],
        };
        let bytes = checkpoint.encode();
        assert_eq!(Checkpoint::decode(&bytes), Some(checkpoint));
        for at in (0..bytes.len()).filter(|at| !(12..16).contains(at)) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(Checkpoint::decode(&damaged), None, "flipped byte {at}");
            assert_eq!(Checkpoint::decode(&bytes[..at]), None, "cut at {at}");
        }
    }
}
