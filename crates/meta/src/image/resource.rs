//! Dynamic settings, by the resource that carries them.

use std::sync::{Arc, LazyLock};

use config::Overrides;
use model::BrokerId;
use wire::metadata::ConfigRecord;

use super::{Image, ReplayError};

pub(super) static NOTHING: LazyLock<Arc<Overrides>> = LazyLock::new(Arc::default);

/// A kind on the wire that the metadata do not keep: levels of loggers hold until the broker ends.
pub const BROKER_LOGGER: i8 = 8;

/// The kinds of things that have settings.
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

impl Image {
    pub(super) fn on_config(&mut self, record: &ConfigRecord) -> Result<(), ReplayError> {
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
}
