//! The requests of the quorum as the protocol has them, and its answers.

use std::sync::Arc;

use bytes::Bytes;
use raft::{Request, Response};
use wire::{ApiKey, DecodeError, EncodeError, Message, Reader, frame};

use super::request::{Answer, Encodable};

/// A request of the quorum, by the name that this node has there.
pub(crate) struct QuorumRequest {
    pub(crate) request: Box<Request>,
    pub(crate) client: Arc<str>,
}

impl Encodable for QuorumRequest {
    fn key(&self) -> ApiKey {
        match *self.request {
            Request::Vote(_) => ApiKey::Vote,
            Request::BeginEpoch(_) => ApiKey::BeginQuorumEpoch,
            Request::EndEpoch(_) => ApiKey::EndQuorumEpoch,
            Request::Fetch(_) => ApiKey::Fetch,
            Request::FetchSnapshot(_) => ApiKey::FetchSnapshot,
            Request::AddVoter(_) => ApiKey::AddRaftVoter,
            Request::RemoveVoter(_) => ApiKey::RemoveRaftVoter,
            Request::UpdateVoter(_) => ApiKey::UpdateRaftVoter,
            Request::ApiVersions(_) => ApiKey::ApiVersions,
        }
    }

    fn frame(&self, version: i16, correlation: i32) -> Result<Bytes, EncodeError> {
        let name = Some(&*self.client);
        let encoded = match &*self.request {
            Request::Vote(of) => frame::encode_request(of, version, correlation, name),
            Request::BeginEpoch(of) => frame::encode_request(of, version, correlation, name),
            Request::EndEpoch(of) => frame::encode_request(of, version, correlation, name),
            Request::Fetch(of) => frame::encode_request(of, version, correlation, name),
            Request::FetchSnapshot(of) => frame::encode_request(of, version, correlation, name),
            Request::AddVoter(of) => frame::encode_request(of, version, correlation, name),
            Request::RemoveVoter(of) => frame::encode_request(of, version, correlation, name),
            Request::UpdateVoter(of) => frame::encode_request(of, version, correlation, name),
            Request::ApiVersions(of) => frame::encode_request(of, version, correlation, name),
        };
        encoded?.into_bytes()
    }
}

/// The answer to a request of this API.
pub(crate) fn decode(key: ApiKey, answer: Answer) -> Result<Response, DecodeError> {
    let Answer { version, body } = answer;
    fn read<M: Message>(body: Bytes, version: i16) -> Result<M, DecodeError> {
        M::decode(&mut Reader::new(body), version)
    }
    Ok(match key {
        ApiKey::Vote => Response::Vote(read(body, version)?),
        ApiKey::BeginQuorumEpoch => Response::BeginEpoch(read(body, version)?),
        ApiKey::EndQuorumEpoch => Response::EndEpoch(read(body, version)?),
        ApiKey::Fetch => Response::Fetch(read(body, version)?),
        ApiKey::FetchSnapshot => Response::FetchSnapshot(read(body, version)?),
        ApiKey::AddRaftVoter => Response::AddVoter(read(body, version)?),
        ApiKey::RemoveRaftVoter => Response::RemoveVoter(read(body, version)?),
        ApiKey::UpdateRaftVoter => Response::UpdateVoter(read(body, version)?),
        _ => Response::ApiVersions(read(body, version)?),
    })
}
