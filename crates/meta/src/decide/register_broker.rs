//! A broker says who it is: at the first start, and whenever an address, its rack or its directories changed.
//!
//! Owns the level of the metadata format too: the first broker finalizes it.

use model::BrokerId;
use wire::Uuid;
use wire::metadata::register_broker_record::{BrokerEndpoint, BrokerFeature};
use wire::metadata::{FeatureLevelRecord, PartitionChangeRecord, RegisterBrokerRecord};

use crate::image::{Endpoint, Image};
use crate::record::Record;

/// The feature that counts versions of the records.
pub const METADATA_VERSION: &str = "metadata.version";
/// Kafka 3.3 to 4.3.
pub const METADATA_LEVELS: std::ops::RangeInclusive<i16> = 7..=30;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    pub id: BrokerId,
    /// Of this run of the process.
    pub incarnation: Uuid,
    pub endpoints: Vec<Endpoint>,
    pub rack: Option<String>,
    pub log_dirs: Vec<Uuid>,
}

/// Records that make the image say what `broker` says; none when it does already.
#[must_use]
pub fn register_broker(image: &Image, broker: &Broker) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    if !image.features().any(|(name, _)| name == METADATA_VERSION) {
        let feature_level = *METADATA_LEVELS.end();
        records.push(
            FeatureLevelRecord {
                name: METADATA_VERSION.into(),
                feature_level,
            }
            .into(),
        );
    }
    let is_known = image.broker(broker.id).is_some_and(|known| {
        !known.is_fenced
            && known.endpoints == broker.endpoints
            && known.rack == broker.rack
            && known.log_dirs == broker.log_dirs
    });
    if !is_known {
        let end_points = broker.endpoints.iter().map(|end| BrokerEndpoint {
            name: end.name.clone(),
            host: end.host.clone(),
            port: end.port,
            security_protocol: 0,
        });
        let record = RegisterBrokerRecord {
            broker_id: broker.id.0,
            incarnation_id: broker.incarnation,
            broker_epoch: image.end() + i64::try_from(records.len()).unwrap_or(0),
            end_points: end_points.collect(),
            features: vec![BrokerFeature {
                name: METADATA_VERSION.into(),
                min_supported_version: *METADATA_LEVELS.start(),
                max_supported_version: *METADATA_LEVELS.end(),
            }],
            rack: broker.rack.clone(),
            fenced: false,
            log_dirs: broker.log_dirs.clone(),
            ..RegisterBrokerRecord::default()
        };
        records.push(record.into());
    }
    records
}

/// Records that begin a new leader epoch in every partition `broker` leads: after a crash, so that what was cut off the end of a
/// log can be told from what comes after.
#[must_use]
pub fn begin_leader_epochs(image: &Image, broker: BrokerId) -> Vec<Record> {
    let of_topic = |topic: &std::sync::Arc<crate::image::Topic>| {
        let topic_id = topic.id;
        let led = topic
            .partitions
            .iter()
            .enumerate()
            .filter(|(_, partition)| partition.leader == broker);
        let change = |at: usize| PartitionChangeRecord {
            partition_id: i32::try_from(at).unwrap_or(i32::MAX),
            topic_id,
            leader: broker.0,
            ..PartitionChangeRecord::default()
        };
        led.map(|(at, _)| Record::from(change(at)))
            .collect::<Vec<Record>>()
    };
    image.topics().flat_map(of_topic).collect()
}
