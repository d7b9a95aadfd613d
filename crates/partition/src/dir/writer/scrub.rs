//! Chore: closed segments are read again from time to time, so that rot is found before a reader meets it.
//!
//! Reads a little at a time, at the pace of the settings, and more seldom while the directory commits or has something to write. Bytes that
//! are in the page cache are not asked of the disk. Reports rot, and has it repaired where other replicas are.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use log::ReadError;
use log::store::StoreError;
use model::{Instant, Offset};

use super::chore::{Chore, Flow, Moment};
use super::ledger::Ledger;
use crate::dir::durable::Key;
use crate::partition::Partition;
use crate::sync::Ordering;

/// Bytes read at once: what comes to be written waits for them.
const STEP_BYTES: u64 = 256 << 10;
/// A start has other things to read.
const FIRST_AFTER: Duration = Duration::from_secs(600);
/// Between the end of a pass over all segments and the next one.
const REST: Duration = Duration::from_secs(7 * 24 * 3600);
/// A directory that had something to do is looked at again after this.
const BUSY_RETRY: Duration = Duration::from_secs(1);
/// Number of looks in a row that find the directory busy, of which the last reads all the same: one that is never quiet rots as well. 128
/// KiB a second, 150 GiB in 2 weeks.
const BUSY_LOOKS: u32 = 2;
/// Rounds between two looks up to which a directory is quiet. A quorum without load writes 2 a second.
const QUIET_ROUNDS: u64 = 4;
/// Places that were reported, and are not again in this life; of more than these the first may be.
const REPORTED_MAX: usize = 1000;

pub(super) struct Scrub {
    at: Instant,
    /// True if a pass is under way.
    is_begun: bool,
    /// The partition that was read last, and the offset to go on at.
    place: Option<(Key, Offset)>,
    /// Rounds that were committed when the directory was looked at last.
    rounds: u64,
    /// Looks in a row that found the directory busy.
    busy_looks: u32,
    reported: BTreeSet<(Key, Offset)>,
}

impl Scrub {
    pub(super) fn new(now: Instant) -> Scrub {
        Scrub {
            at: now.plus(FIRST_AFTER),
            is_begun: false,
            place: None,
            rounds: 0,
            busy_looks: 0,
            reported: BTreeSet::new(),
        }
    }

    /// True if this is no moment to read: much was committed since the last look, or something waits to be written.
    fn is_busy(&mut self, ledger: &Ledger) -> bool {
        let rounds = ledger.dir.synced.load(Ordering::Relaxed);
        let committed = rounds.saturating_sub(std::mem::replace(&mut self.rounds, rounds));
        if committed <= QUIET_ROUNDS && ledger.pending.is_empty() {
            self.busy_looks = 0;
        } else {
            self.busy_looks += 1;
        }
        ledger.dir.is_full() || !self.busy_looks.is_multiple_of(BUSY_LOOKS)
    }

    /// Reads the next piece; returns false at the end of a pass.
    fn step(&mut self, ledger: &Ledger) -> bool {
        let Some((partition, from)) = self.next(ledger) else {
            self.place = None;
            return false;
        };
        let key = partition.key();
        self.place = Some((key, Offset(i64::MAX)));
        let Some(home) = ledger.home_of(&partition) else {
            return true;
        };
        let closed = Offset(home.checkpointed.load(Ordering::Relaxed) as i64);
        let Some(store) = home.store.get().filter(|_| from < closed) else {
            return true;
        };
        let from = from.max(store.files_start());
        let next = match store.scrub(from, closed, STEP_BYTES) {
            Ok(next) => next,
            Err(ReadError::Damaged { base, damage }) => {
                let next = store.behind(base, damage, from).ok().flatten();
                let why = format!("segment {base}, {damage}");
                self.report(ledger, &partition, (from, next), &why);
                next.unwrap_or(closed)
            }
            // Removed by retention or compaction meanwhile, or not given by the disk now: another replica may have the bytes, or another
            // pass will see.
            Err(error) => {
                if error.is_rot() {
                    partition.has_repaired(from);
                }
                return true;
            }
        };
        self.place = Some((key, next));
        true
    }

    /// Where to go on: in the partition of the last piece, or in the one behind it.
    fn next(&self, ledger: &Ledger) -> Option<(Arc<Partition>, Offset)> {
        let (same, behind) = {
            let partitions = ledger.residents.partitions.lock();
            let after = self
                .place
                .map_or(Bound::Unbounded, |(key, _)| Bound::Excluded(key));
            let mut behind = partitions.range((after, Bound::Unbounded));
            let same = self.place.and_then(|(key, _)| partitions.get(&key));
            (
                same.cloned(),
                behind.next().map(|(_, next)| Arc::clone(next)),
            )
        };
        let closed = |of: &Partition| of.home().checkpointed.load(Ordering::Relaxed) as i64;
        let from = self.place.map_or(Offset::ZERO, |(_, from)| from);
        let goes_on = same.filter(|of| from.0 < closed(of));
        let goes_on = goes_on.map(|of| (of, from));
        goes_on.or(behind.map(|next| (next, Offset::ZERO)))
    }

    fn report(
        &mut self,
        ledger: &Ledger,
        partition: &Partition,
        (from, next): (Offset, Option<Offset>),
        why: &str,
    ) {
        if self.reported.len() >= REPORTED_MAX {
            self.reported.pop_first();
        }
        if !self.reported.insert((partition.key(), from)) {
            return;
        }
        ledger.dir.on_rot_found();
        let (topic, index) = (&partition.topic, partition.index);
        let next = match next {
            _ if partition.has_repaired(from) => {
                "another replica is asked for what was there".to_owned()
            }
            Some(next) => format!("readers can go on at offset {next}"),
            None => "nothing behind it can be read".to_owned(),
        };
        env::tell!("{topic}-{index}: rot was found at or behind offset {from}: {why}; {next}");
    }
}

impl Chore for Scrub {
    fn due(&self, ledger: &Ledger, _: Instant) -> Option<Instant> {
        (ledger.dir.settings.scrub_bytes_per_second > 0).then_some(self.at)
    }

    fn run(&mut self, ledger: &mut Ledger, moment: &mut Moment) -> Result<Flow, StoreError> {
        let pause = if self.is_busy(ledger) {
            BUSY_RETRY
        } else if !self.is_begun {
            // Segments closed since the last checkpoint are read only behind another, which a directory at rest takes for nothing else.
            ledger.dir.want_checkpoint();
            self.is_begun = true;
            BUSY_RETRY
        } else if self.step(ledger) {
            let rate = ledger.dir.settings.scrub_bytes_per_second.max(1);
            Duration::from_millis(STEP_BYTES * 1000 / rate)
        } else {
            self.is_begun = false;
            REST
        };
        self.at = moment.now.plus(pause);
        Ok(Flow::Continue(()))
    }
}
