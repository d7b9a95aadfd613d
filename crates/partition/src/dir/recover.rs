//! Opening a log directory: lock it, read its checkpoint, bring the journal's rounds into the segment files.
//!
//! Two steps, because names and settings of partitions come from the metadata log, which lies in the journal itself:
//! [`Recovery::open_metadata`] first, [`Recovery::finish`] for everything else. Ends with a checkpoint, so that recovering
//! twice equals recovering once. Bytes below the durable point that do not verify become a [`Hole`];
//! only a log whose very last round is damaged ends before it, as the journal cannot name the partitions of such a round.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::disk::Lock;
use env::{Bell, Env};
use log::checkpoint::{self, Checkpoint, LoadError};
use log::config::LogConfig;
use log::journal::{self, Entry, Piece, Replayed, What, make_piece};
use log::store::{Known, Read, Store, StoreError};
use log::{Epochs, FilePool, ReadError, Syncing};
use model::{LeaderEpoch, Offset, PartitionIndex, Timestamp};
use wire::Uuid;
use wire::records::{Batch, BatchError, Source};

use super::identity::{self, Identity};
use super::writer::{self, VOLUME_SYNC_MIN};
use super::{DirSettings, LogDir, Point, UNWRITTEN_BYTES_RING};
use crate::derived::{self, Derived};
use crate::partition::{Hole, Partition, Start};
use crate::sync::{AtomicBool, AtomicIsize, AtomicU64, Mutex, Ordering};

const LOCK_NAME: &str = ".lock";
/// Directories of deleted topics end so until their files are gone.
const GRAVE_SUFFIX: &str = "-delete";

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{} is in use by another broker ({holder}); stop it, or give this one another --data-dir", path.display())]
    Locked { path: PathBuf, holder: String },
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{} belongs to node {found}, this is node {own}; set node.id={found} or use another directory", path.display())]
    Foreign {
        path: PathBuf,
        found: String,
        own: String,
    },
    #[error("{}: {what}", path.display())]
    Damaged { path: PathBuf, what: String },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("metadata log: {0}")]
    Batch(#[from] BatchError),
}

/// What the metadata says of a partition whose files or journal rounds were found.
pub struct Found {
    pub topic: Arc<str>,
    pub epoch: LeaderEpoch,
    pub config: Arc<LogConfig>,
}

/// A locked directory whose journal is not replayed yet.
pub struct Recovery {
    env: Env,
    path: PathBuf,
    settings: DirSettings,
    id: Uuid,
    lock: Box<dyn Lock>,
    files: Arc<FilePool>,
    checkpoint: Checkpoint,
    rows: BTreeMap<(Uuid, PartitionIndex), checkpoint::Row>,
    logs: BTreeMap<(Uuid, PartitionIndex), Log>,
    wall: Timestamp,
}

/// A directory ready for work, with the partitions that were found in it.
pub struct Opened {
    pub dir: Arc<LogDir>,
    pub partitions: Vec<Arc<Partition>>,
    /// Journal rounds that were replayed.
    pub rounds: u64,
}

/// One partition on its way back.
struct Log {
    found: Found,
    path: PathBuf,
    store: Option<Store>,
    log_start: Offset,
    derived: Derived,
    epochs: Epochs,
    holes: Vec<Hole>,
    pending: Vec<Batch>,
    pending_bytes: usize,
    is_changed: bool,
}

/// Replayed batches are written in runs of this.
const PENDING_BYTES_MAX: usize = 1 << 20;

