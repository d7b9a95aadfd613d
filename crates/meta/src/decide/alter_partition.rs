//! A leader asks for another ISR (KIP-497, KIP-903): who may be in it, and what follows.
//!
//! Owns the checks of Kafka in their order; each has the leader do something else to do. A leader whose epochs are ahead of the
//! image talks to a controller that is no longer active.

use model::{BrokerId, LeaderEpoch, PartitionIndex};
use wire::Uuid;

use super::draft::{Draft, TopicSettings};
use super::partition_change::has_online_dir;
use crate::image::{Image, Partition};
use crate::record::Record;
use crate::sessions::HeartbeatError;
use crate::trouble::Trouble;

/// A replica that shall be in the ISR, and the registration it fetched with; `None` where the leader does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub broker: BrokerId,
    pub epoch: Option<i64>,
}

/// The state that the leader wants for a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub topic: Uuid,
    pub partition: PartitionIndex,
    pub leader_epoch: LeaderEpoch,
    pub partition_epoch: i32,
    pub isr: Vec<Member>,
    pub is_recovering: bool,
}

/// Why the ISR stays as it is, by what the leader does then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlterPartitionError {
    UnknownTopic,
    UnknownPartition,
    /// The controller is behind the leader: another one is active.
    NotController,
    FencedLeaderEpoch,
    InvalidRequest,
    /// The partition has changed since.
    InvalidUpdateVersion,
    /// A member is fenced, shutting down, or has registered anew. Or those that would join are in directories in trouble, and not needed.
    IneligibleReplica,
    /// The ISR was changed, a reassignment ended with it, and another broker leads now.
    NewLeaderElected,
}

/// The partition as it is with the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Altered {
    pub leader: BrokerId,
    pub leader_epoch: LeaderEpoch,
    pub isr: Vec<BrokerId>,
    pub is_recovering: bool,
    pub partition_epoch: i32,
}

pub type AnswerFor = (Uuid, PartitionIndex, Result<Altered, AlterPartitionError>);

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlterPartitions {
    pub records: Vec<Record>,
    /// In the order of the request.
    pub answers: Vec<AnswerFor>,
}

/// Changes ISRs as `leader`, registered with `epoch`, proposes.
pub fn alter_partitions(
    image: &Image,
    settings: &dyn TopicSettings,
    trouble: &Trouble,
    (leader, epoch): (BrokerId, i64),
    proposals: &[Proposal],
) -> Result<AlterPartitions, HeartbeatError> {
    check_epoch(image, leader, epoch)?;
    let mut draft = Draft::new(image, settings);
    let mut answers = Vec::with_capacity(proposals.len());
    for proposal in proposals {
        let answer = alter(&mut draft, trouble, leader, proposal);
        answers.push((proposal.topic, proposal.partition, answer));
    }
    Ok(AlterPartitions {
        records: draft.records(),
        answers,
    })
}

/// The registration that a request of a broker comes from has to be the newest.
pub(super) fn check_epoch(image: &Image, broker: BrokerId, got: i64) -> Result<(), HeartbeatError> {
    let known = image.broker(broker);
    let known = known.ok_or(HeartbeatError::NotRegistered(broker))?.epoch;
    if known == got {
        Ok(())
    } else {
        Err(HeartbeatError::Stale { known, got })
    }
}

fn alter(
    draft: &mut Draft<'_>,
    trouble: &Trouble,
    leader: BrokerId,
    proposal: &Proposal,
) -> Result<Altered, AlterPartitionError> {
    let place = (proposal.topic, proposal.partition);
    let min_isr = draft.min_isr(place);
    let before = partition(draft.image(), proposal)?;
    check(draft.image(), before, leader, proposal)?;
    let mut isr: Vec<BrokerId> = proposal.isr.iter().map(|member| member.broker).collect();
    let joins = |id: &BrokerId| !before.isr.contains(id);
    if (isr.iter()).any(|id| joins(id) && !has_online_dir(draft.image(), before, *id)) {
        return Err(AlterPartitionError::IneligibleReplica);
    }
    let (well, troubled): (Vec<_>, Vec<_>) =
        (isr.iter().copied()).partition(|id| !joins(id) || !trouble.has(before, *id));
    // One that joins in trouble keeps no other out, and where too few are in sync without it nothing would be committed.
    if !troubled.is_empty() && min_isr.is_some_and(|min| min <= well.len()) {
        let is_as_before = well.len() == before.isr.len() && !well.iter().any(joins);
        if is_as_before {
            return Err(AlterPartitionError::IneligibleReplica);
        }
        isr = well;
    }
    let leader_epoch = before.leader_epoch;
    draft.change(place, |change, rules| {
        let change = change.isr(isr).recovering(proposal.is_recovering);
        change.election(rules.election())
    });
    let after = partition(draft.image(), proposal)?;
    if after.leader_epoch != leader_epoch && after.leader != leader {
        return Err(AlterPartitionError::NewLeaderElected);
    }
    Ok(Altered {
        leader: after.leader,
        leader_epoch: after.leader_epoch,
        isr: after.isr.clone(),
        is_recovering: after.is_recovering,
        partition_epoch: after.epoch,
    })
}

fn partition<'i>(
    image: &'i Image,
    proposal: &Proposal,
) -> Result<&'i Partition, AlterPartitionError> {
    let topic = image.topic_by_id(proposal.topic);
    let topic = topic.ok_or(AlterPartitionError::UnknownTopic)?;
    let at = usize::try_from(proposal.partition.0).ok();
    let partition = at.and_then(|at| topic.partitions.get(at));
    partition.ok_or(AlterPartitionError::UnknownPartition)
}

fn check(
    image: &Image,
    partition: &Partition,
    leader: BrokerId,
    proposal: &Proposal,
) -> Result<(), AlterPartitionError> {
    let (epoch, known) = (proposal.leader_epoch, partition.leader_epoch);
    if known < epoch || partition.epoch < proposal.partition_epoch {
        return Err(AlterPartitionError::NotController);
    }
    if epoch < known {
        return Err(AlterPartitionError::FencedLeaderEpoch);
    }
    if partition.leader != leader {
        return Err(AlterPartitionError::InvalidRequest);
    }
    if proposal.partition_epoch < partition.epoch {
        return Err(AlterPartitionError::InvalidUpdateVersion);
    }
    let isr: Vec<BrokerId> = proposal.isr.iter().map(|member| member.broker).collect();
    let is_once = |id: &BrokerId| isr.iter().filter(|other| *other == id).count() == 1;
    let are_replicas = (isr.iter()).all(|id| partition.replicas.contains(id) && is_once(id));
    if !are_replicas || !isr.contains(&leader) {
        return Err(AlterPartitionError::InvalidRequest);
    }
    // A leader that recovers has a log that the others do not have.
    let recovers = proposal.is_recovering;
    if recovers && (1 < isr.len() || !partition.is_recovering) {
        return Err(AlterPartitionError::InvalidRequest);
    }
    if (proposal.isr.iter()).all(|member| is_eligible(image, member)) {
        Ok(())
    } else {
        Err(AlterPartitionError::IneligibleReplica)
    }
}

/// A replica of an earlier registration may have lost what the leader believes it has (KIP-903).
fn is_eligible(image: &Image, member: &Member) -> bool {
    let known = image.broker(member.broker);
    known.is_some_and(|known| {
        known.is_active() && member.epoch.is_none_or(|epoch| epoch == known.epoch)
    })
}
