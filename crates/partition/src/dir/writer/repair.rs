//! Chore: damage that somebody met is looked at as a whole, and written over with what another replica has.
//!
//! The segment writer repairs, because each partition's files have one writer. Only what is committed is repaired: that is the same on all
//! replicas in sync. One place in a turn.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use log::store::{DamagedRange, ReadError, RepairError, StoreError};
use model::{BrokerId, Instant, Offset};

use super::chore::{Chore, Flow, Moment};
use super::ledger::Ledger;
use crate::dir::damages::Work;
use crate::dir::durable::Key;
use crate::partition::{Home, Partition};
use crate::sync::Ordering;

/// Damage above what is known to be committed, and files that cannot be looked at now, are looked at again after this.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

pub(super) struct Repair;

/// A place whose partition lives here.
struct Site {
    partition: Arc<Partition>,
    home: Arc<Home>,
}

impl Repair {
    fn site(ledger: &Ledger, key: Key) -> Option<Site> {
        let partition = ledger.residents.partition(key.0, key.1)?;
        let home = ledger.home_of(&partition)?;
        Some(Site { partition, home })
    }

    fn look(&self, ledger: &Ledger, key: Key, at: Offset, now: Instant) {
        let damages = &ledger.dir.damages;
        let Some(site) = Repair::site(ledger, key) else {
            return damages.forget(key, at);
        };
        let again = || damages.look_again(key, at, now.plus(LOOK_AGAIN));
        let (start, restart_point, committed, is_cutting) = {
            let state = site.partition.state.lock();
            let committed = state.progress.points().committed;
            let is_cutting = state.cuts.are_pending();
            (
                state.local_start,
                state.restart_point,
                committed,
                is_cutting,
            )
        };
        // Files that do not know of a cut hold another life.
        if is_cutting {
            return again();
        }
        let found = site.home.store.get().map(|store| store.damaged_range(at));
        match found {
            Some(Ok(Some(range))) if range.to <= start => {
                damages.forget(key, at);
                Repair::mend_producers(ledger, &site);
            }
            // The tier has it.
            Some(Ok(Some(range))) if range.to <= restart_point => {
                site.partition.advance_local_start(range.to);
                again();
            }
            Some(Ok(Some(range))) if committed < range.to => again(),
            Some(Ok(Some(range))) => {
                damages.on_found(key, at, range);
                ledger.announce.announce(damages.news());
            }
            Some(Err(ReadError::Io { .. })) => again(),
            // The place verifies by now, or is gone.
            None | Some(Ok(None) | Err(_)) => {
                site.partition.state.lock().reported = None;
                damages.on_unfound(key, at, now);
                Repair::mend_producers(ledger, &site);
            }
        }
    }

    /// Rebuilds states of producers that lacked what rotted.
    fn mend_producers(ledger: &Ledger, site: &Site) {
        let Some(store) = site.home.store.get() else {
            return;
        };
        let mut derived = site.home.derived.lock();
        match derived.mend(&*ledger.dir.env.disk, store) {
            Ok(false) => {}
            Ok(true) => {
                let mut state = site.partition.state.lock();
                // Otherwise the end of the cut takes them.
                if state.cuts.are_over() {
                    state.take_producers(&derived);
                }
            }
            Err(error) => tracing::warn!(target: env::logs::STORAGE,
                "states of producers are not made anew yet: {error}"),
        }
    }

    fn write(
        &self,
        ledger: &Ledger,
        (key, range): (Key, DamagedRange),
        (from, records): (BrokerId, &[Bytes]),
        now: Instant,
    ) -> Result<(), StoreError> {
        let damages = &ledger.dir.damages;
        let Some(site) = Repair::site(ledger, key) else {
            damages.forget(key, range.from);
            return Ok(());
        };
        let repaired = {
            // Compaction swaps no segment in meanwhile.
            let _cleaning = site.home.cleaning.lock();
            let store = site.home.store.get();
            store.map_or(Err(RepairError::Changed), |store| {
                store.repair(&range, records)
            })
        };
        let Partition { topic, index, .. } = &*site.partition;
        match repaired {
            Ok(bytes) => {
                site.partition.state.lock().reported = None;
                damages.forget(key, range.from);
                ledger.dir.on_rot_repaired();
                site.home.repaired.fetch_add(1, Ordering::AcqRel);
                Repair::mend_producers(ledger, &site);
                env::tell!(
                    "{topic}-{index}: offsets {} to {} are repaired: {bytes} bytes of segment {} as broker {from} has them",
                    range.from,
                    range.to,
                    range.base
                );
            }
            Err(RepairError::Changed) => damages.look_again(key, range.from, now),
            Err(error) if error.is_passing() => {
                damages.look_again(key, range.from, now.plus(LOOK_AGAIN));
            }
            Err(RepairError::Sync(error)) => return Err(error),
            Err(error) => damages.on_refused(key, range, error.to_string()),
        }
        ledger.announce.announce(damages.news());
        Ok(())
    }
}

impl Chore for Repair {
    fn due(&self, ledger: &Ledger, now: Instant) -> Option<Instant> {
        ledger.dir.damages.due(now)
    }

    fn run(&mut self, ledger: &mut Ledger, moment: &mut Moment) -> Result<Flow, StoreError> {
        let now = moment.now;
        match ledger.dir.damages.next(now) {
            Some(Work::Look(key, at)) => self.look(ledger, key, at, now),
            Some(Work::Write {
                key,
                range,
                from,
                records,
            }) => self.write(ledger, (key, range), (from, &records), now)?,
            None => {}
        }
        Ok(Flow::Continue(()))
    }
}
