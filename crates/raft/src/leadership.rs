//! How a leadership is announced and given up: BeginQuorumEpoch, EndQuorumEpoch, and what any answer says of the leader.

use std::collections::BTreeSet;

use model::{BrokerId, LeaderEpoch};
use wire::messages::begin_quorum_epoch_request as begin;
use wire::messages::begin_quorum_epoch_response as begun;
use wire::messages::end_quorum_epoch_request as end;
use wire::messages::end_quorum_epoch_response as ended;
use wire::messages::{
    BeginQuorumEpochRequest, BeginQuorumEpochResponse, EndQuorumEpochRequest,
    EndQuorumEpochResponse,
};
use wire::{ApiKey, ErrorCode};

use crate::calls::Target;
use crate::effect::Alarm;
use crate::event::{Caller, Moment};
use crate::message::{self, Addresses, Request, Response, TOPIC};
use crate::state::{Adopted, Role};
use crate::step::{EPOCH_MAX, Quorum};
use crate::voters::{Endpoint, Replica};

impl Quorum {
    /// Takes what an answer says of leader and epoch. None if the answer itself is still to be looked at; else whether it was of use,
    /// so that the peer may be asked again at once.
    pub(crate) fn learn(
        &mut self,
        at: Moment,
        asked: ApiKey,
        error: Option<ErrorCode>,
        leader: i32,
        epoch: i32,
        addresses: &Addresses,
    ) -> Option<bool> {
        let leader = (leader >= 0).then_some(BrokerId(leader));
        let epoch = LeaderEpoch(epoch);
        let ours = self.election.epoch;
        if epoch < ours || EPOCH_MAX < epoch || error == Some(ErrorCode::UnknownLeaderEpoch) {
            // The peer is behind. It needs a moment.
            return Some(false);
        }
        let is_fenced = matches!(
            error,
            Some(ErrorCode::FencedLeaderEpoch | ErrorCode::NotLeaderOrFollower)
        );
        if epoch > ours || is_fenced {
            let adopted = self.adopt(at, epoch, leader, addresses);
            return Some(adopted == Adopted::Changed);
        }
        // A replica that has just started may remember who leads and not where.
        let seeks_leader =
            matches!(self.role, Role::Unattached(_)) && self.leader_endpoint.is_none();
        if leader.is_some() && (self.election.leader.is_none() || seeks_leader) {
            let adopted = self.adopt(at, epoch, leader, addresses);
            let is_good = adopted == Adopted::Changed && error == Some(ErrorCode::None);
            return (!is_good).then_some(adopted == Adopted::Changed);
        }
        match error {
            Some(error @ (ErrorCode::InvalidRequest | ErrorCode::InconsistentClusterId)) => {
                self.alarm_once(Alarm::Refused {
                    peer: leader,
                    request: asked,
                    error,
                });
                Some(false)
            }
            Some(ErrorCode::BrokerNotAvailable | ErrorCode::InvalidVoterKey) | None => Some(false),
            Some(_) => None,
        }
    }

    /// An answer refused as a whole.
    pub(crate) fn note_refused(&mut self, target: Target, request: ApiKey, code: i16) {
        if let Ok(error @ (ErrorCode::InvalidRequest | ErrorCode::InconsistentClusterId)) =
            ErrorCode::try_from(code)
        {
            let peer = match target {
                Target::Node(id) => Some(id),
                Target::Seed(_) => None,
            };
            self.alarm_once(Alarm::Refused {
                peer,
                request,
                error,
            });
        }
    }

