//! What the metadata log says, as of one of its records.
//!
//! Owns brokers, topics, dynamic settings, features and the next producer id. `replay` is the only mutator, and the same
//! records give the same image on every node. Clones share everything that does not change, so an image is published by
//! cloning, replaying and swapping, and [`Delta`](crate::Delta) finds what changed without a walk. A record that contradicts the image is an error: the log is damaged or not ours.

use std::sync::{Arc, LazyLock};

use config::Overrides;
use model::{BrokerId, LeaderEpoch, ProducerId};
use wire::Uuid;
use wire::metadata::{
    BrokerRegistrationChangeRecord, ConfigRecord, PartitionChangeRecord, PartitionRecord,
    RegisterBrokerRecord, TopicRecord,
};

use crate::record::Record;
use crate::shared_map::SharedMap;

/// "No leader" in a record.
pub const NO_LEADER: BrokerId = BrokerId(-1);
/// "The leader stays" in a change record.
const SAME_LEADER: i32 = -2;

static NOTHING: LazyLock<Arc<Overrides>> = LazyLock::new(Arc::default);

/// A kind on the wire that carries none: loggers, of which this broker has none to set.
pub const BROKER_LOGGER: i8 = 8;

/// What carries settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i8)]
pub enum ResourceKind {
    Topic = 2,
    Broker = 4,
    ClientMetrics = 16,
    Group = 32,
}

impl ResourceKind {
    #[must_use]
    pub fn from_wire(kind: i8) -> Option<ResourceKind> {
        match kind {
            2 => Some(ResourceKind::Topic),
            4 => Some(ResourceKind::Broker),
            16 => Some(ResourceKind::ClientMetrics),
            32 => Some(ResourceKind::Group),
            _ => None,
        }
    }
}

/// A resource by name; a broker's is its number, the empty one stands for all brokers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    pub kind: ResourceKind,
    pub name: String,
}

impl Resource {
    #[must_use]
    pub fn topic(name: &str) -> Resource {
        Resource {
            kind: ResourceKind::Topic,
            name: name.into(),
        }
    }

    #[must_use]
    pub fn group(id: &str) -> Resource {
        Resource {
            kind: ResourceKind::Group,
            name: id.into(),
        }
    }

    #[must_use]
    pub fn broker(id: BrokerId) -> Resource {
        Resource {
            kind: ResourceKind::Broker,
            name: id.to_string(),
        }
    }

    /// The defaults of all brokers.
    #[must_use]
    pub fn cluster() -> Resource {
        Resource {
            kind: ResourceKind::Broker,
            name: String::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub name: String,
    pub host: String,
    pub port: u16,
}

/// A broker as it registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    pub id: BrokerId,
    pub epoch: i64,
    pub incarnation: Uuid,
    pub endpoints: Vec<Endpoint>,
    pub rack: Option<String>,
    pub is_fenced: bool,
    /// Directories that work.
    pub log_dirs: Vec<Uuid>,
    /// Those of them that take no new partitions (KIP-1066), where a decision was told of any.
    pub cordoned_log_dirs: Vec<Uuid>,
}

impl Registration {
    /// Directories that take new partitions.
    pub(crate) fn open_log_dirs(&self) -> impl Iterator<Item = &Uuid> {
        let cordoned = &self.cordoned_log_dirs;
        self.log_dirs.iter().filter(|dir| !cordoned.contains(dir))
    }

    /// All directories are cordoned. A broker that told of none has one that nobody can name.
    pub(crate) fn is_cordoned(&self) -> bool {
        !self.log_dirs.is_empty() && self.open_log_dirs().next().is_none()
    }
}

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
    /// Of each replica, in the order of `replicas`.
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
        self.directories.get(at).copied()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    pub name: Arc<str>,
    pub id: Uuid,
    /// By number, from 0 without a gap.
    pub partitions: Vec<Partition>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    #[error("metadata log: topic {0} is created twice")]
    TopicTwice(String),
    #[error("metadata log: no topic has the id {0}")]
    NoTopic(Uuid),
    #[error("metadata log: topic {topic} has {count} partitions, and the record names {partition}")]
    NoPartition {
        topic: String,
        partition: i32,
        count: usize,
    },
    #[error("metadata log: broker {0} is not registered")]
    NoBroker(BrokerId),
    #[error("metadata log: records of type {0} are not supported")]
    Unsupported(i16),
    #[error("metadata log: settings of a resource of type {0}")]
    Resource(i8),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    pub(crate) brokers: SharedMap<BrokerId, Arc<Registration>>,
    pub(crate) topics: SharedMap<Arc<str>, Arc<Topic>>,
    names: SharedMap<Uuid, Arc<str>>,
    /// Names with `.` made `_`, and the topics that have each: one, unless the log comes from elsewhere.
    folded: SharedMap<Arc<str>, Vec<Arc<str>>>,
    pub(crate) settings: SharedMap<Resource, Arc<Overrides>>,
    /// What was switched off stays here with level 0: a start must not switch it on again.
    pub(crate) features: SharedMap<Arc<str>, i16>,
    next_producer_id: i64,
    end: i64,
    /// The end when a topic last came or went.
    names_end: i64,
}

