//! Blocks of producer ids: a broker takes a thousand at a time and hands them out without writing.

use std::ops::Range;

use model::BrokerId;
use wire::metadata::ProducerIdsRecord;

use super::alter_partition::check_epoch;
use crate::image::Image;
use crate::record::Record;
use crate::sessions::HeartbeatError;

/// One metadata record for every thousand producers; what is left of a block is lost when the broker stops.
pub const BLOCK: i64 = 1000;

/// The next block, and the record that must be durable before one id of it is used. `None` when ids have run out.
#[must_use]
pub fn allocate_producer_ids(image: &Image, broker: BrokerId) -> Option<(Record, Range<i64>)> {
    let first = image.next_producer_id().0;
    let next = first.checked_add(BLOCK)?;
    let broker_epoch = image.broker(broker).map_or(-1, |broker| broker.epoch);
    let record = ProducerIdsRecord {
        broker_id: broker.0,
        broker_epoch,
        next_producer_id: next,
    };
    Some((record.into(), first..next))
}

/// Why a broker gets no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocateError {
    #[error(transparent)]
    Epoch(#[from] HeartbeatError),
    #[error(
        "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit"
    )]
    Exhausted,
}

/// The same for a broker that asks the controller for it.
pub fn allocate_for(
    image: &Image,
    broker: BrokerId,
    epoch: i64,
) -> Result<(Record, Range<i64>), AllocateError> {
    check_epoch(image, broker, epoch)?;
    allocate_producer_ids(image, broker).ok_or(AllocateError::Exhausted)
}
