//! The memory of a replica: whether it knows what it promised as a voter.
//!
//! A voter promises twice: by a vote, and by an epoch, for once it is in one it acknowledges nothing to a leader of an older one. A
//! replica whose vote file is lost, or whose directory was emptied, has forgotten both. Without voters' directories (`kraft.version` 0)
//! others take it for the voter that it was. If it went on as one, a leader that was deposed could commit with its help (1) what the
//! leader of a later epoch, elected with its forgotten vote, does not have (2).
//!
//! So it does not count at first: its fetches carry no replica id. Once the leader that it follows has committed a record that was
//! appended after this replica came, a majority without it is in that epoch, and every majority that its forgotten promises were a part
//! of meets that one: nothing it promised lies in a later epoch. Then it counts, and a replica that was empty votes.
//!
//! A cluster begins with empty replicas alone. One votes when every other voter has shown it, by asking for its vote, that its log is empty
//! too: then nothing was ever committed, and no vote that it forgot was given beyond the epochs that they were in. Of two voters the other
//! one was part of every majority, and alone knows all that was committed: there nothing is held back.

use model::lineage::EpochEnd;
use model::{BrokerId, LeaderEpoch, Offset};

use crate::effect::{Alarm, Effect};
use crate::event::Moment;
use crate::state::Role;
use crate::step::Quorum;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    Whole,
    /// A new directory: nothing was promised, or all of it is forgotten.
    Empty,
    /// There was a vote file, and it cannot be believed. This replica does not vote while the process runs.
    Lost,
}

impl Quorum {
    /// False for a replica that knows that it may have promised what it does not remember.
    #[must_use]
    pub fn remembers(&self) -> bool {
        self.memory == Memory::Whole
    }

    pub(crate) fn may_vote(&self) -> bool {
        self.memory != Memory::Lost
    }

    /// True if the vote file is to be written for `has_voted`. The damaged one stays as a witness, and an empty directory stays one until
    /// there is a promise to keep.
    pub(crate) fn keeps_promises(&mut self, has_voted: bool) -> bool {
        if self.memory == Memory::Empty && has_voted {
            self.memory = Memory::Whole;
            self.is_counted = true;
        }
        self.memory == Memory::Whole
    }

    /// The id with which this replica fetches. Nobody counts one without.
    pub(crate) fn counted_id(&self) -> i32 {
        if self.is_counted {
            self.me.replica.id.0
        } else {
            -1
        }
    }

    /// A replica that begins without a memory.
    pub(crate) fn forget(&mut self, memory: Memory) {
        let voters = self.history.voters();
        let is_one = voters.has(self.me.replica);
        let has_hidden = is_one && voters.len() > 2;
        match memory {
            Memory::Whole => {}
            // Voters that are known by their directories are not taken for those of before.
            Memory::Empty if !has_hidden || self.history.is_dynamic() => {}
            Memory::Empty | Memory::Lost => {
                self.memory = memory;
                self.is_counted = !has_hidden;
            }
        }
    }

    /// A voter in `epoch` shows the end of its log. True if this replica gives it no vote in the epoch `wanted`, for want of a memory.
    pub(crate) fn withholds_vote(
        &mut self,
        candidate: BrokerId,
        epoch: LeaderEpoch,
        wanted: LeaderEpoch,
        last: EpochEnd,
    ) -> bool {
        if self.memory != Memory::Empty {
            return false;
        }
        self.has_met_records |= last.end > Offset::ZERO;
        if last.end > Offset::ZERO {
            self.alarm_once(Alarm::Emptied);
            return true;
        }
        // The first time counts: whatever was forgotten was promised before.
        self.empties.entry(candidate).or_insert(epoch);
        let is_beyond = |other: &BrokerId| self.empties[other] < wanted;
        let mut others = self.empties.keys().filter(|other| **other != candidate);
        !self.knows_all_empty() || !others.all(is_beyond)
    }

    /// The voters that this empty replica has not heard, where it waits for all of them: they may be a cluster that begins. `None` once
    /// one has shown a log with records, and for a replica that votes as one of a majority.
    #[must_use]
    pub fn missing_at_first(&self) -> Option<Vec<BrokerId>> {
        if self.memory != Memory::Empty || self.has_met_records || self.log.end() > Offset::ZERO {
            return None;
        }
        let me = self.me.replica.id;
        let voters = self.history.voters().iter().map(|voter| voter.replica.id);
        let is_missing = |id: &BrokerId| *id != me && !self.empties.contains_key(id);
        Some(voters.filter(is_missing).collect())
    }

    /// False for an empty replica that has not seen yet that all others are.
    pub(crate) fn knows_all_empty(&self) -> bool {
        let me = self.me.replica.id;
        let mut voters = self.history.voters().iter().map(|voter| voter.replica.id);
        self.memory != Memory::Empty || voters.all(|id| id == me || self.empties.contains_key(&id))
    }

    /// True if the committed log names voters by their directories: this one, which is new, has promised nothing under its own.
    fn is_known_by_directory(&mut self) -> bool {
        let committed = self.watermark.unwrap_or_default();
        let version = self.history.facts_at(committed).version;
        let is_known = self.memory == Memory::Empty && version.is_some_and(|version| 1 <= version);
        if is_known {
            self.memory = Memory::Whole;
            self.is_counted = true;
            self.store_vote();
        }
        is_known
    }

    /// The leader answered a fetch: `is_empty` without records, with the watermark `told`.
    pub(crate) fn remember_by(&mut self, at: Moment, is_empty: bool, told: Offset) {
        if self.is_counted || self.is_known_by_directory() {
            return;
        }
        let (end, is_synced) = (self.log.end(), self.log.is_synced());
        let Role::Follower(state) = &mut self.role else {
            return;
        };
        // A candidate of before that waits for one vote more has to give up first. Of three, it won with the vote that is forgotten.
        let wait = self.settings.fetch_timeout + self.settings.election_timeout * 2;
        let is_over = self.history.voters().len() <= 3 || self.began.plus(wait) <= at.now;
        let is_confirmed = state.confirms_behind.is_some_and(|base| base < told) && is_over;
        if is_empty {
            // All that the leader had when it answered was asked for by then.
            state.confirms_behind.get_or_insert(end);
        }
        if !is_confirmed || end < told || !is_synced {
            return;
        }
        self.is_counted = true;
        if self.memory == Memory::Empty {
            self.memory = Memory::Whole;
            self.store_vote();
        }
        self.effects.push(Effect::Remembered);
    }
}
