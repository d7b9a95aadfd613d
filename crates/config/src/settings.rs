//! Settings as they were written: a properties file, a TOML file, `--set name=value`.
//!
//! Owns the static layer. Every name is known and every value fits its setting, or reading it fails and names the culprit and
//! the nearest known name. Later sources win over earlier ones.

use std::collections::{BTreeMap, BTreeSet};

use crate::properties::{self, PropertiesError};
use crate::table::{self, Status};
use crate::value::{self, ValueError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Properties,
    Toml,
}

impl Format {
    /// TOML for a name that ends in `.toml`, properties for any other.
    #[must_use]
    pub fn of(file: &str) -> Format {
        if file.ends_with(".toml") {
            Format::Toml
        } else {
            Format::Properties
        }
    }
}

#[derive(Debug, PartialEq, thiserror::Error)]
pub enum SettingsError {
    #[error(transparent)]
    Properties(#[from] PropertiesError),
    #[error("not valid TOML: {0}")]
    Toml(Box<toml::de::Error>),
    #[error("{name}: a table or a date is no value of a setting")]
    NoValue { name: String },
    #[error("{text}: write it as name=value")]
    NoAssignment { text: String },
    #[error("unknown setting {name}{}", did_you_mean(*nearest))]
    Unknown {
        name: String,
        nearest: Option<&'static str>,
    },
    #[error(transparent)]
    Value(#[from] ValueError),
    #[error("{name}: {reason}")]
    Unusable { name: &'static str, reason: String },
    /// With the prefix of a listener in the name.
    #[error("{name}: {reason}")]
    OfListener { name: String, reason: String },
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest
        .map(|nearest| format!("; did you mean {nearest}?"))
        .unwrap_or_default()
}

/// Settings of Kafka that are set and have no effect; reported in one line, however many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// In order, without those that Kafka 4 removed.
    pub names: Vec<String>,
    /// Of the first.
    reason: &'static str,
    /// Those that Kafka 4 removed.
    removed: Vec<String>,
}

impl Warning {
    fn idle(&self) -> Option<String> {
        match self.names.as_slice() {
            [] => None,
            [name] => Some(format!(
                "setting {name} has no effect here: {}",
                self.reason
            )),
            names => Some(format!(
                "{} settings have no effect here: {}",
                names.len(),
                names.join(", ")
            )),
        }
    }

    fn removed(&self) -> Option<String> {
        match self.removed.as_slice() {
            [] => None,
            [name] => Some(format!(
                "setting {name} was removed in Kafka 4, and has no effect"
            )),
            names => Some(format!(
                "{} settings were removed in Kafka 4, and have no effect: {}",
                names.len(),
                names.join(", ")
            )),
        }
    }

    /// Settings from which an operator expects a protection.
    fn unprotected(&self) -> Option<String> {
        let is_protection = |name: &&String| table::is_protection(name);
        let names: Vec<&str> = self
            .names
            .iter()
            .filter(is_protection)
            .map(String::as_str)
            .collect();
        (!names.is_empty()).then(|| {
            format!(
                "{} protect nothing in this version: what they steer is not built yet",
                names.join(", ")
            )
        })
    }
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [self.idle(), self.removed(), self.unprotected()];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        f.write_str(&parts.join("; "))
    }
}

/// The reason why a known setting has no effect; `None` for one that works.
fn why_idle(name: &str) -> Option<&'static str> {
    const NOT_BUILT: &str = "what it steers is not built yet";
    const PLUG_IN: &str = "Plug-in classes of the JVM cannot be loaded";
    let setting = table::broker_setting(name);
    let status = setting.map_or_else(
        || table::prefix_status(name),
        |setting| Some(setting.status),
    )?;
    match status {
        Status::Works => None,
        Status::Accepted => Some(NOT_BUILT),
        Status::Meaningless => Some(setting.map_or(PLUG_IN, |setting| setting.doc)),
    }
}

#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings {
    values: BTreeMap<String, String>,
    /// Set, and removed in Kafka 4: their values mean nothing.
    removed: BTreeSet<String>,
}

/// Without the values of secrets, and of settings that nobody here knows the type of.
impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_shown = |name: &str| {
            let setting = table::broker_setting(name);
            setting.is_some_and(|setting| setting.kind != table::Kind::Password)
        };
        let shown = self.iter().map(|(name, value)| {
            let value = if is_shown(name) { value } else { "[hidden]" };
            (name, value)
        });
        f.debug_map().entries(shown).finish()
    }
}

