//! Chores: the free space of the volume, and the round that waits for room.

use std::time::Duration;

use env::disk::Space;
use log::store::StoreError;
use model::Instant;

use super::chore::{Chore, Flow, Moment};
use super::ledger::Ledger;
use crate::sync::Ordering;

/// How often the free space is looked at.
const SPACE_CHECK: Duration = Duration::from_secs(2);

/// Looks whether appends have room, and makes some while they have none.
pub(super) struct SpaceCheck;

impl Chore for SpaceCheck {
    /// While nothing is written and there is room, a look that comes with another chore will do.
    fn due(&self, ledger: &Ledger, _: Instant) -> Option<Instant> {
        let is_urgent = ledger.dir.is_full() || !ledger.pending.is_empty();
        is_urgent.then_some(ledger.space_at)
    }

    fn runs(&self, ledger: &Ledger, now: Instant) -> bool {
        ledger.space_at <= now
    }

    fn run(&mut self, ledger: &mut Ledger, moment: &mut Moment) -> Result<Flow, StoreError> {
        ledger.space_at = moment.now.plus(SPACE_CHECK);
        let dir = &ledger.dir;
        if dir.is_full() {
            dir.release_pieces().map_err(|error| ledger.io(error))?;
            // A commit that found the journal in our hands relies on us to look at the queue.
            ledger.commit_queued();
            ledger.trim_segments();
        }
        if let Ok(space) = dir.env.disk.space(&dir.path) {
            let needed = dir.needed_bytes();
            let is_full = lacks_room(space, needed) || ledger.retry_at.is_some();
            let why = format!("{} bytes are left", space.available);
            dir.set_full(is_full, &why);
        }
        Ok(Flow::Continue(()))
    }
}

/// Commits the round that waited for room for a journal piece. A piece that a checkpoint gave back is as good, however full the volume:
/// what waits may be what makes room.
#[derive(Default)]
pub(super) struct ResumeCommits {
    /// Bytes of journal pieces among which none was large enough for the round that waits.
    tried_bytes: u64,
}

impl Chore for ResumeCommits {
    /// The round that found no room rings, and a checkpoint that gives back a piece is a turn of its own.
    fn due(&self, _: &Ledger, _: Instant) -> Option<Instant> {
        None
    }

    fn runs(&self, ledger: &Ledger, _: Instant) -> bool {
        let is_hopeless = ledger.dir.is_full() && ledger.dir.spares.bytes() <= self.tried_bytes;
        !is_hopeless
    }

    fn run(&mut self, ledger: &mut Ledger, _: &mut Moment) -> Result<Flow, StoreError> {
        let dir = &ledger.dir;
        let spare = dir.spares.bytes();
        if dir.lacks_piece.swap(false, Ordering::AcqRel) {
            ledger.commit_queued();
            self.tried_bytes = if dir.lacks_room() { spare } else { 0 };
        }
        Ok(Flow::Continue(()))
    }
}

/// Network volumes and those in user space may report no blocks at all: such a volume is full when a write says so.
fn lacks_room(space: Space, needed: u64) -> bool {
    space.total > 0 && space.available < needed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_that_reports_no_blocks_is_not_full_for_ever() {
        let space = |total, available| Space { total, available };
        assert!(lacks_room(space(100, 9), 10));
        assert!(!lacks_room(space(100, 10), 10));
        assert!(lacks_room(space(100, 0), 10));
        assert!(!lacks_room(space(0, 0), 10));
    }
}
