//! Chore: logs that are too long or too old begin later.

use log::store::StoreError;
use model::Instant;

use super::chore::{Chore, Flow, Moment};
use super::ledger::Ledger;

/// The new log start is committed like any trim; the files are removed once that is durable.
pub(super) struct Retention {
    pub(super) at: Instant,
}

impl Chore for Retention {
    fn due(&self, _: &Ledger, _: Instant) -> Option<Instant> {
        Some(self.at)
    }

    fn run(&mut self, ledger: &mut Ledger, moment: &mut Moment) -> Result<Flow, StoreError> {
        self.at = moment.now.plus(ledger.dir.settings.retention_check);
        for partition in &ledger.residents.all() {
            let home = ledger.home_of(partition);
            let Some(store) = home.as_ref().and_then(|home| home.store.get()) else {
                continue;
            };
            store.trim_idle();
            let bounds = partition.bounds();
            // Files go sooner than the log where the tier has it.
            let local = store.config().local_retention;
            let found = match local {
                Some(kept) => store.beyond(kept, moment.wall, bounds.restart_point),
                None => store.retirable(moment.wall, bounds.high_watermark),
            };
            match found.map(|old| old.last().map(|last| last.next)) {
                Ok(None) => {}
                Ok(Some(next)) if local.is_some() => drop(partition.advance_local_start(next)),
                Ok(Some(next)) => partition.advance_start(next),
                // The age of a segment cannot be read, so it stays. Nothing was written: the other partitions have no part in it.
                Err(error) => tracing::error!(target: env::logs::STORAGE,
                    "no retention of {}-{}: {error}",
                    partition.topic,
                    partition.index
                ),
            }
        }
        ledger.commit_queued();
        Ok(Flow::Continue(()))
    }
}
