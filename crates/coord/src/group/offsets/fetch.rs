//! Where a group stands: answers of OffsetFetch.
//!
//! A partition without an offset has -1 and no error. An offset that was committed to an earlier topic of the same name is none.

use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use wire::{ErrorCode, Uuid};

use super::commit::resolve;
use super::{ByTopic, OfGroup, Offsets, get};
use crate::Topics;

fn none(partition: i32, code: ErrorCode) -> OffsetFetchResponsePartitions {
    OffsetFetchResponsePartitions {
        partition_index: partition,
        committed_offset: -1,
        committed_leader_epoch: -1,
        metadata: Some(String::new()),
        error_code: code.code(),
    }
}

/// One topic of one group, as the client may see it.
struct View<'a> {
    group: Option<&'a OfGroup>,
    topic: &'a str,
    topic_id: Uuid,
    require_stable: bool,
}

impl View<'_> {
    fn partition(&self, partition: i32) -> OffsetFetchResponsePartitions {
        let Some(group) = self.group else {
            return none(partition, ErrorCode::None);
        };
        if self.require_stable && group.is_pending(self.topic, partition) {
            return none(partition, ErrorCode::UnstableOffsetCommit);
        }
        match get(&group.committed, self.topic, partition) {
            Some(committed) if !committed.is_of_other_topic(self.topic_id) => {
                OffsetFetchResponsePartitions {
                    partition_index: partition,
                    committed_offset: committed.offset,
                    committed_leader_epoch: committed.leader_epoch,
                    metadata: Some(committed.metadata.to_string()),
                    error_code: ErrorCode::None.code(),
                }
            }
            _ => none(partition, ErrorCode::None),
        }
    }
}

impl Offsets {
    pub(in crate::group) fn fetch(
        &self,
        asked: &OffsetFetchRequestGroup,
        require_stable: bool,
        topics: &dyn Topics,
    ) -> OffsetFetchResponseGroup {
        let group = self.groups.get(asked.group_id.as_str());
        let answered = match &asked.topics {
            Some(asked) => asked
                .iter()
                .map(|asked| some(group, asked, require_stable, topics))
                .collect(),
            None => group.map_or_else(Vec::new, |group| all(group, require_stable, topics)),
        };
        OffsetFetchResponseGroup {
            group_id: asked.group_id.clone(),
            topics: answered,
            ..OffsetFetchResponseGroup::default()
        }
    }
}

fn some(
    group: Option<&OfGroup>,
    asked: &OffsetFetchRequestTopics,
    require_stable: bool,
    topics: &dyn Topics,
) -> OffsetFetchResponseTopics {
    // A name that is not known has no offsets; an id that is not known is an error.
    let (topic, topic_id) = match resolve(&asked.name, asked.topic_id, topics) {
        Ok((topic, topic_id, _)) => (topic, topic_id),
        Err(ErrorCode::UnknownTopicId) => {
            let partitions = asked.partition_indexes.iter();
            return OffsetFetchResponseTopics {
                topic_id: asked.topic_id,
                partitions: partitions
                    .map(|&partition| none(partition, ErrorCode::UnknownTopicId))
                    .collect(),
                ..OffsetFetchResponseTopics::default()
            };
        }
        Err(_) => (asked.name.as_str(), Uuid::ZERO),
    };
    let view = View {
        group,
        topic,
        topic_id,
        require_stable,
    };
    let partitions = asked.partition_indexes.iter();
    OffsetFetchResponseTopics {
        name: topic.to_owned(),
        topic_id,
        partitions: partitions.map(|&index| view.partition(index)).collect(),
    }
}

fn all(
    group: &OfGroup,
    require_stable: bool,
    topics: &dyn Topics,
) -> Vec<OffsetFetchResponseTopics> {
    let committed: &ByTopic = &group.committed;
    let mut answered = Vec::with_capacity(committed.len());
    for (name, partitions) in committed {
        let topic_id = topics.topic(name).map_or(Uuid::ZERO, |(id, _)| id);
        let view = View {
            group: Some(group),
            topic: name,
            topic_id,
            require_stable,
        };
        let partitions: Vec<_> = partitions
            .iter()
            .filter(|(_, committed)| !committed.is_of_other_topic(topic_id))
            .map(|(&index, _)| view.partition(index))
            .collect();
        if !partitions.is_empty() {
            answered.push(OffsetFetchResponseTopics {
                name: name.to_string(),
                topic_id,
                partitions,
            });
        }
    }
    answered
}
