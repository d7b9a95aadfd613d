//! The life of the broker in a file of each log directory: the epoch of its last registration (KIP-966), and its incarnation.
//!
//! A broker that registers says with it that it lost nothing since: it was let in with that epoch, and every directory still knows it.
//! One that is not as new as the others is a copy from before. A file that is missing or damaged is no claim, and a wrong one is never
//! made: the controller compares it with what it knows.
//!
//! The incarnation is durable before the broker asks to be registered. A crash between the registration and the writing of its epoch
//! leaves a broker that knows itself by its incarnation alone.

use std::io;
use std::path::Path;

use env::Disk;
use env::disk::Open;
use wire::Uuid;

use super::vote_file::write;

const NAME: &str = "esker.epoch";
const NO_EPOCH: i64 = -1;
/// "ESKLIFE\0", the epoch, the incarnation, and their CRC-32C; big endian.
const MAGIC: [u8; 8] = *b"ESKLIFE\0";
const BYTES: usize = 8 + 8 + 16 + 4;
/// The form of before: "ESKEPOCH", the epoch, and their CRC-32C.
const OLD_MAGIC: [u8; 8] = *b"ESKEPOCH";
const OLD_BYTES: usize = 8 + 8 + 4;

/// A life of the broker; each part is there where it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Life {
    /// Of the newest registration that the broker heard of, in this life or an earlier one.
    pub(crate) epoch: Option<i64>,
    /// Of the newest run that was about to register.
    pub(crate) incarnation: Option<Uuid>,
}

impl Life {
    /// The parts in which two directories agree.
    fn common(self, other: Life) -> Life {
        Life {
            epoch: self.epoch.filter(|_| self.epoch == other.epoch),
            incarnation: (self.incarnation).filter(|_| self.incarnation == other.incarnation),
        }
    }
}

/// The life that all directories know, in the parts in which they agree.
pub(crate) fn load<'a>(disk: &dyn Disk, dirs: impl Iterator<Item = &'a Path>) -> Life {
    let lives = dirs.map(|dir| load_one(disk, dir).unwrap_or_default());
    lives.reduce(Life::common).unwrap_or_default()
}

fn load_one(disk: &dyn Disk, dir: &Path) -> Option<Life> {
    let path = dir.join(NAME);
    if !disk.exists(&path).ok()? {
        return None;
    }
    let file = disk.open(&path, Open::Read).ok()?;
    let len = usize::try_from(file.len().ok()?).ok()?;
    if len != BYTES && len != OLD_BYTES {
        return None;
    }
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let (head, sum) = bytes.split_last_chunk::<4>()?;
    let (magic, rest) = head.split_first_chunk::<8>()?;
    let (epoch, rest) = rest.split_first_chunk::<8>()?;
    let incarnation = rest.first_chunk::<16>().map(|bytes| Uuid(*bytes));
    let expected = if incarnation.is_some() {
        MAGIC
    } else {
        OLD_MAGIC
    };
    let is_whole = *magic == expected && u32::from_be_bytes(*sum) == log::crc32c(head);
    let epoch = i64::from_be_bytes(*epoch);
    is_whole.then_some(Life {
        epoch: (epoch != NO_EPOCH).then_some(epoch),
        incarnation,
    })
}

/// Writes the life durably.
pub(super) fn store(disk: &dyn Disk, dir: &Path, life: Life) -> io::Result<()> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&life.epoch.unwrap_or(NO_EPOCH).to_be_bytes());
    bytes.extend_from_slice(&life.incarnation.unwrap_or(Uuid::ZERO).0);
    let sum = log::crc32c(&bytes);
    bytes.extend_from_slice(&sum.to_be_bytes());
    write(disk, dir, NAME, &bytes)
}

/// What the directory had is given up in part: its broker claims nothing any more.
pub(crate) fn forget(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    let path = dir.join(NAME);
    if disk.exists(&path)? {
        disk.remove_file(&path)?;
        disk.sync_dir(dir)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use env::sim::{Faults, Machine};

    use super::*;

    #[test]
    fn a_life_is_believed_where_every_directory_has_it_whole() {
        let machine = Machine::new(1, Faults::default());
        let disk = machine.env().disk;
        let dirs = [Path::new("/a"), Path::new("/b")];
        for dir in dirs {
            disk.create_dir_all(dir).expect("a new directory");
        }
        let load = || super::load(&*disk, dirs.into_iter());
        let life = |epoch, incarnation| Life {
            epoch,
            incarnation: Some(Uuid([incarnation; 16])),
        };
        let none = Life::default();
        assert_eq!(load(), none);
        store(&*disk, dirs[0], life(Some(7), 1)).expect("a disk that works");
        assert_eq!(load(), none, "the other has none");
        store(&*disk, dirs[1], life(Some(8), 2)).expect("a disk that works");
        assert_eq!(load(), none, "the first is a copy from before");
        store(&*disk, dirs[0], life(Some(7), 2)).expect("a disk that works");
        assert_eq!(
            load(),
            life(None, 2),
            "a crash before the second had the new epoch"
        );
        store(&*disk, dirs[0], life(Some(8), 3)).expect("a disk that works");
        let asked_only = Life {
            epoch: Some(8),
            incarnation: None,
        };
        assert_eq!(
            load(),
            asked_only,
            "a crash before all had the new incarnation"
        );
        store(&*disk, dirs[1], life(Some(8), 3)).expect("a disk that works");
        assert_eq!(load(), life(Some(8), 3));
        for at in 0..BYTES as u64 {
            let file = disk
                .open(&dirs[0].join(NAME), Open::Write)
                .expect("it is there");
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).expect("it is there");
            let flipped = [byte[0] ^ 1];
            file.write_at(&[io::IoSlice::new(&flipped)], at)
                .expect("a disk that works");
            assert_eq!(load(), none, "byte {at} is wrong");
            file.write_at(&[io::IoSlice::new(&byte)], at)
                .expect("a disk that works");
        }
        assert_eq!(load(), life(Some(8), 3));
        forget(&*disk, dirs[1]).expect("a disk that works");
        assert_eq!(load(), none);
    }

    #[test]
    fn the_file_of_before_is_an_epoch() {
        let machine = Machine::new(1, Faults::default());
        let disk = machine.env().disk;
        let dir = Path::new("/a");
        disk.create_dir_all(dir).expect("a new directory");
        let mut bytes = OLD_MAGIC.to_vec();
        bytes.extend_from_slice(&7_i64.to_be_bytes());
        bytes.extend_from_slice(&log::crc32c(&bytes).to_be_bytes());
        write(&*disk, dir, NAME, &bytes).expect("a disk that works");
        let known = Life {
            epoch: Some(7),
            incarnation: None,
        };
        assert_eq!(load(&*disk, [dir].into_iter()), known);
    }
}
