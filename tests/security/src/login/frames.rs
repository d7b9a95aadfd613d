//! The kinds of frames that a door meets, as bytes, and what an answer to each says.

use bytes::Bytes;
use wire::messages::{
    AllocateProducerIdsRequest, ApiVersionsRequest, MetadataRequest, ProduceRequest,
    SaslAuthenticateRequest, SaslHandshakeRequest,
};
use wire::{ApiKey, Request};

use crate::broker::frames::{codes, frame, of};
use crate::peer::Reply;

const AUTHENTICATE_VERSION: i16 = 2;
/// One more than a stranger may send.
const LONG_BYTES: usize = (64 << 10) + 1;
const TEXT_BYTES: usize = 32_767;
/// The beginning of TLS 1.2's first message, as browsers send it.
const CLIENT_HELLO: [u8; 11] = [
    0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Versions,
    VersionsUnknown,
    /// In this version, with a mechanism that is on offer or not.
    Handshake(i16, bool),
    HandshakeUnknown,
    /// The token that is due.
    Good,
    /// One of the right form, from who is not let in.
    Bad,
    Garbage,
    AuthenticateUnknown,
    Raw,
    Metadata,
    Produce,
    OfNodes,
    UnknownApi,
    Empty,
    Long,
    Negative,
    Http,
    Tls,
}

pub(crate) const ALL: [Kind; 21] = [
    Kind::Versions,
    Kind::VersionsUnknown,
    Kind::Handshake(0, true),
    Kind::Handshake(0, false),
    Kind::Handshake(1, true),
    Kind::Handshake(1, false),
    Kind::HandshakeUnknown,
    Kind::Good,
    Kind::Bad,
    Kind::Garbage,
    Kind::AuthenticateUnknown,
    Kind::Raw,
    Kind::Metadata,
    Kind::Produce,
    Kind::OfNodes,
    Kind::UnknownApi,
    Kind::Empty,
    Kind::Long,
    Kind::Negative,
    Kind::Http,
    Kind::Tls,
];

