//! A decision of several steps, each made on the image that the steps before it lead to.

use model::{BrokerId, PartitionIndex};
use wire::Uuid;
use wire::metadata::PartitionChangeRecord;

use super::partition_change::{
    Election, PartitionChange, Rules, has_online_dir, is_acceptable_leader,
};
use crate::dir;
use crate::image::{Image, NO_LEADER, Partition, Resource, Topic};
use crate::record::Record;

/// Settings of a topic that decide who is in sync enough and who may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicRules {
    /// `min.insync.replicas`.
    pub min_isr: usize,
    /// `unclean.leader.election.enable`.
    pub may_be_unclean: bool,
}

impl TopicRules {
    /// The election that takes place without being asked for.
    pub(super) fn election(self) -> Election {
        if self.may_be_unclean {
            Election::Unclean
        } else {
            Election::Online
        }
    }
}

/// Where the settings of topics come from: those of the topic in the image, else those of the controller.
pub trait TopicSettings {
    fn of(&self, image: &Image, topic: &str) -> TopicRules;
}

impl TopicSettings for config::Broker {
    fn of(&self, image: &Image, topic: &str) -> TopicRules {
        let topic = config::Topic::resolve(&image.overrides(&Resource::topic(topic)), self);
        TopicRules {
            min_isr: usize::try_from(topic.min_insync_replicas).unwrap_or(1),
            may_be_unclean: topic.unclean_leader_election,
        }
    }
}

/// The event that befell a broker, as far as its partitions are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// It is no longer in any ISR and leads nothing.
    Gone(BrokerId),
    /// As `Gone`, and what it had may be lost: it is not eligible either.
    Unclean(BrokerId),
    /// It is unfenced and may lead, also if it was shutting down when it was fenced.
    Back(BrokerId),
}

impl Cause {
    fn may_lead(self, image: &Image, partition: &Partition, id: BrokerId) -> bool {
        match self {
            Cause::Gone(broker) | Cause::Unclean(broker) if id == broker => false,
            Cause::Back(broker) if id == broker => has_online_dir(image, partition, id),
            _ => is_acceptable_leader(image, partition, id),
        }
    }
}

pub(super) struct Draft<'a> {
    image: Image,
    records: Vec<Record>,
    settings: &'a dyn TopicSettings,
    /// Of the topic that was asked for last: partitions of one topic come one after the other.
    rules: Option<(Uuid, TopicRules)>,
}

/// A partition by the id of its topic.
pub(super) type PartitionKey = (Uuid, PartitionIndex);

