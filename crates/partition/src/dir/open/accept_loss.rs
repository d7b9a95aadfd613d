//! Journal rounds that are damaged beyond telling which logs they were of, and an operator's word that they are given up.
//!
//! Any log of the directory may then be longer than is known, and an append would use acknowledged offsets again. So the directory does not
//! open until the rounds are named in the file [`FILE_NAME`], which [`accept_loss`] writes and the next settled start removes. A log that
//! continues behind such rounds reports its holes by itself; others end where they end.

use std::io::{self, IoSlice};
use std::path::Path;

use env::Env;
use env::disk::Open;
use log::checkpoint::{Checkpoint, LoadError};
use log::journal::{self, Damage};

use super::error::OpenError;
use super::{lock, meta_properties, ownership};
use crate::dir::log_dir::LogDir;

const FILE_NAME: &str = "esker.accepted-loss";
/// A line has two numbers; a longer file is not ours.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Accepts the loss of all rounds of a stopped broker's log directory that nothing names, and returns them.
pub fn accept_loss(env: &Env, path: &Path) -> Result<Vec<Damage>, OpenError> {
    ownership::check_ownership(env, path)?;
    let _lock = lock::lock(env, path)?;
    let damage = unnamed_loss(env, path)?;
    if !damage.is_empty() {
        write(env, path, &damage).map_err(|error| OpenError::Io {
            path: path.to_path_buf(),
            error,
        })?;
    }
    Ok(damage)
}

/// The rounds of a stopped broker's log directory whose loss would have to be accepted.
pub fn unnamed_loss(env: &Env, path: &Path) -> Result<Vec<Damage>, OpenError> {
    let at = |error| OpenError::Io {
        path: path.to_path_buf(),
        error,
    };
    let Some((id, _)) = meta_properties::read(env, path).map_err(at)? else {
        return Err(OpenError::Damaged {
            path: path.to_path_buf(),
            what: "this is no log directory".to_owned(),
        });
    };
    let checkpoint = match Checkpoint::load(&*env.disk, path) {
        Ok(checkpoint) => checkpoint.unwrap_or_default(),
        Err(LoadError::Io(error)) => return Err(at(error)),
        Err(error @ (LoadError::Damaged | LoadError::Newer)) => {
            return Err(OpenError::Damaged {
                path: path.to_path_buf(),
                what: error.to_string(),
            });
        }
    };
    let from = journal::From {
        sequence: checkpoint.sequence,
        checksum: checkpoint.checksum,
    };
    let journal = LogDir::journal_path(path);
    let replayed = journal::replay(&*env.disk, &journal, id, from, |_| Ok(())).map_err(at)?;
    let mut damage = replayed.damage;
    damage.retain(|damage| !damage.is_named);
    Ok(damage)
}

/// Refuses damage without names that nobody accepted; true when there is some that was.
pub(super) fn check(env: &Env, path: &Path, damage: &[Damage]) -> Result<bool, OpenError> {
    let mut unnamed = damage.iter().filter(|damage| !damage.is_named).peekable();
    if unnamed.peek().is_none() {
        return Ok(false);
    }
    let accepted = read(env, path).map_err(|error| OpenError::Io {
        path: path.join(FILE_NAME),
        error,
    })?;
    let is_accepted = |damage: &Damage| {
        accepted
            .iter()
            .any(|(from, to)| *from <= damage.from && damage.to <= *to)
    };
    match unnamed.find(|damage| !is_accepted(damage)) {
        None => Ok(true),
        Some(damage) => Err(OpenError::Damaged {
            path: LogDir::journal_path(path),
            what: format!(
                "rounds {} to {} were durable, cannot be read, and nothing tells which partitions they were of; restore them \
                 from a copy, or give them up with `esker repair {} --accept-loss`",
                damage.from,
                damage.to - 1,
                path.display()
            ),
        }),
    }
}

/// The accepted rounds are behind a checkpoint now.
pub(super) fn forget(env: &Env, path: &Path) -> io::Result<()> {
    let file = path.join(FILE_NAME);
    if env.disk.exists(&file)? {
        env.disk.remove_file(&file)?;
    }
    Ok(())
}

fn write(env: &Env, path: &Path, damage: &[Damage]) -> io::Result<()> {
    let lines = damage.iter();
    let text: String = lines
        .map(|damage| format!("{} {}\n", damage.from, damage.to))
        .collect();
    let file = env.disk.open(&path.join(FILE_NAME), Open::Truncate)?;
    file.write_at(&[IoSlice::new(text.as_bytes())], 0)?;
    file.sync_data()?;
    env.disk.sync_dir(path)
}

/// Ranges of rounds; a line that is none counts for nothing.
fn read(env: &Env, path: &Path) -> io::Result<Vec<(u64, u64)>> {
    let path = path.join(FILE_NAME);
    if !env.disk.exists(&path)? {
        return Ok(Vec::new());
    }
    let file = env.disk.open(&path, Open::Read)?;
    let mut bytes = vec![0; file.len()?.min(FILE_BYTES_MAX) as usize];
    file.read_exact_at(&mut bytes, 0)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text
        .lines()
        .filter_map(|line| {
            let (from, to) = line.split_once(' ')?;
            Some((from.parse().ok()?, to.parse().ok()?))
        })
        .collect())
}