impl Recovery {
    /// Locks `path` (creating it if needed) and reads its identity and checkpoint.
    pub fn begin(
        env: &Env,
        path: &Path,
        settings: DirSettings,
        fresh: &dyn Fn() -> Identity,
    ) -> Result<(Recovery, Identity), OpenError> {
        let disk = &env.disk;
        let at = |error| OpenError::Io {
            path: path.to_path_buf(),
            error,
        };
        let journal = LogDir::journal_path(path);
        disk.create_dir_all(&journal).map_err(at)?;
        let lock = disk
            .lock(&path.join(LOCK_NAME))
            .map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock => OpenError::Locked {
                    holder: error.to_string(),
                    path: path.to_path_buf(),
                },
                _ => at(error),
            })?;
        sync_path(env, path).map_err(at)?;
        let (id, identity) = match identity::read(env, path).map_err(at)? {
            Some(known) => known,
            None => {
                let mut id = [0; 16];
                env.rng.fill(&mut id);
                let identity = fresh();
                identity::write(env, path, Uuid(id), &identity).map_err(at)?;
                (Uuid(id), identity)
            }
        };
        let checkpoint = match Checkpoint::load(&**disk, path) {
            Ok(Some(checkpoint)) => checkpoint,
            Ok(None) if has_partitions(env, path).map_err(at)? => {
                let what = "checkpoint is missing beside partitions that need it".to_owned();
                return Err(OpenError::Damaged {
                    path: path.join(checkpoint::FILE_NAME),
                    what,
                });
            }
            Ok(None) => Checkpoint::default(),
            Err(LoadError::Io(error)) => return Err(at(error)),
            Err(LoadError::Damaged) => {
                return Err(OpenError::Damaged {
                    path: path.join(checkpoint::FILE_NAME),
                    what: "checkpoint does not verify".to_owned(),
                });
            }
        };
        let rows = checkpoint
            .rows
            .iter()
            .map(|row| ((row.topic, row.partition), *row))
            .collect();
        let recovery = Recovery {
            env: env.clone(),
            path: path.to_path_buf(),
            settings,
            id,
            lock,
            files: FilePool::new(Arc::clone(disk), settings.segment_files_open_max),
            checkpoint,
            rows,
            logs: BTreeMap::new(),
            wall: env.clock.wall_ms(),
        };
        Ok((recovery, identity))
    }

    /// Recovers one partition alone and returns all of its batches: the metadata log.
    pub fn open_metadata(&mut self, topic: Uuid, found: Found) -> Result<Vec<Batch>, OpenError> {
        let key = (topic, PartitionIndex(0));
        let mut found = Some(found);
        let mut only =
            |asked: (Uuid, PartitionIndex)| if asked == key { found.take() } else { None };
        self.replay(&mut only)?;
        if !self.logs.contains_key(&key)
            && let Some(found) = found.take()
        {
            let log = self.open_log(key, found)?;
            self.logs.insert(key, log);
        }
        let Some(log) = self.logs.get_mut(&key) else {
            return Ok(Vec::new());
        };
        log.write(&self.files, self.wall)?;
        // A topic that is missing from a damaged metadata log would look deleted, and its files would go.
        if let Some(hole) = log.holes.first() {
            let what = format!(
                "metadata records {} to {} are lost; restore them from a copy of the directory",
                hole.from, hole.to
            );
            return Err(OpenError::Damaged {
                path: log.path.clone(),
                what,
            });
        }
        match &log.store {
            Some(store) => read_all(store),
            None => Ok(Vec::new()),
        }
    }

    /// Recovers the partitions that `lookup` knows; what it does not know was deleted, and its files go.
    pub fn finish(
        mut self,
        mut lookup: impl FnMut(Uuid, PartitionIndex) -> Option<Found>,
        bell: Arc<dyn Bell>,
    ) -> Result<Opened, OpenError> {
        let known: Vec<_> = self.rows.keys().copied().collect();
        for key in known {
            if let (false, Some(found)) = (self.logs.contains_key(&key), lookup(key.0, key.1)) {
                let log = self.open_log(key, found)?;
                self.logs.insert(key, log);
            }
        }
        let replayed = self.replay(&mut |(topic, index)| lookup(topic, index))?;
        for log in self.logs.values_mut() {
            log.write(&self.files, self.wall)?;
        }
        self.remove_strays()?;
        self.settle(replayed, bell)
    }

    /// Walks the journal; entries of partitions that `lookup` (or an earlier step) knows are applied.
    fn replay(
        &mut self,
        lookup: &mut dyn FnMut((Uuid, PartitionIndex)) -> Option<Found>,
    ) -> Result<Replayed, OpenError> {
        let from = journal::From {
            sequence: self.checkpoint.sequence,
            checksum: self.checkpoint.checksum,
        };
        let disk = Arc::clone(&self.env.disk);
        let journal = LogDir::journal_path(&self.path);
        let mut skipped: BTreeSet<(Uuid, PartitionIndex)> = BTreeSet::new();
        let mut failed = None;
        let id = self.id;
        let path = self.path.clone();
        let already: BTreeSet<_> = self
            .logs
            .iter()
            .filter(|(_, log)| log.is_changed)
            .map(|(key, _)| *key)
            .collect();
        let replayed = journal::replay(&*disk, &journal, id, from, |entry| {
            let key = (entry.topic, entry.partition);
            if skipped.contains(&key) || already.contains(&key) {
                return Ok(());
            }
            if !self.logs.contains_key(&key) {
                let Some(found) = lookup(key) else {
                    skipped.insert(key);
                    return Ok(());
                };
                match self.open_log(key, found) {
                    Ok(log) => self.logs.insert(key, log),
                    Err(error) => {
                        failed = Some(error);
                        return Err(io::ErrorKind::Other.into());
                    }
                };
            }
            let Some(log) = self.logs.get_mut(&key) else {
                return Ok(());
            };
            let applied = log.apply(entry, &self.files, self.wall);
            applied.map_err(|error| {
                failed = Some(error.into());
                io::ErrorKind::Other.into()
            })
        });
        let replayed = match (replayed, failed) {
            (_, Some(error)) => return Err(error),
            (Err(error), None) => {
                return Err(OpenError::Io {
                    path: journal,
                    error,
                });
            }
            (Ok(replayed), None) => replayed,
        };
        for damage in &replayed.damage {
            eprintln!(
                "log dir {}: journal rounds {} to {} were durable and are damaged",
                path.display(),
                damage.from,
                damage.to
            );
        }
        Ok(replayed)
    }

    /// Opens a partition's files and cuts them back to the checkpoint: what lies behind it was not synced, and is in the journal.
    fn open_log(&self, key: (Uuid, PartitionIndex), found: Found) -> Result<Log, OpenError> {
        let path = self.path.join(format!("{}-{}", found.topic, key.1));
        let row = self.rows.get(&key);
        let has_files = self.env.disk.exists(&path).map_err(|error| OpenError::Io {
            path: path.clone(),
            error,
        })?;
        let mut log = Log {
            epochs: Epochs::default(),
            derived: Derived::default(),
            store: None,
            log_start: row.map_or(Offset::ZERO, |row| row.log_start),
            holes: self
                .checkpoint
                .lost
                .iter()
                .filter(|lost| (lost.topic, lost.partition) == key)
                .map(|lost| Hole {
                    from: lost.from,
                    to: lost.to,
                })
                .collect(),
            pending: Vec::new(),
            pending_bytes: 0,
            is_changed: false,
            found,
            path,
        };
        match row.filter(|row| row.has_files) {
            Some(row) => {
                let known = Known {
                    log_start: row.log_start,
                    log_end: row.log_end,
                    active_base: row.active_base,
                    active_len: row.active_len.0,
                };
                derived::cut_files(&*self.env.disk, &log.path, &known).map_err(|error| {
                    OpenError::Io {
                        path: log.path.clone(),
                        error,
                    }
                })?;
                let (store, state) = Store::open(
                    &self.files,
                    &log.path,
                    Arc::clone(&log.found.config),
                    Some(known),
                )?;
                if state.known_is_stale || !state.is_clean() {
                    store.truncate_to(row.log_end)?;
                }
                if state.log_end < row.log_end {
                    log.holes.push(Hole {
                        from: state.log_end,
                        to: row.log_end,
                    });
                    eprintln!(
                        "{}: offsets {} to {} were durable and are damaged",
                        log.path.display(),
                        state.log_end,
                        row.log_end
                    );
                }
                let (derived, epochs) = derived::load(&self.env, &store, row)?;
                log.derived = derived;
                log.epochs = epochs;
                log.store = Some(store);
            }
            // Files that no checkpoint covers hold nothing that the journal lacks.
            None if has_files => {
                self.env
                    .disk
                    .remove_dir_all(&log.path)
                    .map_err(|error| OpenError::Io {
                        path: log.path.clone(),
                        error,
                    })?;
            }
            None => {}
        }
        Ok(log)
    }

    /// Directories of topics that are gone.
    fn remove_strays(&self) -> Result<(), OpenError> {
        let at = |error| OpenError::Io {
            path: self.path.clone(),
            error,
        };
        let known: BTreeSet<_> = self.logs.values().map(|log| log.path.clone()).collect();
        for entry in self.env.disk.read_dir(&self.path).map_err(at)? {
            let path = self.path.join(&entry.name);
            let is_grave = entry.name.ends_with(GRAVE_SUFFIX);
            if entry.is_dir
                && (is_grave || (is_partition_name(&entry.name) && !known.contains(&path)))
            {
                self.env.disk.remove_dir_all(&path).map_err(at)?;
            }
        }
        Ok(())
    }

    /// Makes what was replayed durable, notes it in a checkpoint, and only then lets the journal pieces be used again.
    fn settle(self, replayed: Replayed, bell: Arc<dyn Bell>) -> Result<Opened, OpenError> {
        let Recovery {
            env,
            path,
            settings,
            id,
            lock,
            files,
            checkpoint,
            logs,
            ..
        } = self;
        let at = |error| OpenError::Io {
            path: path.clone(),
            error,
        };
        let Replayed {
            mut resume,
            pieces,
            rounds,
            damage,
        } = replayed;
        resume.last_piece = resume.last_piece.max(checkpoint.piece);
        let mut logs = logs;
        let changed = logs.values().filter(|log| log.is_changed).count();
        let syncing = match changed {
            0..VOLUME_SYNC_MIN => Syncing::Now,
            _ => Syncing::WithVolume,
        };
        for ((topic, _), log) in logs.iter_mut().filter(|(_, log)| log.is_changed) {
            let Some(store) = &log.store else { continue };
            log.derived
                .store(&*env.disk, store.dir(), *topic, Some(&log.epochs), syncing)
                .map_err(|error| OpenError::Io {
                    path: log.path.clone(),
                    error,
                })?;
            store.write_long_indexes()?;
            if syncing == Syncing::Now {
                store.sync()?;
            }
        }
        if syncing == Syncing::WithVolume {
            env.disk.sync_volume(&path).map_err(at)?;
            for store in logs.values().filter_map(|log| log.store.as_ref()) {
                store.on_volume_synced(store.log_end());
            }
        }
        env.disk.sync_dir(&path).map_err(at)?;
        let rows = logs.iter().filter_map(|(key, log)| log.row(*key)).collect();
        let point = Point {
            sequence: resume.last_sequence,
            checksum: resume.last_checksum,
            piece: resume.last_piece,
            live_bytes: 0,
        };
        if rounds > 0 || !damage.is_empty() || checkpoint.sequence == 0 {
            Checkpoint {
                sequence: point.sequence,
                checksum: point.checksum,
                piece: point.piece,
                rows,
                lost: logs
                    .iter()
                    .flat_map(|((topic, partition), log)| {
                        writer::lost(*topic, *partition, &log.holes, log.log_start)
                    })
                    .collect(),
            }
            .store(&*env.disk, &path)
            .map_err(at)?;
        }
        let journal_path = LogDir::journal_path(&path);
        let journal_writer = journal::Writer::new(
            Arc::clone(&env.disk),
            journal_path.clone(),
            id,
            settings.journal_piece_bytes,
            resume,
        );
        let spares = journal_writer.spares();
        keep_pieces(&env, &journal_path, pieces, &spares, settings).map_err(at)?;
        let parts = Parts {
            id,
            files,
            writer: journal_writer,
            point,
            bell,
            lock,
        };
        let dir = Arc::new(LogDir::new(env, path, settings, parts));
        let partitions = logs
            .into_iter()
            .map(|(key, log)| log.into_partition(key, &dir))
            .collect();
        Ok(Opened {
            dir,
            partitions,
            rounds,
        })
    }
}

