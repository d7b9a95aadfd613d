//! Durable batches that are not in the segment files yet: how many bytes, and which logs have any.
//!
//! Commits add, the segment writer takes. Invariant: a log with something to write is on the list, or in the hands of the segment
//! writer, and that is rung before it sleeps on either. Past a bound the shards stop reading sockets.

use std::sync::Arc;

use env::Bell;

use super::durable::Key;
use crate::sync::{AtomicBool, AtomicIsize, Mutex, Ordering};

/// The most that settings grant: 128 MiB of batches that wait for the segment writer. Past the bound the shards stop reading
/// sockets, so clients slow down first.
pub(super) const UNWRITTEN_BYTES_MAX: isize = 128 << 20;
/// The segment writer is rung early at this much, at least.
pub(super) const UNWRITTEN_BYTES_RING: isize = 4 << 20;

pub(crate) struct Backlog {
    /// Logs with something to write, each once: a log knows whether it is on the list.
    listed: Mutex<Vec<Key>>,
    /// Below zero for moments: the segment writer may be done with a batch before the round that brought it is counted.
    unwritten_bytes: AtomicIsize,
    unwritten_bytes_max: isize,
    /// Number of unwritten bytes at which the segment writer wants to be rung.
    ring_at: AtomicIsize,
    /// True if someone waits for what is durable to be in the segment files.
    hurried: AtomicBool,
    is_writer_asleep: AtomicBool,
    bell: Arc<dyn Bell>,
}

impl Backlog {
    pub(super) fn new(bell: Arc<dyn Bell>, bytes_max: usize) -> Backlog {
        Backlog {
            listed: Mutex::default(),
            unwritten_bytes: AtomicIsize::new(0),
            unwritten_bytes_max: isize::try_from(bytes_max).unwrap_or(isize::MAX),
            ring_at: AtomicIsize::new(UNWRITTEN_BYTES_RING),
            hurried: AtomicBool::new(false),
            is_writer_asleep: AtomicBool::new(false),
            bell,
        }
    }

    /// Counts `bytes` to write, and puts a log that got the first of its own on the list.
    pub(crate) fn add(&self, bytes: usize, listed: Option<Key>) {
        if let Some(key) = listed {
            self.listed.lock().push(key);
        }
        let bytes = bytes as isize;
        let before = self.unwritten_bytes.fetch_add(bytes, Ordering::SeqCst);
        let ring_at = self.ring_at.load(Ordering::SeqCst);
        let crossed = before < ring_at && ring_at <= before + bytes;
        if crossed || self.is_writer_asleep.swap(false, Ordering::AcqRel) {
            self.bell.ring();
        }
    }

    /// Counts bytes that wait elsewhere: the bound holds for them, and nothing is to be written yet.
    pub(crate) fn hold(&self, bytes: usize) {
        let bytes = bytes as isize;
        self.unwritten_bytes.fetch_add(bytes, Ordering::SeqCst);
    }

    /// Takes off bytes that are written, or never will be.
    pub(crate) fn remove(&self, bytes: usize) {
        let bytes = bytes as isize;
        self.unwritten_bytes.fetch_sub(bytes, Ordering::SeqCst);
    }

    /// Asks the segment writer to write what is durable without gathering more.
    pub(crate) fn hurry(&self) {
        if !self.hurried.swap(true, Ordering::AcqRel) {
            self.bell.ring();
        }
    }

    /// True if someone asked for haste since the last call.
    pub(super) fn take_hurry(&self) -> bool {
        self.hurried.swap(false, Ordering::AcqRel)
    }

    pub(super) fn unwritten_bytes(&self) -> isize {
        self.unwritten_bytes.load(Ordering::SeqCst)
    }

    pub(super) fn is_over_bound(&self) -> bool {
        self.unwritten_bytes.load(Ordering::Relaxed) > self.unwritten_bytes_max
    }

    /// The segment writer is rung at this much at the latest, however many partitions share it: the last quarter of the bound is for what
    /// comes while they are written.
    pub(super) fn gathered_bytes_max(&self) -> isize {
        (self.unwritten_bytes_max / 4 * 3).max(UNWRITTEN_BYTES_RING)
    }

    pub(super) fn take_listed(&self) -> Vec<Key> {
        std::mem::take(&mut *self.listed.lock())
    }

    /// Returns logs that could not be written yet to the front of the list.
    pub(super) fn put_back(&self, listed: Vec<Key>) {
        self.listed.lock().splice(0..0, listed);
    }

    /// The segment writer wants to be rung at `bytes`.
    pub(super) fn ring_at(&self, bytes: isize) {
        self.ring_at.store(bytes, Ordering::SeqCst);
    }

    /// The segment writer is about to sleep with nothing to write, and the next log on the list rings it. False if one is there
    /// already.
    pub(super) fn fall_asleep(&self) -> bool {
        self.is_writer_asleep.store(true, Ordering::Release);
        // A commit between the last look and the mark did not ring.
        self.listed.lock().is_empty()
    }
}
