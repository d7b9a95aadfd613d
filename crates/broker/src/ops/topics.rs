//! Topics: created, grown and deleted. Each operation is a decision on a view of the metadata; [`super::change`] carries it out.

use std::collections::{BTreeMap, BTreeSet};

use meta::Record;
use meta::decide::Uuids;
use meta::decide::create_partitions::{CreatePartitionsError, Growth};
use meta::decide::create_topics::{CreateTopicError, CreatedTopic, NewTopic};
use meta::decide::delete_topics::{DeleteTopicError, Target};
use meta::decide::{create_partitions, create_topics, delete_topics};
use meta::name;
use wire::Uuid;

use super::view::View;
use super::{Mode, Refused};
use crate::asker::access::Resource;
use crate::control::command::Command;
use security::authorize::Operation;

/// Answers by name.
pub(crate) type ByName<T, E> = Vec<(String, Result<T, Refused<E>>)>;

/// New topics.
pub(crate) fn create(
    view: &View<'_>,
    topics: Vec<NewTopic>,
    mode: Mode,
    uuids: &mut dyn Uuids,
) -> (Vec<Record>, ByName<CreatedTopic, CreateTopicError>) {
    let asker = view.asker;
    let may_all = asker.may(Operation::Create, Resource::CLUSTER);
    let may =
        |topic: &NewTopic| may_all || asker.may(Operation::Create, Resource::topic(&topic.name));
    let (topics, denied): (Vec<NewTopic>, Vec<NewTopic>) = topics.into_iter().partition(may);
    let (topics, folded) = without_folded(view, topics);
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
    let answers = because(decision.answers);
    let denied = denied.into_iter().map(|topic| topic.name);
    (mode.records(decision.records), with_denied(answers, denied))
}

/// The command that creates those among `names` that are missing, because something asks for them.
pub(crate) fn create_by_the_way(view: &View<'_>, names: &BTreeSet<&str>) -> Command {
    Command::CreateTopics(implied(view, names))
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
    let may = |growth: &Growth| {
        let topic = Resource::topic(&growth.name);
        view.asker.may(Operation::Alter, topic)
    };
    let (growths, denied): (Vec<Growth>, Vec<Growth>) = growths.into_iter().partition(may);
    let decision = create_partitions::create_partitions(view.image, &growths);
    let answers = because(decision.answers);
    let denied = denied.into_iter().map(|growth| growth.name);
    (mode.records(decision.records), with_denied(answers, denied))
}

/// Why a topic is not deleted.
pub(crate) enum DeleteRefusal {
    /// Nothing is: `delete.topic.enable` is off.
    SwitchedOff,
    /// The asker may see the topic and not delete it.
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
    let may = |target: &Target| {
        let by_id = view.image.topic_by_id(target.id);
        let by_id = by_id.map(|topic| &*topic.name);
        let name = target.name.as_deref().or(by_id);
        name.is_none_or(|name| view.asker.may(Operation::Delete, Resource::topic(name)))
    };
    let (targets, denied): (Vec<Target>, Vec<Target>) = targets.into_iter().partition(may);
    let decision = delete_topics::delete_topics(view.image, &targets);
    let answers = decision.answers.into_iter();
    let answers = answers.map(|(target, answer)| (target, answer.map_err(DeleteRefusal::Because)));
    let denied = denied
        .into_iter()
        .map(|target| (target, Err(DeleteRefusal::Unauthorised)));
    (decision.records, answers.chain(denied).collect())
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
