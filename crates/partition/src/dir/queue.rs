//! Appends that wait for the next round of their log directory.
//!
//! Invariant: entries of one log stand in offset order, because they are pushed under that log's lock. A round is bounded; what does
//! not fit opens the next one. Keeps no log alive: what is queued on a full disk stays queued, and would keep them for ever.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use log::journal::{Entry, SYNCS_MAX, What};
use model::Offset;

use super::durable::{Durable, Key, Reached};
use super::linger::Linger;
use crate::life::Life;

/// 16 MiB of batches per round: longer ones would only delay the first answer.
const ROUND_BYTES_MAX: usize = 16 << 20;

/// Entries that an emptied round keeps room for.
const ENTRIES_KEPT_MAX: usize = 1024;

/// Where a log stands in a queued round, so that its entries share one member.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slot {
    round: u64,
    index: usize,
}

/// One log of a round, and how far the round takes it.
pub(crate) struct Member {
    pub(crate) log: Weak<dyn Durable>,
    pub(crate) key: Key,
    pub(crate) reached: Reached,
    /// Index of the log's trim among the entries of the round.
    trim: Option<usize>,
}

#[derive(Default)]
pub(crate) struct Round {
    number: u64,
    pub(crate) entries: Vec<Entry>,
    pub(crate) members: Vec<Member>,
    pub(crate) bytes: usize,
    /// True if some entry promises durability.
    pub(crate) sync: bool,
}

/// A round with nothing but its buffers.
pub(crate) struct Emptied(Round);

impl Round {
    /// Lets go of thousands of batches, perhaps: not under the lock of the queue, for which every append waits.
    pub(crate) fn emptied(mut self) -> Emptied {
        self.entries.clear();
        self.members.clear();
        // A round of thousands of small batches is followed by shorter ones.
        self.entries.shrink_to(ENTRIES_KEPT_MAX);
        self.members.shrink_to(ENTRIES_KEPT_MAX);
        self.bytes = 0;
        self.sync = false;
        Emptied(self)
    }
}

#[derive(Default)]
pub(crate) struct Queue {
    rounds: VecDeque<Round>,
    /// Emptied rounds keep their buffers.
    idle: Vec<Round>,
    numbers: u64,
    pub(crate) linger: Linger,
}

/// The facts that are pushed, beside the entry itself.
pub struct Push {
    pub entry: Entry,
    pub bytes: usize,
    /// Log end behind the entry.
    pub up_to: Offset,
    pub is_trim: bool,
    /// True if the entry promises durability: then its round is synced.
    pub sync: bool,
    /// Life of the log in which the entry comes.
    pub life: Life,
}

impl Push {
    /// Bytes of memory that the entry holds until it is in the segment files.
    pub(crate) fn held(&self) -> usize {
        match &self.entry.what {
            What::Batch(batch) => batch.held(),
            _ => 0,
        }
    }
}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }

    /// Queues an entry. Returns true if it was merged into a trim that was queued before: on a full disk clients ask for trims again and again.
    pub(crate) fn push<D: Durable>(&mut self, log: &Arc<D>, slot: &mut Slot, push: Push) -> bool {
        if push.is_trim
            && let Some(queued) = self.trim_in(*slot)
        {
            // The new trim may take the place of the old one, in front of batches that were queued since: no trim goes beyond what is durable.
            *queued = push.entry;
            return true;
        }
        if self
            .rounds
            .back()
            .is_none_or(|round| round.bytes >= ROUND_BYTES_MAX)
        {
            self.numbers += 1;
            let mut round = self.idle.pop().unwrap_or_default();
            round.number = self.numbers;
            self.rounds.push_back(round);
        }
        let Some(round) = self.rounds.back_mut() else {
            unreachable!("a round was just ensured")
        };
        if slot.round != round.number {
            *slot = Slot {
                round: round.number,
                index: round.members.len(),
            };
            round.members.push(Member {
                log: Arc::downgrade(log) as _,
                key: (push.entry.topic, push.entry.partition),
                reached: Reached {
                    up_to: push.up_to,
                    has_trim: false,
                    held: 0,
                    life: push.life,
                },
                trim: None,
            });
        }
        let member = &mut round.members[slot.index];
        member.reached.up_to = push.up_to;
        member.reached.life = push.life;
        member.reached.held += push.held();
        if push.is_trim {
            member.reached.has_trim = true;
            member.trim = Some(round.entries.len());
        }
        round.entries.push(push.entry);
        round.bytes += push.bytes;
        round.sync |= push.sync;
        false
    }

    /// The trim in the newest round that has anything of a log, while that is queued.
    fn trim_in(&mut self, slot: Slot) -> Option<&mut Entry> {
        let mut rounds = self.rounds.iter_mut().rev();
        let round = rounds.find(|round| round.number == slot.round)?;
        let at = round.members[slot.index].trim?;
        Some(&mut round.entries[at])
    }

    /// Logs of all queued rounds; one may come more than once.
    pub(crate) fn logs(&self) -> impl Iterator<Item = Key> {
        let members = self.rounds.iter().flat_map(|round| &round.members);
        members.map(|member| member.key)
    }

    pub(crate) fn take(&mut self) -> Option<Round> {
        let round = self.rounds.pop_front()?;
        if self.rounds.is_empty() {
            self.linger.on_round();
        }
        Some(round)
    }

    /// The oldest round could not be committed yet.
    pub(crate) fn put_back(&mut self, round: Round) {
        self.rounds.push_front(round);
    }

    pub(crate) fn give_back(&mut self, round: Emptied) {
        let Emptied(round) = round;
        // Usually `SYNCS_MAX` + 1 rounds are alive: one being filled, the others on their way to the disk.
        if self.idle.len() <= SYNCS_MAX {
            self.idle.push(round);
        }
    }
}
