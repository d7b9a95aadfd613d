//! Rounds between their write and the news of it.
//!
//! Several rounds of a slow disk wait for their syncs together. Invariant: logs are notified of rounds in the order they were written, so a
//! log never hears of a later one first, and after a failed sync it hears of the failure. Does no IO.

use std::collections::VecDeque;
use std::io;

use env::FileHandle;
use model::Instant;

use super::durable::Key;
use super::queue::Round;

/// Where the journal stands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Point {
    pub(crate) sequence: u64,
    pub(crate) checksum: u32,
    pub(crate) piece: u64,
    pub(crate) live_bytes: u64,
    /// Bytes that the newest piece still takes.
    pub(crate) room: u64,
}

/// A written round that wants its sync: to be given to `LogDir::finish` with what became of it.
#[must_use]
pub struct Flight {
    /// `None` for a round that promised no durability.
    pub(super) file: Option<FileHandle>,
    pub(super) sequence: u64,
    pub(super) started: Instant,
}

impl Flight {
    /// Blocks until the round is durable.
    pub fn sync(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), |file| file.sync_data())
    }
}

/// A written round whose logs are not notified yet.
pub(super) struct Untold {
    pub(super) round: Round,
    /// Where the journal stands after the round.
    pub(super) point: Point,
    /// The journal's descriptor that syncs the round.
    pub(super) descriptor: usize,
    pub(super) is_synced: bool,
    pub(super) started: Instant,
}

/// Written rounds whose logs are not notified yet, oldest first.
#[derive(Default)]
pub(super) struct Flights {
    untold: VecDeque<Untold>,
}

impl Flights {
    /// A descriptor that no round waits for.
    pub(super) fn free_descriptor(&self) -> usize {
        let is_used = |which: &usize| (self.untold.iter()).any(|of| of.descriptor == *which);
        (0..=self.untold.len())
            .find(|which| !is_used(which))
            .unwrap_or(0)
    }

    pub(super) fn push(&mut self, untold: Untold) {
        self.untold.push_back(untold);
    }

    pub(super) fn on_synced(&mut self, sequence: u64) {
        let is_it = |of: &&mut Untold| of.point.sequence == sequence;
        if let Some(untold) = self.untold.iter_mut().find(is_it) {
            untold.is_synced = true;
        }
    }

    /// When the oldest round was begun that waits for its sync.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let unsynced = self.untold.iter().filter(|of| !of.is_synced);
        unsynced.map(|of| of.started).min()
    }

    /// Logs of all written rounds; one may come more than once.
    pub(super) fn logs(&self) -> impl Iterator<Item = Key> {
        let members = self.untold.iter().flat_map(|of| &of.round.members);
        members.map(|member| member.key)
    }

    /// The oldest round, if its logs may be notified.
    pub(super) fn next(&mut self) -> Option<Untold> {
        self.untold.pop_front_if(|of| of.is_synced)
    }
}
