//! Cluster metadata: records, the image they add up to, and the decisions that write new ones.
//!
//! Owns what exists: brokers, topics, partitions, dynamic settings, producer id blocks, and all else that Kafka's records say. Does
//! no IO and has no clock: the broker writes the records of a decision to the metadata log, replays them when they are durable,
//! and answers then. Records are Kafka's, so that this log can become a KRaft log.

mod candidate;
pub mod checkpoint;
pub mod controller;
pub mod decide;
pub mod delta;
pub mod dir;
pub mod image;
pub mod name;
mod placement;
pub mod record;
pub mod sessions;
mod shared_map;
pub mod snapshot;
mod trouble;
pub mod versions;
mod write;

pub use candidate::Candidate;
pub use delta::Delta;
pub use image::{
    BROKER_LOGGER, Controller, Credential, Endpoint, Entity, Image, Levels, NO_LEADER, Partition,
    Place, Quotas, Registration, ReplayError, Resource, ResourceKind, SecurityProtocol, Topic,
    View,
};
pub use record::{Record, RecordError, RecordWriteError};
pub use shared_map::SharedMap;
pub use trouble::Trouble;
pub use versions::MetadataVersion;
pub use write::{WriteError, Written, write};
