//! Bytes that came into a partition and went out, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Traffic {
    appended_bytes: AtomicU64,
    fetched_bytes: AtomicU64,
}

/// Bytes of batches since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficBytes {
    pub appended_bytes: u64,
    /// Given to readers.
    pub fetched_bytes: u64,
}

impl Traffic {
    pub(crate) fn on_appended(&self, bytes: usize) {
        self.appended_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn on_fetched(&self, bytes: usize) {
        self.fetched_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> TrafficBytes {
        TrafficBytes {
            appended_bytes: self.appended_bytes.load(Ordering::Relaxed),
            fetched_bytes: self.fetched_bytes.load(Ordering::Relaxed),
        }
    }
}
