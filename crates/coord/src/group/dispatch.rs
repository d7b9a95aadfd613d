//! Each ask finds its group; what is wrong with an ask before any group is looked at.

use model::{ProducerEpoch, ProducerId};
use wire::ErrorCode;
use wire::messages::consumer_group_describe_response::DescribedGroup as DescribedConsumerGroup;
use wire::messages::leave_group_request::MemberIdentity;
use wire::messages::leave_group_response::MemberResponse;
use wire::messages::{
    ConsumerGroupHeartbeatResponse, HeartbeatRequest, HeartbeatResponse, LeaveGroupRequest,
    LeaveGroupResponse, OffsetCommitRequest, SyncGroupRequest, TxnOffsetCommitRequest,
};

use super::classic::{Committer, Join, refuse_join, refuse_sync};
use super::offsets::Offsets;
use super::{Answer, Ask, Group, Groups, Out};
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
                let settings = std::sync::Arc::clone(&self.settings);
                return self.join(&Join {
                    caller,
                    request: &request,
                    client: &client,
                    needs_member_id,
                    may_skip_assignment,
                    fresh,
                    at,
                    settings: &settings,
                });
            }
            Ask::Sync(request) => return self.sync(caller, &request, at),
            Ask::Leave(request) => return self.leave(caller, request, at),
            Ask::Commit {
                request,
                knows_member_epochs,
            } => return self.commit(caller, &request, knows_member_epochs, at, topics),
            Ask::TxnCommit(request) => return self.txn_commit(caller, &request, at, topics),
            Ask::DeleteOffsets(request) => return self.delete_offsets(caller, &request, topics),
            Ask::Delete { group_id } => return self.delete(caller, group_id),
            Ask::Heartbeat(request) => Answer::Heartbeat(HeartbeatResponse {
                error_code: self.heartbeat(&request, at).code(),
                ..HeartbeatResponse::default()
            }),
            Ask::FetchOffsets {
                group,
                require_stable,
            } => Answer::FetchOffsets(self.offsets.fetch(&group, require_stable, topics)),
            Ask::Describe {
                group_id,
                is_strict,
            } => Answer::Describe(self.describe(group_id, is_strict)),
            Ask::List { states, types } => Answer::List(self.list(&states, &types)),
            Ask::ConsumerHeartbeat { .. } => {
                Answer::ConsumerHeartbeat(ConsumerGroupHeartbeatResponse {
                    error_code: ErrorCode::UnsupportedVersion.code(),
                    ..ConsumerGroupHeartbeatResponse::default()
                })
            }
            Ask::ConsumerDescribe { group_id } => {
                Answer::ConsumerDescribe(DescribedConsumerGroup {
                    error_code: ErrorCode::GroupIdNotFound.code(),
                    error_message: Some(format!("Group {group_id} not found.")),
                    group_id,
                    ..DescribedConsumerGroup::default()
                })
            }
        };
        Out::answer(caller, answer)
    }

    fn join(&mut self, join: &Join<'_>) -> Out {
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
        if !request.member_id.is_empty() && !self.groups.contains_key(id.as_str()) {
            return refuse(ErrorCode::UnknownMemberId);
        }
        let entry = self.classic_entry(id, join.at.wall);
        let Group::Classic(classic) = &mut entry.group;
        let out = classic.join(join);
        self.settle(id);
        out
    }

    fn sync(&mut self, caller: Caller, request: &SyncGroupRequest, at: Moment) -> Out {
        let id = &request.group_id;
        if id.is_empty() {
            return refuse_sync(caller, ErrorCode::InvalidGroupId);
        }
        let Some(entry) = self.groups.get_mut(id.as_str()) else {
            return refuse_sync(caller, ErrorCode::UnknownMemberId);
        };
        let Group::Classic(classic) = &mut entry.group;
        let out = classic.sync(caller, request, at);
        self.settle(id);
        out
    }

    fn heartbeat(&mut self, request: &HeartbeatRequest, at: Moment) -> ErrorCode {
        let id = &request.group_id;
        if id.is_empty() {
            return ErrorCode::InvalidGroupId;
        }
        let Some(entry) = self.groups.get_mut(id.as_str()) else {
            return ErrorCode::UnknownMemberId;
        };
        let Group::Classic(classic) = &mut entry.group;
        let code = classic.heartbeat(request, at);
        self.settle(id);
        code
    }

    fn leave(&mut self, caller: Caller, mut request: LeaveGroupRequest, at: Moment) -> Out {
        let mut response = LeaveGroupResponse::default();
        if request.group_id.is_empty() {
            response.error_code = ErrorCode::InvalidGroupId.code();
            return Out::answer(caller, Answer::Leave(response));
        }
        // Up to version 2 one member leaves, and the answer has its error on top.
        let is_single = request.members.is_empty() && !request.member_id.is_empty();
        if is_single {
            request.members.push(MemberIdentity {
                member_id: std::mem::take(&mut request.member_id),
                ..MemberIdentity::default()
            });
        }
        let (codes, mut out) = match self.groups.get_mut(request.group_id.as_str()) {
            Some(entry) => {
                let Group::Classic(classic) = &mut entry.group;
                classic.leave(&request, at, &self.settings)
            }
            None => {
                let codes = vec![ErrorCode::UnknownMemberId; request.members.len()];
                (codes, Out::default())
            }
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
        let refusal = self.check_commit(id, &committer, unknown).err();
        if refusal.is_none()
            && let Some(entry) = self.groups.get_mut(id.as_str())
        {
            let Group::Classic(classic) = &mut entry.group;
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
            self.check_commit(id, &committer, ErrorCode::IllegalGeneration)
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
        }
    }

    /// Commits without a generation also make offsets of a group that has nothing else; `unknown` if it says one.
    fn check_commit(
        &self,
        id: &str,
        committer: &Committer<'_>,
        unknown: ErrorCode,
    ) -> Result<(), ErrorCode> {
        match self.groups.get(id).map(|entry| &entry.group) {
            Some(Group::Classic(classic)) => classic.check_commit(committer),
            None if committer.generation < 0 => Ok(()),
            // Offsets without a group are a group without members.
            None if self.offsets.has(id) => Err(ErrorCode::UnknownMemberId),
            None => Err(unknown),
        }
    }
}
