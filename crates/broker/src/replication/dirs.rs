//! The replicas here whose directory the metadata do not name (KIP-858): the active controller is asked to note where they are.
//!
//! A wish lasts until it was answered; whether it was granted the metadata show, and each change of a topic has its replicas looked at
//! anew. A request that was not answered goes again.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{Instant, PartitionIndex};
use wire::messages::assign_replicas_to_dirs_request::{DirectoryData, PartitionData, TopicData};
use wire::messages::{AssignReplicasToDirsRequest, AssignReplicasToDirsResponse};
use wire::{ErrorCode, Uuid};

use super::gate::Gate;
use crate::peers::Answer;
use crate::shared::Shared;

/// A request that failed goes again after this pause.
const RETRY: Duration = Duration::from_millis(200);
/// Replicas in one request, as many as Kafka sends.
const REPLICAS_MAX: usize = 2250;

type Key = (Uuid, PartitionIndex);

pub(super) struct DirWishes {
    wishes: BTreeMap<Key, Uuid>,
    gate: Gate<Key, Uuid>,
}

impl Default for DirWishes {
    fn default() -> DirWishes {
        DirWishes {
            wishes: BTreeMap::new(),
            gate: Gate::new(RETRY),
        }
    }
}

impl DirWishes {
    /// Looks at the replicas of a topic.
    pub(super) fn look(&mut self, shared: &Shared, topic: Uuid) {
        let (first, last) = (PartitionIndex(i32::MIN), PartitionIndex(i32::MAX));
        let known = self.wishes.range((topic, first)..=(topic, last));
        let known: Vec<Key> = known.map(|(key, _)| *key).collect();
        for key in known {
            self.wishes.remove(&key);
        }
        let (image, topics) = (shared.catalog.image(), shared.catalog.topics());
        let (Some(planned), Some(topic)) = (image.topic_by_id(topic), topics.with_id(topic)) else {
            return;
        };
        let node = shared.catalog.config().broker.node_id;
        for (planned, site) in planned.partitions.iter().zip(&topic.sites) {
            let (Some(here), Some(named)) = (&site.here, planned.directory(node)) else {
                continue;
            };
            let key = (here.topic_id, here.index);
            let wanted = match shared.moves.asked(key) {
                Some(asked) => Some(asked).filter(|asked| *asked != named),
                None => shared.catalog.places.misnamed(here, named),
            };
            if let Some(wanted) = wanted {
                self.wishes.insert(key, wanted);
            }
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.gate.next_deadline()
    }

    /// The request that goes now; its answer, or its failure, has to be reported.
    pub(super) fn request(
        &mut self,
        shared: &Shared,
        now: Instant,
    ) -> Option<AssignReplicasToDirsRequest> {
        if !self.gate.is_open(now) || self.wishes.is_empty() {
            return None;
        }
        let asked = self.wishes.iter().take(REPLICAS_MAX);
        let asked: BTreeMap<Key, Uuid> = asked.map(|(key, dir)| (*key, *dir)).collect();
        let directories = by_directory(&asked);
        self.gate.close(asked);
        Some(AssignReplicasToDirsRequest {
            broker_id: shared.catalog.config().broker.node_id.0,
            broker_epoch: shared.state.broker_epoch(),
            directories,
        })
    }

    /// The controller has answered, or has not.
    pub(super) fn on_reply(&mut self, answer: Option<Answer>, now: Instant) {
        let asked = self.gate.end();
        let response: Option<AssignReplicasToDirsResponse> = answer.and_then(Answer::read);
        let Some(response) = response.filter(|response| response.error_code == 0) else {
            self.gate.rest(now);
            return;
        };
        for dir in &response.directories {
            for topic in &dir.topics {
                for partition in &topic.partitions {
                    let key = (topic.topic_id, PartitionIndex(partition.partition_index));
                    // A refusal says that the replica or its topic is gone, which the metadata are about to show here.
                    let is_ended = ErrorCode::try_from(partition.error_code).is_ok();
                    if is_ended
                        && asked.contains_key(&key)
                        && self.wishes.get(&key) == asked.get(&key)
                    {
                        self.wishes.remove(&key);
                    }
                }
            }
        }
        if asked.keys().any(|key| self.wishes.contains_key(key)) {
            self.gate.rest(now);
        }
    }
}

fn by_directory(asked: &BTreeMap<Key, Uuid>) -> Vec<DirectoryData> {
    let mut dirs: BTreeMap<Uuid, Vec<TopicData>> = BTreeMap::new();
    for ((topic, index), dir) in asked {
        let topics = dirs.entry(*dir).or_default();
        let partition = PartitionData {
            partition_index: index.0,
        };
        match topics.last_mut().filter(|last| last.topic_id == *topic) {
            Some(last) => last.partitions.push(partition),
            None => topics.push(TopicData {
                topic_id: *topic,
                partitions: vec![partition],
            }),
        }
    }
    let directory = |(id, topics)| DirectoryData { id, topics };
    dirs.into_iter().map(directory).collect()
}

#[cfg(test)]
mod tests {
    use wire::{Message, Writer};

