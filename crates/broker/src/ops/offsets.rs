//! Committed offsets of groups: commits, look-ups, deletions.
//!
//! Results come in the order of the partitions that were asked about. A topic that the asker may not use is refused by itself, and
//! the coordinator does not hear of it.

use std::sync::Arc;

use coord::group::ask::{
    Commit, CommitTopic, DeleteOffsets, DeleteTopic, FetchOffsets, FetchTopic, FetchedPartition,
    FetchedTopic, TopicKey,
};
use wire::{ErrorCode, Uuid};

use super::asking::{Awaited, Awaiting, Read, only};
use super::groups::place;
use super::guard::{Closed, Opened};
use super::query::Told;
use super::{Desk, Step, Tickets};
use crate::asker::Asker;
use crate::asker::access::Resource;
use crate::topics::{Topic, Topics};
use security::authorize::Operation;

/// One for each partition.
pub(crate) type Results = Vec<Result<(), ErrorCode>>;

pub(crate) fn commit(
    desk: &mut Desk,
    asker: &Asker,
    mut commit: Commit,
    tickets: Tickets<'_>,
) -> Awaited<Commit, Result<Results, ErrorCode>> {
    let place = match place(desk, asker, Operation::Read, &commit.group_id) {
        Ok(place) => place,
        Err(code) => return Step::Done(Err(code)),
    };
    let topics = desk.topics();
    let may = |topic: &CommitTopic| may(asker, Operation::Read, &topic.topic, &topics);
    let slots = Slots::take_refused(&mut commit.topics, may, |topic| topic.partitions.len());
    let read = match slots {
        None => Read::Plain(only),
        Some(slots) => Read::with(|told| only(told).map(|results| slots.fill(results))),
    };
    Awaiting::begin(desk, vec![(place, commit)], tickets, read)
}

pub(crate) fn delete(
    desk: &mut Desk,
    asker: &Asker,
    mut delete: DeleteOffsets,
    tickets: Tickets<'_>,
) -> Awaited<DeleteOffsets, Result<Results, ErrorCode>> {
    let place = match place(desk, asker, Operation::Delete, &delete.group_id) {
        Ok(place) => place,
        Err(code) => return Step::Done(Err(code)),
    };
    let may = |topic: &DeleteTopic| {
        let topic = Resource::topic(&topic.name);
        asker.grant(Operation::Read, topic).is_ok()
    };
    let slots = Slots::take_refused(&mut delete.topics, may, |topic| topic.partitions.len());
    let read = match slots {
        None => Read::Plain(|told| only(told).flatten()),
        Some(slots) => Read::with(|told| {
            let results = only(told).flatten();
            results.map(|results| slots.fill(results))
        }),
    };
    Awaiting::begin(desk, vec![(place, delete)], tickets, read)
}

/// The offsets of several groups, one result for each.
pub(crate) fn fetch(
    desk: &mut Desk,
    asker: &Asker,
    fetches: Vec<FetchOffsets>,
    tickets: Tickets<'_>,
) -> Awaited<FetchOffsets, Vec<Result<Vec<FetchedTopic>, ErrorCode>>> {
    let topics = desk.topics();
    let mut questions = Vec::with_capacity(fetches.len());
    let checked: Vec<Result<Hidden, ErrorCode>> = fetches
        .into_iter()
        .map(|mut fetch| {
            let place = place(desk, asker, Operation::Describe, &fetch.group_id)?;
            let hidden = Hidden::take_from(&mut fetch, asker, &topics);
            questions.push((place, fetch));
            Ok(hidden)
        })
        .collect();
    let asker = asker.clone();
    let read = Read::with(move |told: Vec<Told<FetchOffsets>>| {
        let mut told = told.into_iter();
        let mut next = || {
            let told = told.next().unwrap_or(Err(ErrorCode::NotCoordinator));
            let mut topics = told.flatten()?;
            let sees = |name: &str| {
                let topic = Resource::topic(name);
                asker.grant(Operation::Describe, topic).is_ok()
            };
            topics.retain(|topic| topic.name.as_deref().is_none_or(sees));
            Ok(topics)
        };
        let each = checked.into_iter();
        each.map(|checked| checked.and_then(|hidden| Ok(hidden.put_back(next()?))))
            .collect()
    });
    Awaiting::begin(desk, questions, tickets, read)
}

/// True if the asker may use the topic, or there is none.
pub(super) fn may(asker: &Asker, operation: Operation, key: &TopicKey, topics: &Topics) -> bool {
    let place = match key {
        TopicKey::Name(name) => (Uuid::ZERO, name.as_str()),
        TopicKey::Id(id) => (*id, ""),
    };
    let found = Opened::find(topics, asker, operation, place);
    !matches!(found, Err(Closed::Unauthorised))
}

pub(super) fn find<'a>(key: &TopicKey, topics: &'a Topics) -> Option<&'a Arc<Topic>> {
    match key {
        TopicKey::Name(name) => topics.named(name),
        TopicKey::Id(id) => topics.with_id(*id),
    }
}

/// A place for the result of each partition. Those of partitions that are not asked about have their refusal already.
pub(super) struct Slots<E>(Vec<Result<(), E>>);

