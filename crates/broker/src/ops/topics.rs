//! Topics: created, grown and deleted. Each operation is a decision on a view of the metadata; [`super::change`] carries it out.

use std::collections::{BTreeMap, BTreeSet};

use meta::Record;
use meta::decide::Uuids;
use meta::decide::create_partitions::{CreatePartitionsError, Growth};
use meta::decide::create_topics::{CreateTopicError, CreatedTopic, NewTopic};
use meta::decide::delete_topics::{DeleteTopicError, Target};
use meta::decide::{create_partitions, create_topics, delete_topics};
use meta::name;
use wire::{ErrorCode, Uuid};

use super::guard::{Allowed, Leave};
use super::view::View;
use super::{Mode, Refused};
use crate::asker::access::Resource;
use crate::control::command::Command;
use security::authorize::Operation;

/// Answers by name.
pub(crate) type ByName<T, E> = Vec<(String, Result<T, Refused<E>>)>;

/// A topic that was created.
pub(crate) struct Created {
    pub(crate) id: Uuid,
    /// The rest of it, or the code for an asker that may not see it.
    pub(crate) seen: Result<CreatedTopic, ErrorCode>,
}

/// New topics.
pub(crate) fn create(
    view: &View<'_>,
    topics: Vec<NewTopic>,
    mode: Mode,
    uuids: &mut dyn Uuids,
) -> (Vec<Record>, ByName<Created, CreateTopicError>) {
    // Names that stand twice, and the one that is nobody's to create, are refused whoever asks.
    let twice = twice(topics.iter().map(|topic| topic.name.as_str()));
    let is_asked = |name: &str| name != name::METADATA && !twice.contains(name);
    let (topics, denied) = Allowed::divide(topics, |topic| {
        if !is_asked(&topic.name) {
            return Ok(Leave::UNASKED);
        }
        view.asker.grant_creation(&topic.name).map(Leave::from)
    });
    let (topics, folded) = without_folded(view, topics.into_inner());
    let mut decision = create_topics::create_topics(view.image, view.broker, &topics, uuids);
    let folded = folded.into_iter();
    let folded = folded.map(|(name, existing)| {
        let folds = CreateTopicError::Folds {
            name: name.clone(),
            existing,
        };
        (name, Err(folds))
    });
    decision.answers.extend(folded);
    let denied = denied.into_iter().map(|topic| topic.name);
    let answers = answers(view, decision.answers);
    (mode.records(decision.records), with_denied(answers, denied))
}

/// The answers for topics that were created, or not; their settings are for those who may see them.
fn answers(
    view: &View<'_>,
    answers: Vec<(String, Result<CreatedTopic, CreateTopicError>)>,
) -> ByName<Created, CreateTopicError> {
    let shown = |(name, answer): (String, Result<CreatedTopic, _>)| {
        let created = answer.map(|topic| {
            let seen = view
                .asker
                .grant(Operation::DescribeConfigs, Resource::topic(&name));
            Created {
                id: topic.id,
                seen: seen.map(|_| topic),
            }
        });
        (name, created.map_err(Refused::Because))
    };
    answers.into_iter().map(shown).collect()
}

/// The command that creates those among `names` that are missing, because somebody asks for them who may create them.
pub(crate) fn create_by_the_way(view: &View<'_>, names: Allowed<&str>) -> Command {
    let names = names.into_inner().into_iter().collect();
    Command::CreateTopics(implied(view, &names))
}

/// The command that creates a topic of the broker itself, where it is missing.
pub(crate) fn create_internal(view: &View<'_>, name: &'static str) -> Command {
    Command::CreateTopics(implied(view, &BTreeSet::from([name])))
}

/// The topics among `names` that are missing and can be created, as they come to be because something asks for them: with the settings
/// of the broker.
pub(crate) fn implied(view: &View<'_>, names: &BTreeSet<&str>) -> Vec<NewTopic> {
    // No topic gets these ids: the decision is made once more where the topics are created.
    let mut number = u128::from(u64::MAX);
    let mut ids = || {
        number += 1;
        Uuid(number.to_be_bytes())
    };
    let decision = create_topics::auto_create(view.image, view.broker, names, &mut ids);
    let created = decision.answers.into_iter();
    let created = created.filter_map(|(name, created)| Some((name, created.ok()?)));
    let topics = created.map(|(name, created)| NewTopic {
        name,
        partitions: created.partitions,
        // A controller that has counted more brokers takes this number all the same.
        replication_factor: created.replication_factor,
        assignments: Vec::new(),
        settings: (created.overrides.into_iter())
            .map(|(name, value)| (name, Some(value)))
            .collect(),
    });
    let (free, _) = without_folded(view, topics.collect());
    free
}

/// The records of topics that are [`implied`]; nothing of those that exist by now.
pub(crate) fn create_implied(
    view: &View<'_>,
    topics: Vec<NewTopic>,
    uuids: &mut dyn Uuids,
) -> Vec<Record> {
    let (free, _) = without_folded(view, topics);
    create_topics::create_topics(view.image, view.broker, &free, uuids).records
}

