//! The life of the broker in a file of each log directory: the epoch of its last registration (KIP-966), and its incarnation.
//!
//! A broker that registers says with it that it lost nothing since: it was let in with that epoch, and every directory that it registered
//! still knows it. Where one of them is missing, the others speak for the replicas in them alone. One that is not as new as the others is a
//! copy from before; one that was not registered, because it had failed, has nothing that counts since. A file that is missing or damaged
//! is no claim, and a wrong one is never made: the controller compares it with what it knows.
//!
//! The incarnation is durable before the broker asks to be registered. A crash between the registration and the writing of its epoch
//! leaves a broker that knows itself by its incarnation alone; one before the registration leaves the epoch before.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use env::Disk;
use env::disk::Open;
use wire::Uuid;

use super::vote_file::write;

const NAME: &str = "esker.epoch";
const NO_EPOCH: i64 = -1;
/// "ESKLIVES", the epoch, the incarnation, how many directories each of the two was registered with, these, and a CRC-32C of all that;
/// big endian.
const MAGIC: [u8; 8] = *b"ESKLIVES";
const HEAD_BYTES: usize = 8 + 8 + 16 + 2 + 2;
/// The forms of before: "ESKLIFE\0", the epoch, the incarnation, and "ESKEPOCH", the epoch; with a CRC-32C each.
const PLAIN_MAGIC: [u8; 8] = *b"ESKLIFE\0";
const PLAIN_BYTES: usize = 8 + 8 + 16 + 4;
const OLD_MAGIC: [u8; 8] = *b"ESKEPOCH";
const OLD_BYTES: usize = 8 + 8 + 4;
/// More directories than any broker has.
const BYTES_MAX: u64 = 64 << 10;

/// A life of the broker; each part is there where it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Life {
    /// Of the newest registration that the broker heard of, in this life or an earlier one.
    pub(crate) epoch: Option<i64>,
    /// Of the newest run that was about to register.
    pub(crate) incarnation: Option<Uuid>,
}

/// Part of a life, with the directories that were registered in it; none where the file does not say which: all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part<T> {
    pub(crate) value: T,
    pub(crate) dirs: Vec<Uuid>,
}

/// The contents of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) epoch: Option<Part<i64>>,
    pub(crate) incarnation: Option<Part<Uuid>>,
}

/// The findings of a start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Before {
    /// The life of which nothing is lost.
    pub(crate) life: Life,
    /// The newest epoch that the directories agree in which are open: to be kept until there is a newer one, for a start with all of them.
    pub(crate) epoch: Option<Part<i64>>,
    /// Where directories of a life are missing, the life that each open one of it knows: its own replicas lost nothing since.
    pub(crate) apart: BTreeMap<Uuid, Life>,
}

/// A part on which all open directories agree that were registered with it, and whether these are all there were.
struct Agreed<T> {
    part: Part<T>,
    is_complete: bool,
}

/// The life that all directories know which were registered in it. `dirs` are those that are open; with `has_failed` there are others.
pub(crate) fn load(disk: &dyn Disk, dirs: &[(Uuid, &Path)], has_failed: bool) -> Before {
    let files: Vec<(Uuid, Known)> = (dirs.iter())
        .map(|(id, path)| (*id, load_one(disk, path).unwrap_or_default()))
        .collect();
    let mut epochs = agreed(&files, has_failed, |known| known.epoch.as_ref());
    epochs.sort_by_key(|agreed| agreed.part.value);
    let newest = epochs.pop();
    let incarnations = agreed(&files, has_failed, |known| known.incarnation.as_ref());
    let complete = incarnations.iter().find(|agreed| agreed.is_complete);
    let mut apart: BTreeMap<Uuid, Life> = BTreeMap::new();
    let is_open = |id: &&Uuid| dirs.iter().any(|(open, _)| open == *id);
    let partial = incarnations.iter().filter(|agreed| !agreed.is_complete);
    for Part { value, dirs } in partial.map(|agreed| &agreed.part) {
        for id in dirs.iter().filter(is_open) {
            apart.entry(*id).or_default().incarnation = Some(*value);
        }
    }
    let partial = epochs
        .iter()
        .chain(&newest)
        .filter(|agreed| !agreed.is_complete);
    for Part { value, dirs } in partial.map(|agreed| &agreed.part) {
        for id in dirs.iter().filter(is_open) {
            apart.entry(*id).or_default().epoch = Some(*value);
        }
    }
    Before {
        life: Life {
            epoch: (newest.as_ref())
                .filter(|newest| newest.is_complete)
                .map(|newest| newest.part.value),
            incarnation: complete.map(|agreed| agreed.part.value),
        },
        epoch: newest.map(|newest| newest.part),
        apart,
    }
}

