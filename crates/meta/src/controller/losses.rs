//! Leaderships that the active controller took from live brokers, as far as these may not have heard of it.
//!
//! A broker whose heartbeats are answered leads by the metadata that it has. Those stand still where the disk of its metadata log does, and
//! it would go on beside the leaders and coordinators that came after it. Soft state: records that were committed before the controller became
//! active count as unheard for a broker that has fewer.

use std::collections::BTreeMap;

use model::BrokerId;
use wire::metadata::PartitionChangeRecord;

use crate::image::{Image, NO_LEADER};
use crate::record::Record;

/// Lower than any metadata offset that a broker can report.
const NOTHING: i64 = -1;

#[derive(Clone, Debug)]
pub(super) struct UnheardLosses {
    /// The last offset of the metadata when the controller became active.
    before: i64,
    /// The last offset of what took something from each broker since.
    last: BTreeMap<BrokerId, i64>,
}

impl UnheardLosses {
    /// The controller begins with `image`, of which `committed` is known to be committed.
    pub(super) fn at_beginning(committed: &Image, image: &Image) -> UnheardLosses {
        let mut losses = UnheardLosses {
            before: committed.end() - 1,
            last: BTreeMap::new(),
        };
        for topic in committed.topics() {
            let after = image.topic_by_id(topic.id);
            let after = after.into_iter().flat_map(|after| &after.partitions);
            for (old, new) in topic.partitions.iter().zip(after) {
                if old.leader != new.leader {
                    losses.last.insert(old.leader, image.end() - 1);
                }
            }
        }
        losses
    }

    /// One broker alone loses nothing.
    pub(super) fn nothing() -> UnheardLosses {
        UnheardLosses {
            before: NOTHING,
            last: BTreeMap::new(),
        }
    }

    /// Records were decided on `image`, and the last of them is at `last`.
    pub(super) fn note(&mut self, image: &Image, records: &[Record], last: i64) {
        for broker in losers(image, records) {
            self.last.insert(broker, last);
        }
    }

    /// True if a broker that has the metadata up to `offset` does not know of something that it lost.
    pub(super) fn is_unheard(&self, broker: BrokerId, offset: i64) -> bool {
        let last = self.last.get(&broker).copied().unwrap_or(NOTHING);
        offset < last.max(self.before)
    }
}

/// Brokers that lead something on `image` which others, or nobody, lead by the records.
pub(super) fn losers(image: &Image, records: &[Record]) -> impl Iterator<Item = BrokerId> {
    records.iter().filter_map(|record| {
        let Record::PartitionChange(change) = record else {
            return None;
        };
        let topic = image.topic_by_id(change.topic_id)?;
        let at = usize::try_from(change.partition_id).ok()?;
        let leader = topic.partitions.get(at)?.leader;
        let is_same = [PartitionChangeRecord::default().leader, leader.0].contains(&change.leader);
        (!is_same && leader != NO_LEADER).then_some(leader)
    })
}
