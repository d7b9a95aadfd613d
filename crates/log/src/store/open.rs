//! Creating and opening a store.
//!
//! With a known state (from a checkpoint) nothing but the directory listing is read. Without, nobody knows which segments were
//! ever synced, so all are walked and verified. What does not verify is reported and left alone.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};

use arc_swap::ArcSwap;
use model::{Offset, Timestamp};
use parking_lot::Mutex;

use super::progress::Progress;
use super::swap::finish_swaps;
use super::{Reserved, Store, StoreError, Tail};
use crate::config::LogConfig;
use crate::pool::FilePool;
use crate::scan::{Damage, DamageKind};
use crate::segment::{Dir, Segment};

/// State of the files of a log at a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub local_start: Offset,
    pub log_end: Offset,
    pub active_base: Offset,
    pub active_len: u64,
}

/// The findings of opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub local_start: Offset,
    pub log_end: Offset,
    /// Bytes and whole segments behind the log end. The caller decides: `truncate_to(log_end)` cuts them, and must come
    /// before the first append; below the last durable point it must not, because then they are damage to be repaired.
    pub uncut_bytes: u64,
    pub uncut_segments: usize,
    /// Why the walk ended before the files did.
    pub damage: Option<Damage>,
    /// The directory does not match the known state; everything was walked instead.
    pub known_is_stale: bool,
}

impl Found {
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.uncut_bytes == 0 && self.uncut_segments == 0
    }
}

/// Files of segments that are being deleted end so.
pub(crate) const DELETED: &str = ".deleted";

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
        let shared = Dir::new(dir);
        let active = Segment::create(pool, &shared, start).map_err(at_dir)?;
        let store = Store::over(pool, shared, config, vec![Arc::new(active)], start, start);
        let config = store.config();
        let begin = |tail: &mut Tail| tail.begin(&store.active(), &config, Timestamp::NONE);
        begin(&mut store.tail.lock());
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
        finish_swaps(&**pool.disk(), dir).map_err(at_dir)?;
        let epochs = Store::stored_epochs(&**pool.disk(), dir).map_err(at_dir)?;
        let progress = Progress::load(&**pool.disk(), dir).map_err(at_dir)?;
        let files = list_segments(pool, dir).map_err(at_dir)?;
        let Some(first) = files.first().map(|file| file.base) else {
            let start = known.map_or(Offset::ZERO, |known| known.local_start);
            // Behind all that was known: a file of the active segment's name would be taken for it by the next start, if this
            // one came to nothing.
            let next = known.map_or(start, |known| known.log_end);
            let mut store = Store::create(pool, dir, config, next)?;
            *store.local_start.get_mut() = start.min(next).0;
            store.epochs.store(Arc::new(epochs));
            let found = Found {
                local_start: start,
                log_end: start,
                uncut_bytes: 0,
                uncut_segments: 0,
                damage: None,
                known_is_stale: known.is_some(),
            };
            return Ok((store, found));
        };
        let shared = Dir::new(dir);
        let believed = known.and_then(|known| believe(pool, &shared, &files, known));
        let known_is_stale = known.is_some() && believed.is_none();
        let is_believed = believed.is_some();
        let opened = match believed {
            Some(opened) => opened,
            None => walk(pool, &shared, &files).map_err(at_dir)?,
        };
        let Opened {
            segments,
            log_end,
            damage,
        } = opened;
        // Files below a recorded start may be gone, or on their way. Those above it were there: the start does not follow them.
        let local_start = known.map_or(first, |known| known.local_start).min(log_end);
        let kept: u64 = segments.iter().map(|segment| segment.len()).sum();
        let all: u64 = files.iter().map(|file| file.len).sum();
        let found = Found {
            local_start,
            log_end,
            uncut_bytes: all - kept,
            uncut_segments: files.len() - segments.len(),
            damage,
            known_is_stale,
        };
        let extra = files[segments.len()..]
            .iter()
            .map(|file| file.base)
            .collect();
        let mut store = Store::over(pool, shared, config, segments, local_start, log_end);
        store.epochs.store(Arc::new(epochs));
        *store.clean_end.get_mut() = progress.clean_end.0;
        *store.gaps_end.get_mut() = progress.gaps_end.0;
        {
            let mut tail = store.tail.lock();
            tail.uncut = found.uncut_bytes;
            tail.extra = extra;
            if !is_believed {
                // Nobody knows what of this was ever synced, so the first sync covers it all.
                tail.dirty = store.segments().to_vec();
                tail.dir_dirty = true;
            }
        }
        Ok((store, found))
    }

    fn over(
        pool: &Arc<FilePool>,
        dir: Arc<Dir>,
        config: Arc<LogConfig>,
        segments: Vec<Arc<Segment>>,
        local_start: Offset,
        log_end: Offset,
    ) -> Store {
        Store {
            pool: Arc::clone(pool),
            dir,
            config: ArcSwap::new(config),
            segments: ArcSwap::from_pointee(segments),
            local_start: AtomicI64::new(local_start.0),
            log_end: AtomicI64::new(log_end.0),
            epochs: ArcSwap::default(),
            synced: AtomicI64::new(-1),
            lives: AtomicU64::new(0),
            upheavals: AtomicU64::new(0),
            clean_end: AtomicI64::new(Progress::NONE.clean_end.0),
            gaps_end: AtomicI64::new(Progress::NONE.gaps_end.0),
            files: Mutex::new(()),
            tail: Mutex::new(Tail {
                failed: false,
                uncut: 0,
                extra: Vec::new(),
                dirty: Vec::new(),
                dir_dirty: false,
                written_back: 0,
                reserved: Reserved::default(),
                begun: None,
                first_time: None::<Timestamp>,
            }),
        }
    }
}

