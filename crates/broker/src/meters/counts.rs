//! Counters of the node that no shard owns: decisions of its active controller, changes of partitions that it leads, bytes that it
//! followed.
//!
//! Writers add, a scrape reads: no lock.

use std::sync::atomic::{AtomicU64, Ordering};

use meta::{Delta, Image, NO_LEADER, Record};
use model::{BrokerId, Instant};
use wire::metadata::PartitionChangeRecord;

#[derive(Default)]
pub(crate) struct NodeCounts {
    elections: AtomicU64,
    elections_unclean: AtomicU64,
    isr_shrinks: AtomicU64,
    isr_grows: AtomicU64,
    replicated_bytes: AtomicU64,
    /// When a snapshot of the metadata was written last, as an [`Instant`]; 0 before the first.
    snapshot_at: AtomicU64,
    /// Since when none can be written, as an [`Instant`]; 0 while they can.
    snapshot_fails_since: AtomicU64,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) elections: u64,
    pub(crate) elections_unclean: u64,
    pub(crate) isr_shrinks: u64,
    pub(crate) isr_grows: u64,
    pub(crate) replicated_bytes: u64,
    pub(crate) snapshot_at: Option<Instant>,
    pub(crate) snapshot_fails_since: Option<Instant>,
}

impl NodeCounts {
    pub(crate) fn read(&self) -> Counted {
        let number = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        let moment = |cell: &AtomicU64| Some(Instant(number(cell))).filter(|at| 0 < at.0);
        Counted {
            elections: number(&self.elections),
            elections_unclean: number(&self.elections_unclean),
            isr_shrinks: number(&self.isr_shrinks),
            isr_grows: number(&self.isr_grows),
            replicated_bytes: number(&self.replicated_bytes),
            snapshot_at: moment(&self.snapshot_at),
            snapshot_fails_since: moment(&self.snapshot_fails_since),
        }
    }

