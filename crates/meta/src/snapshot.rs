//! An image as records, and back (KIP-630).
//!
//! Owns content and order of a snapshot: that of Kafka, so that either reads what the other wrote. `metadata.version` comes first,
//! for it says how to read the rest. What a view has is in the order of its keys, so equal images give equal records.

use model::BrokerId;
use wire::metadata::client_quota_record::EntityData;
use wire::metadata::register_broker_record::{BrokerEndpoint, BrokerFeature};
use wire::metadata::register_controller_record::{ControllerEndpoint, ControllerFeature};
use wire::metadata::{
    ClientQuotaRecord, ConfigRecord, FeatureLevelRecord, PartitionRecord, ProducerIdsRecord,
    RegisterBrokerRecord, RegisterControllerRecord, TopicRecord,
};

use crate::image::{
    Controller, Entity, Image, Partition, Place, Quotas, Registration, ReplayError, Resource, Topic,
};
use crate::record::Record;
use crate::versions::METADATA_VERSION;

/// Records that make `image` out of nothing, each as the finalized `metadata.version` can say it. Those of an open transaction are
/// not among them: a snapshot is taken between transactions.
pub fn records(image: &Image) -> impl Iterator<Item = Record> {
    let version = image.metadata_version();
    let tokens = image.tokens().map(|token| Record::from(token.clone()));
    let all = features(image)
        .chain(image.brokers().map(broker))
        .chain(image.controllers().map(controller))
        .chain(image.topics().flat_map(|topic| of_topic(topic)))
        .chain(configs(image))
        .chain(quotas(image))
        .chain(producer_ids(image))
        .chain(image.acls().map(|acl| Record::from(acl.clone())))
        .chain(image.credentials().map(|one| Record::from(one.clone())))
        .chain(tokens);
    all.map(move |record| version.fit(&record))
        .filter(move |record| version.record_version(record).is_some())
}

fn features(image: &Image) -> impl Iterator<Item = Record> {
    let version = (METADATA_VERSION, image.metadata_version().level());
    let others = image
        .features()
        .filter(|(name, _)| *name != METADATA_VERSION);
    std::iter::once(version)
        .chain(others)
        .map(|(name, feature_level)| {
            let name = name.to_owned();
            FeatureLevelRecord {
                name,
                feature_level,
            }
            .into()
        })
}

fn broker(broker: &Registration) -> Record {
    let end_points = broker.endpoints.iter().map(|end| BrokerEndpoint {
        name: end.name.clone(),
        host: end.host.clone(),
        port: end.port,
        security_protocol: end.protocol.0,
    });
    let features = broker.features.iter().map(|(name, levels)| BrokerFeature {
        name: name.clone(),
        min_supported_version: levels.min,
        max_supported_version: levels.max,
    });
    RegisterBrokerRecord {
        broker_id: broker.id.0,
        is_migrating_zk_broker: broker.is_migrating,
        incarnation_id: broker.incarnation,
        broker_epoch: broker.epoch,
        end_points: end_points.collect(),
        features: features.collect(),
        rack: broker.rack.clone(),
        fenced: broker.is_fenced,
        in_controlled_shutdown: broker.is_shutting_down,
        log_dirs: broker.log_dirs.clone(),
        cordoned_log_dirs: broker.cordoned_log_dirs.clone(),
    }
    .into()
}

fn controller(controller: &Controller) -> Record {
    let end_points = controller.endpoints.iter().map(|end| ControllerEndpoint {
        name: end.name.clone(),
        host: end.host.clone(),
        port: end.port,
        security_protocol: end.protocol.0,
    });
    let features = controller
        .features
        .iter()
        .map(|(name, levels)| ControllerFeature {
            name: name.clone(),
            min_supported_version: levels.min,
            max_supported_version: levels.max,
        });
    RegisterControllerRecord {
        controller_id: controller.id.0,
        incarnation_id: controller.incarnation,
        zk_migration_ready: controller.is_migration_ready,
        end_points: end_points.collect(),
        features: features.collect(),
    }
    .into()
}

fn of_topic(topic: &Topic) -> impl Iterator<Item = Record> {
    let head = TopicRecord {
        name: topic.name.to_string(),
        topic_id: topic.id,
    };
    let partitions = topic.partitions.iter().enumerate();
    let partitions = partitions.map(|(at, one)| partition(topic, at, one));
    std::iter::once(head.into()).chain(partitions)
}

fn partition(topic: &Topic, at: usize, partition: &Partition) -> Record {
    let numbers = |ids: &[BrokerId]| ids.iter().map(|id| id.0).collect::<Vec<i32>>();
    // Tagged fields, which are there only when they say something.
    let some = |ids: &[BrokerId]| Some(numbers(ids)).filter(|ids| !ids.is_empty());
    PartitionRecord {
        partition_id: i32::try_from(at).unwrap_or(i32::MAX),
        topic_id: topic.id,
        replicas: numbers(&partition.replicas),
        isr: numbers(&partition.isr),
        removing_replicas: numbers(&partition.removing),
        adding_replicas: numbers(&partition.adding),
        leader: partition.leader.0,
        leader_recovery_state: i8::from(partition.is_recovering),
        leader_epoch: partition.leader_epoch.0,
        partition_epoch: partition.epoch,
        directories: partition.directories.clone(),
        eligible_leader_replicas: some(&partition.eligible_leaders),
        last_known_elr: some(&partition.last_known_leaders),
    }
    .into()
}

fn configs(image: &Image) -> impl Iterator<Item = Record> {
    let one = |resource: &Resource, name: &String, value: &String| {
        Record::from(ConfigRecord {
            resource_type: resource.kind as i8,
            resource_name: resource.name.clone(),
            name: name.clone(),
            value: Some(value.clone()),
        })
    };
    image.settings.iter().flat_map(move |(resource, settings)| {
        let settings = settings.iter();
        settings.map(move |(name, value)| one(resource, name, value))
    })
}

fn quotas(image: &Image) -> impl Iterator<Item = Record> {
    let of_entity = |(entity, quotas): (&Entity, &Quotas)| {
        let parts = entity.iter().map(|(kind, name)| EntityData {
            entity_type: kind.clone(),
            entity_name: name.clone(),
        });
        let parts: Vec<EntityData> = parts.collect();
        let records = quotas.iter().map(|(key, value)| {
            Record::from(ClientQuotaRecord {
                entity: parts.clone(),
                key: key.clone(),
                value: *value,
                remove: false,
            })
        });
        records.collect::<Vec<Record>>()
    };
    image.quotas().flat_map(of_entity)
}

/// Of no broker: the block was given out long ago.
fn producer_ids(image: &Image) -> impl Iterator<Item = Record> {
    let next = Some(image.next_producer_id().0).filter(|next| 0 < *next);
    next.into_iter().map(|next_producer_id| {
        ProducerIdsRecord {
            broker_id: -1,
            broker_epoch: -1,
            next_producer_id,
        }
        .into()
    })
}

/// An image in the making from the records of a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Loader {
    image: Image,
}

impl Loader {
    pub fn add(&mut self, records: &[Record]) -> Result<(), ReplayError> {
        self.image.replay(self.image.next_place(), records)
    }

    /// The image as of `place`, the end of what the snapshot stands for.
    pub fn finish(mut self, place: Place) -> Result<Image, ReplayError> {
        if self.image.is_in_transaction() {
            return Err(ReplayError::TransactionOpen);
        }
        self.image.settle_at(place);
        Ok(self.image)
    }
}