/// The tokens of a state.
pub(crate) struct Tokens {
    pub(crate) good: Vec<u8>,
    pub(crate) bad: Vec<u8>,
    pub(crate) mechanism: &'static str,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Versions => "ApiVersions",
            Kind::VersionsUnknown => "ApiVersions of an unknown version",
            Kind::Handshake(0, true) => "SaslHandshake v0",
            Kind::Handshake(0, false) => "SaslHandshake v0, unknown mechanism",
            Kind::Handshake(_, true) => "SaslHandshake v1",
            Kind::Handshake(_, false) => "SaslHandshake v1, unknown mechanism",
            Kind::HandshakeUnknown => "SaslHandshake of an unknown version",
            Kind::Good => "SaslAuthenticate, good",
            Kind::Bad => "SaslAuthenticate, bad",
            Kind::Garbage => "SaslAuthenticate, garbage",
            Kind::AuthenticateUnknown => "SaslAuthenticate of an unknown version",
            Kind::Raw => "a raw token",
            Kind::Metadata => "Metadata",
            Kind::Produce => "Produce",
            Kind::OfNodes => "AllocateProducerIds (of nodes)",
            Kind::UnknownApi => "an unknown API",
            Kind::Empty => "an empty frame",
            Kind::Long => "a frame of 64 KiB + 1",
            Kind::Negative => "a negative length",
            Kind::Http => "GET / HTTP/1.1",
            Kind::Tls => "a ClientHello of TLS",
        }
    }

    /// All bytes that are sent, with the length where there is one.
    pub(crate) fn bytes(self, tokens: &Tokens) -> Vec<u8> {
        let handshake = |version: i16, name: &str| {
            let mechanism = name.to_owned();
            of(&SaslHandshakeRequest { mechanism }, version)
        };
        let token = |bytes: &[u8]| {
            let auth_bytes = Bytes::copy_from_slice(bytes);
            of(
                &SaslAuthenticateRequest { auth_bytes },
                AUTHENTICATE_VERSION,
            )
        };
        let whole = match self {
            Kind::Versions => of(&versions("trespass"), 3),
            Kind::VersionsUnknown => frame(ApiKey::ApiVersions.key(), 127, 2, &[1, 2, 3]),
            Kind::Handshake(version, true) => handshake(version, tokens.mechanism),
            Kind::Handshake(version, false) => handshake(version, "GSSAPI"),
            Kind::HandshakeUnknown => frame(ApiKey::SaslHandshake.key(), 9, 1, &[0, 1, b'x']),
            Kind::Good => token(&tokens.good),
            Kind::Bad => token(&tokens.bad),
            Kind::Garbage => token(&[0xff; 40]),
            Kind::AuthenticateUnknown => frame(ApiKey::SaslAuthenticate.key(), 9, 2, &[0, 1, b'x']),
            Kind::Raw => tokens.good.clone(),
            Kind::Metadata => of(&MetadataRequest::default(), 9),
            Kind::Produce => of(&produce(), 9),
            Kind::OfNodes => of(&AllocateProducerIdsRequest::default(), 0),
            Kind::UnknownApi => frame(9999, 0, 1, &[0; 8]),
            Kind::Empty => Vec::new(),
            Kind::Long => long(),
            Kind::Negative => return (-2_i32).to_be_bytes().to_vec(),
            Kind::Http => return b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
            Kind::Tls => return CLIENT_HELLO.to_vec(),
        };
        let mut sent = (whole.len() as u32).to_be_bytes().to_vec();
        sent.extend_from_slice(&whole);
        sent
    }

    /// An answer in a word.
    pub(crate) fn told(self, reply: &Reply) -> String {
        let of = |key, version| codes(key, version, reply);
        let request = |key: ApiKey, version| of(key, version);
        match self {
            Kind::Versions | Kind::Long => request(ApiKey::ApiVersions, 3),
            // KIP-511: whoever asks in an unknown version is answered in the first.
            Kind::VersionsUnknown => request(ApiKey::ApiVersions, 0),
            Kind::Handshake(version, _) => request(ApiKey::SaslHandshake, version),
            Kind::HandshakeUnknown => request(ApiKey::SaslHandshake, 1),
            Kind::Good | Kind::Bad | Kind::Garbage | Kind::AuthenticateUnknown => {
                request(ApiKey::SaslAuthenticate, AUTHENTICATE_VERSION)
            }
            Kind::Raw => match reply {
                Reply::Frame(frame) if frame.starts_with(b"r=") => "a raw token".to_owned(),
                Reply::Frame(_) => "a frame".to_owned(),
                _ => request(ApiKey::ApiVersions, 0),
            },
            Kind::Metadata => request(ApiKey::Metadata, 9),
            Kind::Produce => request(ApiKey::Produce, 9),
            Kind::OfNodes => request(AllocateProducerIdsRequest::KEY, 0),
            Kind::UnknownApi | Kind::Empty | Kind::Negative | Kind::Http | Kind::Tls => match reply
            {
                Reply::Frame(_) => "a frame".to_owned(),
                _ => request(ApiKey::ApiVersions, 0),
            },
        }
    }
}

fn versions(name: &str) -> ApiVersionsRequest {
    ApiVersionsRequest {
        client_software_name: name.to_owned(),
        client_software_version: "1".to_owned(),
        ..ApiVersionsRequest::default()
    }
}

fn produce() -> ProduceRequest {
    ProduceRequest {
        acks: 1,
        timeout_ms: 1000,
        ..ProduceRequest::default()
    }
}

/// A question for the versions that is as long as can be said: it is answered once somebody has logged in.
fn long() -> Vec<u8> {
    // A text has 32,767 bytes at most: it takes two.
    let with = |count: usize| {
        let request = ApiVersionsRequest {
            client_software_name: "x".repeat(TEXT_BYTES),
            client_software_version: "1".repeat(count),
            ..ApiVersionsRequest::default()
        };
        of(&request, 3)
    };
    let more = with(TEXT_BYTES).len().saturating_sub(LONG_BYTES);
    with(TEXT_BYTES - more)
}
