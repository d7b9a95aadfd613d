//! The parts of a log directory at a start, and of one that could not be opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::disk::Lock;
use env::{Bell, Env};
use log::FilePool;
use log::journal;
use wire::Uuid;

use super::backlog::Backlog;
use super::counters::Counters;
use super::damages::Damages;
use super::flight::Point;
use super::log_dir::LogDir;
use super::settings::DirSettings;
use crate::sync::{AtomicBool, AtomicU64, Mutex};

/// The parts that a log directory is put together from, beside its settings.
pub(super) struct Parts {
    pub(super) id: Uuid,
    pub(super) files: Arc<FilePool>,
    pub(super) writer: journal::Writer,
    pub(super) point: Point,
    /// The round that the stored checkpoint covers up to.
    pub(super) checkpointed: u64,
    pub(super) bell: Arc<dyn Bell>,
    pub(super) lock: Box<dyn Lock>,
    pub(super) folds_names: bool,
}

/// The lock of a directory that cannot be used: nothing is held.
struct NoLock;

impl Lock for NoLock {}

impl LogDir {
    pub(super) fn new(env: Env, path: PathBuf, settings: DirSettings, parts: Parts) -> LogDir {
        LogDir {
            id: parts.id,
            path,
            maker_bell: env.threads.bell(),
            volume_sync: Mutex::default(),
            syncer_bell: env.threads.bell(),
            env,
            settings,
            files: parts.files,
            woken: Mutex::default(),
            queue: Mutex::default(),
            spares: parts.writer.spares(),
            synced: AtomicU64::new(parts.point.sequence),
            journal: Mutex::new(parts.writer),
            flights: Mutex::default(),
            telling: Mutex::default(),
            failed: AtomicBool::new(false),
            lacks_piece: AtomicBool::new(false),
            full: AtomicBool::new(false),
            logs: Mutex::default(),
            backlog: Backlog::new(Arc::clone(&parts.bell), settings.unwritten_bytes_max),
            point: Mutex::new(parts.point),
            release_to: AtomicU64::new(parts.checkpointed),
            stopping: AtomicBool::new(false),
            slowness: Mutex::default(),
            rot_found: AtomicU64::new(0),
            rot_repaired: AtomicU64::new(0),
            damages: Damages::default(),
            checkpoint_wanted: AtomicBool::new(false),
            has_new_row: AtomicBool::new(false),
            writer_bell: parts.bell,
            folds_names: parts.folds_names,
            counters: Counters::default(),
            _lock: parts.lock,
        }
    }

    /// A directory that could not be opened, and has failed from the beginning.
    pub(super) fn offline(
        env: &Env,
        path: &Path,
        settings: DirSettings,
        bell: Arc<dyn Bell>,
    ) -> LogDir {
        let resume = journal::Resume::default();
        let journal = LogDir::journal_path(path);
        let piece_bytes = settings.journal_piece_bytes;
        let parts = Parts {
            id: Uuid::ZERO,
            files: FilePool::new(Arc::clone(&env.disk), 1),
            writer: journal::Writer::new(env, journal, Uuid::ZERO, piece_bytes, resume),
            point: Point::default(),
            checkpointed: 0,
            bell,
            lock: Box::new(NoLock),
            folds_names: false,
        };
        LogDir {
            failed: AtomicBool::new(true),
            ..LogDir::new(env.clone(), path.to_path_buf(), settings, parts)
        }
    }
}
