//! Candidate: a voter in a new epoch that asks for votes. It has voted for itself, which counts once its vote file says so.

use model::{Instant, LeaderEpoch};

use super::Role;
use crate::event::{Moment, VoteNumber};
use crate::quorum_state::Election;
use crate::step::Quorum;
use crate::tally::Tally;

#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) deadline: Instant,
    pub(crate) tally: Tally,
    /// The write of its own vote.
    own_vote: VoteNumber,
}

impl Quorum {
    pub(crate) fn become_candidate(&mut self, at: Moment) {
        assert!(
            self.may_stand() && matches!(self.role, Role::Prospective(_)),
            "only a prospective voter becomes a candidate"
        );
        let wait = self.jitter.stretch(self.settings.election_timeout);
        self.leave();
        self.leader_endpoint = None;
        let own_vote = self.remember(Election {
            epoch: LeaderEpoch(self.election.epoch.0 + 1),
            leader: None,
            voted: Some(self.me.replica),
        });
        self.role = Role::Candidate(Candidate {
            deadline: at.now.plus(wait),
            tally: Tally::new(self.history.voters()),
            own_vote,
        });
    }

    /// A write of the vote file is done.
    pub(crate) fn count_own_vote(&mut self, _at: Moment) {
        let me = self.me.replica.id;
        if let Role::Candidate(state) = &self.role
            && self.is_stored(state.own_vote)
            && let Role::Candidate(state) = &mut self.role
        {
            state.tally.record(me, true);
        }
    }

    pub(super) fn turn_candidate(&mut self, at: Moment) -> bool {
        let Role::Candidate(state) = &self.role else {
            return false;
        };
        if state.tally.is_won() && self.may_stand() {
            let granting = state.tally.granting();
            self.become_leader(at, &granting);
            return true;
        }
        if state.deadline <= at.now {
            if self.may_stand() {
                self.become_prospective(at);
            } else {
                // This candidate has voted for itself in the epoch, which is over for it.
                let epoch = LeaderEpoch(self.election.epoch.0 + 1);
                self.become_unattached(at, epoch, None);
            }
            return true;
        }
        // A lost election is waited out, so that the next one does not collide with it.
        if !state.tally.is_lost() {
            let me = self.me.replica.id;
            let mut open = state.tally.open();
            open.retain(|replica| replica.id != me);
            self.ask_for_votes(at, open, false);
        }
        false
    }
}
