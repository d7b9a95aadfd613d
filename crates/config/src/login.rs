//! How those who connect to a listener log in: its protocol, its mechanisms, its own users.
//!
//! Owns the prefixes of listeners and mechanisms (`listener.name.inside.plain.`), which win over the setting without one. Refuses at start
//! what would let nobody in, or look like a protection and be none. Users of the cluster are not here: they are in its metadata.

mod mechanisms;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use security::Secret;
use security::jaas::{self, Module};
use security::login::Mechanism;

use crate::layers::Layers;
use crate::settings::SettingsError;
use crate::table::{self, LISTENER_PREFIX};
use crate::value::{self, Value};

const JAAS: &str = "sasl.jaas.config";
const DELAY: &str = "connection.failed.authentication.delay.ms";
const MECHANISMS: &str = "sasl.enabled.mechanisms";
const RECEIVE: &str = "sasl.server.max.receive.size";
const SESSION: &str = "connections.max.reauth.ms";

/// Settings that work with the prefix of a listener, or of a listener and a mechanism.
const PREFIXED: [&str; 5] = [DELAY, SESSION, MECHANISMS, JAAS, RECEIVE];

/// True for the full name of a setting that is read here with the prefix of a listener, or of a listener and a mechanism.
pub(crate) fn reads(full: &str) -> bool {
    let own = full
        .strip_prefix(LISTENER_PREFIX)
        .and_then(|rest| rest.split_once('.'));
    let Some((_, own)) = own else {
        return false;
    };
    let mechanisms = Mechanism::EVERY.iter().map(|it| it.name().to_lowercase());
    let mut rests = mechanisms.filter_map(|it| own.strip_prefix(&*it)?.strip_prefix('.'));
    // Users of all mechanisms are those of none, as in Kafka.
    (own != JAAS && PREFIXED.contains(&own)) || rests.any(|rest| PREFIXED.contains(&rest))
}

/// The protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Plaintext,
    SaslPlaintext,
}

impl Protocol {
    /// The number in metadata and requests.
    #[must_use]
    pub const fn number(self) -> i16 {
        match self {
            Protocol::Plaintext => 0,
            Protocol::SaslPlaintext => 2,
        }
    }

    /// The name in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Plaintext => "PLAINTEXT",
            Protocol::SaslPlaintext => "SASL_PLAINTEXT",
        }
    }

    /// The protocol that the settings give to `listener`.
    pub(crate) fn of(listener: &str, name: &str) -> Result<Protocol, SettingsError> {
        let reason = match name {
            "PLAINTEXT" => return Ok(Protocol::Plaintext),
            "SASL_PLAINTEXT" => return Ok(Protocol::SaslPlaintext),
            "SSL" | "SASL_SSL" => {
                format!("{listener} speaks {name}; TLS comes with the next version")
            }
            _ => format!(
                "{listener} speaks {name}, which is no protocol; PLAINTEXT and SASL_PLAINTEXT are"
            ),
        };
        Err(SettingsError::Unusable {
            name: "listeners",
            reason,
        })
    }
}

/// How those who connect to one listener log in.
#[derive(Clone)]
pub struct Login {
    pub protocol: Protocol,
    /// In the order of the settings, each with the longest life of a session, if it has an end. None where clients need not log in.
    pub mechanisms: Vec<(Mechanism, Option<Duration>)>,
    /// The users that the settings give to this listener for PLAIN, with their passwords.
    pub plain_users: BTreeMap<String, Secret<Vec<u8>>>,
    /// Bytes of the largest frame before the login is over. Holds for nodes too, where clients need not log in.
    pub receive_bytes_max: usize,
    /// The wait before one that was not let in is told so.
    pub failure_delay: Duration,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("protocol", &self.protocol)
            .field("mechanisms", &self.mechanisms)
            .field("plain_users", &self.plain_users.len())
            .field("receive_bytes_max", &self.receive_bytes_max)
            .field("failure_delay", &self.failure_delay)
            .finish()
    }
}

