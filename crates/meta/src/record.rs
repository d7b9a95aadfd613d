//! Records of the metadata log: Kafka's schemas in Kafka's frame, so that Kafka's own tools read the log.
//!
//! A type or a version that is not known is an error: skipping a record would make another image than its writer had.

use bytes::Bytes;
pub use wire::metadata::MetadataRecord as Record;
use wire::{DecodeError, EncodeError, Reader};

use crate::versions::MetadataVersion;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    #[error(
        "metadata record of type {key} is not known: a newer version of the software wrote this log, start that one"
    )]
    Type { key: i16 },
    #[error(
        "metadata record of type {key} has version {version}, which is not known: a newer version of the software wrote this log, start that one"
    )]
    Version { key: u32, version: u32 },
    #[error("metadata record: {0}")]
    Damaged(DecodeError),
}

/// The record cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordWriteError {
    #[error("metadata records of type {key} do not exist at metadata.version {level}")]
    Level { key: i16, level: i16 },
    #[error("metadata record: {0}")]
    Encode(#[from] EncodeError),
}

/// The value of the log record that carries `record` at a level of `metadata.version`, which has to be able to say all of it.
pub fn encode(record: &Record, at: MetadataVersion) -> Result<Bytes, RecordWriteError> {
    let version = at.record_version(record);
    let version = version.ok_or_else(|| RecordWriteError::Level {
        key: record.key(),
        level: at.level(),
    })?;
    Ok(record.encode(version)?)
}

/// Reads the value of a log record.
pub fn decode(value: Bytes) -> Result<Record, RecordError> {
    let decoded = Record::decode(value.clone());
    decoded
        .map(|(record, _)| record)
        .map_err(|error| match error {
            DecodeError::ApiKey { key } => RecordError::Type { key },
            DecodeError::Version { .. } => newer(value).unwrap_or(RecordError::Damaged(error)),
            error => RecordError::Damaged(error),
        })
}

/// The record is one of a later version, if its frame can be read.
fn newer(value: Bytes) -> Option<RecordError> {
    let mut reader = Reader::new(value);
    let mut next = || reader.uvarint().ok();
    let (frame, key, version) = (next()?, next()?, next()?);
    (frame == 1).then_some(RecordError::Version { key, version })
}
