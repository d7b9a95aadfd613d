//! One connection's side of the protocol, without the connection: versions, correlation, frames.
//!
//! Owns the order of what was asked. Invariant: answers come in the order of their requests, and each is decoded in the version
//! its request was written in. Does no IO: bytes to send come out of [`Session::request`], received ones go into
//! [`Session::receive`].

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read};

use bytes::Bytes;
use wire::error_code::ErrorCode;
use wire::messages::{ApiVersionsRequest, ApiVersionsResponse, ResponseHeader};
use wire::{ApiKey, DecodeError, EncodeError, Encoded, Message, Reader, Request, frame};

use crate::error::Garbage;
use crate::inbox::Inbox;

/// A whole answer. Larger ones are refused; above every sensible `fetch.max.bytes`, below what would hurt.
pub const FRAME_BYTES_MAX: usize = 256 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    correlation: i32,
    key: ApiKey,
    version: i16,
}

/// An answer: which request it belongs to and its undecoded body.
#[derive(Clone, Debug)]
pub struct Reply {
    asked: Asked,
    body: Bytes,
}

impl Reply {
    #[must_use]
    pub fn correlation(&self) -> i32 {
        self.asked.correlation
    }

    #[must_use]
    pub fn key(&self) -> ApiKey {
        self.asked.key
    }

    #[must_use]
    pub fn version(&self) -> i16 {
        self.asked.version
    }

    /// The answer to a request of type `R`. Panics when the request was of another type: that is a bug of the caller.
    pub fn decode<R: Request>(&self) -> Result<R::Response, DecodeError> {
        assert_eq!(
            R::KEY,
            self.asked.key,
            "a reply is decoded as what was asked"
        );
        let mut reader = Reader::new(self.body.clone());
        R::Response::decode(&mut reader, self.asked.version)
    }
}

/// Why a request cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("the broker offers no version of {0} that we speak")]
    Unsupported(ApiKey),
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

#[derive(Debug)]
pub struct Session {
    client_id: String,
    /// The versions that both sides speak; empty until [`Session::negotiated`].
    versions: BTreeMap<ApiKey, (i16, i16)>,
    next_correlation: i32,
    asked: VecDeque<Asked>,
    inbox: Inbox,
}

impl Session {
    #[must_use]
    pub fn new(client_id: &str) -> Session {
        Session {
            client_id: client_id.to_owned(),
            versions: BTreeMap::new(),
            next_correlation: 1,
            asked: VecDeque::new(),
            inbox: Inbox::new(FRAME_BYTES_MAX),
        }
    }

    /// The question that opens every connection, in the newest version or, when that was not understood, in the oldest.
    pub fn hello(&mut self, oldest: bool) -> Result<Encoded, EncodeError> {
        let version = if oldest {
            0
        } else {
            ApiKey::ApiVersions.max_version_stable()
        };
        let mut request = ApiVersionsRequest::default();
        if !oldest {
            request.client_software_name = "esker".to_owned();
            request.client_software_version = env!("CARGO_PKG_VERSION").to_owned();
        }
        self.write(&request, version)
    }

    /// Reads the answer to [`Session::hello`]. `false`: ask again with `oldest`.
    pub fn negotiated(&mut self, reply: &Reply) -> Result<bool, Garbage> {
        // A broker that does not know our version answers in version 0, whatever was asked.
        let code = reply
            .body
            .first_chunk::<2>()
            .map_or(0, |code| i16::from_be_bytes(*code));
        if code == ErrorCode::UnsupportedVersion as i16 && reply.asked.version > 0 {
            return Ok(false);
        }
        let response: ApiVersionsResponse = reply.decode::<ApiVersionsRequest>()?;
        if response.error_code != 0 {
            return Err(Garbage::Content("the broker refuses to tell its versions"));
        }
        self.versions.clear();
        for offered in &response.api_keys {
            let Some(key) = ApiKey::from_key(offered.api_key) else {
                continue;
            };
            let low = offered.min_version.max(key.min_version());
            let high = offered.max_version.min(key.max_version_stable());
            if low <= high {
                self.versions.insert(key, (low, high));
            }
        }
        Ok(true)
    }

    /// The newest version of an API that both sides speak.
    #[must_use]
    pub fn version(&self, key: ApiKey) -> Option<i16> {
        self.versions.get(&key).map(|(_, high)| *high)
    }

    /// The frame of a request in the newest common version.
    pub fn request<R: Request>(&mut self, request: &R) -> Result<Encoded, RequestError> {
        self.request_up_to(request, i16::MAX)
    }

    /// The same, but no newer than `limit`.
    pub fn request_up_to<R: Request>(
        &mut self,
        request: &R,
        limit: i16,
    ) -> Result<Encoded, RequestError> {
        let range = self.versions.get(&R::KEY).copied();
        let version = range
            .map(|(low, high)| (low, high.min(limit)))
            .filter(|(low, high)| low <= high);
        let (_, version) = version.ok_or(RequestError::Unsupported(R::KEY))?;
        Ok(self.write(request, version)?)
    }

    fn write<R: Request>(&mut self, request: &R, version: i16) -> Result<Encoded, EncodeError> {
        let correlation = self.next_correlation;
        let encoded = frame::encode_request(request, version, correlation, Some(&self.client_id))?;
        self.next_correlation = correlation.checked_add(1).unwrap_or(1);
        self.asked.push_back(Asked {
            correlation,
            key: R::KEY,
            version,
        });
        Ok(encoded)
    }

