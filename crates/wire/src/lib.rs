//! Kafka protocol on bytes: record batches and messages.
//!
//! Decides nothing and does no IO. Bytes from a peer are never trusted: no allocation is sized by an unchecked length.

pub mod error_code;
pub mod records;

pub use error_code::ErrorCode;
