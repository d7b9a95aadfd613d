//! `esker inspect`: what lies in data files, and whether their checksums hold.
//!
//! Reads only; works on a stopped broker's files, on copies, and on Kafka's own. A running broker's files may look cut off at
//! their ends. The exit code is 3 when damage was found.

mod files;
mod journal;
mod report;
mod segment;

use std::path::{Path, PathBuf};

use clap::Args;
use env::{Disk, Env};
use serde_json::json;

use crate::arguments::Global;
use crate::failure::Failure;
use crate::table::Table;
use report::{Report, partition_of};

#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// Data directories, partition directories, journals or single files; a piece of a journal stands for all of it
    #[arg(required = true, value_name = "DIR|FILE")]
    pub(crate) paths: Vec<PathBuf>,
    /// Show every batch of the segments instead of one line per file
    #[arg(long)]
    pub(crate) batches: bool,
}

pub(crate) fn inspect(global: &Global, args: &InspectArgs) -> Result<(), Failure> {
    let env = Env::real();
    let disk = &*env.disk;
    let mut files = Vec::new();
    for path in &args.paths {
        let found =
            collect(disk, path, &mut files).map_err(|error| unreadable(disk, path, &error))?;
        if !found {
            let known = "segments, indexes, snapshots, checkpoints and the journal are known by their names";
            return Err(
                Failure::new(format!("{} holds nothing to inspect", path.display())).hint(known),
            );
        }
    }
    files.dedup();
    if args.batches {
        return batches(disk, &files, global.json);
    }
    let mut table = Table::new(&["file", "kind", "entries", "first", "last", "bytes", "state"]);
    let mut damaged = 0;
    for file in &files {
        let report = match examine(disk, file) {
            Ok(report) => report,
            // Found a moment ago: a running broker has removed it since.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(not_read(file, &error)),
        };
        damaged += u64::from(report.damage.is_some());
        let state = report.damage.as_deref().unwrap_or("ok");
        table.row([
            json!(file.display().to_string()),
            json!(report.kind),
            json!(report.entries),
            json!(report.first),
            json!(report.last),
            json!(report.bytes),
            json!(state),
        ]);
    }
    table.print(global.json)?;
    match damaged {
        0 => Ok(()),
        1 => Err(Failure::damage("1 file is damaged")),
        many => Err(Failure::damage(format!("{many} files are damaged"))),
    }
}

/// A partition of a running broker has no directory before its first records are copied out of the journal.
fn unreadable(disk: &dyn Disk, path: &Path, error: &std::io::Error) -> Failure {
    let failure = Failure::new(format!("cannot read {}: {error}", path.display()));
    let journal = path.with_file_name(journal::DIR_NAME);
    let may_come = error.kind() == std::io::ErrorKind::NotFound
        && partition_of(path).is_some()
        && disk.exists(&journal).unwrap_or(false);
    if !may_come {
        return failure;
    }
    failure.hint(format!(
        "a new partition's records are in the journal alone until the broker copies them to segment files: try again in some \
         seconds, or look at {}",
        journal.display()
    ))
}

/// How deep we look: a folder of log directories, partition directories below them.
const DEPTH_MAX: u32 = 3;

/// Adds the files we know below `path`, in name order; `false` when there is none.
fn collect(disk: &dyn Disk, path: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<bool> {
    let before = files.len();
    match disk.read_dir(path) {
        Ok(_) if Kind::of(path) == Some(Kind::Journal) => files.push(path.to_owned()),
        Ok(_) => collect_dir(disk, path, DEPTH_MAX, files)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            if Kind::of(path).is_some() {
                files.push(path.to_owned());
            } else if let Some(journal) = journal::of_piece(path) {
                // Rounds go on from piece to piece, and pieces are used again: one alone shows nothing.
                files.push(journal.to_owned());
            }
        }
        Err(error) => return Err(error),
    }
    Ok(files.len() > before)
}

fn collect_dir(
    disk: &dyn Disk,
    dir: &Path,
    depth: u32,
    files: &mut Vec<PathBuf>,
) -> std::io::Result<()> {
    for entry in disk.read_dir(dir)? {
        let path = dir.join(&entry.name);
        if entry.is_dir && Kind::of(&path) == Some(Kind::Journal) {
            files.push(path);
        } else if entry.is_dir && depth > 0 {
            // `lost+found` is not for everyone, and a running broker removes directories.
            if let Err(error) = collect_dir(disk, &path, depth - 1, files) {
                pass_over(&path, &error);
            }
        } else if !entry.is_dir && Kind::of(&path).is_some() {
            files.push(path);
        }
    }
    Ok(())
}

/// Reports what cannot be looked at and was not asked for by name. A file that a running broker removed meanwhile is not missed.
fn pass_over(path: &Path, error: &std::io::Error) {
    if error.kind() != std::io::ErrorKind::NotFound {
        env::tell!("passed over {}: {error}", path.display());
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Segment,
    OffsetIndex,
    TimeIndex,
    TxnIndex,
    Snapshot,
    Epochs,
    Checkpoint,
    /// A directory, reported as one.
    Journal,
}

impl Kind {
    fn of(path: &Path) -> Option<Kind> {
        if path.file_name()? == log::epochs::FILE_NAME {
            return Some(Kind::Epochs);
        }
        if path.file_name()? == log::checkpoint::FILE_NAME {
            return Some(Kind::Checkpoint);
        }
        if path.file_name()? == journal::DIR_NAME {
            return Some(Kind::Journal);
        }
        base(path)?;
        match path.extension()?.to_str()? {
            "log" => Some(Kind::Segment),
            "index" => Some(Kind::OffsetIndex),
            "timeindex" => Some(Kind::TimeIndex),
            "txnindex" => Some(Kind::TxnIndex),
            "snapshot" => Some(Kind::Snapshot),
            _ => None,
        }
    }
}

/// The offset in a file's name.
fn base(path: &Path) -> Option<i64> {
    let digits = path.file_stem()?.to_str()?;
    (digits.len() == 20).then(|| digits.parse().ok())?
}

fn not_read(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot read {}: {error}", path.display()))
}

fn examine(disk: &dyn Disk, path: &Path) -> std::io::Result<Report> {
    let kind = Kind::of(path).expect("only known files were collected");
    let base = base(path).unwrap_or(0);
    match kind {
        Kind::Segment => segment::examine(disk, path, base),
        Kind::OffsetIndex => files::offset_index(disk, path, base),
        Kind::TimeIndex => files::time_index(disk, path, base),
        Kind::TxnIndex => files::txn_index(disk, path, base),
        Kind::Snapshot => files::snapshot(disk, path, base),
        Kind::Epochs => files::epochs(disk, path),
        Kind::Checkpoint => journal::checkpoint(disk, path),
        Kind::Journal => journal::examine(disk, path),
    }
}

fn batches(disk: &dyn Disk, files: &[PathBuf], json: bool) -> Result<(), Failure> {
    let mut table = Table::new(segment::BATCH_COLUMNS);
    let mut damage = None;
    for file in files
        .iter()
        .filter(|file| Kind::of(file) == Some(Kind::Segment))
    {
        let stopped = match segment::batches(disk, file, base(file).unwrap_or(0), &mut table) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            stopped => stopped.map_err(|error| not_read(file, &error))?,
        };
        damage = damage.or(stopped.map(|damage| format!("{}: {damage}", file.display())));
    }
    table.print(json)?;
    damage.map_or(Ok(()), |damage| Err(Failure::damage(damage)))
}

#[cfg(test)]
mod tests;
