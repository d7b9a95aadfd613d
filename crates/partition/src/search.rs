//! Looking records up by their times: in memory first, then in the files.
//!
//! Files are read and walked: a caller that must not wait for the disk hands a [`Search`] to a thread that may.

use std::sync::Arc;

use log::RecordTime;
use log::segment::{first_record, latest_record};
use log::store::ReadError as StoreError;
use model::{Offset, Timestamp};
use wire::records::{Batch, Oversized};

use crate::partition::{Home, Partition, PartitionState};
use crate::read::ReadError;

/// Batches in memory that a look for a time takes along at first: the first of them has the record, unless its header says more
/// than is in it. Twice as many each time that none has.
const LATE_BATCHES_FIRST: usize = 2;

/// A record to be found by its time.
pub struct Search {
    partition: Arc<Partition>,
    time: SearchTime,
}

/// Which time is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchTime {
    /// The first record of that time or a later one.
    From(Timestamp),
    /// The record with the largest time.
    Largest,
}

impl Search {
    pub(crate) fn new(partition: Arc<Partition>, time: SearchTime) -> Search {
        Search { partition, time }
    }

    pub(crate) fn execute(&self) -> Result<Option<RecordTime>, ReadError> {
        let found = match self.time {
            SearchTime::From(time) => self.partition.find_timestamp(time),
            SearchTime::Largest => self.partition.max_timestamp(),
        };
        found.map_err(|error| self.partition.on_damage_met(error))
    }
}

impl Partition {
    /// The first record at or after `time` (exact to the record), below the high watermark.
    pub fn find_timestamp(&self, time: Timestamp) -> Result<Option<RecordTime>, ReadError> {
        self.where_it_lives(|seen| self.find_timestamp_once(time, seen))
    }

    fn find_timestamp_once(
        &self,
        time: Timestamp,
        seen: &mut Option<Arc<Home>>,
    ) -> Result<Option<RecordTime>, ReadError> {
        let mut from = Offset::ZERO;
        let mut count = LATE_BATCHES_FIRST;
        loop {
            let may_reach = |batch: &Batch| batch.max_timestamp() >= time || batch.hides_time();
            let late = |batch: &&Batch| from < batch.next_offset() && may_reach(batch);
            let ((points, tail_start, batches, caps), home) = self.look_at_tail(|state| {
                let batches: Vec<Batch> =
                    committed(state).filter(late).take(count).cloned().collect();
                let caps = state.config.caps();
                (state.progress.points(), state.tail.start(), batches, caps)
            })?;
            let (log_start, end) = (points.start, points.committed);
            // The files are asked again only when memory has let go of batches meanwhile.
            if from < tail_start
                && let Some(store) = seen.insert(home).store.get()
            {
                // Files have what is durable, committed or not.
                let found = store.offset_for_time(time, log_start..tail_start.min(end))?;
                if found.is_some() {
                    return Ok(found);
                }
            }
            let wanted = |at, offset| at >= time && offset >= log_start;
            let mut found = None;
            for batch in &batches {
                found = first_record(batch, caps, wanted).map_err(oversized_in(batch))?;
                if found.is_some() {
                    break;
                }
            }
            match batches.last().filter(|_| batches.len() == count) {
                Some(last) if found.is_none() => from = last.next_offset(),
                _ => return Ok(found),
            }
            count *= 2;
        }
    }

    /// The record with the largest timestamp, the first of them if several share it (KIP-734).
    pub fn max_timestamp(&self) -> Result<Option<RecordTime>, ReadError> {
        self.where_it_lives(|seen| self.max_timestamp_once(seen))
    }

    fn max_timestamp_once(
        &self,
        seen: &mut Option<Arc<Home>>,
    ) -> Result<Option<RecordTime>, ReadError> {
        let ((newest, end, caps), home) = self.look_at_tail(|state| {
            // The header of a batch from the journal of an older version may hide the time.
            let (hidden, told): (Vec<&Batch>, Vec<&Batch>) =
                committed(state).partition(|batch| batch.hides_time());
            let newest = told.into_iter().max_by(|left, right| {
                left.max_timestamp()
                    .cmp(&right.max_timestamp())
                    .then(right.base_offset().cmp(&left.base_offset()))
            });
            let newest: Vec<Batch> = newest.into_iter().chain(hidden).cloned().collect();
            let committed = state.progress.points().committed;
            (newest, committed, state.config.caps())
        })?;
        // The files give no record while their newest one is not committed, as in Kafka.
        let stored = match seen.insert(home).store.get() {
            Some(store) => store.max_time()?.filter(|found| found.offset < end),
            None => None,
        };
        let mut best = None;
        for batch in &newest {
            let latest = latest_record(batch, caps).map_err(oversized_in(batch))?;
            best = later(best, latest);
        }
        Ok(later(best, stored))
    }

    /// Runs `look` on the memory under the lock that appends take, so it has to be short. Also returns where the files are.
    fn look_at_tail<T>(
        &self,
        look: impl FnOnce(&PartitionState) -> T,
    ) -> Result<(T, Arc<Home>), ReadError> {
        let state = self.state.lock();
        if self.is_offline_in(&state) {
            return Err(ReadError::Offline);
        }
        if state.is_deleted {
            return Err(ReadError::Deleted);
        }
        Ok((look(&state), Arc::clone(&state.home)))
    }
}

fn oversized_in(batch: &Batch) -> impl FnOnce(Oversized) -> ReadError {
    let base = batch.base_offset();
    move |record| StoreError::Oversized { base, record }.into()
}

/// The one of the larger time; of equal times the first record.
fn later(best: Option<RecordTime>, other: Option<RecordTime>) -> Option<RecordTime> {
    let both = best.into_iter().chain(other);
    both.reduce(|best, other| {
        let is_better = (best.timestamp, other.offset) < (other.timestamp, best.offset);
        if is_better { other } else { best }
    })
}

/// Batches in memory that readers may see.
fn committed(state: &PartitionState) -> impl Iterator<Item = &Batch> {
    let committed = state.progress.points().committed;
    let is_committed = move |batch: &&Batch| batch.next_offset() <= committed;
    state.tail.iter().take_while(is_committed)
}
