//! Each ask finds its group; what is wrong with an ask before any group is looked at.

use std::sync::Arc;

use model::Ticket;
use wire::ErrorCode;

use super::ask::{Commit, FetchOffsets, FetchedTopic, Heartbeat, Leave, Sync, TxnCommit};
use super::classic::{Classic, Committer, Join, refuse_join, refuse_sync};
use super::consumer::{ConsumerGroup, Context};
use super::entry::Group;
use super::offsets::{Terms, acceptable};
use super::{Ask, Foreign, Groups, Out};
use crate::{Caller, Moment, Topics};

impl Groups {
    pub(super) fn dispatch(
        &mut self,
        ticket: Ticket,
        ask: Ask,
        at: Moment,
        topics: &dyn Topics,
    ) -> Out {
        match ask {
            Ask::Join(ask) => {
                let settings = Arc::clone(&self.settings);
                let join = Join {
                    caller: Caller::of(&ask, ticket),
                    ask: &ask,
                    at,
                    settings: &settings,
                };
                self.join(&join, topics)
            }
            Ask::Sync(ask) => self.sync(Caller::of(&ask, ticket), &ask, at, topics),
            Ask::Leave(ask) => self.leave(Caller::of(&ask, ticket), &ask, at, topics),
            Ask::ConsumerHeartbeat(beat) => self.beat(Caller::of(&beat, ticket), &beat, at, topics),
            Ask::Commit(ask) => self.commit(Caller::of(&ask, ticket), ask, at, topics),
            Ask::TxnCommit(ask) => self.txn_commit(Caller::of(&ask, ticket), ask, at, topics),
            Ask::DeleteOffsets(ask) => self.delete_offsets(Caller::of(&ask, ticket), &ask, topics),
            Ask::Delete(ask) => self.delete(Caller::of(&ask, ticket), &ask.group_id),
            Ask::Heartbeat(beat) => {
                let answer = self.heartbeat(&beat, at, topics);
                Out::answer(Caller::of(&beat, ticket), answer)
            }
            Ask::FetchOffsets(ask) => {
                let caller = Caller::of(&ask, ticket);
                Out::answer(caller, self.fetch_offsets(ask, topics))
            }
            Ask::Describe(ask) => {
                let answer = self.describe(&ask.group_id);
                Out::answer(Caller::of(&ask, ticket), answer)
            }
            Ask::ConsumerDescribe(ask) => {
                let answer = self.describe_consumer(&ask.group_id, at, topics);
                Out::answer(Caller::of(&ask, ticket), answer)
            }
            Ask::List(ask) => {
                let answer = self.list(&ask.states, &ask.types);
                Out::answer(Caller::of(&ask, ticket), answer)
            }
        }
    }

