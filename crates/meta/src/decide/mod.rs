//! Decisions: what a request would change, as records and an answer for each thing it names.
//!
//! Each decision is a function of the image, the settings and the request. It changes nothing: the caller writes the records,
//! replays them when they are durable, and only then gives the answers. A request that is refused in part is done in part.

pub mod acls;
pub mod alter_configs;
pub mod alter_partition;
pub mod assign_dir;
pub mod assign_dirs;
pub mod controller;
pub mod create_partitions;
pub mod create_topics;
pub mod delete_topics;
pub(crate) mod draft;
pub mod elect_leaders;
pub mod heartbeat;
pub mod partition_change;
pub mod producer_ids;
pub mod reassign;
pub mod register_broker;
pub mod registration;
pub mod scram;
pub mod update_features;

pub use draft::{TopicRules, TopicSettings};

use std::collections::BTreeSet;

use model::{BrokerId, LeaderEpoch, PartitionIndex};
use wire::Uuid;
use wire::metadata::PartitionRecord;

use crate::image::{Image, Registration};
use crate::placement::Placement;
use crate::record::Record;

/// Records one request may write: 10,000, some 700 KiB of metadata log, so that no request can hold up the rest for long. The
/// client is told and asks for less at a time.
pub const RECORDS_MAX: usize = 10_000;

/// A source of identities that have not been used.
pub trait Uuids {
    fn next(&mut self) -> Uuid;
}

impl<F: FnMut() -> Uuid> Uuids for F {
    fn next(&mut self) -> Uuid {
        self()
    }
}

/// The mistakes of a manual assignment of replicas; the texts are those of Kafka.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssignmentError {
    #[error("The manual partition assignment includes an empty replica list.")]
    Empty,
    #[error("The manual partition assignment includes the broker {0} more than once.")]
    Twice(BrokerId),
    #[error(
        "The manual partition assignment includes broker {0}, but no such broker is registered."
    )]
    NoBroker(BrokerId),
    #[error(
        "The manual partition assignment includes broker {0}, but all its log directories are cordoned."
    )]
    Cordoned(BrokerId),
    #[error(
        "The manual partition assignment includes a partition with {got} replica(s), but this is not consistent with previous partitions, which have {want} replica(s)."
    )]
    Uneven { got: usize, want: usize },
    #[error(
        "All brokers specified in the manual partition assignment for partition {0} are fenced or in controlled shutdown."
    )]
    NoneActive(i32),
}

fn check_assignment(
    image: &Image,
    replicas: &[i32],
    want: Option<usize>,
) -> Result<Vec<BrokerId>, AssignmentError> {
    let mut seen = BTreeSet::new();
    let replicas: Vec<BrokerId> = replicas.iter().map(|id| BrokerId(*id)).collect();
    if replicas.is_empty() {
        return Err(AssignmentError::Empty);
    }
    let mut sorted = replicas.clone();
    sorted.sort_unstable();
    for broker in sorted {
        if !seen.insert(broker) {
            return Err(AssignmentError::Twice(broker));
        }
        if image.broker(broker).is_none() {
            return Err(AssignmentError::NoBroker(broker));
        }
    }
    match want {
        Some(want) if want != replicas.len() => Err(AssignmentError::Uneven {
            got: replicas.len(),
            want,
        }),
        _ => Ok(replicas),
    }
}

/// The same of a partition that does not exist yet: a broker may refuse to take it, and one has to lead it.
fn check_new_assignment(
    image: &Image,
    index: i32,
    replicas: &[i32],
    want: Option<usize>,
) -> Result<Vec<BrokerId>, AssignmentError> {
    let replicas = check_assignment(image, replicas, want)?;
    let is_cordoned = |id: &&BrokerId| image.broker(**id).is_some_and(Registration::is_cordoned);
    if let Some(cordoned) = replicas.iter().find(is_cordoned) {
        return Err(AssignmentError::Cordoned(*cordoned));
    }
    let is_active = |id: &BrokerId| image.broker(*id).is_some_and(Registration::is_active);
    if replicas.iter().any(is_active) {
        Ok(replicas)
    } else {
        Err(AssignmentError::NoneActive(index))
    }
}

/// A partition as it begins: all in sync that are neither fenced nor shutting down, and the first of them leads.
fn new_partition(
    image: &Image,
    placement: &mut Placement<'_>,
    topic_id: Uuid,
    index: PartitionIndex,
    replicas: &[BrokerId],
) -> Record {
    let is_usable = |id: &&BrokerId| image.broker(**id).is_some_and(Registration::is_active);
    let isr: Vec<i32> = replicas.iter().filter(is_usable).map(|id| id.0).collect();
    PartitionRecord {
        partition_id: index.0,
        topic_id,
        replicas: replicas.iter().map(|id| id.0).collect(),
        leader: isr.first().copied().unwrap_or(crate::image::NO_LEADER.0),
        isr,
        leader_epoch: LeaderEpoch(0).0,
        partition_epoch: 0,
        directories: replicas.iter().map(|id| placement.directory(*id)).collect(),
        ..PartitionRecord::default()
    }
    .into()
}