impl Login {
    pub(crate) fn new(
        layers: &Layers,
        listener: &str,
        protocol: Protocol,
    ) -> Result<Login, SettingsError> {
        let of = OfListener {
            layers,
            name: listener.to_lowercase(),
        };
        let mechanisms = match protocol {
            Protocol::Plaintext => Vec::new(),
            Protocol::SaslPlaintext => mechanisms::on_offer(&of, listener)?,
        };
        let mut login = Login {
            protocol,
            mechanisms: Vec::new(),
            plain_users: BTreeMap::new(),
            receive_bytes_max: usize::try_from(of.number(RECEIVE, None)?).unwrap_or(0),
            failure_delay: millis(of.number(DELAY, None)?),
        };
        let idle = layers.number("connections.max.idle.ms").unwrap_or(-1);
        if 0 <= idle && millis(idle) <= login.failure_delay {
            return Err(SettingsError::Unusable {
                name: DELAY,
                reason: "must be less than connections.max.idle.ms, or the connection is closed before its client is told why".into(),
            });
        }
        for mechanism in mechanisms {
            let session = millis(of.number(SESSION, Some(mechanism))?);
            let session = (!session.is_zero()).then_some(session);
            login.mechanisms.push((mechanism, session));
            let users = of.users(mechanism)?;
            if mechanism == Mechanism::Plain {
                login.plain_users = users;
            }
        }
        Ok(login)
    }
}

/// The settings as one listener has them.
struct OfListener<'a> {
    layers: &'a Layers,
    /// In small letters, as prefixes have it.
    name: String,
}

impl OfListener<'_> {
    /// The full name of a setting with the prefix of the listener, or of the listener and a mechanism.
    fn prefixed(&self, mechanism: Option<Mechanism>, name: &str) -> String {
        let listener = &self.name;
        match mechanism {
            None => format!("{LISTENER_PREFIX}{listener}.{name}"),
            Some(mechanism) => {
                let mechanism = mechanism.name().to_lowercase();
                format!("{LISTENER_PREFIX}{listener}.{mechanism}.{name}")
            }
        }
    }

    /// The value with the longest prefix, under its full name; `None` if it is given without one, or not at all.
    fn own(
        &self,
        mechanism: Option<Mechanism>,
        name: &'static str,
    ) -> Result<Option<Value>, SettingsError> {
        let of_mechanism = mechanism.map(|mechanism| self.prefixed(Some(mechanism), name));
        let full_names = of_mechanism.into_iter().chain([self.prefixed(None, name)]);
        for full in full_names {
            if let (Some(text), Some(setting)) =
                (self.layers.fixed.get(&full), table::broker_setting(name))
            {
                let value = value::check(setting, text);
                return value.map(Some).map_err(|why| SettingsError::OfListener {
                    name: full,
                    reason: why.to_string(),
                });
            }
        }
        Ok(None)
    }

    fn number(
        &self,
        name: &'static str,
        mechanism: Option<Mechanism>,
    ) -> Result<i64, SettingsError> {
        match self.own(mechanism, name)? {
            Some(Value::Number(number)) => Ok(number),
            _ => Ok(self.layers.number(name).unwrap_or(0)),
        }
    }

    /// The users that the JAAS configuration of a mechanism names.
    fn users(
        &self,
        mechanism: Mechanism,
    ) -> Result<BTreeMap<String, Secret<Vec<u8>>>, SettingsError> {
        let name = self.prefixed(Some(mechanism), JAAS);
        let refused = |reason: String| SettingsError::OfListener {
            name: name.clone(),
            reason,
        };
        let Some(text) = self.layers.fixed.get(&name) else {
            let is_elsewhere = self.layers.is_given(JAAS) || self.own(None, JAAS)?.is_some();
            if is_elsewhere && mechanism == Mechanism::Plain {
                return Err(refused(format!(
                    "is not set; {JAAS} without this prefix has no effect on logins, as in Kafka"
                )));
            }
            return Ok(BTreeMap::new());
        };
        let entry = jaas::parse(text).map_err(|why| refused(why.to_string()))?;
        let module = Module::of(mechanism);
        if entry.module != module {
            return Err(refused(format!(
                "is of {}, and {} needs {}",
                entry.module.class(),
                mechanism.name(),
                module.class()
            )));
        }
        if mechanism == Mechanism::Plain && entry.users.is_empty() {
            return Err(refused(
                "names no user; write user_NAME=\"PASSWORD\", or leave the setting out where PLAIN is to know the users of the cluster alone".into(),
            ));
        }
        Ok(entry.users)
    }
}

fn millis(number: i64) -> Duration {
    Duration::from_millis(u64::try_from(number).unwrap_or(0))
}

#[cfg(test)]
mod tests;
