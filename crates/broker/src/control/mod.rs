//! This node in the quorum that keeps the metadata log, and in the cluster that the metadata describe.
//!
//! The machine of the quorum is stepped under the lock of the metadata plan, by whatever thread has an event for it. Its wishes
//! beyond the log come here as orders, which one worker carries out in their order: it writes the vote file, talks to other nodes,
//! and reports what is synced. The active controller is in [`controller`], this broker's own life in [`lifecycle`].

mod alarms;
pub(crate) mod boot;
pub(crate) mod broker_epoch_file;
mod change_lines;
pub(crate) mod clocks;
pub(crate) mod command;
pub(crate) mod controller;
pub(crate) mod envelope;
pub(crate) mod find_cluster;
pub(crate) mod lifecycle;
pub(crate) mod log;
pub(crate) mod log_read;
mod plan;
mod replay;
mod sight;
pub(crate) mod snapshot_files;
pub(crate) mod vote_file;

use model::PartitionIndex;

pub use boot::BootError;
pub(crate) use lifecycle::leads_for;
pub(crate) use log::{MetadataLog, Parts};
pub(crate) use plan::{Plan, SnapshotTimer};
pub use replay::Unfit;
pub(crate) use replay::replay;

/// The metadata log is partition 0 of a topic that no client sees.
pub(crate) const METADATA_PARTITION: PartitionIndex = PartitionIndex(0);
pub(crate) const METADATA_TOPIC: &str = "__cluster_metadata";

#[cfg(test)]
mod tests;
