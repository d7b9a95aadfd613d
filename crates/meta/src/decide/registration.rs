//! A broker registers with the controller (KIP-631): who may, and what becomes of the partitions of its earlier life.
//!
//! Owns the checks of Kafka in their order. A new incarnation is out of every ISR; after an unclean stop it is out of the eligible
//! leaders too (KIP-966). The registration is the last record: a controller that fails before it is asked again.

use std::collections::{BTreeMap, BTreeSet};

use model::BrokerId;
use wire::Uuid;
use wire::metadata::RegisterBrokerRecord;
use wire::metadata::register_broker_record::{BrokerEndpoint, BrokerFeature};

use super::draft::{Cause, Draft, TopicSettings, eligible, in_isr};
use crate::dir;
use crate::image::{Endpoint, Image, Levels, Partition, Registration};
use crate::record::Record;
use crate::versions::{ELR_VERSION, METADATA_VERSION, MetadataVersion};

/// The description that a broker gives of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registering {
    pub id: BrokerId,
    /// Of this run of the process.
    pub incarnation: Uuid,
    pub endpoints: Vec<Endpoint>,
    pub features: BTreeMap<String, Levels>,
    pub rack: Option<String>,
    pub log_dirs: Vec<Uuid>,
    /// The lives before this one since which nothing is lost.
    pub before: Before,
    /// The same of single directories, where others of such a life are missing.
    pub before_in: BTreeMap<Uuid, Before>,
}

/// Earlier lives of a broker since which nothing is lost: the last registration that it heard of, and the runs after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Before {
    pub epoch: Option<i64>,
    /// Of runs that may have been registered without learning their epoch.
    pub incarnations: Vec<Uuid>,
}

impl Before {
    /// True if `known` is the broker in one of these lives.
    fn is_of(&self, known: &Registration) -> bool {
        self.epoch == Some(known.epoch) || self.incarnations.contains(&known.incarnation)
    }
}

