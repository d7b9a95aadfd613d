//! Open files of a log directory, fewer than there are files.
//!
//! A segment asks for its file each time it needs it and gets the open handle or a fresh one. Past the bound, handles that
//! were not asked for lately are closed (second chance). Invariant: a pinned file stays open, unless the next sync is one of
//! the whole volume. Files with bytes that are not synced are pinned, because the kernel may forget a failed write-back once
//! nobody holds the file open; a sync of the volume is told of it all the same.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use env::disk::Open;
use env::{Disk, FileHandle};
use parking_lot::Mutex;

/// Handles looked at per opened file; keeps an open cheap when nearly all files are pinned.
const STEPS_MAX: usize = 32;

pub struct FilePool {
    disk: Arc<dyn Disk>,
    open_max: usize,
    ring: Mutex<VecDeque<Weak<SlotState>>>,
    open: Arc<AtomicUsize>,
    opened: AtomicU64,
    volume_sync_follows: AtomicBool,
    /// Files closed with unsynced bytes. Changes with the ring locked, as does the end of a volume's sync.
    closed_unsynced: AtomicU64,
}

/// A handle that counts while the pool holds it.
struct Held {
    file: FileHandle,
    open: Arc<AtomicUsize>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct SlotState {
    handle: Mutex<Option<Held>>,
    used: AtomicBool,
    pinned: AtomicBool,
}

/// A file's place in the pool. Cheap while the file is closed.
#[derive(Default)]
pub struct Slot(Arc<SlotState>);

impl FilePool {
    /// `open_max` is a soft bound: pinned files and handles still in use by a reader come on top.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, open_max: usize) -> Arc<FilePool> {
        Arc::new(FilePool {
            disk,
            open_max: open_max.max(1),
            ring: Mutex::default(),
            open: Arc::default(),
            opened: AtomicU64::new(0),
            volume_sync_follows: AtomicBool::new(false),
            closed_unsynced: AtomicU64::new(0),
        })
    }

    #[must_use]
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Files opened since the start.
    #[must_use]
    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Files held open now.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// From here on what is not synced will be by a sync of the whole volume, so its files need not stay open.
    pub fn expect_volume_sync(&self) {
        self.volume_sync_follows.store(true, Ordering::Relaxed);
    }

    /// True if files with unsynced bytes may have been closed, so that only a sync of the volume covers them.
    #[must_use]
    pub fn expects_volume_sync(&self) -> bool {
        self.volume_sync_follows.load(Ordering::Relaxed)
    }

    /// Files that were closed with unsynced bytes since the start; what a sync of the volume that begins now covers.
    #[must_use]
    pub fn closed_unsynced(&self) -> u64 {
        self.closed_unsynced.load(Ordering::Relaxed)
    }

    /// The volume was synced, after so many files had been closed: later ones need another sync of it.
    pub fn on_volume_synced(&self, closed_unsynced: u64) {
        let _ring = self.ring.lock();
        if self.closed_unsynced() == closed_unsynced {
            self.volume_sync_follows.store(false, Ordering::Relaxed);
        }
    }

    fn is_crowded(&self) -> bool {
        self.open_count() > self.open_max
    }

    /// More files are open than should be, most of them for bytes that are not synced: who writes now syncs what it wrote.
    pub(crate) fn needs_relief(&self) -> bool {
        self.is_crowded() && !self.expects_volume_sync()
    }

    /// The handle of `slot`, opened when it is closed.
    pub fn get(
        &self,
        slot: &Slot,
        how: Open,
        path: impl FnOnce() -> Box<Path>,
    ) -> io::Result<FileHandle> {
        self.open(slot, how, path, false)
    }

    /// The same for a writer: the file stays open until [`Slot::unpin`].
    pub fn get_pinned(
        &self,
        slot: &Slot,
        how: Open,
        path: impl FnOnce() -> Box<Path>,
    ) -> io::Result<FileHandle> {
        self.open(slot, how, path, true)
    }

    fn open(
        &self,
        slot: &Slot,
        how: Open,
        path: impl FnOnce() -> Box<Path>,
        pin: bool,
    ) -> io::Result<FileHandle> {
        let mut handle = slot.0.handle.lock();
        slot.0.used.store(true, Ordering::Relaxed);
        if pin {
            slot.0.pinned.store(true, Ordering::Relaxed);
        }
        if let Some(held) = &*handle {
            return Ok(Arc::clone(&held.file));
        }
        let opened = self.disk.open(&path(), how)?;
        self.open.fetch_add(1, Ordering::Relaxed);
        *handle = Some(Held {
            file: Arc::clone(&opened),
            open: Arc::clone(&self.open),
        });
        drop(handle);
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.admit(slot);
        Ok(opened)
    }

    fn admit(&self, slot: &Slot) {
        let mut ring = self.ring.lock();
        ring.push_back(Arc::downgrade(&slot.0));
        self.close_some(&mut ring, STEPS_MAX);
    }

    /// Closes files beyond the bound after `unpinned` of them were let go.
    pub fn trim(&self, unpinned: usize) {
        self.close_some(&mut self.ring.lock(), 2 * unpinned + STEPS_MAX);
    }

    fn close_some(&self, ring: &mut VecDeque<Weak<SlotState>>, steps: usize) {
        for _ in 0..steps {
            // Places of files that were closed by name stay in the ring until they come by.
            if !self.is_crowded() && ring.len() <= 2 * self.open_max {
                break;
            }
            let Some(first) = ring.pop_front() else { break };
            let Some(state) = first.upgrade() else {
                continue;
            };
            let mut handle = state.handle.lock();
            // Both flags are set under the handle's lock, so a writer cannot slip in between question and close.
            let is_pinned = state.pinned.load(Ordering::Relaxed);
            let is_held = is_pinned && !self.expects_volume_sync();
            let stays = is_held || state.used.swap(false, Ordering::Relaxed) || !self.is_crowded();
            if handle.is_none() {
                continue;
            }
            if stays {
                ring.push_back(first);
            } else {
                *handle = None;
                self.closed_unsynced
                    .fetch_add(u64::from(is_pinned), Ordering::Relaxed);
            }
        }
    }
}

impl Slot {
    /// Lets the pool close the file again: its bytes are synced.
    pub fn unpin(&self) {
        self.0.pinned.store(false, Ordering::Relaxed);
    }

    /// Forgets the handle, for a file that was renamed or removed; readers that have it keep it.
    pub fn close(&self) {
        *self.0.handle.lock() = None;
    }
}
