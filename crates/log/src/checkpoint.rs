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
/// Of all versions, with the number of one behind it.
const MAGIC: [u8; 7] = *b"ESKCHKP";
/// The first version knew neither cuts nor replicas. One that reads only that takes this one for damaged, and refuses the directory
/// before it meets a cut in the journal.
const VERSION_FIRST: u8 = b'1';
const VERSION: u8 = b'2';
/// Written only once something tiers: a build that knows no tier opens a directory that never had one.
const VERSION_TIERED: u8 = b'3';
const HEAD_BYTES: usize = 48;
const ROW_BYTES: usize = 16 + 4 + 4 + 8 * 7;
const ROW_BYTES_TIERED: usize = ROW_BYTES + 8;
const ROW_BYTES_FIRST: usize = 16 + 4 + 4 + 8 * 4;
const LOST_BYTES: usize = 16 + 4 + 4 + 8 * 2;
/// 128 MiB of rows are two million partitions in one directory; a longer file is not a checkpoint.
const FILE_BYTES_MAX: u64 = 128 << 20;

/// One partition as the synced files hold it. Flags: 1 has files, 2 has producers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub topic: Uuid,
    pub partition: PartitionIndex,
    pub log_start: Offset,
    /// First offset of the files. Equal to the log start where nothing tiers.
    pub local_start: Offset,
    /// The tier has everything from the log start up to here, and can stand for files that are missing below; 0 where nothing tiers.
    pub restart_point: Offset,
    /// Known to be committed; never more than is.
    pub committed: Offset,
    /// Where the log began anew last; 0 if it never did.
    pub restarted_at: Offset,
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

