//! Cluster metadata: records, the image they add up to, and the decisions that write new ones.
//!
//! Owns what exists: brokers, topics, partitions, dynamic settings, producer id blocks. Does no IO and tells no time: the
//! broker writes the records of a decision to the metadata log, replays them when they are durable, and answers then. Records
//! are Kafka's, so that this log can become a KRaft log.

mod candidate;
pub mod decide;
pub mod delta;
pub mod image;
pub mod name;
mod placement;
pub mod record;
mod shared_map;

pub use candidate::Candidate;
pub use delta::Delta;
pub use image::{
    BROKER_LOGGER, Endpoint, Image, NO_LEADER, Partition, Registration, ReplayError, Resource,
    ResourceKind, Topic,
};
pub use record::{Record, RecordError};