/// Topics whose names no volume confuses with those that exist, and the others, each with the name that is there.
fn without_folded(
    view: &View<'_>,
    topics: Vec<NewTopic>,
) -> (Vec<NewTopic>, Vec<(String, String)>) {
    if !view.folds_names {
        return (topics, Vec::new());
    }
    let existing = view.image.topics().map(|topic| topic.name.to_string());
    let internal = [
        name::OFFSETS,
        name::TRANSACTIONS,
        name::SHARES,
        name::CLIENT_METRICS,
    ];
    let names = existing.chain(internal.map(str::to_owned));
    let mut taken: BTreeMap<String, String> = names
        .map(|name| (name.to_ascii_lowercase(), name))
        .collect();
    let (mut free, mut folded) = (Vec::new(), Vec::new());
    for topic in topics {
        let own = topic.name.clone();
        let known = taken.entry(own.to_ascii_lowercase()).or_insert(own);
        if *known == topic.name {
            free.push(topic);
        } else {
            folded.push((topic.name, known.clone()));
        }
    }
    (free, folded)
}

/// More partitions.
pub(crate) fn grow(
    view: &View<'_>,
    growths: Vec<Growth>,
    mode: Mode,
) -> (Vec<Record>, ByName<(), CreatePartitionsError>) {
    let twice = twice(growths.iter().map(|growth| growth.name.as_str()));
    let (growths, denied) = Allowed::divide(growths, |growth| {
        if twice.contains(&growth.name) {
            return Ok(Leave::UNASKED);
        }
        let topic = Resource::topic(&growth.name);
        view.asker.grant(Operation::Alter, topic).map(Leave::from)
    });
    let growths = growths.into_inner();
    let decision = create_partitions::create_partitions(view.image, &growths);
    let mut answers = because(decision.answers);
    let denied = denied
        .into_iter()
        .map(|growth| (growth.name, Err(Refused::Unauthorised)));
    // Behind names that stand twice, which come first.
    let begin = answers.iter().position(|(name, _)| !twice.contains(name));
    let begin = begin.unwrap_or(answers.len());
    answers.splice(begin..begin, denied);
    (mode.records(decision.records), answers)
}

/// Names that stand more than once.
fn twice<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let again = names.filter(|name| !seen.insert(*name));
    again.map(str::to_owned).collect()
}

/// Why a topic is not deleted.
pub(crate) enum DeleteRefusal {
    /// Nothing is: `delete.topic.enable` is off.
    SwitchedOff,
    /// The asker may not delete the topic, or not see it.
    Unauthorised,
    Because(DeleteTopicError),
}

/// The outcome for one target.
pub(crate) type Deletion = (Target, Result<(), DeleteRefusal>);

/// Deletes topics, by name or by id.
pub(crate) fn delete(view: &View<'_>, targets: Vec<Target>) -> (Vec<Record>, Vec<Deletion>) {
    if !view.broker.delete_topics {
        let refuse = |target| (target, Err(DeleteRefusal::SwitchedOff));
        return (Vec::new(), targets.into_iter().map(refuse).collect());
    }
    let twice: BTreeSet<Target> = {
        let mut seen = BTreeSet::new();
        let again = targets.iter().filter(|target| !seen.insert(*target));
        again.cloned().collect()
    };
    let (targets, denied) = Allowed::divide(targets, |target| {
        let name = name_of(view, target).filter(|_| !twice.contains(target));
        name.map_or(Ok(Leave::UNASKED), |name| may_delete(view, target, name))
    });
    let decision = delete_topics::delete_topics(view.image, &targets.into_inner());
    let answers = decision.answers.into_iter();
    let answers = answers.map(|(target, answer)| (target, answer.map_err(DeleteRefusal::Because)));
    let denied = denied
        .into_iter()
        .map(|target| (shown(view, target), Err(DeleteRefusal::Unauthorised)));
    (decision.records, answers.chain(denied).collect())
}

/// The name that is to be asked about. None of a target that is refused whoever asks: it names nothing, or too much, or an id that
/// nobody has.
fn name_of<'a>(view: &'a View<'_>, target: &'a Target) -> Option<&'a str> {
    match &target.name {
        Some(name) => Some(name.as_str()).filter(|_| target.id.is_zero()),
        None => view.image.topic_by_id(target.id).map(|topic| &*topic.name),
    }
}

/// On the cluster, or on the topic. One that is named has to be seen as well, so that the answer does not tell whether it exists; who may
/// see it is told so.
fn may_delete(view: &View<'_>, target: &Target, name: &str) -> Result<Leave, ErrorCode> {
    if let Ok(granted) = view.asker.grant(Operation::Delete, Resource::CLUSTER) {
        return Ok(granted.into());
    }
    let topic = Resource::topic(name);
    if target.name.is_some() {
        view.asker.grant(Operation::Describe, topic)?;
        if view.image.topic(name).is_none() {
            return Ok(Leave::UNASKED);
        }
    }
    view.asker.grant(Operation::Delete, topic).map(Leave::from)
}

/// A refused target as it is answered: with the name that its id stands for where the asker may see that.
fn shown(view: &View<'_>, mut target: Target) -> Target {
    if target.name.is_none()
        && let Some(name) = name_of(view, &target)
        && view
            .asker
            .grant(Operation::Describe, Resource::topic(name))
            .is_ok()
    {
        target.name = Some(name.to_owned());
    }
    target
}

fn because<T, E>(answers: Vec<(String, Result<T, E>)>) -> ByName<T, E> {
    let answers = answers.into_iter();
    answers
        .map(|(name, answer)| (name, answer.map_err(Refused::Because)))
        .collect()
}

fn with_denied<T, E>(
    mut answers: ByName<T, E>,
    denied: impl Iterator<Item = String>,
) -> ByName<T, E> {
    answers.extend(denied.map(|name| (name, Err(Refused::Unauthorised))));
    answers
}