impl<'a> Draft<'a> {
    pub(super) fn new(image: &Image, settings: &'a dyn TopicSettings) -> Draft<'a> {
        Draft {
            image: image.clone(),
            records: Vec::new(),
            settings,
            rules: None,
        }
    }

    pub(super) fn image(&self) -> &Image {
        &self.image
    }

    /// The settings of a topic that is there.
    pub(super) fn rules_of(&self, topic: Uuid) -> Option<TopicRules> {
        let topic = self.image.topic_by_id(topic)?;
        Some(self.settings.of(&self.image, &topic.name))
    }

    pub(super) fn records(self) -> Vec<Record> {
        self.records
    }

    pub(super) fn count(&self) -> usize {
        self.records.len()
    }

    /// Panics if the record contradicts the image: a decision that does is a bug.
    pub(super) fn push(&mut self, record: impl Into<Record>) {
        let record = record.into();
        let replayed = (self.image).replay(self.image.next_place(), std::slice::from_ref(&record));
        assert_eq!(replayed, Ok(()), "a decided record fits its image");
        self.records.push(record);
    }

    /// So many replicas of a partition have to be in sync.
    pub(super) fn min_isr(&mut self, (topic, index): PartitionKey) -> Option<usize> {
        let rules = self.rules(topic)?;
        let at = usize::try_from(index.0).ok()?;
        let partition = self.image.topic_by_id(topic)?.partitions.get(at)?;
        Some(rules.min_isr.min(partition.replicas.len()))
    }

    fn rules(&mut self, topic: Uuid) -> Option<TopicRules> {
        let topic = self.image.topic_by_id(topic)?;
        let rules = match self.rules {
            Some((id, rules)) if id == topic.id => rules,
            _ => self.settings.of(&self.image, &topic.name),
        };
        self.rules = Some((topic.id, rules));
        Some(rules)
    }

    /// Writes what a change of a partition comes to, where all may lead that can. True if it came to something.
    pub(super) fn change(
        &mut self,
        place: PartitionKey,
        with: impl FnOnce(PartitionChange<'_>, TopicRules) -> PartitionChange<'_>,
    ) -> bool {
        self.change_where(place, is_acceptable_leader, with)
    }

    fn change_where(
        &mut self,
        place: PartitionKey,
        may_lead: impl Fn(&Image, &Partition, BrokerId) -> bool,
        with: impl FnOnce(PartitionChange<'_>, TopicRules) -> PartitionChange<'_>,
    ) -> bool {
        let record = self.built(place, may_lead, with);
        let is_some = record.is_some();
        // Nothing holds the topic by now: else replaying would copy all its partitions for each of them.
        record.into_iter().for_each(|record| self.push(record));
        is_some
    }

    fn built(
        &mut self,
        (topic, index): PartitionKey,
        may_lead: impl Fn(&Image, &Partition, BrokerId) -> bool,
        with: impl FnOnce(PartitionChange<'_>, TopicRules) -> PartitionChange<'_>,
    ) -> Option<PartitionChangeRecord> {
        let rules = self.rules(topic)?;
        let topic = self.image.topic_by_id(topic)?;
        let change = PartitionChange::new(topic, index, Rules::of(&self.image), rules.min_isr)?;
        let partition = change.partition();
        with(change, rules).build(
            |id| may_lead(&self.image, partition, id),
            |id| default_dir(&self.image, id),
        )
    }

    /// The same, where one of the ISR may lead as `may_lead` says; else nothing changes.
    pub(super) fn change_if(
        &mut self,
        place: PartitionKey,
        may_lead: impl Fn(&Image, &Partition, BrokerId) -> bool,
        with: impl FnOnce(PartitionChange<'_>, TopicRules) -> PartitionChange<'_>,
    ) {
        let topic = self.image.topic_by_id(place.0);
        let at = usize::try_from(place.1.0).ok();
        let partition = topic.and_then(|topic| topic.partitions.get(at?));
        let can = partition.is_some_and(|partition| {
            let mut isr = partition.isr.iter();
            isr.any(|id| may_lead(&self.image, partition, *id))
        });
        if can {
            self.change_where(place, may_lead, with);
        }
    }

    /// Partitions of a kind.
    pub(super) fn places(&self, is_of: impl Fn(&Partition) -> bool) -> Vec<PartitionKey> {
        let topics = self.image.topics();
        topics.flat_map(|topic| of(topic, &is_of)).collect()
    }

    /// Brings ISR and leaders of partitions in line with what happened to a broker.
    pub(super) fn settle(&mut self, cause: Cause, is_of: impl Fn(&Partition) -> bool) {
        for place in self.places(is_of) {
            self.settle_one(cause, place);
        }
    }

    pub(super) fn settle_one(&mut self, cause: Cause, place: PartitionKey) {
        let may_lead =
            |image: &Image, partition: &Partition, id| cause.may_lead(image, partition, id);
        self.change_where(place, may_lead, |change, rules| {
            let change = change.election(rules.election());
            match cause {
                Cause::Gone(broker) => change.without(broker),
                Cause::Unclean(broker) => change.without(broker).unclean(vec![broker]),
                Cause::Back(_) => change,
            }
        });
    }
}

fn of(topic: &Topic, is_of: impl Fn(&Partition) -> bool) -> Vec<PartitionKey> {
    let partitions = topic.partitions.iter().zip(0..);
    let found = partitions.filter(|(partition, _)| is_of(partition));
    found
        .map(|(_, at)| (topic.id, PartitionIndex(at)))
        .collect()
}

pub(super) fn in_isr(broker: BrokerId) -> impl Fn(&Partition) -> bool {
    move |partition| partition.isr.contains(&broker)
}

pub(super) fn eligible(broker: BrokerId) -> impl Fn(&Partition) -> bool {
    move |partition| partition.eligible_leaders.contains(&broker)
}

pub(super) fn leaderless(partition: &Partition) -> bool {
    partition.leader == NO_LEADER
}

/// The directory of a new replica, where the broker leaves no choice.
fn default_dir(image: &Image, broker: BrokerId) -> Uuid {
    let broker = image.broker(broker);
    match broker.map(|broker| broker.log_dirs.as_slice()) {
        Some([]) => dir::MIGRATING,
        Some([only]) => *only,
        _ => dir::UNASSIGNED,
    }
}