/// Which version wrote a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Replaced before anything is written that it has no place for.
    First,
    /// With or without a tier.
    Current,
}

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("checkpoint is damaged")]
    Damaged,
    #[error("checkpoint is of a later version")]
    Newer,
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
        let loaded = Checkpoint::load_versioned(disk, dir)?;
        Ok(loaded.map(|(checkpoint, _)| checkpoint))
    }

    /// The same, with the version that wrote it.
    pub fn load_versioned(
        disk: &dyn Disk,
        dir: &Path,
    ) -> Result<Option<(Checkpoint, Version)>, LoadError> {
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
        let version = bytes.strip_prefix(&MAGIC).and_then(|rest| rest.first());
        if version.is_some_and(|version| VERSION_TIERED < *version && version.is_ascii_digit()) {
            return Err(LoadError::Newer);
        }
        Checkpoint::decode(&bytes)
            .map(Some)
            .ok_or(LoadError::Damaged)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(
            HEAD_BYTES + self.rows.len() * ROW_BYTES_TIERED + self.lost.len() * LOST_BYTES,
        );
        let tiers = (self.rows.iter()).any(|row| Offset::ZERO < row.restart_point);
        out.extend_from_slice(&MAGIC);
        out.push(if tiers { VERSION_TIERED } else { VERSION });
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
                row.local_start.0 as u64,
                row.committed.0 as u64,
                row.restarted_at.0 as u64,
            ] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            if tiers {
                out.extend_from_slice(&row.restart_point.0.to_le_bytes());
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

    fn decode(bytes: &[u8]) -> Option<(Checkpoint, Version)> {
        let mut fields = Fields(bytes);
        if fields.take::<7>()? != MAGIC {
            return None;
        }
        let (version, row_bytes) = match fields.take::<1>()? {
            [VERSION_FIRST] => (Version::First, ROW_BYTES_FIRST),
            [VERSION] => (Version::Current, ROW_BYTES),
            [VERSION_TIERED] => (Version::Current, ROW_BYTES_TIERED),
            _ => return None,
        };
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
        if count > (fields.0.len() / row_bytes) as u64 {
            return None;
        }
        for _ in 0..count {
            let topic = Uuid(fields.take()?);
            let partition = PartitionIndex(fields.u32()? as i32);
            let flags = fields.u32()?;
            let log_start = fields.offset()?;
            let log_end = fields.offset()?;
            let active_base = fields.offset()?;
            let active_len = Position(fields.u64()?);
            // Before there were other replicas nothing said what was committed: too little is safe.
            let [local_start, committed, restarted_at] = match version {
                Version::First => [log_start, log_start, Offset::ZERO],
                Version::Current => [fields.offset()?, fields.offset()?, fields.offset()?],
            };
            let restart_point = match row_bytes {
                ROW_BYTES_TIERED => fields.offset()?,
                _ => Offset::ZERO,
            };
            checkpoint.rows.push(Row {
                topic,
                partition,
                log_start,
                local_start,
                restart_point,
                committed,
                restarted_at,
                log_end,
                active_base,
                active_len,
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
        Some((checkpoint, version))
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

    fn offset(&mut self) -> Option<Offset> {
        self.take().map(i64::from_le_bytes).map(Offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(restart_point: Offset) -> Row {
        Row {
            topic: Uuid([7; 16]),
            partition: PartitionIndex(3),
            log_start: Offset(5),
            local_start: Offset(6),
            restart_point,
            committed: Offset(8),
            restarted_at: Offset(2),
            log_end: Offset(9),
            active_base: Offset(5),
            active_len: Position(300),
            has_files: true,
            has_producers: false,
        }
    }

    fn checkpoint(rows: Vec<Row>) -> Checkpoint {
        let lost = Lost {
            topic: rows[0].topic,
            partition: rows[0].partition,
            from: Offset(6),
            to: Offset(8),
        };
        Checkpoint {
            sequence: 12,
            checksum: 34,
            piece: 2,
            rows,
            lost: vec![lost; 2],
        }
    }

    #[test]
    fn every_flipped_byte_and_every_truncation_is_seen() {
        for restart_point in [Offset(0), Offset(7)] {
            damage_each_byte(checkpoint(vec![row(restart_point), row(Offset(0))]));
        }
    }

    #[test]
    fn only_a_directory_that_tiers_is_of_the_later_version() {
        let version = |rows| checkpoint(rows).encode()[7];
        assert_eq!(version(vec![row(Offset(0)); 2]), VERSION);
        assert_eq!(
            version(vec![row(Offset(0)), row(Offset(7))]),
            VERSION_TIERED
        );
    }

    fn damage_each_byte(checkpoint: Checkpoint) {
        let bytes = checkpoint.encode();
        let whole = Some((checkpoint, Version::Current));
        assert_eq!(Checkpoint::decode(&bytes), whole);
        for at in (0..bytes.len()).filter(|at| !(12..16).contains(at)) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(Checkpoint::decode(&damaged), None, "flipped byte {at}");
            assert_eq!(Checkpoint::decode(&bytes[..at]), None, "cut at {at}");
        }
    }

    /// As version 0.1.0 wrote it: one row with files, one lost range.
    #[test]
    fn first_version_is_read_and_says_nothing_of_what_is_committed() {
        let mut out = Vec::new();
        out.extend_from_slice(b"ESKCHKP1");
        out.extend_from_slice(&[0; 8]);
        for number in [12u64, 34, 2, 1] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&[7; 16]);
        out.extend_from_slice(&3u32.to_le_bytes());
        out.extend_from_slice(&1u32.to_le_bytes());
        for number in [5u64, 9, 5, 300] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let checksum = crate::crc32c(&out[16..]);
        out[8..12].copy_from_slice(&checksum.to_le_bytes());
        let (read, version) = Checkpoint::decode(&out).unwrap();
        let row = read.rows[0];
        assert_eq!(version, Version::First);
        assert_eq!((row.log_start, row.log_end), (Offset(5), Offset(9)));
        assert_eq!(
            [row.local_start, row.committed, row.restarted_at],
            [Offset(5), Offset(5), Offset(0)]
        );
        assert_ne!(read.encode()[..8], out[..8], "it is written anew");
    }
}
