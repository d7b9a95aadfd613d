//! The settings of one group: its own values on top of what the broker gives.
//!
//! Owns the bounds: a value outside of the broker's current bounds is refused. A value that was set before the bounds moved is kept,
//! and the coordinator that uses it applies the bounds.

use crate::broker::Broker;
use crate::layers::{Layers, Overrides};
use crate::table::{self, GroupSetting};
use crate::value::{self, Value, ValueError};

/// Pairs of a longer and a shorter time: a session must be longer than the heartbeat interval that keeps it alive.
const LONGER: [(&str, &str); 3] = [
    (
        "consumer.session.timeout.ms",
        "consumer.heartbeat.interval.ms",
    ),
    ("share.session.timeout.ms", "share.heartbeat.interval.ms"),
    (
        "streams.session.timeout.ms",
        "streams.heartbeat.interval.ms",
    ),
];

impl Broker {
    /// Checks a group's own settings: names first, then values, then bounds, then values against each other.
    pub fn check_group(&self, overrides: &Overrides) -> Result<(), ValueError> {
        value::check_each(
            overrides,
            |name| table::group_setting(name).map(|group| &group.setting),
            |name| ValueError::UnknownGroupSetting { name },
        )?;
        let number = |group: &GroupSetting| match effective(overrides, &self.layers, group) {
            Some(Value::Number(number)) => Some(number),
            _ => None,
        };
        let bound = |name: Option<&'static str>| Some((name?, self.layers.number(name?)?));
        for group in table::group_settings() {
            let name = group.setting.name;
            let Some(number) = number(group) else {
                continue;
            };
            let refused = |relation, other: &str| {
                Err(ValueError::Relation {
                    name: name.into(),
                    relation,
                    other: other.into(),
                })
            };
            match (bound(group.min), bound(group.max)) {
                (Some((min, least)), _) if number < least => {
                    return refused("greater than or equal to", min);
                }
                (_, Some((max, most))) if most < number => {
                    return refused("less than or equal to", max);
                }
                _ => {}
            }
        }
        for (longer, shorter) in LONGER {
            let of = |name: &str| table::group_setting(name).and_then(number);
            if of(longer) <= of(shorter) {
                return Err(ValueError::Relation {
                    name: longer.into(),
                    relation: "greater than",
                    other: shorter.into(),
                });
            }
        }
        Ok(())
    }
}

/// A number that the group itself sets; `None` if it sets none that can be read.
#[must_use]
pub fn group_number(overrides: &Overrides, name: &str) -> Option<i64> {
    let setting = &table::group_setting(name)?.setting;
    match value::check(setting, overrides.get(name)?) {
        Ok(Value::Number(number)) => Some(number),
        _ => None,
    }
}

/// The winning value of a group's setting.
pub(crate) fn effective(
    overrides: &Overrides,
    layers: &Layers,
    group: &GroupSetting,
) -> Option<Value> {
    let setting = &group.setting;
    let own = || value::check(setting, overrides.get(setting.name)?).ok();
    let given = || layers.value(table::broker_setting(group.synonym?)?);
    let default = || value::check(setting, setting.default?).ok();
    own().or_else(given).or_else(default)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{broker, overrides};

    fn says(broker: &Broker, pairs: &[(&str, &str)]) -> String {
        match broker.check_group(&overrides(pairs)) {
            Ok(()) => "fine".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn values_out_of_bounds_are_refused_in_the_words_of_kafka_4_3() {
        let broker = broker("");
        for (name, text, words) in [
            ("consumer.session.timeout.ms", "50000", "fine"),
            (
                "consumer.session.timeout.ms",
                "1000",
                "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
            ),
            (
                "consumer.session.timeout.ms",
                "60001",
                "consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms",
            ),
            (
                "consumer.session.timeout.ms",
                "soon",
                "Invalid value soon for configuration consumer.session.timeout.ms: Not a number of type INT",
            ),
            (
                "consumer.heartbeat.interval.ms",
                "0",
                "Invalid value 0 for configuration consumer.heartbeat.interval.ms: Value must be at least 1",
            ),
            ("consumer.assignment.interval.ms", "0", "fine"),
            (
                "consumer.assignment.interval.ms",
                "15001",
                "consumer.assignment.interval.ms must be less than or equal to group.consumer.max.assignment.interval.ms",
            ),
            (
                "streams.num.standby.replicas",
                "3",
                "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
            ),
            ("no.such", "1", "Unknown group config name: no.such"),
        ] {
            assert_eq!(says(&broker, &[(name, text)]), words);
        }
    }

    #[test]
    fn a_session_outlasts_a_heartbeat() {
        let broker = broker(
            "group.consumer.min.session.timeout.ms=10\ngroup.consumer.min.heartbeat.interval.ms=10",
        );
        let pair = |session, heartbeat| {
            [
                ("consumer.session.timeout.ms", session),
                ("consumer.heartbeat.interval.ms", heartbeat),
            ]
        };
        assert_eq!(says(&broker, &pair("11", "10")), "fine");
        assert_eq!(
            says(&broker, &pair("10", "10")),
            "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
        );
        // The broker's heartbeat interval counts where the group has none.
        assert_ne!(says(&broker, &pair("11", "10")[..1]), "fine");
    }

    #[test]
    fn a_start_by_duration_needs_a_duration() {
        let broker = broker("");
        for (text, is_fine) in [
            ("earliest", true),
            ("by_duration:PT1H", true),
            ("by_duration:P2DT3H4.5S", true),
            ("by_duration:-PT1H", false),
            ("by_duration:P", false),
            ("by_duration:PT", false),
            ("by_duration:P1H", false),
            ("by_duration:", false),
            ("none", false),
        ] {
            let said = says(&broker, &[("share.auto.offset.reset", text)]);
            assert_eq!(said == "fine", is_fine, "{text}: {said}");
        }
    }
}
