//! Each ask finds its group; what is wrong with an ask before any group is looked at.

use std::sync::Arc;

use model::{ProducerEpoch, ProducerId};
use wire::ErrorCode;
use wire::messages::leave_group_request::MemberIdentity;
use wire::messages::leave_group_response::MemberResponse;
use wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use wire::messages::offset_fetch_response::OffsetFetchResponseGroup;
use wire::messages::{
    HeartbeatRequest, HeartbeatResponse, LeaveGroupRequest, LeaveGroupResponse,
    OffsetCommitRequest, SyncGroupRequest, TxnOffsetCommitRequest,
};

use super::classic::{Classic, Committer, Join, refuse_join, refuse_sync};
use super::consumer::{Beat, ConsumerGroup, Context};
use super::entry::Group;
use super::offsets::{Offsets, acceptable, acceptable_of_txn};
use super::{Answer, Ask, Foreign, Groups, Out};
use crate::{Caller, Moment, Topics};

impl Groups {
    pub(super) fn dispatch(
        &mut self,
        caller: Caller,
        ask: Ask,
        at: Moment,
        topics: &dyn Topics,
    ) -> Out {
        let answer = match ask {
            Ask::Join {
                request,
                client,
                needs_member_id,
                may_skip_assignment,
                fresh,
            } => {
                let settings = Arc::clone(&self.settings);
                let join = Join {
                    caller,
                    request: &request,
                    client: &client,
                    needs_member_id,
                    may_skip_assignment,
                    fresh,
                    at,
                    settings: &settings,
                };
                return self.join(&join, topics);
            }
            Ask::Sync(request) => return self.sync(caller, &request, at, topics),
            Ask::Leave { request, is_single } => {
                return self.leave(caller, request, is_single, at, topics);
            }
            Ask::Commit {
                request,
                knows_member_epochs,
            } => return self.commit(caller, &request, knows_member_epochs, at, topics),
            Ask::TxnCommit(request) => return self.txn_commit(caller, &request, at, topics),
            Ask::DeleteOffsets(request) => return self.delete_offsets(caller, &request, topics),
            Ask::Delete { group_id } => return self.delete(caller, group_id),
            Ask::Heartbeat(request) => Answer::Heartbeat(HeartbeatResponse {
                error_code: self.heartbeat(&request, at, topics).code(),
                ..HeartbeatResponse::default()
            }),
            Ask::FetchOffsets {
                group,
                require_stable,
            } => Answer::FetchOffsets(self.fetch_offsets(&group, require_stable, topics)),
            Ask::Describe {
                group_id,
                is_strict,
            } => Answer::Describe(self.describe(group_id, is_strict)),
            Ask::List { states, types } => Answer::List(self.list(&states, &types)),
            Ask::ConsumerHeartbeat {
                request,
                client,
                brings_member_id,
                fresh,
            } => {
                let beat = Beat {
                    request,
                    client,
                    brings_member_id,
                    fresh,
                };
                return self.beat(caller, &beat, at, topics);
            }
            Ask::ConsumerDescribe { group_id } => {
                Answer::ConsumerDescribe(self.describe_consumer(group_id, at, topics))
            }
        };
        Out::answer(caller, answer)
    }

