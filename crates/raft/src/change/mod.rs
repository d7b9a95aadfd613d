//! Changes of the voters (KIP-853): one at a time, each on top of committed voters, in an epoch that has committed a record.
//!
//! Two sets that differ by one voter have no disjoint majorities. Two changes at once, or one on top of voters that may be cut again,
//! could have two leaders elected by sets that do not meet.

mod add;
mod remove;
mod update;

pub(crate) use add::Adding;
pub(crate) use remove::Removing;

use model::{BrokerId, Instant, LeaderEpoch, Offset};
use wire::ErrorCode;
use wire::messages::{AddRaftVoterResponse, KRaftVersionRecord, RemoveRaftVoterResponse};

use crate::calls::{CallId, Target};
use crate::control::{self, Control};
use crate::effect::{Effect, Refusal};
use crate::event::{AppendTag, Moment};
use crate::message::Response;
use crate::state::Role;
use crate::step::Quorum;
use crate::voters::{Voter, VoterSet};

/// A change that somebody waits for.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Add(Adding),
    Remove(Removing),
}

/// The thing that a voter lacks, so that the voters cannot go into the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The voter has not said that it supports `kraft.version` 1.
    Level,
    /// The voter has not fetched for a moment, or two processes fetch with its number.
    Fetches,
    /// The voter described another directory than the one that it fetches for.
    Directory,
}

impl Change {
    pub(crate) fn deadline(&self) -> Instant {
        match self {
            Change::Add(adding) => adding.deadline,
            Change::Remove(removing) => removing.deadline,
        }
    }

    /// Offset of its voters record, once it is written.
    fn written_at(&self) -> Option<Offset> {
        match self {
            Change::Add(adding) => adding.written_at,
            Change::Remove(removing) => Some(removing.written_at),
        }
    }
}

impl Quorum {
    /// The voters that a change may build on, or why there can be no change now.
    fn changeable_voters(&self) -> Result<&VoterSet, ErrorCode> {
        let Role::Leader(leader) = &self.role else {
            return Err(ErrorCode::NotLeaderOrFollower);
        };
        let Some(committed) = self.leader_watermark() else {
            return Err(ErrorCode::RequestTimedOut);
        };
        if leader.change.is_some() {
            return Err(ErrorCode::RequestTimedOut);
        }
        if !self.history.is_dynamic() {
            return Err(ErrorCode::UnsupportedVersion);
        }
        // Voters count from the moment they are written, so those that are not committed yet are a change under way.
        if self.history.voters_at().is_none_or(|at| at >= committed) {
            return Err(ErrorCode::RequestTimedOut);
        }
        Ok(self.history.voters())
    }

    /// Writes a new set of voters. Returns the offset of its record.
    fn write_voters(&mut self, at: Moment, set: &VoterSet) -> Offset {
        assert!(
            self.history.voters().overlaps(set),
            "voters {set} do not overlap {}",
            self.history.voters()
        );
        let record = Control::Voters(set.to_record());
        let (base, _) = self.append(at, control::batch(&[record], at.wall));
        base
    }

    /// The watermark of a leader moved.
    pub(crate) fn on_committed(&mut self) {
        let committed = self.leader_watermark().unwrap_or_default();
        let me = self.me.replica;
        let is_out = !self.history.voters().has(me)
            && self.history.voters_at().is_some_and(|at| at < committed);
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        // A leader that is no voter any more leads until that is committed.
        leader.resigns |= is_out;
        let is_done = |change: &mut Change| change.written_at().is_some_and(|at| at < committed);
        if let Some(change) = leader.change.take_if(is_done) {
            self.answer_change(&change, ErrorCode::None);
        }
    }

    pub(crate) fn expire_change(&mut self, now: Instant) {
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        let is_late = |change: &mut Change| change.deadline() <= now;
        if let Some(change) = leader.change.take_if(is_late) {
            self.answer_change(&change, ErrorCode::RequestTimedOut);
        }
    }

    pub(crate) fn answer_change(&mut self, change: &Change, error: ErrorCode) {
        match change {
            Change::Add(adding) => {
                if let Some(caller) = adding.caller {
                    self.answer(caller, added(error));
                }
            }
            Change::Remove(removing) => self.answer(removing.caller, removed(error)),
        }
    }

    /// A call failed that a change may wait for.
    pub(crate) fn on_change_failed(&mut self, call: CallId) {
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        let is_its = |change: &mut Change| matches!(change, Change::Add(adding) if adding.call == call && adding.written_at.is_none());
        if let Some(change) = leader.change.take_if(is_its) {
            self.answer_change(&change, ErrorCode::RequestTimedOut);
        }
    }

