//! Broker settings that Kafka 4 removed: a file of an older broker may still have them, and they do nothing in either.

const NAMES: &[&str] = &[
    "advertised.host.name",
    "advertised.port",
    "auto.include.jmx.reporter",
    "broker.id.generation.enable",
    "control.plane.listener.name",
    "controlled.shutdown.max.retries",
    "controlled.shutdown.retry.backoff.ms",
    "delegation.token.master.key",
    "host.name",
    "inter.broker.protocol.version",
    "log.message.downconversion.enable",
    "log.message.format.version",
    "log.message.timestamp.difference.max.ms",
    "offsets.commit.required.acks",
    "port",
    "reserved.broker.max.id",
];

/// Of ZooKeeper, and of passwords that were kept there.
const PREFIXES: &[&str] = &["password.encoder.", "zookeeper."];

pub(super) fn contains(name: &str) -> bool {
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
