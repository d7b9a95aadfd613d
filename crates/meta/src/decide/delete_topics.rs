//! Deleting topics, by name or by id.
//!
//! Owns which of the two a request means. A topic named by its name and by its id is not deleted at all; a name that stands twice,
//! or an id that does, counts as not given.

use std::collections::{BTreeMap, BTreeSet};

use wire::Uuid;
use wire::metadata::RemoveTopicRecord;

use crate::image::Image;
use crate::record::Record;

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    pub name: Option<String>,
    /// Zero: by name.
    pub id: Uuid,
}

/// Why a topic is not deleted; the texts are those of Kafka.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeleteTopicError {
    #[error("You may not specify both topic name and topic id.")]
    NameAndId,
    #[error("Neither topic name nor id were specified.")]
    Nothing,
    #[error("Duplicate topic name.")]
    DuplicateName,
    #[error("Duplicate topic id.")]
    DuplicateId,
    #[error("The provided topic name maps to an ID that was already supplied.")]
    NameOfId,
    #[error("this broker has no topic of that name")]
    UnknownName,
    #[error("this broker has no topic with that id")]
    UnknownId,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteTopics {
    pub records: Vec<Record>,
    /// One for each topic, in the order of the request; a name asked for gives back the id it had, and the reverse. A topic that
    /// is named by both is answered where its name stands.
    pub answers: Vec<(Target, Result<(), DeleteTopicError>)>,
}

#[must_use]
pub fn delete_topics(image: &Image, targets: &[Target]) -> DeleteTopics {
    let mut decision = DeleteTopics::default();
    let mut counts: BTreeMap<&Target, usize> = BTreeMap::new();
    for target in targets {
        *counts.entry(target).or_default() += 1;
    }
    let by_id: BTreeSet<Uuid> = targets
        .iter()
        .filter(|target| target.name.is_none())
        .map(|target| target.id)
        .collect();
    let is_name = |target: &&Target| target.id.is_zero() && counts.get(target) == Some(&1);
    let by_name: BTreeSet<Uuid> = targets
        .iter()
        .filter(is_name)
        .filter_map(|target| Some(image.topic(target.name.as_deref()?)?.id))
        .collect();
    let mut answered = BTreeSet::new();
    for target in targets.iter().filter(|target| answered.insert(*target)) {
        let times = counts.get(target).copied().unwrap_or(1);
        let (name, id) = match find(image, target, times) {
            // The name that stands for the same topic is answered for both.
            Ok((_, id)) if target.name.is_none() && by_name.contains(&id) => continue,
            Ok(found) => found,
            Err(error) => {
                decision.answers.push((target.clone(), Err(error)));
                continue;
            }
        };
        let answer = if target.name.is_some() && by_id.contains(&id) {
            Err(DeleteTopicError::NameOfId)
        } else {
            let record = RemoveTopicRecord { topic_id: id };
            decision.records.push(record.into());
            Ok(())
        };
        let name = Some(name);
        decision.answers.push((Target { name, id }, answer));
    }
    decision
}

fn find(image: &Image, target: &Target, times: usize) -> Result<(String, Uuid), DeleteTopicError> {
    match (&target.name, target.id.is_zero()) {
        (Some(_), false) => Err(DeleteTopicError::NameAndId),
        (None, true) => Err(DeleteTopicError::Nothing),
        (Some(_), true) if 1 < times => Err(DeleteTopicError::DuplicateName),
        (None, false) if 1 < times => Err(DeleteTopicError::DuplicateId),
        (Some(name), true) => match image.topic(name) {
            Some(topic) => Ok((name.clone(), topic.id)),
            None => Err(DeleteTopicError::UnknownName),
        },
        (None, false) => match image.topic_by_id(target.id) {
            Some(topic) => Ok((topic.name.as_ref().into(), target.id)),
            None => Err(DeleteTopicError::UnknownId),
        },
    }
}
