//! SyncGroup: the leader hands in the assignment, everyone fetches its part.
//!
//! The assignment counts when its record is replayed. If it could not be written the group stays as it is, and the leader may
//! try again.

use std::collections::HashMap;

use bytes::Bytes;
use wire::ErrorCode;
use wire::messages::{SyncGroupRequest, SyncGroupResponse};

use super::{Classic, State, detached, refuse_sync};
use crate::group::{Answer, Out};
use crate::{Caller, Moment};

impl Classic {
    pub(in crate::group) fn sync(
        &mut self,
        caller: Caller,
        request: &SyncGroupRequest,
        at: Moment,
    ) -> Out {
        if let Err(code) = self.check_sync(request) {
            return refuse_sync(caller, code);
        }
        let id = &request.member_id;
        match self.state {
            // `check_sync` found the member, so there is one.
            State::Empty => refuse_sync(caller, ErrorCode::UnknownMemberId),
            State::PreparingRebalance => refuse_sync(caller, ErrorCode::RebalanceInProgress),
            State::CompletingRebalance => {
                self.note_sync(id);
                let mut out = Out::default();
                if let Some(member) = self.members.get_mut(id)
                    && let Some(earlier) = member.waits_sync.replace(caller)
                {
                    out = refuse_sync(earlier, ErrorCode::RebalanceInProgress);
                }
                if self.is_leader(id) {
                    out.extend(self.assign(request, at));
                }
                out
            }
            State::Stable => {
                self.note_sync(id);
                // It counts its session from here. One that began earlier, when the log was loaded say, would end while the
                // member still believes that it owns what it is told now.
                self.renew(id, at.now);
                let member = self.members.get(id);
                let assignment = member.map(|member| member.assignment.clone());
                Out::answer(caller, self.assigned(assignment.unwrap_or_default()))
            }
        }
    }

    fn check_sync(&self, request: &SyncGroupRequest) -> Result<(), ErrorCode> {
        self.check_member(&request.member_id, request.group_instance_id.as_deref())?;
        if request.generation_id != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        let differs = |said: &Option<String>, ours: &Option<String>| match (said, ours) {
            (Some(said), Some(ours)) => said != ours,
            _ => false,
        };
        if differs(&request.protocol_type, &self.protocol_type)
            || differs(&request.protocol_name, &self.protocol)
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        Ok(())
    }

    fn note_sync(&mut self, id: &str) {
        self.unsynced.remove(id);
        if self.unsynced.is_empty() {
            self.sync_end = None;
        }
    }

    /// Members that the leader left out get nothing to do.
    fn assign(&mut self, request: &SyncGroupRequest, at: Moment) -> Out {
        let parts: HashMap<&str, Bytes> = request
            .assignments
            .iter()
            .map(|part| (part.member_id.as_str(), detached(&part.assignment)))
            .collect();
        let part = |id: &str| parts.get(id).cloned().unwrap_or_default();
        let record = self.record(|id, _| part(id));
        let mut answers = Vec::new();
        for (id, caller) in self.take_syncs(at) {
            answers.push((caller, self.assigned(part(&id))));
        }
        Out {
            records: vec![record],
            answers,
            ..Out::default()
        }
    }

    fn assigned(&self, assignment: Bytes) -> Answer {
        Answer::Sync(SyncGroupResponse {
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol.clone(),
            assignment,
            ..SyncGroupResponse::default()
        })
    }
}
