//! One group of either protocol, as everything sees it that does not care which.

use model::Instant;
use wire::group::GroupRecord;
use wire::{ErrorCode, Uuid};

use super::ask::{self, Listed};
use super::classic::{Classic, ClassicState, Committer};
use super::consumer::{CommitBy, ConsumerGroup};
use super::{Retention, record};

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) group: Group,
    /// The time that `wakes` has for it.
    pub(super) wake: Option<Instant>,
    /// A record of it is in the log.
    pub(super) is_written: bool,
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "most groups are classic, and a map has them anyway"
)]
pub(super) enum Group {
    Classic(Classic),
    /// Boxed: this one is larger still.
    Consumer(Box<ConsumerGroup>),
}

impl Group {
    pub(super) fn classic(&mut self) -> Option<&mut Classic> {
        match self {
            Group::Classic(classic) => Some(classic),
            Group::Consumer(_) => None,
        }
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        match self {
            Group::Classic(classic) => classic.wake(),
            Group::Consumer(consumer) => consumer.next_deadline(),
        }
    }

    /// Nobody is in it nor about to be.
    pub(super) fn is_idle(&self) -> bool {
        match self {
            Group::Classic(classic) => classic.is_idle(),
            Group::Consumer(consumer) => consumer.is_empty(),
        }
    }

    /// There is nothing to remember of it.
    pub(super) fn is_unborn(&self) -> bool {
        match self {
            Group::Classic(classic) => classic.is_unborn(),
            Group::Consumer(consumer) => !consumer.exists(),
        }
    }

    /// The other protocol may take it over.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Group::Classic(classic) => classic.state() == ClassicState::Empty,
            Group::Consumer(consumer) => consumer.is_empty(),
        }
    }

    pub(super) fn check_commit(
        &self,
        committer: &Committer<'_>,
        knows_member_epochs: bool,
        partitions: impl Iterator<Item = (Uuid, i32)>,
    ) -> Result<(), ErrorCode> {
        match self {
            Group::Classic(classic) => classic.check_commit(committer),
            Group::Consumer(consumer) => {
                let by = CommitBy {
                    member_id: committer.member_id,
                    instance_id: committer.instance_id,
                    epoch: committer.generation,
                    transactional: committer.is_transactional,
                    knows_member_epochs,
                };
                consumer.validate_commit(&by, partitions)
            }
        }
    }

    pub(super) fn check_fetch(&self, member_id: Option<&str>, epoch: i32) -> Result<(), ErrorCode> {
        match self {
            Group::Classic(_) => Ok(()),
            Group::Consumer(consumer) => consumer.validate_fetch(member_id, epoch),
        }
    }

    pub(super) fn check_delete_offsets(&self) -> Result<(), ErrorCode> {
        match self {
            Group::Classic(classic) => classic.check_delete_offsets(),
            Group::Consumer(_) => Ok(()),
        }
    }

    pub(super) fn is_subscribed_to(&self, topic: &str) -> bool {
        match self {
            Group::Classic(classic) => classic.is_subscribed_to(topic),
            Group::Consumer(consumer) => consumer.subscribes_to(topic),
        }
    }

    pub(super) fn retention(&self) -> Retention {
        match self {
            Group::Classic(classic) => classic.retention(),
            Group::Consumer(_) => Retention::SinceCommit,
        }
    }

    pub(super) fn listed(&self, id: &str) -> Listed {
        match self {
            Group::Classic(classic) => classic.listed(),
            Group::Consumer(consumer) => Listed {
                group_id: id.to_owned(),
                state: ask::GroupState::Consumer(consumer.state()),
                protocol_type: Some("consumer".to_owned()),
            },
        }
    }

    /// The removal of the group, without its offsets.
    pub(super) fn tombstones(&self, id: &str) -> Vec<GroupRecord> {
        match self {
            Group::Classic(_) => vec![record::classic_gone(id)],
            Group::Consumer(consumer) => consumer.tombstones(),
        }
    }
}
