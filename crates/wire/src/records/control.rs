//! Control batches: the markers that end a transaction.
//!
//! Only brokers write them; `cut` refuses one from a client.

use bytes::Bytes;
use model::{ProducerEpoch, ProducerId, Timestamp};

use super::batch::Batch;
use super::builder::BatchBuilder;
use super::codec::Caps;
use super::record::RecordIter;

/// The content of a control batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlRecord {
    EndTxn(EndTxn),
    /// A kind that data partitions do not act upon (those of the controller's log, or a later one).
    Other {
        kind: i16,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTxn {
    pub committed: bool,
    pub coordinator_epoch: i32,
}

impl ControlRecord {
    /// `None` when the batch is no control batch or cannot be read.
    #[must_use]
    pub fn read(batch: &Batch) -> Option<ControlRecord> {
        if !batch.attributes().is_control() {
            return None;
        }
        let plain = batch.plain(Caps::default()).ok()?;
        let record = RecordIter::new(&plain, batch.record_count()).next()?.ok()?;
        let kind = i16::from_be_bytes(*record.key?.get(2..4)?.first_chunk()?);
        if kind != 0 && kind != 1 {
            return Some(ControlRecord::Other { kind });
        }
        let coordinator_epoch = i32::from_be_bytes(*record.value?.get(2..6)?.first_chunk()?);
        Some(ControlRecord::EndTxn(EndTxn {
            committed: kind == 1,
            coordinator_epoch,
        }))
    }
}

/// The marker that commits or aborts the open transaction of a producer.
#[must_use]
pub fn end_txn_batch(id: ProducerId, epoch: ProducerEpoch, end: EndTxn, time: Timestamp) -> Batch {
    let mut key = [0u8; 4];
    key[2..].copy_from_slice(&i16::from(end.committed).to_be_bytes());
    let mut value = [0u8; 6];
    value[2..].copy_from_slice(&end.coordinator_epoch.to_be_bytes());
    let mut builder = BatchBuilder::new().control(id, epoch);
    builder.push(time, Some(&key), Some(&Bytes::copy_from_slice(&value)), &[]);
    builder.build()
}
