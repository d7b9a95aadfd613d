//! Transactions met while a log is cleaned: which batches were aborted, and which markers have lost all of their records.
//!
//! A marker stays until a pass met no batch of its transaction any more. Fed with batches in offset order and with the aborted
//! transactions of the segments before their batches come. Does no IO and decides nothing about time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use model::{Offset, ProducerId};
use wire::records::{Batch, ControlRecord, EndTxn, Head};

use crate::txn_index::AbortedTxn;

#[derive(Debug, Default)]
pub struct CleanedTxns {
    /// By first offset, not reached yet.
    aborted: BinaryHeap<Reverse<ByFirst>>,
    /// Aborted transactions whose first offset was passed and whose marker was not, and whether a batch of theirs was met.
    ongoing: HashMap<ProducerId, (AbortedTxn, bool)>,
    /// Producers of batches that no abort covers and whose marker did not come yet.
    committed: HashSet<ProducerId>,
    /// Aborted transactions whose batches were met in what is being written: the index of the new segment.
    noted: Vec<AbortedTxn>,
}

#[derive(Debug, PartialEq, Eq)]
struct ByFirst(AbortedTxn);

impl Ord for ByFirst {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |of: &ByFirst| (of.0.first_offset, of.0.last_offset);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for ByFirst {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl CleanedTxns {
    /// Aborted transactions that touch the next segment. One may be told again with the segment after.
    pub fn expect(&mut self, aborted: Vec<AbortedTxn>) {
        self.aborted
            .extend(aborted.into_iter().map(|aborted| Reverse(ByFirst(aborted))));
    }

    /// Meets a batch of records; true when it was aborted and its records may go.
    pub fn on_records(&mut self, batch: &Head) -> bool {
        self.reach(batch.last_offset());
        if !batch.attributes().is_transactional() {
            return false;
        }
        match self.ongoing.get_mut(&batch.producer_id()) {
            Some((_, is_met)) => {
                *is_met = true;
                true
            }
            None => {
                self.committed.insert(batch.producer_id());
                false
            }
        }
    }

    /// Meets a control batch; true when nothing is left of its transaction, so that it may go in its time.
    pub fn on_control(&mut self, batch: &Batch) -> bool {
        self.reach(batch.last_offset());
        // One without records was cleaned before.
        if batch.record_count() == 0 {
            return true;
        }
        match ControlRecord::read(batch) {
            Some(ControlRecord::EndTxn(EndTxn {
                committed: true, ..
            })) => !self.committed.remove(&batch.producer_id()),
            Some(ControlRecord::EndTxn(_)) => match self.ongoing.remove(&batch.producer_id()) {
                Some((aborted, true)) => {
                    self.noted.push(aborted);
                    false
                }
                Some((_, false)) | None => true,
            },
            Some(ControlRecord::Other { .. }) | None => false,
        }
    }

    /// The aborted transactions that ended since this was last asked, in order of their markers.
    pub fn take_noted(&mut self) -> Vec<AbortedTxn> {
        std::mem::take(&mut self.noted)
    }

    fn reach(&mut self, offset: Offset) {
        while let Some(Reverse(ByFirst(next))) = self.aborted.peek() {
            if next.first_offset > offset {
                break;
            }
            let Some(Reverse(ByFirst(next))) = self.aborted.pop() else {
                break;
            };
            self.ongoing
                .entry(next.producer_id)
                .or_insert((next, false));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{ProducerEpoch, Sequence, Timestamp};
    use wire::records::{BatchBuilder, end_txn_batch};

    fn data(id: i64, offset: i64) -> Batch {
        let mut builder = BatchBuilder::new()
            .transactional()
            .base_offset(Offset(offset))
            .producer(ProducerId(id), ProducerEpoch(0), Sequence(0));
        builder.push(Timestamp(1), Some(b"k"), Some(b"v"), &[]);
        builder.build()
    }

    fn marker(id: i64, offset: i64, committed: bool) -> Batch {
        let end = EndTxn {
            committed,
            coordinator_epoch: 0,
        };
        let mut batch = end_txn_batch(ProducerId(id), ProducerEpoch(0), end, Timestamp(1));
        batch.set_base_offset(Offset(offset));
        batch
    }

    fn aborted(id: i64, first: i64, last: i64) -> AbortedTxn {
        AbortedTxn {
            producer_id: ProducerId(id),
            first_offset: Offset(first),
            last_offset: Offset(last),
            last_stable_offset: Offset(last + 1),
        }
    }

    #[test]
    fn records_of_aborted_transactions_go_and_their_markers_one_pass_later() {
        let mut txns = CleanedTxns::default();
        txns.expect(vec![aborted(1, 0, 5)]);
        assert!(txns.on_records(&data(1, 0)));
        assert!(!txns.on_records(&data(2, 1)), "committed below");
        assert!(txns.on_records(&data(1, 2)));
        assert!(
            !txns.on_control(&marker(2, 4, true)),
            "its records are here"
        );
        assert!(
            !txns.on_control(&marker(1, 5, false)),
            "its records were here"
        );
        assert!(!txns.on_records(&data(1, 6)), "the next one of producer 1");
        assert_eq!(txns.take_noted(), [aborted(1, 0, 5)]);

        let mut again = CleanedTxns::default();
        again.expect(vec![aborted(1, 0, 5)]);
        assert!(!again.on_records(&data(2, 1)));
        assert!(!again.on_control(&marker(2, 4, true)));
        assert!(again.on_control(&marker(1, 5, false)), "nothing is left");
        assert!(again.take_noted().is_empty());
    }

    #[test]
    fn a_marker_whose_transaction_left_nothing_may_go() {
        let mut txns = CleanedTxns::default();
        assert!(txns.on_control(&marker(1, 5, true)));
        assert!(txns.on_control(&marker(1, 6, false)));
    }

    #[test]
    fn an_abort_told_with_two_segments_counts_once() {
        let mut txns = CleanedTxns::default();
        txns.expect(vec![aborted(1, 0, 5)]);
        assert!(txns.on_records(&data(1, 0)));
        txns.expect(vec![aborted(1, 0, 5)]);
        assert!(txns.on_records(&data(1, 3)));
        assert!(!txns.on_control(&marker(1, 5, false)));
        assert!(!txns.on_records(&data(1, 7)), "the abort is over");
    }
}