fn agreed<T: Copy + PartialEq>(
    files: &[(Uuid, Known)],
    has_failed: bool,
    part_of: impl Fn(&Known) -> Option<&Part<T>>,
) -> Vec<Agreed<T>> {
    let candidates = files.iter().filter_map(|(_, known)| part_of(known));
    let agreed = candidates.filter_map(|part| {
        let is_of_all = part.dirs.is_empty();
        let is_meant = |id: &Uuid| is_of_all || part.dirs.contains(id);
        let mut meant = files.iter().filter(|(id, _)| is_meant(id));
        if !meant.all(|(_, known)| part_of(known).is_some_and(|other| other.value == part.value)) {
            return None;
        }
        let is_open = |id: &Uuid| files.iter().any(|(known, _)| known == id);
        let dirs = if is_of_all {
            files.iter().map(|(id, _)| *id).collect()
        } else {
            part.dirs.clone()
        };
        (!(is_of_all && has_failed)).then(|| Agreed {
            is_complete: dirs.iter().all(is_open),
            part: Part {
                value: part.value,
                dirs,
            },
        })
    });
    agreed.collect()
}

fn load_one(disk: &dyn Disk, dir: &Path) -> Option<Known> {
    let path = dir.join(NAME);
    if !disk.exists(&path).ok()? {
        return None;
    }
    let file = disk.open(&path, Open::Read).ok()?;
    let len = file.len().ok().filter(|len| *len <= BYTES_MAX)?;
    let mut bytes = vec![0; usize::try_from(len).ok()?];
    file.read_exact_at(&mut bytes, 0).ok()?;
    decode(&bytes)
}

fn decode(bytes: &[u8]) -> Option<Known> {
    let (head, sum) = bytes.split_last_chunk::<4>()?;
    let (magic, rest) = head.split_first_chunk::<8>()?;
    let (epoch, rest) = rest.split_first_chunk::<8>()?;
    if u32::from_be_bytes(*sum) != log::crc32c(head) {
        return None;
    }
    let epoch = i64::from_be_bytes(*epoch);
    let epoch = (epoch != NO_EPOCH).then_some(epoch);
    let of_all = |value| Part {
        value,
        dirs: Vec::new(),
    };
    match *magic {
        OLD_MAGIC if bytes.len() == OLD_BYTES => Some(Known {
            epoch: epoch.map(of_all),
            incarnation: None,
        }),
        PLAIN_MAGIC if bytes.len() == PLAIN_BYTES => Some(Known {
            epoch: epoch.map(of_all),
            incarnation: rest.first_chunk::<16>().map(|bytes| Part {
                value: Uuid(*bytes),
                dirs: Vec::new(),
            }),
        }),
        MAGIC => {
            let (incarnation, rest) = rest.split_first_chunk::<16>()?;
            let (first, rest) = rest.split_first_chunk::<2>()?;
            let (second, rest) = rest.split_first_chunk::<2>()?;
            let [first, second] =
                [first, second].map(|count| usize::from(u16::from_be_bytes(*count)));
            let (ids, []) = rest.as_chunks::<16>() else {
                return None;
            };
            if ids.len() != first + second {
                return None;
            }
            let mut ids = ids.iter().map(|bytes| Uuid(*bytes));
            let dirs: Vec<Uuid> = ids.by_ref().take(first).collect();
            Some(Known {
                // A life without a directory is none.
                epoch: epoch
                    .filter(|_| first > 0)
                    .map(|value| Part { value, dirs }),
                incarnation: (second > 0).then(|| Part {
                    value: Uuid(*incarnation),
                    dirs: ids.collect(),
                }),
            })
        }
        _ => None,
    }
}

