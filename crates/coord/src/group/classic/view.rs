//! A classic group as others see it: tools, and the offsets that are committed for it.

use bytes::Bytes;
use wire::ErrorCode;

use super::{Classic, ClassicState};
use crate::group::Retention;
use crate::group::ask::{self, Described, DescribedMember, Listed};

/// The member that commits, and its generation.
pub(in crate::group) struct Committer<'a> {
    pub(in crate::group) member_id: &'a str,
    pub(in crate::group) instance_id: Option<&'a str>,
    pub(in crate::group) generation: i32,
    pub(in crate::group) is_transactional: bool,
}

impl Classic {
    pub(in crate::group) fn check_commit(
        &self,
        committer: &Committer<'_>,
    ) -> Result<(), ErrorCode> {
        let Committer {
            member_id,
            instance_id,
            generation,
            is_transactional,
        } = *committer;
        // Tools, and consumers that assign their partitions themselves.
        if generation < 0 && self.state == ClassicState::Empty {
            return Ok(());
        }
        if generation >= 0 || !member_id.is_empty() || instance_id.is_some() {
            self.check_member(member_id, instance_id)?;
            if generation != self.generation {
                return Err(ErrorCode::IllegalGeneration);
            }
        } else if !is_transactional && self.state != ClassicState::Empty {
            // Early transactional commits did not say who they are from.
            return Err(ErrorCode::UnknownMemberId);
        }
        if !is_transactional && self.state == ClassicState::CompletingRebalance {
            return Err(ErrorCode::RebalanceInProgress);
        }
        Ok(())
    }

    /// Offsets of single topics may be deleted while consumers are in, as long as the group does not read them.
    pub(in crate::group) fn check_delete_offsets(&self) -> Result<(), ErrorCode> {
        if self.state == ClassicState::Empty || self.is_of_consumers() {
            Ok(())
        } else {
            Err(ErrorCode::NonEmptyGroup)
        }
    }

    pub(in crate::group) fn retention(&self) -> Retention {
        if self.protocol_type.is_none() {
            return Retention::SinceCommit;
        }
        match self.state {
            ClassicState::Empty if self.since.0 >= 0 => Retention::SinceEmpty(self.since.0),
            ClassicState::Empty => Retention::SinceCommit,
            ClassicState::Stable if self.knows_subscriptions() => Retention::SinceCommit,
            _ => Retention::Kept,
        }
    }

    pub(in crate::group) fn listed(&self) -> Listed {
        Listed {
            group_id: self.id.to_string(),
            state: ask::GroupState::Classic(self.state),
            protocol_type: self.protocol_type.clone(),
        }
    }

    pub(in crate::group) fn described(&self) -> Described {
        // Between two generations neither protocol nor assignment mean anything.
        let protocol = match self.state {
            ClassicState::Stable => self.protocol.as_deref(),
            _ => None,
        };
        let members = self.members.iter().map(|(id, member)| DescribedMember {
            member_id: id.clone(),
            instance_id: member.instance_id.clone(),
            client: member.client.clone(),
            metadata: protocol.map_or_else(Bytes::new, |protocol| member.metadata(protocol)),
            assignment: protocol.map_or_else(Bytes::new, |_| member.assignment.clone()),
        });
        Described {
            state: self.state,
            protocol_type: self.protocol_type.clone(),
            protocol: protocol.map(str::to_owned),
            members: members.collect(),
            last_rebalance: self.last_rebalance().map(|last| last.reason.clone()),
        }
    }
}
