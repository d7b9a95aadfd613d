//! The read walk, first half: look at the state without waiting and return a plan that owns what it needs.
//!
//! Executing the plan touches no partition state. Nothing at or above the high watermark is ever in a plan, and for a reader of
//! committed data nothing at or above the last stable offset. Batches still in memory come from there, older ones as slices of
//! segment files.

use std::io;
use std::sync::Arc;

use log::segment::first_record;
use log::store::{Read as StoreRead, Store};
use log::{AbortedTxn, FileSlice, ReadError as StoreError, RecordTime};
use model::{LeaderEpoch, Offset, Timestamp};
use wire::records::Batch;

use crate::partition::{Bounds, Hole, Home, Partition, State};

/// Batches in memory that a look for a time takes along at first: the first of them has the record, unless its header says more
/// than is in it. Twice as many each time that none has.
const LATE_BATCHES_FIRST: usize = 2;

/// What to send for a read.
pub enum Plan {
    /// Nothing at or above the asked offset yet.
    AtEnd,
    Memory(Vec<Batch>),
    File(FileSlice),
    /// About so many bytes that have to be found or verified first, or whose aborted transactions have; read them without
    /// `may_wait`, away from where that matters.
    Unverified(usize),
}

impl Plan {
    pub fn len(&self) -> usize {
        match self {
            Plan::AtEnd => 0,
            Plan::Memory(batches) => batches.iter().map(|batch| batch.size()).sum(),
            Plan::File(slice) => slice.len,
            Plan::Unverified(len) => *len,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a reader wants to see (KIP-98).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Everything below the high watermark.
    #[default]
    Uncommitted,
    /// No open transaction; of aborted ones it is told, so that it can drop their records.
    Committed,
}

impl Bounds {
    /// Where a reader's view ends.
    #[must_use]
    pub fn end(&self, isolation: Isolation) -> Offset {
        match isolation {
            Isolation::Uncommitted => self.high_watermark,
            Isolation::Committed => self.last_stable,
        }
    }
}

pub struct Read {
    pub plan: Plan,
    pub bounds: Bounds,
    /// Aborted transactions with records in the plan, for a reader of committed data.
    pub aborted: Vec<AbortedTxn>,
}

impl Read {
    fn at_end(bounds: Bounds) -> Read {
        Read {
            plan: Plan::AtEnd,
            bounds,
            aborted: Vec::new(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("partition was deleted")]
    Deleted,
    #[error("log directory is offline")]
    Offline,
    #[error("another broker leads the partition, or none")]
    NotLeader,
    #[error("offset is outside {} to {}", bounds.log_start, bounds.log_end)]
    OutOfRange { bounds: Bounds },
    /// The client's leader epoch is older than ours.
    #[error("leader epoch is {current} now")]
    FencedEpoch { current: LeaderEpoch },
    #[error("leader epoch is still {current} here")]
    UnknownEpoch { current: LeaderEpoch },
    /// Acknowledged bytes that no disk has any more.
    #[error("offsets {} to {} are damaged", hole.from, hole.to)]
    Damaged { hole: Hole },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a reader asks of one partition.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest {
    pub from: Offset,
    /// Soft limit; see `at_least_one`.
    pub bytes_max: usize,
    /// The same for bytes that would be kept in memory.
    pub memory_bytes_max: usize,
    /// Give the first batch even if it is larger than `bytes_max` (KIP-74).
    pub at_least_one: bool,
    pub current_epoch: LeaderEpoch,
    pub isolation: Isolation,
    /// What nobody has verified is not read and walked now: the plan says so.
    pub may_wait: bool,
}

impl Partition {
    pub fn plan_read(&self, request: ReadRequest) -> Result<Read, ReadError> {
        self.where_it_lives(|seen| self.plan_read_once(request, seen))
    }

    /// A reader goes to the files of one directory (1), the partition moves to another (2), and the files are removed (3): it
    /// looks again, at those that hold now.
    fn where_it_lives<T>(
        &self,
        mut look: impl FnMut(&mut Option<Arc<Home>>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        loop {
            let mut seen = None;
            let done = look(&mut seen);
            let is_gone = matches!(
                &done,
                Err(ReadError::Store(StoreError::Io { error, .. })) if error.kind() == io::ErrorKind::NotFound
            );
            if !is_gone || seen.is_none_or(|seen| Arc::ptr_eq(&seen, &self.home())) {
                return done;
            }
        }
    }

    fn plan_read_once(
        &self,
        request: ReadRequest,
        seen: &mut Option<Arc<Home>>,
    ) -> Result<Read, ReadError> {
        let state = self.state.lock();
        if self.is_offline_in(&state) {
            return Err(ReadError::Offline);
        }
        if state.is_deleted {
            return Err(ReadError::Deleted);
        }
        let bounds = state.bounds();
        let end = bounds.end(request.isolation);
        check_epoch(request.current_epoch, &state)?;
        // Between what is committed and the end nothing is shown yet. A reader that was shown more by an earlier leader waits
        // there; told that it is out of range, it would begin anew.
        if request.from < bounds.log_start || request.from > bounds.log_end {
            return Err(ReadError::OutOfRange { bounds });
        }
        if let Some(hole) = state
            .holes
            .iter()
            .find(|hole| hole.from <= request.from && request.from < hole.to)
        {
            return Err(ReadError::Damaged { hole: *hole });
        }
        if request.from >= end || (request.bytes_max == 0 && !request.at_least_one) {
            return Ok(Read::at_end(bounds));
        }
        // Before the files are asked: what leaves this list meanwhile is in theirs.
        let recent: Vec<AbortedTxn> = match request.isolation {
            Isolation::Committed => state
                .aborted
                .iter()
                .filter(|txn| request.from <= txn.last_offset && txn.first_offset < end)
                .copied()
                .collect(),
            Isolation::Uncommitted => Vec::new(),
        };
        // What lies behind a hole is read by asking for it: a reader must see that something is missing.
        let holes = state.holes.iter().filter(|hole| hole.from > request.from);
        let stop_hole = holes.min_by_key(|hole| hole.from).copied();
        let limit = stop_hole.map_or(end, |hole| hole.from.min(end));
        let home = &**seen.insert(Arc::clone(&state.home));
        if request.from >= state.tail.start() {
            let bytes_max = request.bytes_max.min(request.memory_bytes_max);
            let batches = state.tail.read(request.from, limit, bytes_max);
            let is_too_large = batches
                .first()
                .is_some_and(|first| first.size() > bytes_max);
            let plan = if batches.is_empty() || (is_too_large && !request.at_least_one) {
                Plan::AtEnd
            } else {
                Plan::Memory(batches)
            };
            drop(state);
            return self.with_aborted(home, plan, bounds, request, recent);
        }
        let tail_start = state.tail.start();
        drop(state);
        let Some(store) = home.store.get() else {
            return Ok(Read::at_end(bounds));
        };
        let found = match request.may_wait {
            true => store.locate(request.from, limit, request.bytes_max)?,
            false => Some(store.read(request.from, limit, request.bytes_max)?),
        };
        let Some(found) = found else {
            // Not none: it is asked for again.
            return Ok(Read {
                plan: Plan::Unverified(request.bytes_max.max(1)),
                ..Read::at_end(bounds)
            });
        };
        let plan = match found {
            StoreRead::Slice(slice) if request.may_wait && !slice.is_verified() => {
                return Ok(Read {
                    plan: Plan::Unverified(slice.len),
                    ..Read::at_end(bounds)
                });
            }
            // The store gives one whole batch even if it is too large.
            StoreRead::Slice(slice) if slice.len <= request.bytes_max || request.at_least_one => {
                Plan::File(slice)
            }
            // Written, and in no batch: a header has rotted so that its batch seems to lie elsewhere, or compaction left nothing
            // before offsets that are lost. It always leaves the last batch of a segment.
            StoreRead::AtEnd => {
                let hole = Hole {
                    from: request.from,
                    to: stop_hole.map_or(tail_start, |hole| hole.to),
                };
                return Err(ReadError::Damaged { hole });
            }
            StoreRead::Slice(_) => Plan::AtEnd,
        };
        self.with_aborted(home, plan, bounds, request, recent)
    }

    /// Adds what a reader of committed data must know of its plan: transactions in segment files, then those of `recent`.
    fn with_aborted(
        &self,
        home: &Home,
        plan: Plan,
        bounds: Bounds,
        request: ReadRequest,
        recent: Vec<AbortedTxn>,
    ) -> Result<Read, ReadError> {
        let (from, end) = (request.from, bounds.last_stable);
        if request.isolation == Isolation::Uncommitted || plan.is_empty() {
            return Ok(Read {
                plan,
                ..Read::at_end(bounds)
            });
        }
        let aborted = |store: &Store, upto| match request.may_wait {
            true => store.known_aborted(from, upto),
            false => store.aborted(from, upto).map(Some),
        };
        let (stored, upto) = match (&plan, home.store.get()) {
            (Plan::File(slice), Some(store)) => {
                (aborted(store, store.end_of_slice(slice, end)?)?, end)
            }
            (Plan::Memory(batches), store) => {
                let upto = batches.last().map_or(end, |last| last.next_offset());
                // Memory may begin where a file goes on: the log before it may all be gone.
                match store.filter(|store| from < store.log_end()) {
                    Some(store) => (aborted(store, upto)?, upto),
                    None => (Some(Vec::new()), upto),
                }
            }
            _ => (Some(Vec::new()), end),
        };
        let Some(mut aborted) = stored else {
            return Ok(Read {
                plan: Plan::Unverified(plan.len()),
                ..Read::at_end(bounds)
            });
        };
        let known = aborted.last().map_or(Offset(-1), |txn| txn.last_offset);
        aborted.extend(
            recent
                .into_iter()
                .filter(|txn| known < txn.last_offset && txn.first_offset < upto),
        );
        Ok(Read {
            plan,
            bounds,
            aborted,
        })
    }

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
            let late = |batch: &&Batch| from < batch.next_offset() && batch.max_timestamp() >= time;
            let ((points, tail_start, batches), home) = self.look_at_tail(|state| {
                let batches: Vec<Batch> =
                    committed(state).filter(late).take(count).cloned().collect();
                (state.progress.points(), state.tail.start(), batches)
            })?;
            let (log_start, end) = (points.start, points.committed);
            // Again only when memory has let go of batches meanwhile.
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
            let found = batches.iter().find_map(|batch| first_record(batch, wanted));
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
        let ((newest, end), home) = self.look_at_tail(|state| {
            let newest = committed(state).max_by(|left, right| {
                left.max_timestamp()
                    .cmp(&right.max_timestamp())
                    .then(right.base_offset().cmp(&left.base_offset()))
            });
            (newest.cloned(), state.progress.points().committed)
        })?;
        // As in Kafka nothing is found while the newest record of the files is not committed.
        let stored = match seen.insert(home).store.get() {
            Some(store) => store.max_time()?.filter(|found| found.offset < end),
            None => None,
        };
        let Some(newest) = newest
            .filter(|newest| stored.is_none_or(|stored| newest.max_timestamp() > stored.timestamp))
        else {
            return Ok(stored);
        };
        Ok(first_record(&newest, |at, _| at >= newest.max_timestamp()))
    }

    /// What `look` finds where the memory is, under the lock that appends take: it copies little. And where the rest is.
    fn look_at_tail<T>(&self, look: impl FnOnce(&State) -> T) -> Result<(T, Arc<Home>), ReadError> {
        let state = self.state.lock();
        if self.is_offline_in(&state) {
            return Err(ReadError::Offline);
        }
        if state.is_deleted {
            return Err(ReadError::Deleted);
        }
        Ok((look(&state), Arc::clone(&state.home)))
    }

    /// Refuses a client whose idea of the leader epoch differs from ours; -1 asks for no check. What is offline has no bounds
    /// that one could tell: it refuses everybody.
    pub fn check_epoch(&self, asked: LeaderEpoch) -> Result<(), ReadError> {
        let state = self.state.lock();
        if self.is_offline_in(&state) {
            return Err(ReadError::Offline);
        }
        check_epoch(asked, &state)
    }
}

/// Batches in memory that readers may see.
fn committed(state: &State) -> impl Iterator<Item = &Batch> {
    let end = state.progress.points().committed;
    let is_committed = move |batch: &&Batch| batch.next_offset() <= end;
    state.tail.iter().take_while(is_committed)
}

/// Refuses a client that has another epoch in mind, and every client where we do not lead.
fn check_epoch(asked: LeaderEpoch, state: &State) -> Result<(), ReadError> {
    let current = state.progress.epoch();
    if asked == LeaderEpoch::NONE || asked == current {
        if state.progress.is_leading() {
            Ok(())
        } else {
            Err(ReadError::NotLeader)
        }
    } else if asked < current {
        Err(ReadError::FencedEpoch { current })
    } else {
        Err(ReadError::UnknownEpoch { current })
    }
}
