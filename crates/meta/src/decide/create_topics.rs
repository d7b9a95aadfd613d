//! Creating topics, by request or because someone asked for one that is missing.
//!
//! Owns every rule a new topic must keep: its name, its size, its placement, its settings. Names that stand in one request
//! twice are refused altogether; names that differ in `.` and `_` alone are refused against the topics that exist.

use std::collections::{BTreeMap, BTreeSet};

use config::{Broker, Overrides, ValueError};
use model::PartitionIndex;
use wire::Uuid;
use wire::metadata::{ConfigRecord, TopicRecord};

use super::{AssignmentError, RECORDS_MAX, Uuids, check_new_assignment, new_partition};
use crate::image::{Image, ResourceKind};
use crate::name::{self, NameError};
use crate::placement::{self, Placement};
use crate::record::Record;

/// "Take the broker's default" in partitions and replication factor.
pub const DEFAULT: i32 = -1;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewTopic {
    pub name: String,
    pub partitions: i32,
    pub replication_factor: i16,
    /// Partition numbers with their replicas; empty: the broker places them.
    pub assignments: Vec<(i32, Vec<i32>)>,
    pub settings: Vec<(String, Option<String>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedTopic {
    pub id: Uuid,
    pub partitions: i32,
    pub replication_factor: i16,
    pub overrides: Overrides,
}

/// Why a topic is not created; the texts are those of Kafka.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateTopicError {
    #[error("Duplicate topic name.")]
    Duplicate,
    #[error("Creation of internal topic {0} is prohibited.")]
    Prohibited(String),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("Topic '{name}' collides with existing topic: {existing}")]
    Collides { name: String, existing: String },
    #[error(
        "Topic '{name}' differs from topic '{existing}' in case alone, and the volume of a log directory takes the two for one"
    )]
    Folds { name: String, existing: String },
    #[error("Topic '{0}' already exists.")]
    Exists(String),
    #[error("Null value not supported for topic configs: {}", .0.join(", "))]
    NullSetting(Vec<String>),
    #[error(transparent)]
    Setting(#[from] ValueError),
    #[error(
        "A manual partition assignment was specified, but replication factor was not set to -1."
    )]
    FactorBesideAssignment,
    #[error("A manual partition assignment was specified, but numPartitions was not set to -1.")]
    CountBesideAssignment,
    #[error("Found multiple manual partition assignments for partition {0}")]
    AssignedTwice(i32),
    #[error("partitions should be a consecutive 0-based integer sequence")]
    Gap,
    #[error(transparent)]
    Assignment(#[from] AssignmentError),
    #[error("Number of partitions was set to an invalid non-positive value.")]
    Partitions,
    #[error("Replication factor must be larger than 0, or -1 to use the default value.")]
    ReplicationFactor,
    #[error("{}", placement::no_place(*wanted, *usable))]
    TooFewBrokers { wanted: i16, usable: usize },
    #[error("Excessively large number of partitions per request.")]
    TooManyPartitions,
    #[error("Unable to perform excessively large batch operation.")]
    TooManyRecords,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreateTopics {
    pub records: Vec<Record>,
    /// One for each name, names that stood twice last.
    pub answers: Vec<(String, Result<CreatedTopic, CreateTopicError>)>,
}

#[must_use]
pub fn create_topics(
    image: &Image,
    broker: &Broker,
    topics: &[NewTopic],
    uuids: &mut dyn Uuids,
) -> CreateTopics {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for topic in topics {
        *counts.entry(&topic.name).or_default() += 1;
    }
    let mut decision = CreateTopics::default();
    let once = || {
        topics
            .iter()
            .filter(|topic| counts.get(topic.name.as_str()) == Some(&1))
    };
    if RECORDS_MAX
        < once()
            .map(|topic| asked(topic, broker))
            .fold(0, usize::saturating_add)
    {
        decision.answers = once()
            .map(|topic| (topic.name.clone(), Err(CreateTopicError::TooManyPartitions)))
            .collect();
    } else {
        let mut placement = Placement::new(image);
        for topic in once() {
            let mut maker = Maker {
                image,
                broker,
                placement: &mut placement,
                uuids,
                records: Vec::new(),
            };
            let answer = maker.create(topic);
            if answer.is_ok() {
                decision.records.append(&mut maker.records);
            }
            decision.answers.push((topic.name.clone(), answer));
        }
    }
    if RECORDS_MAX < decision.records.len() {
        decision.records.clear();
        decision
            .answers
            .iter_mut()
            .for_each(|(_, answer)| *answer = Err(CreateTopicError::TooManyRecords));
    }
    let twice = counts.iter().filter(|(_, count)| 1 < **count);
    decision
        .answers
        .extend(twice.map(|(name, _)| ((*name).to_owned(), Err(CreateTopicError::Duplicate))));
    decision
}

/// Creates the topics of `names` that are missing, as a request for their metadata does. Names that cannot be created are left
/// out: asking for them says why.
#[must_use]
pub fn auto_create(
    image: &Image,
    broker: &Broker,
    names: &BTreeSet<&str>,
    uuids: &mut dyn Uuids,
) -> CreateTopics {
    let missing = names.iter().filter(|name| image.topic(name).is_none());
    let topics: Vec<NewTopic> = missing.map(|name| implied(image, broker, name)).collect();
    let mut decision = create_topics(image, broker, &topics, uuids);
    decision.answers.retain(|(_, answer)| answer.is_ok());
    decision
}

/// Too few brokers for the replicas of a topic that is made by the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it is made once {needed} brokers have registered, and {usable} have: start the others, or set its replication factor to the number of brokers"
)]
pub struct TooFewBrokers {
    pub needed: usize,
    pub usable: usize,
}

