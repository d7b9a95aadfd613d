//! Reassignments: other replicas for a partition (KIP-455).
//!
//! Owns what a target may be. Partitions stay where they are as long as no broker copies from another, so the only target that
//! passes is the assignment there is; it is done when it is asked for. Nothing is ever in progress to be cancelled, unless the
//! metadata says so.

use model::PartitionIndex;

use super::{AssignmentError, check_assignment};
use crate::image::{Image, Partition};
use crate::name;

/// Where a partition shall go; no replicas: where it was before the reassignment that is in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub partition: i32,
    pub replicas: Option<Vec<i32>>,
}

/// Why a partition is not reassigned; the texts are those of Kafka but for the last.
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
    #[error("this version keeps every partition on the brokers that have it")]
    Elsewhere,
}

pub type Reassigned = (PartitionIndex, Result<(), ReassignError>);

/// An answer for each target, in the order of the request.
#[must_use]
pub fn reassign(
    image: &Image,
    topics: &[(String, Vec<Target>)],
    may_change_factor: bool,
) -> Vec<(String, Vec<Reassigned>)> {
    let of_topic = |(name, targets): &(String, Vec<Target>)| {
        let one = |target: &Target| {
            let answer = check(image, name, target, may_change_factor);
            (PartitionIndex(target.partition), answer)
        };
        (name.clone(), targets.iter().map(one).collect())
    };
    topics.iter().map(of_topic).collect()
}

fn check(
    image: &Image,
    name: &str,
    target: &Target,
    may_change_factor: bool,
) -> Result<(), ReassignError> {
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
    let Some(replicas) = &target.replicas else {
        return Err(if is_in_progress(partition) {
            ReassignError::Elsewhere
        } else {
            ReassignError::NotInProgress
        });
    };
    let wanted = check_assignment(image, replicas, None)?;
    let (from, to) = (headed_for(partition), wanted.len());
    if !may_change_factor && from != to {
        return Err(ReassignError::ReplicationFactor { from, to });
    }
    if wanted == partition.replicas && !is_in_progress(partition) {
        Ok(())
    } else {
        Err(ReassignError::Elsewhere)
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
