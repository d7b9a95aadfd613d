//! Leaders that lack what is committed.
//!
//! An elected leader has everything that is committed, unless a disk was rolled back, or a voter of a fixed set was once started without
//! the others and led alone. A replica that is asked to cut its log below what it knows to be committed keeps its log, names that leader,
//! and leaves it: it stays in the epoch, whose leader is known, so it votes for nobody else in it; it looks for a newer one and stands for
//! election as a voter without a leader does. Nor does it vote for the log of that leader again, before that log ends in a later epoch.
//!
//! Such a leader may go on electing itself, as one that takes itself for the only voter does. Each epoch that the others learn of would
//! end the leadership of their own leader, so they take no word of a newer one for a while, twice as long each time.

use std::collections::BTreeMap;
use std::time::Duration;

use model::lineage::EpochEnd;
use model::{BrokerId, Instant, LeaderEpoch, Offset};

use crate::calls::Target;
use crate::effect::Alarm;
use crate::event::Moment;
use crate::step::Quorum;

/// Leaders that are remembered. A quorum has fewer voters; beyond it a peer makes up ids, and all of them are forgotten.
const LEADERS_MAX: usize = 100;

/// The pause doubles so often: with Kafka's fetch timeout of 2 s it ends at 64 s.
const DOUBLINGS_MAX: u32 = 5;

#[derive(Debug)]
struct Lacking {
    /// The last epoch in which it was found to lack what is committed.
    epoch: LeaderEpoch,
    times: u32,
    /// No newer epoch of it is learned before.
    until: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct Shunned(BTreeMap<BrokerId, Lacking>);

impl Shunned {
    fn note(&mut self, leader: BrokerId, epoch: LeaderEpoch, now: Instant, pause: Duration) {
        if self.0.len() >= LEADERS_MAX {
            self.0.clear();
        }
        let known = self.0.get(&leader).map_or(0, |known| known.times);
        let times = known.saturating_add(1);
        let until = now.plus(pause * (1 << times.min(DOUBLINGS_MAX)));
        let lacking = Lacking {
            epoch,
            times,
            until,
        };
        self.0.insert(leader, lacking);
    }

    /// The leader's log continues this one after all.
    pub(crate) fn forget(&mut self, leader: BrokerId) {
        self.0.remove(&leader);
    }

    /// True if the word that `leader` leads a newer epoch is not taken yet.
    pub(crate) fn rests(&self, leader: BrokerId, now: Instant) -> bool {
        self.0.get(&leader).is_some_and(|known| now < known.until)
    }

    /// True if `leader` is not followed in `epoch`.
    pub(crate) fn has(&self, leader: BrokerId, epoch: LeaderEpoch) -> bool {
        self.0
            .get(&leader)
            .is_some_and(|known| known.epoch == epoch)
    }

    /// True if a log of `candidate` that ends like this is one that lacks what is committed.
    pub(crate) fn lacks_committed(&self, candidate: BrokerId, last: EpochEnd) -> bool {
        let known = self.0.get(&candidate);
        known.is_some_and(|known| last.epoch <= known.epoch)
    }
}

impl Quorum {
    /// True while the leader of this epoch is one that is not followed.
    pub(crate) fn shuns_leader(&self) -> bool {
        let leader = self.election.leader;
        leader.is_some_and(|leader| self.shunned.has(leader, self.election.epoch))
    }

    /// The leader asks to end the log at `to`, below what is committed.
    pub(crate) fn shun_leader(&mut self, at: Moment, to: Offset, committed: Offset) {
        let Some(leader) = self.election.leader else {
            return;
        };
        let epoch = self.election.epoch;
        self.alarm_once(Alarm::BelowCommitted {
            leader,
            epoch,
            to,
            committed,
        });
        let pause = self.settings.fetch_timeout;
        self.shunned.note(leader, epoch, at.now, pause);
        self.become_unattached(at, epoch, Some(leader));
        // The leader has nothing else to say before its next epoch.
        self.calls.rest(Target::Node(leader), at.now, pause);
    }
}
