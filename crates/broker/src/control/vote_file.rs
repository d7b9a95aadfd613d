//! The vote file of this node: read once at the start, written before any message that rests on it leaves.
//!
//! Its contents, and what makes them believable, are the quorum's affair; the order of the steps here is the one it asks for.

use std::io::{self, IoSlice};
use std::path::Path;

use env::Disk;
use env::disk::Open;
use model::BrokerId;
use raft::quorum_state::{BYTES_MAX, CHECK_NAME, FILE_NAME, check, encode, named_voters, verify};
use raft::{Election, VoteFile, VoterSet};

/// Judges the files in `dir`.
pub(crate) fn load(disk: &dyn Disk, dir: &Path) -> io::Result<VoteFile> {
    let (file, sums) = (
        read(disk, &dir.join(FILE_NAME))?,
        read(disk, &dir.join(CHECK_NAME))?,
    );
    Ok(verify(file.as_deref(), sums.as_deref()))
}

/// The file in `dir`; empty where there is none, or none that is believed.
pub(crate) fn contents(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<u8>> {
    let file = read(disk, &dir.join(FILE_NAME))?;
    let is_lost = load(disk, dir)? == VoteFile::Lost;
    Ok(file.filter(|_| !is_lost).unwrap_or_default())
}

/// The voters that the file in `dir` names, where the settings named them.
pub(crate) fn voters(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<BrokerId>> {
    Ok(named_voters(&contents(disk, dir)?))
}

/// Writes the file durably.
pub(crate) fn store(
    disk: &dyn Disk,
    dir: &Path,
    election: &Election,
    version: i16,
    voters: &VoterSet,
) -> io::Result<()> {
    let next = encode(election, version, voters);
    let old = read(disk, &dir.join(FILE_NAME))?;
    let sums = check(old.as_deref(), next.as_bytes());
    let contents = [(FILE_NAME, next.as_str()), (CHECK_NAME, sums.as_str())];
    // A check file without contents is always a loss, so the first contents come before it.
    let order = if old.is_none() { [0, 1] } else { [1, 0] };
    for (name, text) in order.map(|at| contents[at]) {
        write(disk, dir, name, text.as_bytes())?;
    }
    Ok(())
}

fn read(disk: &dyn Disk, path: &Path) -> io::Result<Option<Vec<u8>>> {
    if !disk.exists(path)? {
        return Ok(None);
    }
    let file = disk.open(path, Open::Read)?;
    let len = usize::try_from(file.len()?).unwrap_or(usize::MAX);
    // One byte more than is believed is enough to see that it is not.
    let mut bytes = vec![0; len.min(BYTES_MAX + 1)];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(Some(bytes))
}

/// Replaces a file of `dir` durably: it is the old or the new one wherever a crash comes.
pub(crate) fn write(disk: &dyn Disk, dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let part = dir.join(format!("{name}.part"));
    let file = disk.open(&part, Open::Truncate)?;
    file.write_at(&[IoSlice::new(bytes)], 0)?;
    file.sync_data()?;
    disk.rename(&part, &dir.join(name))?;
    disk.sync_dir(dir)
}
