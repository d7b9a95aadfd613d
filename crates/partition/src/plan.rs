//! Planning a read: looks at the state without waiting, and returns either what to send or what is needed first.
//!
//! A plan owns all that it takes, so nothing can move under it, and a read is planned once: a [`Need`] is executed away from the
//! partition's lock and gives the piece that was planned. Nothing at or above the high watermark is ever in a plan but for another replica,
//! and for a reader of committed data nothing at or above the last stable offset. Batches still in memory come from there, older ones as
//! slices of segment files.

use std::sync::Arc;

use log::AbortedTxn;
use log::store::Store;
use model::Offset;
use wire::records::Batch;

use crate::file_read::{FileRead, Known};
use crate::isolation::Isolation;
use crate::need::{Need, Verify};
use crate::partition::{Hole, Home, Partition};
use crate::read::{Read, ReadError, ReadRequest, Records};
use crate::search::{Search, SearchTime};

/// The plan of a read.
pub enum Plan {
    /// The read can be answered now.
    Ready(Read),
    /// Something has to be done first, by a thread that may wait for the disk.
    Need(Need),
}

/// How far the state alone leads.
enum Look {
    Read(Read),
    /// The files have more of the read, where they are now.
    Files(FileRead, Arc<Home>),
}

impl Partition {
    /// Plans a read without waiting for the disk.
    pub fn plan_read(self: &Arc<Self>, request: ReadRequest) -> Result<Plan, ReadError> {
        self.where_it_lives(|seen| {
            let (files, home) = match self.look(request)? {
                Look::Read(read) => return Ok(Plan::Ready(read)),
                Look::Files(files, home) => (files, home),
            };
            match files.known(seen.insert(home)) {
                Ok(Known::Read(read)) => Ok(Plan::Ready(read)),
                Ok(Known::Unread { files, bytes }) => {
                    let verify = Verify::new(Arc::clone(self), files, bytes);
                    Ok(Plan::Need(Need::Verify(Box::new(verify))))
                }
                Err(error) => {
                    // Trimmed since the look at the state: the files may be gone.
                    self.admit(&self.state.lock(), &request)?;
                    Err(error)
                }
            }
        })
    }

    /// Reads at once, for a caller that may wait for the disk.
    pub fn read(&self, request: ReadRequest) -> Result<Read, ReadError> {
        match self.look(request)? {
            Look::Read(read) => Ok(read),
            Look::Files(files, _) => self.read_files(&files),
        }
    }

    /// A search, for a thread that may wait for the disk.
    pub fn plan_search(self: &Arc<Self>, time: SearchTime) -> Need {
        Need::Search(Search::new(Arc::clone(self), time))
    }

    /// The half of a read that looks at the state.
    fn look(&self, request: ReadRequest) -> Result<Look, ReadError> {
        let state = self.state.lock();
        let bounds = self.admit(&state, &request)?;
        let end = bounds.end(request.scope.isolation);
        let is_hit = |hole: &&Hole| hole.from <= request.from && request.from < hole.to;
        if let Some(hole) = state.holes.iter().find(is_hit) {
            return Err(ReadError::Damaged { hole: *hole });
        }
        if request.from >= end || (request.bytes_max == 0 && !request.at_least_one) {
            return Ok(Look::Read(Read::at_end(bounds)));
        }
        // Batches behind a hole are read by asking for them: a reader must see that something is missing.
        let holes = state.holes.iter().filter(|hole| hole.from > request.from);
        let stop_hole = holes.min_by_key(|hole| hole.from).copied();
        let limit = stop_hole.map_or(end, |hole| hole.from.min(end));
        let memory_start = if request.scope.anew {
            state.tail.written()
        } else {
            state.tail.start()
        };
        let in_memory = if request.from >= memory_start {
            let bytes_max = request.bytes_max.min(request.memory_bytes_max);
            let batches = state.tail.read(request.from, limit, bytes_max);
            let is_too_large = batches
                .first()
                .is_some_and(|first| first.size() > bytes_max);
            if batches.is_empty() || (is_too_large && !request.at_least_one) {
                return Ok(Look::Read(Read::at_end(bounds)));
            }
            if request.scope.isolation != Isolation::Committed {
                let records = Records::Memory(batches);
                return Ok(Look::Read(Read::without_aborted(records, bounds)));
            }
            Some(batches)
        } else {
            None
        };
        // Taken before the files are asked: a transaction that leaves this list meanwhile is in theirs.
        let recent: Vec<AbortedTxn> = match request.scope.isolation {
            Isolation::Committed => state
                .aborted
                .iter()
                .filter(|txn| request.from <= txn.last_offset && txn.first_offset < end)
                .copied()
                .collect(),
            Isolation::Uncommitted | Isolation::Log => Vec::new(),
        };
        let gaps_end = (state.home.store.get()).map_or(Offset::ZERO, Store::gaps_end);
        let behind_gap = if in_memory.is_none() && memory_start <= gaps_end {
            let bytes_max = request.bytes_max.min(request.memory_bytes_max);
            let batches = state.tail.read(memory_start, limit, bytes_max);
            let fits = |first: &Batch| first.size() <= bytes_max || request.at_least_one;
            (batches.first().is_some_and(fits)).then_some(batches)
        } else {
            None
        };
        // Files that have not seen a cut yet hold records of another life behind it.
        let limit = state.cuts.files_end().map_or(limit, |end| limit.min(end));
        let files = FileRead {
            request,
            bounds,
            limit,
            lost_to: stop_hole.map_or(state.tail.start(), |hole| hole.to),
            stops_at_hole: stop_hole.is_some(),
            behind_gap: behind_gap.unwrap_or_default(),
            in_memory,
            recent,
        };
        Ok(Look::Files(files, Arc::clone(&state.home)))
    }
}
