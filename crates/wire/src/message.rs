//! The abilities of every message, and the facts known about it without a value at hand.

use crate::{ApiKey, DecodeError, EncodeError, Reader, Writer};

/// A message or a part of one. `decode` of what `encode` wrote, in the same version, gives the value back.
pub trait Message: Sized {
    fn decode(r: &mut Reader, version: i16) -> Result<Self, DecodeError>;
    fn encode(&self, w: &mut Writer, version: i16) -> Result<(), EncodeError>;
}

/// A whole message: one file of the definitions.
pub trait Schema: Message + Default {
    const NAME: &'static str;
    const MIN_VERSION: i16;
    const MAX_VERSION: i16;
    /// First version with compact lengths and tagged fields; `i16::MAX` when there is none.
    const FLEXIBLE_FROM: i16;
}

/// A request of the protocol.
pub trait Request: Schema {
    const KEY: ApiKey;
    type Response: Schema;
}

/// Something written to a log under a type number of its own.
pub trait Record: Schema {
    const API_KEY: i16;
}