/// Checks that the replicas of an internal topic have a broker each.
pub fn check_brokers(image: &Image, broker: &Broker, name: &str) -> Result<(), TooFewBrokers> {
    let usable = Placement::new(image).usable_count();
    let needed = usize::try_from(implied(image, broker, name).replication_factor).unwrap_or(0);
    if usable < needed {
        return Err(TooFewBrokers { needed, usable });
    }
    Ok(())
}

/// The topic that is made when a request names no settings.
fn implied(image: &Image, broker: &Broker, name: &str) -> NewTopic {
    let expected = expected_brokers(image, broker);
    let internal = |prefix: &str, short: &str| {
        let number = |what: String| broker.number(&what).unwrap_or(1);
        let factor = number(format!("{prefix}.replication.factor"))
            .min(i64::try_from(expected).unwrap_or(1))
            .max(1);
        NewTopic {
            name: name.into(),
            partitions: i32::try_from(number(format!("{prefix}.num.partitions"))).unwrap_or(1),
            replication_factor: i16::try_from(factor).unwrap_or(1),
            assignments: Vec::new(),
            settings: vec![
                ("cleanup.policy".into(), Some(short.into())),
                (
                    "compression.type".into(),
                    Some(
                        if prefix == "offsets.topic" {
                            "producer"
                        } else {
                            "uncompressed"
                        }
                        .into(),
                    ),
                ),
                (
                    "segment.bytes".into(),
                    Some(
                        number(format!("{prefix}.segment.bytes"))
                            .max(1 << 20)
                            .to_string(),
                    ),
                ),
            ],
        }
    };
    match name {
        name::OFFSETS => internal("offsets.topic", "compact"),
        name::TRANSACTIONS => {
            let mut topic = internal("transaction.state.log", "compact");
            let in_sync = broker.number("transaction.state.log.min.isr").unwrap_or(1);
            let more = [
                ("min.insync.replicas", in_sync.to_string()),
                ("unclean.leader.election.enable", "false".to_owned()),
            ];
            let more = more.map(|(name, value)| (name.to_owned(), Some(value)));
            topic.settings.extend(more);
            topic
        }
        name::SHARES => internal("share.coordinator.state.topic", "delete"),
        name::CLIENT_METRICS => {
            let own = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
            NewTopic {
                name: name.into(),
                partitions: 1,
                replication_factor: DEFAULT as i16,
                assignments: Vec::new(),
                // The newest of each instance, for a day or two and in 256 MiB or two.
                settings: vec![
                    own("cleanup.policy", "compact,delete"),
                    own("retention.ms", "86400000"),
                    own("retention.bytes", "268435456"),
                    own("segment.bytes", "16777216"),
                ],
            }
        }
        _ => NewTopic {
            name: name.into(),
            partitions: DEFAULT,
            replication_factor: DEFAULT as i16,
            ..NewTopic::default()
        },
    }
}

/// Brokers there are, or are going to be: where the nodes that keep the metadata are brokers as well, those that the settings name. While a
/// cluster starts for the first time some have not registered, and internal topics would have too few replicas for good.
fn expected_brokers(image: &Image, broker: &Broker) -> usize {
    let usable = Placement::new(image).usable_count();
    let quorum = &broker.quorum;
    if quorum.roles.broker && quorum.roles.controller {
        usable.max(quorum.voters.len())
    } else {
        usable
    }
}

/// Where the settings do not say either, three copies survive one loss while another broker is restarted.
const FACTOR_MAX: usize = 3;

fn default_factor(broker: &Broker, usable: usize) -> i16 {
    let by_brokers = i16::try_from(usable.clamp(1, FACTOR_MAX)).unwrap_or(1);
    broker.replication_factor_default.unwrap_or(by_brokers)
}

fn asked(topic: &NewTopic, broker: &Broker) -> usize {
    match topic.partitions {
        DEFAULT if topic.assignments.is_empty() => {
            usize::try_from(broker.partitions_default).unwrap_or(0)
        }
        DEFAULT => topic.assignments.len(),
        count => usize::try_from(count).unwrap_or(0),
    }
}

