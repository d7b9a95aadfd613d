//! A broker says who it is: at the first start, and whenever an address, its rack or its directories changed.
//!
//! Owns the level of the metadata format too: the first broker finalizes it.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use model::BrokerId;
use wire::Uuid;
use wire::metadata::{FeatureLevelRecord, PartitionChangeRecord, RegisterBrokerRecord};

use super::registration::{endpoints, features};
use crate::image::{Endpoint, Image, Levels, Topic};
use crate::record::Record;
use crate::versions::KRAFT_VERSION;
use crate::versions::MetadataVersion;
pub use crate::versions::{ELR_VERSION, GROUP_VERSION, METADATA_VERSION, TRANSACTION_VERSION};

/// Kafka 3.3 to 4.4.
pub const METADATA_LEVELS: RangeInclusive<i16> =
    MetadataVersion::OLDEST.level()..=MetadataVersion::LATEST.level();
/// The features of this broker, the format of the records first. A cluster of several begins with the last level of each; a broker that
/// is alone finalizes those that mean something to it.
pub const FEATURES: [(&str, RangeInclusive<i16>); 4] = [
    (METADATA_VERSION, METADATA_LEVELS),
    (GROUP_VERSION, 0..=1),
    (TRANSACTION_VERSION, 0..=2),
    (ELR_VERSION, 0..=1),
];

/// Levels of `kraft.version`. The quorum keeps it in its own records, so no metadata record sets it.
pub const KRAFT_LEVELS: RangeInclusive<i16> = 0..=1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    pub id: BrokerId,
    /// Of this run of the process.
    pub incarnation: Uuid,
    pub endpoints: Vec<Endpoint>,
    pub rack: Option<String>,
    pub log_dirs: Vec<Uuid>,
}

/// [`FEATURES`] and `kraft.version` as a registration has them.
#[must_use]
pub fn supported() -> BTreeMap<String, Levels> {
    let all = FEATURES.into_iter().chain([(KRAFT_VERSION, KRAFT_LEVELS)]);
    let levels = all.map(|(name, levels)| {
        let (min, max) = (*levels.start(), *levels.end());
        (name.to_owned(), Levels { min, max })
    });
    levels.collect()
}

/// Records that make the image say what `broker` says; none when it does already.
#[must_use]
pub fn register_broker(image: &Image, broker: &Broker) -> Vec<Record> {
    let missing = FEATURES.into_iter().filter(|(name, _)| {
        let mut finalized = image.features();
        *name != ELR_VERSION && !finalized.any(|(known, _)| known == *name)
    });
    let mut records: Vec<Record> = missing
        .map(|(name, levels)| {
            let record = FeatureLevelRecord {
                name: name.into(),
                feature_level: *levels.end(),
            };
            record.into()
        })
        .collect();
    let is_known = image.broker(broker.id).is_some_and(|known| {
        !known.is_fenced
            && known.endpoints == broker.endpoints
            && known.rack == broker.rack
            && known.log_dirs == broker.log_dirs
            && known.features == supported()
    });
    if !is_known {
        let record = RegisterBrokerRecord {
            broker_id: broker.id.0,
            incarnation_id: broker.incarnation,
            broker_epoch: image.end() + i64::try_from(records.len()).unwrap_or(0),
            end_points: endpoints(&broker.endpoints),
            features: features(&supported()),
            rack: broker.rack.clone(),
            fenced: false,
            log_dirs: broker.log_dirs.clone(),
            ..RegisterBrokerRecord::default()
        };
        records.push(record.into());
    }
    records
}

/// Records that begin a new leader epoch in each partition that `broker` leads of the topics that may have lost the end of their
/// logs: readers then see that what stands there now is not what they read (KIP-320).
#[must_use]
pub fn begin_leader_epochs(
    image: &Image,
    broker: BrokerId,
    may_have_lost: impl Fn(&Topic) -> bool,
) -> Vec<Record> {
    let of_topic = |topic: &Arc<Topic>| {
        let led = topic.partitions.iter().enumerate();
        let led = led.filter(|(_, partition)| partition.leader == broker);
        let change = |at: usize| PartitionChangeRecord {
            partition_id: i32::try_from(at).unwrap_or(i32::MAX),
            topic_id: topic.id,
            leader: broker.0,
            ..PartitionChangeRecord::default()
        };
        led.map(|(at, _)| Record::from(change(at)))
            .collect::<Vec<Record>>()
    };
    let topics = image.topics().filter(|topic| may_have_lost(topic));
    topics.flat_map(of_topic).collect()
}
