//! Requests of all kinds as bytes, and what an answer says: its error codes, whatever its API.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use security::Secret;
use security::login::scram::{Client, Hash, NONCE_RANDOM_BYTES, Password};
use wire::any::{AnyRequest, decode_response};
use wire::messages::{
    RequestHeader, ResponseHeader, SaslAuthenticateRequest, SaslAuthenticateResponse,
    SaslHandshakeRequest,
};
use wire::{ApiKey, ErrorCode, Message, Reader, Request, Writer};

use crate::peer::{Peer, Reply};

/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(8);
const CORRELATION: i32 = 7;

/// A request with its header, without its length.
pub(crate) fn frame(key: i16, version: i16, header: i16, body: &[u8]) -> Vec<u8> {
    let head = RequestHeader {
        request_api_key: key,
        request_api_version: version,
        correlation_id: CORRELATION,
        client_id: Some("trespass".to_owned()),
    };
    let mut w = Writer::new();
    let mut whole = match head.encode(&mut w, header) {
        Ok(()) => w.finish().head.to_vec(),
        Err(_) => Vec::new(),
    };
    whole.extend_from_slice(body);
    whole
}

/// A request in a version that has a place for all that it says.
pub(crate) fn of_any(request: &AnyRequest, version: i16) -> Option<Vec<u8>> {
    let mut w = Writer::new();
    request.encode(&mut w, version).ok()?;
    let body = w.finish().into_bytes().ok()?;
    let key = request.key();
    let header = key.request_header_version(version);
    Some(frame(key.key(), version, header, &body))
}

pub(crate) fn of<R: Request>(request: &R, version: i16) -> Vec<u8> {
    let mut w = Writer::new();
    let written = request.encode(&mut w, version);
    let body = w.finish().into_bytes().unwrap_or_default();
    let body = if written.is_ok() { body } else { Bytes::new() };
    let header = R::KEY.request_header_version(version);
    frame(R::KEY.key(), version, header, &body)
}

/// The codes of an answer by their names, `none` if there are none: each once, in the order of their numbers.
pub(crate) fn codes(key: ApiKey, version: i16, reply: &Reply) -> String {
    let frame = match reply {
        Reply::Frame(frame) => Bytes::copy_from_slice(frame),
        Reply::Closed => return "closed".to_owned(),
        Reply::Silence => return "silence".to_owned(),
    };
    let mut reader = Reader::new(frame);
    let header = ResponseHeader::decode(&mut reader, key.response_header_version(version));
    if header.is_err() {
        return "no header".to_owned();
    }
    let Ok(answer) = decode_response(key, version, &mut reader) else {
        return "another form".to_owned();
    };
    let mut w = Writer::new();
    if answer.encode(&mut w, version).is_err() {
        return "another form".to_owned();
    }
    let errors = w.finish().errors;
    let name = |code: &i16| match ErrorCode::try_from(*code) {
        Ok(known) => known.name().to_owned(),
        Err(_) => code.to_string(),
    };
    match errors.is_empty() {
        true => "none".to_owned(),
        false => errors.keys().map(name).collect::<Vec<_>>().join(" "),
    }
}

/// A connection whose answers are read as those of the requests that were sent.
pub(crate) struct Talk {
    pub(crate) peer: Peer,
}

impl Talk {
    pub(crate) fn open(address: &str) -> io::Result<Talk> {
        Ok(Talk {
            peer: Peer::connect(address, PATIENCE)?,
        })
    }

    pub(crate) fn ask<R: Request>(
        &mut self,
        request: &R,
        version: i16,
    ) -> Result<R::Response, String> {
        let frame = match self.peer.ask(&of(request, version)) {
            Reply::Frame(frame) => frame,
            Reply::Closed => return Err("closed".to_owned()),
            Reply::Silence => return Err("silence".to_owned()),
        };
        let mut reader = Reader::new(frame.into());
        let read = wire::frame::decode_response::<R>(&mut reader, version);
        read.map(|(_, response)| response)
            .map_err(|error| error.to_string())
    }

    pub(crate) fn handshake(&mut self, mechanism: &str) -> Result<i16, String> {
        let mechanism = mechanism.to_owned();
        let told = self.ask(&SaslHandshakeRequest { mechanism }, 1)?;
        Ok(told.error_code)
    }

    pub(crate) fn token(&mut self, bytes: &[u8]) -> Result<SaslAuthenticateResponse, String> {
        let auth_bytes = Bytes::copy_from_slice(bytes);
        self.ask(&SaslAuthenticateRequest { auth_bytes }, 2)
    }

    /// Logs in by SCRAM, and checks the other end as well.
    pub(crate) fn scram(&mut self, hash: Hash, user: &str, password: &str) -> Result<i64, String> {
        match self.handshake(hash.mechanism())? {
            0 => {}
            code => return Err(format!("the handshake has code {code}")),
        }
        let (first, client) = Client::begin(user, &random());
        let told = self.token(first.as_bytes())?;
        let mut known = Password::new(hash, Secret::new(password.as_bytes().to_vec()));
        let proved = client.prove(&told.auth_bytes, &mut known);
        let (last, verifying) = proved.map_err(|error| error.to_string())?;
        let told = self.token(last.as_bytes())?;
        if told.error_code != 0 {
            return Err(told.error_message.unwrap_or_default());
        }
        let ended = verifying.end(&told.auth_bytes);
        ended.map_err(|error| error.to_string())?;
        Ok(told.session_lifetime_ms)
    }
}

/// Bytes for a nonce: other ones each time. That others cannot guess them is of no account here.
pub(crate) fn random() -> [u8; NONCE_RANDOM_BYTES] {
    use std::hash::{BuildHasher, RandomState};
    std::array::from_fn(|at| RandomState::new().hash_one(at) as u8)
}
