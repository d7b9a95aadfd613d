//! Why an operation of the client failed: facts, and for each the question who can do something about it.

use std::io;
use std::time::Duration;

use security::login::scram::ClientError;
use wire::error_code::ErrorCode;
use wire::records::{BatchError, CodecError, RecordError};
use wire::{ApiKey, DecodeError, EncodeError};

use crate::inbox::FrameTooLong;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody listens there, or the name does not resolve: start a broker, or correct the address.
    #[error("cannot connect to {address}: {source}")]
    Connect { address: String, source: io::Error },
    /// The connection ended, or nothing came, before the first answer: the peer may speak another protocol.
    #[error("{address} did not answer the first request: {source}")]
    NoGreeting { address: String, source: io::Error },
    /// The connection ended, or nothing came, in the middle of the first login: a broker that went away, or one that takes no login.
    #[error("{address} ended the login of {user}: {source}")]
    NoLogin {
        address: String,
        user: String,
        source: io::Error,
    },
    /// The client has no user, and the listener lets nobody in without one.
    #[error("{address} lets nobody in without a login{}", by(mechanisms))]
    LoginNeeded {
        address: String,
        /// Those on offer; none are known where an address alone says it.
        mechanisms: Vec<String>,
    },
    /// The broker does not let the user in, or does not prove itself: somebody corrects the user, the password or the mechanism.
    #[error("cannot log in to {address} as {user} by {mechanism}: {why}")]
    Login {
        address: String,
        user: String,
        mechanism: &'static str,
        why: LoginRefusal,
    },
    /// A broker went away in the middle; the client reconnects and asks again where that is safe.
    #[error("the connection to {address} was lost: {source}")]
    Lost { address: String, source: io::Error },
    /// The deadline of the whole operation passed. `last` is what stood in the way.
    #[error("{what} did not finish within {} s{}", after.as_secs_f64(), because(last.as_deref()))]
    TimedOut {
        what: String,
        after: Duration,
        last: Option<Box<Error>>,
    },
    /// The peer is no broker, or a broken one.
    #[error("{address} sent something that is no answer to {api}: {fault}")]
    Garbled {
        address: String,
        api: ApiKey,
        fault: Garbage,
    },
    /// The broker does not offer the API, or in no version that we know.
    #[error("{address} does not offer {api} in a version that this client speaks ({} to {})", api.min_version(), api.max_version_stable())]
    Unsupported { address: String, api: ApiKey },
    /// The broker understood and said no.
    #[error("{what}: {}{}", code.message(), detail(message.as_deref()))]
    Refused {
        what: String,
        code: ErrorCode,
        message: Option<String>,
    },
    #[error("{what}: the broker answered with the unknown error code {code}")]
    UnknownCode { what: String, code: i16 },
    #[error("there is no topic {topic}")]
    NoTopic { topic: String },
    #[error("topic {topic} has partitions 0 to {}, not {partition}", count - 1)]
    NoPartition {
        topic: String,
        partition: i32,
        count: i32,
    },
    #[error("{topic}-{partition} has no leader now")]
    NoLeader { topic: String, partition: i32 },
    #[error(
        "{topic}-{partition} keeps the offsets from {log_start} up to {log_end}; {asked} is outside of them"
    )]
    OutOfRange {
        topic: String,
        partition: i32,
        asked: i64,
        log_start: i64,
        log_end: i64,
    },
    /// Bytes that fail their checks: the stored data or the way to it is damaged.
    #[error("{topic}-{partition} at offset {offset}: {fault}")]
    Damaged {
        topic: String,
        partition: i32,
        offset: i64,
        fault: Damage,
    },
    /// The broker cannot read what it stored from this offset on.
    #[error("{topic}-{partition} at offset {offset}: {}", code.message())]
    Unreadable {
        topic: String,
        partition: i32,
        offset: i64,
        code: ErrorCode,
    },
    /// It answers nothing but questions about the quorum meanwhile.
    #[error("{said}")]
    NoController {
        said: String,
        /// It knows of more voters than addresses were asked.
        has_others: bool,
    },
    #[error("a request cannot be written: {0}")]
    Encode(#[from] EncodeError),
    #[error("`{address}` is not host:port")]
    Address { address: String },
    #[error(
        "{address}: this client speaks PLAINTEXT and SASL_PLAINTEXT, not {protocol}; TLS comes with the next version"
    )]
    Protocol { address: String, protocol: String },
}