    /// The first voter that keeps a leader from raising `kraft.version` to 1, and why; `None` if there is none.
    #[must_use]
    pub fn lacks_dynamic(&self, now: Instant) -> Option<(BrokerId, Lack)> {
        let Role::Leader(leader) = &self.role else {
            return None;
        };
        let lack = |id: BrokerId| {
            let described = leader.described.get(id);
            let is_ready =
                |voter: &&Voter| !voter.replica.directory.is_zero() && voter.versions.has(1);
            let Some(voter) = described.filter(is_ready) else {
                return Some(Lack::Level);
            };
            match self.directory_of(now, id) {
                None => Some(Lack::Fetches),
                Some(directory) if directory != voter.replica.directory => Some(Lack::Directory),
                Some(_) => None,
            }
        };
        let mut voters = self.history.voters().iter();
        voters.find_map(|voter| Some((voter.replica.id, lack(voter.replica.id)?)))
    }

    /// Raises `kraft.version` to 1: the voters, as they described themselves to this leader, go into the log. Each has to fetch for the
    /// directory that it described: a process that went by its number and is gone would keep its vote.
    pub(crate) fn on_make_dynamic(&mut self, at: Moment, tag: AppendTag, epoch: LeaderEpoch) {
        let (ours, known) = (self.election.epoch, self.election.leader);
        let Role::Leader(leader) = &self.role else {
            let why = Refusal::NotLeader {
                epoch: ours,
                leader: known,
            };
            return self.refuse(tag, why);
        };
        let set = leader.described.clone();
        if epoch != ours || self.leader_watermark().is_none() {
            let why = Refusal::Because(ErrorCode::RequestTimedOut);
            return self.refuse(tag, why);
        }
        if self.history.is_dynamic() || self.lacks_dynamic(at.now).is_some() {
            let why = Refusal::Because(ErrorCode::InvalidUpdateVersion);
            return self.refuse(tag, why);
        }
        let records = [
            Control::Version(KRaftVersionRecord {
                version: 0,
                k_raft_version: 1,
            }),
            Control::Voters(set.to_record()),
        ];
        let (base, next) = self.append(at, control::batch(&records, at.wall));
        self.effects.push(Effect::Accepted { tag, base, next });
    }

    /// True if the leader should hear of this replica: its listeners changed, or it wants to join.
    pub(crate) fn is_change_wanted(&self) -> bool {
        let Role::Follower(state) = &self.role else {
            return false;
        };
        let me = self.own_voter();
        if self.is_voter() {
            return if self.history.is_dynamic() {
                self.history.voters().is_outdated(&me)
            } else {
                !state.has_updated
            };
        }
        self.may_vote()
            && self.settings.joins
            && self.settings.may_become_voter
            && self.history.is_dynamic()
    }

    pub(crate) fn send_change(&mut self, at: Moment, leader: Target) {
        let me = self.me.replica;
        let other = self.history.voters().get(me.id);
        match other.map(|voter| voter.replica) {
            _ if self.is_voter() => self.send_update_voter(at, leader),
            // The directory that this node had before is still the voter.
            Some(old) => self.send_remove_voter(at, leader, old),
            None => self.send_add_voter(at, leader),
        }
    }

    /// The leader answered a wish to join.
    pub(crate) fn on_joining_answer(&mut self, at: Moment, code: i16) -> bool {
        let is_of_use = ErrorCode::try_from(code).is_ok_and(|code| {
            matches!(
                code,
                ErrorCode::None
                    | ErrorCode::RequestTimedOut
                    | ErrorCode::DuplicateVoter
                    | ErrorCode::VoterNotFound
            )
        });
        if let Role::Follower(state) = &mut self.role {
            state.update_deadline = at.now.plus(self.settings.fetch_timeout);
        }
        is_of_use
    }
}

fn added(error: ErrorCode) -> Response {
    Response::AddVoter(AddRaftVoterResponse {
        error_code: error as i16,
        error_message: words(error).map(str::to_owned),
        ..Default::default()
    })
}

fn removed(error: ErrorCode) -> Response {
    Response::RemoveVoter(RemoveRaftVoterResponse {
        error_code: error as i16,
        error_message: words(error).map(str::to_owned),
        ..Default::default()
    })
}

/// A refusal for whoever runs the command.
fn words(error: ErrorCode) -> Option<&'static str> {
    Some(match error {
        ErrorCode::None => return None,
        ErrorCode::UnsupportedVersion => {
            "voters cannot change while kraft.version is 0: raise it to 1 first (kafka-features upgrade --feature kraft.version=1)"
        }
        ErrorCode::RequestTimedOut => {
            "not now: another change of the voters is under way, or the node has not fetched all of the metadata in the last \
             seconds, or two processes run with its id, or it cannot be reached at its address"
        }
        ErrorCode::InvalidRequest => {
            "a voter has an id, a directory id, an address for the listener of the controllers, and supports the kraft.version of the cluster"
        }
        ErrorCode::DuplicateVoter => "the node is a voter already",
        ErrorCode::VoterNotFound => {
            "no such voter, or the last one: both its id and the id of its directory have to be right"
        }
        ErrorCode::InconsistentClusterId => "the request is for another cluster",
        other => other.message(),
    })
}
