//! The state that the metadata log describes, as of the end of one of its batches.
//!
//! Owns every view: features, brokers, controllers, topics, settings, quotas, producer ids, access rules, credentials, tokens.
//! `replay` is the only mutator, and the same batches give the same image on every node. Clones share everything that does not
//! change, so an image is published by cloning, replaying and swapping, and [`Delta`](crate::Delta) finds what changed without a
//! walk. A record that contradicts the image is an error: the log is damaged or not ours.
//!
//! The records of a metadata transaction (KIP-868) are held back until its end, and dropped if it is aborted.

mod cluster;
mod resource;
mod security;
mod topics;

use std::sync::Arc;

use config::Overrides;
use model::{BrokerId, LeaderEpoch, Offset, PartitionIndex, ProducerId, Timestamp};
use wire::Uuid;
use wire::metadata::{
    AccessControlEntryRecord, DelegationTokenRecord, FeatureLevelRecord, ProducerIdsRecord,
    UserScramCredentialRecord,
};

pub use cluster::{Controller, Endpoint, Levels, Registration, SecurityProtocol};
pub use resource::{BROKER_LOGGER, Resource, ResourceKind};
pub use security::{Credential, Entity, Quotas};
pub(crate) use topics::SAME_LEADER;
pub use topics::{NO_LEADER, Partition, Topic};

use crate::record::Record;
use crate::shared_map::SharedMap;
use crate::versions::{KRAFT_VERSION, METADATA_VERSION, MetadataVersion};
use topics::Topics;

/// Where a batch of records stands in the metadata log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The offset of its first record.
    pub base: Offset,
    /// The epoch of the controller that wrote it.
    pub epoch: LeaderEpoch,
    /// When it was written.
    pub time: Timestamp,
}

/// The parts of an image that are read apart from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    Features,
    Brokers,
    Controllers,
    Topics,
    /// Topics that came or went.
    Names,
    Configs,
    Quotas,
    ProducerIds,
    Acls,
    Credentials,
    Tokens,
}

const VIEWS_COUNT: usize = View::Tokens as usize + 1;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    #[error("topic {0} is created twice")]
    TopicTwice(String),
    #[error("no topic has the id {0}")]
    NoTopic(Uuid),
    #[error("there is no topic {0}")]
    NoTopicNamed(String),
    #[error("topic {topic} has {count} partitions, and the record names {partition}")]
    NoPartition {
        topic: String,
        partition: i32,
        count: usize,
    },
    #[error("broker {0} is not registered")]
    NoBroker(BrokerId),
    #[error("controller {0} is not registered")]
    NoController(BrokerId),
    #[error("broker {broker} has the epoch {known}, and the record names {got}")]
    BrokerEpoch {
        broker: BrokerId,
        known: i64,
        got: i64,
    },
    #[error("{field} of broker {broker} becomes {value}, which is not known")]
    BrokerState {
        broker: BrokerId,
        field: &'static str,
        value: i8,
    },
    #[error("settings of a resource of type {0}")]
    Resource(i8),
    #[error(
        "metadata.version {0} is not known: a newer version of the software wrote it, or one before Kafka 3.3"
    )]
    MetadataVersion(i16),
    #[error("producer ids go back from {known} to {got}")]
    ProducerIds { known: i64, got: i64 },
    #[error("no access rule has the id {0}")]
    NoAcl(Uuid),
    #[error("a transaction begins within another")]
    TransactionTwice,
    #[error("snapshot: it ends within a transaction")]
    TransactionOpen,
    #[error("a transaction ends that never began")]
    NoTransaction,
    #[error("a batch at offset {base} comes after offset {end}")]
    Backwards { base: i64, end: i64 },
}

#[derive(Clone, Debug)]
pub struct Image {
    /// A feature that was switched off stays here with level 0: a start must not switch it on again.
    pub(crate) features: SharedMap<Arc<str>, i16>,
    pub(crate) brokers: SharedMap<BrokerId, Arc<Registration>>,
    pub(crate) controllers: SharedMap<BrokerId, Arc<Controller>>,
    pub(crate) topics: Topics,
    pub(crate) settings: SharedMap<Resource, Arc<Overrides>>,
    pub(crate) quotas: SharedMap<Entity, Arc<Quotas>>,
    next_producer_id: i64,
    pub(crate) acls: SharedMap<Uuid, Arc<AccessControlEntryRecord>>,
    pub(crate) credentials: SharedMap<Credential, Arc<UserScramCredentialRecord>>,
    pub(crate) tokens: SharedMap<Arc<str>, Arc<DelegationTokenRecord>>,
    /// The end of the log when each view last changed.
    generations: [i64; VIEWS_COUNT],
    end: i64,
    epoch: LeaderEpoch,
    time: Timestamp,
    /// The image as it will be when the open transaction ends.
    ahead: Option<Arc<Image>>,
}