    pub(crate) fn send_begin_epoch(&mut self, at: Moment, target: Target, voter: Replica) {
        let Some(peer) = self.peer(target).filter(|_| self.calls.is_free(target)) else {
            return;
        };
        let request = BeginQuorumEpochRequest {
            cluster_id: self.me.cluster.clone(),
            voter_id: voter.id.0,
            topics: vec![begin::TopicData {
                topic_name: TOPIC.to_owned(),
                partitions: vec![begin::PartitionData {
                    partition_index: 0,
                    voter_directory_id: voter.directory,
                    leader_id: self.me.replica.id.0,
                    leader_epoch: self.election.epoch.0,
                }],
            }],
            leader_endpoints: self
                .own_voter()
                .listeners
                .iter()
                .map(|listener| begin::LeaderEndpoint {
                    name: listener.name.clone(),
                    host: listener.endpoint.host.clone(),
                    port: listener.endpoint.port,
                })
                .collect(),
        };
        self.send(at.now, target, peer, Request::BeginEpoch(request));
    }

    pub(crate) fn on_begin_epoch(
        &mut self,
        at: Moment,
        caller: Caller,
        request: &BeginQuorumEpochRequest,
    ) {
        let part = begin_part(request);
        let leader = part.map(|part| BrokerId(part.leader_id));
        let is_ours = self.is_of_this_cluster(at, leader, request.cluster_id.as_deref());
        let (top, error) = match (is_ours, part) {
            (false, _) => (ErrorCode::InconsistentClusterId, ErrorCode::None),
            (true, None) => (ErrorCode::InvalidRequest, ErrorCode::None),
            (true, Some(part)) => (ErrorCode::None, self.take_begin(at, request, part)),
        };
        let parts = begun::PartitionData {
            partition_index: 0,
            error_code: error as i16,
            leader_id: self.leader_or_none(),
            leader_epoch: self.election.epoch.0,
        };
        let is_whole = top == ErrorCode::None;
        let response = BeginQuorumEpochResponse {
            error_code: top as i16,
            topics: is_whole
                .then(|| begun::TopicData {
                    topic_name: TOPIC.to_owned(),
                    partitions: vec![parts],
                })
                .into_iter()
                .collect(),
            node_endpoints: self
                .leader_address()
                .filter(|_| is_whole)
                .map(|(id, at)| begun::NodeEndpoint {
                    node_id: id.0,
                    host: at.host,
                    port: at.port,
                })
                .into_iter()
                .collect(),
        };
        self.answer(caller, Response::BeginEpoch(response));
    }

