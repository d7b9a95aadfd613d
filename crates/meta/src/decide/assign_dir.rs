//! Where a replica lives on its broker, once it has moved from one log directory to another (KIP-858).

use model::{BrokerId, PartitionIndex};
use wire::Uuid;
use wire::metadata::PartitionChangeRecord;

use crate::dir::MIGRATING;
use crate::image::Image;
use crate::record::Record;

/// The record that says that the replica on `broker` lives in `dir`. `None` when the broker has no such replica.
#[must_use]
pub fn assign_dir(
    image: &Image,
    broker: BrokerId,
    topic: Uuid,
    index: PartitionIndex,
    dir: Uuid,
) -> Option<Record> {
    let at = usize::try_from(index.0).ok()?;
    let partition = image.topic_by_id(topic)?.partitions.get(at)?;
    let replica = partition.replicas.iter().position(|of| *of == broker)?;
    let mut directories = partition.directories.clone();
    // A log from before directories had ids names none.
    directories.resize(partition.replicas.len(), MIGRATING);
    *directories.get_mut(replica)? = dir;
    let change = PartitionChangeRecord {
        partition_id: index.0,
        topic_id: topic,
        directories: Some(directories),
        ..PartitionChangeRecord::default()
    };
    Some(change.into())
}
