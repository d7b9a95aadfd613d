//! The epoch of the broker's last registration, in a file of each log directory (KIP-966).
//!
//! A broker that registers says with it that it lost nothing since: it was let in with that epoch, and every directory still knows it.
//! One that is not as new as the others is a copy from before. A file that is missing or damaged is no claim, and a wrong one is never
//! made: the controller compares it with the epoch that it gave.

use std::io;
use std::path::Path;

use env::Disk;
use env::disk::Open;

use super::vote_file::write;

const NAME: &str = "esker.epoch";
/// "ESKEPOCH", the epoch, and their CRC-32C; big endian.
const MAGIC: [u8; 8] = *b"ESKEPOCH";
const BYTES: usize = 8 + 8 + 4;

/// The epoch that all directories know, if they do.
pub(crate) fn load<'a>(disk: &dyn Disk, dirs: impl Iterator<Item = &'a Path>) -> Option<i64> {
    let mut common = None;
    for dir in dirs {
        let own = load_one(disk, dir)?;
        if *common.get_or_insert(own) != own {
            return None;
        }
    }
    common
}

fn load_one(disk: &dyn Disk, dir: &Path) -> Option<i64> {
    let path = dir.join(NAME);
    if !disk.exists(&path).ok()? {
        return None;
    }
    let file = disk.open(&path, Open::Read).ok()?;
    if file.len().ok()? != BYTES as u64 {
        return None;
    }
    let mut bytes = [0; BYTES];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let (head, sum) = bytes.split_last_chunk::<4>()?;
    let (magic, epoch) = head.split_first_chunk::<8>()?;
    let is_whole = *magic == MAGIC && u32::from_be_bytes(*sum) == log::crc32c(head);
    is_whole.then_some(i64::from_be_bytes(*epoch.first_chunk()?))
}

/// Writes the epoch durably.
pub(super) fn store(disk: &dyn Disk, dir: &Path, epoch: i64) -> io::Result<()> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&epoch.to_be_bytes());
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
    fn an_epoch_is_believed_where_every_directory_has_it_whole() {
        let machine = Machine::new(1, Faults::default());
        let disk = machine.env().disk;
        let dirs = [Path::new("/a"), Path::new("/b")];
        for dir in dirs {
            disk.create_dir_all(dir).expect("a new directory");
        }
        let load = || super::load(&*disk, dirs.into_iter());
        assert_eq!(load(), None);
        store(&*disk, dirs[0], 7).expect("a disk that works");
        assert_eq!(load(), None, "the other has none");
        store(&*disk, dirs[1], 8).expect("a disk that works");
        assert_eq!(load(), None, "the first is a copy from before");
        store(&*disk, dirs[0], 8).expect("a disk that works");
        assert_eq!(load(), Some(8));
        for at in 0..BYTES as u64 {
            let file = disk
                .open(&dirs[0].join(NAME), Open::Write)
                .expect("it is there");
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).expect("it is there");
            let flipped = [byte[0] ^ 1];
            file.write_at(&[io::IoSlice::new(&flipped)], at)
                .expect("a disk that works");
            assert_eq!(load(), None, "byte {at} is wrong");
            file.write_at(&[io::IoSlice::new(&byte)], at)
                .expect("a disk that works");
        }
        assert_eq!(load(), Some(8));
        forget(&*disk, dirs[1]).expect("a disk that works");
        assert_eq!(load(), None);
    }
}
