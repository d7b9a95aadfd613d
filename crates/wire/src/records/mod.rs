//! Record batches, version 2: the unit that producers send, logs keep and consumers read.
//!
//! Owns the byte layout of a batch and of the records inside, checksums and compression. Bytes of records stay slices of
//! what was received. Nothing here trusts a length, a count or an offset that it read: all arithmetic is checked.

mod batch;
mod builder;
mod codec;
mod control;
mod cut;
mod pass;
mod record;
mod retain;
mod validate;

pub use batch::{Attributes, Batch, Head, TimestampType, checksum};
pub use builder::{BatchBuilder, recompress};
pub use codec::{Caps, Codec, CodecError, Compression, Oversized};
pub use control::{ControlRecord, EndTxn, end_txn_batch};
pub use cut::{BatchError, Batches, Fault, Source};
pub use record::{Header, Headers, Record, RecordError, RecordIter};
pub use retain::{Retained, emptied};
pub use validate::{
    BREACHES_MAX, Breach, RecordFault, RecordSummary, Rule, Rules, has_invalid_timestamp,
    validate_records,
};

/// Bytes of a batch before its records.
pub const HEAD_SIZE: usize = 61;

#[cfg(test)]
mod tests;