/// What a log directory is put together from, beside its settings.
struct Parts {
    id: Uuid,
    files: Arc<FilePool>,
    writer: journal::Writer,
    point: Point,
    bell: Arc<dyn Bell>,
    lock: Box<dyn Lock>,
}

/// The lock of a directory that cannot be used: nothing is held.
struct NoLock;

impl Lock for NoLock {}

impl LogDir {
    fn new(env: Env, path: PathBuf, settings: DirSettings, parts: Parts) -> LogDir {
        LogDir {
            id: parts.id,
            path,
            env,
            settings,
            files: parts.files,
            queue: Mutex::default(),
            spares: parts.writer.spares(),
            journal: Mutex::new(parts.writer),
            failed: AtomicBool::new(false),
            lacks_piece: AtomicBool::new(false),
            full: AtomicBool::new(false),
            partitions: Mutex::default(),
            dirty: Mutex::default(),
            unwritten_bytes: AtomicIsize::new(0),
            ring_at: AtomicIsize::new(UNWRITTEN_BYTES_RING),
            point: Mutex::new(parts.point),
            release_to: AtomicU64::new(parts.point.sequence),
            doomed: Mutex::default(),
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
            writer: journal::Writer::new(
                Arc::clone(&env.disk),
                journal,
                Uuid::ZERO,
                piece_bytes,
                resume,
            ),
            point: Point::default(),
            bell,
            lock: Box::new(NoLock),
        };
        let dir = LogDir::new(env.clone(), path.to_path_buf(), settings, parts);
        dir.failed.store(true, Ordering::Release);
        Arc::new(dir)
    }
}

