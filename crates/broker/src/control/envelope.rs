//! Requests that the active controller answers for another node (KIP-590): how they are wrapped, and what the answer says.
//!
//! Beside what Kafka defines an answer of Esker carries the end of the metadata that it rests on, in a tagged field: a broker gives
//! the answer to its client once it has published that much itself, so that a client reads what it wrote.

use bytes::Bytes;
use wire::messages::{AllocateProducerIdsResponse, DefaultPrincipalData, EnvelopeRequest};
use wire::{ApiKey, DecodeError, EncodeError, ErrorCode, Message, Reader, Writer};

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

/// A request of a client, for the controller.
pub(crate) fn request(
    frame: Bytes,
    client: std::net::IpAddr,
) -> Result<EnvelopeRequest, EncodeError> {
    let principal = DefaultPrincipalData {
        r#type: "User".to_owned(),
        name: "ANONYMOUS".to_owned(),
        token_authenticated: false,
    };
    let mut w = Writer::new();
    w.i16(PRINCIPAL_VERSION);
    principal.encode(&mut w, PRINCIPAL_VERSION)?;
    let address = match client {
        std::net::IpAddr::V4(ip) => Bytes::copy_from_slice(&ip.octets()),
        std::net::IpAddr::V6(ip) => Bytes::copy_from_slice(&ip.octets()),
    };
    Ok(EnvelopeRequest {
        request_data: frame,
        request_principal: Some(w.finish().into_bytes()?),
        client_host_address: address,
    })
}

/// The same for a request that this node makes for its client.
pub(crate) fn wrapped<R: wire::Request>(
    request: &R,
    version: i16,
    client: std::net::IpAddr,
) -> Result<EnvelopeRequest, EncodeError> {
    let encoded = wire::frame::encode_request(request, version, 0, Some("esker"))?;
    // A frame in an envelope has no length before it.
    self::request(encoded.into_bytes()?.slice(4..), client)
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
