//! A segment whose damage was repaired: what was learnt of the damaged bytes is forgotten.

use std::io;
use std::sync::atomic::Ordering;

use model::Offset;

use super::{Segment, Walk};
use crate::scan::{HeadScan, ScanError};

impl Segment {
    /// A walk that meets the batch of `at`: from an entry of the index that leads to its batch, or from the begin. The index may have been
    /// made from a base offset that had rotted.
    pub(crate) fn walk_to(&self, at: Offset) -> Result<Walk, ScanError> {
        self.load()?;
        if let Some(entry) = self.offset_floor(at)? {
            let position = entry.position.max(0) as u64;
            let file = self.file()?;
            match HeadScan::new(&*file, position, self.len(), self.base).step() {
                Ok(Some((_, head)))
                    if head.last_offset().0 == self.base.0 + i64::from(entry.relative)
                        && (self.heads(position..position + 1)?)
                            .check(position, &head)
                            .is_ok() =>
                {
                    return Ok(Walk::from(position, head.base_offset()));
                }
                Err(error) if !error.is_local() => return Err(error),
                _ => {}
            }
        }
        // A leap of offsets may lie in front of the first batch.
        Ok(Walk::from(0, self.base))
    }

    /// An offset in front of `position`, or at the first damage before it.
    pub(crate) fn offset_near(&self, position: u64) -> Result<Offset, ScanError> {
        let file = self.file()?;
        let mut scan = HeadScan::new(&*file, 0, position, self.base);
        let mut offset = self.base;
        loop {
            match scan.step() {
                Ok(Some((_, head))) => offset = head.last_offset(),
                Ok(None) => return Ok(offset),
                Err(error) if error.is_local() => return Ok(offset),
                Err(error) => return Err(error),
            }
        }
    }

    /// The true bytes are in the place of damaged ones, and the file has `len` bytes now. Indexes are made anew: in this life or an
    /// earlier one they may have been made from heads whose times had rotted, which a walk over heads does not notice.
    pub(crate) fn on_repaired(&self, len: u64) -> io::Result<()> {
        self.len.store(len, Ordering::Release);
        self.rebuild().map(drop)
    }

    /// Aborted transactions that nobody could tell are looked for in the batches once more.
    pub(crate) fn look_for_txns_again(&self) {
        if let Some(txns) = &mut *self.txns.lock() {
            txns.doubt_again();
        }
    }
}
