//! The forms of frames and answers of a login, and the refusals that wait.

use model::Instant;

use crate::net::Outcome;

/// The form of a frame, and so of the answer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Versions,
    Handshake,
    /// A token in SaslAuthenticate.
    Token,
    /// A token without a header.
    Raw,
    /// Kafka answers these in the middle of a login, each in the form of its API, and closes. No body of a stranger is read here but those of a
    /// login, and no client that means it sends another: they are closed without.
    Other,
}

/// A refusal on its way to the client.
pub(crate) struct Refusing {
    pub(crate) outcome: Outcome,
    pub(crate) until: Instant,
}
