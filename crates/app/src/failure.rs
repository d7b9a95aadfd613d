//! Why a verb failed, in words that say what to do next, and the exit code.
//!
//! Exit codes: 0 done (a reader that went away counts as done), 1 the operation failed, 2 the command line was wrong,
//! 3 damaged data was found.

use std::fmt;
use std::io;
use std::process::ExitCode;

use client::LoginRefusal;
use security::jaas::Module;
use security::login::Mechanism;

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
    /// Brokers could not be reached or did not lead: the cause may be that of the whole cluster.
    is_outage: bool,
    /// Other failures of a command about several things.
    others: Vec<Failure>,
}

impl Failure {
    pub(crate) fn new(message: impl fmt::Display) -> Failure {
        Failure {
            kind: Kind::Failed,
            message: message.to_string(),
            hint: None,
            is_outage: false,
            others: Vec::new(),
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

    /// The outcome of a command that tried several things: each failure is told, the first one's kind is the exit code.
    pub(crate) fn all(failures: Vec<Failure>) -> Result<(), Failure> {
        let mut failures = failures.into_iter();
        let Some(mut first) = failures.next() else {
            return Ok(());
        };
        first.others.extend(failures);
        Err(first)
    }

    /// The same failure, with what it left behind.
    #[must_use]
    pub(crate) fn after(mut self, done: impl fmt::Display) -> Failure {
        if self.kind != Kind::Quiet {
            self.message.push_str("; ");
            self.message.push_str(&done.to_string());
        }
        self
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl fmt::Display) -> Failure {
        self.hint = Some(hint.to_string());
        self
    }

    /// True if brokers could not be reached or did not lead, in this failure or in another one of the same command.
    pub(crate) fn is_outage(&self) -> bool {
        self.is_outage || self.others.iter().any(Failure::is_outage)
    }

    /// The same failure with the cause of all that is not served, and what to do about that.
    #[must_use]
    pub(crate) fn because(mut self, cause: &client::Error) -> Failure {
        self.hint = hint(cause);
        self.after(format!("{cause}, so that nothing is served"))
    }

    /// True if standard output was closed by its reader.
    pub(crate) fn is_quiet(&self) -> bool {
        self.kind == Kind::Quiet
    }

    pub(crate) fn report(&self) -> ExitCode {
        if self.kind != Kind::Quiet {
            env::tell!("error: {}", self.message);
            if let Some(hint) = &self.hint {
                env::tell!("hint: {hint}");
            }
        }
        for other in &self.others {
            other.report();
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
        let is_outage = error.is_outage();
        let mut failure = match error {
            client::Error::Address { .. } | client::Error::Protocol { .. } => Failure::usage(error),
            _ => Failure::new(error),
        };
        failure.is_outage = is_outage;
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// A hint at what the user can do about an error of the client.
fn hint(error: &client::Error) -> Option<String> {
    use client::Error;
    use wire::ErrorCode;
    match error {
        Error::Connect { source, .. } if source.kind() == io::ErrorKind::ConnectionRefused => Some(
            "start a broker with `esker serve`, or name another one with --bootstrap HOST:PORT"
                .to_owned(),
        ),
        Error::Connect { .. } | Error::Address { .. } | Error::Protocol { .. } => {
            Some("name a broker with --bootstrap HOST:PORT, or set ESKER_BOOTSTRAP".to_owned())
        }
        // Only the first answer distinguishes a listener that speaks TLS, or no Kafka at all, from a broker that went away.
        Error::Garbled {
            api: wire::ApiKey::ApiVersions,
            ..
        } => Some(NO_KAFKA.to_owned()),
        Error::NoGreeting { source, .. } if is_mute(source.kind()) => Some(NO_KAFKA.to_owned()),
        Error::LoginNeeded { mechanisms, .. } => Some(to_log_in(mechanisms)),
        Error::Login { why, .. } => to_log_in_better(why),
        Error::NoLogin { source, .. } if is_mute(source.kind()) => Some(
            "does its listener take a login? One that takes none is asked without --command-config, or with security.protocol=PLAINTEXT in it"
                .to_owned(),
        ),
        Error::Damaged { .. } | Error::Unreadable { .. } => {
            Some("`esker consume --skip-damaged` goes on behind it".to_owned())
        }
        Error::NoController { said, has_others } => {
            // Its words name those that are missing.
            let start = if said.contains("a new cluster begins") {
                "start the voters that are missing"
            } else {
                "a majority of the voters has to run and to reach each other, in a new cluster all of them"
            };
            let ask = if *has_others {
                "; name all brokers with --bootstrap to ask each"
            } else {
                ""
            };
            Some(format!("{start}{ask}"))
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
            // Somebody answered before: what is mute now is away.
            _ if matches!(**last, Error::NoGreeting { .. }) => None,
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

/// How to give a user, by the best mechanism of those on offer.
fn to_log_in(offered: &[String]) -> String {
    let is_offered = |it: &Mechanism| offered.iter().any(|name| name == it.name());
    let best = Mechanism::EVERY.into_iter().rev().find(is_offered);
    if best.is_none() && !offered.is_empty() {
        let spoken = Mechanism::EVERY.map(Mechanism::name).join(", ");
        return format!("esker logs in by {spoken}, and that listener takes none of them");
    }
    let best = best.unwrap_or(Mechanism::EVERY[Mechanism::EVERY.len() - 1]);
    format!(
        "log in with --command-config FILE, and in that file security.protocol=SASL_PLAINTEXT, sasl.mechanism={} and \
         sasl.jaas.config={} required username=\"NAME\" password=\"PASSWORD\";",
        best.name(),
        Module::of(best).class()
    )
}

/// The change that may let a user in.
fn to_log_in_better(why: &LoginRefusal) -> Option<String> {
    match why {
        LoginRefusal::NotAsked => Some(
            "leave --command-config out, or set security.protocol=PLAINTEXT in its file".to_owned(),
        ),
        LoginRefusal::Mechanism { .. } => {
            Some("set another sasl.mechanism in the file of --command-config".to_owned())
        }
        LoginRefusal::Words(_) => Some(
            "look at sasl.mechanism, and at the username and the password of sasl.jaas.config, in the file of --command-config"
                .to_owned(),
        ),
        LoginRefusal::Code(_) | LoginRefusal::Broker(_) => None,
    }
}

const NO_KAFKA: &str = "is that the port of a Kafka listener without TLS? One that speaks Kafka may have no place for another connection: its log and /readyz say so";

/// True if a connection ended as one to a peer of another protocol does: it is closed, or nothing ever comes.
fn is_mute(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::TimedOut
            | io::ErrorKind::WouldBlock
    )
}

/// The setting that a broker's refusal of an unknown one may have meant; its words are those of Kafka.
fn nearest_setting(message: &str) -> Option<String> {
    let (_, name) = message.split_once("Unknown topic config name: ")?;
    meant(name.split_whitespace().next()?)
}

/// The setting that one that does not exist may have meant.
pub(crate) fn meant(name: &str) -> Option<String> {
    config::nearest_topic_setting(name).map(|nearest| format!("did you mean {nearest}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_that_were_all_asked_are_not_to_be_named() {
        let hint = |has_others| {
            let said = "broker 1 has no controller".to_owned();
            Failure::from(client::Error::NoController { said, has_others }).hint
        };
        assert!(hint(true).is_some_and(|hint| hint.contains("--bootstrap")));
        assert!(hint(false).is_some_and(|hint| !hint.contains("--bootstrap")));
    }

    #[test]
    fn several_failures_are_all_told_and_none_is_success() {
        assert!(Failure::all(Vec::new()).is_ok());
        let both = Failure::all(vec![Failure::new("a"), Failure::new("b")]).unwrap_err();
        assert_eq!((both.message.as_str(), both.others.len()), ("a", 1));
    }

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
    fn a_login_that_is_missing_or_wrong_comes_with_the_settings_to_write() {
        let address = || "h:1".to_owned();
        let needed = |offered: &[&str]| {
            let mechanisms = offered.iter().map(|name| (*name).to_owned()).collect();
            let address = address();
            let failure = Failure::from(client::Error::LoginNeeded {
                address,
                mechanisms,
            });
            failure.hint.unwrap_or_default()
        };
        let hint = needed(&["PLAIN", "SCRAM-SHA-256"]);
        for part in [
            "--command-config",
            "security.protocol=SASL_PLAINTEXT",
            "sasl.mechanism=SCRAM-SHA-256",
            "ScramLoginModule required",
        ] {
            assert!(hint.contains(part), "{hint}");
        }
        assert!(needed(&["PLAIN"]).contains("PlainLoginModule"));
        assert!(needed(&[]).contains("sasl.mechanism=SCRAM-SHA-512"));
        assert!(needed(&["GSSAPI"]).contains("none of them"));
        let refused = |why| {
            let error = client::Error::Login {
                address: address(),
                user: "alice".to_owned(),
                mechanism: "PLAIN",
                why,
            };
            let failure = Failure::from(error);
            assert!(!failure.is_outage());
            failure.hint.unwrap_or_default()
        };
        assert!(refused(LoginRefusal::NotAsked).contains("security.protocol=PLAINTEXT"));
        assert!(refused(LoginRefusal::Words("no".to_owned())).contains("password"));
    }

    #[test]
    fn tls_is_suspected_only_of_a_peer_that_never_answered() {
        let source = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let address = || "h:1".to_owned();
        let mute = || client::Error::NoGreeting {
            address: address(),
            source: source(),
        };
        let hint_of = |error: client::Error| Failure::from(error).hint;
        assert!(hint_of(mute()).is_some_and(|hint| hint.contains("TLS")));
        let lost = client::Error::Lost {
            address: address(),
            source: source(),
        };
        assert_eq!(hint_of(lost), None);
        let late = client::Error::TimedOut {
            what: "writing".into(),
            after: std::time::Duration::from_secs(30),
            last: Some(Box::new(mute())),
        };
        assert_eq!(hint_of(late), None);
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
