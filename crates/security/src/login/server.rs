//! The server's end of a login, from the first request of a connection to its end (Kafka's `SaslServerAuthenticator`).
//!
//! A door reads a frame, hands it in and does what the [`Step`] says. The table of states is closed: each kind of frame in each state has
//! one answer, and what no state expects ends the connection. An identity holds until the next one is proved (KIP-368). Does not look
//! into requests, does not know who exists (see [`Users`]), and checks no slow password itself (see [`Check`]).

mod check;
mod exchange;
mod refusal;

use std::sync::Arc;
use std::time::Duration;

use model::Instant;

use super::Mechanism;
use super::node::{self, NodeProof};
use super::scram::{Credential, Fakes, Hash, NONCE_RANDOM_BYTES};
use crate::principal::Principal;
use crate::secret::Secret;

pub use check::{Check, Verdict};
use exchange::{Exchange, Outcome};
pub use refusal::{Answer, Reason, Refused};

/// Time between the beginnings of two logins on a connection that has logged in before.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Versions of SaslHandshake and SaslAuthenticate that are read; others end the connection, as in Kafka.
const HANDSHAKES: std::ops::RangeInclusive<i16> = 0..=1;
const AUTHENTICATES: std::ops::RangeInclusive<i16> = 0..=2;
/// The words of Kafka for a token of somebody who has logged in.
pub const LATE: &str = "SaslAuthenticate request received after successful authentication";

/// Those who may log in, as they are known at the moment of a question.
pub trait Users {
    /// The record of a user, for SCRAM; PLAIN is checked against both of them too.
    fn scram(&self, hash: Hash, name: &str) -> Option<Credential>;

    /// The password that the settings of the listener give to a user, for PLAIN alone.
    fn plain(&self, name: &str) -> Option<Secret<Vec<u8>>>;
}

/// The ways to log in at a listener; its connections share it.
pub struct Offer {
    /// In the order in which clients are told of them; each with the longest life of a session, if it has one.
    pub mechanisms: Vec<(Mechanism, Option<Duration>)>,
    /// `Some` where nodes may prove themselves. No client is told of it.
    pub nodes: Option<Arc<NodeProof>>,
    pub fakes: Fakes,
}

/// A way to log in, of users or of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    User(Mechanism),
    Node,
}

/// A frame of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// `is_valid` is false where the answer is an error: the version is unknown, or the client's name is none. It does not count.
    ApiVersions {
        is_valid: bool,
    },
    SaslHandshake {
        version: i16,
        mechanism: &'a str,
    },
    SaslAuthenticate {
        version: i16,
        token: &'a [u8],
    },
    /// A frame without a header, where [`Login::is_raw`] says so.
    Raw(&'a [u8]),
    /// Any other request. Its body is not to be read before the login is over.
    Other,
}

/// The next step of the door.
pub enum Step {
    /// Answer ApiVersions.
    Versions,
    /// Answer SaslHandshake without an error, with [`Login::mechanisms`].
    Handshake,
    /// Send this to the client and wait for its next token: as an answer to SaslAuthenticate, or raw.
    Challenge(Vec<u8>),
    /// Have this computed by somebody who has the time, and hand in the verdict. Frames wait until then.
    Check(Check),
    /// The client is in.
    Done(Done),
    /// A frame that came while the verdict is out: bring it again after that.
    Hold,
    /// Serve the request, in the name of the session.
    Pass,
    /// Answer the request with ILLEGAL_SASL_STATE (34), with these words where it has room for some. The connection stays as it is.
    NotNow(&'static str),
    /// Send what there is to send, and close.
    Refused(Refused),
}

/// The end of a login that succeeded.
pub struct Done {
    pub principal: Principal,
    /// The last bytes for the client, to be sent even where they are none.
    pub last: Vec<u8>,
    /// The life of the session in milliseconds; 0 for no end.
    pub session_ms: i64,
    /// True if the client was logged in before.
    pub is_again: bool,
}

/// Somebody who has logged in.
#[derive(Clone, Debug)]
pub struct Session {
    pub principal: Principal,
    pub method: Method,
    /// The last moment of its life.
    pub ends: Option<Instant>,
}

impl Frame<'_> {
    fn has_unknown_version(&self) -> bool {
        match self {
            Frame::SaslHandshake { version, .. } => !HANDSHAKES.contains(version),
            Frame::SaslAuthenticate { version, .. } => !AUTHENTICATES.contains(version),
            Frame::ApiVersions { .. } | Frame::Raw(_) | Frame::Other => false,
        }
    }
}

impl Method {
    /// The name of the mechanism.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Method::User(mechanism) => mechanism.name(),
            Method::Node => node::MECHANISM,
        }
    }
}

