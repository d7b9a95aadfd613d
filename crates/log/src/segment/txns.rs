//! Aborted transactions of a segment: in memory once they were asked for, in their files with the next checkpoint.
//!
//! Invariant: while the files are whole, the first `stored` entries of the list are theirs, and entries are only ever added behind
//! the last. Files that do not verify are not written any more, so that the next start sees it too; the list is then told to nobody
//! before it was mended from the batches (`store::mend`). Does not read batches.

use std::io;

use env::FileHandle;
use model::{Offset, ProducerId};

use super::Segment;
use crate::scan::{Damage, ScanError};
use crate::store::DELETED;
use crate::txn_index::{AbortedTxn, Files, Stored};

#[derive(Default)]
pub(super) struct Txns {
    list: Vec<AbortedTxn>,
    stored: usize,
    standing: Standing,
    /// The files are not what the list says, and are left alone.
    is_apart: bool,
    /// Open until their bytes are synced: the kernel may forget a failed write-back of a closed file.
    unsynced: Option<[FileHandle; 2]>,
}

/// The state of knowledge about a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    #[default]
    Sound,
    /// Entries may be missing.
    Doubtful,
    /// Entries are missing and cannot be rebuilt from the batches; the reason.
    Lost(Damage),
}

/// An abort marker of the segment and the first batch of its transaction, when any is left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) producer_id: ProducerId,
    pub(crate) first_offset: Option<Offset>,
    pub(crate) last_offset: Offset,
}

impl Txns {
    /// The batches may show by now what they did not.
    pub(super) fn doubt_again(&mut self) {
        if matches!(self.standing, Standing::Lost(_)) {
            self.standing = Standing::Doubtful;
        }
    }

    fn stored(list: Vec<AbortedTxn>) -> Txns {
        Txns {
            stored: list.len(),
            list,
            ..Txns::default()
        }
    }
}

impl Segment {
    fn txn_files(&self) -> Files {
        Files::of(&self.dir, self.base)
    }

    fn with_txns<T>(&self, of: impl FnOnce(&mut Txns) -> T) -> io::Result<T> {
        let mut guard = self.txns.lock();
        let txns = match &mut *guard {
            Some(txns) => txns,
            None => {
                let Stored { entries, is_sound } = self.txn_files().load(&**self.pool.disk())?;
                let mut txns = Txns::stored(entries);
                if !is_sound {
                    // Nobody cut what lies behind the end: it is of a log that a crash took.
                    let end = self.end();
                    txns.list.retain(|txn| txn.last_offset < end);
                    txns.standing = Standing::Doubtful;
                    txns.is_apart = true;
                    // A torn end shows that they are not sound, and must not go with a power cut after the next checkpoint.
                    txns.unsynced = Some(self.txn_files().open(&**self.pool.disk())?);
                }
                guard.insert(txns)
            }
        };
        Ok(of(txns))
    }

    /// The transactions of a segment that is written elsewhere, whose files get them when it is swapped in.
    pub(super) fn set_txns(&self, list: Vec<AbortedTxn>) {
        *self.txns.lock() = Some(Txns::stored(list));
    }

    /// Looks at the files if nobody did.
    pub(crate) fn txns_standing(&self) -> io::Result<Standing> {
        self.with_txns(|txns| txns.standing)
    }

    /// Everything aborted here. Only of a list that is sound.
    pub(crate) fn all_aborted(&self) -> Result<Vec<AbortedTxn>, ScanError> {
        self.with_txns(|txns| match txns.standing {
            Standing::Sound => Ok(txns.list.clone()),
            Standing::Lost(damage) => Err(damage.into()),
            Standing::Doubtful => Err(io::Error::other("the transaction index is in doubt").into()),
        })?
    }

    /// Notes a transaction; one that is known already, as a replay reports it again, changes nothing.
    pub(crate) fn add_aborted(&self, txn: AbortedTxn) -> io::Result<()> {
        self.with_txns(|txns| {
            let last = txns.list.last();
            if last.is_none_or(|last| last.last_offset < txn.last_offset) {
                txns.list.push(txn);
            }
        })
    }

