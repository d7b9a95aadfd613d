//! Aborted transactions of a segment: in memory once they were asked for, written through to their file.

use std::io;

use model::Offset;

use super::Segment;
use crate::txn_index::{self, AbortedTxn};

impl Segment {
    pub(super) fn edit_txns(&self, edit: impl FnOnce(&mut Vec<AbortedTxn>)) -> io::Result<()> {
        let path = self.path("txnindex");
        let disk = &**self.pool.disk();
        let mut txns = self.txns.lock();
        let list = match txns.take() {
            Some(list) => txns.insert(list),
            None => txns.insert(txn_index::load(disk, &path)?),
        };
        let before = list.clone();
        edit(list);
        if *list == before {
            Ok(())
        } else {
            txn_index::store(disk, &path, list)
        }
    }

    pub(crate) fn add_aborted(&self, txn: AbortedTxn) -> io::Result<()> {
        self.edit_txns(|txns| {
            if txns
                .last()
                .is_none_or(|last| last.last_offset < txn.last_offset)
            {
                txns.push(txn);
            }
        })
    }

    /// Adds aborted transactions that touch `from..upto`; true when no later segment can have more of them.
    pub(crate) fn collect_aborted(
        &self,
        from: Offset,
        upto: Offset,
        into: &mut Vec<AbortedTxn>,
    ) -> io::Result<bool> {
        let mut txns = self.txns.lock();
        let list = match txns.take() {
            Some(list) => txns.insert(list),
            None => txns.insert(txn_index::load(
                &**self.pool.disk(),
                &self.path("txnindex"),
            )?),
        };
        for txn in list.iter() {
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
