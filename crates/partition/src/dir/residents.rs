//! The partitions that live in one log directory, and those that come and go.
//!
//! Owns these partitions: the directory, which only makes entries durable, knows none and keeps none alive, and a partition has no more
//! than a weak way back to here. So nothing needs to be taken apart when a broker ends. Invariant: files of a partition that leaves are
//! listed as doomed until they are removed, before another partition of its name writes any.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Weak};

use env::{Bell, Env};
use model::PartitionIndex;
use wire::Uuid;

use super::durable::Key;
use super::log_dir::LogDir;
use super::r#move::arrival::{Arrival, Guest};
use super::names::fold_together;
use super::rows;
use super::settings::DirSettings;
use crate::partition::{Home, Partition, Registry, Start};
use crate::sync::{AtomicU64, Mutex, Ordering};

/// A partition whose files are to be removed.
pub(super) struct Doomed {
    pub(super) partition: Arc<Partition>,
    /// `None` for one that did not come to live here.
    pub(super) home: Option<Arc<Home>>,
}

/// Batches that are kept in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InMemory {
    /// Bytes that the segment files have as well, so that readers find them in memory.
    pub hot_bytes: usize,
    /// Bytes that the segment files lack.
    pub unwritten_bytes: usize,
    /// Log directories with a round that is queued and not on its way.
    pub queues: usize,
}

impl std::ops::AddAssign for InMemory {
    fn add_assign(&mut self, other: InMemory) {
        self.hot_bytes += other.hot_bytes;
        self.unwritten_bytes += other.unwritten_bytes;
        self.queues += other.queues;
    }
}

pub struct Residents {
    pub dir: Arc<LogDir>,
    pub(super) partitions: Mutex<BTreeMap<Key, Arc<Partition>>>,
    /// Partitions whose files are here, complete, and that are about to live here: checkpoints vouch for them already.
    pub(super) guests: Mutex<BTreeMap<Key, Guest>>,
    /// Partitions whose files are complete under another name; the segment writer takes them in.
    pub(super) arrivals: Mutex<Vec<Arc<Arrival>>>,
    pub(super) doomed: Mutex<Vec<Doomed>>,
    /// Partitions that begin to leave.
    pub(super) leaving: Mutex<Vec<Key>>,
    /// `producer.id.expiration.ms`, at first as in the settings; a new value counts from the next look on.
    producer_expiration_ms: AtomicU64,
}

impl Residents {
    pub(super) fn new(dir: LogDir) -> Arc<Residents> {
        let expiration_ms = u64::try_from(dir.settings.producer_expiration_ms).unwrap_or(0);
        Arc::new(Residents {
            dir: Arc::new(dir),
            partitions: Mutex::default(),
            guests: Mutex::default(),
            arrivals: Mutex::default(),
            doomed: Mutex::default(),
            leaving: Mutex::default(),
            producer_expiration_ms: AtomicU64::new(expiration_ms),
        })
    }

    /// A directory that could not be opened: its partitions answer that their storage is offline, and none is created in another directory,
    /// where it would look empty.
    pub fn offline(
        env: &Env,
        path: &Path,
        settings: DirSettings,
        bell: Arc<dyn Bell>,
    ) -> Arc<Residents> {
        Residents::new(LogDir::offline(env, path, settings, bell))
    }

    pub fn set_producer_expiration(&self, ms: i64) {
        let ms = u64::try_from(ms).unwrap_or(0);
        self.producer_expiration_ms.store(ms, Ordering::Relaxed);
    }

    pub(super) fn producer_expiration_ms(&self) -> i64 {
        let ms = self.producer_expiration_ms.load(Ordering::Relaxed);
        i64::try_from(ms).unwrap_or(i64::MAX)
    }

