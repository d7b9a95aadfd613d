//! Elections that an operator asks for: the preferred leader back in its place, or any leader where there is none.
//!
//! Owns who may lead. A preferred leader is elected only when it is in sync; the unclean election takes a replica that is not
//! when nobody else is left, and says so in the record. A partition that has what it asks for is not touched.

use model::{BrokerId, PartitionIndex};
use wire::metadata::PartitionChangeRecord;

use super::RECORDS_MAX;
use crate::image::{Image, NO_LEADER, Partition, Topic};
use crate::name;
use crate::record::Record;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Election {
    Preferred,
    Unclean,
}

impl Election {
    #[must_use]
    pub fn from_wire(election: i8) -> Option<Election> {
        match election {
            0 => Some(Election::Preferred),
            1 => Some(Election::Unclean),
            _ => None,
        }
    }
}

/// Why nobody is elected; the texts are those of Kafka.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElectError {
    #[error("No such topic as {0}")]
    UnknownTopic(String),
    #[error("No such partition as {topic}-{partition}")]
    UnknownPartition { topic: String, partition: i32 },
    #[error("Leader election not needed for topic partition.")]
    NotNeeded,
    #[error("The preferred leader was not available.")]
    NoPreferred,
    #[error("Eligible topic partition leaders are not available.")]
    NoEligible,
    #[error("Unable to perform excessively large batch operation.")]
    TooManyRecords,
}

pub type Elected = (PartitionIndex, Result<(), ElectError>);

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ElectLeaders {
    pub records: Vec<Record>,
    /// In the order of the request.
    pub answers: Vec<(String, Vec<Elected>)>,
}

/// Elections in `asked`, or in every partition; then those that have the leader they want are not told of, their topics are.
#[must_use]
pub fn elect_leaders(
    image: &Image,
    election: Election,
    asked: Option<&[(String, Vec<i32>)]>,
) -> ElectLeaders {
    let mut decision = ElectLeaders::default();
    let Some(asked) = asked else {
        for topic in image.topics() {
            let all = (0..topic.partitions.len()).map(|at| i32::try_from(at).unwrap_or(i32::MAX));
            let mut elected = elect_in(image, election, &topic.name, all, &mut decision.records);
            elected.retain(|(_, answer)| *answer != Err(ElectError::NotNeeded));
            let name = topic.name.as_ref().to_owned();
            decision.answers.push((name, elected));
        }
        return decision;
    };
    for (name, partitions) in asked {
        let partitions = partitions.iter().copied();
        let elected = elect_in(image, election, name, partitions, &mut decision.records);
        decision.answers.push((name.clone(), elected));
    }
    decision
}

fn elect_in(
    image: &Image,
    election: Election,
    name: &str,
    partitions: impl Iterator<Item = i32>,
    records: &mut Vec<Record>,
) -> Vec<Elected> {
    let elect = |index: i32| {
        let answer = match image.topic(name) {
            None => Err(ElectError::UnknownTopic(name::shown(name).to_owned())),
            Some(topic) => leader(image, election, topic, index),
        };
        let answer = answer.and_then(|record| {
            if records.len() == RECORDS_MAX {
                return Err(ElectError::TooManyRecords);
            }
            records.push(record);
            Ok(())
        });
        (PartitionIndex(index), answer)
    };
    partitions.map(elect).collect()
}

fn leader(
    image: &Image,
    election: Election,
    topic: &Topic,
    index: i32,
) -> Result<Record, ElectError> {
    let partition = usize::try_from(index)
        .ok()
        .and_then(|at| topic.partitions.get(at))
        .ok_or_else(|| ElectError::UnknownPartition {
            topic: topic.name.as_ref().to_owned(),
            partition: index,
        })?;
    let change = PartitionChangeRecord {
        partition_id: index,
        topic_id: topic.id,
        ..PartitionChangeRecord::default()
    };
    let works = |id: &&BrokerId| image.broker(**id).is_some_and(|broker| !broker.is_fenced);
    let in_sync = |id: &&BrokerId| partition.isr.contains(id) && works(id);
    match election {
        Election::Preferred => {
            let preferred = partition.replicas.first();
            if preferred == Some(&partition.leader) {
                return Err(ElectError::NotNeeded);
            }
            let leader = preferred.filter(in_sync).ok_or(ElectError::NoPreferred)?;
            Ok(PartitionChangeRecord {
                leader: leader.0,
                ..change
            }
            .into())
        }
        Election::Unclean if partition.leader != NO_LEADER => Err(ElectError::NotNeeded),
        Election::Unclean => {
            let clean = partition.replicas.iter().find(in_sync);
            let record = match clean {
                Some(leader) => PartitionChangeRecord {
                    leader: leader.0,
                    ..change
                },
                None => unclean(partition, works, change)?,
            };
            Ok(record.into())
        }
    }
}

/// The new leader's log is the truth from now on, whatever the others had.
fn unclean(
    partition: &Partition,
    works: impl Fn(&&BrokerId) -> bool,
    change: PartitionChangeRecord,
) -> Result<PartitionChangeRecord, ElectError> {
    const RECOVERING: i8 = 1;
    let leader = partition.replicas.iter().find(works);
    let leader = leader.ok_or(ElectError::NoEligible)?.0;
    Ok(PartitionChangeRecord {
        leader,
        isr: Some(vec![leader]),
        leader_recovery_state: RECOVERING,
        ..change
    })
}
