//! The records of a controller about itself: its registration (KIP-919), and the first records once it is the active one.
//!
//! Owns the order of Kafka: a transaction that the controller before left open is aborted before anything else is decided, and an
//! empty log begins with the features of the version that the cluster was made for, in one transaction where there are any.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use model::BrokerId;
use wire::Uuid;
use wire::metadata::register_controller_record::{ControllerEndpoint, ControllerFeature};
use wire::metadata::{
    AbortTransactionRecord, BeginTransactionRecord, ConfigRecord, EndTransactionRecord,
    FeatureLevelRecord, RegisterControllerRecord, UnregisterControllerRecord,
};

use crate::image::{Endpoint, Image, Levels, ResourceKind};
use crate::record::Record;
use crate::versions::{
    ELR_VERSION, FEATURE_LEVELS, KRAFT_VERSION, METADATA_VERSION, MetadataVersion, initial_level,
};

/// The description that a controller gives of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteringController {
    pub id: BrokerId,
    /// Of this run of the process.
    pub incarnation: Uuid,
    pub endpoints: Vec<Endpoint>,
    pub features: BTreeMap<String, Levels>,
}

/// Why a controller is not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnfitController {
    #[error("The current MetadataVersion is too old to support controller registrations.")]
    TooOld,
    /// No node has such a number, and its record would stay for good. Kafka writes it.
    #[error("{0} is no id of a controller.")]
    Id(BrokerId),
}

/// Registers a controller; again under the same id is an amendment.
pub fn register_controller(
    image: &Image,
    controller: &RegisteringController,
) -> Result<Record, UnfitController> {
    if image.metadata_version() < MetadataVersion::V3_7_IV0 {
        return Err(UnfitController::TooOld);
    }
    if controller.id.0 < 0 {
        return Err(UnfitController::Id(controller.id));
    }
    let end_points = controller.endpoints.iter().map(|end| ControllerEndpoint {
        name: end.name.clone(),
        host: end.host.clone(),
        port: end.port,
        security_protocol: end.protocol.0,
    });
    let features = controller.features.iter();
    let features = features.map(|(name, levels)| ControllerFeature {
        name: name.clone(),
        min_supported_version: levels.min,
        max_supported_version: levels.max,
    });
    Ok(RegisterControllerRecord {
        controller_id: controller.id.0,
        incarnation_id: controller.incarnation,
        zk_migration_ready: false,
        end_points: end_points.collect(),
        features: features.collect(),
    }
    .into())
}

/// Why a controller is not unregistered; the texts are those of Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnregisterControllerError {
    #[error("Controller cannot unregister itself while it is active.")]
    Active,
    #[error("The current MetadataVersion is too old to support controller unregistration.")]
    TooOld,
    #[error("Controller ID {0} is not currently registered.")]
    NotRegistered(BrokerId),
}

/// Takes a controller off the list; `active` decides.
pub fn unregister_controller(
    image: &Image,
    active: BrokerId,
    controller: BrokerId,
) -> Result<Record, UnregisterControllerError> {
    if controller == active {
        return Err(UnregisterControllerError::Active);
    }
    if image.metadata_version() < MetadataVersion::V4_4_IV2 {
        return Err(UnregisterControllerError::TooOld);
    }
    if !image.controllers().any(|known| known.id == controller) {
        return Err(UnregisterControllerError::NotRegistered(controller));
    }
    let controller_id = controller.0;
    Ok(UnregisterControllerRecord { controller_id }.into())
}

/// The first records of a cluster of `version`: of each feature in `supported` the level that such a cluster begins with.
/// `min_isr` is the controller's `min.insync.replicas`: with eligible leaders it holds for the whole cluster (KIP-966).
#[must_use]
pub fn bootstrap(
    version: MetadataVersion,
    supported: &[(&str, RangeInclusive<i16>)],
    min_isr: usize,
) -> Vec<Record> {
    let others = FEATURE_LEVELS.into_iter().map(|(name, _)| name);
    // Its level is in control records, not in this log.
    let others = others.filter(|name| *name != KRAFT_VERSION);
    let levels = std::iter::once(METADATA_VERSION).chain(others).map(|name| {
        let most = supported.iter().find(|(known, _)| *known == name);
        let most = most.map_or(0, |(_, levels)| *levels.end());
        (name, initial_level(name, version).min(most))
    });
    let levels: Vec<(&str, i16)> = levels.filter(|(_, level)| 0 < *level).collect();
    let has_eligible = levels.iter().any(|(name, _)| *name == ELR_VERSION);
    let level = |(name, feature_level): (&str, i16)| {
        let name = name.to_owned();
        FeatureLevelRecord {
            name,
            feature_level,
        }
        .into()
    };
    let mut records: Vec<Record> = levels.into_iter().map(level).collect();
    if has_eligible {
        let minimum = ConfigRecord {
            resource_type: ResourceKind::Broker as i8,
            resource_name: String::new(),
            name: "min.insync.replicas".into(),
            value: Some(min_isr.to_string()),
        };
        records.push(minimum.into());
    }
    records
}

/// Records that a controller writes when it has just become the active one; `image` is that of all committed batches, with a
/// transaction that is still open. On an empty log they are those of `bootstrap`.
#[must_use]
pub fn activate(image: &Image, bootstrap: &[Record]) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    if image.is_in_transaction() {
        let reason = Some("Controller failover".to_owned());
        records.push(AbortTransactionRecord { reason }.into());
    }
    let is_empty = !image.features().any(|(name, _)| name == METADATA_VERSION);
    if !is_empty || bootstrap.is_empty() {
        return records;
    }
    let version = bootstrap.iter().find_map(level_of);
    let has_transactions = version.is_some_and(|version| MetadataVersion::V3_6_IV1 <= version);
    if has_transactions {
        let name = Some("Bootstrap records".to_owned());
        records.push(BeginTransactionRecord { name }.into());
    }
    records.extend_from_slice(bootstrap);
    if has_transactions {
        records.push(EndTransactionRecord::default().into());
    }
    records
}

fn level_of(record: &Record) -> Option<MetadataVersion> {
    match record {
        Record::FeatureLevel(level) if level.name == METADATA_VERSION => {
            MetadataVersion::from_level(level.feature_level)
        }
        _ => None,
    }
}
