//! The six states of a replica, and what each change of state does.

mod candidate;
mod follower;
mod leader;
mod prospective;
mod resigned;
mod unattached;

pub(crate) use candidate::Candidate;
pub(crate) use follower::{Download, Follower};
pub(crate) use leader::{Leader, Parked, Progress};
pub(crate) use prospective::Prospective;
pub(crate) use resigned::Resigned;
pub(crate) use unattached::Unattached;

use model::{BrokerId, Instant, LeaderEpoch};

use crate::calls::Target;
use crate::effect::{Alarm, Effect, Left};
use crate::event::Moment;
use crate::memory::Memory;
use crate::message::Addresses;
use crate::quorum_state::{Election, VoteFile};
use crate::step::Quorum;
use crate::timers::sooner;
use crate::voters::Endpoint;

#[derive(Debug)]
pub(crate) enum Role {
    /// Knows an epoch, and no leader that can be asked.
    Unattached(Unattached),
    /// Asks whether it could win, without raising the epoch (KIP-996).
    Prospective(Prospective),
    Candidate(Candidate),
    Follower(Follower),
    Leader(Box<Leader>),
    /// Was the leader of this epoch and is no more.
    Resigned(Resigned),
}

/// The outcome of a peer's word on the leader of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adopted {
    Changed,
    Same,
    /// The peer contradicts what is known: a bug or a rolled-back disk, there or here.
    Conflict,
}

impl Quorum {
    /// The first state after a start.
    pub(crate) fn begin(&mut self, at: Moment, vote: VoteFile) {
        let last = self.log.last_epoch();
        let known = match vote {
            // A log of before there were votes. Its epoch had a leader, which another vote must not replace.
            VoteFile::Fresh => Some(Election {
                epoch: last,
                leader: None,
                voted: (last > LeaderEpoch(0)).then_some(self.me.replica),
            }),
            VoteFile::Known(election) if election.epoch >= last => Some(election),
            // A vote file older than the log was rolled back: it forgot votes.
            VoteFile::Known(_) | VoteFile::Lost => None,
        };
        let Some(election) = known else {
            self.forget(Memory::Lost);
            self.effects.push(Effect::Alarm(Alarm::VoteLost));
            self.election.epoch = last;
            return;
        };
        self.election = election;
        if vote == VoteFile::Fresh {
            self.forget(Memory::Empty);
        }
        let me = self.me.replica.id;
        if election.leader == Some(me) {
            // The end of its log may be lost: the same epoch must not go on.
            self.become_resigned(at, Vec::new());
        } else if let Some((leader, endpoint)) = election
            .leader
            .and_then(|id| Some((id, self.endpoint_of(id)?)))
        {
            self.become_follower(at, election.epoch, leader, endpoint);
        } else if self.history.voters().is_only(self.me.replica) {
            self.become_prospective(at);
        } else {
            // Nobody is known to lead, and a pre-vote finds the leader if there is one: no need to wait as long as for a silent one.
            let wait = self.jitter.stretch(self.settings.election_timeout / 4);
            let deadline = self.may_stand().then(|| at.now.plus(wait));
            self.role = Role::Unattached(Unattached { deadline });
        }
    }

    /// Does what is due in this state. True if another state came of it.
    pub(crate) fn turn(&mut self, at: Moment) -> bool {
        match &self.role {
            Role::Unattached(_) => self.turn_unattached(at),
            Role::Prospective(_) => self.turn_prospective(at),
            Role::Candidate(_) => self.turn_candidate(at),
            Role::Follower(_) => self.turn_follower(at),
            Role::Leader(_) => self.turn_leader(at),
            Role::Resigned(_) => self.turn_resigned(at),
        }
    }

    pub(crate) fn role_deadline(&self) -> Option<Instant> {
        match &self.role {
            Role::Unattached(state) => state.deadline.filter(|_| self.may_stand()),
            Role::Prospective(state) => sooner(Some(state.deadline), state.again),
            Role::Candidate(state) => Some(state.deadline),
            Role::Follower(state) => self.follower_deadline(state),
            Role::Leader(state) => Some(self.leader_deadline(state)),
            Role::Resigned(state) => Some(state.deadline),
        }
    }

    /// When a voter that hears of no leader stands for election.
    pub(crate) fn election_deadline(&mut self, now: Instant) -> Option<Instant> {
        let wait = self.jitter.stretch(self.settings.election_timeout);
        self.may_stand().then(|| now.plus(wait))
    }

    /// Reports the end of the leadership that this replica has, if it has one.
    pub(crate) fn report_left(&mut self, why: Left) {
        if self.is_leader() {
            let epoch = self.election.epoch;
            self.effects.push(Effect::LeadershipEnded { epoch, why });
        }
    }

    fn leave(&mut self) {
        if self.is_leader() {
            self.leave_leadership();
        }
        if let Role::Follower(Follower {
            download: Some(download),
            ..
        }) = &self.role
        {
            let id = download.id;
            self.effects.push(Effect::DropSnapshot { id });
        }
        self.calls.reset();
    }

    /// A newer epoch without a leader that is known, or the end of a pre-election.
    pub(crate) fn become_unattached(
        &mut self,
        at: Moment,
        epoch: LeaderEpoch,
        leader: Option<BrokerId>,
    ) {
        self.become_unattached_for(at, epoch, leader, Left::Led { epoch, by: leader });
    }

