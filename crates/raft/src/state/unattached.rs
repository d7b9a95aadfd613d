//! Unattached: asks around for the leader, and stands for election when none is found in time.

use model::Instant;

use super::Role;
use crate::event::Moment;
use crate::step::Quorum;

#[derive(Debug)]
pub(crate) struct Unattached {
    /// None for a replica that is no voter.
    pub(crate) deadline: Option<Instant>,
}

impl Quorum {
    pub(super) fn turn_unattached(&mut self, at: Moment) -> bool {
        let Role::Unattached(state) = &self.role else {
            return false;
        };
        if self.may_stand() && state.deadline.is_some_and(|deadline| deadline <= at.now) {
            self.become_prospective(at);
            return true;
        }
        self.fetch_from_anyone(at);
        false
    }
}
