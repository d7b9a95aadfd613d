//! The ISRs that this broker's leaders want (KIP-497): asked of the active controller, one request at a time with all wishes.
//!
//! A wish is in doubt until the metadata show what became of it, and a leader has no other meanwhile. A request that was not answered
//! goes again. Refusals that leave the partition as it was end the wish; behind all others a change of the metadata is on its way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::{BrokerId, Instant, PartitionIndex};
use partition::{IsrWish, Laggards, News, Partition};
use wire::messages::alter_partition_request::{BrokerState, PartitionData, TopicData};
use wire::messages::{AlterPartitionRequest, AlterPartitionResponse};
use wire::{ErrorCode, Uuid};

use super::gate::Gate;
use crate::peers::Answer;
use crate::shared::Shared;

/// A request that failed goes again after this pause.
const RETRY: Duration = Duration::from_millis(100);

type Key = (Uuid, PartitionIndex);

/// True if wishes ended without what was wished for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    None,
    Some,
}

/// The end of a wish, as one code of the controller has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It was granted, or the partition has changed meanwhile: the metadata show it.
    Shown,
    /// The partition is as it was.
    Refused,
    /// The same is asked again.
    InDoubt,
}

/// As Kafka's leaders take the codes (`Partition.handleAlterPartitionError`).
fn fate(code: ErrorCode) -> Fate {
    match code {
        ErrorCode::IneligibleReplica | ErrorCode::OperationNotAttempted => Fate::Refused,
        ErrorCode::None
        | ErrorCode::UnknownTopicId
        | ErrorCode::UnknownTopicOrPartition
        | ErrorCode::FencedLeaderEpoch
        | ErrorCode::InvalidUpdateVersion
        | ErrorCode::InvalidRequest
        | ErrorCode::NewLeaderElected => Fate::Shown,
        _ => Fate::InDoubt,
    }
}

pub(super) struct IsrWishes {
    /// Not asked for yet, or not answered. A later wish may stand in the place of one that is under way.
    wishes: BTreeMap<Key, (Arc<Partition>, IsrWish)>,
    gate: Gate<Key, IsrWish>,
}

impl Default for IsrWishes {
    fn default() -> IsrWishes {
        IsrWishes {
            wishes: BTreeMap::new(),
            gate: Gate::new(RETRY),
        }
    }
}

impl IsrWishes {
    /// Looks whether a leader wants another ISR, without these. Returns the brokers that fall out of it.
    pub(super) fn look(
        &mut self,
        shared: &Shared,
        partition: &Arc<Partition>,
        laggards: Laggards<'_>,
    ) -> Vec<BrokerId> {
        let image = shared.catalog.image();
        let eligible = |broker, epoch: i64| {
            let known = image.broker(broker);
            known.is_some_and(|known| known.is_active() && epoch == known.epoch)
        };
        let Some(wish) = partition.wish_isr(laggards, eligible) else {
            return Vec::new();
        };
        let without = wish.without.clone();
        let key = (partition.topic_id, partition.index);
        self.wishes.insert(key, (Arc::clone(partition), wish));
        without
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.gate.next_deadline()
    }

    /// The request that goes now; its answer, or its failure, has to be reported.
    pub(super) fn request(
        &mut self,
        shared: &Shared,
        now: Instant,
    ) -> Option<AlterPartitionRequest> {
        if !self.gate.is_open(now) || self.wishes.is_empty() {
            return None;
        }
        let mut topics: Vec<TopicData> = Vec::new();
        for (key, (_, wish)) in &self.wishes {
            let member = |(broker, epoch): &(BrokerId, i64)| BrokerState {
                broker_id: broker.0,
                broker_epoch: if broker.0 == shared.catalog.config().broker.node_id.0 {
                    shared.state.broker_epoch()
                } else {
                    *epoch
                },
            };
            let data = PartitionData {
                partition_index: key.1.0,
                leader_epoch: wish.leader_epoch.0,
                new_isr_with_epochs: wish.isr.iter().map(member).collect(),
                partition_epoch: wish.partition_epoch,
                ..PartitionData::default()
            };
            match topics.last_mut().filter(|topic| topic.topic_id == key.0) {
                Some(topic) => topic.partitions.push(data),
                None => topics.push(TopicData {
                    topic_id: key.0,
                    partitions: vec![data],
                }),
            }
        }
        let asked = self.wishes.iter();
        let asked = asked.map(|(key, (_, wish))| (*key, wish.clone()));
        self.gate.close(asked.collect());
        Some(AlterPartitionRequest {
            broker_id: shared.catalog.config().broker.node_id.0,
            broker_epoch: shared.state.broker_epoch(),
            topics,
        })
    }

    /// The controller has answered, or has not.
    pub(super) fn on_reply(
        &mut self,
        answer: Option<Answer>,
        now: Instant,
        news: &mut Vec<News>,
    ) -> Refused {
        let mut refused = Refused::None;
        let asked = self.gate.end();
        let response: Option<AlterPartitionResponse> = answer.and_then(Answer::read);
        let Some(response) = response.filter(|response| response.error_code == 0) else {
            self.gate.rest(now);
            return refused;
        };
        let mut codes = BTreeMap::new();
        for topic in &response.topics {
            for data in &topic.partitions {
                let key = (topic.topic_id, PartitionIndex(data.partition_index));
                codes.insert(key, ErrorCode::try_from(data.error_code));
            }
        }
        for (key, asked) in asked {
            if self.wishes.get(&key).is_none_or(|(_, wish)| *wish != asked) {
                continue;
            }
            let code = codes.get(&key).copied().and_then(Result::ok);
            match code.map_or(Fate::InDoubt, fate) {
                Fate::InDoubt => self.gate.rest(now),
                Fate::Shown => drop(self.wishes.remove(&key)),
                Fate::Refused => {
                    if let Some((partition, wish)) = self.wishes.remove(&key) {
                        partition.on_wish_refused(&wish, news);
                        refused = Refused::Some;
                    }
                }
            }
        }
        refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_codes_that_end_a_wish_are_taken_for_its_end() {
        for (code, expected) in [
            (ErrorCode::None, Fate::Shown),
            (ErrorCode::FencedLeaderEpoch, Fate::Shown),
            (ErrorCode::InvalidUpdateVersion, Fate::Shown),
            (ErrorCode::NewLeaderElected, Fate::Shown),
            (ErrorCode::IneligibleReplica, Fate::Refused),
            (ErrorCode::OperationNotAttempted, Fate::Refused),
            // A controller that is behind the leader is none any more.
            (ErrorCode::NotController, Fate::InDoubt),
            (ErrorCode::UnknownServerError, Fate::InDoubt),
        ] {
            assert_eq!(fate(code), expected, "{code}");
        }
    }
}
