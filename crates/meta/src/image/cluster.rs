//! The nodes of the cluster as they registered.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::BrokerId;
use wire::Uuid;
use wire::metadata::{
    BrokerRegistrationChangeRecord, RegisterBrokerRecord, RegisterControllerRecord,
};

use super::{Image, ReplayError};

/// How an endpoint is talked to, by its number in the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecurityProtocol(pub i16);

impl SecurityProtocol {
    pub const PLAINTEXT: SecurityProtocol = SecurityProtocol(0);
    pub const SSL: SecurityProtocol = SecurityProtocol(1);
    pub const SASL_PLAINTEXT: SecurityProtocol = SecurityProtocol(2);
    pub const SASL_SSL: SecurityProtocol = SecurityProtocol(3);
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub name: String,
    pub host: String,
    pub port: u16,
    pub protocol: SecurityProtocol,
}

/// The levels of a feature that a node supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    pub min: i16,
    pub max: i16,
}

impl Levels {
    #[must_use]
    pub fn contains(&self, level: i16) -> bool {
        (self.min..=self.max).contains(&level)
    }
}

/// A broker as it registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    pub id: BrokerId,
    pub epoch: i64,
    pub incarnation: Uuid,
    pub endpoints: Vec<Endpoint>,
    pub features: BTreeMap<String, Levels>,
    pub rack: Option<String>,
    pub is_fenced: bool,
    pub is_shutting_down: bool,
    /// Said by brokers that left ZooKeeper, before Kafka 4.0.
    pub is_migrating: bool,
    /// Directories that work.
    pub log_dirs: Vec<Uuid>,
    /// Those of them that take no new partitions (KIP-1066); `None` until the broker has said which.
    pub cordoned_log_dirs: Option<Vec<Uuid>>,
}

impl Registration {
    /// Directories that take new partitions.
    pub(crate) fn open_log_dirs(&self) -> impl Iterator<Item = &Uuid> {
        let cordoned = self.cordoned_log_dirs.as_deref().unwrap_or_default();
        self.log_dirs.iter().filter(|dir| !cordoned.contains(dir))
    }

    /// All directories are cordoned. A broker that named none has one that nobody can name.
    pub(crate) fn is_cordoned(&self) -> bool {
        !self.log_dirs.is_empty() && self.open_log_dirs().next().is_none()
    }

    /// Neither fenced nor on its way down.
    #[must_use]
    pub fn is_active(&self) -> bool {
        !self.is_fenced && !self.is_shutting_down
    }
}

/// A controller as it registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    pub id: BrokerId,
    pub incarnation: Uuid,
    pub is_migration_ready: bool,
    pub endpoints: Vec<Endpoint>,
    pub features: BTreeMap<String, Levels>,
}

impl Image {
    pub(super) fn on_register_broker(&mut self, record: &RegisterBrokerRecord) {
        let endpoints = record.end_points.iter().map(|end| Endpoint {
            name: end.name.clone(),
            host: end.host.clone(),
            port: end.port,
            protocol: SecurityProtocol(end.security_protocol),
        });
        let features = record.features.iter().map(|feature| {
            let (min, max) = (feature.min_supported_version, feature.max_supported_version);
            (feature.name.clone(), Levels { min, max })
        });
        let registration = Registration {
            id: BrokerId(record.broker_id),
            epoch: record.broker_epoch,
            incarnation: record.incarnation_id,
            endpoints: endpoints.collect(),
            features: features.collect(),
            rack: record.rack.clone(),
            is_fenced: record.fenced,
            is_shutting_down: record.in_controlled_shutdown,
            is_migrating: record.is_migrating_zk_broker,
            log_dirs: record.log_dirs.clone(),
            cordoned_log_dirs: record.cordoned_log_dirs.clone(),
        };
        self.brokers.insert(registration.id, Arc::new(registration));
    }

    pub(super) fn on_register_controller(&mut self, record: &RegisterControllerRecord) {
        let endpoints = record.end_points.iter().map(|end| Endpoint {
            name: end.name.clone(),
            host: end.host.clone(),
            port: end.port,
            protocol: SecurityProtocol(end.security_protocol),
        });
        let features = record.features.iter().map(|feature| {
            let (min, max) = (feature.min_supported_version, feature.max_supported_version);
            (feature.name.clone(), Levels { min, max })
        });
        let controller = Controller {
            id: BrokerId(record.controller_id),
            incarnation: record.incarnation_id,
            is_migration_ready: record.zk_migration_ready,
            endpoints: endpoints.collect(),
            features: features.collect(),
        };
        self.controllers.insert(controller.id, Arc::new(controller));
    }

    /// The broker that a record names, of that registration.
    pub(super) fn broker_mut(
        &mut self,
        id: i32,
        epoch: i64,
    ) -> Result<&mut Registration, ReplayError> {
        let id = BrokerId(id);
        let broker = self.brokers.get_mut(&id).ok_or(ReplayError::NoBroker(id))?;
        if broker.epoch != epoch {
            return Err(ReplayError::BrokerEpoch {
                broker: id,
                known: broker.epoch,
                got: epoch,
            });
        }
        Ok(Arc::make_mut(broker))
    }

    pub(super) fn on_registration_change(
        &mut self,
        record: &BrokerRegistrationChangeRecord,
    ) -> Result<(), ReplayError> {
        let unknown = |field, value| ReplayError::BrokerState {
            broker: BrokerId(record.broker_id),
            field,
            value,
        };
        let broker = self.broker_mut(record.broker_id, record.broker_epoch)?;
        match record.fenced {
            1 => broker.is_fenced = true,
            0 => {}
            -1 => broker.is_fenced = false,
            other => return Err(unknown("fenced", other)),
        }
        match record.in_controlled_shutdown {
            1 => broker.is_shutting_down = true,
            0 => {}
            other => return Err(unknown("in controlled shutdown", other)),
        }
        if !record.log_dirs.is_empty() {
            broker.log_dirs.clone_from(&record.log_dirs);
        }
        if let Some(cordoned) = &record.cordoned_log_dirs {
            broker.cordoned_log_dirs = Some(cordoned.clone());
        }
        Ok(())
    }

    /// Of a candidate only: no record says so yet.
    pub(crate) fn set_log_dirs(&mut self, broker: BrokerId, failed: &[Uuid], cordoned: &[Uuid]) {
        if let Some(registration) = self.brokers.get_mut(&broker) {
            let registration = Arc::make_mut(registration);
            registration.log_dirs.retain(|dir| !failed.contains(dir));
            registration.cordoned_log_dirs = Some(cordoned.to_vec());
        }
    }
}
