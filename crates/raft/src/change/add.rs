//! Adding a voter: it is asked what it can do, must have caught up, and counts from the moment its record is written.

use model::{BrokerId, Instant, Offset};
use wire::ErrorCode;
use wire::messages::add_raft_voter_request as asked;
use wire::messages::{AddRaftVoterRequest, ApiVersionsRequest, ApiVersionsResponse};

use super::{Change, added};
use crate::calls::{CallId, Target};
use crate::effect::Peer;
use crate::event::{Caller, Moment};
use crate::message::Request;
use crate::state::Role;
use crate::step::Quorum;
use crate::voters::{Endpoint, Listener, Replica, VersionRange, Voter};

/// Name of the feature that says which `kraft.version` a node knows.
const FEATURE: &str = "kraft.version";

#[derive(Clone, Debug)]
pub(crate) struct Adding {
    /// None once it was answered, which happens early if the caller wants it so.
    pub(crate) caller: Option<Caller>,
    voter: Voter,
    waits_for_commit: bool,
    pub(crate) deadline: Instant,
    /// The question what it can do.
    pub(crate) call: CallId,
    pub(crate) written_at: Option<Offset>,
}

impl Quorum {
    pub(crate) fn on_add_voter(
        &mut self,
        at: Moment,
        caller: Caller,
        request: &AddRaftVoterRequest,
    ) {
        if let Err(error) = self.begin_adding(at, caller, request) {
            self.answer(caller, added(error));
        }
    }

    fn begin_adding(
        &mut self,
        at: Moment,
        caller: Caller,
        request: &AddRaftVoterRequest,
    ) -> Result<(), ErrorCode> {
        if !self.is_of_this_cluster(at, None, request.cluster_id.as_deref()) {
            return Err(ErrorCode::InconsistentClusterId);
        }
        if !self.is_leader() {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        let listeners = request.listeners.iter().map(|at| Listener {
            name: at.name.clone(),
            endpoint: Endpoint {
                host: at.host.clone(),
                port: at.port,
            },
        });
        let voter = Voter {
            replica: Replica {
                id: BrokerId(request.voter_id),
                directory: request.voter_directory_id,
            },
            listeners: listeners.collect(),
            versions: VersionRange::default(),
        };
        let endpoint = voter.reached_at(&self.me.listener);
        let Some(endpoint) =
            endpoint.filter(|_| self.history.voters().can_dial(&voter, &self.me.listener))
        else {
            return Err(ErrorCode::InvalidRequest);
        };
        if voter.replica.id.0 < 0 || voter.replica.directory.is_zero() {
            return Err(ErrorCode::InvalidRequest);
        }
        let voters = self.changeable_voters()?;
        if voters.get(voter.replica.id).is_some() {
            return Err(ErrorCode::DuplicateVoter);
        }
        let target = Target::Node(voter.replica.id);
        if !self.calls.is_free(target) {
            return Err(ErrorCode::RequestTimedOut);
        }
        let peer = Peer {
            node: Some(voter.replica.id),
            endpoint,
        };
        // Nodes refuse a question without a name.
        let question = Request::ApiVersions(ApiVersionsRequest {
            client_software_name: "esker".to_owned(),
            client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..ApiVersionsRequest::default()
        });
        let call = self.send(at.now, target, peer, question);
        let deadline = at.now.plus(self.settings.request_timeout);
        if let Role::Leader(leader) = &mut self.role {
            leader.change = Some(Change::Add(Adding {
                caller: Some(caller),
                voter,
                waits_for_commit: request.ack_when_committed,
                deadline,
                call,
                written_at: None,
            }));
        }
        Ok(())
    }

    /// The newcomer said what it can do.
    pub(crate) fn on_versions_answer(
        &mut self,
        at: Moment,
        call: CallId,
        response: &ApiVersionsResponse,
    ) -> bool {
        let Role::Leader(leader) = &mut self.role else {
            return true;
        };
        let is_its =
            |change: &mut Change| matches!(change, Change::Add(adding) if adding.call == call);
        let Some(Change::Add(mut adding)) = leader.change.take_if(is_its) else {
            return true;
        };
        if adding.written_at.is_some() {
            leader.change = Some(Change::Add(adding));
            return true;
        }
        let features = response.supported_features.iter();
        let range = features
            .filter(|feature| feature.name == FEATURE)
            .map(|feature| VersionRange {
                min: feature.min_version,
                max: feature.max_version,
            })
            .next();
        let version = self.history.version();
        let error = match range.filter(|range| range.has(version)) {
            _ if response.error_code != 0 => Some(ErrorCode::RequestTimedOut),
            None => Some(ErrorCode::InvalidRequest),
            Some(_) if !self.is_caught_up(at, adding.voter.replica) => {
                Some(ErrorCode::RequestTimedOut)
            }
            Some(range) => {
                adding.voter.versions = range;
                None
            }
        };
        // The set that is extended is the committed one, whatever else was written meanwhile.
        let set = match (error, self.changeable_voters()) {
            (Some(error), _) | (None, Err(error)) => Err(error),
            (None, Ok(voters)) => voters
                .adding(adding.voter.clone())
                .ok_or(ErrorCode::DuplicateVoter),
        };
        match set {
            Err(error) => {
                self.answer_change(&Change::Add(adding), error);
                response.error_code == 0
            }
            Ok(set) => {
                if !adding.waits_for_commit
                    && let Some(caller) = adding.caller.take()
                {
                    self.answer(caller, added(ErrorCode::None));
                }
                adding.written_at = Some(self.write_voters(at, &set));
                if let Role::Leader(leader) = &mut self.role {
                    leader.change = Some(Change::Add(adding));
                }
                true
            }
        }
    }

    /// True for a replica that fetches now: one that was stopped is not what the node is, whatever it had.
    fn is_caught_up(&self, at: Moment, replica: Replica) -> bool {
        let Role::Leader(leader) = &self.role else {
            return false;
        };
        let observer = leader.observers.get(&replica);
        observer.is_some_and(|seen| seen.last_caught_up.is_some())
            && self.directory_of(at.now, replica.id) == Some(replica.directory)
    }

    pub(super) fn send_add_voter(&mut self, at: Moment, leader: Target) {
        let Some(peer) = self.peer(leader) else {
            return;
        };
        let request = AddRaftVoterRequest {
            cluster_id: self.me.cluster.clone(),
            timeout_ms: self.settings.request_timeout.as_millis() as i32,
            voter_id: self.me.replica.id.0,
            voter_directory_id: self.me.replica.directory,
            listeners: self
                .own_voter()
                .listeners
                .iter()
                .map(|listener| asked::Listener {
                    name: listener.name.clone(),
                    host: listener.endpoint.host.clone(),
                    port: listener.endpoint.port,
                })
                .collect(),
            ack_when_committed: false,
        };
        self.send(at.now, leader, peer, Request::AddVoter(request));
    }
}
