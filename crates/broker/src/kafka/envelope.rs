//! Answers that go back in the envelope of another broker, which carries them to its client (KIP-590).

use bytes::Bytes;
use wire::{ApiKey, ErrorCode};

use crate::control::envelope::EnvelopeAnswer;
use crate::net::{EnvelopeAddress, Outcome, Reply};
use crate::ops::Desk;

/// Puts an answer into the envelope that it goes back in. A request that got none was not fit, or its controller is none any more and
/// cannot say what became of it: the broker that brought it must not bring it again.
pub(super) fn wrap(desk: &Desk, to: EnvelopeAddress, outcome: Outcome) -> Outcome {
    let shared = &desk.shared;
    let (data, code) = match outcome {
        Outcome::Waits => return Outcome::Waits,
        Outcome::Reply(reply) => (reply.frame(), ErrorCode::None),
        Outcome::Silent | Outcome::Close if shared.metadata.is_active() => {
            (None, ErrorCode::InvalidRequest)
        }
        Outcome::Silent | Outcome::Close => (None, ErrorCode::RequestTimedOut),
    };
    let end = shared.catalog.image().end();
    encode(to, data, code, end)
}

/// The request was not looked at: another node is the active controller.
pub(super) fn refuse(to: EnvelopeAddress) -> Outcome {
    encode(to, None, ErrorCode::NotController, 0)
}

fn encode(to: EnvelopeAddress, data: Option<Bytes>, code: ErrorCode, end: i64) -> Outcome {
    let answer = EnvelopeAnswer {
        data,
        code: code.code(),
        end: Some(end),
    };
    let EnvelopeAddress {
        correlation_id,
        version,
    } = to;
    match wire::frame::encode_response(ApiKey::Envelope, &answer, version, correlation_id) {
        Ok(encoded) => Outcome::Reply(Reply::new(encoded, Vec::new())),
        Err(_) => Outcome::Close,
    }
}