impl Image {
    #[must_use]
    pub fn broker(&self, id: BrokerId) -> Option<&Registration> {
        self.brokers.get(&id).map(Arc::as_ref)
    }

    /// In the order of their numbers.
    pub fn brokers(&self) -> impl Iterator<Item = &Registration> {
        self.brokers.values().map(Arc::as_ref)
    }

    #[must_use]
    pub fn topic(&self, name: &str) -> Option<&Arc<Topic>> {
        self.topics.get(name)
    }

    #[must_use]
    pub fn topic_by_id(&self, id: Uuid) -> Option<&Arc<Topic>> {
        self.topic(self.names.get(&id)?)
    }

    /// In the order of their names.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.topics.values()
    }

    #[must_use]
    pub fn topics_count(&self) -> usize {
        self.topics.len()
    }

    /// Topics whose name is `from` or comes after it.
    pub fn topics_from<'a>(&'a self, from: &str) -> impl Iterator<Item = &'a Arc<Topic>> {
        self.topics.from(from).map(|(_, topic)| topic)
    }

    /// The topic whose name differs from `name` in `.` and `_` at most.
    #[must_use]
    pub fn colliding(&self, name: &str) -> Option<&Arc<str>> {
        self.folded.get(fold(name).as_str())?.first()
    }

    /// Dynamic settings; the same empty ones for all that have none.
    #[must_use]
    pub fn overrides(&self, resource: &Resource) -> Arc<Overrides> {
        self.settings.get(resource).unwrap_or(&NOTHING).clone()
    }

    /// What has dynamic settings, in order of kind and name.
    pub fn configured(&self) -> impl Iterator<Item = &Resource> {
        self.settings.keys()
    }

    /// Groups with settings of their own, in the order of their ids.
    pub fn group_overrides(&self) -> impl Iterator<Item = (&str, &Arc<Overrides>)> {
        self.settings
            .from(&Resource::group(""))
            .take_while(|(resource, _)| resource.kind == ResourceKind::Group)
            .map(|(resource, overrides)| (resource.name.as_str(), overrides))
    }

    /// Finalized features and their levels; one at level 0 is switched off.
    pub fn features(&self) -> impl Iterator<Item = (&str, i16)> {
        self.features
            .iter()
            .map(|(name, level)| (name.as_ref(), *level))
    }

    /// The finalized level of a feature, 0 when it has none.
    #[must_use]
    pub fn feature(&self, name: &str) -> i16 {
        self.features.get(name).copied().unwrap_or(0)
    }

    /// The first producer id that no broker has been given.
    #[must_use]
    pub fn next_producer_id(&self) -> ProducerId {
        ProducerId(self.next_producer_id)
    }

    /// Records replayed so far: the offset the next one will have.
    #[must_use]
    pub fn end(&self) -> i64 {
        self.end
    }

    /// What `end` was when a topic last came or went.
    #[must_use]
    pub fn names_end(&self) -> i64 {
        self.names_end
    }

    pub fn replay(&mut self, record: &Record) -> Result<(), ReplayError> {
        match record {
            Record::Topic(record) => self.on_topic(record)?,
            Record::Partition(record) => self.on_partition(record)?,
            Record::PartitionChange(record) => self.on_partition_change(record)?,
            Record::RemoveTopic(record) => self.on_remove_topic(record.topic_id)?,
            Record::Config(record) => self.on_config(record)?,
            Record::RegisterBroker(record) => self.on_register_broker(record),
            Record::BrokerRegistrationChange(record) => self.on_registration_change(record)?,
            Record::FeatureLevel(record) => {
                let level = record.feature_level;
                self.features.insert(record.name.as_str().into(), level);
            }
            Record::ProducerIds(record) => self.next_producer_id = record.next_producer_id,
            Record::FenceBroker(record) => self.broker_mut(record.id)?.is_fenced = true,
            Record::UnfenceBroker(record) => self.broker_mut(record.id)?.is_fenced = false,
            Record::UnregisterBroker(record) => {
                self.brokers.remove(&BrokerId(record.broker_id));
            }
            Record::NoOp(_)
            | Record::BeginTransaction(_)
            | Record::EndTransaction(_)
            | Record::RegisterController(_) => {}
            other => return Err(ReplayError::Unsupported(other.key())),
        }
        self.end += 1;
        if matches!(record, Record::Topic(_) | Record::RemoveTopic(_)) {
            self.names_end = self.end;
        }
        Ok(())
    }

    fn on_topic(&mut self, record: &TopicRecord) -> Result<(), ReplayError> {
        if self.topics.contains(record.name.as_str()) || self.names.contains(&record.topic_id) {
            return Err(ReplayError::TopicTwice(record.name.clone()));
        }
        let name: Arc<str> = record.name.as_str().into();
        let topic = Topic {
            name: name.clone(),
            id: record.topic_id,
            partitions: Vec::new(),
        };
        self.topics.insert(name.clone(), Arc::new(topic));
        let folded: Arc<str> = fold(&name).into();
        match self.folded.get_mut(&folded) {
            Some(names) => names.push(name.clone()),
            None => drop(self.folded.insert(folded, vec![name.clone()])),
        }
        self.names.insert(record.topic_id, name);
        Ok(())
    }

    fn topic_mut(&mut self, id: Uuid) -> Result<&mut Topic, ReplayError> {
        let name = self.names.get(&id).ok_or(ReplayError::NoTopic(id))?;
        let topic = self.topics.get_mut(name);
        Ok(Arc::make_mut(topic.ok_or(ReplayError::NoTopic(id))?))
    }

    fn on_partition(&mut self, record: &PartitionRecord) -> Result<(), ReplayError> {
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

    fn on_partition_change(&mut self, record: &PartitionChangeRecord) -> Result<(), ReplayError> {
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
        if record.leader != SAME_LEADER {
            partition.leader = BrokerId(record.leader);
            partition.leader_epoch.0 += 1;
        }
        if 0 <= record.leader_recovery_state {
            partition.is_recovering = record.leader_recovery_state != 0;
        }
        partition.epoch += 1;
        Ok(())
    }

    fn on_remove_topic(&mut self, id: Uuid) -> Result<(), ReplayError> {
        let name = self.names.remove(&id).ok_or(ReplayError::NoTopic(id))?;
        self.topics.remove(&name);
        let folded = fold(&name);
        if let Some(names) = self.folded.get_mut(folded.as_str()) {
            names.retain(|other| *other != name);
            if names.is_empty() {
                self.folded.remove(folded.as_str());
            }
        }
        self.settings.remove(&Resource::topic(&name));
        Ok(())
    }

    fn on_config(&mut self, record: &ConfigRecord) -> Result<(), ReplayError> {
        let kind = ResourceKind::from_wire(record.resource_type)
            .ok_or(ReplayError::Resource(record.resource_type))?;
        let resource = Resource {
            kind,
            name: record.resource_name.clone(),
        };
        if !self.settings.contains(&resource) {
            self.settings.insert(resource.clone(), Arc::default());
        }
        let Some(overrides) = self.settings.get_mut(&resource).map(Arc::make_mut) else {
            return Ok(());
        };
        match &record.value {
            Some(value) => drop(overrides.insert(record.name.clone(), value.clone())),
            None => drop(overrides.remove(&record.name)),
        }
        if overrides.is_empty() {
            self.settings.remove(&resource);
        }
        Ok(())
    }

    fn on_register_broker(&mut self, record: &RegisterBrokerRecord) {
        let endpoint = |end: &wire::metadata::register_broker_record::BrokerEndpoint| Endpoint {
            name: end.name.clone(),
            host: end.host.clone(),
            port: end.port,
        };
        let registration = Registration {
            id: BrokerId(record.broker_id),
            epoch: record.broker_epoch,
            incarnation: record.incarnation_id,
            endpoints: record.end_points.iter().map(endpoint).collect(),
            rack: record.rack.clone(),
            is_fenced: record.fenced,
            log_dirs: record.log_dirs.clone(),
            cordoned_log_dirs: Vec::new(),
        };
        self.brokers.insert(registration.id, Arc::new(registration));
    }

    fn broker_mut(&mut self, id: i32) -> Result<&mut Registration, ReplayError> {
        let id = BrokerId(id);
        let broker = self.brokers.get_mut(&id);
        Ok(Arc::make_mut(broker.ok_or(ReplayError::NoBroker(id))?))
    }

    /// Of a candidate only: no record says so yet.
    pub(crate) fn set_log_dirs(&mut self, broker: BrokerId, failed: &[Uuid], cordoned: &[Uuid]) {
        if let Some(registration) = self.brokers.get_mut(&broker) {
            let registration = Arc::make_mut(registration);
            registration.log_dirs.retain(|dir| !failed.contains(dir));
            registration.cordoned_log_dirs = cordoned.to_vec();
        }
    }

    fn on_registration_change(
        &mut self,
        record: &BrokerRegistrationChangeRecord,
    ) -> Result<(), ReplayError> {
        let broker = self.broker_mut(record.broker_id)?;
        match record.fenced {
            1 => broker.is_fenced = true,
            -1 => broker.is_fenced = false,
            _ => {}
        }
        if !record.log_dirs.is_empty() {
            broker.log_dirs.clone_from(&record.log_dirs);
        }
        Ok(())
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
