//! Elections that an operator asks for: the preferred leader back in its place, or any leader where there is none.
//!
//! Owns which elections are needed. A preferred leader is elected only when it is in sync; the unclean election takes a replica
//! that is not when nobody else is left, and says so in the record. A partition that has what it asks for is not touched.

use model::PartitionIndex;

use super::RECORDS_MAX;
use super::draft::{Draft, TopicSettings, leaderless};
use super::partition_change::Election as Kind;
use crate::image::{Image, NO_LEADER, Partition};
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

/// Elections in `asked`, or in every partition; then those that have the leader they want are not named, their topics are.
#[must_use]
pub fn elect_leaders(
    image: &Image,
    settings: &dyn TopicSettings,
    election: Election,
    asked: Option<&[(String, Vec<i32>)]>,
) -> ElectLeaders {
    let mut draft = Draft::new(image, settings);
    let mut answers = Vec::new();
    if let Some(asked) = asked {
        for (name, partitions) in asked {
            let elect = |at: &i32| (PartitionIndex(*at), elect(&mut draft, election, name, *at));
            answers.push((name.clone(), partitions.iter().map(elect).collect()));
        }
    } else {
        for topic in image.topics() {
            let all = (0..).take(topic.partitions.len());
            let elect = |at| {
                let answer = elect(&mut draft, election, &topic.name, at);
                (PartitionIndex(at), answer)
            };
            let elected = all.map(elect);
            let is_named = |(_, answer): &Elected| *answer != Err(ElectError::NotNeeded);
            answers.push((topic.name.to_string(), elected.filter(is_named).collect()));
        }
    }
    ElectLeaders {
        records: draft.records(),
        answers,
    }
}

/// Elections that nobody asked for: preferred leaders come back where they are in sync, at most so many at once. True if there may be
/// more.
#[must_use]
pub fn balance_leaders(
    image: &Image,
    settings: &dyn TopicSettings,
    elections_max: usize,
) -> (Vec<Record>, bool) {
    let mut draft = Draft::new(image, settings);
    for topic in image.topics() {
        for (index, partition) in (0..).zip(&topic.partitions) {
            let preferred = partition.replicas.first();
            let is_ready = preferred.is_some_and(|broker| partition.isr.contains(broker));
            if !is_ready || !is_needed(partition, Election::Preferred) {
                continue;
            }
            if draft.count() == elections_max {
                return (draft.records(), true);
            }
            let place = (topic.id, PartitionIndex(index));
            draft.change(place, |change, _| change.election(Kind::Preferred));
        }
    }
    (draft.records(), false)
}

/// Elections of `unclean.leader.election.enable`: partitions without leader whose topic has the setting get one that is up, at most so
/// many at once. True if there may be more.
#[must_use]
pub fn elect_unclean(
    image: &Image,
    settings: &dyn TopicSettings,
    elections_max: usize,
) -> (Vec<Record>, bool) {
    let mut draft = Draft::new(image, settings);
    for topic in image.topics() {
        if !topic.partitions.iter().any(leaderless)
            || !settings.of(image, &topic.name).may_be_unclean
        {
            continue;
        }
        for (index, partition) in (0..).zip(&topic.partitions) {
            if !leaderless(partition) {
                continue;
            }
            if draft.count() == elections_max {
                return (draft.records(), true);
            }
            let place = (topic.id, PartitionIndex(index));
            draft.change(place, |change, _| change.election(Kind::Unclean));
        }
    }
    (draft.records(), false)
}

fn elect(
    draft: &mut Draft<'_>,
    election: Election,
    name: &str,
    index: i32,
) -> Result<(), ElectError> {
    let topic = draft.image().topic(name);
    let topic = topic.ok_or_else(|| ElectError::UnknownTopic(name::shown(name).to_owned()))?;
    let at = usize::try_from(index).ok();
    let partition = at.and_then(|at| topic.partitions.get(at)).ok_or_else(|| {
        let topic = topic.name.to_string();
        ElectError::UnknownPartition {
            topic,
            partition: index,
        }
    })?;
    if !is_needed(partition, election) {
        return Err(ElectError::NotNeeded);
    }
    if draft.count() == RECORDS_MAX {
        return Err(ElectError::TooManyRecords);
    }
    let place = (topic.id, PartitionIndex(index));
    let (kind, error) = match election {
        Election::Preferred => (Kind::Preferred, ElectError::NoPreferred),
        Election::Unclean => (Kind::Unclean, ElectError::NoEligible),
    };
    let is_elected = draft.change(place, |change, _| change.election(kind));
    is_elected.then_some(()).ok_or(error)
}

fn is_needed(partition: &Partition, election: Election) -> bool {
    match election {
        Election::Preferred => partition.replicas.first() != Some(&partition.leader),
        Election::Unclean => partition.leader == NO_LEADER,
    }
}
