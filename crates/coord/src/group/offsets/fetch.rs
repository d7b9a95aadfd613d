//! Where a group stands: the offsets that it has committed.
//!
//! An offset that was committed to an earlier topic of the same name is none.

use model::{LeaderEpoch, Offset, PartitionIndex};
use wire::{ErrorCode, Uuid};

use super::commit::resolve;
use super::{ByTopic, OfGroup, Offsets, get};
use crate::Topics;
use crate::group::ask::{
    FetchOffsets, FetchTopic, FetchedOffset, FetchedPartition, FetchedTopic, TopicKey,
};

/// One topic of one group, as the client may see it.
struct View<'a> {
    group: Option<&'a OfGroup>,
    topic: &'a str,
    topic_id: Uuid,
    require_stable: bool,
}

impl View<'_> {
    fn partition(&self, index: PartitionIndex) -> FetchedPartition {
        FetchedPartition {
            index,
            found: self.found(index),
        }
    }

    fn found(&self, index: PartitionIndex) -> Result<Option<FetchedOffset>, ErrorCode> {
        let Some(group) = self.group else {
            return Ok(None);
        };
        if self.require_stable && group.is_pending(self.topic, index.0) {
            return Err(ErrorCode::UnstableOffsetCommit);
        }
        let committed = get(&group.committed, self.topic, index.0)
            .filter(|committed| !committed.is_of_other_topic(self.topic_id));
        Ok(committed.map(|committed| FetchedOffset {
            offset: Offset(committed.offset),
            leader_epoch: LeaderEpoch(committed.leader_epoch),
            metadata: committed.metadata.to_string(),
        }))
    }
}

impl Offsets {
    pub(in crate::group) fn fetch(
        &self,
        ask: FetchOffsets,
        topics: &dyn Topics,
    ) -> Vec<FetchedTopic> {
        let group = self.groups.get(ask.group_id.as_str());
        let require_stable = ask.require_stable;
        match ask.topics {
            Some(asked) => asked
                .into_iter()
                .map(|asked| some(group, asked, require_stable, topics))
                .collect(),
            None => group.map_or_else(Vec::new, |group| all(group, require_stable, topics)),
        }
    }
}

fn some(
    group: Option<&OfGroup>,
    asked: FetchTopic,
    require_stable: bool,
    topics: &dyn Topics,
) -> FetchedTopic {
    let partitions = asked.partitions.into_iter();
    // A name that is not known has no offsets; an id that is not known is an error.
    let (topic, topic_id) = match (resolve(&asked.topic, topics), &asked.topic) {
        (Ok(known), _) => (known.name, Some(known.id)),
        (Err(_), TopicKey::Name(name)) => (name.as_str(), None),
        (Err(code), TopicKey::Id(id)) => {
            let refused = |index| FetchedPartition {
                index,
                found: Err(code),
            };
            return FetchedTopic {
                name: None,
                topic_id: Some(*id),
                partitions: partitions.map(refused).collect(),
            };
        }
    };
    let view = View {
        group,
        topic,
        topic_id: topic_id.unwrap_or_default(),
        require_stable,
    };
    FetchedTopic {
        name: Some(topic.to_owned()),
        topic_id,
        partitions: partitions.map(|index| view.partition(index)).collect(),
    }
}

fn all(group: &OfGroup, require_stable: bool, topics: &dyn Topics) -> Vec<FetchedTopic> {
    let committed: &ByTopic = &group.committed;
    let mut answered = Vec::with_capacity(committed.len());
    for (name, partitions) in committed {
        let topic_id = topics.topic(name).map(|(id, _)| id);
        let view = View {
            group: Some(group),
            topic: name,
            topic_id: topic_id.unwrap_or_default(),
            require_stable,
        };
        let partitions: Vec<_> = partitions
            .iter()
            .filter(|(_, committed)| !committed.is_of_other_topic(view.topic_id))
            .map(|(&index, _)| view.partition(PartitionIndex(index)))
            .collect();
        if !partitions.is_empty() {
            answered.push(FetchedTopic {
                name: Some(name.to_string()),
                topic_id,
                partitions,
            });
        }
    }
    answered
}
