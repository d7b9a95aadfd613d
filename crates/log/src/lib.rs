//! Bytes of partitions in order, on disk.
//!
//! Owns segment files, their indexes and what is derived from them (producer states, leader epochs). Batches are kept byte
//! for byte as they came. Does not choose offsets and knows neither leaders nor clients.

pub mod config;
pub mod index;
pub mod pool;
pub mod scan;
pub mod segment;
pub mod store;
pub mod txn_index;

pub use config::LogConfig;
pub use pool::FilePool;
pub use segment::{FileSlice, RecordTime, Segment};
pub use store::{Found, Known, Read, ReadError, Store, StoreError};
pub use txn_index::AbortedTxn;