    /// The same, where a leader does so for another reason.
    pub(crate) fn become_unattached_for(
        &mut self,
        at: Moment,
        epoch: LeaderEpoch,
        leader: Option<BrokerId>,
        why: Left,
    ) {
        let is_same = epoch == self.election.epoch;
        assert!(
            epoch > self.election.epoch
                || is_same && (matches!(self.role, Role::Prospective(_)) || self.shuns_leader()),
            "epoch {epoch} does not follow {}",
            self.election.epoch
        );
        // A wait that has begun is kept: a stream of candidates must not stop a voter from becoming one itself.
        let begun = match &self.role {
            Role::Unattached(state) => state.deadline,
            Role::Candidate(state) => Some(state.deadline),
            Role::Prospective(state) if !state.tally.is_lost() => Some(state.deadline),
            Role::Resigned(state) => Some(state.deadline),
            Role::Prospective(_) | Role::Follower(_) | Role::Leader(_) => None,
        };
        let fresh = self.election_deadline(at.now);
        let deadline = begun.filter(|_| fresh.is_some()).or(fresh);
        self.report_left(why);
        self.leave();
        self.leader_endpoint = None;
        self.remember(Election {
            epoch,
            leader,
            voted: self.election.voted.filter(|_| is_same),
        });
        self.role = Role::Unattached(Unattached { deadline });
    }

    pub(crate) fn become_follower(
        &mut self,
        at: Moment,
        epoch: LeaderEpoch,
        leader: BrokerId,
        endpoint: Endpoint,
    ) {
        assert!(
            leader != self.me.replica.id,
            "a replica does not follow itself"
        );
        let is_same = epoch == self.election.epoch;
        let by = Some(leader);
        self.report_left(Left::Led { epoch, by });
        self.leave();
        self.leader_endpoint = Some(endpoint);
        self.remember(Election {
            epoch,
            leader: Some(leader),
            voted: self.election.voted.filter(|_| is_same),
        });
        self.role = Role::Follower(Follower::new(at.now, self.settings.fetch_timeout));
    }

    /// Takes a peer's word on who leads `epoch`.
    pub(crate) fn adopt(
        &mut self,
        at: Moment,
        epoch: LeaderEpoch,
        leader: Option<BrokerId>,
        addresses: &Addresses,
    ) -> Adopted {
        let known = self.election.leader;
        let is_newer = epoch > self.election.epoch;
        let is_shunned = if is_newer {
            leader.is_some_and(|leader| self.shunned.rests(leader, at.now))
        } else {
            leader == known && self.shuns_leader()
        };
        if is_shunned {
            return Adopted::Same;
        }
        if leader == Some(self.me.replica.id) && (is_newer || known != leader)
            || !is_newer && leader.is_some() && known.is_some() && leader != known
        {
            // A replica without its vote file, or a new disk of the node that leads, does not remember its leadership.
            let is_sure = self.is_voter() && self.remembers();
            let forgot = leader == Some(self.me.replica.id) && !is_sure;
            if forgot {
                self.hear_of_own_leadership(at, epoch);
            } else if let Some(told) = leader {
                self.alarm_once(Alarm::TwoLeaders { epoch, known, told });
            }
            return Adopted::Conflict;
        }
        let endpoint = leader.and_then(|leader| {
            let told = addresses.iter().find(|(id, _)| *id == leader);
            told.map(|(_, endpoint)| endpoint.clone())
                .or_else(|| self.endpoint_of(leader))
        });
        let needs_endpoint = known.is_none() || self.leader_endpoint.is_none();
        match (leader, endpoint) {
            (Some(leader), Some(endpoint)) if is_newer || needs_endpoint => {
                self.become_follower(at, epoch, leader, endpoint);
                Adopted::Changed
            }
            _ if is_newer => {
                self.become_unattached(at, epoch, leader);
                Adopted::Changed
            }
            _ => Adopted::Same,
        }
    }

    /// A leadership that ended with a disk is followed by another's, if a majority is there.
    fn hear_of_own_leadership(&mut self, at: Moment, epoch: LeaderEpoch) {
        let wait = (self.settings.fetch_timeout + self.settings.election_timeout * 2) * 2;
        let id = self.me.replica.id;
        match self.own_leadership {
            Some((known, since)) if known == epoch => {
                if since.plus(wait) <= at.now {
                    self.alarm_once(Alarm::Unelected { id, epoch });
                }
            }
            _ => self.own_leadership = Some((epoch, at.now)),
        }
    }

    /// Asks some node that may know the leader: an address of the settings, or a voter. The log may name voters where the settings know
    /// only nodes that have gone.
    pub(crate) fn fetch_from_anyone(&mut self, at: Moment) {
        if self.calls.is_any_waiting() {
            return;
        }
        let me = self.me.replica.id;
        let own = |seed: &Endpoint| self.me.listeners.iter().any(|at| at.endpoint == *seed);
        let seeds = self.me.seeds.iter().enumerate();
        let seeds = seeds.filter(|(_, seed)| !own(seed));
        let voters = self.history.voters().iter();
        let voters = voters.filter(|voter| voter.replica.id != me);
        let mut targets: Vec<Target> = seeds
            .map(|(at, _)| Target::Seed(at))
            .chain(voters.map(|voter| Target::Node(voter.replica.id)))
            .collect();
        targets.retain(|target| self.calls.is_free(*target) && self.peer(*target).is_some());
        if targets.is_empty() {
            return;
        }
        let chosen = self.jitter.next() as usize % targets.len();
        self.send_fetch(at, targets[chosen]);
    }
}
