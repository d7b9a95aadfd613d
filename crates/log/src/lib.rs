//! Bytes of partitions in order, on disk.
//!
//! Owns segment files, their indexes and what is derived from them (producer states, leader epochs). Batches are kept byte
//! for byte as they came, until compaction leaves records out. Does not choose offsets and knows neither leaders nor clients.

pub mod behind;
pub mod checkpoint;
pub mod clean;
pub mod config;
pub mod epochs;
mod file_name;
pub mod heads;
pub mod index;
pub mod journal;
pub mod metadata;
pub mod pool;
pub mod producer;
pub mod restart;
pub mod scan;
pub mod segment;
pub mod store;
pub mod tail;
pub mod txn_index;

pub use config::LogConfig;
pub use epochs::{Epochs, Syncing};
pub use file_name::file_name;
pub use pool::FilePool;
pub use producer::ProducerStates;
pub use segment::{FileSlice, RecordTime, Segment, Verified};
pub use store::{DamagedRange, Found, Known, Located, Read, ReadError, Store, StoreError};
pub use txn_index::AbortedTxn;

/// CRC-32C, as Kafka's batches and our journal use it.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}
