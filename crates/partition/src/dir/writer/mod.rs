//! The segment writer of a log directory: durable batches are written to their segment files without haste.
//!
//! A loop over chores in a fixed order, each in a file of its own with the time when it is due: they write durable batches from
//! memory to the page cache and evict them later, take checkpoints, see to retention, and remove what is gone. So each partition's
//! files have one writer. Never touches a batch that the journal may lose. Batches need not be committed: a partition
//! with slow followers would fill the memory, and with it stop the sockets of these followers.

mod arrivals;
mod checkpoint;
mod chore;
mod cooling;
mod cut;
mod flush;
mod leave;
mod ledger;
mod producers;
mod removal;
mod repair;
mod retention;
mod scrub;
mod space;
mod unlink;
mod write;

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use env::{Turn, Worker};
use log::store::StoreError;
use model::Instant;

use super::announce::Announce;
use super::residents::Residents;
use arrivals::Arrivals;
use checkpoint::{BeginCheckpoint, EndCheckpoint, GoOnWithCheckpoint};
use chore::{Chore, FULL_RETRY, Moment};
use cooling::Cooling;
use flush::Flushing;
use leave::Leaving;
use ledger::{Ledger, is_passing};
use producers::ProducerExpiry;
use removal::TakeOver;
use repair::Repair;
use retention::Retention;
use scrub::Scrub;
use space::{ResumeCommits, SpaceCheck};
use unlink::Unlinking;
use write::Writing;

pub struct SegmentWriter {
    ledger: Ledger,
    /// Chores in the order of a turn.
    chores: Vec<Box<dyn Chore>>,
}

impl SegmentWriter {
    pub fn new(residents: Arc<Residents>, announce: Arc<dyn Announce>) -> SegmentWriter {
        let ledger = Ledger::new(residents, announce);
        let now = ledger.dir.env.clock.now();
        let settings = &ledger.dir.settings;
        let retention = Retention {
            at: now.plus(settings.retention_check),
        };
        let producers = ProducerExpiry {
            at: now.plus(settings.producer_expiration_check),
        };
        let chores: Vec<Box<dyn Chore>> = vec![
            Box::new(GoOnWithCheckpoint),
            Box::new(TakeOver),
            Box::new(EndCheckpoint),
            Box::new(Arrivals),
            Box::new(Leaving::default()),
            Box::new(Writing::default()),
            Box::new(Cooling),
            Box::new(BeginCheckpoint),
            Box::new(SpaceCheck),
            Box::new(ResumeCommits::default()),
            Box::new(producers),
            Box::new(retention),
            Box::new(Unlinking),
            Box::new(Flushing),
            Box::new(Repair),
            Box::new(Scrub::new(now)),
        ];
        SegmentWriter { ledger, chores }
    }

    fn work(&mut self, now: Instant) -> Result<Turn, StoreError> {
        let ledger = &mut self.ledger;
        let mut moment = Moment {
            now,
            wall: ledger.dir.env.clock.wall_ms(),
            is_stopping: ledger.is_stopping(),
            went_on: false,
        };
        for chore in &mut self.chores {
            if chore.runs(ledger, now)
                && let ControlFlow::Break(turn) = chore.run(ledger, &mut moment)?
            {
                return Ok(turn);
            }
        }
        Ok(self.next_turn(now))
    }

    fn next_turn(&self, now: Instant) -> Turn {
        let ledger = &self.ledger;
        let backlog = &ledger.dir.backlog;
        let has_work = !ledger.pending.is_empty();
        let ring_at = ledger.gathered_bytes_min();
        backlog.ring_at(ring_at);
        // A commit that passed the new mark before it stood there did not ring.
        let waits = ledger.retry_at.is_some() || ledger.later_at.is_some();
        if has_work && !waits && ring_at <= backlog.unwritten_bytes() {
            return Turn::Again;
        }
        let due = self.chores.iter().filter_map(|of| of.due(ledger, now));
        let until = due.min();
        if !has_work && !backlog.fall_asleep() {
            return Turn::Again;
        }
        Turn::Sleep { until }
    }
}

impl Worker for SegmentWriter {
    fn turn(&mut self) -> Turn {
        let dir = Arc::clone(&self.ledger.dir);
        if dir.is_failed() {
            return if self.ledger.is_stopping() {
                Turn::Done
            } else {
                Turn::Sleep { until: None }
            };
        }
        let now = dir.env.clock.now();
        self.work(now).unwrap_or_else(|error| {
            if is_passing(&error) {
                dir.set_full(true, &error.to_string());
                // The journal has what is not in the files.
                if self.ledger.is_stopping() {
                    return Turn::Done;
                }
                let until = Some(now.plus(FULL_RETRY));
                return Turn::Sleep { until };
            }
            let mut news = Vec::new();
            dir.fail(&io::Error::other(error.to_string()), &mut news);
            self.ledger.announce.announce(news);
            Turn::Again
        })
    }

    fn park(&mut self, until: Option<Instant>) {
        self.ledger.dir.writer_bell.wait(until);
    }
}
