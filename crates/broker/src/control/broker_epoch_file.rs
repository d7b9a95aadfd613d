//! The life of the broker in a file of each log directory: the epoch of its last registration (KIP-966), and its incarnations since.
//!
//! A broker that registers says with it that it lost nothing since: it was let in with that epoch, and every directory that it registered
//! still knows it. Where one of them is missing, the others speak for the replicas in them alone. One that is not as new as the others is a
//! copy from before; one that was not registered, because it had failed, has nothing that counts since. A file that is missing or damaged
//! is no claim, and a wrong one is never made: the controller compares it with what it knows.
//!
//! The incarnation is durable before the broker asks to be registered. A crash between the registration and the writing of its epoch
//! leaves a broker that knows itself by its incarnation alone; one before the registration leaves the lives before, of which any may be
//! the one that the controller knows.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use env::Disk;
use env::disk::Open;
use wire::Uuid;

use super::vote_file::write;

const NAME: &str = "esker.epoch";
const NO_EPOCH: i64 = -1;
/// "ESKLIVED", the epoch and the directories that it was registered with, the count of incarnations, each with its directories, and a
/// CRC-32C of all that; big endian, counts in two bytes.
const MAGIC: [u8; 8] = *b"ESKLIVED";
/// The forms of before: "ESKLIVES", the epoch, one incarnation, the count of directories of each, these; "ESKLIFE\0", the epoch, one
/// incarnation; "ESKEPOCH", the epoch; with a CRC-32C each.
const SINGLE_MAGIC: [u8; 8] = *b"ESKLIVES";
const PLAIN_MAGIC: [u8; 8] = *b"ESKLIFE\0";
const PLAIN_BYTES: usize = 8 + 8 + 16 + 4;
const OLD_MAGIC: [u8; 8] = *b"ESKEPOCH";
const OLD_BYTES: usize = 8 + 8 + 4;
/// More than those of any broker.
const BYTES_MAX: u64 = 1 << 20;
/// Runs that began without hearing of a registration of theirs; of more in a row the oldest are given up.
const INCARNATIONS_MAX: usize = 32;

/// Lives of the broker that the controller may know it by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Life {
    /// Of the newest registration that the broker heard of, in this life or an earlier one.
    pub(crate) epoch: Option<i64>,
    /// Of the runs since that were about to register, newest first.
    pub(crate) incarnations: Vec<Uuid>,
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
    /// Newest first.
    pub(crate) incarnations: Vec<Part<Uuid>>,
}

/// The findings of a start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Before {
    /// The lives since which nothing is lost.
    pub(crate) life: Life,
    /// The newest epoch that the directories agree in which are open, and the incarnations: to be kept until there is a newer epoch, for a
    /// start with all of them.
    pub(crate) known: Known,
    /// Where directories of a life are missing, the lives that each open one of them knows: its own replicas lost nothing since.
    pub(crate) apart: BTreeMap<Uuid, Life>,
}

/// A part on which all open directories agree that were registered with it, and whether these are all there were.
struct Agreed<T> {
    part: Part<T>,
    is_complete: bool,
}

/// The lives that all directories know which were registered in them. `dirs` are those that are open; with `has_failed` there are others.
pub(crate) fn load(disk: &dyn Disk, dirs: &[(Uuid, &Path)], has_failed: bool) -> Before {
    let files: Vec<(Uuid, Known)> = (dirs.iter())
        .map(|(id, path)| (*id, load_one(disk, path).unwrap_or_default()))
        .collect();
    let mut epochs = agreed(&files, has_failed, |known| known.epoch.as_slice());
    epochs.sort_by_key(|agreed| std::cmp::Reverse(agreed.part.value));
    epochs.truncate(1);
    let incarnations = agreed(&files, has_failed, |known| &known.incarnations);
    let mut before = Before::default();
    for Agreed { part, is_complete } in &epochs {
        let lives = before.lives_of(&part.dirs, *is_complete, dirs);
        lives.for_each(|life| life.epoch = Some(part.value));
    }
    for Agreed { part, is_complete } in &incarnations {
        let lives = before.lives_of(&part.dirs, *is_complete, dirs);
        lives.for_each(|life| life.incarnations.push(part.value));
    }
    before.known = Known {
        epoch: epochs.pop().map(|agreed| agreed.part),
        incarnations: incarnations.into_iter().map(|agreed| agreed.part).collect(),
    };
    before
}