    fn join(&mut self, join: &Join<'_>, topics: &dyn Topics) -> Out {
        let ask = join.ask;
        let id = &ask.group_id;
        let refuse = |code| refuse_join(join.caller, &ask.member_id, code);
        if id.is_empty() {
            return refuse(ErrorCode::InvalidGroupId);
        }
        let allowed = self.settings.session_timeout_ms_min..=self.settings.session_timeout_ms_max;
        if !allowed.contains(&ask.session_timeout_ms) {
            return refuse(ErrorCode::InvalidSessionTimeout);
        }
        // A streams group may go on as a classic one: in Kafka it may, too, once it is empty.
        if self.foreign.get(id.as_str()) == Some(&Foreign::Share) {
            return refuse(ErrorCode::InconsistentGroupProtocol);
        }
        if !ask.member_id.is_empty() && !self.groups.contains_key(id.as_str()) {
            return refuse(ErrorCode::UnknownMemberId);
        }
        let mut out = Out::default();
        if let Some(entry) = self.groups.get(id.as_str())
            && let Group::Consumer(_) = &entry.group
        {
            if !entry.group.is_empty() {
                return self.guest_join(join, topics);
            }
            if !ask.member_id.is_empty() {
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
        self.on_group_changed(id);
        out
    }

    fn sync(&mut self, caller: Caller<Sync>, ask: &Sync, at: Moment, topics: &dyn Topics) -> Out {
        let id = &ask.group_id;
        if id.is_empty() {
            return refuse_sync(caller, ErrorCode::InvalidGroupId);
        }
        let guest =
            |group: &mut ConsumerGroup, cx: &Context<'_>| group.classic_sync(caller, ask, cx);
        if let Some(out) = self.of_guest(id, at, topics, guest) {
            return out;
        }
        let Some(classic) = self.classic(id) else {
            return refuse_sync(caller, ErrorCode::UnknownMemberId);
        };
        let out = classic.sync(caller, ask, at);
        self.on_group_changed(id);
        out
    }

    fn heartbeat(
        &mut self,
        beat: &Heartbeat,
        at: Moment,
        topics: &dyn Topics,
    ) -> Result<(), ErrorCode> {
        let id = &beat.group_id;
        if id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        let guest = |group: &mut ConsumerGroup, cx: &Context<'_>| group.classic_heartbeat(beat, cx);
        if let Some(result) = self.of_guest(id, at, topics, guest) {
            return result;
        }
        let classic = self.classic(id).ok_or(ErrorCode::UnknownMemberId)?;
        let result = classic.heartbeat(beat, at);
        self.on_group_changed(id);
        result
    }

    fn leave(
        &mut self,
        caller: Caller<Leave>,
        ask: &Leave,
        at: Moment,
        topics: &dyn Topics,
    ) -> Out {
        let Leave { group_id, members } = ask;
        if group_id.is_empty() {
            return Out::answer(caller, Err(ErrorCode::InvalidGroupId));
        }
        let settings = Arc::clone(&self.settings);
        let guest = |group: &mut ConsumerGroup, cx: &Context<'_>| group.classic_leave(members, cx);
        let (results, mut out) = match self.of_guest(group_id, at, topics, guest) {
            Some((results, records)) => {
                let out = Out {
                    records,
                    ..Out::default()
                };
                (results, out)
            }
            None => match self.classic(group_id) {
                Some(classic) => classic.leave(members, at, &settings),
                None => {
                    let results = vec![Err(ErrorCode::UnknownMemberId); members.len()];
                    (results, Out::default())
                }
            },
        };
        self.on_group_changed(group_id);
        out.answers.push(caller.answer(Ok(results)));
        out
    }

    fn commit(
        &mut self,
        caller: Caller<Commit>,
        commit: Commit,
        at: Moment,
        topics: &dyn Topics,
    ) -> Out {
        let id = &commit.group_id;
        let committer = Committer {
            member_id: &commit.member_id,
            instance_id: commit.instance_id.as_deref(),
            generation: commit.generation,
            is_transactional: false,
        };
        let knows_member_epochs = commit.knows_member_epochs;
        let unknown = unknown_group(knows_member_epochs);
        let partitions = acceptable(&commit.topics, &self.settings, topics);
        let check = |group: &Group| group.check_commit(&committer, knows_member_epochs, partitions);
        let refusal = self
            .check_commit(id, committer.generation, check, unknown)
            .err();
        if refusal.is_none()
            && let Some(classic) = self.classic(id)
        {
            classic.on_commit(&commit.member_id, at);
            self.on_group_changed(id);
        }
        let terms = Terms {
            group_id: id,
            refusal,
            now: at.wall,
            retention_ms: commit.retention_ms,
            metadata_max: self.settings.offset_metadata_max,
        };
        let (records, results) = terms.commit(commit.topics, topics);
        Out {
            records,
            answers: vec![caller.answer(results)],
            ..Out::default()
        }
    }

    fn txn_commit(
        &mut self,
        caller: Caller<TxnCommit>,
        commit: TxnCommit,
        at: Moment,
        topics: &dyn Topics,
    ) -> Out {
        let id = &commit.group_id;
        let committer = Committer {
            member_id: &commit.member_id,
            instance_id: commit.instance_id.as_deref(),
            generation: commit.generation,
            is_transactional: true,
        };
        let knows_member_epochs = commit.knows_member_epochs;
        let refusal = if id.is_empty() {
            Some(ErrorCode::InvalidGroupId)
        } else {
            let partitions = acceptable(&commit.topics, &self.settings, topics);
            let check = |group: &Group| match group.check_commit(&committer, true, partitions) {
                Err(ErrorCode::StaleMemberEpoch) if !knows_member_epochs => {
                    Err(ErrorCode::IllegalGeneration)
                }
                checked => checked,
            };
            let unknown = unknown_group(knows_member_epochs);
            self.check_commit(id, committer.generation, check, unknown)
                .err()
        };
        let terms = Terms {
            group_id: id,
            refusal,
            now: at.wall,
            retention_ms: None,
            metadata_max: self.settings.offset_metadata_max,
        };
        let (records, results) = terms.commit(commit.topics, topics);
        let producer = (commit.producer.id, commit.producer.epoch);
        Out {
            producer: (!records.is_empty()).then_some(producer),
            records,
            answers: vec![caller.answer(results)],
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
        ask: FetchOffsets,
        topics: &dyn Topics,
    ) -> Result<Vec<FetchedTopic>, ErrorCode> {
        if let Some(entry) = self.groups.get(ask.group_id.as_str()) {
            let member_id = ask.member_id.as_deref();
            entry.group.check_fetch(member_id, ask.member_epoch)?;
        }
        Ok(self.offsets.fetch(ask, topics))
    }

    /// The group, if it is a classic one; the other kind has no members of this protocol.
    fn classic(&mut self, id: &str) -> Option<&mut Classic> {
        self.groups.get_mut(id)?.group.classic()
    }
}

/// The refusal of a member whose group is not there.
fn unknown_group(knows_member_epochs: bool) -> ErrorCode {
    if knows_member_epochs {
        ErrorCode::GroupIdNotFound
    } else {
        ErrorCode::IllegalGeneration
    }
}
