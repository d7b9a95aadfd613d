//! Removing a voter. A leader that removes itself leads until its own removal is committed, without counting itself.

use model::{BrokerId, Instant, Offset};
use wire::ErrorCode;
use wire::messages::RemoveRaftVoterRequest;

use super::{Change, removed};
use crate::calls::Target;
use crate::event::{Caller, Moment};
use crate::message::Request;
use crate::state::Role;
use crate::step::Quorum;
use crate::voters::Replica;

#[derive(Clone, Debug)]
pub(crate) struct Removing {
    pub(crate) caller: Caller,
    pub(crate) written_at: Offset,
    pub(crate) deadline: Instant,
}

impl Quorum {
    pub(crate) fn on_remove_voter(
        &mut self,
        at: Moment,
        caller: Caller,
        request: &RemoveRaftVoterRequest,
    ) {
        if let Err(error) = self.begin_removing(at, caller, request) {
            self.answer(caller, removed(error));
        }
    }

    fn begin_removing(
        &mut self,
        at: Moment,
        caller: Caller,
        request: &RemoveRaftVoterRequest,
    ) -> Result<(), ErrorCode> {
        if !self.is_of_this_cluster(at, None, request.cluster_id.as_deref()) {
            return Err(ErrorCode::InconsistentClusterId);
        }
        if !self.is_leader() {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        let replica = Replica {
            id: BrokerId(request.voter_id),
            directory: request.voter_directory_id,
        };
        if replica.id.0 < 0 || replica.directory.is_zero() {
            return Err(ErrorCode::InvalidRequest);
        }
        let voters = self.changeable_voters()?;
        let set = voters.removing(replica).ok_or(ErrorCode::VoterNotFound)?;
        let written_at = self.write_voters(at, &set);
        let deadline = at.now.plus(self.settings.request_timeout);
        if let Role::Leader(leader) = &mut self.role {
            leader.change = Some(Change::Remove(Removing {
                caller,
                written_at,
                deadline,
            }));
        }
        // The record may be committed already if one voter is left.
        self.on_committed();
        Ok(())
    }

    pub(super) fn send_remove_voter(&mut self, at: Moment, leader: Target, old: Replica) {
        let Some(peer) = self.peer(leader) else {
            return;
        };
        let request = RemoveRaftVoterRequest {
            cluster_id: self.me.cluster.clone(),
            voter_id: old.id.0,
            voter_directory_id: old.directory,
        };
        self.send(at.now, leader, peer, Request::RemoveVoter(request));
    }
}
