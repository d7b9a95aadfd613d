//! Why a verb failed, in words that say what to do next, and the exit code.
//!
//! Exit codes: 0 done (a reader that went away counts as done), 1 the operation failed, 2 the command line was wrong,
//! 3 damaged data was found.

use std::fmt;
use std::io;
use std::process::ExitCode;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Standard output was closed by its reader (`esker consume t | head`): not worth a word.
    Quiet,
    Failed,
    Usage,
    Damage,
}

#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(message: impl fmt::Display) -> Failure {
        Failure {
            kind: Kind::Failed,
            message: message.to_string(),
            hint: None,
        }
    }

    pub(crate) fn usage(message: impl fmt::Display) -> Failure {
        Failure {
            kind: Kind::Usage,
            ..Failure::new(message)
        }
    }

    pub(crate) fn damage(message: impl fmt::Display) -> Failure {
        Failure {
            kind: Kind::Damage,
            ..Failure::new(message)
        }
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl fmt::Display) -> Failure {
        self.hint = Some(hint.to_string());
        self
    }

    pub(crate) fn report(&self) -> ExitCode {
        if self.kind != Kind::Quiet {
            env::tell!("error: {}", self.message);
            if let Some(hint) = &self.hint {
                env::tell!("hint: {hint}");
            }
        }
        match self.kind {
            Kind::Quiet => ExitCode::SUCCESS,
            Kind::Failed => ExitCode::from(1),
            Kind::Usage => ExitCode::from(2),
            Kind::Damage => ExitCode::from(3),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Only writes to standard output use `?` on a bare `io::Error`; everything else names its object first.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure {
                kind: Kind::Quiet,
                ..Failure::new("")
            };
        }
        Failure::new(format!("cannot write the output: {error}"))
    }
}

impl From<client::Error> for Failure {
    fn from(error: client::Error) -> Failure {
        let hint = hint(&error);
        let failure = Failure::new(error);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// What the user can do about an error of the client.
fn hint(error: &client::Error) -> Option<String> {
    use client::Error;
    use wire::ErrorCode;
    match error {
        Error::Connect { source, .. } if source.kind() == io::ErrorKind::ConnectionRefused => Some(
            "start a broker with `esker serve`, or name another one with --bootstrap HOST:PORT"
                .to_owned(),
        ),
        Error::Connect { .. } | Error::Address { .. } => {
            Some("name a broker with --bootstrap HOST:PORT, or set ESKER_BOOTSTRAP".to_owned())
        }
        Error::Garbled { .. } => {
            Some("is that the port of a Kafka listener without TLS?".to_owned())
        }
        Error::NoTopic { topic } => Some(format!(
            "`esker topic list` shows what there is, `esker topic create {topic}` makes it"
        )),
        Error::OutOfRange { .. } => {
            Some("read from what is there with --from beginning".to_owned())
        }
        Error::TimedOut {
            last: Some(last), ..
        } => match last.code() {
            Some(ErrorCode::UnknownTopicOrPartition) => Some(
                "the broker does not create topics by itself; make it with `esker topic create`"
                    .to_owned(),
            ),
            _ => hint(last),
        },
        Error::Refused { code, message, .. } => match code {
            ErrorCode::InvalidConfig => message.as_deref().and_then(nearest_setting),
            ErrorCode::MessageTooLarge => Some(
                "allow more with `esker topic alter TOPIC --set max.message.bytes=N`".to_owned(),
            ),
            ErrorCode::TopicAlreadyExists => Some("--if-not-exists accepts that".to_owned()),
            _ => None,
        },
        _ => None,
    }
}

/// The setting that a broker's refusal of an unknown one may have meant; its words are those of Kafka.
fn nearest_setting(message: &str) -> Option<String> {
    let (_, name) = message.split_once("Unknown topic config name: ")?;
    let name = name.split_whitespace().next()?;
    config::nearest_topic_setting(name).map(|nearest| format!("did you mean {nearest}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(failure.kind, Kind::Quiet);
        assert_eq!(
            Failure::from(io::Error::from(io::ErrorKind::StorageFull)).kind,
            Kind::Failed
        );
    }

    #[test]
    fn a_missing_broker_and_a_missing_topic_come_with_advice() {
        let source = io::Error::from(io::ErrorKind::ConnectionRefused);
        let refused = client::Error::Connect {
            address: "h:1".into(),
            source,
        };
        assert!(Failure::from(refused).hint.unwrap().contains("esker serve"));
        let missing = client::Error::NoTopic { topic: "t".into() };
        assert!(
            Failure::from(missing)
                .hint
                .unwrap()
                .contains("esker topic create t")
        );
    }
}
