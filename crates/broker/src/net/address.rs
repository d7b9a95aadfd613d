//! Where the answer to a request goes.

use env::ConnId;
use model::Instant;

use super::connection::SlotNumber;

/// The place of a request in the order of its connection, and how it wants to be answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) conn: ConnId,
    pub(crate) slot: SlotNumber,
    pub(crate) correlation_id: i32,
    pub(crate) version: i16,
    /// The number of the API.
    pub(crate) key: i16,
    pub(crate) begun: Instant,
    /// Another node carries the answer to its client.
    pub(crate) envelope: Option<EnvelopeAddress>,
}

/// How the carrier of a request is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EnvelopeAddress {
    pub(crate) correlation_id: i32,
    pub(crate) version: i16,
}
