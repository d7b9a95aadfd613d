//! Settings that are valid alone and contradict each other.
//!
//! Owns the rules between numbers, directories and roles; listeners have rules of their own in [`crate::doors`], the quorum in [`crate::quorum`], the authorizer in
//! [`crate::access`]. Refuses what Kafka 4.3 refuses at start, with its error texts if they are
//! helpful. One rule of Kafka is left out: a `queued.max.request.bytes` below `socket.request.max.bytes` lets a large request wait for
//! ever there, and only slows others here.

use crate::layers::Layers;
use crate::quorum::Roles;
use crate::settings::SettingsError;

/// A cleaner thread needs more memory for keys than this.
const DEDUPE_BYTES_PER_THREAD: i64 = 1 << 20;

pub(crate) fn refuse(layers: &Layers) -> Result<(), SettingsError> {
    ids(layers)?;
    roles(layers)?;
    retention(layers)?;
    rolling(layers)?;
    cleaner(layers)?;
    connections(layers)
}

fn unusable(name: &'static str, reason: impl Into<String>) -> Result<(), SettingsError> {
    let reason = reason.into();
    Err(SettingsError::Unusable { name, reason })
}

fn ids(layers: &Layers) -> Result<(), SettingsError> {
    let given = |name| layers.fixed.get(name).and_then(|_| layers.number(name));
    match (given("node.id"), given("broker.id")) {
        (Some(node), Some(broker)) if node != broker => unusable(
            "node.id",
            format!("must be the same as broker.id, which is {broker}; set one of them"),
        ),
        (None, Some(..0)) => unusable("broker.id", "must be greater than or equal to 0"),
        _ => Ok(()),
    }
}

fn roles(layers: &Layers) -> Result<(), SettingsError> {
    let Roles { broker, controller } = Roles::new(layers);
    if broker || controller {
        Ok(())
    } else {
        unusable("process.roles", "must name broker, controller or both")
    }
}

/// 0 would delete everything at once, which is surely a mistake. Only the setting that takes precedence is checked.
fn retention(layers: &Layers) -> Result<(), SettingsError> {
    let names = [
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
    ];
    let counts = names
        .iter()
        .find_map(|name| layers.number(name).map(|kept| (name, kept)));
    match counts {
        Some((name, 0)) => unusable(
            name,
            "must be unlimited (-1) or, greater than or equal to 1",
        ),
        _ => Ok(()),
    }
}

/// The hours have bounds of their own.
fn rolling(layers: &Layers) -> Result<(), SettingsError> {
    for (name, least) in [("log.roll.ms", 1), ("log.roll.jitter.ms", 0)] {
        if layers.number(name).is_some_and(|time| time < least) {
            return unusable(name, format!("must be greater than or equal to {least}"));
        }
    }
    Ok(())
}

fn cleaner(layers: &Layers) -> Result<(), SettingsError> {
    if !layers.flag("log.cleaner.enable") {
        return Ok(());
    }
    let threads = layers.number("log.cleaner.threads").unwrap_or(1);
    let bytes = layers
        .number("log.cleaner.dedupe.buffer.size")
        .unwrap_or(i64::MAX);
    match bytes.checked_div(threads) {
        None => unusable(
            "log.cleaner.threads",
            "must be greater than or equal to 1; log.cleaner.enable=false turns compaction off",
        ),
        Some(share) if share <= DEDUPE_BYTES_PER_THREAD => unusable(
            "log.cleaner.dedupe.buffer.size",
            "must be at least 1MB per cleaner thread.",
        ),
        Some(_) => Ok(()),
    }
}

fn connections(layers: &Layers) -> Result<(), SettingsError> {
    let overrides = layers.text("max.connections.per.ip.overrides");
    if layers.number("max.connections.per.ip") == Some(0)
        && overrides.is_none_or(|it| it.is_empty())
    {
        return unusable(
            "max.connections.per.ip",
            "can be set to zero only if max.connections.per.ip.overrides property is set.",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::fixture::{MACHINE, broker, broker_on, overrides};

    /// The error for the settings `text`; `None` if a broker accepts them.
    fn said(text: &str) -> Option<String> {
        let refused = broker_on(MACHINE, text).err();
        refused.map(|error| error.to_string())
    }

    #[test]
    fn settings_that_kafka_refuses_at_start_are_refused() {
        let cases = [
            (
                "log.roll.ms=0",
                "log.roll.ms: must be greater than or equal to 1",
            ),
            (
                "log.roll.jitter.ms=-1",
                "log.roll.jitter.ms: must be greater than or equal to 0",
            ),
            (
                "log.retention.ms=0",
                "log.retention.ms: must be unlimited (-1) or, greater than or equal to 1",
            ),
            (
                "log.retention.hours=0",
                "log.retention.hours: must be unlimited (-1) or, greater than or equal to 1",
            ),
            (
                "log.retention.minutes=0\nlog.retention.hours=1",
                "log.retention.minutes: must be unlimited (-1) or, greater than or equal to 1",
            ),
            (
                "max.connections.per.ip=0",
                "max.connections.per.ip: can be set to zero only if max.connections.per.ip.overrides property is set.",
            ),
            (
                "log.cleaner.threads=0",
                "log.cleaner.threads: must be greater than or equal to 1; log.cleaner.enable=false turns compaction off",
            ),
            (
                "log.cleaner.threads=2\nlog.cleaner.dedupe.buffer.size=2097152",
                "log.cleaner.dedupe.buffer.size: must be at least 1MB per cleaner thread.",
            ),
            (
                "broker.id=4\nnode.id=5",
                "node.id: must be the same as broker.id, which is 4; set one of them",
            ),
            (
                "broker.id=-1",
                "broker.id: must be greater than or equal to 0",
            ),
            (
                "process.roles=",
                "process.roles: must name broker, controller or both",
            ),
        ];
        for (text, words) in cases {
            assert_eq!(said(text).as_deref(), Some(words), "{text}");
        }
    }

    #[test]
    fn settings_that_kafka_accepts_are_accepted() {
        for text in [
            "log.roll.ms=1\nlog.roll.jitter.ms=0",
            "log.retention.ms=5000\nlog.retention.hours=0",
            "log.retention.ms=5000\nlog.retention.minutes=0",
            "log.retention.minutes=5\nlog.retention.hours=0",
            "log.retention.ms=-1",
            "max.connections.per.ip=0\nmax.connections.per.ip.overrides=127.0.0.1:5",
            "log.cleaner.threads=0\nlog.cleaner.enable=false",
            "log.cleaner.threads=2\nlog.cleaner.dedupe.buffer.size=2097154",
            "broker.id=5\nnode.id=5",
            "process.roles=broker",
        ] {
            assert_eq!(said(text), None, "{text}");
        }
    }

    #[test]
    fn a_change_that_contradicts_what_holds_is_refused() {
        let broker = broker("");
        for (name, value) in [
            ("log.roll.ms", "0"),
            ("log.cleaner.threads", "0"),
            ("max.connections.per.ip", "0"),
        ] {
            let after = overrides(&[(name, value)]);
            let level = crate::Level::Cluster {
                own: &Default::default(),
            };
            assert!(broker.check_change(&after, level).is_err(), "{name}");
        }
    }
}
