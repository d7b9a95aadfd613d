//! Chore: the end of a move, at its target: files that are complete under another name become those of a partition that lives here.
//!
//! The segment writer, which alone renames and removes directories of partitions here, does this. Invariant: a checkpoint vouches for the
//! files before anyone hears that they are in place, and every later one does, until the partition lives here or its files are doomed.
//! Leftovers of a crash are removed by the next start, unless the metadata say that the partition lives here.

use std::io;
use std::sync::{Arc, OnceLock, Weak};

use log::store::{Known, Store, StoreError};
use model::{Instant, Timestamp};

use super::chore::{Chore, Flow, Moment};
use super::ledger::Ledger;
use crate::dir::r#move::arrival::{Arrival, ArrivalState, Guest};
use crate::partition::{Home, Registry};
use crate::sync::{AtomicU64, Mutex};

pub(super) struct Arrivals;

impl Chore for Arrivals {
    /// The move rings.
    fn due(&self, _: &Ledger, _: Instant) -> Option<Instant> {
        None
    }

    /// An arrival takes a checkpoint, and there is one at a time.
    fn runs(&self, ledger: &Ledger, _: Instant) -> bool {
        ledger.under_way.is_none()
    }

    fn run(&mut self, ledger: &mut Ledger, moment: &mut Moment) -> Result<Flow, StoreError> {
        ledger.take_in(moment.wall)?;
        Ok(Flow::Continue(()))
    }
}

impl Ledger {
    fn take_in(&mut self, wall: Timestamp) -> Result<(), StoreError> {
        let arrivals = std::mem::take(&mut *self.residents.arrivals.lock());
        if arrivals.is_empty() {
            return Ok(());
        }
        // An earlier life of such a partition here may have ended a moment ago: its files are removed first.
        let removed = self.remove_doomed();
        if removed.is_err() {
            self.residents.arrivals.lock().splice(0..0, arrivals);
            return removed;
        }
        let mut placed = Vec::new();
        for arrival in arrivals {
            match self.receive(&arrival) {
                Ok(Some(home)) => placed.push((arrival, home)),
                Ok(None) => {}
                Err(error) if error.is_full() => {
                    self.dir.set_full(true, &error.to_string());
                    arrival.conclude(ArrivalState::Refused);
                }
                Err(error) => return Err(error),
            }
        }
        if placed.is_empty() {
            return Ok(());
        }
        let point = *self.dir.point.lock();
        // A log that cannot be opened now, or a full disk, is tried again later; this move starts over.
        let is_vouched_for = match self.checkpoint_anyway(point, wall) {
            Err(error) if error.is_full() => false,
            done => done?,
        };
        for (arrival, home) in placed {
            arrival.conclude(if is_vouched_for {
                ArrivalState::Here(home)
            } else {
                ArrivalState::Refused
            });
        }
        Ok(())
    }

    /// Gives the files their final name. `None` when nobody wants them any more.
    fn receive(&mut self, arrival: &Arrival) -> Result<Option<Arc<Home>>, StoreError> {
        let mut place = arrival.place.lock();
        let partition = &arrival.partition;
        if !matches!(*place, ArrivalState::Waiting) || partition.is_deleted() {
            return Ok(None);
        }
        if self
            .residents
            .has_name_like(&partition.topic, partition.index)
        {
            let what = format!("{}-{}", partition.topic, partition.index);
            env::tell!(
                "{what} cannot move here: the volume takes its name for that of another topic"
            );
            *place = ArrivalState::Refused;
            return Ok(None);
        }
        let known = arrival.row.filter(|row| row.has_files).map(|row| Known {
            local_start: row.local_start,
            log_end: row.log_end,
            active_base: row.active_base,
            active_len: row.active_len.0,
        });
        let store = match known {
            Some(known) => {
                // Under its name there is at most what a move left that was called off.
                let now = self.dir.env.clock.now();
                if let Err(error) = self.bury(partition, now) {
                    let what = format!("{}-{}", partition.topic, partition.index);
                    env::tell!("{what} cannot move here as yet: {error}");
                    *place = ArrivalState::Refused;
                    return Ok(None);
                }
                Some(self.open_here(arrival, known)?)
            }
            None => None,
        };
        let guest = Guest {
            partition: Arc::clone(partition),
            row: arrival.row,
        };
        self.residents.guests.lock().insert(partition.key(), guest);
        let closed = known.map_or(0, |known| known.active_base.0 as u64);
        let registry: Weak<dyn Registry> = Arc::downgrade(&self.residents) as _;
        Ok(Some(Arc::new(Home {
            dir: Arc::clone(&self.dir),
            registry,
            store: store.map_or_else(OnceLock::new, OnceLock::from),
            derived: Mutex::new(arrival.derived.clone()),
            checkpointed: AtomicU64::new(closed),
            forgiven: AtomicU64::new(0),
            carried_at: AtomicU64::new(0),
            cleaning: Mutex::new(false),
            repaired: AtomicU64::new(0),
        })))
    }

    fn open_here(&self, arrival: &Arrival, known: Known) -> Result<Store, StoreError> {
        let partition = &arrival.partition;
        let path = self.dir.partition_path(&partition.topic, partition.index);
        let disk = &self.dir.env.disk;
        let named = disk
            .rename(&arrival.files, &path)
            .and_then(|()| disk.sync_dir(&self.dir.path));
        named.map_err(|error| self.io(error))?;
        let config = partition.config();
        let (store, found) = Store::open(&self.dir.files, &path, config, Some(known))?;
        store.belongs_to(partition.topic_id, partition.index);
        if found.known_is_stale || !found.is_clean() || found.log_end != known.log_end {
            let what = format!("{} is not what was copied", path.display());
            return Err(self.io(io::Error::new(io::ErrorKind::InvalidData, what)));
        }
        Ok(store)
    }
}