    fn join(&mut self, join: &Join<'_>, topics: &dyn Topics) -> Out {
        let request = join.request;
        let id = &request.group_id;
        let refuse = |code| refuse_join(join.caller, &request.member_id, code);
        if id.is_empty() {
            return refuse(ErrorCode::InvalidGroupId);
        }
        let allowed = self.settings.session_timeout_ms_min..=self.settings.session_timeout_ms_max;
        if !allowed.contains(&request.session_timeout_ms) {
            return refuse(ErrorCode::InvalidSessionTimeout);
        }
        // A streams group may go on as a classic one: in Kafka it may, too, once it is empty.
        if self.foreign.get(id.as_str()) == Some(&Foreign::Share) {
            return refuse(ErrorCode::InconsistentGroupProtocol);
        }
        if !request.member_id.is_empty() && !self.groups.contains_key(id.as_str()) {
            return refuse(ErrorCode::UnknownMemberId);
        }
        let mut out = Out::default();
        if let Some(entry) = self.groups.get(id.as_str())
            && let Group::Consumer(_) = &entry.group
        {
            if !entry.group.is_empty() {
                return self.guest_join(join, topics);
            }
            if !request.member_id.is_empty() {
                return refuse(ErrorCode::UnknownMemberId);
            }
            // Nobody is in it any more: its offsets stay, the rest begins anew.
            out.records = entry.group.tombstones(id);
            self.remove(id);
        }
        let entry = self.classic_entry(id, join.at.wall);
        if let Some(classic) = entry.group.classic() {
            out.extend(classic.join(join));
        }
        self.settle(id);
        out
    }

    fn sync(
        &mut self,
        caller: Caller,
        request: &SyncGroupRequest,
        at: Moment,
        topics: &dyn Topics,
    ) -> Out {
        let id = &request.group_id;
        if id.is_empty() {
            return refuse_sync(caller, ErrorCode::InvalidGroupId);
        }
        let guest =
            |group: &mut ConsumerGroup, cx: &Context<'_>| group.classic_sync(caller, request, cx);
        if let Some(out) = self.of_guest(id, at, topics, guest) {
            return out;
        }
        let Some(classic) = self.classic(id) else {
            return refuse_sync(caller, ErrorCode::UnknownMemberId);
        };
        let out = classic.sync(caller, request, at);
        self.settle(id);
        out
    }

    fn heartbeat(
        &mut self,
        request: &HeartbeatRequest,
        at: Moment,
        topics: &dyn Topics,
    ) -> ErrorCode {
        let id = &request.group_id;
        if id.is_empty() {
            return ErrorCode::InvalidGroupId;
        }
        let guest =
            |group: &mut ConsumerGroup, cx: &Context<'_>| group.classic_heartbeat(request, cx);
        if let Some(code) = self.of_guest(id, at, topics, guest) {
            return code;
        }
        let Some(classic) = self.classic(id) else {
            return ErrorCode::UnknownMemberId;
        };
        let code = classic.heartbeat(request, at);
        self.settle(id);
        code
    }

    fn leave(
        &mut self,
        caller: Caller,
        mut request: LeaveGroupRequest,
        is_single: bool,
        at: Moment,
        topics: &dyn Topics,
    ) -> Out {
        let mut response = LeaveGroupResponse::default();
        if request.group_id.is_empty() {
            response.error_code = ErrorCode::InvalidGroupId.code();
            return Out::answer(caller, Answer::Leave(response));
        }
        if is_single {
            request.members = vec![MemberIdentity {
                member_id: std::mem::take(&mut request.member_id),
                ..MemberIdentity::default()
            }];
        }
        let settings = Arc::clone(&self.settings);
        let guest = |group: &mut ConsumerGroup, cx: &Context<'_>| group.classic_leave(&request, cx);
        let (codes, mut out) = match self.of_guest(&request.group_id, at, topics, guest) {
            Some((codes, records)) => {
                let out = Out {
                    records,
                    ..Out::default()
                };
                (codes, out)
            }
            None => match self.classic(&request.group_id) {
                Some(classic) => classic.leave(&request, at, &settings),
                None => {
                    let codes = vec![ErrorCode::UnknownMemberId; request.members.len()];
                    (codes, Out::default())
                }
            },
        };
        self.settle(&request.group_id);
        if is_single {
            response.error_code = codes.first().map_or(0, |code| code.code());
        } else {
            let members = request.members.into_iter().zip(codes);
            let told = members.map(|(member, code)| MemberResponse {
                member_id: member.member_id,
                group_instance_id: member.group_instance_id,
                error_code: code.code(),
            });
            response.members = told.collect();
        }
        out.answers.push((caller, Answer::Leave(response)));
        out
    }

