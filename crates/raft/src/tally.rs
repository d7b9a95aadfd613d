//! The votes of one election.

use std::collections::BTreeMap;

use model::BrokerId;

use crate::voters::{Replica, VoterSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vote {
    Open,
    Granted,
    Rejected,
}

/// Counts votes among the voters that there were when the election began.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    votes: BTreeMap<BrokerId, (Replica, Vote)>,
}

impl Tally {
    pub(crate) fn new(voters: &VoterSet) -> Tally {
        let open = voters
            .iter()
            .map(|voter| (voter.replica.id, (voter.replica, Vote::Open)));
        Tally {
            votes: open.collect(),
        }
    }

    /// Takes a vote; one of a node without a say is none.
    pub(crate) fn record(&mut self, id: BrokerId, granted: bool) {
        if let Some((_, vote)) = self.votes.get_mut(&id) {
            *vote = if granted {
                Vote::Granted
            } else {
                Vote::Rejected
            };
        }
    }

    fn count(&self, which: Vote) -> usize {
        let votes = self.votes.values();
        votes.filter(|(_, vote)| *vote == which).count()
    }

    fn majority(&self) -> usize {
        self.votes.len() / 2 + 1
    }

    pub(crate) fn is_won(&self) -> bool {
        self.count(Vote::Granted) >= self.majority()
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.count(Vote::Granted) + self.count(Vote::Open) < self.majority()
    }

    /// Voters that have not answered.
    pub(crate) fn open(&self) -> Vec<Replica> {
        let votes = self.votes.values();
        let open = votes.filter(|(_, vote)| *vote == Vote::Open);
        open.map(|(replica, _)| *replica).collect()
    }

    pub(crate) fn granting(&self) -> Vec<BrokerId> {
        let votes = self.votes.iter();
        let granted = votes.filter(|(_, (_, vote))| *vote == Vote::Granted);
        granted.map(|(id, _)| *id).collect()
    }
}
