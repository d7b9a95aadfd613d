//! A classic group that becomes a consumer group, and one that was a consumer group until now.

use model::Ticket;
use wire::ErrorCode;

use super::member::kept;
use super::{Classic, join_refused};
use crate::group::consumer::{ClassicGroup, ClassicMember, HandedBack};
use crate::group::{Out, Settings};
use crate::{Caller, Moment};

/// It was a consumer group until now: sessions begin with the next tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct TakenOver {
    rebalances: bool,
}

impl Classic {
    /// All that the other protocol goes on from.
    pub(in crate::group) fn as_handed_over(&self) -> ClassicGroup {
        let members = self.members.iter().map(|(id, member)| ClassicMember {
            id: id.clone(),
            instance_id: member.instance_id.clone(),
            client: member.client.clone(),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            session_timeout_ms: member.session_timeout_ms,
            protocols: (member.protocols.iter())
                .map(|protocol| (protocol.name.clone(), protocol.metadata.clone()))
                .collect(),
            assignment: member.assignment.clone(),
        });
        ClassicGroup {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol: self.protocol.clone().unwrap_or_default(),
            generation: self.generation,
            members: members.collect(),
        }
    }

    /// Waiting members are sent to join again, and find the other protocol then. Should the log refuse the other group, they find this one.
    pub(in crate::group) fn send_away(&mut self) -> Out {
        let mut out = Out::default();
        let code = ErrorCode::RebalanceInProgress;
        for (id, member) in &mut self.members {
            if let Some(caller) = member.waits_join.take() {
                out.anyway.push(caller.answer(join_refused(id, code)));
            }
            if let Some(caller) = member.waits_sync.take() {
                out.anyway.push(caller.answer(Err(code)));
            }
        }
        out
    }

    /// The callers that wait, and will not be answered by this group any more.
    pub(in crate::group) fn abandon(&mut self) -> Vec<Ticket> {
        let waiting = self.members.values_mut();
        waiting
            .flat_map(|member| {
                let join = member.waits_join.take().map(Caller::ticket);
                [join, member.waits_sync.take().map(Caller::ticket)]
            })
            .flatten()
            .collect()
    }

    /// The records of a consumer group that gave itself up are replayed: nobody's session was watched yet, and what those who
    /// left had is to be divided.
    pub(in crate::group) fn take_over(&mut self, handed_back: Option<HandedBack>) {
        let handed_back = handed_back.unwrap_or(HandedBack {
            rebalances: true,
            ..HandedBack::default()
        });
        for (id, spoken) in handed_back.protocols {
            if let Some(mut member) = self.members.remove(&id) {
                self.uncount(&member);
                member.protocols = kept(&spoken);
                self.insert(id, member);
            }
        }
        self.taken_over = Some(TakenOver {
            rebalances: handed_back.rebalances,
        });
        self.wake_by(model::Instant(0));
    }

    pub(super) fn begin_taken_over(&mut self, at: Moment, settings: &Settings) -> Out {
        let Some(taken_over) = self.taken_over.take() else {
            return Out::default();
        };
        self.on_loaded(at, usize::MAX);
        if !taken_over.rebalances {
            return Out::default();
        }
        let reason = "the last member of the consumer protocol left";
        self.rebalance_or_complete(reason, at, settings)
    }
}
