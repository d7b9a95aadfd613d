//! The slow path: walks every record of a batch, where a topic's settings ask for it.
//!
//! Used for compacted topics (a key is needed), for bounded timestamps, and before a batch is compressed anew.

use std::ops::RangeInclusive;

use model::Timestamp;

use super::batch::{Batch, TimestampType};
use super::codec::{Caps, CodecError};
use super::record::{RecordError, RecordIter};

/// What the records must satisfy beyond being readable.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub caps: Caps,
    /// Records without key are refused (compacted topics).
    pub key_required: bool,
    /// Timestamps outside are refused; `None` accepts all.
    pub timestamps: Option<RangeInclusive<i64>>,
    /// Offset deltas must run 0, 1, 2, ... without holes, as a producer numbers them.
    pub contiguous: bool,
}

/// What a walk over the records found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordSummary {
    pub count: i32,
    pub max_timestamp: Timestamp,
    /// Offset delta of the first record that carries `max_timestamp`.
    pub max_timestamp_delta: i32,
    pub plain_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    #[error("cannot decompress: {0}")]
    Codec(#[from] CodecError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("record {index} has no key, the topic is compacted")]
    KeyMissing { index: i32 },
    #[error("record {index} has timestamp {timestamp}, accepted are {low} to {high}")]
    Timestamp {
        index: i32,
        timestamp: i64,
        low: i64,
        high: i64,
    },
}

/// Walks all records; the first that breaks a rule is named by its index.
pub fn validate_records(batch: &Batch, rules: &Rules) -> Result<RecordSummary, RecordFault> {
    let plain = batch.plain(rules.caps)?;
    let append_time = batch.attributes().timestamp_type() == TimestampType::LogAppendTime;
    let mut summary = RecordSummary {
        count: 0,
        max_timestamp: Timestamp::NONE,
        max_timestamp_delta: 0,
        plain_bytes: plain.len(),
    };
    let mut last_delta = -1;
    for record in RecordIter::new(&plain, batch.record_count()) {
        let record = record?;
        let (index, delta) = (summary.count, record.offset_delta);
        let in_order = if rules.contiguous {
            delta == index
        } else {
            delta > last_delta
        };
        if !in_order || delta > batch.last_offset_delta() {
            return Err(RecordError::OffsetDelta { index, delta }.into());
        }
        if rules.key_required && record.key.is_none() {
            return Err(RecordFault::KeyMissing { index });
        }
        let timestamp = match append_time {
            true => batch.max_timestamp().0,
            false => batch
                .base_timestamp()
                .0
                .saturating_add(record.timestamp_delta),
        };
        if let Some(accepted) = &rules.timestamps
            && !append_time
            && !accepted.contains(&timestamp)
        {
            let (low, high) = (*accepted.start(), *accepted.end());
            return Err(RecordFault::Timestamp {
                index,
                timestamp,
                low,
                high,
            });
        }
        if timestamp > summary.max_timestamp.0 {
            summary.max_timestamp = Timestamp(timestamp);
            summary.max_timestamp_delta = delta;
        }
        last_delta = delta;
        summary.count += 1;
    }
    Ok(summary)
}
