//! The Kafka protocol on bytes: record batches, messages, headers and frames, and what coordinators and controller log.
//!
//! Owns the wire form of everything in `messages` and the record modules, for all versions of Kafka 4.4. Decoding takes
//! slices of the frame and copies nothing but names; encoding copies heads and leaves payloads where they are.
//! Invariants: no input makes it panic, no length from the wire sizes an allocation, and `encode` of a decoded message
//! gives the bytes of Kafka's own codec. Decides nothing: which versions to speak is the caller's choice.

#[cfg(feature = "any")]
mod any_message;
pub mod api;
mod encoded;
mod error;
pub mod error_code;
pub mod frame;
mod header;
mod log_record;
mod message;
mod payload;
mod reader;
mod uuid;
mod versions;
mod writer;

#[cfg(feature = "any")]
pub mod any;
pub mod group;
pub mod messages;
pub mod metadata;
pub mod raft;
pub mod records;
pub mod share;
pub mod storage;
pub mod transaction;

#[cfg(feature = "any")]
pub use any_message::{AnyMessage, RecodeError};
pub use api::ApiKey;
pub use encoded::{Encoded, Segment, Splice, SpliceAt};
pub use error::{DecodeError, EncodeError};
pub use error_code::ErrorCode;
pub use header::{RequestHead, decode_request_header};
pub use message::{Message, Record, Request, Schema};
pub use payload::Records;
pub use reader::{Reader, Tag};
pub use uuid::{ParseUuidError, Uuid};
pub use versions::Listener;
pub use writer::{OpenFrame, OpenTag, Writer};
