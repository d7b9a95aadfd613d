//! Chore: the logs of partitions that this broker has no replica of any more end in the journal. Their files are removed when that is durable.

use log::store::StoreError;
use model::Instant;

use super::chore::{Chore, FULL_RETRY, Flow, Moment};
use super::ledger::Ledger;
use crate::cut::CutError;

#[derive(Default)]
pub(super) struct Leaving {
    /// When partitions that are busy are tried again.
    retry_at: Option<Instant>,
}

impl Chore for Leaving {
    /// A partition that comes rings.
    fn due(&self, _: &Ledger, _: Instant) -> Option<Instant> {
        self.retry_at
    }

    fn runs(&self, ledger: &Ledger, _: Instant) -> bool {
        !ledger.residents.leaving.lock().is_empty()
    }

    fn run(&mut self, ledger: &mut Ledger, moment: &mut Moment) -> Result<Flow, StoreError> {
        let leaving = std::mem::take(&mut *ledger.residents.leaving.lock());
        let mut busy = Vec::new();
        for partition in ledger.residents.named(&leaving) {
            // The partition is on its way to another directory, which it will not reach, or its files are still to be cut.
            if let Err(CutError::Moving | CutError::Writing) = partition.empty_out() {
                busy.push(partition.key());
            }
        }
        self.retry_at = (!busy.is_empty()).then(|| moment.now.plus(FULL_RETRY));
        ledger.residents.leaving.lock().append(&mut busy);
        ledger.commit_queued();
        ledger.dir.backlog.hurry();
        Ok(Flow::Continue(()))
    }
}
