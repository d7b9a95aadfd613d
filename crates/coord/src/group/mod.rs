//! Groups of one partition of `__consumer_offsets`: members, generations, assignments, committed offsets.
//!
//! Owns every group whose id hashes to that partition. Invariant: what `replay` does depends on the record alone, so that a
//! restart ends where this process was.

mod ask;

pub use ask::{Answer, Ask, Client};

use model::{Instant, ProducerEpoch, ProducerId};
use wire::group::GroupRecord;

use crate::{Caller, Moment, Step, Topics};

/// The groups of one partition.
#[derive(Debug, Default)]
pub struct Groups {}

impl Groups {
    /// Takes in one record, when it was appended or at load. `producer` is set for offsets of a transaction.
    pub fn replay(
        &mut self,
        _record: &GroupRecord,
        _producer: Option<(ProducerId, ProducerEpoch)>,
    ) {
    }

    /// The transaction of `producer` ended: its pending offsets count now, or never will.
    pub fn replay_marker(&mut self, _producer: ProducerId, _committed: bool) {}

    /// Every record is in: sessions of the members that were there begin now.
    pub fn on_loaded(&mut self, _at: Moment) {}

    pub fn ask(
        &mut self,
        _caller: Caller,
        _ask: Ask,
        _at: Moment,
        _topics: &dyn Topics,
    ) -> Step<GroupRecord, Answer> {
        Step::default()
    }

    /// Sessions, rebalances and offsets whose time is up.
    pub fn tick(&mut self, _at: Moment, _topics: &dyn Topics) -> Step<GroupRecord, Answer> {
        Step::default()
    }

    /// When `tick` is wanted next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        None
    }
}
