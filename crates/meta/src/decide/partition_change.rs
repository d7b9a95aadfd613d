//! A change of one partition as a record: the only place where ISR, eligible leaders, leaders and epochs are weighed together.
//!
//! Owns the order of Kafka: first a reassignment that can be completed is, then the eligible leaders (KIP-966) follow from the new
//! ISR, then a leader is elected among them, then epochs are bumped. Every decision that changes a partition goes through it, so
//! that none forgets what follows from its change.
//!
//! Unlike Kafka, a last known leader is never elected by itself: it is only the first that an unclean election takes.

use std::collections::{BTreeMap, BTreeSet};

use model::{BrokerId, PartitionIndex};
use wire::Uuid;
use wire::metadata::PartitionChangeRecord;

use crate::dir;
use crate::image::{Image, NO_LEADER, Partition, Registration, SAME_LEADER, Topic};
use crate::versions::{ELR_VERSION, MetadataVersion};

/// Which leader is looked for when one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Election {
    /// The first replica, if it is in sync; else as `Online`.
    Preferred,
    /// The leader there is, else the first replica that is in sync.
    Online,
    /// As `Online`, and where nobody is in sync any replica that is alive: what it lacks is lost.
    Unclean,
}

/// The rules for a change of any partition.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    version: MetadataVersion,
    is_elr_enabled: bool,
}

impl Rules {
    #[must_use]
    pub fn of(image: &Image) -> Rules {
        Rules {
            version: image.metadata_version(),
            is_elr_enabled: 1 <= image.feature(ELR_VERSION),
        }
    }
}

/// True if a broker may lead the partition: it is neither fenced nor shutting down, and its replica's directory works.
#[must_use]
pub fn is_acceptable_leader(image: &Image, partition: &Partition, id: BrokerId) -> bool {
    let is_active = image.broker(id).is_some_and(Registration::is_active);
    is_active && has_online_dir(image, partition, id)
}

/// True if the broker is registered and its replica's directory works.
pub(super) fn has_online_dir(image: &Image, partition: &Partition, id: BrokerId) -> bool {
    let dir = partition.directory(id);
    let works = |dir| {
        let broker = image.broker(id);
        broker.is_some_and(|broker| dir::is_online(dir, &broker.log_dirs))
    };
    dir.is_some_and(works)
}

/// A partition as it is, and as it shall be.
#[derive(Clone, Debug)]
pub struct PartitionChange<'a> {
    topic: Uuid,
    index: PartitionIndex,
    partition: &'a Partition,
    rules: Rules,
    min_isr: usize,
    isr: Vec<BrokerId>,
    replicas: Vec<BrokerId>,
    removing: Vec<BrokerId>,
    adding: Vec<BrokerId>,
    eligible: Vec<BrokerId>,
    unclean: Vec<BrokerId>,
    election: Election,
    is_recovering: bool,
    directories: BTreeMap<BrokerId, Uuid>,
}

struct Elected {
    leader: BrokerId,
    is_unclean: bool,
}