impl Settings {
    /// Reads all settings of a file.
    pub fn read(&mut self, text: &str, format: Format) -> Result<(), SettingsError> {
        // Editors of Windows begin a file with a mark that is no part of its first name.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let pairs = match format {
            Format::Properties => properties::parse(text)?,
            Format::Toml => flatten(text)?,
        };
        pairs
            .into_iter()
            .try_for_each(|(name, value)| self.put(&name, &value))
    }

    /// Takes one `name=value`, as the command line gives it.
    pub fn assign(&mut self, text: &str) -> Result<(), SettingsError> {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| SettingsError::NoAssignment { text: text.into() })?;
        self.put(name.trim(), value.trim())
    }

    pub fn put(&mut self, name: &str, value: &str) -> Result<(), SettingsError> {
        if let Some(setting) = table::broker_setting(name) {
            value::check(setting, value)?;
        } else if table::is_removed(name) {
            self.removed.insert(name.into());
            return Ok(());
        } else if table::prefix_status(name).is_none() {
            return Err(SettingsError::Unknown {
                name: name.into(),
                nearest: table::nearest_broker_setting(name),
            });
        }
        self.values.insert(name.into(), value.into());
        Ok(())
    }

    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The settings that are set and have no effect.
    #[must_use]
    pub fn warning(&self) -> Option<Warning> {
        let idle = self
            .values
            .keys()
            .filter_map(|name| Some((name.clone(), why_idle(name)?)));
        let (names, reasons): (Vec<String>, Vec<&str>) = idle.unzip();
        let warning = Warning {
            names,
            reason: reasons.first().copied().unwrap_or_default(),
            removed: self.removed.iter().cloned().collect(),
        };
        let is_empty = warning.names.is_empty() && warning.removed.is_empty();
        (!is_empty).then_some(warning)
    }
}

/// Tables become names joined by dots, arrays become lists with commas.
fn flatten(text: &str) -> Result<Vec<(String, String)>, SettingsError> {
    let table: toml::Table = text
        .parse()
        .map_err(|error| SettingsError::Toml(Box::new(error)))?;
    let mut pairs = Vec::new();
    // Nesting is bounded by the parser.
    let mut open: Vec<(String, toml::Value)> = table.into_iter().rev().collect();
    while let Some((name, value)) = open.pop() {
        match value {
            toml::Value::Table(inner) => open.extend(
                inner
                    .into_iter()
                    .rev()
                    .map(|(key, value)| (format!("{name}.{key}"), value)),
            ),
            toml::Value::Array(items) => {
                let items: Result<Vec<String>, SettingsError> =
                    items.into_iter().map(|item| scalar(&name, item)).collect();
                pairs.push((name, items?.join(",")));
            }
            value => {
                let value = scalar(&name, value)?;
                pairs.push((name, value));
            }
        }
    }
    Ok(pairs)
}