impl Before {
    /// The lives that a part speaks for: all, where every directory of it is open, else those of it that are.
    fn lives_of(
        &mut self,
        of: &[Uuid],
        is_complete: bool,
        open: &[(Uuid, &Path)],
    ) -> impl Iterator<Item = &mut Life> {
        let is_open = |id: &Uuid| open.iter().any(|(open, _)| open == id);
        if !is_complete {
            for id in of.iter().filter(|id| is_open(id)) {
                self.apart.entry(*id).or_default();
            }
        }
        let apart = self.apart.iter_mut();
        let apart = apart.filter(move |(id, _)| !is_complete && of.contains(id));
        let all = is_complete.then_some(&mut self.life);
        all.into_iter().chain(apart.map(|(_, life)| life))
    }
}

impl Known {
    /// A run is about to register with `dirs`.
    pub(crate) fn announce(&mut self, incarnation: Uuid, dirs: &[Uuid]) {
        self.incarnations.insert(0, Part::new(incarnation, dirs));
        self.incarnations.truncate(INCARNATIONS_MAX);
    }

    /// That run was registered: the controller knows no other life.
    pub(crate) fn register(&mut self, epoch: i64, incarnation: Uuid, dirs: &[Uuid]) {
        self.epoch = Some(Part::new(epoch, dirs));
        self.incarnations = vec![Part::new(incarnation, dirs)];
    }
}

impl<T> Part<T> {
    fn new(value: T, dirs: &[Uuid]) -> Part<T> {
        let dirs = dirs.to_vec();
        Part { value, dirs }
    }
}

/// The parts that every open directory has which was registered with them, each once, in the order of the files that have most.
fn agreed<T: Copy + PartialEq>(
    files: &[(Uuid, Known)],
    has_failed: bool,
    parts_of: impl Fn(&Known) -> &[Part<T>],
) -> Vec<Agreed<T>> {
    let has = |known: &Known, value: T| parts_of(known).iter().any(|part| part.value == value);
    let is_open = |id: &Uuid| files.iter().any(|(open, _)| open == id);
    let mut lists: Vec<&[Part<T>]> = files.iter().map(|(_, known)| parts_of(known)).collect();
    lists.sort_by_key(|parts| std::cmp::Reverse(parts.len()));
    let mut agreed: Vec<Agreed<T>> = Vec::new();
    for part in lists.into_iter().flatten() {
        let is_of_all = part.dirs.is_empty();
        let is_meant = |id: &Uuid| is_of_all || part.dirs.contains(id);
        let mut meant = files.iter().filter(|(id, _)| is_meant(id));
        let is_seen = agreed.iter().any(|seen| seen.part.value == part.value);
        if is_seen || is_of_all && has_failed || !meant.all(|(_, known)| has(known, part.value)) {
            continue;
        }
        let part = Part {
            value: part.value,
            dirs: match is_of_all {
                true => files.iter().map(|(id, _)| *id).collect(),
                false => part.dirs.clone(),
            },
        };
        agreed.push(Agreed {
            is_complete: part.dirs.iter().all(is_open),
            part,
        });
    }
    agreed
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
    if u32::from_be_bytes(*sum) != log::crc32c(head) {
        return None;
    }
    let (magic, mut rest) = head.split_first_chunk::<8>()?;
    let epoch = i64::from_be_bytes(*take(&mut rest)?);
    let epoch = |dirs| (epoch != NO_EPOCH).then_some(Part { value: epoch, dirs });
    let known = match *magic {
        OLD_MAGIC if bytes.len() == OLD_BYTES => Known {
            epoch: epoch(Vec::new()),
            incarnations: Vec::new(),
        },
        PLAIN_MAGIC if bytes.len() == PLAIN_BYTES => Known {
            epoch: epoch(Vec::new()),
            incarnations: vec![Part::new(Uuid(*take(&mut rest)?), &[])],
        },
        SINGLE_MAGIC => {
            let value = Uuid(*take(&mut rest)?);
            let [first, second] = [count(&mut rest)?, count(&mut rest)?];
            let [of_epoch, dirs] = [ids(&mut rest, first)?, ids(&mut rest, second)?];
            let incarnation = (!dirs.is_empty()).then_some(Part { value, dirs });
            Known {
                // A life without a directory is none.
                epoch: epoch(of_epoch).filter(|part| !part.dirs.is_empty()),
                incarnations: incarnation.into_iter().collect(),
            }
        }
        MAGIC => {
            let dirs = count(&mut rest)?;
            let of_epoch = ids(&mut rest, dirs)?;
            let incarnations = (0..count(&mut rest)?).map(|_| {
                let value = Uuid(*take(&mut rest)?);
                let dirs = count(&mut rest)?;
                let dirs = ids(&mut rest, dirs)?;
                (!dirs.is_empty()).then_some(Part { value, dirs })
            });
            Known {
                incarnations: incarnations.collect::<Option<_>>()?,
                epoch: epoch(of_epoch).filter(|part| !part.dirs.is_empty()),
            }
        }
        _ => return None,
    };
    Some(known).filter(|_| rest.is_empty())
}