enum State {
    /// A handshake is next, or first a question for the versions.
    Fresh,
    /// A handshake is next.
    Versioned,
    /// A token is next.
    Token(Talk, Exchange),
    /// A password is being checked elsewhere.
    Checking(Talk, exchange::Checking),
    /// The client asked for another mechanism than it had. Kafka says so at the next token, and so do we.
    OtherMechanism,
    /// Logged in.
    Open,
    Closed,
}

/// How the tokens of one login travel, and for what.
#[derive(Clone, Copy)]
struct Talk {
    method: Method,
    is_raw: bool,
}

/// The login of one connection.
pub struct Login {
    offer: Arc<Offer>,
    state: State,
    session: Option<Session>,
    /// The moment in which the last login after the first began.
    again: Option<Instant>,
}

impl Login {
    #[must_use]
    pub fn new(offer: Arc<Offer>) -> Login {
        Login {
            offer,
            state: State::Fresh,
            session: None,
            again: None,
        }
    }

    /// True if the next frame is a token without a header: after a handshake of version 0.
    #[must_use]
    pub fn is_raw(&self) -> bool {
        matches!(&self.state, State::Token(talk, _) if talk.is_raw)
    }

    /// True before the client is in, and while it logs in again: requests that are under way are answered, new ones are not served.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        !matches!(self.state, State::Open | State::Closed)
    }

    /// The identity that holds now. A new login changes it when it succeeds.
    #[must_use]
    pub fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// True if a request may be served now. One comparison: for each request of a connection.
    #[must_use]
    pub fn admits(&self, now: Instant) -> bool {
        let is_alive = |session: &Session| session.ends.is_none_or(|ends| now <= ends);
        matches!(self.state, State::Open) && self.session.as_ref().is_some_and(is_alive)
    }

    /// The names of the mechanisms on offer.
    #[must_use]
    pub fn mechanisms(&self) -> Vec<&'static str> {
        let names = self.offer.mechanisms.iter();
        names.map(|(mechanism, _)| mechanism.name()).collect()
    }

    /// Takes a frame. `random` is used by one nonce at most, and must be new for each frame.
    pub fn on_frame(
        &mut self,
        frame: Frame<'_>,
        users: &dyn Users,
        now: Instant,
        random: &[u8; NONCE_RANDOM_BYTES],
    ) -> Step {
        let is_parsed = !matches!(self.state, State::Checking(..) | State::OtherMechanism);
        if is_parsed && frame.has_unknown_version() {
            self.state = State::Closed;
            return Step::Refused(Refused::silent(Reason::Version));
        }
        // A login that is not put back is closed.
        match (std::mem::replace(&mut self.state, State::Closed), frame) {
            (State::Fresh, Frame::ApiVersions { is_valid }) => {
                self.state = if is_valid {
                    State::Versioned
                } else {
                    State::Fresh
                };
                Step::Versions
            }
            (State::Fresh | State::Versioned, Frame::SaslHandshake { version, mechanism }) => {
                self.on_handshake(version, mechanism)
            }
            (State::Token(talk, exchange), Frame::Raw(token)) if talk.is_raw => {
                self.on_token(talk, exchange, token, (users, random), now)
            }
            (State::Token(talk, exchange), Frame::SaslAuthenticate { token, .. })
                if !talk.is_raw =>
            {
                self.on_token(talk, exchange, token, (users, random), now)
            }
            (
                State::Token(talk, _),
                Frame::ApiVersions { .. } | Frame::SaslHandshake { .. } | Frame::Other,
            ) if !talk.is_raw => {
                let refused = Refused::told(Answer::IllegalState, Reason::Unexpected);
                Step::Refused(refused.of(talk.method, None))
            }
            (State::Checking(talk, checking), _) => {
                self.state = State::Checking(talk, checking);
                Step::Hold
            }
            (State::OtherMechanism, _) => {
                Step::Refused(Refused::told(Answer::Nothing, Reason::OtherMechanism))
            }
            (State::Open, frame) => self.on_open(frame, now),
            (
                State::Fresh | State::Versioned | State::Token(..) | State::Closed,
                Frame::ApiVersions { .. }
                | Frame::SaslHandshake { .. }
                | Frame::SaslAuthenticate { .. }
                | Frame::Raw(_)
                | Frame::Other,
            ) => Step::Refused(Refused::silent(Reason::Unexpected)),
        }
    }

    /// Takes the verdict of a [`Check`].
    pub fn on_verdict(&mut self, verdict: &Verdict, now: Instant) -> Step {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Checking(talk, checking) => {
                let outcome = checking.end(verdict);
                self.on_outcome(talk, outcome, now)
            }
            // The connection was closed meanwhile, or the verdict is that of another.
            _ => Step::Refused(Refused::silent(Reason::Unexpected)),
        }
    }

    fn on_handshake(&mut self, version: i16, name: &str) -> Step {
        let Some(method) = self.method(name) else {
            let answer = Answer::UnsupportedMechanism(self.mechanisms());
            return Step::Refused(Refused::told(answer, Reason::mechanism(name)));
        };
        if (self.session.as_ref()).is_some_and(|session| session.method != method) {
            self.state = State::OtherMechanism;
            return Step::Handshake;
        }
        let is_raw = version == 0;
        self.state = State::Token(Talk { method, is_raw }, Exchange::new(method));
        Step::Handshake
    }

    fn method(&self, name: &str) -> Option<Method> {
        if name == node::MECHANISM {
            return self.offer.nodes.is_some().then_some(Method::Node);
        }
        let mechanism = Mechanism::of_name(name)?;
        let mut offered = self.offer.mechanisms.iter();
        let is_offered = offered.any(|(offered, _)| *offered == mechanism);
        is_offered.then_some(Method::User(mechanism))
    }

    fn on_token(
        &mut self,
        talk: Talk,
        exchange: Exchange,
        token: &[u8],
        (users, random): (&dyn Users, &[u8; NONCE_RANDOM_BYTES]),
        now: Instant,
    ) -> Step {
        let outcome = exchange.on_token(token, &self.offer, users, random);
        self.on_outcome(talk, outcome, now)
    }

    fn on_outcome(&mut self, talk: Talk, outcome: Outcome, now: Instant) -> Step {
        match outcome {
            Outcome::Challenge(bytes, exchange) => {
                self.state = State::Token(talk, exchange);
                Step::Challenge(bytes)
            }
            Outcome::Check(check, checking) => {
                self.state = State::Checking(talk, checking);
                Step::Check(check)
            }
            Outcome::Proved(principal, last) => self.on_proof(talk, principal, last, now),
            Outcome::Refused(name, reason) => self.refuse(talk, name, reason),
        }
    }

    fn on_proof(&mut self, talk: Talk, principal: Principal, last: Vec<u8>, now: Instant) -> Step {
        let before = self.session.as_ref();
        let is_again = before.is_some();
        if let Some(before) = before.filter(|before| before.principal != principal) {
            let reason = Reason::OtherPrincipal {
                before: before.principal.clone(),
                now: principal.clone(),
            };
            return self.refuse(talk, Some(principal.name().to_owned()), reason);
        }
        let length = self.session_length(talk.method);
        self.session = Some(Session {
            principal: principal.clone(),
            method: talk.method,
            ends: length.map(|length| now.plus(length)),
        });
        self.state = State::Open;
        let session_ms = length.map_or(0, |length| {
            i64::try_from(length.as_millis()).unwrap_or(i64::MAX)
        });
        Step::Done(Done {
            principal,
            last,
            session_ms,
            is_again,
        })
    }

    fn session_length(&self, method: Method) -> Option<Duration> {
        let Method::User(mechanism) = method else {
            return None;
        };
        let mut offered = self.offer.mechanisms.iter();
        let (_, length) = offered.find(|(offered, _)| *offered == mechanism)?;
        length.filter(|length| !length.is_zero())
    }

    fn refuse(&self, talk: Talk, name: Option<String>, reason: Reason) -> Step {
        let answer = if talk.is_raw {
            // There is no room for an error between raw tokens.
            Answer::Nothing
        } else {
            Answer::Failed(reason.told(talk.method, self.session.is_some()))
        };
        let refused = Refused::told(answer, reason);
        Step::Refused(refused.of(talk.method, name))
    }

    /// A frame on a connection that has logged in.
    fn on_open(&mut self, frame: Frame<'_>, now: Instant) -> Step {
        let ends = self.session.as_ref().and_then(|session| session.ends);
        let is_soon = |again: Instant| now.since(again) < AGAIN_AFTER;
        if let Frame::SaslHandshake { version, mechanism } = frame
            && ends.is_some()
            && !self.again.is_some_and(is_soon)
        {
            self.again = Some(now);
            return self.on_handshake(version, mechanism);
        }
        self.state = State::Open;
        if !self.admits(now) {
            self.state = State::Closed;
            let refused = Refused::silent(Reason::Expired);
            return Step::Refused(match &self.session {
                Some(Session {
                    principal, method, ..
                }) => refused.of(*method, Some(principal.name().to_owned())),
                None => refused,
            });
        }
        match frame {
            Frame::SaslHandshake { .. } => Step::NotNow(""),
            Frame::SaslAuthenticate { .. } => Step::NotNow(LATE),
            Frame::ApiVersions { .. } | Frame::Other => Step::Pass,
            Frame::Raw(_) => {
                self.state = State::Closed;
                Step::Refused(Refused::silent(Reason::Unexpected))
            }
        }
    }
}

#[cfg(test)]
mod tests;
