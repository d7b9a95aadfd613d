//! Leaderships that the active controller took from brokers that live, as far as these may not have heard of it.
//!
//! A broker whose heartbeats are answered leads by the metadata that it has. Those stand still where the disk of its metadata log does, and
//! it would go on beside the leaders and coordinators that came after it. Soft state of an office: what was committed before it counts as
//! unheard for whoever has less.

use std::collections::BTreeMap;

use meta::{Image, NO_LEADER, Record};
use model::BrokerId;
use wire::metadata::PartitionChangeRecord;

/// No broker has less.
const NOTHING: i64 = -1;

#[derive(Debug)]
pub(crate) struct Taken {
    /// The last offset of the metadata at the beginning of the office.
    before: i64,
    /// The last offset of what took something from each broker since.
    last: BTreeMap<BrokerId, i64>,
}

impl Taken {
    /// An office begins with `image`, of which `committed` is known to be committed.
    pub(super) fn at_beginning(committed: &Image, image: &Image) -> Taken {
        let mut taken = Taken {
            before: committed.end() - 1,
            last: BTreeMap::new(),
        };
        for topic in committed.topics() {
            let after = image.topic_by_id(topic.id);
            let after = after.into_iter().flat_map(|after| &after.partitions);
            for (old, new) in topic.partitions.iter().zip(after) {
                if old.leader != new.leader {
                    taken.last.insert(old.leader, image.end() - 1);
                }
            }
        }
        taken
    }

    /// Nobody is taken anything from where there is one broker.
    pub(super) fn nothing() -> Taken {
        Taken {
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

    /// True if a broker that has the metadata up to `offset` does not know of something that was taken from it.
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
