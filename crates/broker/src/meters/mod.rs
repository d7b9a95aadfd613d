//! Counts that the loops keep, where others read them.

pub(crate) mod counts;
pub(crate) mod held;
pub(crate) mod lag;
pub(crate) mod meter;
pub(crate) mod software;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use wire::ApiKey;

use self::counts::NodeCounts;
pub use self::held::Held;
use self::held::Row;
use self::lag::Committed;
use self::meter::Meter;
use self::software::Software;
use crate::mail::inboxes::ShardId;

pub(crate) struct Meters {
    /// By shard.
    held: Vec<Row>,
    meters: Vec<Arc<Meter>>,
    pub(crate) counts: NodeCounts,
    /// Offsets that the groups of each shard have committed, as of its last look.
    committed: Vec<Mutex<Vec<Committed>>>,
    /// Somebody may ask for metrics.
    is_watched: AtomicBool,
    pub(crate) software: Mutex<Software>,
}

impl Meters {
    pub(crate) fn new(shards: usize) -> Meters {
        Meters {
            held: (0..shards).map(|_| Row::default()).collect(),
            meters: (0..shards).map(|_| Arc::default()).collect(),
            counts: NodeCounts::default(),
            committed: (0..shards).map(|_| Mutex::default()).collect(),
            is_watched: AtomicBool::new(false),
            software: Mutex::default(),
        }
    }

    /// A shard reports what it holds.
    pub(crate) fn set_held(&self, shard: ShardId, held: Held) {
        if let Some(row) = self.held.get(usize::from(shard.0)) {
            row.write(held);
        }
    }

    /// Bytes that the shards held when the last turn of each ended.
    pub(crate) fn held(&self) -> Held {
        let mut all = Held::default();
        self.held.iter().for_each(|row| all += row.read());
        all
    }

    /// The counts of `shard`, one of those there are.
    pub(crate) fn of(&self, shard: ShardId) -> &Arc<Meter> {
        &self.meters[usize::from(shard.0)]
    }

    /// Bytes that clients sent to be appended.
    pub(crate) fn produced_bytes(&self) -> u64 {
        let meters = self.meters.iter();
        meters.map(|meter| meter.received(ApiKey::Produce)).sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Meter> {
        self.meters.iter().map(Arc::as_ref)
    }

    pub(crate) fn set_watched(&self) {
        self.is_watched.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    pub(crate) fn publish_committed(&self, shard: ShardId, rows: Vec<Committed>) {
        if let Some(own) = self.committed.get(usize::from(shard.0)) {
            *own.lock() = rows;
        }
    }

    pub(crate) fn committed(&self) -> Vec<Committed> {
        let rows = self.committed.iter().map(|own| own.lock().clone());
        rows.flatten().collect()
    }
}
