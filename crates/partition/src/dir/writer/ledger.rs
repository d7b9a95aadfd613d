//! The segment writer's knowledge of the batches on their way to the disk, which its chores share.
//!
//! A batch is first *pending* (its partition is on the list), then in a segment file and still in memory (*hot*), and *unsynced*
//! until a checkpoint covers it; segment files below a log start are *spent*, and unlinked later.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use log::Syncing;
use log::checkpoint;
use log::journal::lacks_descriptors;
use log::store::{self, Deleted, StoreError};
use model::{Instant, Offset};

use super::removal::Removals;
use crate::dir::announce::Announce;
use crate::dir::durable::Key;
use crate::dir::flight::Point;
use crate::dir::log_dir::{Commit, LogDir};
use crate::dir::residents::Residents;
use crate::partition::{Home, Partition};
use crate::sync::Ordering;

/// A written span that is still in memory.
struct Hot {
    partition: Arc<Partition>,
    up_to: Offset,
    bytes: usize,
    at: Instant,
}

/// Written spans that are still in memory, oldest first.
#[derive(Default)]
pub(super) struct HotTail {
    spans: VecDeque<Hot>,
    bytes: usize,
}

impl HotTail {
    /// Takes note of a span that was written at `at`.
    pub(super) fn push(
        &mut self,
        partition: &Arc<Partition>,
        (up_to, bytes): (Offset, usize),
        at: Instant,
    ) {
        self.spans.push_back(Hot {
            partition: Arc::clone(partition),
            up_to,
            bytes,
            at,
        });
        self.bytes += bytes;
    }

    /// Lets go of the oldest until no more than `bytes_max` are left.
    pub(super) fn evict(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            let Some(hot) = self.spans.pop_front() else {
                break;
            };
            self.let_go(&hot);
        }
    }

    /// Lets go of what was written before `at`.
    pub(super) fn evict_before(&mut self, at: Instant) {
        while let Some(hot) = self.spans.pop_front_if(|hot| hot.at < at) {
            self.let_go(&hot);
        }
    }

    /// When the oldest span was written.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.spans.front().map(|hot| hot.at)
    }

    fn let_go(&mut self, hot: &Hot) {
        hot.partition.state.lock().tail.evict(hot.up_to);
        self.bytes -= hot.bytes;
    }

    pub(super) fn forget(&mut self, partition: &Arc<Partition>) {
        (self.spans).retain(|hot| !Arc::ptr_eq(&hot.partition, partition));
        self.bytes = self.spans.iter().map(|hot| hot.bytes).sum();
    }
}

/// The rows of a coming checkpoint, and the files that its sync covers.
pub(super) struct Covered {
    pub(super) point: Point,
    pub(super) rows: Vec<checkpoint::Row>,
    pub(super) lost: Vec<checkpoint::Lost>,
    pub(super) partitions: BTreeMap<Key, Arc<Partition>>,
    pub(super) syncing: Syncing,
    pub(super) stores: Vec<(Arc<Home>, store::Covered)>,
    /// Files that were closed with unsynced bytes when it began.
    pub(super) closed: u64,
}

pub(super) struct Ledger {
    pub(super) residents: Arc<Residents>,
    pub(super) dir: Arc<LogDir>,
    pub(super) announce: Arc<dyn Announce>,
    /// Partitions with something to write, in the order of the list.
    pub(super) pending: VecDeque<Arc<Partition>>,
    /// True if the order of the last turn was reversed.
    pub(super) is_backward: bool,
    /// A write found the disk full, and is tried again then.
    pub(super) retry_at: Option<Instant>,
    /// A cut was not durable yet, and is looked at again then.
    pub(super) later_at: Option<Instant>,
    pub(super) hot: HotTail,
    /// Partitions written since the last checkpoint began.
    pub(super) unsynced: BTreeMap<Key, Arc<Partition>>,
    /// The journal's point of a checkpoint that was begun and is to continue in the next turn.
    pub(super) prepared: Option<Point>,
    /// A checkpoint whose files the syncer syncs.
    pub(super) under_way: Option<Covered>,
    /// The round that the last checkpoint covers up to.
    pub(super) checkpointed: u64,
    pub(super) removals: Removals,
    pub(super) spent: VecDeque<(Instant, Arc<Home>, Deleted)>,
    /// Relaxed partitions whose `flush.ms` runs; one entry each at most.
    pub(super) flushes: BTreeMap<Key, (Instant, Arc<Partition>)>,
    /// When the free space is looked at again.
    pub(super) space_at: Instant,
}

impl Ledger {
    pub(super) fn new(residents: Arc<Residents>, announce: Arc<dyn Announce>) -> Ledger {
        let dir = Arc::clone(&residents.dir);
        Ledger {
            residents,
            announce,
            pending: VecDeque::new(),
            is_backward: false,
            retry_at: None,
            later_at: None,
            hot: HotTail::default(),
            unsynced: BTreeMap::new(),
            prepared: None,
            under_way: None,
            checkpointed: dir.release_to.load(Ordering::Relaxed),
            removals: Removals::default(),
            spent: VecDeque::new(),
            flushes: BTreeMap::new(),
            space_at: dir.env.clock.now(),
            dir,
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.dir.stopping.load(Ordering::Acquire)
    }

    /// The files of a partition that lives here.
    pub(super) fn home_of(&self, partition: &Partition) -> Option<Arc<Home>> {
        let home = partition.home();
        Arc::ptr_eq(&home.dir, &self.dir).then_some(home)
    }

    /// The oldest record that is not synced is to be synced at `at`.
    pub(super) fn note_flush(&mut self, partition: &Arc<Partition>, at: Option<Instant>) {
        // Half of the range, 292 years, is as good as never, and leaves room to add.
        if let Some(at) = at.filter(|at| at.0 < u64::MAX / 2) {
            self.flushes
                .insert(partition.key(), (at, Arc::clone(partition)));
        }
    }

    /// Commits what this loop has queued itself; whoever else is committing takes it along.
    pub(super) fn commit_queued(&self) {
        let mut news = Vec::new();
        while self.dir.commit(&mut news) == Commit::Done && self.dir.has_queued() {}
        self.announce.announce(news);
    }

    /// Gives back the room that segments reserved ahead.
    pub(super) fn trim_segments(&self) {
        let partitions = self.residents.all();
        for home in partitions.iter().filter_map(|of| self.home_of(of)) {
            if let Some(store) = home.store.get() {
                store.trim();
            }
        }
    }

    pub(super) fn io(&self, error: io::Error) -> StoreError {
        StoreError::Io {
            path: self.dir.path.clone(),
            error,
        }
    }
}

/// True if something could not be opened for want of a descriptor: that is tried again, and nothing is lost.
pub(super) fn is_passing(error: &StoreError) -> bool {
    matches!(error, StoreError::Io { error, .. } if lacks_descriptors(error))
}
