//! Updating a voter: where it listens and which versions it knows. While `kraft.version` is 0 the leader only remembers it.

use model::BrokerId;
use wire::messages::update_raft_voter_request as asked;
use wire::messages::update_raft_voter_response as answered;
use wire::messages::{UpdateRaftVoterRequest, UpdateRaftVoterResponse};
use wire::{ApiKey, ErrorCode};

use crate::calls::Target;
use crate::event::{Caller, Moment};
use crate::message::{self, Request, Response};
use crate::state::Role;
use crate::step::Quorum;
use crate::voters::{Endpoint, Listener, Replica, VersionRange, Voter, VoterSet};

impl Quorum {
    pub(crate) fn on_update_voter(
        &mut self,
        at: Moment,
        caller: Caller,
        request: &UpdateRaftVoterRequest,
    ) {
        let error = match self.update(at, request) {
            Ok(()) => ErrorCode::None,
            Err(error) => error,
        };
        let mut response = UpdateRaftVoterResponse {
            error_code: error as i16,
            current_leader: answered::CurrentLeader {
                leader_id: self.leader_or_none(),
                leader_epoch: self.election.epoch.0,
                ..Default::default()
            },
            ..Default::default()
        };
        if let Some((_, endpoint)) = self.leader_address() {
            response.current_leader.host = endpoint.host;
            response.current_leader.port = i32::from(endpoint.port);
        }
        self.answer(caller, Response::UpdateVoter(response));
    }

    fn update(&mut self, at: Moment, request: &UpdateRaftVoterRequest) -> Result<(), ErrorCode> {
        let node = Some(BrokerId(request.voter_id));
        if !self.is_of_this_cluster(at, node, request.cluster_id.as_deref()) {
            return Err(ErrorCode::InconsistentClusterId);
        }
        if let Some(error) = self.leader_error(request.current_leader_epoch) {
            return Err(error);
        }
        let voter = voter_of(request);
        let is_range = 0 <= voter.versions.min && voter.versions.min <= voter.versions.max;
        if voter.replica.id.0 < 0
            || voter.replica.directory.is_zero()
            || !self.history.voters().can_dial(&voter, &self.me.listener)
            || !is_range
            || !voter.versions.has(self.history.version())
        {
            return Err(ErrorCode::InvalidRequest);
        }
        let replica = voter.replica;
        if self.history.is_dynamic() {
            let voters = self.changeable_voters()?;
            let set = voters.updating(voter).ok_or(ErrorCode::VoterNotFound)?;
            self.write_voters(at, &set);
        } else {
            self.describe(voter)?;
        }
        self.saw_voter(at.now, replica);
        Ok(())
    }

    fn describe(&mut self, voter: Voter) -> Result<(), ErrorCode> {
        if self.leader_watermark().is_none() {
            return Err(ErrorCode::RequestTimedOut);
        }
        let Role::Leader(leader) = &mut self.role else {
            return Err(ErrorCode::NotLeaderOrFollower);
        };
        let set: Option<VoterSet> = leader.described.updating_node(voter);
        leader.described = set.ok_or(ErrorCode::VoterNotFound)?;
        Ok(())
    }

    pub(super) fn send_update_voter(&mut self, at: Moment, leader: Target) {
        let Some(peer) = self.peer(leader) else {
            return;
        };
        let request = UpdateRaftVoterRequest {
            cluster_id: self.me.cluster.clone(),
            current_leader_epoch: self.election.epoch.0,
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
            k_raft_version_feature: asked::KRaftVersionFeature {
                min_supported_version: self.me.versions.min,
                max_supported_version: self.me.versions.max,
            },
        };
        self.send(at.now, leader, peer, Request::UpdateVoter(request));
    }

    pub(crate) fn on_update_answer(
        &mut self,
        at: Moment,
        response: &UpdateRaftVoterResponse,
    ) -> bool {
        let leader = &response.current_leader;
        let told = std::iter::once((leader.leader_id, leader.host.clone(), leader.port));
        let addresses = message::addresses(told);
        let error = ErrorCode::try_from(response.error_code).ok();
        let handled = self.learn(
            at,
            ApiKey::UpdateRaftVoter,
            error,
            leader.leader_id,
            leader.leader_epoch,
            &addresses,
        );
        if let Some(is_of_use) = handled {
            return is_of_use;
        }
        let is_done = matches!(error, Some(ErrorCode::None | ErrorCode::UnsupportedVersion));
        if let Role::Follower(state) = &mut self.role
            && is_done
        {
            state.has_updated = true;
            state.hear(at.now, self.settings.fetch_timeout);
        }
        is_done
    }
}

fn voter_of(request: &UpdateRaftVoterRequest) -> Voter {
    let listeners = request.listeners.iter().map(|at| Listener {
        name: at.name.clone(),
        endpoint: Endpoint {
            host: at.host.clone(),
            port: at.port,
        },
    });
    Voter {
        replica: Replica {
            id: BrokerId(request.voter_id),
            directory: request.voter_directory_id,
        },
        listeners: listeners.collect(),
        versions: VersionRange {
            min: request.k_raft_version_feature.min_supported_version,
            max: request.k_raft_version_feature.max_supported_version,
        },
    }
}
