//! Votes and pre-votes: asked for, given, counted.
//!
//! A vote given is in the vote file before the answer leaves: [`Quorum::remember`] holds the answer back.

use model::lineage::EpochEnd;
use model::{BrokerId, LeaderEpoch, Offset};
use wire::messages::vote_request as asked;
use wire::messages::vote_response as answered;
use wire::messages::{VoteRequest, VoteResponse};
use wire::{ApiKey, ErrorCode};

use crate::calls::Target;
use crate::effect::Left;
use crate::event::{Caller, Moment};
use crate::message::{self, Request, Response, TOPIC};
use crate::quorum_state::Election;
use crate::state::Role;
use crate::step::{EPOCH_MAX, Quorum};
use crate::timers::Jitter;
use crate::voters::Replica;

/// The two kinds of the same request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    PreVote,
    Vote,
}

impl Quorum {
    pub(crate) fn on_vote(&mut self, at: Moment, caller: Caller, request: &VoteRequest) {
        let cluster = request.cluster_id.as_deref();
        let part = request_part(request);
        let candidate = part.map(|part| BrokerId(part.replica_id));
        if !self.is_of_this_cluster(at, candidate, cluster) {
            return self.answer_vote_error(caller, ErrorCode::InconsistentClusterId);
        }
        let Some(part) = part else {
            return self.answer_vote_error(caller, ErrorCode::InvalidRequest);
        };
        let judged = self.judge_vote(at, (request.voter_id, cluster), part);
        let (error, granted) = match judged {
            Ok(granted) => (ErrorCode::None, granted),
            Err(error) => (error, false),
        };
        let response = VoteResponse {
            error_code: 0,
            topics: vec![answered::TopicData {
                topic_name: TOPIC.to_owned(),
                partitions: vec![answered::PartitionData {
                    partition_index: 0,
                    error_code: error as i16,
                    leader_id: self.leader_or_none(),
                    leader_epoch: self.election.epoch.0,
                    vote_granted: granted,
                }],
            }],
            node_endpoints: self
                .leader_address()
                .map(|(id, at)| answered::NodeEndpoint {
                    node_id: id.0,
                    host: at.host,
                    port: at.port,
                })
                .into_iter()
                .collect(),
        };
        self.answer(caller, Response::Vote(response));
    }

    fn judge_vote(
        &mut self,
        at: Moment,
        (voter_id, cluster): (i32, Option<&str>),
        part: &asked::PartitionData,
    ) -> Result<bool, ErrorCode> {
        let kind = if part.pre_vote {
            Kind::PreVote
        } else {
            Kind::Vote
        };
        let epoch = LeaderEpoch(part.replica_epoch);
        let last = EpochEnd {
            epoch: LeaderEpoch(part.last_offset_epoch),
            end: Offset(part.last_offset),
        };
        // A candidate has raised its epoch above all it has records of; a prospective has not yet.
        let is_possible = match kind {
            Kind::PreVote => last.epoch <= epoch,
            Kind::Vote => last.epoch < epoch,
        };
        if last.end < Offset::ZERO || last.epoch < LeaderEpoch(0) || !is_possible {
            return Err(ErrorCode::InvalidRequest);
        }
        self.check_voters_request(part.replica_epoch, part.replica_id)?;
        if epoch > self.election.epoch {
            let candidate = BrokerId(part.replica_id);
            let why = Left::Opposed { epoch, candidate };
            self.become_unattached_for(at, epoch, None, why);
        }
        if !self.is_meant(voter_id, part.voter_directory_id) {
            return Err(ErrorCode::InvalidVoterKey);
        }
        let candidate = Replica {
            id: BrokerId(part.replica_id),
            directory: part.replica_directory_id,
        };
        // A pre-vote is for the epoch behind this one.
        let wanted = match kind {
            Kind::PreVote => epoch.0 + 1,
            Kind::Vote => epoch.0,
        };
        let withholds = self.withholds_vote(candidate.id, epoch, LeaderEpoch(wanted), last);
        let would_begin_another = self.would_begin_another(candidate.id, cluster, last);
        let granted = !withholds && !would_begin_another && self.may_grant(candidate, last, kind);
        if granted && kind == Kind::Vote {
            self.give_vote(at, candidate);
        }
        Ok(granted)
    }

    fn may_grant(&self, candidate: Replica, last: EpochEnd, kind: Kind) -> bool {
        let is_up_to_date = self.is_up_to_date(last);
        if !self.may_vote() || self.shunned.lacks_committed(candidate.id, last) {
            return false;
        }
        match (&self.role, kind) {
            (Role::Unattached(_) | Role::Prospective(_), Kind::Vote) => {
                match (self.election.voted, self.election.leader) {
                    (Some(voted), _) => voted.accepts(candidate),
                    (None, Some(_)) => false,
                    (None, None) => is_up_to_date,
                }
            }
            (
                Role::Unattached(_) | Role::Prospective(_) | Role::Candidate(_) | Role::Resigned(_),
                Kind::PreVote,
            ) => is_up_to_date,
            // A leader that answers is better than any other.
            (Role::Follower(state), Kind::PreVote) => !state.has_fetched && is_up_to_date,
            (Role::Leader(_), _)
            | (Role::Follower(_) | Role::Candidate(_) | Role::Resigned(_), Kind::Vote) => false,
        }
    }

