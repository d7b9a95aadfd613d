//! Aborted transactions of a segment: in memory once they were asked for, in their file with the next checkpoint.
//!
//! Invariant: the first `stored` entries of the list are those of the file. Entries are only ever added behind the last.

use std::io;

use env::FileHandle;
use model::Offset;
use parking_lot::MappedMutexGuard;
use parking_lot::MutexGuard;

use super::Segment;
use crate::txn_index::{self, AbortedTxn};

#[derive(Default)]
pub(super) struct Txns {
    list: Vec<AbortedTxn>,
    stored: usize,
    /// Open until its bytes are synced: the kernel may forget a failed write-back of a closed file.
    unsynced: Option<FileHandle>,
}

impl Segment {
    fn txns(&self) -> io::Result<MappedMutexGuard<'_, Txns>> {
        let mut txns = self.txns.lock();
        if txns.is_none() {
            let list = txn_index::load(&**self.pool.disk(), &self.path("txnindex"))?;
            *txns = Some(Txns {
                stored: list.len(),
                list,
                unsynced: None,
            });
        }
        Ok(MutexGuard::map(txns, |txns| txns.get_or_insert_default()))
    }

    /// The transactions of a segment that is written elsewhere, whose file gets them when it is swapped in.
    pub(super) fn set_txns(&self, list: Vec<AbortedTxn>) {
        *self.txns.lock() = Some(Txns {
            stored: list.len(),
            list,
            unsynced: None,
        });
    }

    pub(crate) fn all_aborted(&self) -> io::Result<Vec<AbortedTxn>> {
        Ok(self.txns()?.list.clone())
    }

    /// Notes a transaction; one that is known already, as a replay tells it again, changes nothing.
    pub(crate) fn add_aborted(&self, txn: AbortedTxn) -> io::Result<()> {
        let mut txns = self.txns()?;
        let last = txns.list.last();
        if last.is_none_or(|last| last.last_offset < txn.last_offset) {
            txns.list.push(txn);
        }
        Ok(())
    }

    /// Writes entries that the file lacks. Returns whether the directory must be synced for a new file.
    pub(crate) fn write_txns(&self) -> io::Result<bool> {
        let mut guard = self.txns.lock();
        let Some(txns) = guard.as_mut() else {
            return Ok(false);
        };
        let new = txns.list.get(txns.stored..).unwrap_or_default();
        if new.is_empty() {
            return Ok(false);
        }
        let disk = &**self.pool.disk();
        let file = txn_index::append(disk, &self.path("txnindex"), txns.stored, new)?;
        let is_first = txns.stored == 0;
        txns.stored = txns.list.len();
        txns.unsynced = Some(file);
        Ok(is_first)
    }

    /// The file whose bytes a sync must cover.
    pub(crate) fn take_unsynced_txns(&self) -> Option<FileHandle> {
        self.txns.lock().as_mut()?.unsynced.take()
    }

    /// Forgets transactions whose marker lies at or above `end`.
    pub(super) fn cut_txns(&self, end: Offset) -> io::Result<()> {
        let mut txns = self.txns()?;
        txn_index::cut(&**self.pool.disk(), &self.path("txnindex"), end)?;
        let kept = txns.list.partition_point(|txn| txn.last_offset < end);
        txns.list.truncate(kept);
        txns.stored = txns.stored.min(kept);
        Ok(())
    }

    /// Adds aborted transactions that touch `from..upto`; true when no later segment can have more of them.
    pub(crate) fn collect_aborted(
        &self,
        from: Offset,
        upto: Offset,
        into: &mut Vec<AbortedTxn>,
    ) -> io::Result<bool> {
        for txn in &self.txns()?.list {
            if txn.last_offset >= from && txn.first_offset < upto {
                into.push(*txn);
            }
            if txn.last_stable_offset >= upto {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
