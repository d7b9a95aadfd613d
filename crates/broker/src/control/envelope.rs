//! Requests that the active controller answers for another node (KIP-590): how they are wrapped, and what the answer says.
//!
//! The principal of the client travels along: the active controller asks whether that one may do it, and not the broker that brings
//! the request. Beside what Kafka defines an answer of Esker carries the end of the metadata that it rests on, in a tagged field: a broker gives
//! the answer to its client once it has published that much itself, so that a client reads what it wrote.

use std::net::IpAddr;

use bytes::Bytes;
use wire::messages::{AllocateProducerIdsResponse, DefaultPrincipalData, EnvelopeRequest};
use wire::{ApiKey, DecodeError, EncodeError, ErrorCode, Message, Reader, Writer};

use crate::asker::Asker;
use security::Principal;

/// The only version of the API.
pub(crate) const VERSION: i16 = 0;
/// Tag of the end of the metadata. Kafka's own tags are small; a reader passes over tags that it does not know.
const END_TAG: u32 = 17_747;
/// Version of the form in which the identity of a client travels.
const PRINCIPAL_VERSION: i16 = 0;

/// An answer to an envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EnvelopeAnswer {
    /// The framed answer to the request within, without its length.
    pub(crate) data: Option<Bytes>,
    pub(crate) code: i16,
    /// The end of the metadata that the answer rests on.
    pub(crate) end: Option<i64>,
}

/// The meaning of an answer of the active controller for the one that carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// Another node is the active controller now.
    NotController,
    Answered {
        end: i64,
    },
}

/// A request of `asker`, for the controller.
pub(crate) fn request(frame: Bytes, asker: &Asker) -> Result<EnvelopeRequest, EncodeError> {
    let address = match asker.peer.ip() {
        IpAddr::V4(ip) => Bytes::copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => Bytes::copy_from_slice(&ip.octets()),
    };
    Ok(EnvelopeRequest {
        request_data: frame,
        request_principal: Some(principal_data(&asker.principal)?),
        client_host_address: address,
    })
}

/// The same for a request that this node makes for `asker`.
pub(crate) fn wrapped<R: wire::Request>(
    request: &R,
    version: i16,
    asker: &Asker,
) -> Result<EnvelopeRequest, EncodeError> {
    let encoded = wire::frame::encode_request(request, version, 0, Some("esker"))?;
    // A frame in an envelope has no length before it.
    self::request(encoded.into_bytes()?.slice(4..), asker)
}

/// A principal in the form of Kafka's `DefaultKafkaPrincipalBuilder`.
fn principal_data(principal: &Principal) -> Result<Bytes, EncodeError> {
    let data = DefaultPrincipalData {
        r#type: principal.kind().to_owned(),
        name: principal.name().to_owned(),
        token_authenticated: false,
    };
    let mut w = Writer::new();
    w.i16(PRINCIPAL_VERSION);
    data.encode(&mut w, PRINCIPAL_VERSION)?;
    w.finish().into_bytes()
}