/// Why a broker is not registered; the texts are those of Kafka.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    #[error(
        "Another broker is registered with that broker id. If the broker was recently restarted this should self-resolve once the heartbeat manager expires the broker's session."
    )]
    Duplicate,
    #[error("No directories specified in request")]
    NoDirectories,
    #[error("Reserved directory ID in request")]
    ReservedDirectory,
    #[error("Duplicate directory ID in request")]
    DirectoryTwice,
    #[error("Broker {broker} is already registered with directory {dir}")]
    DirectoryOfOther { broker: BrokerId, dir: Uuid },
    #[error("Request features do not contain 'metadata.version'")]
    NoMetadataVersion,
    #[error(
        "Unable to register because the broker does not support finalized version {finalized} of {feature}. The broker wants a version between {min} and {max}, inclusive."
    )]
    Feature {
        feature: String,
        finalized: i16,
        min: i16,
        max: i16,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Registered {
    pub records: Vec<Record>,
    pub epoch: i64,
    pub is_fenced: bool,
    /// The broker lived before, with another incarnation: its session is void.
    pub is_new_life: bool,
}

/// Registers a broker. `has_session`: the registration there is under that id has been heard of lately.
pub fn register(
    image: &Image,
    settings: &dyn TopicSettings,
    broker: &Registering,
    has_session: bool,
) -> Result<Registered, RegisterError> {
    let known = image.broker(broker.id);
    let is_new_life = known.is_none_or(|known| known.incarnation != broker.incarnation);
    if known.is_some() && is_new_life && has_session {
        return Err(RegisterError::Duplicate);
    }
    let has_directories = MetadataVersion::V3_7_IV2 <= image.metadata_version();
    if has_directories {
        check_directories(image, broker)?;
    }
    check_features(image, &broker.features)?;
    let mut record = RegisterBrokerRecord {
        broker_id: broker.id.0,
        incarnation_id: broker.incarnation,
        rack: broker.rack.clone(),
        end_points: endpoints(&broker.endpoints),
        features: features(&broker.features),
        log_dirs: broker.log_dirs.clone(),
        broker_epoch: image.end(),
        fenced: true,
        ..RegisterBrokerRecord::default()
    };
    let mut draft = Draft::new(image, settings);
    match known {
        Some(known) if !is_new_life => {
            record.fenced = known.is_fenced;
            record.in_controlled_shutdown = known.is_shutting_down;
            record.broker_epoch = known.epoch;
        }
        _ => {
            let is_clean = |before: &Before| known.is_some_and(|known| before.is_of(known));
            let clean_dirs = broker.before_in.iter();
            let clean_dirs: BTreeSet<Uuid> = clean_dirs
                .filter(|(dir, before)| broker.log_dirs.contains(dir) && is_clean(before))
                .map(|(dir, _)| *dir)
                .collect();
            end_life(&mut draft, broker.id, |partition| {
                is_clean(&broker.before)
                    || (partition.directory(broker.id)).is_some_and(|dir| clean_dirs.contains(&dir))
            });
        }
    }
    let (epoch, is_fenced) = (record.broker_epoch, record.fenced);
    draft.push(record);
    Ok(Registered {
        records: draft.records(),
        epoch,
        is_fenced,
        is_new_life,
    })
}

/// The life before this one is over for the partitions that had it in sync. Those whose replica `is_clean` stay eligible.
fn end_life(draft: &mut Draft<'_>, broker: BrokerId, is_clean: impl Fn(&Partition) -> bool) {
    let has_eligible = 1 <= draft.image().feature(ELR_VERSION);
    if has_eligible {
        let cause = Cause::Unclean(broker);
        draft.settle(cause, |it| in_isr(broker)(it) && !is_clean(it));
        draft.settle(cause, |it| eligible(broker)(it) && !is_clean(it));
    }
    draft.settle(Cause::Gone(broker), in_isr(broker));
}

fn check_directories(image: &Image, broker: &Registering) -> Result<(), RegisterError> {
    let dirs = &broker.log_dirs;
    if dirs.is_empty() {
        return Err(RegisterError::NoDirectories);
    }
    if dirs.iter().any(|dir| dir::is_reserved(*dir)) {
        return Err(RegisterError::ReservedDirectory);
    }
    if dirs.iter().collect::<BTreeSet<_>>().len() != dirs.len() {
        return Err(RegisterError::DirectoryTwice);
    }
    for dir in dirs {
        let mut others = image.brokers().filter(|other| other.id != broker.id);
        if let Some(other) = others.find(|other| other.log_dirs.contains(dir)) {
            return Err(RegisterError::DirectoryOfOther {
                broker: other.id,
                dir: *dir,
            });
        }
    }
    Ok(())
}

/// Every finalized level has to be one that the broker supports; one that it does not know is 0.
fn check_features(image: &Image, features: &BTreeMap<String, Levels>) -> Result<(), RegisterError> {
    let check = |feature: &str, levels: Levels| {
        let finalized = match feature {
            METADATA_VERSION => image.metadata_version().level(),
            _ => image.feature(feature),
        };
        if levels.contains(finalized) {
            return Ok(());
        }
        Err(RegisterError::Feature {
            feature: feature.to_owned(),
            finalized,
            min: levels.min,
            max: levels.max,
        })
    };
    for (feature, levels) in features {
        check(feature, *levels)?;
    }
    if !features.contains_key(METADATA_VERSION) {
        return Err(RegisterError::NoMetadataVersion);
    }
    let unknown = image.features().map(|(name, _)| name);
    for feature in unknown.filter(|name| !features.contains_key(*name)) {
        check(feature, Levels { min: 0, max: 0 })?;
    }
    Ok(())
}

pub(super) fn endpoints(endpoints: &[Endpoint]) -> Vec<BrokerEndpoint> {
    let endpoint = |end: &Endpoint| BrokerEndpoint {
        name: end.name.clone(),
        host: end.host.clone(),
        port: end.port,
        security_protocol: end.protocol.0,
    };
    endpoints.iter().map(endpoint).collect()
}

pub(super) fn features(features: &BTreeMap<String, Levels>) -> Vec<BrokerFeature> {
    let feature = |(name, levels): (&String, &Levels)| BrokerFeature {
        name: name.clone(),
        min_supported_version: levels.min,
        max_supported_version: levels.max,
    };
    features.iter().map(feature).collect()
}
