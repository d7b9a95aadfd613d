//! The one table of settings: name, type, default, bounds, how it changes, what it does here.
//!
//! Owns every fact about a setting; parsing, describing and the documentation read it. A name that is not here is unknown
//! everywhere. Defaults are Kafka 4.4's but for those that would not fit a single binary (`node.id`, `log.dir`, `listeners`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::login;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Boolean,
    Int,
    Long,
    Short,
    Double,
    String,
    List,
    Class,
    /// Never shown.
    Password,
}

/// A condition on a value beyond its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Check {
    Any,
    AtLeast(i64),
    /// Both bounds belong to the range.
    Between(i64, i64),
    /// From 0 to the bound, which belongs to the range.
    Share(f64),
    OneOf(&'static [&'static str]),
    OneOfAnyCase(&'static [&'static str]),
    NonEmpty,
    /// A list whose items are not empty.
    Items,
    ItemsOf(&'static [&'static str]),
    /// A list of unique items that are not empty.
    UniqueItems,
    GzipLevel,
    /// `*` or `partition:broker` pairs.
    Replicas,
    /// Where a share group begins.
    OffsetReset,
}

/// How a broker setting changes while the broker runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    ReadOnly,
    PerBroker,
    /// Per broker or as a default of the whole cluster.
    ClusterWide,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Works,
    /// Checked, stored and listed; the part it steers is not built yet. Named in a warning at start.
    Accepted,
    /// Steers a part this broker does not have; `doc` says why. Named in a warning at start.
    Meaningless,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    pub name: &'static str,
    pub kind: Kind,
    /// `None`: unset, or only known on the machine it runs on.
    pub default: Option<&'static str>,
    pub check: Check,
    pub update: Update,
    pub status: Status,
    pub doc: &'static str,
}

/// A broker setting that stands for a topic setting; its number times `factor` is the topic's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synonym {
    pub name: &'static str,
    pub factor: i64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TopicSetting {
    pub setting: Setting,
    /// In the order they are asked.
    pub synonyms: &'static [Synonym],
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupSetting {
    pub setting: Setting,
    /// The broker setting that gives its default.
    pub synonym: Option<&'static str>,
    /// Broker settings that bound what a group may set.
    pub min: Option<&'static str>,
    pub max: Option<&'static str>,
}

macro_rules! default {
    (-) => {
        None
    };
    ($value:literal) => {
        Some($value)
    };
}
pub(crate) use default;

macro_rules! setting {
    ($name:literal $kind:ident $default:tt $check:ident $(($($bound:expr),+))? $update:ident $status:ident $doc:literal) => {
        crate::table::Setting {
            name: $name,
            kind: crate::table::Kind::$kind,
            default: crate::table::default!($default),
            check: crate::table::Check::$check $(($($bound),+))?,
            update: crate::table::Update::$update,
            status: crate::table::Status::$status,
            doc: $doc,
        }
    };
}
pub(crate) use setting;

macro_rules! settings {
    ($($name:literal $kind:ident $default:tt $check:ident $(($($bound:expr),+))? $update:ident $status:ident $doc:literal;)*) => {
        &[$(crate::table::setting!($name $kind $default $check $(($($bound),+))? $update $status $doc)),*]
    };
}

macro_rules! topic_settings {
    ($($name:literal $kind:ident $default:tt $check:ident $(($($bound:expr),+))? $status:ident
        [$($synonym:literal $factor:literal),*] $doc:literal;)*) => {
        &[$(crate::table::TopicSetting {
            setting: crate::table::setting!($name $kind $default $check $(($($bound),+))? ClusterWide $status $doc),
            synonyms: &[$(crate::table::Synonym { name: $synonym, factor: $factor }),*],
        }),*]
    };
}

macro_rules! optional {
    () => {
        None
    };
    ($name:literal) => {
        Some($name)
    };
}
pub(crate) use optional;

macro_rules! group_settings {
    ($($name:literal $kind:ident $default:tt $check:ident $(($($bound:expr),+))? $status:ident
        [$($synonym:literal)?] [$($min:literal)?] [$($max:literal)?] $doc:literal;)*) => {
        &[$(crate::table::GroupSetting {
            setting: crate::table::setting!($name $kind $default $check $(($($bound),+))? ClusterWide $status $doc),
            synonym: crate::table::optional!($($synonym)?),
            min: crate::table::optional!($($min)?),
            max: crate::table::optional!($($max)?),
        }),*]
    };
}

mod client_metrics;
pub(crate) mod cluster;
mod coordinators;
mod group;
mod hidden;
mod log;
mod network;
mod observation;
mod quota;
mod removed;
mod runtime;
mod security;
mod tier;
mod topic;

/// Sections of broker settings as the documentation shows them.
pub(crate) const SECTIONS: &[(&str, &[Setting])] = &[
    ("Log", log::SETTINGS),
    ("Network", network::SETTINGS),
    ("Node and cluster", cluster::SETTINGS),
    ("Coordinators", coordinators::SETTINGS),
    ("Log lines, metrics, health", observation::SETTINGS),
    ("Quotas", quota::SETTINGS),
    ("Tiered storage", tier::SETTINGS),
    ("Security", security::SETTINGS),
    ("Without meaning here", runtime::SETTINGS),
];

/// Settings of plug-ins and single listeners: recognised by their prefix, checked by the code that reads them.
const PREFIXES: &[(&str, Status)] = &[
    ("config.providers.", Status::Meaningless),
    ("listener.name.", Status::Accepted),
    ("rlmm.config.", Status::Meaningless),
    ("rsm.config.", Status::Meaningless),
];

static BROKER: LazyLock<BTreeMap<&'static str, &'static Setting>> = LazyLock::new(|| {
    SECTIONS
        .iter()
        .flat_map(|(_, rows)| rows.iter())
        .map(|setting| (setting.name, setting))
        .collect()
});
static HIDDEN: LazyLock<BTreeMap<&'static str, &'static Setting>> = LazyLock::new(|| {
    hidden::SETTINGS
        .iter()
        .map(|setting| (setting.name, setting))
        .collect()
});
static GROUP: LazyLock<BTreeMap<&'static str, &'static GroupSetting>> = LazyLock::new(|| {
    group::SETTINGS
        .iter()
        .map(|group| (group.setting.name, group))
        .collect()
});
static TOPIC: LazyLock<BTreeMap<&'static str, &'static TopicSetting>> = LazyLock::new(|| {
    topic::SETTINGS
        .iter()
        .map(|topic| (topic.setting.name, topic))
        .collect()
});

/// Never listed, though a topic may carry it.
const TOPIC_HIDDEN: &str = "internal.segment.bytes";

/// Listed broker settings in the order of their names.
pub fn broker_settings() -> impl Iterator<Item = &'static Setting> {
    BROKER.values().copied()
}