impl Default for Image {
    fn default() -> Image {
        Image {
            features: SharedMap::default(),
            brokers: SharedMap::default(),
            controllers: SharedMap::default(),
            topics: Topics::default(),
            settings: SharedMap::default(),
            quotas: SharedMap::default(),
            next_producer_id: 0,
            acls: SharedMap::default(),
            credentials: SharedMap::default(),
            tokens: SharedMap::default(),
            generations: [0; VIEWS_COUNT],
            end: 0,
            epoch: LeaderEpoch(0),
            time: Timestamp(-1),
            ahead: None,
        }
    }
}

/// Two images are equal that say the same as of the same place, however they came to be. Generations say only when.
impl PartialEq for Image {
    fn eq(&self, other: &Image) -> bool {
        self.features == other.features
            && self.brokers == other.brokers
            && self.controllers == other.controllers
            && self.topics == other.topics
            && self.settings == other.settings
            && self.quotas == other.quotas
            && self.next_producer_id == other.next_producer_id
            && self.acls == other.acls
            && self.credentials == other.credentials
            && self.tokens == other.tokens
            && (self.end, self.epoch, self.time) == (other.end, other.epoch, other.time)
            && self.ahead == other.ahead
    }
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

    /// In the order of their numbers.
    pub fn controllers(&self) -> impl Iterator<Item = &Controller> {
        self.controllers.values().map(Arc::as_ref)
    }

    #[must_use]
    pub fn topic(&self, name: &str) -> Option<&Arc<Topic>> {
        self.topics.by_name.get(name)
    }

    #[must_use]
    pub fn topic_by_id(&self, id: Uuid) -> Option<&Arc<Topic>> {
        self.topic(self.topics.names.get(&id)?)
    }

    /// The directory of the replica on `broker`, if it has one.
    #[must_use]
    pub fn directory(&self, of: (Uuid, PartitionIndex), broker: BrokerId) -> Option<Uuid> {
        let partitions = &self.topic_by_id(of.0)?.partitions;
        partitions
            .get(usize::try_from(of.1.0).ok()?)?
            .directory(broker)
    }

