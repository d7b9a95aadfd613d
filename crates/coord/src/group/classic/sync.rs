//! SyncGroup: the leader hands in the assignment, everyone fetches its part.
//!
//! The assignment counts when its record is replayed. If it could not be written the group stays as it is, and the leader may
//! try again.

use std::collections::HashMap;

use bytes::Bytes;
use wire::ErrorCode;

use super::{Classic, ClassicState, detached, refuse_sync};
use crate::group::Out;
use crate::group::ask::{self, Synced};
use crate::{Caller, Moment};

impl Classic {
    pub(in crate::group) fn sync(
        &mut self,
        caller: Caller<ask::Sync>,
        ask: &ask::Sync,
        at: Moment,
    ) -> Out {
        if let Err(code) = self.check_sync(ask) {
            return refuse_sync(caller, code);
        }
        let id = &ask.member_id;
        match self.state {
            // `check_sync` found the member, so there is one.
            ClassicState::Empty => refuse_sync(caller, ErrorCode::UnknownMemberId),
            ClassicState::PreparingRebalance => refuse_sync(caller, ErrorCode::RebalanceInProgress),
            ClassicState::CompletingRebalance => {
                self.note_sync(id);
                let mut out = Out::default();
                if let Some(member) = self.members.get_mut(id)
                    && let Some(earlier) = member.waits_sync.replace(caller)
                {
                    out = refuse_sync(earlier, ErrorCode::RebalanceInProgress);
                }
                if self.is_leader(id) {
                    out.extend(self.assign(ask, at));
                }
                out
            }
            ClassicState::Stable => {
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

    fn check_sync(&self, ask: &ask::Sync) -> Result<(), ErrorCode> {
        self.check_member(&ask.member_id, ask.instance_id.as_deref())?;
        if ask.generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        let differs = |said: &Option<String>, ours: &Option<String>| match (said, ours) {
            (Some(said), Some(ours)) => said != ours,
            _ => false,
        };
        if differs(&ask.protocol_type, &self.protocol_type)
            || differs(&ask.protocol, &self.protocol)
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
    fn assign(&mut self, ask: &ask::Sync, at: Moment) -> Out {
        let parts: HashMap<&str, Bytes> = ask
            .assignments
            .iter()
            .map(|part| (part.member_id.as_str(), detached(&part.assignment)))
            .collect();
        let part = |id: &str| parts.get(id).cloned().unwrap_or_default();
        let record = self.record(|id, _| part(id));
        let mut answers = Vec::new();
        for (id, caller) in self.take_syncs(at) {
            answers.push(caller.answer(self.assigned(part(&id))));
        }
        Out {
            records: vec![record],
            answers,
            ..Out::default()
        }
    }

    fn assigned(&self, assignment: Bytes) -> Result<Synced, ErrorCode> {
        Ok(Synced {
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            assignment,
        })
    }
}