    /// Brings a partition to life here.
    pub fn create(
        self: &Arc<Self>,
        topic_id: Uuid,
        topic: Arc<str>,
        index: PartitionIndex,
        start: Start,
    ) -> Arc<Partition> {
        let registry: Weak<dyn Registry> = Arc::downgrade(self) as _;
        let dir = Arc::clone(&self.dir);
        let has_no_files = start.unread.is_none() && start.store.is_none();
        let start = if has_no_files && self.has_name_like(&topic, index) {
            env::tell!(
                "partition {topic}-{index} offline: another topic has its name but for the case, and the volume takes the two for one"
            );
            let unread = Some(rows::empty((topic_id, index)));
            Start { unread, ..start }
        } else {
            start
        };
        let partition = Arc::new(Partition::new(topic_id, topic, index, dir, registry, start));
        self.insert(&mut self.partitions.lock(), &partition);
        if let Some(unwritten_bytes) = partition.unwritten_at_start() {
            let key = (topic_id, index);
            self.dir.backlog.add(unwritten_bytes, Some(key));
        }
        partition
    }

    /// True if a partition here has the name of this one but for the case, and the volume takes the two for one.
    pub(super) fn has_name_like(&self, topic: &str, index: PartitionIndex) -> bool {
        let is_like = |of: &Arc<Partition>| {
            of.index == index && of.unread.is_none() && fold_together(&of.topic, topic)
        };
        self.dir.folds_names && self.partitions.lock().values().any(is_like)
    }

    /// A partition lives here from now on.
    pub(super) fn insert(
        &self,
        partitions: &mut BTreeMap<Key, Arc<Partition>>,
        partition: &Arc<Partition>,
    ) {
        let key = partition.key();
        self.dir.join(key, partition);
        partitions.insert(key, Arc::clone(partition));
    }

    /// A partition that lives here.
    pub fn partition(&self, topic: Uuid, index: PartitionIndex) -> Option<Arc<Partition>> {
        self.partitions.lock().get(&(topic, index)).cloned()
    }

    /// How many partitions live here.
    pub fn count(&self) -> usize {
        self.partitions.lock().len()
    }

    pub(super) fn all(&self) -> Vec<Arc<Partition>> {
        self.partitions.lock().values().cloned().collect()
    }

    /// Partitions among `keys` that live here.
    pub(super) fn named(&self, keys: &[Key]) -> Vec<Arc<Partition>> {
        let partitions = self.partitions.lock();
        let named = keys.iter().filter_map(|key| partitions.get(key));
        named.cloned().collect()
    }

    /// Partitions with something that is not durable, some of them more than once: nobody waits for a commit of any other. Partitions of a
    /// round that is just being written may be missing.
    pub fn uncommitted(&self) -> Vec<Arc<Partition>> {
        self.named(&self.dir.uncommitted())
    }

    /// Removes a partition that is to leave, and of whose log a crash would find nothing; false if it stays.
    pub(super) fn dismiss(&self, partition: &Arc<Partition>) -> bool {
        let key = partition.key();
        // Together: a partition that is assigned here again stays, or finds its place free.
        let mut partitions = self.partitions.lock();
        let mut state = partition.state.lock();
        if !state.has_left() {
            return false;
        }
        state.is_deleted = true;
        let home = Some(Arc::clone(&state.home));
        drop(state);
        partitions.remove(&key);
        self.dir.leave(key);
        let partition = Arc::clone(partition);
        self.doomed.lock().push(Doomed { partition, home });
        true
    }

    /// Bytes that the partitions that live here keep in memory.
    pub fn in_memory(&self) -> InMemory {
        let mut all = InMemory {
            queues: usize::from(self.dir.has_rounds()),
            ..InMemory::default()
        };
        for partition in self.all() {
            let state = partition.state.lock();
            let unwritten = state.tail.unwritten_bytes();
            all.hot_bytes += state.tail.bytes() - unwritten;
            all.unwritten_bytes += unwritten;
        }
        all
    }
}

impl Registry for Residents {
    fn remove(&self, partition: &Arc<Partition>, home: Option<Arc<Home>>) {
        if home.is_some() {
            let key = partition.key();
            self.partitions.lock().remove(&key);
            self.dir.leave(key);
        }
        let partition = Arc::clone(partition);
        self.doomed.lock().push(Doomed { partition, home });
        self.dir.writer_bell.ring();
    }

    fn let_go(&self, key: Key) {
        self.leaving.lock().push(key);
        self.dir.writer_bell.ring();
    }
}
