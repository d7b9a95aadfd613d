//! A view of a quorum: its state, and how far each replica came. DescribeQuorum and `esker cluster quorum` are made of it.

use model::{BrokerId, LeaderEpoch, Offset};

use crate::event::Moment;
use crate::memory::Memory;
use crate::state::{Progress, Role};
use crate::step::Quorum;
use crate::voters::{Endpoint, Replica};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RoleName {
    Unattached,
    Prospective,
    Candidate,
    Follower,
    Leader,
    Resigned,
}

/// A replica as its leader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoterView {
    pub replica: Replica,
    pub end: Option<Offset>,
    pub last_fetch: Option<Moment>,
    pub last_caught_up: Option<Moment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub role: RoleName,
    pub epoch: LeaderEpoch,
    pub leader: Option<BrokerId>,
    pub voted: Option<Replica>,
    /// Known to be committed; of a leader, in its own epoch.
    pub watermark: Option<Offset>,
    pub end: Offset,
    pub durable: Offset,
    /// False if it forgot what it promised: its vote file was lost, or its directory is empty.
    pub may_vote: bool,
    /// Only a leader knows these.
    pub voters: Vec<VoterView>,
    pub observers: Vec<VoterView>,
}

impl Quorum {
    #[must_use]
    pub fn role(&self) -> RoleName {
        match self.role {
            Role::Unattached(_) => RoleName::Unattached,
            Role::Prospective(_) => RoleName::Prospective,
            Role::Candidate(_) => RoleName::Candidate,
            Role::Follower(_) => RoleName::Follower,
            Role::Leader(_) => RoleName::Leader,
            Role::Resigned(_) => RoleName::Resigned,
        }
    }

    #[must_use]
    pub fn epoch(&self) -> LeaderEpoch {
        self.election.epoch
    }

    /// The leader as this replica knows it, and where it is dialled. `None` while there is none.
    #[must_use]
    pub fn leader(&self) -> Option<(BrokerId, Option<Endpoint>)> {
        let id = self.election.leader.filter(|_| !self.shuns_leader())?;
        let mut listeners = self.me.listeners.iter();
        let own = listeners.find(|at| at.name == self.me.listener);
        match &self.role {
            Role::Leader(_) => Some((id, own.map(|at| at.endpoint.clone()))),
            Role::Resigned(_) => None,
            _ => {
                let known = || self.endpoint_of(id);
                Some((id, self.leader_endpoint.clone().or_else(known)))
            }
        }
    }

    /// True if this replica leads, or the leader has answered it and is not overdue. A voter that has not heard its leader for
    /// the fetch timeout still knows who led ([`Quorum::leader`]).
    #[must_use]
    pub fn hears_leader(&self) -> bool {
        match &self.role {
            Role::Leader(_) => true,
            Role::Follower(state) => state.has_fetched && !self.shuns_leader(),
            Role::Unattached(_) | Role::Prospective(_) | Role::Candidate(_) | Role::Resigned(_) => {
                false
            }
        }
    }

    #[must_use]
    pub fn view(&self) -> View {
        let seen = |progress: &Progress| VoterView {
            replica: progress.replica,
            end: progress.end,
            last_fetch: progress.last_fetch,
            last_caught_up: progress.last_caught_up,
        };
        let me = self.me.replica;
        let (mut voters, mut observers, mut watermark) = (Vec::new(), Vec::new(), self.watermark);
        if let Role::Leader(leader) = &self.role {
            voters = leader.voters.values().map(seen).collect();
            observers = leader.observers.values().map(seen).collect();
            watermark = self.leader_watermark();
        }
        if let Some(own) = voters.iter_mut().find(|voter| voter.replica == me) {
            own.end = Some(self.log.durable());
        }
        View {
            role: self.role(),
            epoch: self.election.epoch,
            leader: self.election.leader.filter(|_| !self.shuns_leader()),
            voted: self.election.voted,
            watermark,
            end: self.log.end(),
            durable: self.log.durable(),
            may_vote: self.memory == Memory::Whole,
            voters,
            observers,
        }
    }
}