/// Listed topic settings in the order of their names.
pub fn topic_settings() -> impl Iterator<Item = &'static TopicSetting> {
    TOPIC
        .values()
        .copied()
        .filter(|topic| topic.setting.name != TOPIC_HIDDEN)
}

/// Settings of a group in the order of their names.
pub fn group_settings() -> impl Iterator<Item = &'static GroupSetting> {
    GROUP.values().copied()
}

/// Settings of a subscription to client metrics in the order of their names.
pub(crate) fn client_metrics_settings() -> impl Iterator<Item = &'static Setting> {
    client_metrics::SETTINGS.iter()
}

#[must_use]
pub fn client_metrics_setting(name: &str) -> Option<&'static Setting> {
    client_metrics_settings().find(|setting| setting.name == name)
}

/// A broker setting, listed or not.
#[must_use]
pub fn broker_setting(name: &str) -> Option<&'static Setting> {
    BROKER.get(name).or_else(|| HIDDEN.get(name)).copied()
}

/// A topic setting, listed or not.
#[must_use]
pub fn topic_setting(name: &str) -> Option<&'static TopicSetting> {
    TOPIC.get(name).copied()
}

#[must_use]
pub fn group_setting(name: &str) -> Option<&'static GroupSetting> {
    GROUP.get(name).copied()
}

/// Kafka 4 removed it.
pub(crate) fn is_removed(name: &str) -> bool {
    broker_setting(name).is_none() && removed::contains(name)
}

/// True if a setting is about who may connect, who somebody is, or what they may do: TLS, SASL, tokens, policies, and bounds on what
/// strangers cost.
pub(crate) fn is_protection(name: &str) -> bool {
    const OTHERS: &[&str] = &[
        "alter.config.policy.class.name",
        "connection.failed.authentication.delay.ms",
        "connections.max.reauth.ms",
        "create.topic.policy.class.name",
        "max.connection.creation.rate",
        "principal.builder.class",
        "security.providers",
    ];
    is_tls_or_sasl(name) || name.starts_with("delegation.token.") || OTHERS.contains(&name)
}

/// A setting of TLS or SASL, of all listeners or of one.
pub(crate) fn is_tls_or_sasl(name: &str) -> bool {
    // listener.name.NAME.ssl.keystore.location, listener.name.NAME.plain.sasl.jaas.config
    let own = name
        .strip_prefix(LISTENER_PREFIX)
        .and_then(|rest| rest.split_once('.'));
    match own {
        Some((_, own)) => own.starts_with("ssl.") || own.split('.').any(|part| part == "sasl"),
        None => name.starts_with("ssl.") || name.starts_with("sasl."),
    }
}

