//! A listener with logins in memory: the server's machine, reached through an environment with a clock of its own.
//!
//! Remembers what is asked. Serves Metadata alone to those who are in. An answer may be spoilt on its way.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use bytes::Bytes;
use env::{Clock, Env, Net, Poller, Stream};
use model::{Instant, Timestamp};
use security::Secret;
use security::login::Mechanism;
use security::login::scram::{Credential, Fakes, Hash, NONCE_RANDOM_BYTES};
use security::login::server::{Answer, Frame, Login, Offer, Refused, Step, Users};
use wire::messages::api_versions_response::ApiVersion;
use wire::messages::*;
use wire::{ApiKey, ErrorCode, Message, Reader, decode_request_header, frame};

pub(crate) const PLAIN: Mechanism = Mechanism::Plain;
pub(crate) const SHA_256: Mechanism = Mechanism::Scram(Hash::Sha256);
pub(crate) const SHA_512: Mechanism = Mechanism::Scram(Hash::Sha512);

/// Salting takes its time: once for all tests.
static RECORDS: LazyLock<[Credential; 2]> = LazyLock::new(|| {
    Hash::ALL.map(|hash| Credential::new(hash, b"wonderland", b"salt".to_vec(), 4096))
});

/// There is one user: alice, whose password is wonderland.
struct Known;

impl Users for Known {
    fn scram(&self, hash: Hash, name: &str) -> Option<Credential> {
        let mut records = RECORDS.iter();
        let record = records.find(|record| record.hash == hash);
        record.filter(|_| name == "alice").cloned()
    }

    fn plain(&self, _: &str) -> Option<Secret<Vec<u8>>> {
        None
    }
}

/// The change to an answer: other bytes, or none, and the connection ends.
pub(crate) type Spoil = Box<dyn FnMut(ApiKey, Bytes) -> Option<Bytes> + Send>;

pub(crate) struct State {
    /// `None` for a listener without logins.
    offer: Option<Arc<Offer>>,
    pub(crate) spoil: Spoil,
    /// The APIs of all connections, in their order.
    pub(crate) asked: Vec<ApiKey>,
    pub(crate) dials: usize,
    now: Instant,
}

#[derive(Clone)]
pub(crate) struct Door(pub(crate) Arc<Mutex<State>>);

impl Door {
    pub(crate) fn new(mechanisms: &[Mechanism], session: Option<Duration>) -> Door {
        let offer = Offer {
            mechanisms: mechanisms.iter().map(|it| (*it, session)).collect(),
            nodes: None,
            fakes: Fakes::new([7; 32]),
        };
        Door::with(Some(Arc::new(offer)))
    }

    pub(crate) fn without_logins() -> Door {
        Door::with(None)
    }

    fn with(offer: Option<Arc<Offer>>) -> Door {
        Door(Arc::new(Mutex::new(State {
            offer,
            spoil: Box::new(|_, answer| Some(answer)),
            asked: Vec::new(),
            dials: 0,
            now: Instant(1_000_000_000),
        })))
    }

    pub(crate) fn spoil(&self, spoil: impl FnMut(ApiKey, Bytes) -> Option<Bytes> + Send + 'static) {
        self.0.lock().unwrap().spoil = Box::new(spoil);
    }

    pub(crate) fn pass(&self, time: Duration) {
        let mut state = self.0.lock().unwrap();
        state.now = state.now.plus(time);
    }

    /// The requests since the last call, in short.
    pub(crate) fn asked(&self) -> String {
        let asked = std::mem::take(&mut self.0.lock().unwrap().asked);
        let short = asked.iter().map(|key| match key {
            ApiKey::ApiVersions => "versions",
            ApiKey::SaslHandshake => "handshake",
            ApiKey::SaslAuthenticate => "token",
            ApiKey::Metadata => "metadata",
            other => panic!("{other} is not needed here"),
        });
        short.collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn env(&self) -> Env {
        Env {
            net: Arc::new(self.clone()),
            clock: Arc::new(self.clone()),
            ..Env::real()
        }
    }
}

impl Clock for Door {
    fn now(&self) -> Instant {
        self.0.lock().unwrap().now
    }