    fn give_vote(&mut self, at: Moment, candidate: Replica) {
        if self.election.voted.is_some() {
            return;
        }
        self.remember(Election {
            voted: Some(candidate),
            ..self.election
        });
        let deadline = self.election_deadline(at.now);
        let tally = self.own_tally();
        match &mut self.role {
            Role::Unattached(state) => state.deadline = deadline,
            Role::Prospective(state) => {
                state.deadline = deadline.unwrap_or(state.deadline);
                state.tally = tally;
            }
            Role::Candidate(_) | Role::Follower(_) | Role::Leader(_) | Role::Resigned(_) => {}
        }
    }

    /// The fault of a request that voters send each other, if it has one.
    pub(crate) fn check_voters_request(&self, epoch: i32, id: i32) -> Result<(), ErrorCode> {
        if epoch < self.election.epoch.0 {
            Err(ErrorCode::FencedLeaderEpoch)
        } else if id < 0 || EPOCH_MAX.0 < epoch {
            Err(ErrorCode::InvalidRequest)
        } else {
            Ok(())
        }
    }

    /// True if a request names this replica as its receiver, or none.
    pub(crate) fn is_meant(&self, id: i32, directory: wire::Uuid) -> bool {
        let named = Replica {
            id: BrokerId(id),
            directory,
        };
        id < 0 || named.accepts(self.me.replica)
    }

    fn answer_vote_error(&mut self, caller: Caller, error: ErrorCode) {
        let response = VoteResponse {
            error_code: error as i16,
            ..Default::default()
        };
        self.answer(caller, Response::Vote(response));
    }

    /// Asks the voters that have not answered yet, as far as none of them is being asked.
    pub(crate) fn ask_for_votes(&mut self, at: Moment, open: Vec<Replica>, is_pre_vote: bool) {
        let last = self.log.last();
        for replica in open {
            let target = Target::Node(replica.id);
            let Some(peer) = self.peer(target).filter(|_| self.calls.is_free(target)) else {
                continue;
            };
            let request = VoteRequest {
                cluster_id: self.me.cluster.clone(),
                voter_id: replica.id.0,
                topics: vec![asked::TopicData {
                    topic_name: TOPIC.to_owned(),
                    partitions: vec![asked::PartitionData {
                        partition_index: 0,
                        replica_epoch: self.election.epoch.0,
                        replica_id: self.me.replica.id.0,
                        replica_directory_id: self.me.replica.directory,
                        voter_directory_id: replica.directory,
                        last_offset_epoch: last.epoch.0,
                        last_offset: last.end.0,
                        pre_vote: is_pre_vote,
                    }],
                }],
            };
            self.send(at.now, target, peer, Request::Vote(request));
        }
    }

    pub(crate) fn on_vote_answer(
        &mut self,
        at: Moment,
        target: Target,
        response: &VoteResponse,
    ) -> bool {
        let part = match response.topics.as_slice() {
            [topic] if topic.topic_name == TOPIC => topic.partitions.first(),
            _ => None,
        };
        let Some(part) = part.filter(|_| response.error_code == 0) else {
            self.note_refused(target, ApiKey::Vote, response.error_code);
            return false;
        };
        let addresses = response.node_endpoints.iter();
        let addresses = message::addresses(
            addresses.map(|at| (at.node_id, at.host.clone(), i32::from(at.port))),
        );
        let error = ErrorCode::try_from(part.error_code).ok();
        if let Some(is_of_use) = self.learn(
            at,
            ApiKey::Vote,
            error,
            part.leader_id,
            part.leader_epoch,
            &addresses,
        ) {
            return is_of_use;
        }
        let Target::Node(voter) = target else {
            return false;
        };
        if error != Some(ErrorCode::None) {
            return false;
        }
        let granted = part.vote_granted;
        let timeout = self.settings.election_timeout;
        // A pause after a refusal that does not decide the vote: where the other voters are dead, no other answer comes in time.
        let pause = |jitter: &mut Jitter, part| at.now.plus(jitter.stretch(timeout / part));
        match &mut self.role {
            Role::Prospective(state) => {
                state.tally.record(voter, granted);
                if !granted && state.again.is_none() {
                    state.again = Some(pause(&mut self.jitter, 10));
                }
            }
            Role::Candidate(state) => {
                state.tally.record(voter, granted);
                if !granted {
                    let until = pause(&mut self.jitter, 5);
                    state.deadline = state.deadline.min(until);
                }
            }
            Role::Unattached(_) | Role::Follower(_) | Role::Leader(_) | Role::Resigned(_) => {}
        }
        true
    }
}

fn request_part(request: &VoteRequest) -> Option<&asked::PartitionData> {
    let [topic] = request.topics.as_slice() else {
        return None;
    };
    match topic.partitions.as_slice() {
        [part] if topic.topic_name == TOPIC && part.partition_index == 0 => Some(part),
        _ => None,
    }
}