struct SegmentFile {
    base: Offset,
    len: u64,
}

struct Opened {
    segments: Vec<Arc<Segment>>,
    log_end: Offset,
    damage: Option<Damage>,
}

/// The log as the checkpoint left it, when the files can be its continuation.
fn believe(
    pool: &Arc<FilePool>,
    dir: &Arc<Dir>,
    files: &[SegmentFile],
    known: Known,
) -> Option<Opened> {
    let at = files
        .iter()
        .position(|file| file.base == known.active_base)?;
    if known.active_len > files[at].len || known.log_end < known.active_base {
        return None;
    }
    let mut segments: Vec<Arc<Segment>> = files[..at]
        .iter()
        .zip(&files[1..])
        .map(|(file, next)| {
            Arc::new(Segment::existing(
                pool, dir, file.base, file.len, next.base, true,
            ))
        })
        .collect();
    let (base, len, end) = (known.active_base, known.active_len, known.log_end);
    segments.push(Arc::new(Segment::existing(
        pool, dir, base, len, end, false,
    )));
    Some(Opened {
        segments,
        log_end: known.log_end,
        damage: None,
    })
}

/// The log as far as all of its batches verify and follow each other.
fn walk(pool: &Arc<FilePool>, dir: &Arc<Dir>, files: &[SegmentFile]) -> io::Result<Opened> {
    let mut segments = Vec::with_capacity(files.len());
    for (at, file) in files.iter().enumerate() {
        let segment = Segment::existing(pool, dir, file.base, file.len, file.base, false);
        let mut damage = segment.reopen(file.len)?;
        let log_end = segment.end();
        let Some(next) = files.get(at + 1) else {
            segments.push(Arc::new(segment));
            return Ok(Opened {
                segments,
                log_end,
                damage,
            });
        };
        // A segment is begun where the one before ends, and compaction keeps the last batch of each, so a difference is bytes
        // that never reached the disk.
        if damage.is_none() && log_end != next.base {
            let why = DamageKind::Missing {
                from: log_end,
                to: next.base,
            };
            damage = Some(Damage {
                position: segment.len(),
                why,
            });
        }
        if damage.is_some() {
            segments.push(Arc::new(segment));
            return Ok(Opened {
                segments,
                log_end,
                damage,
            });
        }
        segments.push(Arc::new(Segment::existing(
            pool, dir, file.base, file.len, next.base, true,
        )));
    }
    unreachable!("the last file ends the walk, and there is one")
}

/// The segment files in order of base offset. Finishes deletions that a crash interrupted, and removes indexes whose segment
/// is gone.
fn list_segments(pool: &FilePool, dir: &Path) -> io::Result<Vec<SegmentFile>> {
    let disk = pool.disk();
    let mut files: Vec<SegmentFile> = Vec::new();
    let mut indexes = Vec::new();
    for entry in disk.read_dir(dir)? {
        if entry.name.ends_with(DELETED) {
            disk.remove_file(&dir.join(&entry.name))?;
        } else if let Some(base) = base_of(&entry.name, "log") {
            files.push(SegmentFile {
                base,
                len: entry.len,
            });
        } else {
            let base = ["index", "timeindex", "txnindex", "txncheck", "headcheck"]
                .iter()
                .find_map(|kind| base_of(&entry.name, kind));
            indexes.extend(base.map(|base| (base, entry.name)));
        }
    }
    files.sort_unstable_by_key(|file| file.base);
    for (base, name) in indexes {
        if files.binary_search_by_key(&base, |file| file.base).is_err() {
            disk.remove_file(&dir.join(name))?;
        }
    }
    Ok(files)
}

/// The base offset in a file name with this extension.
pub(super) fn base_of(name: &str, extension: &str) -> Option<Offset> {
    let digits = name.strip_suffix(extension)?.strip_suffix('.')?;
    let sound = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    sound.then(|| digits.parse().ok().map(Offset)).flatten()
}
