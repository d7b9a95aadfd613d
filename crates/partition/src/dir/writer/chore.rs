//! One of the things that the segment writer sees to, with the time when it is due.

use std::ops::ControlFlow;
use std::time::Duration;

use env::Turn;
use log::store::StoreError;
use model::{Instant, Timestamp};

use super::ledger::Ledger;

/// How soon a write that found the disk full is tried again.
pub(super) const FULL_RETRY: Duration = Duration::from_secs(1);

/// Facts of one turn.
pub(super) struct Moment {
    pub(super) now: Instant,
    pub(super) wall: Timestamp,
    pub(super) is_stopping: bool,
    /// A checkpoint that was begun in an earlier turn has gone on in this one.
    pub(super) went_on: bool,
}

/// The other chores have their turn, or this one ends it.
pub(super) type Flow = ControlFlow<Turn>;

pub(super) trait Chore: Send {
    /// When the segment writer is to be awake for this chore; `None` while somebody rings when that is so.
    fn due(&self, ledger: &Ledger, now: Instant) -> Option<Instant>;

    /// True if the chore runs in this turn. A chore that costs little may do so whenever the writer is awake.
    fn runs(&self, ledger: &Ledger, now: Instant) -> bool {
        self.due(ledger, now).is_some_and(|at| at <= now)
    }

    fn run(&mut self, ledger: &mut Ledger, moment: &mut Moment) -> Result<Flow, StoreError>;
}
