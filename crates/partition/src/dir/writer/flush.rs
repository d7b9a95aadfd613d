//! Chore: relaxed partitions are synced when their `flush.ms` has passed.

use log::store::StoreError;
use model::Instant;

use super::chore::{Chore, Flow, Moment};
use super::ledger::Ledger;

pub(super) struct Flushing;

impl Chore for Flushing {
    fn due(&self, ledger: &Ledger, _: Instant) -> Option<Instant> {
        ledger.flushes.values().map(|(at, _)| *at).min()
    }

    fn run(&mut self, ledger: &mut Ledger, moment: &mut Moment) -> Result<Flow, StoreError> {
        let flushes = &mut ledger.flushes;
        let due = flushes.extract_if(.., |_, (at, _)| *at <= moment.now);
        let mut due: Vec<_> = due.map(|(_, (_, partition))| partition).collect();
        due.retain(|partition| ledger.home_of(partition).is_some());
        if !due.is_empty() {
            due.iter().for_each(|partition| partition.flush());
            ledger.commit_queued();
        }
        Ok(Flow::Continue(()))
    }
}
