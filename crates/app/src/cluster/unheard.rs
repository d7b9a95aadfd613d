//! Why a broker said nothing: nothing listens there, it is silent, or it runs and refuses. Each is mended in another way.

use std::fmt;
use std::io::ErrorKind;
use std::time::Duration;

use client::{Client, Error, Options, QuorumSight};
use env::Env;

use crate::failure::Failure;

/// A node that waits for others says at once for which.
const WAITS_WAIT: Duration = Duration::from_secs(1);

/// Any broker of a cluster knows the others.
const OTHERS: &str = "If its cluster has others, name one of them with --bootstrap HOST:PORT";

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
            | Error::NoLogin { source, .. }
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
            Error::NoGreeting { .. } | Error::NoLogin { .. } | Error::Lost { .. } => {
                Unheard::Ended(error.to_string())
            }
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

fn is_late(kind: ErrorKind) -> bool {
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

/// The failure of a broker that took the connection and answered nothing: it has no place for it, or is no member of its cluster yet. One
/// that is none answers questions about the quorum.
pub(super) fn waits(error: Error, options: &Options) -> Failure {
    let address = match &error {
        Error::NoGreeting { address, source } if is_late(source.kind()) => {
            let what = format!("{address} took the connection and gave no answer: {source}");
            return Failure::new(what).hint(format!(
                "{} Or is it no Kafka listener without TLS? {OTHERS}",
                is_it(true)
            ));
        }
        Error::Lost { address, .. } => address,
        Error::Connect { source, .. } if source.kind() == ErrorKind::ConnectionRefused => {
            return Failure::new(&error)
                .hint(format!("start a broker there with `esker serve`. {OTHERS}"));
        }
        _ => return error.into(),
    };
    let options = Options {
        timeout: WAITS_WAIT,
        io_timeout: WAITS_WAIT,
        ..options.clone()
    };
    let sight = Client::quorum_at(&Env::real(), address, options);
    let said = match sight {
        Ok(QuorumSight {
            cut_off: Some(words),
            ..
        }) => words,
        Ok(QuorumSight {
            quorum: Err(why @ Error::NoController { .. }),
            ..
        }) => why.to_string(),
        _ => {
            let what = format!("{address} took the connection and ended it: {error}");
            return Failure::new(what).hint(format!("{IS_FULL} Or has it just started? {OTHERS}"));
        }
    };
    let words = model::printable(&said);
    if said.contains("a new cluster begins") {
        return Failure::new(format!("{address} is up and serves nobody: {words}"))
            .hint("start the voters that are missing");
    }
    let what =
        format!("{address} is up and serves nobody: it waits for voters of its cluster ({words})");
    Failure::new(what).hint(
        "start the other voters: it takes a majority of them, and in a new cluster all; its log says whom it does not reach",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection that was lost was taken for a sign of missing voters, whatever the broker said of its quorum.
    #[test]
    #[allow(clippy::disallowed_methods)] // a real peer
    fn a_lost_connection_alone_is_no_sign_that_voters_are_missing() {
        let full = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = full.local_addr().expect("it listens").to_string();
        let ends = std::thread::spawn(move || drop(full.accept()));
        let lost = Error::Lost {
            address: address.clone(),
            source: ErrorKind::UnexpectedEof.into(),
        };
        let failure = waits(lost, &Options::default());
        ends.join().expect("it was asked about the quorum");
        let text = format!("{failure:?}");
        assert!(text.contains("took the connection and ended it"), "{text}");
        assert!(text.contains("max.connections"), "{text}");
        assert!(!text.contains("voters"), "{text}");
    }
}