impl<'a> PartitionChange<'a> {
    /// A change that changes nothing yet, but for a leader that may no longer lead. `None`: the topic has no such partition.
    ///
    /// `min_isr` is `min.insync.replicas` of the topic; more than the topic has replicas counts as all of them.
    #[must_use]
    pub fn new(
        topic: &'a Topic,
        index: PartitionIndex,
        rules: Rules,
        min_isr: usize,
    ) -> Option<PartitionChange<'a>> {
        let partition = topic.partitions.get(usize::try_from(index.0).ok()?)?;
        let factor = topic.partitions.first()?.replicas.len();
        let directories = partition.replicas.iter().map(|id| {
            let dir = partition.directory(*id);
            (*id, dir.unwrap_or(dir::MIGRATING))
        });
        Some(PartitionChange {
            topic: topic.id,
            index,
            partition,
            rules,
            min_isr: min_isr.min(factor),
            isr: partition.isr.clone(),
            replicas: partition.replicas.clone(),
            removing: partition.removing.clone(),
            adding: partition.adding.clone(),
            eligible: partition.eligible_leaders.clone(),
            unclean: Vec::new(),
            election: Election::Online,
            is_recovering: partition.is_recovering,
            directories: directories.collect(),
        })
    }

    /// The partition as it is.
    #[must_use]
    pub fn partition(&self) -> &'a Partition {
        self.partition
    }

    #[must_use]
    pub fn isr(mut self, isr: Vec<BrokerId>) -> Self {
        self.isr = isr;
        self
    }

    /// The ISR loses a member.
    #[must_use]
    pub fn without(mut self, broker: BrokerId) -> Self {
        self.isr.retain(|id| *id != broker);
        self
    }

    /// Brokers that stopped uncleanly: what they had may be lost, so they are not eligible to lead.
    #[must_use]
    pub fn unclean(mut self, brokers: Vec<BrokerId>) -> Self {
        self.unclean = brokers;
        self
    }

    #[must_use]
    pub fn election(mut self, election: Election) -> Self {
        self.election = election;
        self
    }

    /// The leader says whether it still recovers from an unclean election.
    #[must_use]
    pub fn recovering(mut self, is_recovering: bool) -> Self {
        self.is_recovering = is_recovering;
        self
    }

    /// Other replicas, where they are on their way: those that come and those that go.
    #[must_use]
    pub fn replicas(
        mut self,
        replicas: Vec<BrokerId>,
        adding: Vec<BrokerId>,
        removing: Vec<BrokerId>,
    ) -> Self {
        (self.replicas, self.adding, self.removing) = (replicas, adding, removing);
        self
    }

    /// The replica on `broker` is in `dir`.
    #[must_use]
    pub fn directory(mut self, broker: BrokerId, dir: Uuid) -> Self {
        self.directories.insert(broker, dir);
        self
    }

    /// The record, or nothing when nothing changes. `may_lead` says who can; `new_dir` chooses for replicas that have no directory.
    #[must_use]
    pub fn build(
        mut self,
        may_lead: impl Fn(BrokerId) -> bool,
        mut new_dir: impl FnMut(BrokerId) -> Uuid,
    ) -> Option<PartitionChangeRecord> {
        let mut record = PartitionChangeRecord {
            topic_id: self.topic,
            partition_id: self.index.0,
            ..PartitionChangeRecord::default()
        };
        self.complete_reassignment();
        self.find_eligible();
        self.elect(&mut record, &may_lead);
        let keeps_all = (self.partition.replicas.iter()).all(|id| self.replicas.contains(id));
        if !keeps_all {
            self.bump_epoch(&mut record);
        }
        self.set_eligible(&mut record);
        self.set_isr(&mut record);
        self.set_last_known(&mut record);
        self.set_assignment(&mut record, &mut new_dir);
        if self.is_recovering != self.partition.is_recovering {
            record.leader_recovery_state = i8::from(self.is_recovering);
        }
        let nothing = PartitionChangeRecord {
            topic_id: self.topic,
            partition_id: self.index.0,
            ..PartitionChangeRecord::default()
        };
        (record != nothing).then_some(record)
    }

    /// Replicas that go are let go once those that come are in sync, and others remain.
    fn complete_reassignment(&mut self) {
        if self.adding.is_empty() && self.removing.is_empty() {
            return;
        }
        let stays = |ids: &[BrokerId]| -> Vec<BrokerId> {
            let ids = ids.iter().filter(|id| !self.removing.contains(id));
            ids.copied().collect()
        };
        let (isr, replicas) = (stays(&self.isr), stays(&self.replicas));
        if !self.removing.is_empty() && (isr.is_empty() || replicas.is_empty()) {
            return;
        }
        let are_in_sync = |ids: &[BrokerId]| ids.iter().all(|id| isr.contains(id));
        if !are_in_sync(&self.adding) {
            return;
        }
        // Fewer replicas: the ISR must not shrink by it, so all that stay have to be there.
        if self.adding.len() < self.removing.len() && !are_in_sync(&replicas) {
            return;
        }
        (self.isr, self.replicas) = (isr, replicas);
        (self.adding, self.removing) = (Vec::new(), Vec::new());
    }

    /// While the ISR is below its minimum, all that were in it since stay eligible: nothing was committed without them.
    fn find_eligible(&mut self) {
        if !self.rules.is_elr_enabled {
            return;
        }
        if self.min_isr <= self.isr.len() {
            self.eligible.clear();
            return;
        }
        let all: BTreeSet<BrokerId> = (self.eligible.iter())
            .chain(&self.partition.isr)
            .copied()
            .collect();
        // Nobody has more than the only replica, whatever it lost.
        let is_only = |id: &BrokerId| self.replicas == [*id];
        // One that is no replica any more drops its log. Were it eligible, it would lead with nothing when it is assigned again.
        let is_replica = |id: &BrokerId| self.replicas.contains(id);
        let has_all = |id: &BrokerId| is_only(id) || !self.unclean.contains(id);
        let stays = |id: &BrokerId| is_replica(id) && !self.isr.contains(id) && has_all(id);
        self.eligible = all.into_iter().filter(stays).collect();
    }

    fn elect(&mut self, record: &mut PartitionChangeRecord, may_lead: &impl Fn(BrokerId) -> bool) {
        let elected = self.elected(may_lead);
        if elected.leader == self.partition.leader {
            return;
        }
        if self.eligible.contains(&elected.leader) {
            self.isr = vec![elected.leader];
            self.eligible.retain(|id| *id != elected.leader);
        }
        record.leader = elected.leader.0;
        if elected.is_unclean {
            record.isr = Some(vec![elected.leader.0]);
            if !self.partition.is_recovering {
                record.leader_recovery_state = 1;
            }
        }
    }

    fn elected(&self, may_lead: &impl Fn(BrokerId) -> bool) -> Elected {
        let is_clean = |id: &BrokerId| {
            let has_all = self.isr.contains(id);
            (has_all || self.isr.is_empty() && self.eligible.contains(id)) && may_lead(*id)
        };
        let leader = &self.partition.leader;
        let preferred = self.replicas.first();
        let preferred = preferred.filter(|_| self.election == Election::Preferred);
        let first = preferred.into_iter().chain([leader]).chain(&self.replicas);
        if let Some(leader) = first.copied().find(is_clean) {
            return Elected {
                leader,
                is_unclean: false,
            };
        }
        let unclean = match self.election {
            Election::Unclean => self.unclean_leader(may_lead),
            Election::Preferred | Election::Online => None,
        };
        Elected {
            leader: unclean.unwrap_or(NO_LEADER),
            is_unclean: unclean.is_some(),
        }
    }

    fn unclean_leader(&self, may_lead: &impl Fn(BrokerId) -> bool) -> Option<BrokerId> {
        let last_known = match self.partition.last_known_leaders.as_slice() {
            [only]
                if self.rules.is_elr_enabled && self.isr.is_empty() && self.eligible.is_empty() =>
            {
                Some(only)
            }
            _ => None,
        };
        let all = last_known.into_iter().chain(&self.replicas);
        all.copied().find(|id| may_lead(*id))
    }

    /// A new leader epoch under the same leader, if there is none yet.
    fn bump_epoch(&self, record: &mut PartitionChangeRecord) {
        if record.leader == SAME_LEADER.0 {
            record.leader = self.partition.leader.0;
        }
    }

    fn set_eligible(&mut self, record: &mut PartitionChangeRecord) {
        let was_unclean = record.isr.is_some();
        if was_unclean || !self.rules.is_elr_enabled {
            self.eligible.clear();
        }
        record.eligible_leader_replicas = changed(&self.partition.eligible_leaders, &self.eligible);
    }

    fn set_isr(&self, record: &mut PartitionChangeRecord) {
        // Without eligible leaders the last member of the ISR stays in it: nobody else would know who had everything.
        let may_be_empty = self.rules.is_elr_enabled;
        if record.isr.is_none() && (may_be_empty || !self.isr.is_empty()) {
            record.isr = changed(&self.partition.isr, &self.isr);
        }
        // Before 3.6 followers noticed a shrunk ISR by the epoch alone (KAFKA-15021).
        if self.rules.version < MetadataVersion::V3_6_IV0
            && let Some(isr) = &record.isr
            && (self.partition.isr.iter()).any(|id| !isr.contains(&id.0))
        {
            self.bump_epoch(record);
        }
    }

    /// The leader that a partition had when it first had none; nothing once it has one.
    fn set_last_known(&self, record: &mut PartitionChangeRecord) {
        if !self.rules.is_elr_enabled {
            return;
        }
        let is_unknown = self.partition.last_known_leaders.is_empty();
        if record.leader == NO_LEADER.0 && is_unknown {
            record.last_known_elr = Some(vec![self.partition.leader.0]);
        } else if 0 <= record.leader && !is_unknown {
            record.last_known_elr = Some(Vec::new());
        }
    }

    fn set_assignment(
        &self,
        record: &mut PartitionChangeRecord,
        new_dir: &mut impl FnMut(BrokerId) -> Uuid,
    ) {
        if !self.replicas.is_empty() {
            if MetadataVersion::V3_7_IV2 <= self.rules.version {
                let directories: Vec<Uuid> = (self.replicas.iter())
                    .map(|id| {
                        let known = self.directories.get(id);
                        known.copied().unwrap_or_else(|| new_dir(*id))
                    })
                    .collect();
                let had = self.partition.replicas.iter();
                let had = had.map(|id| self.partition.directory(*id));
                let is_same = had.eq(directories.iter().map(|dir| Some(*dir)));
                record.directories = (!is_same).then_some(directories);
            }
            record.replicas = changed(&self.partition.replicas, &self.replicas);
        }
        record.removing_replicas = changed(&self.partition.removing, &self.removing);
        record.adding_replicas = changed(&self.partition.adding, &self.adding);
    }
}

fn changed(from: &[BrokerId], to: &[BrokerId]) -> Option<Vec<i32>> {
    (from != to).then(|| to.iter().map(|id| id.0).collect())
}

#[cfg(test)]
mod tests;
