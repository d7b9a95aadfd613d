//! Why a broker said nothing: nothing listens there, it is silent, or it runs and refuses. Each is mended in another way.

use std::fmt;
use std::io::ErrorKind;
use std::time::Duration;

use client::Error;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unheard {
    /// Nothing listens at its address.
    Down(String),
    /// No word came in this time: the process is paused, the host is cut off or down. If its host took the connection, the process may
    /// have no place for it.
    Late { time: Duration, is_open: bool },
    /// The address is not reached, or leads nowhere.
    Unreached(String),
    /// It took the connection and ended it: it has no place for it, no controller yet, or is on its way out.
    Ended(String),
    /// It refused the question.
    Refuses(String),
}

impl Unheard {
    /// Of the error of a question that was given `time`.
    pub(super) fn new(error: &Error, time: Duration) -> Unheard {
        match error {
            Error::TimedOut { .. } => Unheard::Late {
                time,
                is_open: false,
            },
            Error::Connect { source, .. }
            | Error::NoGreeting { source, .. }
            | Error::Lost { source, .. }
                if is_late(source.kind()) =>
            {
                Unheard::Late {
                    time,
                    is_open: !matches!(error, Error::Connect { .. }),
                }
            }
            Error::Connect { source, .. } if source.kind() == ErrorKind::ConnectionRefused => {
                Unheard::Down(error.to_string())
            }
            Error::Connect { .. } | Error::Address { .. } | Error::Protocol { .. } => {
                Unheard::Unreached(error.to_string())
            }
            Error::NoGreeting { .. } | Error::Lost { .. } => Unheard::Ended(error.to_string()),
            _ => Unheard::Refuses(error.to_string()),
        }
    }

    /// True if its process answers the network.
    pub(super) fn runs(&self) -> bool {
        matches!(self, Unheard::Ended(_) | Unheard::Refuses(_))
    }
}

/// The cause of a connection that was taken and ended, as a question.
pub(super) const IS_FULL: &str =
    "are all its places for connections taken (max.connections; its log and /readyz say so)?";

/// The causes of a silence, as a question.
pub(super) fn is_it(is_open: bool) -> &'static str {
    if is_open {
        "is its process paused, its host cut off, or are all its places for connections taken (its log and /readyz say so)?"
    } else {
        "is its process paused, or its host down or cut off?"
    }
}

pub(super) fn is_late(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

impl fmt::Display for Unheard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unheard::Late { time, .. } => {
                write!(out, "did not answer in {} s", time.as_secs_f64().round())
            }
            Unheard::Down(why)
            | Unheard::Unreached(why)
            | Unheard::Ended(why)
            | Unheard::Refuses(why) => write!(out, "does not answer: {why}"),
        }
    }
}