#[derive(Debug, thiserror::Error)]
pub enum Garbage {
    #[error(transparent)]
    Frame(#[from] FrameTooLong),
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error("answer {got} came when {want} was due")]
    Order { got: i32, want: i32 },
    #[error("an answer came that nobody asked for")]
    Unasked,
    #[error("{0}")]
    Content(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    #[error(transparent)]
    Batch(#[from] BatchError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// Why somebody is not let in, or does not go in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginRefusal {
    #[error("its listener takes no login")]
    NotAsked,
    #[error("its listener does not offer that mechanism{}", but(offered))]
    Mechanism { offered: Vec<String> },
    /// As the broker says.
    #[error("{0}")]
    Words(String),
    #[error("the broker answered with the unknown error code {0}")]
    Code(i16),
    /// The broker does not prove itself, or asks for something that nobody should do.
    #[error(transparent)]
    Broker(ClientError),
}

fn but(offered: &[String]) -> String {
    if offered.is_empty() {
        String::new()
    } else {
        format!(", but {}", offered.join(", "))
    }
}

fn because(last: Option<&Error>) -> String {
    last.map_or_else(String::new, |error| format!(" ({error})"))
}

fn by(mechanisms: &[String]) -> String {
    if mechanisms.is_empty() {
        String::new()
    } else {
        format!("; it offers {}", mechanisms.join(", "))
    }
}

fn detail(message: Option<&str>) -> String {
    message
        .filter(|text| !text.is_empty())
        .map_or_else(String::new, |text| format!(" ({text})"))
}

impl Error {
    /// True if the same operation may succeed after fresh metadata and a pause.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        match self {
            Error::Refused { code, .. } | Error::Unreadable { code, .. } => code.is_retriable(),
            Error::Connect { .. }
            | Error::NoGreeting { .. }
            | Error::NoLogin { .. }
            | Error::Lost { .. }
            | Error::NoLeader { .. } => true,
            _ => false,
        }
    }

    /// True if brokers could not be reached or do not lead yet: nothing is wrong with what was asked, however long it lasts.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        match self {
            Error::Connect { .. }
            | Error::NoGreeting { .. }
            | Error::NoLogin { .. }
            | Error::Lost { .. }
            | Error::NoLeader { .. } => true,
            Error::TimedOut {
                last: Some(last), ..
            } => last.is_outage(),
            Error::Refused { code, .. } => matches!(
                code,
                ErrorCode::NotLeaderOrFollower
                    | ErrorCode::LeaderNotAvailable
                    | ErrorCode::BrokerNotAvailable
                    | ErrorCode::ReplicaNotAvailable
                    | ErrorCode::NetworkException
                    | ErrorCode::RequestTimedOut
                    | ErrorCode::NotController
                    | ErrorCode::CoordinatorNotAvailable
                    | ErrorCode::CoordinatorLoadInProgress
                    | ErrorCode::FencedLeaderEpoch
                    | ErrorCode::UnknownLeaderEpoch
                    | ErrorCode::NotEnoughReplicas
                    | ErrorCode::NotEnoughReplicasAfterAppend
            ),
            _ => false,
        }
    }

    /// The same failure of a connection that has brought no answer yet.
    pub(crate) fn before_greeting(self) -> Error {
        match self {
            Error::Lost { address, source } => Error::NoGreeting { address, source },
            other => other,
        }
    }

    /// The same failure of a connection whose user has not logged in yet.
    pub(crate) fn before_login(self, user: &str) -> Error {
        match self {
            Error::Lost { address, source } => Error::NoLogin {
                address,
                user: user.to_owned(),
                source,
            },
            other => other,
        }
    }

    /// True if the connection that it happened on is of no use any more.
    pub(crate) fn ends_connection(&self) -> bool {
        matches!(
            self,
            Error::Lost { .. } | Error::Garbled { .. } | Error::Login { .. }
        )
    }

    /// True if the peer closed the connection.
    pub(crate) fn is_close(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        match self {
            Error::Lost { source, .. } => {
                matches!(source.kind(), UnexpectedEof | ConnectionReset | BrokenPipe)
            }
            _ => false,
        }
    }

    /// Topic, partition and offset of what is damaged, where that is why.
    #[must_use]
    pub fn damage(&self) -> Option<(&str, i32, i64)> {
        match self {
            Error::Damaged {
                topic,
                partition,
                offset,
                ..
            }
            | Error::Unreadable {
                topic,
                partition,
                offset,
                ..
            } => Some((topic, *partition, *offset)),
            Error::TimedOut {
                last: Some(last), ..
            } => last.damage(),
            _ => None,
        }
    }

    /// The broker's code, where it was one.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Error::Refused { code, .. } | Error::Unreadable { code, .. } => Some(*code),
            Error::TimedOut {
                last: Some(last), ..
            } => last.code(),
            _ => None,
        }
    }

    /// `Ok` for code 0, else the refusal of `what`.
    pub fn check(
        code: i16,
        what: impl FnOnce() -> String,
        message: Option<&str>,
    ) -> Result<(), Error> {
        match ErrorCode::try_from(code) {
            Ok(ErrorCode::None) => Ok(()),
            Ok(code) => Err(Error::Refused {
                what: what(),
                code,
                message: message.map(str::to_owned),
            }),
            Err(_) => Err(Error::UnknownCode { what: what(), code }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_carry_the_code_and_the_words_of_the_broker() {
        let error =
            Error::check(36, || "topic t".into(), Some("Topic 't' already exists.")).unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::TopicAlreadyExists));
        assert!(!error.is_retriable());
        assert!(
            error.to_string().ends_with("(Topic 't' already exists.)"),
            "{error}"
        );
        assert!(Error::check(0, String::new, None).is_ok());
        assert!(matches!(
            Error::check(12_345, String::new, None),
            Err(Error::UnknownCode { code: 12_345, .. })
        ));
    }

    #[test]
    fn a_timeout_tells_what_stood_in_the_way() {
        let last = Box::new(Error::NoLeader {
            topic: "t".into(),
            partition: 3,
        });
        let error = Error::TimedOut {
            what: "producing".into(),
            after: Duration::from_millis(1500),
            last: Some(last),
        };
        assert_eq!(
            error.to_string(),
            "producing did not finish within 1.5 s (t-3 has no leader now)"
        );
    }
}
