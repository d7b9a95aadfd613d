//! A message as a value: what tests, fuzzing and tools need to treat all messages alike.

use crate::{DecodeError, EncodeError, Encoded, Reader, Schema, Writer};
use bytes::Bytes;

/// One message of the crate, its type forgotten.
#[derive(Clone, Copy, Debug)]
pub struct AnyMessage {
    /// The module it stands in: `messages`, `metadata`, `group`, ...
    pub group: &'static str,
    pub name: &'static str,
    pub min_version: i16,
    pub max_version: i16,
    convert: fn(&mut Reader, i16, i16) -> Result<Encoded, RecodeError>,
    default: fn(i16) -> Result<Encoded, EncodeError>,
}

/// Which half of a round trip failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecodeError {
    #[error("decoding: {0}")]
    Decode(#[from] DecodeError),
    #[error("encoding what was decoded: {0}")]
    Encode(#[from] EncodeError),
}

impl AnyMessage {
    pub(crate) const fn of<T: Schema>(group: &'static str) -> Self {
        Self {
            group,
            name: T::NAME,
            min_version: T::MIN_VERSION,
            max_version: T::MAX_VERSION,
            convert: |r, from, to| encode(&T::decode(r, from)?, to).map_err(RecodeError::Encode),
            default: |version| encode(&T::default(), version),
        }
    }

    /// Decodes all of `bytes` in one version and encodes the result in another.
    pub fn convert(&self, bytes: Bytes, from: i16, to: i16) -> Result<Encoded, RecodeError> {
        let mut r = Reader::new(bytes);
        let encoded = (self.convert)(&mut r, from, to)?;
        r.expect_end()?;
        Ok(encoded)
    }

    /// Decodes all of `bytes` and encodes the result again.
    pub fn recode(&self, bytes: Bytes, version: i16) -> Result<Encoded, RecodeError> {
        self.convert(bytes, version, version)
    }

    /// The bytes of a message in which nothing is set.
    pub fn default_bytes(&self, version: i16) -> Result<Encoded, EncodeError> {
        (self.default)(version)
    }
}

fn encode<T: Schema>(message: &T, version: i16) -> Result<Encoded, EncodeError> {
    let mut w = Writer::new();
    message.encode(&mut w, version)?;
    Ok(w.finish())
}
