//! The answers of a door, by its state and by what comes: Kafka's `SaslServerAuthenticator`, but for what is said here.
//!
//! Four differences are wanted ([`of_kafka`]):
//!
//! - Before a login a frame has 64 KiB at most, and 512 in Kafka.
//! - In the middle of a login Kafka reads a request of any other API, and answers it in its form before it closes. Where the form has a place for a
//!   code on top it has ILLEGAL_SASL_STATE; Metadata and Produce without topics have none, and say that all is well. No body of a stranger's
//!   request is read here but those of a login, so these close alone, and nobody but a broken client sees it.
//! - Who wants to log in again by a mechanism that there is not is told so here, and Kafka closes.
//! - A request of nodes is answered by Kafka's controllers alone, and closed by its brokers; our listeners are those of both.

use super::frames::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Fresh,
    /// After ApiVersions.
    Versioned,
    /// After a handshake of version 0: tokens have no header.
    Raw,
    /// After a handshake of version 1.
    Shaken,
    /// The client's first message is answered.
    Challenged,
    /// The same with a raw token.
    RawChallenged,
    /// Logged in, and the session has no end.
    Open,
    /// Logged in, the session goes on, and the client may log in again.
    Mortal,
    /// It has logged in again within a second.
    Renewed,
    /// Logged in, and on the way to do so again.
    Again,
    AgainChallenged,
    /// It wanted another mechanism for that.
    OtherMechanism,
    /// The session is over.
    Ended,
    /// The login failed.
    Failed,
}

pub(crate) const ALL: [State; 14] = [
    State::Fresh,
    State::Versioned,
    State::Raw,
    State::Shaken,
    State::Challenged,
    State::RawChallenged,
    State::Open,
    State::Mortal,
    State::Renewed,
    State::Again,
    State::AgainChallenged,
    State::OtherMechanism,
    State::Ended,
    State::Failed,
];

const CLOSED: &str = "closed";
const SERVED: &str = "none";
const NOT_NOW: &str = "ILLEGAL_SASL_STATE";
const NOT_NOW_CLOSED: &str = "ILLEGAL_SASL_STATE, closed";
const NO_MECHANISM: &str = "UNSUPPORTED_SASL_MECHANISM, closed";
const FAILED: &str = "SASL_AUTHENTICATION_FAILED, closed";

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Fresh => "fresh",
            State::Versioned => "after ApiVersions",
            State::Raw => "after SaslHandshake v0",
            State::Shaken => "after SaslHandshake v1",
            State::Challenged => "in the middle of SCRAM",
            State::RawChallenged => "in the middle of SCRAM, raw",
            State::Open => "logged in",
            State::Mortal => "logged in, for a while",
            State::Renewed => "logged in again, just now",
            State::Again => "again, after SaslHandshake v1",
            State::AgainChallenged => "again, in the middle of SCRAM",
            State::OtherMechanism => "again, by another mechanism",
            State::Ended => "session over",
            State::Failed => "login failed",
        }
    }
}

/// The outcome of a frame: the codes of the answer, and whether the connection is closed then.
pub(crate) fn answer(state: State, kind: Kind) -> &'static str {
    // Bytes that are no frame are none in any state.
    if matches!(
        kind,
        Kind::Negative | Kind::Http | Kind::Tls | Kind::UnknownApi
    ) {
        return CLOSED;
    }
    match state {
        State::Fresh => match kind {
            Kind::Versions => SERVED,
            Kind::VersionsUnknown => "UNSUPPORTED_VERSION",
            Kind::Handshake(_, true) => SERVED,
            Kind::Handshake(_, false) => NO_MECHANISM,
            _ => CLOSED,
        },
        State::Versioned => match kind {
            Kind::Handshake(_, true) => SERVED,
            Kind::Handshake(_, false) => NO_MECHANISM,
            _ => CLOSED,
        },
        // Whatever comes is a token.
        State::Raw | State::RawChallenged => match kind {
            Kind::Raw if state == State::Raw => "a raw token",
            Kind::Raw => "a frame",
            _ => CLOSED,
        },
        State::Shaken | State::Challenged | State::Again | State::AgainChallenged => match kind {
            Kind::Good => SERVED,
            Kind::Bad | Kind::Garbage => FAILED,
            Kind::Versions | Kind::VersionsUnknown | Kind::Handshake(..) => NOT_NOW_CLOSED,
            // A question for the versions, which is too long for strangers alone.
            Kind::Long if matches!(state, State::Again | State::AgainChallenged) => NOT_NOW_CLOSED,
            _ => CLOSED,
        },
        State::Open | State::Renewed => match kind {
            Kind::Handshake(..) | Kind::Good | Kind::Bad | Kind::Garbage => NOT_NOW,
            _ => served(kind),
        },
        State::Mortal => match kind {
            Kind::Handshake(_, true) => SERVED,
            Kind::Handshake(_, false) => NO_MECHANISM,
            Kind::Good | Kind::Bad | Kind::Garbage => NOT_NOW,
            _ => served(kind),
        },
        State::Ended => match kind {
            Kind::Handshake(_, true) => SERVED,
            Kind::Handshake(_, false) => NO_MECHANISM,
            _ => CLOSED,
        },
        State::OtherMechanism | State::Failed => CLOSED,
    }
}

/// For somebody who is in.
fn served(kind: Kind) -> &'static str {
    match kind {
        Kind::Versions | Kind::Long | Kind::Metadata | Kind::Produce => SERVED,
        Kind::VersionsUnknown => "UNSUPPORTED_VERSION",
        // Kafka's brokers close, and its controllers answer so.
        Kind::OfNodes => "CLUSTER_AUTHORIZATION_FAILED",
        _ => CLOSED,
    }
}

/// Kafka's answer where ours is meant to be another.
pub(crate) fn of_kafka(state: State, kind: Kind) -> Option<&'static str> {
    let is_under_way = matches!(
        state,
        State::Shaken | State::Challenged | State::Again | State::AgainChallenged
    );
    let is_in = matches!(state, State::Open | State::Mortal | State::Renewed);
    match kind {
        Kind::Long if state == State::Fresh => Some(SERVED),
        Kind::Long if matches!(state, State::Shaken | State::Challenged) => Some(NOT_NOW_CLOSED),
        Kind::Metadata | Kind::Produce if is_under_way => Some("none, closed"),
        Kind::OfNodes if is_under_way => Some(NOT_NOW_CLOSED),
        Kind::OfNodes if is_in => Some(CLOSED),
        Kind::Handshake(_, false) if matches!(state, State::Mortal | State::Ended) => Some(CLOSED),
        _ => None,
    }
}
