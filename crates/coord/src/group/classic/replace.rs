//! A static member that comes back under a new member id (KIP-345, KIP-814).
//!
//! A client that still acts under the old id is fenced at once. In a Stable group whose protocol stays the same nothing else happens:
//! the new id gets the old one's assignment as soon as the record that says so is replayed.

use wire::ErrorCode;

use super::member::kept;
use super::{Classic, ClassicState, Join, Member, join_refused, millis};
use crate::group::Out;
use crate::group::ask::Joined;

impl Classic {
    pub(super) fn replace_static(&mut self, join: &Join<'_>, old_id: &str, new_id: String) -> Out {
        let Some(mut old) = self.take(old_id) else {
            return join.refuse(ErrorCode::UnknownServerError);
        };
        let mut out = fence(old_id, &mut old);
        let new = Member {
            protocols: kept(&join.ask.protocols),
            rebalance_timeout_ms: join.ask.rebalance_timeout_ms(),
            session_timeout_ms: join.ask.session_timeout_ms,
            deadline: Some(join.at.now.plus(millis(join.ask.session_timeout_ms.into()))),
            is_new: false,
            ..old.clone()
        };
        let old_leader = self.leader.clone();
        if self.is_leader(old_id) {
            self.leader = Some(new_id.clone());
        }
        self.wake_by(new.deadline.unwrap_or(join.at.now));
        self.insert(new_id.clone(), new);

        if self.state == ClassicState::Stable && self.choose_protocol() == self.protocol {
            out.records
                .push(self.record(|_, member| member.assignment.clone()));
            let answer = self.replaced(join, &new_id, old_leader.as_deref());
            out.answers.push(join.caller.answer(Ok(answer)));
            // As it was, until the record is replayed.
            let new = self.take(&new_id).map(|new| (new_id, new));
            self.insert(old_id.to_owned(), old);
            self.leader = old_leader;
            self.staged = new;
            return out;
        }

        if let Some(new) = self.members.get_mut(&new_id) {
            new.waits_join = Some(join.caller);
        }
        let instance_id = join.ask.instance_id.as_deref().unwrap_or_default();
        let said = join.reason();
        let reason =
            format!("static member {instance_id} is back as {new_id}; client reason: {said}");
        out.extend(match self.state {
            // The leader may be dividing the work among ids of which one is gone.
            ClassicState::CompletingRebalance => {
                let delay_ms = join.settings.initial_rebalance_delay_ms;
                self.prepare_rebalance(&reason, join.at, delay_ms)
            }
            ClassicState::Stable => self.rebalance_or_complete(&reason, join.at, join.settings),
            ClassicState::Empty | ClassicState::PreparingRebalance => {
                self.complete_if_all_joined(join.at)
            }
        });
        out
    }

    fn replaced(&self, join: &Join<'_>, id: &str, old_leader: Option<&str>) -> Joined {
        if join.ask.may_skip_assignment {
            let skip_assignment = self.is_leader(id);
            return Joined {
                skip_assignment,
                ..self.joined(id)
            };
        }
        // Told under its old id, a leader takes itself for a follower and does not divide the work anew.
        Joined {
            leader: old_leader.map(str::to_owned),
            members: Vec::new(),
            ..self.joined(id)
        }
    }
}

fn fence(id: &str, member: &mut Member) -> Out {
    let mut out = Out::default();
    let code = ErrorCode::FencedInstanceId;
    if let Some(caller) = member.waits_join.take() {
        out.answers.push(caller.answer(join_refused(id, code)));
    }
    if let Some(caller) = member.waits_sync.take() {
        out.answers.push(caller.answer(Err(code)));
    }
    out
}