/// The principal whose request an envelope carries. None where it is of another form, or one that no client can have.
pub(crate) fn principal(envelope: &EnvelopeRequest) -> Option<Principal> {
    let mut reader = Reader::new(envelope.request_principal.clone()?);
    let version = reader.i16().ok()?;
    let data = DefaultPrincipalData::decode(&mut reader, version).ok()?;
    let principal = Principal::new(&data.r#type, &data.name);
    // Nobody can log in with a token, and a node speaks for itself on a connection of its own.
    let is_fit = !data.token_authenticated && !principal.is_node() && !data.r#type.is_empty();
    is_fit.then_some(principal)
}

impl Message for EnvelopeAnswer {
    fn decode(r: &mut Reader, _: i16) -> Result<EnvelopeAnswer, DecodeError> {
        let mut answer = EnvelopeAnswer {
            data: r.nullable_bytes(true, true)?,
            code: r.i16()?,
            end: None,
        };
        for _ in 0..r.tag_count()? {
            let tag = r.tag()?;
            if tag.number == END_TAG {
                answer.end = Some(r.i64()?);
                r.end_tag(tag)?;
            } else {
                r.skip_tag(tag);
            }
        }
        Ok(answer)
    }

    fn encode(&self, w: &mut Writer, _: i16) -> Result<(), EncodeError> {
        w.nullable_bytes(self.data.as_ref(), true, true, "response_data")?;
        w.error_code(self.code);
        let Some(end) = self.end else {
            w.uvarint(0);
            return Ok(());
        };
        w.uvarint(1);
        let tag = w.begin_tag(END_TAG);
        w.i64(end);
        w.end_tag(tag);
        Ok(())
    }
}

/// Looks at an answer of the controller to a request of this node.
pub(crate) fn open(key: ApiKey, body: &Bytes) -> Opened {
    let mut reader = Reader::new(body.clone());
    let (code, end) = match key {
        ApiKey::Envelope => match EnvelopeAnswer::decode(&mut reader, VERSION) {
            Ok(answer) => (answer.code, answer.end),
            Err(_) => (0, None),
        },
        ApiKey::AllocateProducerIds => {
            let read = AllocateProducerIdsResponse::decode(&mut reader, 0);
            (read.map_or(0, |response| response.error_code), None)
        }
        ApiKey::AlterPartition | ApiKey::AssignReplicasToDirs => {
            // Both begin with how long the client is throttled, and one code for all.
            let read = reader.i32().and_then(|_| reader.i16());
            (read.unwrap_or_default(), None)
        }
        _ => (0, None),
    };
    if code == ErrorCode::NotController.code() {
        Opened::NotController
    } else {
        let end = end.unwrap_or_default();
        Opened::Answered { end }
    }
}

#[cfg(test)]
mod tests {
    use wire::messages::EnvelopeResponse;

    use super::*;

    fn encoded(message: &impl Message) -> Bytes {
        let mut w = Writer::new();
        message.encode(&mut w, VERSION).expect("it fits");
        w.finish().into_bytes().expect("it fits")
    }

    #[test]
    fn an_answer_carries_its_end_past_readers_that_do_not_know_it() {
        let answer = EnvelopeAnswer {
            data: Some(Bytes::from_static(b"within")),
            code: 0,
            end: Some(42),
        };
        let bytes = encoded(&answer);
        let read = EnvelopeAnswer::decode(&mut Reader::new(bytes.clone()), VERSION);
        assert_eq!(read, Ok(answer.clone()));
        let plain = EnvelopeResponse::decode(&mut Reader::new(bytes.clone()), VERSION);
        assert_eq!(plain.map(|plain| plain.response_data), Ok(answer.data));
        assert_eq!(open(ApiKey::Envelope, &bytes), Opened::Answered { end: 42 });
    }

    #[test]
    fn the_principal_of_the_client_travels_along_in_the_form_of_kafka() {
        let client = std::net::SocketAddr::from(([10, 0, 0, 7], 4000));
        let mut asker = Asker::anonymous(client, client);
        for known in [Principal::anonymous(), Principal::user("alice")] {
            asker.principal = known.clone();
            let envelope = request(Bytes::from_static(b"within"), &asker).expect("it fits");
            assert_eq!(&envelope.client_host_address[..], [10, 0, 0, 7]);
            assert_eq!(principal(&envelope), Some(known));
        }
        let anonymous = principal_data(&Principal::anonymous()).expect("it fits");
        assert_eq!(&anonymous[..], b"\0\0\x05User\x0aANONYMOUS\0\0");
    }

    #[test]
    fn a_principal_that_nobody_can_be_is_not_taken_for_another_one() {
        let data = |version: i16, kind: &str, token_authenticated| {
            let data = DefaultPrincipalData {
                r#type: kind.to_owned(),
                name: "1".to_owned(),
                token_authenticated,
            };
            let mut w = Writer::new();
            w.i16(version);
            data.encode(&mut w, PRINCIPAL_VERSION).expect("it fits");
            Some(w.finish().into_bytes().expect("it fits"))
        };
        let of = |request_principal| {
            principal(&EnvelopeRequest {
                request_principal,
                ..EnvelopeRequest::default()
            })
        };
        assert_eq!(
            of(data(0, "User", false)),
            Some(Principal::user("1")),
            "the others differ in one thing each"
        );
        assert_eq!(of(data(1, "User", false)), None);
        assert_eq!(of(data(-1, "User", false)), None);
        assert_eq!(of(data(0, "User", true)), None);
        assert_eq!(of(data(0, "Node", false)), None);
        assert_eq!(of(data(0, "", false)), None);
        assert_eq!(of(None), None);
        for bytes in [b"".as_slice(), b"\0", b"\0\0", b"\0\0\x05User\x0aANON"] {
            assert_eq!(of(Some(Bytes::from_static(bytes))), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_node_that_is_not_the_controller_says_so() {
        let refused = EnvelopeResponse {
            response_data: None,
            error_code: ErrorCode::NotController.code(),
        };
        assert_eq!(
            open(ApiKey::Envelope, &encoded(&refused)),
            Opened::NotController
        );
        let refused = wire::messages::AlterPartitionResponse {
            error_code: ErrorCode::NotController.code(),
            ..Default::default()
        };
        let mut w = Writer::new();
        refused.encode(&mut w, 3).expect("it fits");
        let body = w.finish().into_bytes().expect("it fits");
        assert_eq!(open(ApiKey::AlterPartition, &body), Opened::NotController);
        let plain = EnvelopeResponse::default();
        let told = open(ApiKey::Envelope, &encoded(&plain));
        assert_eq!(told, Opened::Answered { end: 0 });
    }
}
