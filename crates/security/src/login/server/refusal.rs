//! Refusals: what the client is told, and what we write down.
//!
//! Owns the words. Those for the client are Kafka's and say nothing about who exists; the reason is for our own log.

use super::Method;
use crate::login::node::NodeRefusal;
use crate::login::{Mechanism, plain, scram};
use crate::principal::Principal;

/// Bytes of a name that are kept for the log.
const NAME_BYTES_MAX: usize = 255;
/// Bytes of the name of a mechanism that are.
const MECHANISM_BYTES_MAX: usize = 32;
/// Kafka's words for whom it knows and who wants to be another.
const ANOTHER: &str =
    "Authentication failed: Client requested an authorization id that is different from username";
/// Kafka's words for a name and a password that do not belong together.
const WRONG: &str = "Authentication failed: Invalid username or password";

/// The end of a connection that was not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub answer: Answer,
    /// True if answer and close wait for `connection.failed.authentication.delay.ms`: somebody has tried to log in.
    pub is_delayed: bool,
    pub reason: Reason,
    /// The way that was tried, if it came to that.
    pub method: Option<Method>,
    /// The name that the client gave, or its beginning. It may hold anything: quote it.
    pub name: Option<String>,
}

/// The last answer before the connection is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Nothing,
    /// To SaslHandshake: UNSUPPORTED_SASL_MECHANISM (33), with the mechanisms that there are.
    UnsupportedMechanism(Vec<&'static str>),
    /// To whatever was asked: ILLEGAL_SASL_STATE (34).
    IllegalState,
    /// To SaslAuthenticate: SASL_AUTHENTICATION_FAILED (58), with these words.
    Failed(String),
}

/// Why nobody was let in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    #[error("it sends requests before it has logged in: its client may be set to PLAINTEXT")]
    Unexpected,
    #[error("the request has a version that nobody here knows")]
    Version,
    #[error("the session is over, and the client did not log in again")]
    Expired,
    #[error("the mechanism {0:?} is not enabled")]
    Mechanism(String),
    #[error("the client wants to log in again by another mechanism")]
    OtherMechanism,
    #[error("the client was {before} and wants to be {now}")]
    OtherPrincipal { before: Principal, now: Principal },
    #[error("the client wants to act under another name than its own")]
    Another,
    #[error("there is no such user, or the password is wrong")]
    Password,
    #[error("{0}")]
    Plain(plain::Malformed),
    #[error("{0}")]
    Scram(scram::Refusal),
    #[error("{0}")]
    Node(NodeRefusal),
}

impl Reason {
    pub(super) fn mechanism(asked: &str) -> Reason {
        Reason::Mechanism(kept(asked, MECHANISM_BYTES_MAX))
    }

    /// All kinds.
    pub const KINDS: [&'static str; 8] = [
        "unexpected",
        "expired",
        "mechanism",
        "principal",
        "malformed",
        "replay",
        "credentials",
        "node",
    ];

    /// A word for a metric, one of [`Reason::KINDS`].
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Reason::Unexpected | Reason::Version => "unexpected",
            Reason::Expired => "expired",
            Reason::Mechanism(_) | Reason::OtherMechanism => "mechanism",
            Reason::OtherPrincipal { .. } | Reason::Another => "principal",
            Reason::Plain(_) | Reason::Scram(scram::Refusal::Malformed(_)) => "malformed",
            Reason::Scram(scram::Refusal::Another) => "principal",
            Reason::Scram(scram::Refusal::Nonce | scram::Refusal::Binding) => "replay",
            Reason::Password | Reason::Scram(_) => "credentials",
            Reason::Node(_) => "node",
        }
    }

    /// The words for the client.
    pub(super) fn told(&self, method: Method, is_again: bool) -> String {
        match self {
            Reason::OtherPrincipal { before, now } => format!(
                "Cannot change principals during re-authentication from {}.{}: {}.{}",
                before.kind(),
                before.name(),
                now.kind(),
                now.name()
            ),
            Reason::Another | Reason::Scram(scram::Refusal::Another) => ANOTHER.to_owned(),
            Reason::Plain(why) => why.to_string(),
            Reason::Password if method == Method::User(Mechanism::Plain) => WRONG.to_owned(),
            // Nobody learns anything from it, and an operator reads it at either end.
            Reason::Node(why) => why.to_string(),
            _ => {
                let which = if is_again {
                    "re-authentication"
                } else {
                    "authentication"
                };
                format!(
                    "Authentication failed during {which} due to invalid credentials with SASL mechanism {}",
                    method.name()
                )
            }
        }
    }
}

impl Refused {
    /// A connection that is closed at once, without a word.
    pub(super) fn silent(reason: Reason) -> Refused {
        Refused {
            is_delayed: false,
            ..Refused::told(Answer::Nothing, reason)
        }
    }

    pub(super) fn told(answer: Answer, reason: Reason) -> Refused {
        Refused {
            answer,
            is_delayed: true,
            reason,
            method: None,
            name: None,
        }
    }

    pub(super) fn of(self, method: Method, name: Option<String>) -> Refused {
        let name = name.map(|name| kept(&name, NAME_BYTES_MAX));
        Refused {
            method: Some(method),
            name,
            ..self
        }
    }
}

/// The beginning of what a stranger said.
fn kept(text: &str, bytes: usize) -> String {
    text[..text.floor_char_boundary(bytes)].to_owned()
}
