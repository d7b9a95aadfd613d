//! A broker says which of its directories has which replicas (KIP-858).

use model::{BrokerId, PartitionIndex};
use wire::Uuid;

use super::alter_partition::check_epoch;
use super::draft::{Cause, Draft, TopicSettings};
use crate::dir;
use crate::image::Image;
use crate::record::Record;
use crate::sessions::HeartbeatError;
use crate::versions::MetadataVersion;

/// A replica of the broker, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub dir: Uuid,
    pub topic: Uuid,
    pub partition: PartitionIndex,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssignDirError {
    UnknownTopic,
    UnknownPartition,
    NotReplica,
}

/// The request as a whole is refused; the texts are those of Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssignDirsError {
    #[error("Directory assignment is not supported yet.")]
    Unsupported,
    #[error(transparent)]
    Epoch(#[from] HeartbeatError),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AssignDirs {
    pub records: Vec<Record>,
    /// For each assignment, in the order of the request.
    pub answers: Vec<Result<(), AssignDirError>>,
}

/// Notes where replicas are. One in a directory that does not work is out of sync.
pub fn assign_dirs(
    image: &Image,
    settings: &dyn TopicSettings,
    broker: BrokerId,
    epoch: i64,
    assignments: &[Assignment],
) -> Result<AssignDirs, AssignDirsError> {
    if image.metadata_version() < MetadataVersion::V3_7_IV2 {
        return Err(AssignDirsError::Unsupported);
    }
    check_epoch(image, broker, epoch)?;
    let mut draft = Draft::new(image, settings);
    let answers: Vec<_> = (assignments.iter())
        .map(|assignment| assign(&mut draft, broker, assignment))
        .collect();
    let online = image.broker(broker).map(|broker| &broker.log_dirs);
    for (assignment, answer) in assignments.iter().zip(&answers) {
        let works = online.is_some_and(|online| dir::is_online(assignment.dir, online));
        if answer.is_ok() && !works {
            let place = (assignment.topic, assignment.partition);
            draft.settle_one(Cause::Gone(broker), place);
        }
    }
    Ok(AssignDirs {
        records: draft.records(),
        answers,
    })
}

fn assign(
    draft: &mut Draft<'_>,
    broker: BrokerId,
    assignment: &Assignment,
) -> Result<(), AssignDirError> {
    let topic = draft.image().topic_by_id(assignment.topic);
    let topic = topic.ok_or(AssignDirError::UnknownTopic)?;
    let at = usize::try_from(assignment.partition.0).ok();
    let partition = at.and_then(|at| topic.partitions.get(at));
    let partition = partition.ok_or(AssignDirError::UnknownPartition)?;
    if !partition.replicas.contains(&broker) {
        return Err(AssignDirError::NotReplica);
    }
    let place = (assignment.topic, assignment.partition);
    draft.change(place, |change, _| change.directory(broker, assignment.dir));
    Ok(())
}