    fn commit(
        &mut self,
        caller: Caller,
        request: &OffsetCommitRequest,
        knows_member_epochs: bool,
        at: Moment,
        topics: &dyn Topics,
    ) -> Out {
        let id = &request.group_id;
        let committer = Committer {
            member_id: &request.member_id,
            instance_id: request.group_instance_id.as_deref(),
            generation: request.generation_id_or_member_epoch,
            is_transactional: false,
        };
        let unknown = if knows_member_epochs {
            ErrorCode::GroupIdNotFound
        } else {
            ErrorCode::IllegalGeneration
        };
        let partitions = acceptable(request, &self.settings, topics);
        let check = |group: &Group| group.check_commit(&committer, knows_member_epochs, partitions);
        let refusal = self
            .check_commit(id, committer.generation, check, unknown)
            .err();
        if refusal.is_none()
            && let Some(classic) = self.classic(id)
        {
            classic.on_commit(&request.member_id, at);
            self.settle(id);
        }
        let (records, response) =
            Offsets::commit(request, refusal, at.wall, &self.settings, topics);
        Out {
            records,
            answers: vec![(caller, Answer::Commit(response))],
            ..Out::default()
        }
    }

    fn txn_commit(
        &mut self,
        caller: Caller,
        request: &TxnOffsetCommitRequest,
        at: Moment,
        topics: &dyn Topics,
    ) -> Out {
        let id = &request.group_id;
        let committer = Committer {
            member_id: &request.member_id,
            instance_id: request.group_instance_id.as_deref(),
            generation: request.generation_id,
            is_transactional: true,
        };
        let refusal = if id.is_empty() {
            Some(ErrorCode::InvalidGroupId)
        } else {
            let partitions = acceptable_of_txn(request, &self.settings, topics);
            let check = |group: &Group| match group.check_commit(&committer, true, partitions) {
                // This request has no member epochs in its vocabulary.
                Err(ErrorCode::StaleMemberEpoch) => Err(ErrorCode::IllegalGeneration),
                checked => checked,
            };
            let unknown = ErrorCode::IllegalGeneration;
            self.check_commit(id, committer.generation, check, unknown)
                .err()
        };
        let (records, response) =
            Offsets::txn_commit(request, refusal, at.wall, &self.settings, topics);
        let producer = (
            ProducerId(request.producer_id),
            ProducerEpoch(request.producer_epoch),
        );
        Out {
            producer: (!records.is_empty()).then_some(producer),
            records,
            answers: vec![(caller, Answer::TxnCommit(response))],
            ..Out::default()
        }
    }

    /// Commits without a generation also make offsets of a group that has nothing else; `unknown` if it says one.
    fn check_commit(
        &self,
        id: &str,
        generation: i32,
        check: impl FnOnce(&Group) -> Result<(), ErrorCode>,
        unknown: ErrorCode,
    ) -> Result<(), ErrorCode> {
        match self.groups.get(id) {
            Some(entry) => check(&entry.group),
            None if generation < 0 => Ok(()),
            // Offsets without a group are a group without members.
            None if self.offsets.has(id) => Err(ErrorCode::UnknownMemberId),
            None => Err(unknown),
        }
    }

    fn fetch_offsets(
        &self,
        asked: &OffsetFetchRequestGroup,
        require_stable: bool,
        topics: &dyn Topics,
    ) -> OffsetFetchResponseGroup {
        let entry = self.groups.get(asked.group_id.as_str());
        let member_id = asked.member_id.as_deref();
        match entry.map(|entry| entry.group.check_fetch(member_id, asked.member_epoch)) {
            Some(Err(code)) => OffsetFetchResponseGroup {
                group_id: asked.group_id.clone(),
                error_code: code.code(),
                ..OffsetFetchResponseGroup::default()
            },
            _ => self.offsets.fetch(asked, require_stable, topics),
        }
    }

    /// The group, if it is a classic one; the other kind has no members of this protocol.
    fn classic(&mut self, id: &str) -> Option<&mut Classic> {
        self.groups.get_mut(id)?.group.classic()
    }
}