    /// In the order of their names.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.topics.by_name.values()
    }

    #[must_use]
    pub fn topics_count(&self) -> usize {
        self.topics.by_name.len()
    }

    /// Topics whose name is `from` or comes after it.
    pub fn topics_from<'a>(&'a self, from: &str) -> impl Iterator<Item = &'a Arc<Topic>> + use<'a> {
        self.topics.by_name.from(from).map(|(_, topic)| topic)
    }

    /// The topic whose name differs from `name` in `.` and `_` at most.
    #[must_use]
    pub fn colliding(&self, name: &str) -> Option<&Arc<str>> {
        self.topics.colliding(name)
    }

    /// Dynamic settings; the same empty ones for all that have none.
    #[must_use]
    pub fn overrides(&self, resource: &Resource) -> Arc<Overrides> {
        let overrides = self.settings.get(resource);
        overrides.unwrap_or(&resource::NOTHING).clone()
    }

    /// The resources with dynamic settings, in order of kind and name.
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

    /// The format that records are written in: the finalized one, the newest where a log begins.
    #[must_use]
    pub fn metadata_version(&self) -> MetadataVersion {
        let level = self.features.get(METADATA_VERSION);
        let version = level.and_then(|level| MetadataVersion::from_level(*level));
        version.unwrap_or(MetadataVersion::LATEST)
    }

    /// The first producer id that no broker has been given.
    #[must_use]
    pub fn next_producer_id(&self) -> ProducerId {
        ProducerId(self.next_producer_id)
    }

    /// Limits of clients, by what they hold for.
    pub fn quotas(&self) -> impl Iterator<Item = (&Entity, &Quotas)> {
        let quotas = self.quotas.iter();
        quotas.map(|(entity, quotas)| (entity, quotas.as_ref()))
    }

    /// In the order of their ids.
    pub fn acls(&self) -> impl Iterator<Item = &AccessControlEntryRecord> {
        self.acls.values().map(Arc::as_ref)
    }

    /// SCRAM credentials, in the order of mechanism and user.
    pub fn credentials(&self) -> impl Iterator<Item = &UserScramCredentialRecord> {
        self.credentials.values().map(Arc::as_ref)
    }

    /// Delegation tokens, in the order of their ids.
    pub fn tokens(&self) -> impl Iterator<Item = &DelegationTokenRecord> {
        self.tokens.values().map(Arc::as_ref)
    }

    #[must_use]
    pub fn token(&self, id: &str) -> Option<&DelegationTokenRecord> {
        self.tokens.get(id).map(Arc::as_ref)
    }

    /// The offset behind the last batch: the one that the next batch will have, and broker epochs come from it.
    #[must_use]
    pub fn end(&self) -> i64 {
        self.end
    }

    /// The epoch of the last batch.
    #[must_use]
    pub fn last_epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// When the last batch was written.
    #[must_use]
    pub fn last_time(&self) -> Timestamp {
        self.time
    }

    /// Where a batch stands that comes next, of the same controller.
    #[must_use]
    pub fn next_place(&self) -> Place {
        Place {
            base: Offset(self.end),
            epoch: self.epoch,
            time: self.time,
        }
    }

    /// `end` as it was when a view last changed, or later.
    #[must_use]
    pub fn generation(&self, view: View) -> i64 {
        self.generations[view as usize]
    }

    /// The value of `end` when a topic last came or went.
    #[must_use]
    pub fn names_end(&self) -> i64 {
        self.generation(View::Names)
    }

    /// The records of a transaction are being held back.
    #[must_use]
    pub fn is_in_transaction(&self) -> bool {
        self.ahead.is_some()
    }

    /// The image as it will be when the open transaction ends; this one when none is open.
    #[must_use]
    pub fn ahead(&self) -> &Image {
        self.ahead.as_deref().unwrap_or(self)
    }

    /// Replays a batch. After an error the image is of no use.
    pub fn replay(&mut self, place: Place, records: &[Record]) -> Result<(), ReplayError> {
        self.pass_over(place)?;
        for record in records {
            self.end += 1;
            self.on_record(record)?;
        }
        Ok(())
    }

    /// Notes a batch without records of this log (a control batch), whose last offset is the one before `place.base`.
    pub fn pass_over(&mut self, place: Place) -> Result<(), ReplayError> {
        let (base, end) = (place.base.0, self.end);
        if base < end {
            return Err(ReplayError::Backwards { base, end });
        }
        (self.end, self.epoch, self.time) = (base, place.epoch, place.time);
        Ok(())
    }

    /// The image is that of a snapshot: it was learned at once, as of one place in the log.
    pub(crate) fn settle_at(&mut self, place: Place) {
        (self.end, self.epoch, self.time) = (place.base.0, place.epoch, place.time);
        self.generations = [self.end; VIEWS_COUNT];
    }

    fn on_record(&mut self, record: &Record) -> Result<(), ReplayError> {
        let is_open = self.ahead.is_some();
        match record {
            Record::BeginTransaction(_) if is_open => Err(ReplayError::TransactionTwice),
            Record::BeginTransaction(_) => {
                self.ahead = Some(Arc::new(self.clone()));
                Ok(())
            }
            Record::EndTransaction(_) | Record::AbortTransaction(_) => {
                let ahead = self.ahead.take().ok_or(ReplayError::NoTransaction)?;
                if matches!(record, Record::EndTransaction(_)) {
                    let now = self.next_place();
                    *self = Arc::unwrap_or_clone(ahead);
                    (self.end, self.epoch, self.time) = (now.base.0, now.epoch, now.time);
                }
                Ok(())
            }
            _ => {
                let end = self.end;
                match &mut self.ahead {
                    Some(ahead) => Arc::make_mut(ahead).apply(end, record),
                    None => self.apply(end, record),
                }
            }
        }
    }

    fn apply(&mut self, end: i64, record: &Record) -> Result<(), ReplayError> {
        let views = self.change(record)?;
        for view in views {
            self.generations[*view as usize] = end;
        }
        Ok(())
    }

    /// Gives the views that the record is of.
    fn change(&mut self, record: &Record) -> Result<&'static [View], ReplayError> {
        let views: &[View] = match record {
            Record::Topic(record) => {
                self.topics.on_topic(record)?;
                &[View::Topics, View::Names]
            }
            Record::Partition(record) => {
                self.topics.on_partition(record)?;
                &[View::Topics]
            }
            Record::PartitionChange(record) => {
                self.topics.on_partition_change(record)?;
                &[View::Topics]
            }
            Record::ClearElr(record) => {
                self.topics.on_clear_elr(&record.topic_name)?;
                &[View::Topics]
            }
            Record::RemoveTopic(record) => {
                let name = self.topics.on_remove_topic(record.topic_id)?;
                let had = self.settings.remove(&Resource::topic(&name)).is_some();
                let views = &[View::Topics, View::Names, View::Configs];
                if had { views } else { &views[..2] }
            }
            Record::Config(record) => {
                self.on_config(record)?;
                &[View::Configs]
            }
            Record::RegisterBroker(record) => {
                self.on_register_broker(record);
                &[View::Brokers]
            }
            Record::BrokerRegistrationChange(record) => {
                self.on_registration_change(record)?;
                &[View::Brokers]
            }
            Record::FenceBroker(record) => {
                self.broker_mut(record.id, record.epoch)?.is_fenced = true;
                &[View::Brokers]
            }
            Record::UnfenceBroker(record) => {
                self.broker_mut(record.id, record.epoch)?.is_fenced = false;
                &[View::Brokers]
            }
            Record::UnregisterBroker(record) => {
                self.broker_mut(record.broker_id, record.broker_epoch)?;
                self.brokers.remove(&BrokerId(record.broker_id));
                &[View::Brokers]
            }
            Record::RegisterController(record) => {
                self.on_register_controller(record);
                &[View::Controllers]
            }
            Record::UnregisterController(record) => {
                let id = BrokerId(record.controller_id);
                let removed = self.controllers.remove(&id);
                removed.ok_or(ReplayError::NoController(id))?;
                &[View::Controllers]
            }
            Record::FeatureLevel(record) => self.on_feature_level(record)?,
            Record::ProducerIds(record) => {
                self.on_producer_ids(record)?;
                &[View::ProducerIds]
            }
            Record::ClientQuota(record) => {
                self.on_client_quota(record);
                &[View::Quotas]
            }
            Record::AccessControlEntry(record) => {
                self.acls.insert(record.id, Arc::new(record.clone()));
                &[View::Acls]
            }
            Record::RemoveAccessControlEntry(record) => {
                let removed = self.acls.remove(&record.id);
                removed.ok_or(ReplayError::NoAcl(record.id))?;
                &[View::Acls]
            }
            Record::UserScramCredential(record) => {
                let of = Credential::new(record.mechanism, &record.name);
                self.credentials.insert(of, Arc::new(record.clone()));
                &[View::Credentials]
            }
            Record::RemoveUserScramCredential(record) => {
                let of = Credential::new(record.mechanism, &record.name);
                self.credentials.remove(&of);
                &[View::Credentials]
            }
            Record::DelegationToken(record) => {
                let id = record.token_id.as_str().into();
                self.tokens.insert(id, Arc::new(record.clone()));
                &[View::Tokens]
            }
            Record::RemoveDelegationToken(record) => {
                self.tokens.remove(record.token_id.as_str());
                &[View::Tokens]
            }
            // The mark of a migration that ended before Kafka 4.0; nothing rests on it.
            Record::ZkMigrationState(_) | Record::NoOp(_) => &[],
            Record::BeginTransaction(_)
            | Record::EndTransaction(_)
            | Record::AbortTransaction(_) => &[],
        };
        Ok(views)
    }

    fn on_feature_level(
        &mut self,
        record: &FeatureLevelRecord,
    ) -> Result<&'static [View], ReplayError> {
        let level = record.feature_level;
        if record.name == METADATA_VERSION && MetadataVersion::from_level(level).is_none() {
            return Err(ReplayError::MetadataVersion(level));
        }
        // Its level is in control records; Kafka once wrote it here too (KAFKA-18979).
        if record.name == KRAFT_VERSION {
            return Ok(&[]);
        }
        self.features.insert(record.name.as_str().into(), level);
        Ok(&[View::Features])
    }

    fn on_producer_ids(&mut self, record: &ProducerIdsRecord) -> Result<(), ReplayError> {
        let (known, got) = (self.next_producer_id, record.next_producer_id);
        if got <= known && (0 < known || got < 0) {
            return Err(ReplayError::ProducerIds { known, got });
        }
        self.next_producer_id = got;
        Ok(())
    }
}
