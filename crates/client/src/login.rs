//! The steps of a login by SASL, without the connection: requests come out, and their answers go in.
//!
//! Owns the order of SaslHandshake and SaslAuthenticate, and the judgement of their answers. A login that is done is one in which the broker
//! has proved itself as well, where the mechanism has such a proof. Does no IO and has no clock: see [`Session`] for both. No message and no
//! `Debug` shows a password.

use std::fmt;
use std::time::Duration;

use security::Secret;
use security::login::scram::{Client, ClientError, NONCE_RANDOM_BYTES, Password, Verifying};
use security::login::{Mechanism, plain};
use wire::error_code::ErrorCode;
use wire::messages::{SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest};
use wire::{ApiKey, Encoded};

use crate::error::{Garbage, LoginRefusal};
use crate::session::{Reply, RequestError, Session};

/// The first version of SaslHandshake after which tokens have headers. Raw ones are not spoken.
const HANDSHAKE_MIN: i16 = 1;
/// Bytes of a broker's sentence that are repeated, and of the name of a mechanism.
const WORDS_BYTES_MAX: usize = 1024;
const NAME_BYTES_MAX: usize = 64;
/// Mechanisms of a broker that are repeated; there are six of Kafka's.
const NAMES_MAX: usize = 16;

/// A user with a password, and the mechanism that proves it.
#[derive(Clone)]
pub struct Login {
    mechanism: Mechanism,
    user: String,
    key: Key,
}

