//! Where partitions are wanted: those that move to another log directory, and those that do not exist yet.
//!
//! Owns the wishes; the mover fulfils them one after the other. Invariant: a partition has one wish at most, and one whose
//! target is where the partition lives calls off what is under way. The mover keeps a list of them in each directory (`pending_moves`), so
//! that a restart goes on with them; a restart finds every partition where the metadata say.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use env::Bell;
use meta::{Image, Record};
use model::{BrokerId, Instant};
use parking_lot::Mutex;
use partition::{LogDir, Moved, Partition};
use wire::Uuid;

use crate::node::EndListener;
use crate::pending_moves::Key;

/// Directories remembered for partitions that do not exist: 10,000, some MiB. Past it a preference is not taken, and the partition
/// is placed like any other.
const PREFERENCES_MAX: usize = 10_000;

#[derive(Clone)]
pub(crate) struct Wish {
    pub(crate) partition: Arc<Partition>,
    pub(crate) to: Arc<LogDir>,
    pub(crate) moved: Arc<Moved>,
    /// An attempt failed, and the next one waits.
    pub(crate) not_before: Instant,
}

impl Wish {
    pub(crate) fn key(&self) -> Key {
        (self.partition.topic_id, self.partition.index)
    }

    pub(crate) fn is_fulfilled(&self) -> bool {
        Arc::ptr_eq(&self.partition.dir(), &self.to)
    }
}

pub(crate) struct Moves {
    wishes: Mutex<BTreeMap<Key, Wish>>,
    /// Directories that the controller is asked to note, of moves whose files are in place.
    asked: Mutex<BTreeMap<Key, Uuid>>,
    /// By topic name and partition number.
    preferred: Mutex<BTreeMap<(String, i32), Uuid>>,
    /// Counts changes of the wishes.
    changes: AtomicU64,
    pub(crate) bell: Arc<dyn Bell>,
}

impl EndListener for Moves {
    fn on_stopping(&self) {
        self.ring();
    }
}

impl Moves {
    pub(crate) fn new(bell: Arc<dyn Bell>) -> Moves {
        Moves {
            wishes: Mutex::default(),
            asked: Mutex::default(),
            preferred: Mutex::default(),
            changes: AtomicU64::new(0),
            bell,
        }
    }

    fn ring(&self) {
        self.bell.ring();
    }

    /// The partition is to live in `to`; when it does already, it is to stay there.
    pub(crate) fn wish(&self, partition: &Arc<Partition>, to: &Arc<LogDir>) {
        let wish = Wish {
            partition: Arc::clone(partition),
            to: Arc::clone(to),
            moved: Arc::default(),
            not_before: Instant(0),
        };
        let mut wishes = self.wishes.lock();
        match wishes.get(&wish.key()) {
            Some(known) if Arc::ptr_eq(&known.to, to) => return,
            None if wish.is_fulfilled() => return,
            _ => {}
        }
        wishes.insert(wish.key(), wish);
        self.changes.fetch_add(1, Ordering::Release);
        drop(wishes);
        self.ring();
    }

    /// Forgets a wish for `to`; a newer one stays.
    pub(crate) fn forget(&self, key: Key, to: &Arc<LogDir>) {
        let mut wishes = self.wishes.lock();
        if wishes
            .get(&key)
            .is_some_and(|wish| Arc::ptr_eq(&wish.to, to))
        {
            wishes.remove(&key);
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// The metadata are to say that the partition lives in `dir`.
    pub(crate) fn ask(&self, key: Key, dir: Uuid) {
        self.asked.lock().insert(key, dir);
    }

    pub(crate) fn asked(&self, key: Key) -> Option<Uuid> {
        self.asked.lock().get(&key).copied()
    }

    /// The partition lives where the metadata say.
    pub(crate) fn end_asking(&self, key: Key) {
        self.asked.lock().remove(&key);
    }

    /// Another number than before when wishes came or went.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    pub(crate) fn wanted(&self, key: Key) -> Option<Wish> {
        self.wishes.lock().get(&key).cloned()
    }

    pub(crate) fn delay(&self, key: Key, until: Instant) {
        if let Some(wish) = self.wishes.lock().get_mut(&key) {
            wish.not_before = until;
        }
    }

    /// The first wish that may be seen to, or when one may be.
    pub(crate) fn next(&self, now: Instant) -> Result<Wish, Option<Instant>> {
        let wishes = self.wishes.lock();
        let due = wishes.values().find(|wish| wish.not_before <= now);
        due.cloned()
            .ok_or_else(|| wishes.values().map(|wish| wish.not_before).min())
    }

    /// Partitions that are on their way to `dir`.
    pub(crate) fn coming_to(&self, dir: &Arc<LogDir>) -> Vec<Wish> {
        let wishes = self.wishes.lock();
        let coming = (wishes.values()).filter(|wish| Arc::ptr_eq(&wish.to, dir));
        coming
            .filter(|wish| !wish.is_fulfilled())
            .cloned()
            .collect()
    }

    /// A partition that does not exist yet is to be made in `dir`.
    pub(crate) fn prefer(&self, topic: &str, index: i32, dir: Uuid) {
        let mut preferred = self.preferred.lock();
        let key = (topic.to_owned(), index);
        if preferred.len() < PREFERENCES_MAX || preferred.contains_key(&key) {
            preferred.insert(key, dir);
        }
    }

    /// New partitions go where they were wanted before they existed, if the directory `is_usable` there.
    pub(crate) fn prefer_dirs(
        &self,
        node: BrokerId,
        image: &Image,
        records: &mut [Record],
        is_usable: impl Fn(Uuid) -> bool,
    ) {
        let mut preferred = self.preferred.lock();
        if preferred.is_empty() {
            return;
        }
        let mut names: BTreeMap<Uuid, String> = BTreeMap::new();
        for record in records {
            match record {
                Record::Topic(topic) => {
                    names.insert(topic.topic_id, topic.name.clone());
                }
                Record::Partition(partition) => {
                    let known = image.topic_by_id(partition.topic_id);
                    let known = known.map(|topic| topic.name.to_string());
                    let Some(name) = names.get(&partition.topic_id).cloned().or(known) else {
                        continue;
                    };
                    let Some(dir) = preferred.remove(&(name, partition.partition_id)) else {
                        continue;
                    };
                    let replica = partition.replicas.iter().position(|id| *id == node.0);
                    if let Some(place) = replica.and_then(|at| partition.directories.get_mut(at))
                        && is_usable(dir)
                    {
                        *place = dir;
                    }
                }
                _ => {}
            }
        }
    }
}