struct Maker<'a, 'i> {
    image: &'i Image,
    broker: &'a Broker,
    placement: &'a mut Placement<'i>,
    uuids: &'a mut dyn Uuids,
    records: Vec<Record>,
}

impl Maker<'_, '_> {
    fn create(&mut self, topic: &NewTopic) -> Result<CreatedTopic, CreateTopicError> {
        self.check_name(&topic.name)?;
        let overrides = self.check_settings(topic)?;
        let id = self.fresh_id();
        self.records.push(
            TopicRecord {
                name: topic.name.clone(),
                topic_id: id,
            }
            .into(),
        );
        self.records.extend(overrides.iter().map(|(name, value)| {
            let (name, value) = (name.clone(), Some(value.clone()));
            ConfigRecord {
                resource_type: ResourceKind::Topic as i8,
                resource_name: topic.name.clone(),
                name,
                value,
            }
            .into()
        }));
        let (partitions, replication_factor) = match topic.assignments.as_slice() {
            [] => self.place(topic, id)?,
            assignments => self.assign(topic, assignments, id)?,
        };
        Ok(CreatedTopic {
            id,
            partitions,
            replication_factor,
            overrides,
        })
    }

    fn check_name(&self, name: &str) -> Result<(), CreateTopicError> {
        if name == name::METADATA {
            return Err(CreateTopicError::Prohibited(name.into()));
        }
        name::check(name)?;
        if self.image.topic(name).is_some() {
            return Err(CreateTopicError::Exists(name.into()));
        }
        match self.image.colliding(name) {
            Some(existing) => Err(CreateTopicError::Collides {
                name: name.into(),
                existing: existing.as_ref().into(),
            }),
            None => Ok(()),
        }
    }

    fn check_settings(&self, topic: &NewTopic) -> Result<Overrides, CreateTopicError> {
        let nulls: Vec<String> = topic
            .settings
            .iter()
            .filter(|(_, value)| value.is_none())
            .map(|(name, _)| name.clone())
            .collect();
        if !nulls.is_empty() {
            return Err(CreateTopicError::NullSetting(nulls));
        }
        let given = topic
            .settings
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), value.clone()?)));
        let overrides: Overrides = given.collect();
        self.broker.check_topic(&overrides)?;
        Ok(overrides)
    }

    /// Not one that stands for something else, and none that tools take for an option.
    fn fresh_id(&mut self) -> Uuid {
        loop {
            let id = self.uuids.next();
            let is_reserved = id.0[..15] == [0; 15];
            if !is_reserved
                && !id.to_string().starts_with('-')
                && self.image.topic_by_id(id).is_none()
            {
                return id;
            }
        }
    }

    fn place(&mut self, topic: &NewTopic, id: Uuid) -> Result<(i32, i16), CreateTopicError> {
        let count = match topic.partitions {
            DEFAULT => self.broker.partitions_default,
            count => count,
        };
        let factor = match i32::from(topic.replication_factor) {
            DEFAULT => default_factor(self.broker, self.placement.usable_count()),
            _ => topic.replication_factor,
        };
        if factor <= 0 {
            return Err(CreateTopicError::ReplicationFactor);
        }
        if count <= 0 {
            return Err(CreateTopicError::Partitions);
        }
        for index in 0..count {
            let replicas =
                self.placement
                    .place(factor)
                    .map_err(|error| CreateTopicError::TooFewBrokers {
                        wanted: factor,
                        usable: error.usable,
                    })?;
            self.records.push(new_partition(
                self.image,
                self.placement,
                id,
                PartitionIndex(index),
                &replicas,
            ));
        }
        Ok((count, factor))
    }

    fn assign(
        &mut self,
        topic: &NewTopic,
        assignments: &[(i32, Vec<i32>)],
        id: Uuid,
    ) -> Result<(i32, i16), CreateTopicError> {
        if i32::from(topic.replication_factor) != DEFAULT {
            return Err(CreateTopicError::FactorBesideAssignment);
        }
        if topic.partitions != DEFAULT {
            return Err(CreateTopicError::CountBesideAssignment);
        }
        let mut by_index = BTreeMap::new();
        let mut factor = None;
        for (index, replicas) in assignments {
            if by_index.contains_key(index) {
                return Err(CreateTopicError::AssignedTwice(*index));
            }
            let replicas = check_new_assignment(self.image, *index, replicas, factor)?;
            factor = Some(replicas.len());
            by_index.insert(*index, replicas);
        }
        let count = i32::try_from(by_index.len()).unwrap_or(i32::MAX);
        if !by_index.keys().copied().eq(0..count) {
            return Err(CreateTopicError::Gap);
        }
        for (index, replicas) in &by_index {
            self.records.push(new_partition(
                self.image,
                self.placement,
                id,
                PartitionIndex(*index),
                replicas,
            ));
        }
        Ok((
            count,
            i16::try_from(factor.unwrap_or(1)).unwrap_or(i16::MAX),
        ))
    }
}
