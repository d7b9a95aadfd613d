//! Prospective: a voter that asks for pre-votes (KIP-996). Its epoch stays, so one that was merely cut off disturbs nobody.

use model::Instant;

use super::Role;
use crate::event::Moment;
use crate::step::Quorum;
use crate::tally::Tally;

#[derive(Debug)]
pub(crate) struct Prospective {
    pub(crate) deadline: Instant,
    pub(crate) tally: Tally,
    /// When those that refused are asked again.
    pub(crate) again: Option<Instant>,
}

impl Quorum {
    pub(crate) fn become_prospective(&mut self, at: Moment) {
        assert!(self.may_stand(), "only voters stand for election");
        let wait = self.jitter.stretch(self.settings.election_timeout);
        self.leave();
        self.role = Role::Prospective(Prospective {
            deadline: at.now.plus(wait),
            tally: self.own_tally(),
            again: None,
        });
    }

    /// An election in which nobody but this voter has a say yet: its own pre-vote, which needs no vote file.
    pub(crate) fn own_tally(&self) -> Tally {
        let mut tally = Tally::new(self.history.voters());
        tally.record(self.me.replica.id, true);
        tally
    }

    pub(super) fn turn_prospective(&mut self, at: Moment) -> bool {
        let Role::Prospective(state) = &self.role else {
            return false;
        };
        if state.tally.is_won() && self.may_stand() && self.knows_all_empty() {
            self.become_candidate(at);
            return true;
        }
        if state.tally.is_lost() || state.deadline <= at.now || !self.may_stand() {
            self.give_up_election(at);
            return true;
        }
        // Voters notice the end of a leader one after the other, and refuse until they have. A pre-vote binds nobody.
        if state.again.is_some_and(|again| again <= at.now) {
            let tally = self.own_tally();
            if let Role::Prospective(state) = &mut self.role {
                (state.tally, state.again) = (tally, None);
            }
        }
        let Role::Prospective(state) = &self.role else {
            return false;
        };
        let open = state.tally.open();
        self.ask_for_votes(at, open, true);
        false
    }

    /// Back to the leader that was known, if any: it may be there after all.
    fn give_up_election(&mut self, at: Moment) {
        let epoch = self.election.epoch;
        match (self.election.leader, self.leader_endpoint.clone()) {
            (Some(leader), Some(endpoint)) => self.become_follower(at, epoch, leader, endpoint),
            (leader, _) => self.become_unattached(at, epoch, leader),
        }
    }
}