    /// The last request gets no answer (a produce request with acks = 0).
    pub fn forget_last(&mut self) {
        self.asked.pop_back();
    }

    /// Correlation id of the request written last.
    #[must_use]
    pub fn last_correlation(&self) -> i32 {
        self.asked.back().map_or(0, |asked| asked.correlation)
    }

    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.asked.len()
    }

    /// API of the answer that is due next.
    #[must_use]
    pub fn due(&self) -> Option<ApiKey> {
        self.asked.front().map(|asked| asked.key)
    }

    /// Takes what the socket has, in one read; 0 means that the peer closed its side.
    pub fn receive(&mut self, from: &mut dyn Read) -> io::Result<usize> {
        self.inbox.fill(from)
    }

    /// The next whole answer.
    pub fn reply(&mut self) -> Result<Option<Reply>, Garbage> {
        let Some(body) = self.inbox.frame()? else {
            return Ok(None);
        };
        let asked = self.asked.pop_front().ok_or(Garbage::Unasked)?;
        let mut reader = Reader::new(body.clone());
        let header = ResponseHeader::decode(
            &mut reader,
            asked.key.response_header_version(asked.version),
        )?;
        if header.correlation_id != asked.correlation {
            return Err(Garbage::Order {
                got: header.correlation_id,
                want: asked.correlation,
            });
        }
        let body = body.slice(reader.position()..);
        Ok(Some(Reply { asked, body }))
    }
}

#[cfg(test)]
mod tests {
    use wire::messages::{MetadataRequest, MetadataResponse};

    use super::*;

    fn answer<M: Message>(key: ApiKey, response: &M, version: i16, correlation: i32) -> Bytes {
        frame::encode_response(key, response, version, correlation)
            .unwrap()
            .into_bytes()
            .unwrap()
    }

    fn versions(ranges: &[(ApiKey, i16, i16)]) -> ApiVersionsResponse {
        let mut response = ApiVersionsResponse::default();
        for (key, min_version, max_version) in ranges {
            let (min_version, max_version) = (*min_version, *max_version);
            response
                .api_keys
                .push(wire::messages::api_versions_response::ApiVersion {
                    api_key: key.key(),
                    min_version,
                    max_version,
                });
        }
        response
    }

    fn reply(session: &mut Session, bytes: &[u8]) -> Result<Option<Reply>, Garbage> {
        session.receive(&mut &bytes[..]).unwrap();
        session.reply()
    }

    fn negotiated(ranges: &[(ApiKey, i16, i16)]) -> Session {
        let mut session = Session::new("test");
        session.hello(false).unwrap();
        let reply = reply(
            &mut session,
            &answer(ApiKey::ApiVersions, &versions(ranges), 4, 1),
        )
        .unwrap()
        .unwrap();
        assert!(session.negotiated(&reply).unwrap());
        session
    }

    #[test]
    fn the_newest_version_that_both_speak_is_used() {
        let mut session = negotiated(&[
            (ApiKey::Metadata, 2, 9),
            (ApiKey::Fetch, 0, 3),
            (ApiKey::Produce, 3, 99),
        ]);
        assert_eq!(session.version(ApiKey::Metadata), Some(9));
        assert_eq!(session.version(ApiKey::Fetch), None);
        assert_eq!(
            session.version(ApiKey::Produce),
            Some(ApiKey::Produce.max_version_stable())
        );
        assert_eq!(
            session.request(&wire::messages::FetchRequest::default()),
            Err(RequestError::Unsupported(ApiKey::Fetch))
        );
        assert!(
            session
                .request_up_to(&MetadataRequest::default(), 1)
                .is_err()
        );
    }

    #[test]
    fn an_old_broker_is_asked_again_in_the_oldest_version() {
        let mut session = Session::new("test");
        session.hello(false).unwrap();
        let refusal = ApiVersionsResponse {
            error_code: 35,
            ..Default::default()
        };
        let first = reply(&mut session, &answer(ApiKey::ApiVersions, &refusal, 0, 1))
            .unwrap()
            .unwrap();
        assert!(!session.negotiated(&first).unwrap());
        session.hello(true).unwrap();
        let second = answer(
            ApiKey::ApiVersions,
            &versions(&[(ApiKey::Metadata, 0, 1)]),
            0,
            2,
        );
        let second = reply(&mut session, &second).unwrap().unwrap();
        assert!(session.negotiated(&second).unwrap());
        assert_eq!(session.version(ApiKey::Metadata), Some(1));
    }

    #[test]
    fn answers_are_matched_in_order_and_anything_else_is_an_error() {
        let mut session = negotiated(&[(ApiKey::Metadata, 0, 12)]);
        for _ in 0..2 {
            session.request(&MetadataRequest::default()).unwrap();
        }
        let response = MetadataResponse {
            controller_id: 7,
            ..Default::default()
        };
        let first = reply(&mut session, &answer(ApiKey::Metadata, &response, 12, 2))
            .unwrap()
            .unwrap();
        assert_eq!(first.decode::<MetadataRequest>().unwrap().controller_id, 7);
        let out_of_order = reply(&mut session, &answer(ApiKey::Metadata, &response, 12, 9));
        assert!(matches!(
            out_of_order,
            Err(Garbage::Order { got: 9, want: 3 })
        ));
        assert!(matches!(
            reply(&mut session, &answer(ApiKey::Metadata, &response, 12, 4)),
            Err(Garbage::Unasked)
        ));
    }
}
