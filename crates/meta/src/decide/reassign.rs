//! Reassignments: other replicas for a partition (KIP-455, KIP-860).
//!
//! Owns what a target may be, and how it begins: those that come are added to those that are there. It is completed by the change of
//! the ISR that brings the last of them in, see [`super::partition_change`]. A target that is reached already changes nothing.

use model::{BrokerId, PartitionIndex};

use super::draft::{Draft, TopicSettings};
use super::{AssignmentError, RECORDS_MAX, check_assignment};
use crate::image::{Image, Partition};
use crate::name;
use crate::placement::Placement;
use crate::record::Record;

/// Where a partition shall go; no replicas: where it was before the reassignment that is in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub partition: i32,
    pub replicas: Option<Vec<i32>>,
}

/// Why a partition is not reassigned; the texts are those of Kafka.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReassignError {
    #[error("Unable to find a topic named {0}.")]
    UnknownTopic(String),
    #[error("Unable to find partition {topic}:{partition}.")]
    UnknownPartition { topic: String, partition: i32 },
    #[error("No partition reassignment is in progress.")]
    NotInProgress,
    #[error("The replication factor is changed from {from} to {to}")]
    ReplicationFactor { from: usize, to: usize },
    #[error(transparent)]
    Assignment(#[from] AssignmentError),
    #[error(
        "Unable to revert partition assignment for {topic}:{partition} because it would require an unclean leader election."
    )]
    Unclean { topic: String, partition: i32 },
    #[error("Unable to perform excessively large batch operation.")]
    TooManyRecords,
}

pub type Reassigned = (PartitionIndex, Result<(), ReassignError>);

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reassign {
    pub records: Vec<Record>,
    /// For each target, in the order of the request.
    pub answers: Vec<(String, Vec<Reassigned>)>,
}

/// Begins reassignments, or ends those that are in progress.
#[must_use]
pub fn reassign(
    image: &Image,
    settings: &dyn TopicSettings,
    topics: &[(String, Vec<Target>)],
    may_change_factor: bool,
) -> Reassign {
    let mut draft = Draft::new(image, settings);
    let mut placement = Placement::new(image);
    let mut answers = Vec::with_capacity(topics.len());
    for (name, targets) in topics {
        let of_topic = targets.iter().map(|target| {
            let answer = begin(
                &mut draft,
                &mut placement,
                (name, target),
                may_change_factor,
            );
            (PartitionIndex(target.partition), answer)
        });
        let of_topic = of_topic.collect();
        answers.push((name.clone(), of_topic));
    }
    Reassign {
        records: draft.records(),
        answers,
    }
}

fn begin(
    draft: &mut Draft<'_>,
    placement: &mut Placement<'_>,
    (name, target): (&str, &Target),
    may_change_factor: bool,
) -> Result<(), ReassignError> {
    let image = draft.image();
    let topic = image
        .topic(name)
        .ok_or_else(|| ReassignError::UnknownTopic(name::shown(name).to_owned()))?;
    let partition = usize::try_from(target.partition)
        .ok()
        .and_then(|at| topic.partitions.get(at))
        .ok_or_else(|| ReassignError::UnknownPartition {
            topic: name.to_owned(),
            partition: target.partition,
        })?;
    let place = (topic.id, PartitionIndex(target.partition));
    let Some(replicas) = &target.replicas else {
        if !is_in_progress(partition) {
            return Err(ReassignError::NotInProgress);
        }
        let before = Before::of(partition);
        if before.is_unclean && !draft.rules_of(place.0).is_some_and(|of| of.may_be_unclean) {
            return Err(ReassignError::Unclean {
                topic: name.to_owned(),
                partition: target.partition,
            });
        }
        check_room(draft)?;
        draft.change(place, |change, rules| {
            let change = change.isr(before.isr).election(rules.election());
            change.replicas(before.replicas, Vec::new(), Vec::new())
        });
        return Ok(());
    };
    let wanted = check_assignment(image, replicas, None)?;
    let (from, to) = (headed_for(partition), wanted.len());
    if !may_change_factor && from != to {
        return Err(ReassignError::ReplicationFactor { from, to });
    }
    let removing = without(&partition.replicas, &wanted);
    let adding = without(&wanted, &partition.replicas);
    let dirs: Vec<_> = (adding.iter())
        .map(|id| (*id, placement.directory(*id)))
        .collect();
    let merged = wanted.into_iter().chain(removing.iter().copied()).collect();
    check_room(draft)?;
    draft.change(place, |change, rules| {
        let change = change.election(rules.election());
        let change = change.replicas(merged, adding, removing);
        dirs.into_iter()
            .fold(change, |change, (id, dir)| change.directory(id, dir))
    });
    Ok(())
}

fn check_room(draft: &Draft<'_>) -> Result<(), ReassignError> {
    if draft.count() < RECORDS_MAX {
        Ok(())
    } else {
        Err(ReassignError::TooManyRecords)
    }
}

/// Those of `ids` that are not among `others`, in the order of their numbers.
fn without(ids: &[BrokerId], others: &[BrokerId]) -> Vec<BrokerId> {
    let left = ids.iter().filter(|id| !others.contains(id));
    let mut left: Vec<BrokerId> = left.copied().collect();
    left.sort_unstable();
    left
}

/// A partition without the reassignment that is in progress: those that were to come are not, those that were to go stay.
struct Before {
    isr: Vec<BrokerId>,
    replicas: Vec<BrokerId>,
    /// All that are in sync were to come: the first that stays leads, and lacks what they have.
    is_unclean: bool,
}

impl Before {
    fn of(partition: &Partition) -> Before {
        let stays = |ids: &[BrokerId]| -> Vec<BrokerId> {
            let ids = ids.iter().filter(|id| !partition.adding.contains(id));
            ids.copied().collect()
        };
        let (mut isr, replicas) = (stays(&partition.isr), stays(&partition.replicas));
        let is_unclean = isr.is_empty();
        if is_unclean {
            isr.extend(replicas.first());
        }
        Before {
            isr,
            replicas,
            is_unclean,
        }
    }
}

#[must_use]
pub fn is_in_progress(partition: &Partition) -> bool {
    !partition.adding.is_empty() || !partition.removing.is_empty()
}

/// Replicas when all is done.
fn headed_for(partition: &Partition) -> usize {
    partition
        .replicas
        .iter()
        .filter(|replica| !partition.removing.contains(replica))
        .count()
}