pub(crate) const LISTENER_PREFIX: &str = "listener.name.";

pub(crate) fn prefix_status(name: &str) -> Option<Status> {
    if login::reads(name) {
        return Some(Status::Works);
    }
    PREFIXES
        .iter()
        .find(|(prefix, _)| name.starts_with(prefix))
        .map(|(_, status)| *status)
}

/// The known broker setting that `name` most likely means, or `None` when nothing is near.
#[must_use]
pub fn nearest_broker_setting(name: &str) -> Option<&'static str> {
    nearest(
        name,
        BROKER.keys().copied().chain(
            TOPIC
                .values()
                .flat_map(|topic| topic.synonyms.iter().map(|synonym| synonym.name)),
        ),
    )
}

/// The known topic setting that `name` most likely means, or `None` when nothing is near.
#[must_use]
pub fn nearest_topic_setting(name: &str) -> Option<&'static str> {
    nearest(name, TOPIC.keys().copied())
}

/// Past a third of the name changed, a guess would mislead more than it helps.
fn nearest(name: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let folded = name.to_lowercase().replace(['_', '-'], ".");
    let limit = name.chars().count() / 3 + 1;
    known
        .map(|known| (edits(&folded, known), known))
        .min()
        .filter(|(edits, _)| *edits <= limit)
        .map(|(_, known)| known)
}

/// Letters to insert, delete or replace to get from `left` to `right`.
fn edits(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (at, a) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, &b) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_passes_its_own_check() {
        for setting in broker_settings()
            .chain(hidden::SETTINGS)
            .chain(topic::SETTINGS.iter().map(|topic| &topic.setting))
            .chain(group::SETTINGS.iter().map(|group| &group.setting))
            .chain(client_metrics::SETTINGS)
        {
            if let Some(default) = setting.default {
                assert!(
                    crate::value::check(setting, default).is_ok(),
                    "{}={default}",
                    setting.name
                );
            }
        }
    }

    #[test]
    fn prefixes_of_listeners_work_where_something_reads_them() {
        for name in [
            "listener.name.a.connections.max.reauth.ms",
            "listener.name.a.sasl.enabled.mechanisms",
            "listener.name.a.sasl.server.max.receive.size",
            "listener.name.a.plain.sasl.jaas.config",
            "listener.name.a.scram-sha-512.connections.max.reauth.ms",
        ] {
            assert_eq!(prefix_status(name), Some(Status::Works), "{name}");
        }
        for name in [
            "listener.name.a.sasl.jaas.config",
            "listener.name.a.gssapi.sasl.jaas.config",
            "listener.name.a.ssl.keystore.location",
            "listener.name.a.num.network.threads",
            "listener.name.a",
        ] {
            assert_eq!(prefix_status(name), Some(Status::Accepted), "{name}");
        }
    }

    #[test]
    fn no_broker_setting_stands_in_two_sections() {
        let rows: usize = SECTIONS.iter().map(|(_, rows)| rows.len()).sum();
        assert_eq!(BROKER.len(), rows);
        // 341 of Kafka 4.4, two of its authorizer, the quotas of moves and of replication, which Kafka lists only where they are set, and 15
        // of our own.
        assert_eq!(rows, 361);
    }

    #[test]
    fn every_topic_synonym_is_a_broker_setting() {
        for topic in topic::SETTINGS {
            for synonym in topic.synonyms {
                assert!(broker_setting(synonym.name).is_some(), "{}", synonym.name);
            }
        }
    }

    #[test]
    fn a_group_differs_from_broker_settings_that_exist_and_begins_as_they_do() {
        assert_eq!(GROUP.len(), 17);
        for group in group::SETTINGS {
            let names = [group.synonym, group.min, group.max].into_iter().flatten();
            for name in names {
                assert!(broker_setting(name).is_some(), "{name}");
            }
            let given = group.synonym.and_then(broker_setting);
            assert!(given.is_none_or(|given| given.default == group.setting.default));
        }
    }

    #[test]
    fn the_nearest_setting_is_a_typo_away_and_a_strange_word_has_none() {
        assert_eq!(
            nearest_broker_setting("log.retention.hour"),
            Some("log.retention.hours")
        );
        assert_eq!(
            nearest_broker_setting("LOG_SEGMENT_BYTES"),
            Some("log.segment.bytes")
        );
        assert_eq!(nearest_topic_setting("retention.m"), Some("retention.ms"));
        assert_eq!(
            nearest_broker_setting("zookeeper.connect.string.of.old"),
            None
        );
    }
}