    fn wall_ms(&self) -> Timestamp {
        Timestamp(0)
    }
}

impl Net for Door {
    fn resolve(&self, _: &str) -> io::Result<Vec<std::net::SocketAddr>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn poller(&self) -> io::Result<Box<dyn Poller>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn dial(&self, _: &str, _: Duration) -> io::Result<Box<dyn Stream>> {
        let mut state = self.0.lock().unwrap();
        state.dials += 1;
        Ok(Box::new(Socket {
            door: self.clone(),
            login: state.offer.clone().map(Login::new),
            sent: Vec::new(),
            answers: VecDeque::new(),
            is_closed: false,
        }))
    }
}

struct Socket {
    door: Door,
    login: Option<Login>,
    sent: Vec<u8>,
    answers: VecDeque<u8>,
    is_closed: bool,
}

impl Stream for Socket {
    fn set_timeout(&mut self, _: Duration) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.answers.is_empty() && !self.is_closed {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.answers.read(buf)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sent.extend_from_slice(bytes);
        while let Some(four) = self.sent.first_chunk::<4>()
            && !self.is_closed
        {
            let length = 4 + u32::from_be_bytes(*four) as usize;
            if self.sent.len() < length {
                break;
            }
            let request: Vec<u8> = self.sent.drain(..length).skip(4).collect();
            self.request(request.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An answer, and whether the connection ends behind it.
type Told = (Option<Bytes>, bool);

impl Socket {
    fn request(&mut self, bytes: Bytes) {
        let mut r = Reader::new(bytes);
        let head = decode_request_header(&mut r).expect("the client writes valid headers");
        let key = head.api().expect("the client asks for known APIs");
        self.door.0.lock().unwrap().asked.push(key);
        let asked = Asked {
            key,
            version: head.version,
            correlation: head.correlation_id,
        };
        let (answer, is_last) = match self.login.take() {
            None => (asked.without_login(), false),
            Some(mut login) => {
                let told = asked.with_login(&mut login, &mut r, self.door.now());
                self.login = Some(login);
                told
            }
        };
        let mut state = self.door.0.lock().unwrap();
        let spoilt = answer.and_then(|answer| (state.spoil)(key, answer.slice(4..)));
        self.is_closed = is_last || spoilt.is_none();
        if let Some(answer) = spoilt {
            let length = answer.len() as u32;
            self.answers.extend(length.to_be_bytes());
            self.answers.extend(answer);
        }
    }
}

struct Asked {
    key: ApiKey,
    version: i16,
    correlation: i32,
}

impl Asked {
    fn answer<M: Message>(&self, response: &M) -> Option<Bytes> {
        let encoded = frame::encode_response(self.key, response, self.version, self.correlation);
        Some(encoded.unwrap().into_bytes().unwrap())
    }

    fn without_login(&self) -> Option<Bytes> {
        match self.key {
            ApiKey::SaslHandshake => self.handshake(ErrorCode::IllegalSaslState, &[]),
            _ => self.served(),
        }
    }

    fn with_login(&self, login: &mut Login, r: &mut Reader, now: Instant) -> Told {
        let (version, random) = (self.version, [b'x'; NONCE_RANDOM_BYTES]);
        let step = match self.key {
            ApiKey::ApiVersions => {
                let is_valid = true;
                login.on_frame(Frame::ApiVersions { is_valid }, &Known, now, &random)
            }
            ApiKey::SaslHandshake => {
                let request = SaslHandshakeRequest::decode(r, version).unwrap();
                let mechanism = &*request.mechanism;
                let frame = Frame::SaslHandshake { version, mechanism };
                login.on_frame(frame, &Known, now, &random)
            }
            ApiKey::SaslAuthenticate => {
                let request = SaslAuthenticateRequest::decode(r, version).unwrap();
                let token = &*request.auth_bytes;
                let frame = Frame::SaslAuthenticate { version, token };
                match login.on_frame(frame, &Known, now, &random) {
                    Step::Check(check) => login.on_verdict(&check.run(), now),
                    step => step,
                }
            }
            _ => login.on_frame(Frame::Other, &Known, now, &random),
        };
        match step {
            Step::Versions | Step::Pass => (self.served(), false),
            Step::Handshake => (self.handshake(ErrorCode::None, &login.mechanisms()), false),
            Step::Challenge(bytes) => (self.token(bytes, 0), false),
            Step::Done(done) => (self.token(done.last, done.session_ms), false),
            Step::NotNow(_) => (self.handshake(ErrorCode::IllegalSaslState, &[]), false),
            Step::Refused(refused) => (self.refused(&refused), true),
            Step::Check(_) | Step::Hold => unreachable!("a check is run at once"),
        }
    }

    fn refused(&self, refused: &Refused) -> Option<Bytes> {
        match &refused.answer {
            Answer::Nothing => None,
            Answer::UnsupportedMechanism(names) => {
                self.handshake(ErrorCode::UnsupportedSaslMechanism, names)
            }
            Answer::IllegalState => panic!("the client keeps to the order"),
            Answer::Failed(words) => self.answer(&SaslAuthenticateResponse {
                error_code: ErrorCode::SaslAuthenticationFailed.code(),
                error_message: Some(words.clone()),
                ..Default::default()
            }),
        }
    }

    fn handshake(&self, code: ErrorCode, mechanisms: &[&str]) -> Option<Bytes> {
        self.answer(&SaslHandshakeResponse {
            error_code: code.code(),
            mechanisms: mechanisms.iter().map(|it| (*it).to_owned()).collect(),
        })
    }

    fn token(&self, bytes: Vec<u8>, session_lifetime_ms: i64) -> Option<Bytes> {
        self.answer(&SaslAuthenticateResponse {
            auth_bytes: bytes.into(),
            session_lifetime_ms,
            ..Default::default()
        })
    }

    fn served(&self) -> Option<Bytes> {
        match self.key {
            ApiKey::ApiVersions => {
                let keys = [
                    ApiKey::ApiVersions,
                    ApiKey::Metadata,
                    ApiKey::SaslHandshake,
                    ApiKey::SaslAuthenticate,
                ];
                let offered = keys.map(|key| ApiVersion {
                    api_key: key.key(),
                    min_version: key.min_version(),
                    max_version: key.max_version_stable(),
                });
                self.answer(&ApiVersionsResponse {
                    api_keys: offered.to_vec(),
                    ..Default::default()
                })
            }
            ApiKey::Metadata => self.answer(&MetadataResponse::default()),
            other => panic!("{other} is not needed here"),
        }
    }
}
