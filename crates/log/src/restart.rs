//! Leader epochs and producers of records that the tier has: a log that restarts behind them keeps both in a file.
//!
//! Written and synced before the journal has the restart, and of no use once a checkpoint covers that.

use std::io;
use std::path::Path;

use env::Disk;
use env::disk::Open;
use model::Offset;

use crate::epochs::{Epochs, Syncing, replace_file};
use crate::producer::ProducerStates;

const MAGIC: [u8; 8] = *b"ESKRST\0\x01";
const HEAD_BYTES: usize = MAGIC.len() + 4 + 8;
/// 1 GiB, as much as a snapshot of producers may have.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// The knowledge of a log about records that it does not have.
#[derive(Clone, Debug, Default)]
pub struct Carried {
    /// Of all records below the restart.
    pub epochs: Epochs,
    /// As of the restart.
    pub producers: ProducerStates,
}

impl Carried {
    /// Where the log restarts.
    #[must_use]
    pub fn at(&self) -> Offset {
        self.producers.end()
    }

    /// Writes the file. Durable when this returns.
    pub fn write(&self, disk: &dyn Disk, dir: &Path, name: &str) -> io::Result<()> {
        replace_file(disk, dir, name, &self.encode(), Syncing::Now)
    }

    /// Reads the file of a restart at `at`; `None` if it is missing or does not verify.
    pub fn read(disk: &dyn Disk, path: &Path, at: Offset) -> io::Result<Option<Carried>> {
        let file = match disk.open(path, Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let len = file.len()?;
        if FILE_BYTES_MAX < len {
            return Ok(None);
        }
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(Carried::decode(&bytes, at))
    }

    fn encode(&self) -> Vec<u8> {
        let epochs = self.epochs.encode();
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(epochs.len() as u64).to_le_bytes());
        out.extend_from_slice(epochs.as_bytes());
        out.extend_from_slice(&self.producers.encode());
        let checksum = crate::crc32c(&out[MAGIC.len() + 4..]);
        out[MAGIC.len()..MAGIC.len() + 4].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8], at: Offset) -> Option<Carried> {
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
        let checksum = head.get(MAGIC.len()..MAGIC.len() + 4)?;
        let is_whole = head.starts_with(&MAGIC)
            && crate::crc32c(&bytes[MAGIC.len() + 4..]).to_le_bytes() == checksum;
        if !is_whole {
            return None;
        }
        let len = head.last_chunk().copied().map(u64::from_le_bytes)?;
        let (epochs, producers) = rest.split_at_checked(usize::try_from(len).ok()?)?;
        Some(Carried {
            epochs: Epochs::decode(std::str::from_utf8(epochs).ok()?)?,
            producers: ProducerStates::decode(producers, at).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use model::LeaderEpoch;

    use super::*;

    #[test]
    fn every_flipped_byte_and_every_truncation_is_seen() {
        let mut epochs = Epochs::default();
        epochs.assign(LeaderEpoch(3), Offset(0));
        epochs.assign(LeaderEpoch(5), Offset(40));
        let carried = Carried {
            epochs,
            producers: ProducerStates::new(Offset(90)),
        };
        let bytes = carried.encode();
        let read = Carried::decode(&bytes, Offset(90)).expect("it is whole");
        assert_eq!((read.at(), &read.epochs), (Offset(90), &carried.epochs));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(Carried::decode(&damaged, Offset(90)).is_none(), "{at}");
            assert!(Carried::decode(&bytes[..at], Offset(90)).is_none(), "{at}");
        }
    }
}
