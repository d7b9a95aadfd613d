//! The kind of a connection, by its first request: nodes ask what clients never do.

use bytes::Bytes;
use wire::messages::{FetchRequest, OffsetForLeaderEpochRequest};
use wire::{ApiKey, Message, Reader, decode_request_header};

use super::api::PEERS;

/// Since this version the request is one of brokers for their clients' transactions.
const VERIFIES_SINCE: i16 = 4;

/// True if a follower asks, and not a consumer.
pub(super) fn is_of_replica(request: &FetchRequest) -> bool {
    request.replica_id >= 0 || request.replica_state.replica_id >= 0
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// Everybody begins with this request.
    Unknown,
    Client,
    Node,
}

impl Caller {
    /// Of an API that tells it without the rest of the request; `None` where more has to be read.
    pub(crate) fn of_api(api: i16) -> Option<Caller> {
        match ApiKey::from_key(api) {
            // Nodes prove themselves before they ask.
            Some(ApiKey::ApiVersions | ApiKey::SaslHandshake | ApiKey::SaslAuthenticate) => {
                Some(Caller::Unknown)
            }
            Some(ApiKey::WriteTxnMarkers) => Some(Caller::Node),
            Some(ApiKey::Fetch | ApiKey::OffsetForLeaderEpoch | ApiKey::AddPartitionsToTxn) => None,
            Some(key) if PEERS.iter().any(|row| row.key == key) => Some(Caller::Node),
            _ => Some(Caller::Client),
        }
    }

    /// Of a whole request.
    pub(crate) fn of_request(frame: &[u8], elements_max: usize) -> Caller {
        let mut reader = Reader::new(Bytes::copy_from_slice(frame));
        reader.bound_elements(elements_max);
        let Ok(head) = decode_request_header(&mut reader) else {
            return Caller::Client;
        };
        let is_node = match head.api() {
            Some(ApiKey::Fetch) => FetchRequest::decode(&mut reader, head.version)
                .is_ok_and(|request| is_of_replica(&request)),
            Some(ApiKey::OffsetForLeaderEpoch) => {
                OffsetForLeaderEpochRequest::decode(&mut reader, head.version)
                    .is_ok_and(|request| 0 <= request.replica_id)
            }
            Some(ApiKey::AddPartitionsToTxn) => VERIFIES_SINCE <= head.version,
            _ => return Caller::of_api(head.key).unwrap_or(Caller::Client),
        };
        if is_node {
            Caller::Node
        } else {
            Caller::Client
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::Request;
    use wire::messages::fetch_request::ReplicaState;
    use wire::messages::{AddPartitionsToTxnRequest, MetadataRequest};

    use super::*;

    fn caller<R: Request>(request: &R, version: i16) -> Caller {
        let encoded = wire::frame::encode_request(request, version, 1, Some("somebody"));
        let bytes = encoded.and_then(wire::Encoded::into_bytes);
        Caller::of_request(&bytes.expect("can be encoded")[4..], 100)
    }

    #[test]
    fn followers_and_verifying_brokers_are_nodes_by_what_they_ask() {
        let newest = FetchRequest {
            replica_state: ReplicaState {
                replica_id: 3,
                replica_epoch: 7,
            },
            ..Default::default()
        };
        let old = FetchRequest {
            replica_id: 0,
            ..Default::default()
        };
        let consumer = FetchRequest {
            replica_id: -1,
            ..Default::default()
        };
        assert_eq!(caller(&newest, 17), Caller::Node);
        assert_eq!(caller(&old, 11), Caller::Node);
        assert_eq!(caller(&consumer, 11), Caller::Client);
        assert_eq!(caller(&FetchRequest::default(), 17), Caller::Client);
        let epochs = |replica_id| OffsetForLeaderEpochRequest {
            replica_id,
            ..Default::default()
        };
        assert_eq!(caller(&epochs(0), 4), Caller::Node);
        assert_eq!(caller(&epochs(-2), 4), Caller::Client);
        let added = AddPartitionsToTxnRequest::default();
        assert_eq!(caller(&added, 3), Caller::Client);
        assert_eq!(caller(&added, 5), Caller::Node);
        assert_eq!(caller(&MetadataRequest::default(), 9), Caller::Client);
        assert_eq!(Caller::of_api(ApiKey::Vote as i16), Some(Caller::Node));
        assert_eq!(Caller::of_api(-1), Some(Caller::Client));
    }
}
