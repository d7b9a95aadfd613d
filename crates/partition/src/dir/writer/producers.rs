//! Chore: producers that were silent for too long are forgotten.

use log::store::StoreError;
use model::Instant;

use super::chore::{Chore, Flow, Moment};
use super::ledger::Ledger;

pub(super) struct ProducerExpiry {
    pub(super) at: Instant,
}

impl Chore for ProducerExpiry {
    fn due(&self, _: &Ledger, _: Instant) -> Option<Instant> {
        Some(self.at)
    }

    fn run(&mut self, ledger: &mut Ledger, moment: &mut Moment) -> Result<Flow, StoreError> {
        let settings = &ledger.dir.settings;
        self.at = moment.now.plus(settings.producer_expiration_check);
        let expiration_ms = ledger.residents.producer_expiration_ms();
        for partition in &ledger.residents.all() {
            partition.expire_producers(moment.wall, expiration_ms);
        }
        Ok(Flow::Continue(()))
    }
}
