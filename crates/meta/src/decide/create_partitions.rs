//! Adding partitions to topics.
//!
//! Owns the rules of growth: a topic only grows, and new partitions have as many replicas as its first one.

use std::collections::BTreeMap;

use model::PartitionIndex;

use super::{AssignmentError, RECORDS_MAX, check_new_assignment, new_partition};
use crate::image::{Image, Topic};
use crate::placement::{self, Placement};
use crate::record::Record;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    pub name: String,
    /// Partitions the topic shall have.
    pub count: i32,
    /// Replicas of each new partition; `None`: the broker places them.
    pub assignments: Option<Vec<Vec<i32>>>,
}

/// Why a topic does not grow; the texts are those of Kafka.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreatePartitionsError {
    #[error("Duplicate topic name.")]
    Duplicate,
    #[error("this broker has no topic of that name")]
    Unknown,
    #[error("Topic already has {0} partition(s).")]
    Same(usize),
    #[error(
        "The topic {name} currently has {has} partition(s); {wanted} would not be an increase."
    )]
    Fewer {
        name: String,
        has: usize,
        wanted: i32,
    },
    #[error(
        "Attempted to add {added} additional partition(s), but only {assigned} assignment(s) were specified."
    )]
    Assignments { added: usize, assigned: usize },
    #[error(transparent)]
    Assignment(#[from] AssignmentError),
    #[error("{}", placement::no_place(*wanted, *usable))]
    TooFewBrokers { wanted: i16, usable: usize },
    #[error("Unable to perform excessively large batch operation.")]
    TooManyRecords,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreatePartitions {
    pub records: Vec<Record>,
    /// One for each name, names that stood twice first.
    pub answers: Vec<(String, Result<(), CreatePartitionsError>)>,
}

#[must_use]
pub fn create_partitions(image: &Image, growths: &[Growth]) -> CreatePartitions {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for growth in growths {
        *counts.entry(&growth.name).or_default() += 1;
    }
    let mut decision = CreatePartitions::default();
    let twice = counts.iter().filter(|(_, count)| 1 < **count);
    decision
        .answers
        .extend(twice.map(|(name, _)| ((*name).to_owned(), Err(CreatePartitionsError::Duplicate))));
    let mut placement = Placement::new(image);
    for growth in growths
        .iter()
        .filter(|growth| counts.get(growth.name.as_str()) == Some(&1))
    {
        let room = RECORDS_MAX - decision.records.len();
        let answer = grow(image, growth, &mut placement, room)
            .map(|mut records| decision.records.append(&mut records));
        decision.answers.push((growth.name.clone(), answer));
    }
    decision
}

fn grow(
    image: &Image,
    growth: &Growth,
    placement: &mut Placement<'_>,
    room: usize,
) -> Result<Vec<Record>, CreatePartitionsError> {
    let topic: &Topic = image
        .topic(&growth.name)
        .ok_or(CreatePartitionsError::Unknown)?;
    let has = topic.partitions.len();
    let added = match usize::try_from(growth.count) {
        Ok(wanted) if wanted == has => return Err(CreatePartitionsError::Same(has)),
        Ok(wanted) if has < wanted => wanted - has,
        _ => {
            let (name, wanted) = (growth.name.clone(), growth.count);
            return Err(CreatePartitionsError::Fewer { name, has, wanted });
        }
    };
    if let Some(assigned) = growth
        .assignments
        .as_ref()
        .map(Vec::len)
        .filter(|assigned| *assigned != added)
    {
        return Err(CreatePartitionsError::Assignments { added, assigned });
    }
    if room < added {
        return Err(CreatePartitionsError::TooManyRecords);
    }
    let factor = topic
        .partitions
        .first()
        .map_or(1, |partition| partition.replicas.len());
    let mut records = Vec::with_capacity(added);
    for at in 0..added {
        let index = i32::try_from(has + at).unwrap_or(i32::MAX);
        let replicas = match growth
            .assignments
            .as_ref()
            .and_then(|assignments| assignments.get(at))
        {
            Some(replicas) => check_new_assignment(image, index, replicas, Some(factor))?,
            None => {
                let wanted = i16::try_from(factor).unwrap_or(i16::MAX);
                let too_few = |error: placement::TooFew| CreatePartitionsError::TooFewBrokers {
                    wanted,
                    usable: error.usable,
                };
                placement.place(wanted).map_err(too_few)?
            }
        };
        let index = PartitionIndex(index);
        records.push(new_partition(image, placement, topic.id, index, &replicas));
    }
    Ok(records)
}