#[derive(Clone)]
enum Key {
    Plain(Secret<Vec<u8>>),
    /// Remembers what was made of the password for the salt of the last login.
    Scram(Password),
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("mechanism", &self.mechanism)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl Login {
    #[must_use]
    pub fn new(mechanism: Mechanism, user: &str, password: Secret<Vec<u8>>) -> Login {
        let key = match mechanism {
            Mechanism::Plain => Key::Plain(password),
            Mechanism::Scram(hash) => Key::Scram(Password::new(hash, password)),
        };
        Login {
            mechanism,
            user: user.to_owned(),
            key,
        }
    }

    #[must_use]
    pub fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The first request, for a session that knows its versions. `random` must be new for each login.
    pub fn begin(
        &self,
        session: &mut Session,
        random: [u8; NONCE_RANDOM_BYTES],
    ) -> Result<(Encoded, LoginStep), LoginFault> {
        let handshake = session.version(ApiKey::SaslHandshake);
        let handshake = handshake.ok_or(LoginRefusal::NotAsked)?;
        if handshake < HANDSHAKE_MIN {
            return Err(RequestError::Unsupported(ApiKey::SaslAuthenticate).into());
        }
        let request = SaslHandshakeRequest {
            mechanism: self.mechanism.name().to_owned(),
        };
        let encoded = session.request(&request)?;
        Ok((encoded, LoginStep(Awaited::Handshake(random))))
    }
}

/// A login that waits for the answer to what was sent last.
pub struct LoginStep(Awaited);

enum Awaited {
    Handshake([u8; NONCE_RANDOM_BYTES]),
    Challenge(Box<Client>),
    Proof(Verifying),
    /// PLAIN: yes or no.
    Verdict,
}

/// The consequence of an answer.
pub enum LoginNext {
    Send(Encoded, LoginStep),
    /// The client is in, for this time if the session has an end.
    Done(Option<Duration>),
}

impl LoginStep {
    /// Takes the answer. `login` is the one that began.
    pub fn on_reply(
        self,
        reply: &Reply,
        login: &mut Login,
        session: &mut Session,
    ) -> Result<LoginNext, LoginFault> {
        match self.0 {
            Awaited::Handshake(random) => {
                check_handshake(reply)?;
                match &login.key {
                    Key::Plain(password) => {
                        let message = plain::write(&login.user, password);
                        token(session, message.to_vec(), Awaited::Verdict)
                    }
                    Key::Scram(_) => {
                        let (first, client) = Client::begin(&login.user, &random);
                        token(
                            session,
                            first.into_bytes(),
                            Awaited::Challenge(Box::new(client)),
                        )
                    }
                }
            }
            Awaited::Challenge(client) => {
                let answer = authenticated(reply)?;
                let Key::Scram(password) = &mut login.key else {
                    unreachable!("PLAIN has no challenge")
                };
                let (last, verifying) = client.prove(&answer.auth_bytes, password)?;
                token(session, last.into_bytes(), Awaited::Proof(verifying))
            }
            Awaited::Proof(verifying) => {
                let answer = authenticated(reply)?;
                verifying.end(&answer.auth_bytes)?;
                Ok(LoginNext::Done(lifetime(&answer)))
            }
            Awaited::Verdict => Ok(LoginNext::Done(lifetime(&authenticated(reply)?))),
        }
    }
}

fn token(
    session: &mut Session,
    message: Vec<u8>,
    awaited: Awaited,
) -> Result<LoginNext, LoginFault> {
    let request = SaslAuthenticateRequest {
        auth_bytes: message.into(),
    };
    let encoded = session.request(&request)?;
    Ok(LoginNext::Send(encoded, LoginStep(awaited)))
}

fn check_handshake(reply: &Reply) -> Result<(), LoginFault> {
    let answer = reply.decode::<SaslHandshakeRequest>();
    let answer = answer.map_err(|fault| LoginFault::Garbage(reply.key(), fault.into()))?;
    match ErrorCode::try_from(answer.error_code) {
        Ok(ErrorCode::None) => Ok(()),
        Ok(ErrorCode::IllegalSaslState) => Err(LoginRefusal::NotAsked.into()),
        Ok(ErrorCode::UnsupportedSaslMechanism) => {
            let offered = names(answer.mechanisms);
            Err(LoginRefusal::Mechanism { offered }.into())
        }
        _ => Err(refusal(answer.error_code, None).into()),
    }
}

/// The names of mechanisms, as a broker gives them.
pub(crate) fn names(mechanisms: Vec<String>) -> Vec<String> {
    let names = mechanisms.into_iter().take(NAMES_MAX);
    names.map(|name| cut(name, NAME_BYTES_MAX)).collect()
}

fn authenticated(reply: &Reply) -> Result<SaslAuthenticateResponse, LoginFault> {
    let answer = reply.decode::<SaslAuthenticateRequest>();
    let answer = answer.map_err(|fault| LoginFault::Garbage(reply.key(), fault.into()))?;
    if answer.error_code == ErrorCode::None.code() {
        Ok(answer)
    } else {
        Err(refusal(answer.error_code, answer.error_message).into())
    }
}

/// The broker's words, or those of its code.
fn refusal(code: i16, message: Option<String>) -> LoginRefusal {
    let words = message.filter(|words| !words.is_empty());
    match (words, ErrorCode::try_from(code)) {
        (Some(words), _) => LoginRefusal::Words(cut(words, WORDS_BYTES_MAX)),
        (None, Ok(code)) => LoginRefusal::Words(code.message().to_owned()),
        (None, Err(_)) => LoginRefusal::Code(code),
    }
}

fn cut(mut text: String, bytes_max: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}

fn lifetime(answer: &SaslAuthenticateResponse) -> Option<Duration> {
    let ms = u64::try_from(answer.session_lifetime_ms).ok()?;
    (0 < ms).then(|| Duration::from_millis(ms))
}

/// Why a login does not go on.
#[derive(Debug, thiserror::Error)]
pub enum LoginFault {
    #[error(transparent)]
    Refused(#[from] LoginRefusal),
    #[error("the answer to {0} is none: {1}")]
    Garbage(ApiKey, Garbage),
    #[error(transparent)]
    Request(#[from] RequestError),
}

impl From<ClientError> for LoginFault {
    fn from(error: ClientError) -> LoginFault {
        LoginFault::Refused(match error {
            ClientError::Refused(words) => LoginRefusal::Words(cut(words, WORDS_BYTES_MAX)),
            other => LoginRefusal::Broker(other),
        })
    }
}