    use super::*;

    fn body(code: ErrorCode, directories: Vec<Answered>) -> Option<Answer> {
        let response = AssignReplicasToDirsResponse {
            error_code: code.code(),
            directories,
            ..AssignReplicasToDirsResponse::default()
        };
        let mut w = Writer::new();
        response.encode(&mut w, 0).expect("it fits");
        let body = w.finish().into_bytes().expect("it fits");
        Some(Answer { version: 0, body })
    }

    type Answered = wire::messages::assign_replicas_to_dirs_response::DirectoryData;

    fn wishes() -> (DirWishes, Key, Key) {
        let (topic, dir) = (Uuid([1; 16]), Uuid([200; 16]));
        let (one, two) = ((topic, PartitionIndex(0)), (topic, PartitionIndex(1)));
        let wishes = BTreeMap::from([(one, dir), (two, dir)]);
        let mut gate = Gate::new(RETRY);
        gate.close(wishes.clone());
        (DirWishes { wishes, gate }, one, two)
    }

    #[test]
    fn a_request_that_failed_goes_again() {
        for body in [None, body(ErrorCode::StaleBrokerEpoch, Vec::new())] {
            let (mut wishes, ..) = wishes();
            wishes.on_reply(body, Instant(5));
            assert_eq!(wishes.wishes.len(), 2);
            assert_eq!(wishes.next_deadline(), Some(Instant(5).plus(RETRY)));
        }
    }

    #[test]
    fn what_was_answered_is_not_asked_again_and_what_was_not_is() {
        use wire::messages::assign_replicas_to_dirs_response as answered;
        let (mut wishes, one, two) = wishes();
        let topic = answered::TopicData {
            topic_id: one.0,
            partitions: vec![answered::PartitionData::default()],
        };
        let dir = Answered {
            id: Uuid([200; 16]),
            topics: vec![topic],
        };
        wishes.on_reply(body(ErrorCode::None, vec![dir]), Instant(5));
        assert_eq!(wishes.wishes.keys().collect::<Vec<_>>(), [&two]);
        assert!(wishes.next_deadline().is_some());
    }

    #[test]
    fn replicas_are_asked_for_by_directory_and_topic() {
        let id = |number| Uuid([number; 16]);
        let asked = BTreeMap::from([
            ((id(1), PartitionIndex(0)), id(200)),
            ((id(1), PartitionIndex(1)), id(201)),
            ((id(1), PartitionIndex(2)), id(200)),
            ((id(2), PartitionIndex(0)), id(200)),
        ]);
        let dirs = by_directory(&asked);
        let flat: Vec<(Uuid, Uuid, Vec<i32>)> = (dirs.iter())
            .flat_map(|dir| {
                dir.topics.iter().map(|topic| {
                    let partitions = topic.partitions.iter();
                    let indexes = partitions.map(|of| of.partition_index).collect();
                    (dir.id, topic.topic_id, indexes)
                })
            })
            .collect();
        let expected = [
            (id(200), id(1), vec![0, 2]),
            (id(200), id(2), vec![0]),
            (id(201), id(1), vec![1]),
        ];
        assert_eq!(flat, expected);
    }
}
