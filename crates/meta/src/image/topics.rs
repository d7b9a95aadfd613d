//! Topics and their partitions.

use std::sync::Arc;

use model::{BrokerId, LeaderEpoch};
use wire::Uuid;
use wire::metadata::{PartitionChangeRecord, PartitionRecord, TopicRecord};

use super::ReplayError;
use crate::dir;
use crate::shared_map::SharedMap;

/// "No leader" in a record.
pub const NO_LEADER: BrokerId = BrokerId(-1);
/// "The leader stays" in a change record.
pub(crate) const SAME_LEADER: BrokerId = BrokerId(-2);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// [`NO_LEADER`] when there is none.
    pub leader: BrokerId,
    pub leader_epoch: LeaderEpoch,
    /// Counts the changes of this partition.
    pub epoch: i32,
    pub replicas: Vec<BrokerId>,
    pub isr: Vec<BrokerId>,
    pub removing: Vec<BrokerId>,
    pub adding: Vec<BrokerId>,
    pub eligible_leaders: Vec<BrokerId>,
    pub last_known_leaders: Vec<BrokerId>,
    pub is_recovering: bool,
    /// Of each replica, in the order of `replicas`; none in a log from before directories had ids.
    pub directories: Vec<Uuid>,
}

impl Partition {
    /// The directory of the replica on `broker`.
    #[must_use]
    pub fn directory(&self, broker: BrokerId) -> Option<Uuid> {
        let at = self
            .replicas
            .iter()
            .position(|replica| *replica == broker)?;
        Some(self.directories.get(at).copied().unwrap_or(dir::MIGRATING))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    pub name: Arc<str>,
    pub id: Uuid,
    /// By number, from 0 without a gap.
    pub partitions: Vec<Partition>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Topics {
    pub(crate) by_name: SharedMap<Arc<str>, Arc<Topic>>,
    pub(crate) names: SharedMap<Uuid, Arc<str>>,
    /// Names with `.` made `_`, and the topics that have each: one, unless the log comes from elsewhere.
    folded: SharedMap<Arc<str>, Vec<Arc<str>>>,
}

impl Topics {
    pub(super) fn colliding(&self, name: &str) -> Option<&Arc<str>> {
        self.folded.get(fold(name).as_str())?.first()
    }

    pub(super) fn on_topic(&mut self, record: &TopicRecord) -> Result<(), ReplayError> {
        if self.by_name.contains(record.name.as_str()) || self.names.contains(&record.topic_id) {
            return Err(ReplayError::TopicTwice(record.name.clone()));
        }
        let name: Arc<str> = record.name.as_str().into();
        let topic = Topic {
            name: Arc::clone(&name),
            id: record.topic_id,
            partitions: Vec::new(),
        };
        self.by_name.insert(Arc::clone(&name), Arc::new(topic));
        let folded: Arc<str> = fold(&name).into();
        match self.folded.get_mut(&folded) {
            // In order, so that equal topics are equal whatever order they came in.
            Some(names) => {
                let at = names.partition_point(|other| *other < name);
                names.insert(at, Arc::clone(&name));
            }
            None => drop(self.folded.insert(folded, vec![Arc::clone(&name)])),
        }
        self.names.insert(record.topic_id, name);
        Ok(())
    }

    fn topic_mut(&mut self, id: Uuid) -> Result<&mut Topic, ReplayError> {
        let name = self.names.get(&id).ok_or(ReplayError::NoTopic(id))?;
        let topic = self.by_name.get_mut(name);
        Ok(Arc::make_mut(topic.ok_or(ReplayError::NoTopic(id))?))
    }

    pub(super) fn on_partition(&mut self, record: &PartitionRecord) -> Result<(), ReplayError> {
        let topic = self.topic_mut(record.topic_id)?;
        let partition = Partition {
            leader: BrokerId(record.leader),
            leader_epoch: LeaderEpoch(record.leader_epoch),
            epoch: record.partition_epoch,
            replicas: ids(&record.replicas),
            isr: ids(&record.isr),
            removing: ids(&record.removing_replicas),
            adding: ids(&record.adding_replicas),
            eligible_leaders: ids(record
                .eligible_leader_replicas
                .as_deref()
                .unwrap_or_default()),
            last_known_leaders: ids(record.last_known_elr.as_deref().unwrap_or_default()),
            is_recovering: record.leader_recovery_state != 0,
            directories: record.directories.clone(),
        };
        let count = topic.partitions.len();
        match usize::try_from(record.partition_id) {
            Ok(index) if index == count => topic.partitions.push(partition),
            Ok(index) if index < count => topic.partitions[index] = partition,
            _ => return Err(no_partition(topic, record.partition_id)),
        }
        Ok(())
    }

    pub(super) fn on_partition_change(
        &mut self,
        record: &PartitionChangeRecord,
    ) -> Result<(), ReplayError> {
        let topic = self.topic_mut(record.topic_id)?;
        let at = usize::try_from(record.partition_id).unwrap_or(usize::MAX);
        if topic.partitions.len() <= at {
            return Err(no_partition(topic, record.partition_id));
        }
        let partition = &mut topic.partitions[at];
        let change = |list: &mut Vec<BrokerId>, changed: &Option<Vec<i32>>| {
            if let Some(changed) = changed {
                *list = ids(changed);
            }
        };
        change(&mut partition.isr, &record.isr);
        change(&mut partition.replicas, &record.replicas);
        change(&mut partition.removing, &record.removing_replicas);
        change(&mut partition.adding, &record.adding_replicas);
        change(
            &mut partition.eligible_leaders,
            &record.eligible_leader_replicas,
        );
        change(&mut partition.last_known_leaders, &record.last_known_elr);
        if let Some(directories) = &record.directories {
            partition.directories.clone_from(directories);
        }
        if record.leader != SAME_LEADER.0 {
            partition.leader = BrokerId(record.leader);
            partition.leader_epoch.0 += 1;
        }
        if 0 <= record.leader_recovery_state {
            partition.is_recovering = record.leader_recovery_state != 0;
        }
        partition.epoch += 1;
        Ok(())
    }

    /// Forgets eligible and last known leaders of a topic; of all for the empty name.
    pub(super) fn on_clear_elr(&mut self, name: &str) -> Result<(), ReplayError> {
        let has_any = |topic: &Topic| {
            let mut partitions = topic.partitions.iter();
            partitions.any(|partition| {
                !(partition.eligible_leaders.is_empty() && partition.last_known_leaders.is_empty())
            })
        };
        let named: Vec<Arc<str>> = if name.is_empty() {
            let topics = self.by_name.iter().filter(|(_, topic)| has_any(topic));
            topics.map(|(name, _)| Arc::clone(name)).collect()
        } else {
            vec![name.into()]
        };
        for name in named {
            let topic = self.by_name.get_mut(&name);
            let topic = topic.ok_or_else(|| ReplayError::NoTopicNamed(name.to_string()))?;
            for partition in &mut Arc::make_mut(topic).partitions {
                partition.eligible_leaders.clear();
                partition.last_known_leaders.clear();
            }
        }
        Ok(())
    }

    pub(super) fn on_remove_topic(&mut self, id: Uuid) -> Result<Arc<str>, ReplayError> {
        let name = self.names.remove(&id).ok_or(ReplayError::NoTopic(id))?;
        self.by_name.remove(&name);
        let folded = fold(&name);
        if let Some(names) = self.folded.get_mut(folded.as_str()) {
            names.retain(|other| *other != name);
            if names.is_empty() {
                self.folded.remove(folded.as_str());
            }
        }
        Ok(name)
    }
}

fn ids(numbers: &[i32]) -> Vec<BrokerId> {
    numbers.iter().map(|number| BrokerId(*number)).collect()
}

fn no_partition(topic: &Topic, partition: i32) -> ReplayError {
    ReplayError::NoPartition {
        topic: topic.name.as_ref().into(),
        partition,
        count: topic.partitions.len(),
    }
}

/// Metrics names cannot tell `.` from `_`, so neither may topic names.
fn fold(name: &str) -> String {
    name.replace('.', "_")
}
