//! Chore: batches that have been in segment files for a while leave memory.
//!
//! Readers at the end of a log find the newest batches in memory; one that is a minute behind reads files. Without this a log that is
//! written now and then, the metadata log of an idle cluster above all, fills the bound of all newest batches in the course of days, and
//! after a busy hour nothing is given back.

use std::time::Duration;

use log::store::StoreError;
use model::Instant;

use super::chore::{Chore, Flow, Moment};
use super::ledger::Ledger;

/// Batches that were written this long ago leave memory.
const HOT_TIME: Duration = Duration::from_secs(60);
/// The oldest may wait so much longer: the segment writer is not woken for each write of the last minute.
const SLACK: Duration = Duration::from_secs(10);

pub(super) struct Cooling;

impl Chore for Cooling {
    fn due(&self, ledger: &Ledger, _: Instant) -> Option<Instant> {
        let oldest = ledger.hot.oldest()?;
        Some(oldest.plus(HOT_TIME + SLACK))
    }

    fn run(&mut self, ledger: &mut Ledger, moment: &mut Moment) -> Result<Flow, StoreError> {
        let hot_time = u64::try_from(HOT_TIME.as_nanos()).unwrap_or(u64::MAX);
        let before = Instant(moment.now.0.saturating_sub(hot_time));
        ledger.hot.evict_before(before);
        Ok(Flow::Continue(()))
    }
}
