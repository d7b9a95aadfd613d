//! The journal of a log directory and its checkpoint: rounds that verify, rounds that are lost.
//!
//! The journal is walked as a starting broker would, from the checkpoint on, and nothing is applied.

use std::io;
use std::path::Path;

use env::Disk;
use log::checkpoint::{Checkpoint, LoadError};
use log::journal::{self, From};
use wire::Uuid;

use super::files::read;
use super::report::Report;

/// Directory of the journal inside a log directory.
pub(super) const DIR_NAME: &str = "journal";

/// The journal that a file is a piece of.
pub(super) fn of_piece(path: &Path) -> Option<&Path> {
    let journal = path.parent()?;
    let is_piece = path.extension()? == "journal" && journal.file_name()? == DIR_NAME;
    is_piece.then_some(journal)
}

pub(super) fn checkpoint(disk: &dyn Disk, path: &Path) -> io::Result<Report> {
    let bytes = read(disk, path)?.len() as u64;
    let dir = path.parent().unwrap_or(Path::new("."));
    let (checkpoint, damage) = match Checkpoint::load(disk, dir) {
        Ok(checkpoint) => (checkpoint.unwrap_or_default(), None),
        Err(error @ (LoadError::Damaged | LoadError::Newer)) => {
            (Checkpoint::default(), Some(error.to_string()))
        }
        Err(LoadError::Io(error)) => return Err(error),
    };
    let last = i64::try_from(checkpoint.sequence).ok();
    Ok(Report {
        kind: "checkpoint",
        entries: checkpoint.rows.len() as u64,
        first: None,
        last,
        bytes,
        damage,
    })
}

/// `path` is the journal's directory; its log directory is the one above.
pub(super) fn examine(disk: &dyn Disk, path: &Path) -> io::Result<Report> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let bytes = disk.read_dir(path)?.iter().map(|entry| entry.len).sum();
    let report = |entries, first, last, damage| Report {
        kind: "journal",
        entries,
        first,
        last,
        bytes,
        damage,
    };
    let Some(id) = directory_id(disk, dir)? else {
        return Ok(report(
            0,
            None,
            None,
            Some("meta.properties does not say whose journal it is".to_owned()),
        ));
    };
    let start = match Checkpoint::load(disk, dir) {
        Ok(checkpoint) => checkpoint.unwrap_or_default(),
        Err(error @ (LoadError::Damaged | LoadError::Newer)) => {
            return Ok(report(0, None, None, Some(format!("its {error}"))));
        }
        Err(LoadError::Io(error)) => return Err(error),
    };
    let from = From {
        sequence: start.sequence,
        checksum: start.checksum,
    };
    let replayed = journal::replay(disk, path, id, from, |_| Ok(()))?;
    let lost: u64 = replayed
        .damage
        .iter()
        .map(|damage| damage.to - damage.from)
        .sum();
    let is_named = replayed.damage.iter().all(|damage| damage.is_named);
    let damage = (lost > 0).then(|| {
        if is_named {
            format!("{lost} durable rounds do not verify")
        } else {
            format!("{lost} durable rounds do not verify, and nothing tells what all of them held")
        }
    });
    let some = |sequence: u64| i64::try_from(sequence).ok().filter(|_| replayed.rounds > 0);
    Ok(report(
        replayed.rounds,
        some(start.sequence + 1),
        some(replayed.resume.last_sequence),
        damage,
    ))
}

fn directory_id(disk: &dyn Disk, dir: &Path) -> io::Result<Option<Uuid>> {
    let bytes = match read(disk, &dir.join("meta.properties")) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let text = String::from_utf8_lossy(&bytes);
    Ok(text
        .lines()
        .find_map(|line| line.strip_prefix("directory.id=")?.trim().parse().ok()))
}