    /// Batches of a leader were appended here.
    pub(crate) fn on_replicated(&self, bytes: usize) {
        (self.replicated_bytes).fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A snapshot of the metadata is whole.
    pub(crate) fn on_snapshot(&self, now: Instant) {
        self.snapshot_at.store(now.0, Ordering::Relaxed);
        self.snapshot_fails_since.store(0, Ordering::Relaxed);
    }

    /// The first of several tries to write a snapshot of the metadata has failed.
    pub(crate) fn on_snapshot_failed(&self, now: Instant) {
        (self.snapshot_fails_since).store(now.0.max(1), Ordering::Relaxed);
    }

    /// Records that the active controller, this node, wrote on `before` are committed.
    pub(crate) fn on_committed(&self, before: &Image, records: &[Record]) {
        for record in records {
            let Record::PartitionChange(change) = record else {
                continue;
            };
            match elected(before, change) {
                None => {}
                Some(Elected::Cleanly) => drop(self.elections.fetch_add(1, Ordering::Relaxed)),
                Some(Elected::Uncleanly) => {
                    self.elections.fetch_add(1, Ordering::Relaxed);
                    self.elections_unclean.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Metadata were published: `me` leads what it leads by them.
    pub(crate) fn on_published(&self, delta: &Delta, me: BrokerId) {
        for topic in &delta.changed {
            for index in &topic.partitions {
                let Ok(at) = usize::try_from(index.0) else {
                    continue;
                };
                let (old, new) = (topic.old.partitions.get(at), topic.new.partitions.get(at));
                let (Some(old), Some(new)) = (old, new) else {
                    continue;
                };
                if new.leader != me {
                    continue;
                }
                // One change may let a replica in and another one out.
                if old.isr.iter().any(|broker| !new.isr.contains(broker)) {
                    self.isr_shrinks.fetch_add(1, Ordering::Relaxed);
                }
                if new.isr.iter().any(|broker| !old.isr.contains(broker)) {
                    self.isr_grows.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Elected {
    Cleanly,
    Uncleanly,
}

/// The election that a record is the outcome of, if another broker leads by it.
fn elected(before: &Image, change: &PartitionChangeRecord) -> Option<Elected> {
    let leader = BrokerId(change.leader);
    let topic = before.topic_by_id(change.topic_id)?;
    let at = usize::try_from(change.partition_id).ok()?;
    let partition = topic.partitions.get(at)?;
    if leader.0 < 0 || leader == NO_LEADER || leader == partition.leader {
        return None;
    }
    // The only replica of a finished reassignment leads cleanly, though it was in no ISR before: nothing is to be recovered there.
    let was_eligible =
        partition.isr.contains(&leader) || partition.eligible_leaders.contains(&leader);
    let is_recovering = change.leader_recovery_state == 1 || partition.is_recovering;
    let is_alone = change.isr.as_deref() == Some(&[leader.0]);
    match !was_eligible && is_recovering && is_alone {
        true => Some(Elected::Uncleanly),
        false => Some(Elected::Cleanly),
    }
}

#[cfg(test)]
mod tests {
    use meta::Place;
    use model::{LeaderEpoch, Offset};
    use wire::Uuid;
    use wire::metadata::{PartitionRecord, TopicRecord};

    use super::*;

    const TOPIC: Uuid = Uuid([7; 16]);

    fn image() -> Image {
        let topic = TopicRecord {
            name: "t".to_owned(),
            topic_id: TOPIC,
        };
        let partition = PartitionRecord {
            partition_id: 0,
            topic_id: TOPIC,
            replicas: vec![1, 2, 3, 4],
            isr: vec![1, 2],
            eligible_leader_replicas: Some(vec![3]),
            leader: 1,
            ..PartitionRecord::default()
        };
        let mut image = Image::default();
        let place = Place {
            base: Offset(0),
            epoch: LeaderEpoch(1),
            time: model::Timestamp(0),
        };
        image
            .replay(place, &[topic.into(), partition.into()])
            .expect("they fit");
        image
    }

    fn change(leader: i32, isr: &[i32], recovery: i8) -> PartitionChangeRecord {
        PartitionChangeRecord {
            partition_id: 0,
            topic_id: TOPIC,
            leader,
            isr: (!isr.is_empty()).then(|| isr.to_vec()),
            leader_recovery_state: recovery,
            ..PartitionChangeRecord::default()
        }
    }

    #[test]
    fn an_election_is_unclean_where_the_leader_may_lack_what_was_committed() {
        let image = image();
        for (change, expected) in [
            (change(-2, &[1], -1), None),
            (change(-1, &[1], -1), None),
            (change(1, &[1], -1), None),
            (change(2, &[2], -1), Some(Elected::Cleanly)),
            (change(3, &[3], -1), Some(Elected::Cleanly)),
            (change(4, &[4], 1), Some(Elected::Uncleanly)),
            // The end of a reassignment to one replica.
            (change(4, &[4], -1), Some(Elected::Cleanly)),
            (change(4, &[2, 4], -1), Some(Elected::Cleanly)),
        ] {
            assert_eq!(elected(&image, &change), expected, "{change:?}");
        }
    }

    #[test]
    fn changes_of_an_isr_count_where_its_leader_is() {
        let before = image();
        let after = |changes: &[PartitionChangeRecord]| {
            let mut after = before.clone();
            let records: Vec<Record> = changes.iter().cloned().map(Record::from).collect();
            after
                .replay(before.next_place(), &records)
                .expect("they fit");
            Delta::between(&before, &after)
        };
        let counts = NodeCounts::default();
        counts.on_published(&after(&[change(-2, &[1], -1)]), BrokerId(1));
        counts.on_published(&after(&[change(-2, &[1, 2, 3], -1)]), BrokerId(1));
        counts.on_published(&after(&[change(-2, &[1, 3], -1)]), BrokerId(1));
        counts.on_published(&after(&[change(-2, &[1], -1)]), BrokerId(2));
        counts.on_published(&after(&[change(2, &[2], -1)]), BrokerId(2));
        counts.on_published(&after(&[change(2, &[], -1)]), BrokerId(2));
        let counted = counts.read();
        assert_eq!((counted.isr_shrinks, counted.isr_grows), (3, 2));
    }
}
