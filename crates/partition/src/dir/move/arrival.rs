//! Complete files of a partition, on their way from one log directory to another.
//!
//! Shared by the move that made them and the segment writer of the target, which takes them in.

use std::path::PathBuf;
use std::sync::Arc;

use log::checkpoint::Row;

use crate::derived::Derived;
use crate::partition::{Home, Partition};
use crate::sync::Mutex;

/// A partition that is about to live here.
#[derive(Clone)]
pub(crate) struct Guest {
    pub(crate) partition: Arc<Partition>,
    /// Row of the partition for checkpoints; none for a partition that was never used.
    pub(crate) row: Option<Row>,
}

/// Complete files of a partition, on their way from one directory to another.
pub(crate) struct Arrival {
    pub(crate) partition: Arc<Partition>,
    /// The directory that has them.
    pub(crate) files: PathBuf,
    pub(crate) row: Option<Row>,
    /// Derived state as of the end of the log.
    pub(crate) derived: Derived,
    /// Held while the files get their name.
    pub(crate) place: Mutex<ArrivalState>,
}

/// The state of an arrival.
#[derive(Clone)]
pub(crate) enum ArrivalState {
    Waiting,
    Here(Arc<Home>),
    /// The disk has no room.
    Refused,
    /// Nobody waits any more.
    Abandoned,
}

impl Arrival {
    pub(crate) fn new(
        partition: &Arc<Partition>,
        files: PathBuf,
        row: Option<Row>,
        derived: Derived,
    ) -> Arc<Arrival> {
        Arc::new(Arrival {
            partition: Arc::clone(partition),
            files,
            row,
            derived,
            place: Mutex::new(ArrivalState::Waiting),
        })
    }

    pub(crate) fn place(&self) -> ArrivalState {
        self.place.lock().clone()
    }

    pub(crate) fn abandon(&self) {
        *self.place.lock() = ArrivalState::Abandoned;
    }

    pub(crate) fn conclude(&self, place: ArrivalState) {
        let mut known = self.place.lock();
        if matches!(*known, ArrivalState::Waiting) {
            *known = place;
        }
    }
}