/// Writes the life durably.
pub(super) fn store(disk: &dyn Disk, dir: &Path, known: &Known) -> io::Result<()> {
    let epoch = known.epoch.as_ref();
    let incarnation = known.incarnation.as_ref();
    let dirs = [
        epoch.map(|part| &part.dirs[..]).unwrap_or_default(),
        incarnation.map(|part| &part.dirs[..]).unwrap_or_default(),
    ];
    let mut bytes = Vec::with_capacity(HEAD_BYTES);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&epoch.map_or(NO_EPOCH, |part| part.value).to_be_bytes());
    bytes.extend_from_slice(&incarnation.map_or(Uuid::ZERO, |part| part.value).0);
    for dirs in dirs {
        let count = u16::try_from(dirs.len()).unwrap_or(u16::MAX);
        bytes.extend_from_slice(&count.to_be_bytes());
    }
    for dir in dirs.into_iter().flatten() {
        bytes.extend_from_slice(&dir.0);
    }
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

    const DIRS: [&str; 2] = ["/a", "/b"];

    fn id(at: usize) -> Uuid {
        Uuid([at as u8 + 100; 16])
    }

    fn machine() -> Machine {
        let machine = Machine::new(1, Faults::default());
        for dir in DIRS {
            let made = machine.env().disk.create_dir_all(Path::new(dir));
            made.expect("a new directory");
        }
        machine
    }

    fn load_of(machine: &Machine, open: &[usize]) -> Before {
        let dirs: Vec<(Uuid, &Path)> = (open.iter())
            .map(|at| (id(*at), Path::new(DIRS[*at])))
            .collect();
        load(&*machine.env().disk, &dirs, open.len() < DIRS.len())
    }

    /// An epoch and an incarnation, both registered with these directories.
    fn known(epoch: Option<i64>, incarnation: u8, dirs: &[usize]) -> Known {
        let dirs: Vec<Uuid> = dirs.iter().map(|at| id(*at)).collect();
        Known {
            epoch: epoch.map(|value| Part {
                value,
                dirs: dirs.clone(),
            }),
            incarnation: Some(Part {
                value: Uuid([incarnation; 16]),
                dirs,
            }),
        }
    }

    fn life(epoch: Option<i64>, incarnation: Option<u8>) -> Life {
        let incarnation = incarnation.map(|byte| Uuid([byte; 16]));
        Life { epoch, incarnation }
    }

    fn put(machine: &Machine, at: usize, known: &Known) {
        let stored = store(&*machine.env().disk, Path::new(DIRS[at]), known);
        stored.expect("a disk that works");
    }

    #[test]
    fn a_life_is_believed_where_every_directory_has_it_whole() {
        let machine = machine();
        let both = |epoch, incarnation| known(Some(epoch), incarnation, &[0, 1]);
        let loaded = || load_of(&machine, &[0, 1]).life;
        let none = Life::default();
        assert_eq!(loaded(), none);
        put(&machine, 0, &both(7, 1));
        assert_eq!(loaded(), none, "the other has none");
        put(&machine, 1, &both(8, 2));
        assert_eq!(loaded(), none, "the first is a copy from before");
        put(&machine, 0, &both(7, 2));
        let all_asked = life(None, Some(2));
        assert_eq!(
            loaded(),
            all_asked,
            "a crash before the second had the new epoch"
        );
        put(&machine, 0, &both(8, 3));
        let asked_only = life(Some(8), None);
        assert_eq!(
            loaded(),
            asked_only,
            "a crash before all had the new incarnation"
        );
        put(&machine, 1, &both(8, 3));
        assert_eq!(loaded(), life(Some(8), Some(3)));
        let disk = machine.env().disk;
        let path = Path::new(DIRS[0]).join(NAME);
        let len = disk.open(&path, Open::Read).and_then(|file| file.len());
        for at in 0..len.expect("it is there") {
            let file = disk.open(&path, Open::Write).expect("it is there");
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).expect("it is there");
            let flipped = [byte[0] ^ 1];
            file.write_at(&[io::IoSlice::new(&flipped)], at)
                .expect("a disk that works");
            assert_eq!(loaded(), none, "byte {at} is wrong");
            file.write_at(&[io::IoSlice::new(&byte)], at)
                .expect("a disk that works");
        }
        assert_eq!(loaded(), life(Some(8), Some(3)));
        forget(&*disk, Path::new(DIRS[1])).expect("a disk that works");
        assert_eq!(loaded(), none);
    }

    /// A start without one directory, whose disk failed for a moment, and one with it.
    #[test]
    fn a_directory_that_was_away_for_a_life_takes_nothing_from_the_claim() {
        let machine = machine();
        for at in 0..2 {
            put(&machine, at, &known(Some(7), 1, &[0, 1]));
        }
        let alone = load_of(&machine, &[1]);
        assert_eq!(alone.life, Life::default(), "one that counts is away");
        assert_eq!(alone.epoch, known(Some(7), 1, &[0, 1]).epoch);
        let its_own = |life| BTreeMap::from([(id(1), life)]);
        assert_eq!(alone.apart, its_own(life(Some(7), Some(1))));
        // It was about to register, and never did: the life before is the last that counts.
        let announced = Known {
            epoch: alone.epoch,
            ..known(None, 2, &[1])
        };
        put(&machine, 1, &announced);
        assert_eq!(load_of(&machine, &[0, 1]).life, life(Some(7), Some(2)));
        let alone = load_of(&machine, &[1]);
        assert_eq!(alone.life, life(None, Some(2)));
        assert_eq!(alone.apart, its_own(life(Some(7), None)));
        // It did: what is in the other counts for nothing since.
        put(&machine, 1, &known(Some(9), 2, &[1]));
        assert_eq!(load_of(&machine, &[0, 1]).life, life(Some(9), Some(2)));
        assert_eq!(load_of(&machine, &[1]).life, life(Some(9), Some(2)));
        // The one that was in that life is a copy from before, or away.
        put(&machine, 1, &known(Some(7), 1, &[0, 1]));
        let both = load_of(&machine, &[0, 1]);
        assert_eq!(both.life, life(Some(7), Some(1)));
        assert_eq!(both.apart, BTreeMap::new(), "the whole claim says it");
        assert_eq!(load_of(&machine, &[0]).life, Life::default());
        // Of two that are open one is a copy from before: neither speaks for itself.
        put(&machine, 0, &known(Some(6), 1, &[0, 1]));
        assert_eq!(load_of(&machine, &[0, 1]).apart, BTreeMap::new());
    }

    #[test]
    fn the_files_of_before_are_claims_of_all_directories() {
        let machine = machine();
        let disk = machine.env().disk;
        let put = |at: usize, head: &[&[u8]]| {
            let mut bytes = head.concat();
            bytes.extend_from_slice(&log::crc32c(&bytes).to_be_bytes());
            write(&*disk, Path::new(DIRS[at]), NAME, &bytes).expect("a disk that works");
        };
        let epoch = 7_i64.to_be_bytes();
        put(0, &[&PLAIN_MAGIC, &epoch, &[3; 16]]);
        assert_eq!(load_of(&machine, &[0, 1]).life, Life::default());
        put(1, &[&OLD_MAGIC, &epoch]);
        assert_eq!(load_of(&machine, &[0, 1]).life, life(Some(7), None));
        put(1, &[&PLAIN_MAGIC, &epoch, &[3; 16]]);
        assert_eq!(load_of(&machine, &[0, 1]).life, life(Some(7), Some(3)));
        assert_eq!(load_of(&machine, &[0]), Before::default(), "one is away");
    }
}
