//! The rules by which a member may commit or fetch offsets.

use wire::{ErrorCode, Uuid};

use super::ConsumerGroup;
use super::member::Member;

/// The member that commits.
#[derive(Clone, Copy, Debug)]
pub struct CommitBy<'a> {
    pub member_id: &'a str,
    pub instance_id: Option<&'a str>,
    /// Member epoch, or generation of a classic member.
    pub epoch: i32,
    /// The offsets belong to a transaction.
    pub transactional: bool,
    /// OffsetCommit since version 9.
    pub knows_member_epochs: bool,
}

impl ConsumerGroup {
    /// A member behind its epoch may commit for partitions that it has had since that epoch or longer (KIP-1251), be it that it is
    /// to give them up: nobody else had them in between.
    pub fn validate_commit(
        &self,
        by: &CommitBy,
        partitions: impl IntoIterator<Item = (Uuid, i32)>,
    ) -> Result<(), ErrorCode> {
        // Tools set the offsets of a group without members.
        if by.epoch < 0 && self.members.is_empty() {
            return Ok(());
        }
        // TxnOffsetCommit may leave out who the member is.
        if by.transactional && by.epoch == -1 && by.member_id.is_empty() && by.instance_id.is_none()
        {
            return Ok(());
        }
        let member = (self.members.get(by.member_id)).ok_or(ErrorCode::UnknownMemberId)?;
        if member.classic.is_none() && !by.transactional && !by.knows_member_epochs {
            return Err(ErrorCode::UnsupportedVersion);
        }
        if by.epoch == member.epoch {
            return Ok(());
        }
        let had_since = |(topic, partition)| {
            [&member.assigned, &member.revoking]
                .into_iter()
                .find_map(|owned| owned.get(&topic)?.get(&partition).copied())
        };
        if by.epoch < member.epoch
            && (partitions.into_iter())
                .all(|partition| had_since(partition).is_some_and(|since| since <= by.epoch))
        {
            return Ok(());
        }
        Err(wrong_epoch(member))
    }

    /// Offsets may be fetched by tools, who are no members, and by members in their epoch.
    pub fn validate_fetch(&self, member_id: Option<&str>, epoch: i32) -> Result<(), ErrorCode> {
        if member_id.is_none_or(str::is_empty) && epoch < 0 {
            return Ok(());
        }
        let member =
            (self.members.get(member_id.unwrap_or_default())).ok_or(ErrorCode::UnknownMemberId)?;
        if member.epoch == epoch {
            return Ok(());
        }
        Err(wrong_epoch(member))
    }
}

/// In the words of the protocol that the member speaks.
fn wrong_epoch(member: &Member) -> ErrorCode {
    if member.classic.is_some() {
        ErrorCode::IllegalGeneration
    } else {
        ErrorCode::StaleMemberEpoch
    }
}
