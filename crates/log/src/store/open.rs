//! Creating and opening a store.
//!
//! With a known state (from a checkpoint) nothing but the directory listing is read. Without, the tail of the last segment is
//! walked from its last index entry. What does not verify is reported and left alone.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use arc_swap::ArcSwap;
use model::{Offset, Timestamp};
use parking_lot::Mutex;

use super::{Store, StoreError, Tail};
use crate::config::LogConfig;
use crate::pool::FilePool;
use crate::scan::Damage;
use crate::segment::Segment;

/// State of a log at a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub log_start: Offset,
    pub log_end: Offset,
    pub active_base: Offset,
    pub active_len: u64,
}

/// What opening found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub log_start: Offset,
    pub log_end: Offset,
    /// Bytes of the active file that are not part of the log. The caller decides: `truncate_to(log_end)` cuts them, and
    /// must come before the first append.
    pub uncut_bytes: u64,
    /// Why the walk ended before the file did.
    pub damage: Option<Damage>,
    /// The directory does not match the known state; the tail was walked instead.
    pub known_is_stale: bool,
}

/// Files of segments that are being deleted end so.
pub(super) const DELETED: &str = ".deleted";

impl Store {
    /// Makes the directory and an empty log that begins at `start`. Durable after `sync` and a sync of the parent directory.
    pub fn create(
        pool: &Arc<FilePool>,
        dir: &Path,
        config: Arc<LogConfig>,
        start: Offset,
    ) -> Result<Store, StoreError> {
        let at_dir = |error| StoreError::Io {
            path: dir.to_path_buf(),
            error,
        };
        pool.disk().create_dir_all(dir).map_err(at_dir)?;
        let shared: Arc<Path> = dir.into();
        let allocate = config.preallocate.then_some(config.segment_bytes);
        let active = Segment::create(pool, &shared, start, allocate).map_err(at_dir)?;
        let store = Store::over(pool, shared, config, vec![Arc::new(active)], start, start);
        store.tail.lock().dir_dirty = true;
        Ok(store)
    }

    /// Opens the log of a directory; an empty one becomes a log that begins at 0.
    pub fn open(
        pool: &Arc<FilePool>,
        dir: &Path,
        config: Arc<LogConfig>,
        known: Option<Known>,
    ) -> Result<(Store, Found), StoreError> {
        let at_dir = |error| StoreError::Io {
            path: dir.to_path_buf(),
            error,
        };
        let bases = list_segments(pool, dir).map_err(at_dir)?;
        let Some(&(last_base, last_len)) = bases.last() else {
            let start = known.map_or(Offset::ZERO, |known| known.log_start);
            let store = Store::create(pool, dir, config, start)?;
            let found = Found {
                log_start: start,
                log_end: start,
                uncut_bytes: 0,
                damage: None,
                known_is_stale: known.is_some(),
            };
            return Ok((store, found));
        };
        let shared: Arc<Path> = dir.into();
        let mut segments: Vec<Arc<Segment>> = Vec::with_capacity(bases.len());
        for (at, &(base, len)) in bases.iter().enumerate() {
            let next = bases.get(at + 1).map(|(next, _)| *next);
            segments.push(Arc::new(Segment::existing(
                pool,
                &shared,
                base,
                len,
                next.unwrap_or(base),
                next.is_some(),
            )));
        }
        let trusted = known.filter(|known| {
            known.active_base == last_base
                && known.active_len <= last_len
                && last_base <= known.log_end
        });
        let active = Arc::clone(segments.last().expect("listed above"));
        let (log_end, damage) = match trusted {
            Some(known) => {
                let at = Segment::existing(
                    pool,
                    &shared,
                    last_base,
                    known.active_len,
                    known.log_end,
                    false,
                );
                segments.pop();
                segments.push(Arc::new(at));
                (known.log_end, None)
            }
            None => {
                let damage = active.reopen(last_len, true).map_err(at_dir)?;
                (active.end(), damage)
            }
        };
        let first = bases.first().map_or(Offset::ZERO, |(base, _)| *base);
        let log_start = known
            .map_or(first, |known| known.log_start.max(first))
            .min(log_end);
        let store = Store::over(pool, shared, config, segments, log_start, log_end);
        let uncut_bytes = last_len - store.active().len();
        store.tail.lock().uncut = uncut_bytes;
        let known_is_stale = known.is_some() && trusted.is_none();
        Ok((
            store,
            Found {
                log_start,
                log_end,
                uncut_bytes,
                damage,
                known_is_stale,
            },
        ))
    }

    fn over(
        pool: &Arc<FilePool>,
        dir: Arc<Path>,
        config: Arc<LogConfig>,
        segments: Vec<Arc<Segment>>,
        log_start: Offset,
        log_end: Offset,
    ) -> Store {
        let dirty = Vec::from_iter(segments.last().cloned());
        Store {
            pool: Arc::clone(pool),
            dir,
            config: ArcSwap::new(config),
            segments: ArcSwap::from_pointee(segments),
            log_start: AtomicI64::new(log_start.0),
            log_end: AtomicI64::new(log_end.0),
            synced: AtomicI64::new(-1),
            // Nobody knows whether the tail we found was ever synced, so the first sync covers it.
            tail: Mutex::new(Tail {
                failed: false,
                uncut: 0,
                dirty,
                dir_dirty: false,
                written_back: 0,
                begun: None,
                first_time: None::<Timestamp>,
            }),
        }
    }
}

/// Base offset and length of each segment file in order. Finishes deletions that a crash interrupted.
fn list_segments(pool: &FilePool, dir: &Path) -> io::Result<Vec<(Offset, u64)>> {
    let disk = pool.disk();
    let mut bases = Vec::new();
    for entry in disk.read_dir(dir)? {
        if entry.name.ends_with(DELETED) {
            disk.remove_file(&dir.join(&entry.name))?;
        } else if let Some(base) = base_of(&entry.name, "log") {
            bases.push((base, entry.len));
        }
    }
    bases.sort_unstable();
    Ok(bases)
}

/// The base offset in a file name with this extension.
pub(super) fn base_of(name: &str, extension: &str) -> Option<Offset> {
    let digits = name.strip_suffix(extension)?.strip_suffix('.')?;
    let sound = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    sound.then(|| digits.parse().ok().map(Offset)).flatten()
}