    /// Writes entries that the files lack. Returns whether the directory must be synced for new files.
    pub(crate) fn write_txns(&self) -> io::Result<bool> {
        let mut guard = self.txns.lock();
        let Some(txns) = guard.as_mut().filter(|txns| !txns.is_apart) else {
            return Ok(false);
        };
        let new = txns.list.get(txns.stored..).unwrap_or_default();
        if new.is_empty() {
            return Ok(false);
        }
        let disk = &**self.pool.disk();
        let files = self.txn_files().append(disk, txns.stored, new)?;
        let is_first = txns.stored == 0;
        txns.stored = txns.list.len();
        txns.unsynced = Some(files);
        Ok(is_first)
    }

    /// The files whose bytes a sync must cover.
    pub(crate) fn take_unsynced_txns(&self) -> Option<[FileHandle; 2]> {
        self.txns.lock().as_mut()?.unsynced.take()
    }

    /// Forgets transactions whose marker lies at or above `end`.
    pub(super) fn cut_txns(&self, end: Offset) -> io::Result<()> {
        self.with_txns(|txns| {
            if !txns.is_apart {
                self.txn_files().cut(&**self.pool.disk(), end)?;
            }
            let kept = txns.list.partition_point(|txn| txn.last_offset < end);
            txns.list.truncate(kept);
            txns.stored = txns.stored.min(kept);
            Ok(())
        })?
    }

    /// Adds aborted transactions that touch `from..upto`; true when no later segment can have more of them. `None` when they are
    /// not known without a look at the disk.
    pub(crate) fn collect_aborted(
        &self,
        from: Offset,
        upto: Offset,
        into: &mut Vec<AbortedTxn>,
    ) -> Result<Option<bool>, Damage> {
        let guard = self.txns.lock();
        let Some(txns) = &*guard else {
            return Ok(None);
        };
        match txns.standing {
            Standing::Sound => {}
            Standing::Doubtful => return Ok(None),
            Standing::Lost(damage) => return Err(damage),
        }
        for txn in &txns.list {
            if txn.last_offset >= from && txn.first_offset < upto {
                into.push(*txn);
            }
            if txn.last_stable_offset >= upto {
                return Ok(Some(true));
            }
        }
        Ok(Some(false))
    }

    /// The list is made anew from the abort markers below `upto`, and goes to its files unless the name is another's.
    pub(crate) fn mend_txns(&self, ended: &[Ended], upto: Offset) -> io::Result<()> {
        self.with_txns(|txns| {
            let known = std::mem::take(&mut txns.list);
            for one in ended {
                let at = known.binary_search_by_key(&one.last_offset, |txn| txn.last_offset);
                let is_same = |txn: &&AbortedTxn| txn.producer_id == one.producer_id;
                let exact = at
                    .ok()
                    .and_then(|at| known.get(at))
                    .filter(is_same)
                    .copied();
                let stable = txns.list.last().map(|before| before.last_stable_offset);
                let found = one.first_offset.map(|first_offset| AbortedTxn {
                    producer_id: one.producer_id,
                    first_offset,
                    last_offset: one.last_offset,
                    // It never goes back. One that is too low only makes a reader look further.
                    last_stable_offset: stable.unwrap_or(Offset::ZERO),
                });
                txns.list.extend(exact.or(found));
            }
            // Those that came meanwhile.
            let later = known.into_iter().filter(|txn| upto <= txn.last_offset);
            txns.list.extend(later);
            txns.standing = Standing::Sound;
            let detached = self.detached.lock();
            if !*detached && self.replace_txns(&txns.list).is_ok() {
                txns.stored = txns.list.len();
                txns.is_apart = false;
            }
        })
    }

    /// A crash on the way leaves files that do not agree, and those half made go at the next start.
    fn replace_txns(&self, list: &[AbortedTxn]) -> io::Result<()> {
        let disk = &**self.pool.disk();
        let new = Files::on_the_way(&self.dir, self.base, DELETED);
        new.create(disk, list)?;
        new.rename_to(disk, &self.txn_files())
    }

    /// Entries may be missing: the batches are asked before the list is told again.
    pub(crate) fn doubt_txns(&self) -> io::Result<()> {
        self.with_txns(|txns| {
            if txns.standing == Standing::Sound {
                txns.standing = Standing::Doubtful;
            }
        })
    }

    /// Nothing has the list any more.
    pub(crate) fn lose_txns(&self, why: Damage) -> io::Result<()> {
        self.with_txns(|txns| txns.standing = Standing::Lost(why))
    }
}