    /// The address that a leader says it has at our listener, or at the first of its own.
    fn address_told<'a>(
        &self,
        leader: BrokerId,
        told: impl Iterator<Item = (&'a str, &'a str, u16)> + Clone,
    ) -> Addresses {
        let ours = told.clone().find(|(name, ..)| *name == self.me.listener);
        let chosen = ours.or_else(|| told.clone().next());
        let endpoint = |(_, host, port): (&str, &str, u16)| Endpoint {
            host: host.to_owned(),
            port,
        };
        let chosen = chosen.map(|told| (leader, endpoint(told)));
        chosen.into_iter().collect()
    }

    fn take_begin(
        &mut self,
        at: Moment,
        request: &BeginQuorumEpochRequest,
        part: &begin::PartitionData,
    ) -> ErrorCode {
        if let Err(error) = self.check_voters_request(part.leader_epoch, part.leader_id) {
            return error;
        }
        let leader = BrokerId(part.leader_id);
        let told = request.leader_endpoints.iter();
        let told = told.map(|at| (at.name.as_str(), at.host.as_str(), at.port));
        let addresses = self.address_told(leader, told);
        let adopted = self.adopt(at, LeaderEpoch(part.leader_epoch), Some(leader), &addresses);
        if adopted == Adopted::Conflict {
            // INVALID_REQUEST, or a leader in the answer, would end a Kafka process. Its operator has the alarm.
            return ErrorCode::UnknownServerError;
        }
        if self.election.leader == Some(leader) && !self.shuns_leader() {
            self.learn_cluster(request.cluster_id.as_deref());
        }
        if self.is_meant(request.voter_id, part.voter_directory_id) {
            ErrorCode::None
        } else {
            ErrorCode::InvalidVoterKey
        }
    }

    pub(crate) fn on_begin_answer(
        &mut self,
        at: Moment,
        target: Target,
        response: &BeginQuorumEpochResponse,
    ) -> bool {
        let part = match response.topics.as_slice() {
            [topic] if topic.topic_name == TOPIC => topic.partitions.first(),
            _ => None,
        };
        let Some(part) = part.filter(|_| response.error_code == 0) else {
            self.note_refused(target, ApiKey::BeginQuorumEpoch, response.error_code);
            return false;
        };
        let addresses = response.node_endpoints.iter();
        let addresses = message::addresses(
            addresses.map(|at| (at.node_id, at.host.clone(), i32::from(at.port))),
        );
        let error = ErrorCode::try_from(part.error_code).ok();
        let handled = self.learn(
            at,
            ApiKey::BeginQuorumEpoch,
            error,
            part.leader_id,
            part.leader_epoch,
            &addresses,
        );
        handled.unwrap_or(error == Some(ErrorCode::None))
    }

    pub(crate) fn send_end_epoch(&mut self, at: Moment, target: Target) {
        let Some(peer) = self.peer(target).filter(|_| self.calls.is_free(target)) else {
            return;
        };
        let Role::Resigned(state) = &self.role else {
            return;
        };
        let successors = &state.successors;
        let request = EndQuorumEpochRequest {
            cluster_id: self.me.cluster.clone(),
            topics: vec![end::TopicData {
                topic_name: TOPIC.to_owned(),
                partitions: vec![end::PartitionData {
                    partition_index: 0,
                    leader_id: self.me.replica.id.0,
                    leader_epoch: self.election.epoch.0,
                    preferred_successors: successors.iter().map(|to| to.id.0).collect(),
                    preferred_candidates: successors
                        .iter()
                        .map(|to| end::ReplicaInfo {
                            candidate_id: to.id.0,
                            candidate_directory_id: to.directory,
                        })
                        .collect(),
                }],
            }],
            leader_endpoints: self
                .own_voter()
                .listeners
                .iter()
                .map(|listener| end::LeaderEndpoint {
                    name: listener.name.clone(),
                    host: listener.endpoint.host.clone(),
                    port: listener.endpoint.port,
                })
                .collect(),
        };
        self.send(at.now, target, peer, Request::EndEpoch(request));
    }

    pub(crate) fn on_end_epoch(
        &mut self,
        at: Moment,
        caller: Caller,
        request: &EndQuorumEpochRequest,
    ) {
        let part = end_part(request);
        let leader = part.map(|part| BrokerId(part.leader_id));
        let is_ours = self.is_of_this_cluster(at, leader, request.cluster_id.as_deref());
        let (top, error) = match (is_ours, part) {
            (false, _) => (ErrorCode::InconsistentClusterId, ErrorCode::None),
            (true, None) => (ErrorCode::InvalidRequest, ErrorCode::None),
            (true, Some(part)) => (ErrorCode::None, self.take_end(at, request, part)),
        };
        let part = ended::PartitionData {
            partition_index: 0,
            error_code: error as i16,
            leader_id: self.leader_or_none(),
            leader_epoch: self.election.epoch.0,
        };
        let is_whole = top == ErrorCode::None;
        let response = EndQuorumEpochResponse {
            error_code: top as i16,
            topics: is_whole
                .then(|| ended::TopicData {
                    topic_name: TOPIC.to_owned(),
                    partitions: vec![part],
                })
                .into_iter()
                .collect(),
            node_endpoints: self
                .leader_address()
                .filter(|_| is_whole)
                .map(|(id, at)| ended::NodeEndpoint {
                    node_id: id.0,
                    host: at.host,
                    port: at.port,
                })
                .into_iter()
                .collect(),
        };
        self.answer(caller, Response::EndEpoch(response));
    }

    fn take_end(
        &mut self,
        at: Moment,
        request: &EndQuorumEpochRequest,
        part: &end::PartitionData,
    ) -> ErrorCode {
        if let Err(error) = self.check_voters_request(part.leader_epoch, part.leader_id) {
            return error;
        }
        let leader = BrokerId(part.leader_id);
        let told = request.leader_endpoints.iter();
        let told = told.map(|at| (at.name.as_str(), at.host.as_str(), at.port));
        let addresses = self.address_told(leader, told);
        let adopted = self.adopt(at, LeaderEpoch(part.leader_epoch), Some(leader), &addresses);
        if adopted == Adopted::Conflict {
            return ErrorCode::UnknownServerError;
        }
        let me = self.me.replica;
        let by_key = part.preferred_candidates.iter().position(|to| {
            let named = Replica {
                id: BrokerId(to.candidate_id),
                directory: to.candidate_directory_id,
            };
            named.accepts(me)
        });
        let by_id = || {
            part.preferred_successors
                .iter()
                .position(|id| *id == me.id.0)
        };
        // Voters of before KIP-853 are named by their id alone.
        let (place, count) = if part.preferred_candidates.is_empty() {
            (by_id(), part.preferred_successors.len())
        } else {
            (by_key, part.preferred_candidates.len())
        };
        let wait = self.settings.succession(place.unwrap_or(count), count);
        if let Role::Follower(state) = &mut self.role
            && self.election.leader == Some(leader)
        {
            state.fetch_deadline = at.now.plus(wait);
        }
        ErrorCode::None
    }

    pub(crate) fn on_end_answer(
        &mut self,
        at: Moment,
        target: Target,
        response: &EndQuorumEpochResponse,
    ) -> bool {
        let part = match response.topics.as_slice() {
            [topic] if topic.topic_name == TOPIC => topic.partitions.first(),
            _ => None,
        };
        let Some(part) = part.filter(|_| response.error_code == 0) else {
            self.note_refused(target, ApiKey::EndQuorumEpoch, response.error_code);
            return false;
        };
        let addresses = response.node_endpoints.iter();
        let addresses = message::addresses(
            addresses.map(|at| (at.node_id, at.host.clone(), i32::from(at.port))),
        );
        let error = ErrorCode::try_from(part.error_code).ok();
        let handled = self.learn(
            at,
            ApiKey::EndQuorumEpoch,
            error,
            part.leader_id,
            part.leader_epoch,
            &addresses,
        );
        if let Some(is_of_use) = handled {
            return is_of_use;
        }
        if error != Some(ErrorCode::None) {
            return false;
        }
        if let (Role::Resigned(state), Target::Node(id)) = (&mut self.role, target) {
            state.unaware.remove(&id);
        }
        true
    }

    /// The driver wants this leader to give up.
    pub(crate) fn on_resign(&mut self, epoch: LeaderEpoch) {
        if let Role::Leader(leader) = &mut self.role
            && epoch == self.election.epoch
        {
            leader.resigns = true;
        }
    }

    /// Voters that this replica's successor must reach; for tests and reports.
    #[must_use]
    pub fn voter_ids(&self) -> BTreeSet<BrokerId> {
        let voters = self.history.voters().iter();
        voters.map(|voter| voter.replica.id).collect()
    }
}

fn begin_part(request: &BeginQuorumEpochRequest) -> Option<&begin::PartitionData> {
    let [topic] = request.topics.as_slice() else {
        return None;
    };
    match topic.partitions.as_slice() {
        [part] if topic.topic_name == TOPIC && part.partition_index == 0 => Some(part),
        _ => None,
    }
}

fn end_part(request: &EndQuorumEpochRequest) -> Option<&end::PartitionData> {
    let [topic] = request.topics.as_slice() else {
        return None;
    };
    match topic.partitions.as_slice() {
        [part] if topic.topic_name == TOPIC && part.partition_index == 0 => Some(part),
        _ => None,
    }
}