fn scalar(name: &str, value: toml::Value) -> Result<String, SettingsError> {
    match value {
        toml::Value::String(text) => Ok(text),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Float(number) => Ok(number.to_string()),
        toml::Value::Boolean(answer) => Ok(answer.to_string()),
        toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => {
            Err(SettingsError::NoValue { name: name.into() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, format: Format) -> Result<Settings, SettingsError> {
        let mut settings = Settings::default();
        settings.read(text, format).map(|()| settings)
    }

    #[test]
    fn quoted_dotted_and_nested_names_of_toml_are_the_same() {
        let quoted = read(
            "\"log.segment.bytes\" = 2097152\n\"log.dirs\" = [\"a\", \"b\"]",
            Format::Toml,
        );
        let dotted = read(
            "log.segment.bytes = 2097152\nlog.dirs = \"a,b\"",
            Format::Toml,
        );
        let nested = read(
            "[log]\ndirs = [\"a\", \"b\"]\n[log.segment]\nbytes = \"2097152\"",
            Format::Toml,
        );
        assert_eq!(quoted, dotted);
        assert_eq!(quoted, nested);
        assert_eq!(quoted.expect("known").get("log.dirs"), Some("a,b"));
    }

    #[test]
    fn an_unknown_setting_is_named_with_its_nearest_neighbour() {
        let error = read("log.segment.byte=5", Format::Properties).expect_err("unknown");
        assert_eq!(
            error.to_string(),
            "unknown setting log.segment.byte; did you mean log.segment.bytes?"
        );
    }

    #[test]
    fn settings_that_kafka_4_removed_are_named_as_such() {
        let told = |text: &str| {
            let settings = read(text, Format::Properties).expect("known");
            settings.warning().map(|warning| warning.to_string())
        };
        assert_eq!(
            told("zookeeper.connect=host:2181").as_deref(),
            Some("setting zookeeper.connect was removed in Kafka 4, and has no effect")
        );
        assert_eq!(
            told("num.io.threads=8\nlog.message.format.version=2.8\ninter.broker.protocol.version=2.8").as_deref(),
            Some(
                "setting num.io.threads has no effect here: Requests are served on the network threads; 2 settings were \
                 removed in Kafka 4, and have no effect: inter.broker.protocol.version, log.message.format.version"
            )
        );
        assert!(read("zookeper.connect=host", Format::Properties).is_err());
    }

    #[test]
    fn secrets_are_not_shown_to_who_debugs() {
        let text =
            "listener.name.a.plain.sasl.jaas.config=hush\nssl.key.password=hush\nnum.partitions=3";
        let shown = format!("{:?}", read(text, Format::Properties).expect("known"));
        assert!(!shown.contains("hush"), "{shown}");
        assert!(shown.contains("\"num.partitions\": \"3\""), "{shown}");
    }

    #[test]
    fn settings_that_would_protect_a_broker_are_named_as_doing_nothing() {
        let told = |text: &str| {
            let settings = read(text, Format::Properties).expect("known");
            settings
                .warning()
                .map(|warning| warning.to_string())
                .unwrap_or_default()
        };
        for name in [
            "ssl.client.auth=required",
            "listener.name.inside.ssl.key.password=x",
            "listener.name.inside.gssapi.sasl.jaas.config=x",
            "max.connection.creation.rate=10",
            "delegation.token.secret.key=x",
            "create.topic.policy.class.name=org.example.Policy",
        ] {
            let told = told(name);
            let (name, _) = name.split_once('=').expect("an assignment");
            assert!(told.contains(&format!("{name} protect nothing")), "{told}");
        }
        assert!(!told("num.io.threads=8").contains("protect"));
    }

    #[test]
    fn a_mark_of_the_byte_order_is_no_part_of_the_first_name() {
        for (text, format) in [
            ("\u{feff}num.partitions=3\n", Format::Properties),
            ("\u{feff}\"num.partitions\" = 3\n", Format::Toml),
        ] {
            let settings = read(text, format).expect("known");
            assert_eq!(settings.get("num.partitions"), Some("3"));
        }
    }

    #[test]
    fn an_unusable_value_is_named_with_its_setting() {
        let error = read("num.partitions=0", Format::Properties).expect_err("below the bound");
        assert_eq!(
            error.to_string(),
            "Invalid value 0 for configuration num.partitions: Value must be at least 1"
        );
        assert!(matches!(
            Settings::default().assign("num.partitions"),
            Err(SettingsError::NoAssignment { .. })
        ));
        assert!(matches!(
            read("a = 1979-05-27", Format::Toml),
            Err(SettingsError::NoValue { .. })
        ));
        assert!(matches!(
            read("a = = 1", Format::Toml),
            Err(SettingsError::Toml(_))
        ));
    }

    #[test]
    fn the_command_line_wins_over_the_file() {
        let mut settings = read("num.partitions=3", Format::Properties).expect("known");
        settings.assign("num.partitions=5").expect("known");
        assert_eq!(settings.get("num.partitions"), Some("5"));
    }

    #[test]
    fn settings_without_effect_are_accepted_and_reported_in_one_line() {
        let told = |text: &str| {
            let settings = read(text, Format::Properties).expect("known");
            settings.warning().map(|warning| warning.to_string())
        };
        assert_eq!(
            told("log.retention.ms=5\nlog.flush.interval.ms=5").as_deref(),
            None
        );
        assert_eq!(
            told("log.retention.ms=5\nnum.io.threads=8").as_deref(),
            Some(
                "setting num.io.threads has no effect here: Requests are served on the network threads"
            )
        );
        assert_eq!(
            told("socket.send.buffer.bytes=1").as_deref(),
            Some(
                "setting socket.send.buffer.bytes has no effect here: what it steers is not built yet"
            )
        );
        assert_eq!(
            told("rsm.config.dir=/x\nnum.io.threads=8\nlistener.name.a.ssl.key.password=x\nnum.partitions=1")
                .as_deref(),
            Some(
                "3 settings have no effect here: listener.name.a.ssl.key.password, num.io.threads, rsm.config.dir; \
                 listener.name.a.ssl.key.password protect nothing in this version: what they steer is not built yet"
            )
        );
    }

    #[test]
    fn the_command_line_is_warned_of_like_the_file() {
        let mut settings = Settings::default();
        settings
            .assign("replica.socket.timeout.ms=5")
            .expect("known");
        let warning = settings.warning().expect("no effect");
        assert_eq!(warning.names, ["replica.socket.timeout.ms"]);
    }

    #[test]
    fn the_file_of_the_kafka_distribution_is_accepted() {
        let text = "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.bootstrap.servers=localhost:9093\n\
            listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ninter.broker.listener.name=PLAINTEXT\n\
            advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\ncontroller.listener.names=CONTROLLER\n\
            listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL\n\
            num.network.threads=3\nnum.io.threads=8\nsocket.send.buffer.bytes=102400\nsocket.receive.buffer.bytes=102400\n\
            socket.request.max.bytes=104857600\nlog.dirs=/tmp/kraft-combined-logs\nnum.partitions=1\n\
            num.recovery.threads.per.data.dir=2\noffsets.topic.replication.factor=1\nshare.coordinator.state.topic.replication.factor=1\n\
            share.coordinator.state.topic.min.isr=1\ntransaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
            #log.flush.interval.messages=10000\nlog.retention.hours=168\nlog.segment.bytes=1073741824\n\
            log.retention.check.interval.ms=300000\n";
        let settings = read(text, Format::Properties).expect("all known");
        assert_eq!(
            settings.warning().expect("some have no effect").to_string(),
            "6 settings have no effect here: num.io.threads, num.recovery.threads.per.data.dir, share.coordinator.state.topic.min.isr, \
             share.coordinator.state.topic.replication.factor, socket.receive.buffer.bytes, socket.send.buffer.bytes"
        );
    }
}
