//! Requests as values that a link encodes in the version of its other end, and answers with the version that they are in.

use std::sync::Arc;

use bytes::Bytes;
use wire::{ApiKey, EncodeError, Message, Reader, frame};

/// The name of this node in its requests.
const CLIENT: &str = "esker";

/// A request of any API.
pub(crate) trait Encodable: Send + Sync {
    fn key(&self) -> ApiKey;

    /// The newest version that says this and nothing else.
    fn version_max(&self) -> i16 {
        i16::MAX
    }

    /// The whole frame. An error if the version cannot say all of it.
    fn frame(&self, version: i16, correlation: i32) -> Result<Bytes, EncodeError>;
}

impl<R: wire::Request + Send + Sync> Encodable for R {
    fn key(&self) -> ApiKey {
        R::KEY
    }

    fn frame(&self, version: i16, correlation: i32) -> Result<Bytes, EncodeError> {
        frame::encode_request(self, version, correlation, Some(CLIENT))?.into_bytes()
    }
}

/// A request in no newer version than this one: newer ones name things otherwise, or mean more.
pub(crate) struct UpTo<R>(pub(crate) R, pub(crate) i16);

impl<R: Encodable> Encodable for UpTo<R> {
    fn key(&self) -> ApiKey {
        self.0.key()
    }

    fn version_max(&self) -> i16 {
        self.1
    }

    fn frame(&self, version: i16, correlation: i32) -> Result<Bytes, EncodeError> {
        self.0.frame(version, correlation)
    }
}

/// A request that several may hold, so that it can be sent again.
#[derive(Clone)]
pub(crate) struct Typed(Arc<dyn Encodable>);

impl Typed {
    pub(crate) fn new(request: impl Encodable + 'static) -> Typed {
        Typed(Arc::new(request))
    }
}

impl Encodable for Typed {
    fn key(&self) -> ApiKey {
        self.0.key()
    }

    fn version_max(&self) -> i16 {
        self.0.version_max()
    }

    fn frame(&self, version: i16, correlation: i32) -> Result<Bytes, EncodeError> {
        self.0.frame(version, correlation)
    }
}

/// The answer to a request, without its header.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// That of the request.
    pub(crate) version: i16,
    pub(crate) body: Bytes,
}

impl Answer {
    /// `None` for an answer that is no message of this kind.
    pub(crate) fn read<M: Message>(self) -> Option<M> {
        M::decode(&mut Reader::new(self.body), self.version).ok()
    }
}
