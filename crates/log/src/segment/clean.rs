//! A segment on its way into the log, and one on its way out: the two sides of a swap.
//!
//! A new one is noted batch by batch while its file has a temporary name. An old one is detached before its name goes to the
//! new file: its files stay open for the readers that have it, and it writes nothing under its name any more.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use env::disk::Open;
use model::Offset;
use wire::records::Batch;

use super::{Dir, Index, Inner, Seen, Segment};
use crate::index::{Entry, OffsetEntry, TimeEntry};
use crate::pool::FilePool;
use crate::scan::ScanError;
use crate::txn_index::AbortedTxn;

impl Segment {
    /// A segment whose file is written elsewhere and gets its name in a swap.
    pub(crate) fn cleaned(pool: &Arc<FilePool>, dir: &Arc<Dir>, base: Offset) -> Segment {
        let segment = Segment::existing(pool, dir, base, 0, base, false);
        *segment.inner.write() = Inner::empty(base, false);
        segment.keep_heads_apart();
        segment
    }

    /// Takes note of batches that were written at `position`.
    pub(crate) fn note_cleaned(&self, mut position: u64, batches: &[Batch], interval: u64) {
        self.note_heads(position, batches);
        let mut inner = self.inner.write();
        for batch in batches {
            let seen = Seen::of(batch, batch.latest_time());
            inner.note(self.base, position, seen, interval);
            position += batch.size() as u64;
        }
    }

    /// The file is complete: `len` bytes of batches that end before `end`.
    pub(crate) fn finish_cleaned(&self, len: u64, end: Offset, aborted: Vec<AbortedTxn>) {
        let mut inner = self.inner.write();
        inner.finish(self.base);
        inner.sealed = true;
        inner.end = end;
        drop(inner);
        self.set_txns(aborted);
        self.len.store(len, Ordering::Release);
        // Written by us a moment ago, from batches that were verified.
        self.trust.on_append(0);
    }

    /// From now on the segment lives from what it has open: its name will be another's.
    pub(crate) fn detach(&self) -> Result<(), ScanError> {
        // Facts that are not in memory yet are read while the name still leads to the file.
        self.load()?;
        self.all_aborted()?;
        let mut detached = self.detached.lock();
        self.pinned_file()?;
        if matches!(self.inner.read().index, Index::Files { .. }) {
            let path = |extension| self.path(extension);
            self.pool.get_pinned(&self.offsets_file, Open::Read, || {
                path(OffsetEntry::EXTENSION)
            })?;
            self.pool
                .get_pinned(&self.times_file, Open::Read, || path(TimeEntry::EXTENSION))?;
        }
        self.detach_heads()?;
        *detached = true;
        Ok(())
    }

    /// The swap did not happen: the name is its own again.
    pub(crate) fn attach(&self) {
        *self.detached.lock() = false;
        self.attach_heads();
        for slot in self.slots() {
            slot.unpin();
        }
    }

    /// Writes the indexes of a segment that was swapped in, and frees their memory.
    pub(crate) fn store_indexes(&self) -> std::io::Result<()> {
        self.write_indexes()?;
        self.to_files();
        Ok(())
    }
}