impl OpenError {
    /// Whether a broker with other directories may do without this one.
    pub fn is_of_one_dir(&self) -> bool {
        !matches!(self, OpenError::Locked { .. } | OpenError::Foreign { .. })
    }
}

impl Log {
    fn end(&self) -> Offset {
        self.pending
            .last()
            .map_or_else(|| self.written_end(), |batch| batch.next_offset())
    }

    fn written_end(&self) -> Offset {
        self.store.as_ref().map_or(self.log_start, Store::log_end)
    }

    fn apply(
        &mut self,
        entry: Entry,
        files: &Arc<FilePool>,
        wall: Timestamp,
    ) -> Result<(), StoreError> {
        self.is_changed = true;
        match entry.what {
            What::Trim { start } => self.log_start = self.log_start.max(start),
            // A checkpoint that was taken later already holds it.
            What::Batch(batch) if batch.base_offset() < self.end() => {}
            What::Batch(batch) => {
                if batch.base_offset() > self.end() {
                    let hole = Hole {
                        from: self.end(),
                        to: batch.base_offset(),
                    };
                    eprintln!(
                        "{}: offsets {} to {} were durable and are damaged",
                        self.path.display(),
                        hole.from,
                        hole.to
                    );
                    self.holes.push(hole);
                }
                self.epochs
                    .assign(batch.leader_epoch(), batch.base_offset());
                self.pending_bytes += batch.size();
                self.pending.push(batch);
                if self.pending_bytes > PENDING_BYTES_MAX {
                    self.write(files, wall)?;
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, files: &Arc<FilePool>, wall: Timestamp) -> Result<(), StoreError> {
        if !self.pending.is_empty() {
            let store = match &self.store {
                Some(store) => store,
                None => {
                    let start = self
                        .pending
                        .first()
                        .map_or(self.log_start, |batch| batch.base_offset());
                    self.store.insert(Store::create(
                        files,
                        &self.path,
                        Arc::clone(&self.found.config),
                        start,
                    )?)
                }
            };
            store.append(&self.pending, wall)?;
            self.derived.note(&self.pending, store)?;
            self.pending.clear();
            self.pending_bytes = 0;
        }
        if let Some(store) = &self.store {
            store.advance_log_start(self.log_start);
        }
        Ok(())
    }

    fn row(&self, (topic, partition): (Uuid, PartitionIndex)) -> Option<checkpoint::Row> {
        let known = self.store.as_ref().map(Store::known);
        let has_producers = !self.derived.producers.is_empty();
        super::writer::row(topic, partition, self.log_start, known, has_producers)
    }

    fn into_partition(
        self,
        (topic, index): (Uuid, PartitionIndex),
        dir: &Arc<LogDir>,
    ) -> Arc<Partition> {
        let log_end = self.written_end();
        let start = Start {
            log_start: self.log_start.min(log_end),
            log_end,
            epoch: self.found.epoch,
            epochs: self.epochs,
            derived: self.derived,
            config: self.found.config,
            store: self.store,
            holes: self.holes,
        };
        Partition::new(topic, self.found.topic, index, Arc::clone(dir), start)
    }
}

/// Makes the whole way to `path` durable. At every start: an earlier one may have been killed between creating and syncing.
fn sync_path(env: &Env, path: &Path) -> io::Result<()> {
    for dir in path.ancestors() {
        let dir = if dir.as_os_str().is_empty() {
            Path::new(".")
        } else {
            dir
        };
        match env.disk.sync_dir(dir) {
            // Where we may not look we have not created anything either.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            done => done?,
        }
    }
    Ok(())
}

/// Recycles the pieces that recovery read, and makes sure there is one to begin with.
fn keep_pieces(
    env: &Env,
    dir: &Path,
    pieces: Vec<Piece>,
    spares: &journal::Spares,
    settings: DirSettings,
) -> io::Result<()> {
    let mut pieces = VecDeque::from(pieces);
    while pieces.len() > super::SPARE_PIECES_MAX {
        let Some(piece) = pieces.pop_back() else {
            break;
        };
        env.disk
            .remove_file(&journal::piece_path(dir, piece.slot))?;
    }
    pieces.into_iter().for_each(|piece| spares.put(piece));
    if spares.count() == 0 {
        let slot = spares.reserve_slot();
        spares.put(make_piece(
            &*env.disk,
            dir,
            slot,
            settings.journal_first_piece_bytes,
        )?);
    }
    Ok(())
}

fn is_partition_name(name: &str) -> bool {
    name.rsplit_once('-')
        .is_some_and(|(_, index)| index.parse::<u32>().is_ok())
}

fn has_partitions(env: &Env, path: &Path) -> io::Result<bool> {
    Ok(env
        .disk
        .read_dir(path)?
        .iter()
        .any(|entry| entry.is_dir && is_partition_name(&entry.name)))
}

fn read_all(store: &Store) -> Result<Vec<Batch>, OpenError> {
    let mut batches = Vec::new();
    let mut from = store.log_start();
    while let Read::Slice(slice) = store.read(from, store.log_end(), PENDING_BYTES_MAX)? {
        let bytes = slice.read().map_err(|error| OpenError::Io {
            path: store.dir().to_path_buf(),
            error,
        })?;
        let before = from;
        for batch in Batch::cut(&bytes, Source::Log) {
            let batch = match batch {
                Err(BatchError::Truncated { .. }) => break,
                batch => batch?,
            };
            if batch.next_offset() > from {
                from = batch.next_offset();
                batches.push(batch);
            }
        }
        if from == before {
            return Err(OpenError::Damaged {
                path: store.dir().to_path_buf(),
                what: format!("no batch at offset {from}"),
            });
        }
    }
    Ok(batches)
}

pub(super) fn grave_name(topic: &str, index: PartitionIndex, id: Uuid) -> String {
    format!("{topic}-{index}.{id}{GRAVE_SUFFIX}")
}
