//! Records of the metadata log: Kafka's schemas in Kafka's frame, so that Kafka's own tools read the log.
//!
//! Owns the choice of version: records are written in the newest one there is. A type or a version that is not known is an
//! error: skipping a record would make another image than its writer had.

use bytes::Bytes;
pub use wire::metadata::MetadataRecord as Record;
use wire::{DecodeError, EncodeError};

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("metadata record: {0}")]
pub struct RecordError(#[from] DecodeError);

/// The value of the log record that carries `record`.
pub fn encode(record: &Record) -> Result<Bytes, EncodeError> {
    record.encode(record.max_version())
}

/// Reads the value of a log record.
pub fn decode(value: Bytes) -> Result<Record, RecordError> {
    let (record, _version) = Record::decode(value)?;
    Ok(record)
}
