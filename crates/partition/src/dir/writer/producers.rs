//! Chore: producers that were silent for too long are forgotten.

use log::store::StoreError;
use model::{Instant, Timestamp};

use super::chore::{Chore, Flow, Moment};
use super::ledger::Ledger;
use crate::partition::Partition;

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

impl Partition {
    /// Forgets producers that were silent for longer than `producer.id.expiration.ms`.
    fn expire_producers(&self, now: Timestamp, expiration_ms: i64) {
        let home = self.home();
        {
            let mut state = self.state.lock();
            state.producers.expire(now, expiration_ms);
            state.guards.expire(now, expiration_ms);
        }
        home.derived.lock().producers.expire(now, expiration_ms);
    }
}
