//! The requests of the quorum as frames, in the versions of Kafka 4.3: every node that may be a voter knows them.

use bytes::Bytes;
use raft::{Request, Response};
use wire::{ApiKey, DecodeError, EncodeError, Message, Reader, frame};

/// A later version says which node is meant. A node that does not know it would answer in version 0.
const API_VERSIONS_VERSION: i16 = 4;

/// The API and the version that a request is written in.
pub(super) fn form(request: &Request) -> (ApiKey, i16) {
    let key = match request {
        Request::Vote(_) => ApiKey::Vote,
        Request::BeginEpoch(_) => ApiKey::BeginQuorumEpoch,
        Request::EndEpoch(_) => ApiKey::EndQuorumEpoch,
        Request::Fetch(_) => ApiKey::Fetch,
        Request::FetchSnapshot(_) => ApiKey::FetchSnapshot,
        Request::AddVoter(_) => ApiKey::AddRaftVoter,
        Request::RemoveVoter(_) => ApiKey::RemoveRaftVoter,
        Request::UpdateVoter(_) => ApiKey::UpdateRaftVoter,
        Request::ApiVersions(_) => ApiKey::ApiVersions,
    };
    let version = match key {
        ApiKey::ApiVersions => API_VERSIONS_VERSION,
        key => key.max_version_stable(),
    };
    (key, version)
}

/// The whole frame of a request.
pub(super) fn encode(request: &Request, client: &str) -> Result<Bytes, EncodeError> {
    let version = form(request).1;
    let (correlation, name) = (0, Some(client));
    let encoded = match request {
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

/// The answer to a request of this API and version, from its body.
pub(super) fn decode(key: ApiKey, version: i16, body: Bytes) -> Result<Response, DecodeError> {
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