impl<E> Default for Slots<E> {
    fn default() -> Self {
        Slots(Vec::new())
    }
}

impl Slots<ErrorCode> {
    /// Takes out the topics that may not be used. None where all may.
    fn take_refused<T>(
        topics: &mut Vec<T>,
        may: impl Fn(&T) -> bool,
        partitions: impl Fn(&T) -> usize,
    ) -> Option<Slots<ErrorCode>> {
        if topics.iter().all(&may) {
            return None;
        }
        let mut slots = Slots::default();
        topics.retain(|topic| {
            let result = if may(topic) {
                Ok(())
            } else {
                Err(ErrorCode::TopicAuthorizationFailed)
            };
            (0..partitions(topic)).for_each(|_| slots.push(result));
            result.is_ok()
        });
        Some(slots)
    }
}

impl<E: From<ErrorCode>> Slots<E> {
    pub(super) fn push(&mut self, result: Result<(), E>) {
        self.0.push(result);
    }

    /// The results of the partitions that were asked about, in their order, beside the refusals.
    pub(super) fn fill(mut self, results: Results) -> Vec<Result<(), E>> {
        let mut results = results.into_iter();
        for slot in self.0.iter_mut().filter(|slot| slot.is_ok()) {
            let result = results.next();
            *slot = result
                .unwrap_or(Err(ErrorCode::UnknownServerError))
                .map_err(E::from);
        }
        self.0
    }

    /// The same where all that were asked about share one refusal.
    pub(super) fn refuse(mut self, code: ErrorCode) -> Vec<Result<(), E>> {
        for slot in self.0.iter_mut().filter(|slot| slot.is_ok()) {
            *slot = Err(code.into());
        }
        self.0
    }
}

/// Topics of a look-up that the asker may not see. They come behind all others.
#[derive(Default)]
struct Hidden(Vec<FetchTopic>);

impl Hidden {
    fn take_from(fetch: &mut FetchOffsets, asker: &Asker, topics: &Topics) -> Hidden {
        let Some(asked) = &mut fetch.topics else {
            return Hidden::default();
        };
        let may = |topic: &FetchTopic| may(asker, Operation::Describe, &topic.topic, topics);
        Hidden::take(asked, may)
    }

    fn take(asked: &mut Vec<FetchTopic>, may: impl Fn(&FetchTopic) -> bool) -> Hidden {
        if asked.iter().all(&may) {
            return Hidden::default();
        }
        let all = std::mem::take(asked).into_iter();
        let (seen, hidden) = all.partition(may);
        *asked = seen;
        Hidden(hidden)
    }

    fn put_back(self, mut fetched: Vec<FetchedTopic>) -> Vec<FetchedTopic> {
        for topic in self.0 {
            let refused = |index| FetchedPartition {
                index,
                found: Err(ErrorCode::TopicAuthorizationFailed),
            };
            let (name, topic_id) = match topic.topic {
                TopicKey::Name(name) => (Some(name), None),
                TopicKey::Id(id) => (None, Some(id)),
            };
            let topic = FetchedTopic {
                name,
                topic_id,
                partitions: topic.partitions.into_iter().map(refused).collect(),
            };
            fetched.push(topic);
        }
        fetched
    }
}

#[cfg(test)]
mod tests {
    use model::PartitionIndex;

    use super::*;

    #[test]
    fn topics_that_may_not_be_used_are_refused_in_their_places() {
        let mut topics = vec![("a", 1), ("secret", 2), ("b", 2)];
        let may = |topic: &(&str, usize)| topic.0 != "secret";
        let slots = Slots::take_refused(&mut topics, may, |topic| topic.1).expect("one is refused");
        assert_eq!(topics, [("a", 1), ("b", 2)]);
        let unknown = Err(ErrorCode::UnknownTopicOrPartition);
        let refused = Err(ErrorCode::TopicAuthorizationFailed);
        let results = slots.fill(vec![Ok(()), unknown, Ok(())]);
        assert_eq!(results, [Ok(()), refused, refused, unknown, Ok(())]);
        assert!(Slots::take_refused(&mut topics, may, |topic| topic.1).is_none());
    }

    #[test]
    fn topics_that_may_not_be_seen_are_answered_behind_all_others() {
        let topic = |name: &str| FetchTopic {
            topic: TopicKey::Name(name.to_owned()),
            partitions: vec![PartitionIndex(0)],
        };
        let mut asked = vec![topic("secret"), topic("a"), topic("secret")];
        let secret = TopicKey::Name("secret".to_owned());
        let hidden = Hidden::take(&mut asked, |topic| topic.topic != secret);
        assert_eq!(asked, [topic("a")]);
        let fetched = hidden.put_back(vec![FetchedTopic {
            name: Some("a".to_owned()),
            topic_id: None,
            partitions: Vec::new(),
        }]);
        let names: Vec<_> = fetched.iter().map(|it| it.name.as_deref()).collect();
        assert_eq!(names, [Some("a"), Some("secret"), Some("secret")]);
        let refused = Err(ErrorCode::TopicAuthorizationFailed);
        assert_eq!(fetched[1].partitions[0].found, refused);
    }
}
