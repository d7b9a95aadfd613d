//! Requests in envelopes: those of nodes for their clients, and those that no node would send.

use bytes::Bytes;
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::{
    CreateTopicsRequest, DefaultPrincipalData, EnvelopeRequest, MetadataRequest, VoteRequest,
};
use wire::{Message, Writer};

use crate::broker::frames;

/// The topic that would come to be.
pub(crate) const TOPIC: &str = "smuggled";
const BY_WHOM: &str = "alice";

/// Each with what a controller answers to a node that has proved itself.
pub(crate) fn all() -> Vec<(&'static str, &'static str, EnvelopeRequest)> {
    let topic = CreatableTopic {
        name: TOPIC.to_owned(),
        num_partitions: 1,
        replication_factor: 1,
        ..CreatableTopic::default()
    };
    let create = CreateTopicsRequest {
        topics: vec![topic],
        timeout_ms: 1000,
        // Nothing comes to be even where it is let through.
        validate_only: true,
    };
    let create = frames::of(&create, 7);
    let user = || principal("User", BY_WHOM);
    let plain = envelope(create.clone(), user());
    let unknown = "PRINCIPAL_DESERIALIZATION_FAILURE";
    let without_address = EnvelopeRequest {
        client_host_address: Bytes::from_static(b"abc"),
        ..plain.clone()
    };
    vec![
        (
            "nested",
            "INVALID_REQUEST",
            envelope(frames::of(&plain, 0), user()),
        ),
        (
            "of an API that is not forwarded",
            "INVALID_REQUEST",
            envelope(frames::of(&MetadataRequest::default(), 12), user()),
        ),
        (
            "of a request of nodes",
            "INVALID_REQUEST",
            envelope(frames::of(&VoteRequest::default(), 0), user()),
        ),
        (
            "of garbage",
            "INVALID_REQUEST",
            envelope(vec![0xff; 20], user()),
        ),
        (
            "of Node:1",
            unknown,
            envelope(create.clone(), principal("Node", "1")),
        ),
        (
            "of a garbage principal",
            unknown,
            envelope(create.clone(), Some(Bytes::from_static(b"\x7f\x7fgarbage"))),
        ),
        ("of no principal", unknown, envelope(create, None)),
        ("of no address", "INVALID_REQUEST", without_address),
        ("plain", "none", plain),
    ]
}

fn envelope(request: Vec<u8>, principal: Option<Bytes>) -> EnvelopeRequest {
    EnvelopeRequest {
        request_data: request.into(),
        request_principal: principal,
        client_host_address: Bytes::from_static(&[10, 0, 0, 7]),
    }
}

/// In the form of Kafka's `DefaultKafkaPrincipalBuilder`.
fn principal(kind: &str, name: &str) -> Option<Bytes> {
    let data = DefaultPrincipalData {
        r#type: kind.to_owned(),
        name: name.to_owned(),
        token_authenticated: false,
    };
    let mut w = Writer::new();
    w.i16(0);
    data.encode(&mut w, 0).ok()?;
    w.finish().into_bytes().ok()
}
