//! Counters of a log directory since the start, for metrics: reading them takes no lock of the commit path.

use std::sync::atomic::{AtomicU64, Ordering};

use model::{Histogram, Instant};

#[derive(Debug, Default)]
pub struct Counters {
    rounds: AtomicU64,
    round_bytes: AtomicU64,
    /// Times from the begin of a round's write to the end of its sync.
    pub commits: Histogram,
    /// When the last checkpoint was durable; zero before the first.
    checkpoint_at: AtomicU64,
    checkpoints: AtomicU64,
    compacted_bytes: AtomicU64,
    compactions: AtomicU64,
}

/// The plain numbers of a directory at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    pub rounds: u64,
    pub round_bytes: u64,
    pub checkpoints: u64,
    /// None before the first.
    pub checkpoint_at: Option<Instant>,
    /// Bytes read and written by compaction.
    pub compacted_bytes: u64,
    /// Passes that came to their end.
    pub compactions: u64,
}

impl Counters {
    #[must_use]
    pub fn done(&self) -> Done {
        let number = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        let at = number(&self.checkpoint_at);
        Done {
            rounds: number(&self.rounds),
            round_bytes: number(&self.round_bytes),
            checkpoints: number(&self.checkpoints),
            checkpoint_at: (0 < at).then_some(Instant(at)),
            compacted_bytes: number(&self.compacted_bytes),
            compactions: number(&self.compactions),
        }
    }

    pub(crate) fn on_round(&self, bytes: usize) {
        self.rounds.fetch_add(1, Ordering::Relaxed);
        self.round_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A step of compaction; the last one of a pass `is_last`.
    pub(crate) fn on_compacted(&self, bytes: u64, is_last: bool) {
        self.compacted_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.compactions
            .fetch_add(u64::from(is_last), Ordering::Relaxed);
    }

    pub(crate) fn on_checkpoint(&self, now: Instant) {
        self.checkpoint_at.store(now.0, Ordering::Relaxed);
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
    }
}
