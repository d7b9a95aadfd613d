//! The settings of one subscription to client metrics.
//!
//! They are stored and described. If `esker.client.metrics.enable` is set, clients are asked to push the metrics that they name.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::broker::Broker;
use crate::describe::Description;
use crate::layers::{Overrides, Source};
use crate::table::{self, Setting};
use crate::value::{self, Value, ValueError};

/// The allowed interval: 100 ms to an hour.
const INTERVAL_MS: std::ops::RangeInclusive<i64> = 100..=3_600_000;
/// The properties of a client that a pattern can match.
const SELECTORS: [&str; 6] = [
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
];

/// The parsed settings of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientMetrics {
    /// Prefixes of metric names; `*` stands for all.
    pub metrics: Vec<String>,
    pub interval: Duration,
    /// The pattern that each property of a client must match. The last of two patterns for one property counts, as in Kafka.
    pub patterns: BTreeMap<String, String>,
}

impl ClientMetrics {
    /// Parses settings that passed [`check_client_metrics`]; values that did not count as not set.
    #[must_use]
    pub fn resolve(overrides: &Overrides) -> ClientMetrics {
        let value = |name: &str| {
            let setting = table::client_metrics_setting(name)?;
            let own = overrides.get(name).map(String::as_str);
            let valid = |text: &str| value::check(setting, text).ok();
            own.and_then(valid).or_else(|| valid(setting.default?))
        };
        let list = |name: &str| match value(name) {
            Some(Value::List(items)) => items,
            _ => Vec::new(),
        };
        let interval = match value("interval.ms") {
            Some(Value::Number(ms)) => ms.clamp(*INTERVAL_MS.start(), *INTERVAL_MS.end()),
            _ => *INTERVAL_MS.end(),
        };
        let pattern = |text: String| {
            let (name, pattern) = text.split_once('=')?;
            Some((name.trim().to_owned(), pattern.trim().to_owned()))
        };
        ClientMetrics {
            metrics: list("metrics"),
            interval: Duration::from_millis(interval.unsigned_abs()),
            patterns: list("match").into_iter().filter_map(pattern).collect(),
        }
    }
}

/// Checks the settings of a subscription.
pub fn check_client_metrics(overrides: &Overrides) -> Result<(), ValueError> {
    if let Some(name) = overrides
        .keys()
        .find(|name| table::client_metrics_setting(name).is_none())
    {
        return Err(ValueError::UnknownClientMetricsSetting { name: name.clone() });
    }
    for (name, text) in overrides {
        let Some(setting) = table::client_metrics_setting(name) else {
            continue;
        };
        match (setting.name, value::check(setting, text)?) {
            ("interval.ms", Value::Number(value)) if !INTERVAL_MS.contains(&value) => {
                return Err(ValueError::PushInterval { value });
            }
            ("match", Value::List(patterns)) => {
                if let Some(pattern) = patterns.iter().find(|pattern| !is_pattern(pattern)) {
                    return Err(ValueError::Pattern {
                        pattern: pattern.clone(),
                    });
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_pattern(text: &str) -> bool {
    match text.split_once('=') {
        Some((name, pattern)) => {
            SELECTORS.contains(&name.trim()) && !pattern.is_empty() && !pattern.contains('=')
        }
        None => false,
    }
}

impl Broker {
    /// Every setting of a subscription with `overrides`.
    #[must_use]
    pub fn describe_client_metrics(&self, overrides: &Overrides) -> Vec<Description> {
        let one = |setting: &'static Setting| {
            let name = setting.name;
            let valid = |text: &str| value::check(setting, text).ok();
            let own = overrides.get(name).and_then(|text| valid(text));
            let tell = |value: &Value| {
                let plain = value::canonical(value);
                (name.to_owned(), plain, Source::ClientMetrics)
            };
            let chain = own.iter().map(tell).collect();
            let value = own.or_else(|| valid(setting.default?));
            Description::changeable(setting, value, chain)
        };
        table::client_metrics_settings().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_patterns_for_the_same_the_last_one_counts() {
        let matches = "client_id=a,client_source_port=1,client_id=b";
        let overrides = [("match".to_owned(), matches.to_owned())].into();
        let read = ClientMetrics::resolve(&overrides).patterns;
        let read: Vec<_> = read.iter().map(|(of, it)| (&**of, &**it)).collect();
        assert_eq!(read, [("client_id", "b"), ("client_source_port", "1")]);
    }

    #[test]
    fn bad_subscriptions_are_refused_in_the_words_of_kafka_4_3() {
        for (name, text, words) in [
            ("metrics", "org.apache.kafka.producer.,*", "fine"),
            ("metrics", "", "fine"),
            (
                "metrics",
                "a,a",
                "Configuration 'metrics' values must not be duplicated.",
            ),
            ("interval.ms", "100", "fine"),
            (
                "interval.ms",
                "99",
                "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
            ),
            ("match", "client_id=a.*, client_source_port=1234", "fine"),
            (
                "match",
                "colour=red",
                "Illegal client matching pattern: colour=red",
            ),
            (
                "match",
                "client_id",
                "Illegal client matching pattern: client_id",
            ),
            (
                "no.such",
                "1",
                "Unknown client metrics configuration: no.such",
            ),
        ] {
            let overrides = [(name.to_owned(), text.to_owned())].into();
            let said = match check_client_metrics(&overrides) {
                Ok(()) => "fine".to_owned(),
                Err(error) => error.to_string(),
            };
            assert_eq!(said, words);
        }
    }
}