fn take<'a, const BYTES: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; BYTES]> {
    let (taken, after) = rest.split_first_chunk::<BYTES>()?;
    *rest = after;
    Some(taken)
}

fn count(rest: &mut &[u8]) -> Option<usize> {
    take(rest).map(|count| usize::from(u16::from_be_bytes(*count)))
}

fn ids(rest: &mut &[u8], count: usize) -> Option<Vec<Uuid>> {
    (0..count).map(|_| take(rest).map(|id| Uuid(*id))).collect()
}

/// Writes the life durably.
pub(crate) fn store(disk: &dyn Disk, dir: &Path, known: &Known) -> io::Result<()> {
    let mut bytes = Vec::new();
    let put_count = |bytes: &mut Vec<u8>, count: usize| {
        let count = u16::try_from(count).unwrap_or(u16::MAX);
        bytes.extend_from_slice(&count.to_be_bytes());
    };
    let put_dirs = |bytes: &mut Vec<u8>, dirs: &[Uuid]| {
        put_count(bytes, dirs.len());
        dirs.iter().for_each(|dir| bytes.extend_from_slice(&dir.0));
    };
    bytes.extend_from_slice(&MAGIC);
    let epoch = known.epoch.as_ref();
    bytes.extend_from_slice(&epoch.map_or(NO_EPOCH, |part| part.value).to_be_bytes());
    put_dirs(&mut bytes, epoch.map_or(&[], |part| &part.dirs));
    put_count(&mut bytes, known.incarnations.len());
    for part in &known.incarnations {
        bytes.extend_from_slice(&part.value.0);
        put_dirs(&mut bytes, &part.dirs);
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

    fn incarnation(byte: u8) -> Uuid {
        Uuid([byte; 16])
    }

    /// An epoch and an incarnation, both registered with these directories.
    fn known(epoch: i64, byte: u8, dirs: &[usize]) -> Known {
        let dirs: Vec<Uuid> = dirs.iter().map(|at| id(*at)).collect();
        let mut known = Known::default();
        known.register(epoch, incarnation(byte), &dirs);
        known
    }

    fn life(epoch: Option<i64>, incarnations: &[u8]) -> Life {
        let incarnations = incarnations.iter().map(|byte| incarnation(*byte)).collect();
        Life {
            epoch,
            incarnations,
        }
    }

    fn put(machine: &Machine, at: usize, known: &Known) {
        let stored = store(&*machine.env().disk, Path::new(DIRS[at]), known);
        stored.expect("a disk that works");
    }

    #[test]
    fn a_life_is_believed_where_every_directory_has_it_whole() {
        let machine = machine();
        let both = |epoch, incarnation| known(epoch, incarnation, &[0, 1]);
        let loaded = || load_of(&machine, &[0, 1]).life;
        let none = Life::default();
        assert_eq!(loaded(), none);
        put(&machine, 0, &both(7, 1));
        assert_eq!(loaded(), none, "the other has none");
        put(&machine, 1, &both(8, 2));
        assert_eq!(loaded(), none, "the first is a copy from before");
        put(&machine, 0, &both(7, 2));
        let all_asked = life(None, &[2]);
        assert_eq!(
            loaded(),
            all_asked,
            "a crash before the second had the new epoch"
        );
        put(&machine, 0, &both(8, 3));
        let asked_only = life(Some(8), &[]);
        assert_eq!(
            loaded(),
            asked_only,
            "a crash before all had the new incarnation"
        );
        put(&machine, 1, &both(8, 3));
        assert_eq!(loaded(), life(Some(8), &[3]));
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
        assert_eq!(loaded(), life(Some(8), &[3]));
        forget(&*disk, Path::new(DIRS[1])).expect("a disk that works");
        assert_eq!(loaded(), none);
    }

    /// A start without one directory, whose disk failed for a moment, and one with it.
    #[test]
    fn a_directory_that_was_away_for_a_life_takes_nothing_from_the_claim() {
        let machine = machine();
        for at in 0..2 {
            put(&machine, at, &known(7, 1, &[0, 1]));
        }
        let alone = load_of(&machine, &[1]);
        assert_eq!(alone.life, Life::default(), "one that counts is away");
        assert_eq!(alone.known, known(7, 1, &[0, 1]));
        let its_own = |life| BTreeMap::from([(id(1), life)]);
        assert_eq!(alone.apart, its_own(life(Some(7), &[1])));
        // It was about to register, and never did: the life before is the last that counts.
        let mut announced = alone.known;
        announced.announce(incarnation(2), &[id(1)]);
        put(&machine, 1, &announced);
        assert_eq!(load_of(&machine, &[0, 1]).life, life(Some(7), &[2, 1]));
        let alone = load_of(&machine, &[1]);
        assert_eq!(alone.life, life(None, &[2]));
        assert_eq!(alone.apart, its_own(life(Some(7), &[1])));
        // It did: what is in the other counts for nothing since.
        put(&machine, 1, &known(9, 2, &[1]));
        assert_eq!(load_of(&machine, &[0, 1]).life, life(Some(9), &[2]));
        assert_eq!(load_of(&machine, &[1]).life, life(Some(9), &[2]));
        // The one that was in that life is a copy from before, or away.
        put(&machine, 1, &known(7, 1, &[0, 1]));
        let both = load_of(&machine, &[0, 1]);
        assert_eq!(both.life, life(Some(7), &[1]));
        assert_eq!(both.apart, BTreeMap::new(), "the whole claim says it");
        assert_eq!(load_of(&machine, &[0]).life, Life::default());
        // Of two that are open one is a copy from before: neither speaks for itself.
        put(&machine, 0, &known(6, 3, &[0, 1]));
        assert_eq!(load_of(&machine, &[0, 1]).apart, BTreeMap::new());
    }

    /// The controller may have granted any of the registrations that were asked for, and the answers were lost.
    #[test]
    fn runs_without_an_answer_are_remembered_until_one_has_it() {
        let machine = machine();
        let dirs = [id(0), id(1)];
        let mut known = known(7, 1, &[0, 1]);
        let mut runs = |range: std::ops::Range<u8>| {
            for run in range {
                known.announce(incarnation(run), &dirs);
                (0..2).for_each(|at| put(&machine, at, &known));
                known = load_of(&machine, &[0, 1]).known;
            }
            load_of(&machine, &[0, 1]).life
        };
        assert_eq!(runs(2..4), life(Some(7), &[3, 2, 1]));
        let newest: Vec<u8> = (0..100).rev().take(INCARNATIONS_MAX).collect();
        assert_eq!(runs(4..100), life(Some(7), &newest));
        let registered = self::known(120, 100, &[0, 1]);
        (0..2).for_each(|at| put(&machine, at, &registered));
        assert_eq!(load_of(&machine, &[0, 1]).life, life(Some(120), &[100]));
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
        assert_eq!(load_of(&machine, &[0, 1]).life, life(Some(7), &[]));
        put(1, &[&PLAIN_MAGIC, &epoch, &[3; 16]]);
        assert_eq!(load_of(&machine, &[0, 1]).life, life(Some(7), &[3]));
        assert_eq!(load_of(&machine, &[0]), Before::default(), "one is away");
        // A run of the second alone after one of both.
        let single = [&SINGLE_MAGIC[..], &epoch, &[4; 16], &[0, 2, 0, 1]];
        put(1, &[&single.concat(), &id(0).0, &id(1).0, &id(1).0]);
        assert_eq!(load_of(&machine, &[0, 1]).life, life(Some(7), &[4]));
    }
}
