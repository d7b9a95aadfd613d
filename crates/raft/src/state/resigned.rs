//! Resigned: a leader that gave up, or came back from a crash. It notifies the voters, and leaves its epoch when the time is up.

use std::collections::BTreeSet;

use model::{BrokerId, Instant, LeaderEpoch};

use super::Role;
use crate::calls::Target;
use crate::event::Moment;
use crate::step::Quorum;
use crate::voters::Replica;

#[derive(Debug)]
pub(crate) struct Resigned {
    pub(crate) deadline: Instant,
    /// Voters that do not know yet.
    pub(crate) unaware: BTreeSet<BrokerId>,
    pub(crate) successors: Vec<Replica>,
}

impl Quorum {
    pub(crate) fn become_resigned(&mut self, at: Moment, successors: Vec<Replica>) {
        let wait = self.jitter.stretch(self.settings.election_timeout);
        self.leave();
        let me = self.me.replica.id;
        let voters = self.history.voters().iter().map(|voter| voter.replica.id);
        self.role = Role::Resigned(Resigned {
            deadline: at.now.plus(wait),
            unaware: voters.filter(|id| *id != me).collect(),
            successors,
        });
    }

    pub(super) fn turn_resigned(&mut self, at: Moment) -> bool {
        let Role::Resigned(state) = &self.role else {
            return false;
        };
        // No other voter can be notified or elected.
        let is_alone = self.history.voters().is_only(self.me.replica);
        if is_alone && self.may_stand() {
            self.become_prospective(at);
            return true;
        }
        if state.deadline <= at.now {
            let epoch = LeaderEpoch(self.election.epoch.0 + 1);
            self.become_unattached(at, epoch, None);
            return true;
        }
        let unaware: Vec<BrokerId> = state.unaware.iter().copied().collect();
        for id in unaware {
            self.send_end_epoch(at, Target::Node(id));
        }
        false
    }
}
