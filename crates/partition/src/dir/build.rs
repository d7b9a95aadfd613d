//! What a log directory is made of at a start, and one that could not be opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::disk::Lock;
use env::{Bell, Env};
use log::FilePool;
use log::journal;
use wire::Uuid;

use super::{DirSettings, LogDir, Point, UNWRITTEN_BYTES_RING};
use crate::sync::{AtomicBool, AtomicIsize, AtomicU64, Mutex, Ordering};

/// What a log directory is put together from, beside its settings.
pub(super) struct Parts {
    pub(super) id: Uuid,
    pub(super) files: Arc<FilePool>,
    pub(super) writer: journal::Writer,
    pub(super) point: Point,
    /// The round that the stored checkpoint covers up to.
    pub(super) checkpointed: u64,
    pub(super) bell: Arc<dyn Bell>,
    pub(super) lock: Box<dyn Lock>,
}

/// The lock of a directory that cannot be used: nothing is held.
struct NoLock;

impl Lock for NoLock {}

impl LogDir {
    pub(super) fn new(env: Env, path: PathBuf, settings: DirSettings, parts: Parts) -> LogDir {
        let expiration_ms = u64::try_from(settings.producer_expiration_ms).unwrap_or(0);
        LogDir {
            producer_expiration_ms: AtomicU64::new(expiration_ms),
            id: parts.id,
            path,
            maker_bell: env.threads.bell(),
            volume_sync: Mutex::default(),
            syncer_bell: env.threads.bell(),
            env,
            settings,
            files: parts.files,
            queue: Mutex::default(),
            spares: parts.writer.spares(),
            synced: AtomicU64::new(parts.point.sequence),
            journal: Mutex::new(parts.writer),
            flights: Mutex::default(),
            telling: Mutex::default(),
            failed: AtomicBool::new(false),
            lacks_piece: AtomicBool::new(false),
            full: AtomicBool::new(false),
            partitions: Mutex::default(),
            guests: Mutex::default(),
            arrivals: Mutex::default(),
            dirty: Mutex::default(),
            unwritten_bytes: AtomicIsize::new(0),
            ring_at: AtomicIsize::new(UNWRITTEN_BYTES_RING),
            point: Mutex::new(parts.point),
            release_to: AtomicU64::new(parts.checkpointed),
            doomed: Mutex::default(),
            hurried: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            checkpoint_wanted: AtomicBool::new(false),
            writer_bell: parts.bell,
            writer_asleep: AtomicBool::new(false),
            _lock: parts.lock,
        }
    }

    /// A directory that could not be opened: its partitions answer that their storage is offline, and none is made anew in
    /// another directory, where it would look empty.
    pub fn offline(
        env: &Env,
        path: &Path,
        settings: DirSettings,
        bell: Arc<dyn Bell>,
    ) -> Arc<LogDir> {
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
        };
        let dir = LogDir::new(env.clone(), path.to_path_buf(), settings, parts);
        dir.failed.store(true, Ordering::Release);
        Arc::new(dir)
    }
}
