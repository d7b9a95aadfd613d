//! Values: text in, typed and checked value out, with the error texts Kafka clients know.
//!
//! Owns how text becomes a value of a [`Kind`] and what a [`Check`] says about it. Text is trimmed first, as Kafka does; an
//! error shows the text as it came.

use std::collections::HashSet;

use crate::layers::Overrides;
use crate::table::{Check, Kind, Setting};

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Boolean(bool),
    Number(i64),
    Double(f64),
    Text(String),
    List(Vec<String>),
}

/// A value that cannot be used; the texts are those of Kafka, so that tools and tests recognise them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    #[error("Invalid value {value} for configuration {name}: {reason}")]
    Invalid {
        name: String,
        value: String,
        reason: String,
    },
    #[error("Configuration '{name}' values must not be empty.")]
    EmptyItem { name: String },
    #[error(
        "conflict topic config setting min.compaction.lag.ms ({min}) > max.compaction.lag.ms ({max})"
    )]
    CompactionLag { min: i64, max: i64 },
    #[error(
        "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
    )]
    NoTier,
    #[error("Unknown topic config name: {name}")]
    UnknownTopicSetting { name: String },
    #[error("Unknown group config name: {name}")]
    UnknownGroupSetting { name: String },
    #[error("Configuration '{name}' values must not be duplicated.")]
    RepeatedItem { name: String },
    #[error("Unknown client metrics configuration: {name}")]
    UnknownClientMetricsSetting { name: String },
    #[error(
        "Invalid value {value} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
    )]
    PushInterval { value: i64 },
    #[error("Illegal client matching pattern: {pattern}")]
    Pattern { pattern: String },
    #[error("{name} must be {relation} {other}")]
    Relation {
        name: String,
        relation: &'static str,
        other: String,
    },
}

/// Parses `text` as a value of `setting` and applies the setting's check.
pub(crate) fn check(setting: &Setting, text: &str) -> Result<Value, ValueError> {
    let value = parse(setting, text)?;
    admit(setting, &value)?;
    Ok(value)
}

/// Checks `overrides`: first that all names are known, then their values.
pub(crate) fn check_each(
    overrides: &Overrides,
    find: impl Fn(&str) -> Option<&'static Setting>,
    unknown: impl Fn(String) -> ValueError,
) -> Result<(), ValueError> {
    if let Some(name) = overrides.keys().find(|name| find(name).is_none()) {
        return Err(unknown(name.clone()));
    }
    for (name, text) in overrides {
        if let Some(setting) = find(name) {
            check(setting, text)?;
        }
    }
    Ok(())
}

fn invalid(setting: &Setting, value: impl Into<String>, reason: impl Into<String>) -> ValueError {
    ValueError::Invalid {
        name: setting.name.into(),
        value: value.into(),
        reason: reason.into(),
    }
}

fn parse(setting: &Setting, text: &str) -> Result<Value, ValueError> {
    let trimmed = text.trim();
    let number = |kind: &str, low: i64, high: i64| match trimmed.parse::<i64>() {
        Ok(number) if low <= number && number <= high => Ok(Value::Number(number)),
        _ => Err(invalid(
            setting,
            text,
            format!("Not a number of type {kind}"),
        )),
    };
    match setting.kind {
        Kind::Boolean if trimmed.eq_ignore_ascii_case("true") => Ok(Value::Boolean(true)),
        Kind::Boolean if trimmed.eq_ignore_ascii_case("false") => Ok(Value::Boolean(false)),
        Kind::Boolean => Err(invalid(
            setting,
            text,
            "Expected value to be either true or false",
        )),
        Kind::Int => number("INT", i32::MIN.into(), i32::MAX.into()),
        Kind::Long => number("LONG", i64::MIN, i64::MAX),
        Kind::Short => number("SHORT", i16::MIN.into(), i16::MAX.into()),
        Kind::Double => match trimmed.parse::<f64>() {
            Ok(number) => Ok(Value::Double(number)),
            Err(_) => Err(invalid(setting, text, "Not a number of type DOUBLE")),
        },
        Kind::String | Kind::Class | Kind::Password => Ok(Value::Text(trimmed.into())),
        Kind::List => Ok(Value::List(list(trimmed))),
    }
}

/// Items between commas, each trimmed; an empty text has none.
#[must_use]
pub(crate) fn list(text: &str) -> Vec<String> {
    let text = text.trim();
    if text.is_empty() {
        Vec::new()
    } else {
        text.split(',').map(|item| item.trim().to_owned()).collect()
    }
}

fn admit(setting: &Setting, value: &Value) -> Result<(), ValueError> {
    match (setting.check, value) {
        (Check::AtLeast(low), Value::Number(number)) => at_least(setting, *number, low),
        (Check::Between(low, high), Value::Number(number)) => {
            at_least(setting, *number, low)?;
            if *number <= high {
                Ok(())
            } else {
                Err(invalid(
                    setting,
                    number.to_string(),
                    format!("Value must be no more than {high}"),
                ))
            }
        }
        (Check::Share(_), Value::Double(number)) if *number < 0.0 => Err(invalid(
            setting,
            double(*number),
            "Value must be at least 0",
        )),
        (Check::Share(high), Value::Double(number)) if number.is_nan() || high < *number => {
            Err(invalid(
                setting,
                double(*number),
                format!("Value must be no more than {high}"),
            ))
        }
        (Check::OneOf(known), Value::Text(text)) if !known.contains(&text.as_str()) => {
            Err(invalid(
                setting,
                text,
                format!("String must be one of: {}", known.join(", ")),
            ))
        }
        (Check::OneOfAnyCase(known), Value::Text(text))
            if !known.iter().any(|known| known.eq_ignore_ascii_case(text)) =>
        {
            Err(invalid(
                setting,
                text,
                format!(
                    "String must be one of (case insensitive): {}",
                    known.join(", ")
                ),
            ))
        }
        (Check::NonEmpty, Value::Text(text)) if text.is_empty() => {
            Err(invalid(setting, text, "String must be non-empty"))
        }
        (Check::Items, Value::List(items)) => no_empty_item(setting, items),
        (Check::UniqueItems, Value::List(items)) => {
            no_empty_item(setting, items)?;
            let mut seen = HashSet::new();
            if !items.iter().all(|item| seen.insert(item)) {
                let name = setting.name.into();
                return Err(ValueError::RepeatedItem { name });
            }
            Ok(())
        }
        (Check::ItemsOf(known), Value::List(items)) => {
            no_empty_item(setting, items)?;
            match items.iter().find(|item| !known.contains(&item.as_str())) {
                Some(item) => Err(invalid(
                    setting,
                    item,
                    format!("String must be one of: {}", known.join(", ")),
                )),
                None => Ok(()),
            }
        }
        (Check::GzipLevel, Value::Number(number)) if *number != -1 && !(1..=9).contains(number) => {
            Err(invalid(
                setting,
                number.to_string(),
                "Value must be between 1 and 9 or equal to -1",
            ))
        }
        (Check::Replicas, Value::List(items)) => replicas(setting, items),
        (Check::OffsetReset, Value::Text(text)) if !is_offset_reset(text) => Err(invalid(
            setting,
            text,
            "Strategy must be earliest, latest or by_duration:PnDTnHnMn.nS",
        )),
        _ => Ok(()),
    }
}

fn at_least(setting: &Setting, number: i64, low: i64) -> Result<(), ValueError> {
    if low <= number {
        Ok(())
    } else {
        Err(invalid(
            setting,
            number.to_string(),
            format!("Value must be at least {low}"),
        ))
    }
}

fn no_empty_item(setting: &Setting, items: &[String]) -> Result<(), ValueError> {
    if items.iter().any(String::is_empty) {
        Err(ValueError::EmptyItem {
            name: setting.name.into(),
        })
    } else {
        Ok(())
    }
}

fn replicas(setting: &Setting, items: &[String]) -> Result<(), ValueError> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_pair = |item: &String| {
        item.split_once(':')
            .is_some_and(|(partition, broker)| is_number(partition) && is_number(broker))
    };
    if items == ["*"] || items.iter().all(is_pair) {
        return Ok(());
    }
    let form = "[partitionId]:[brokerId],[partitionId]:[brokerId],...";
    let reason = format!(
        "{} must be the literal '*' or a list of replicas in the following format: {form}",
        setting.name
    );
    Err(invalid(setting, format!("[{}]", items.join(", ")), reason))
}

fn is_offset_reset(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_seconds = |text: &str| match text.split_once('.') {
        Some((whole, rest)) => is_number(whole) && is_number(rest),
        None => is_number(text),
    };
    let Some(duration) = text.strip_prefix("by_duration:") else {
        return matches!(text, "earliest" | "latest");
    };
    let Some(parts) = duration.strip_prefix('P') else {
        return false;
    };
    let (days, time) = match parts.split_once('T') {
        Some((days, time)) => (days, Some(time)),
        None => (parts, None),
    };
    let days_fit = days.is_empty() || days.strip_suffix('D').is_some_and(is_number);
    let Some(mut rest) = time else {
        return days_fit && !days.is_empty();
    };
    let mut parts = 0;
    for unit in ['H', 'M'] {
        if let Some((number, after)) = rest.split_once(unit) {
            if !is_number(number) {
                return false;
            }
            (rest, parts) = (after, parts + 1);
        }
    }
    let seconds_fit = match rest {
        "" => 0 < parts,
        seconds => seconds.strip_suffix('S').is_some_and(is_seconds),
    };
    days_fit && seconds_fit
}

/// Prints a double as Java does, always with a fraction.
fn double(number: f64) -> String {
    format!("{number:?}")
}

/// The value as a describing tool sees it: numbers in their shortest form, lists without blanks.
#[must_use]
pub(crate) fn canonical(value: &Value) -> String {
    match value {
        Value::Boolean(value) => value.to_string(),
        Value::Number(value) => value.to_string(),
        Value::Double(value) => double(*value),
        Value::Text(value) => value.clone(),
        Value::List(items) => items.join(","),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::topic_setting;

    fn says(name: &str, text: &str) -> String {
        match check(&topic_setting(name).expect("known").setting, text) {
            Ok(value) => canonical(&value),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn bad_values_are_refused_in_the_words_of_kafka_4_3() {
        let cases = [
            (
                "retention.ms",
                "abc",
                "Invalid value abc for configuration retention.ms: Not a number of type LONG",
            ),
            (
                "retention.ms",
                "",
                "Invalid value  for configuration retention.ms: Not a number of type LONG",
            ),
            (
                "retention.ms",
                "-2",
                "Invalid value -2 for configuration retention.ms: Value must be at least -1",
            ),
            (
                "segment.bytes",
                "100",
                "Invalid value 100 for configuration segment.bytes: Value must be at least 1048576",
            ),
            (
                "segment.bytes",
                "9999999999",
                "Invalid value 9999999999 for configuration segment.bytes: Not a number of type INT",
            ),
            (
                "cleanup.policy",
                "foo",
                "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
            ),
            (
                "cleanup.policy",
                "delete,",
                "Configuration 'cleanup.policy' values must not be empty.",
            ),
            (
                "compression.gzip.level",
                "0",
                "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
            ),
            (
                "compression.zstd.level",
                "23",
                "Invalid value 23 for configuration compression.zstd.level: Value must be no more than 22",
            ),
            (
                "min.cleanable.dirty.ratio",
                "1.5",
                "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
            ),
            (
                "preallocate",
                "maybe",
                "Invalid value maybe for configuration preallocate: Expected value to be either true or false",
            ),
            (
                "message.timestamp.type",
                "createtime",
                "Invalid value createtime for configuration message.timestamp.type: String must be one of: CreateTime, LogAppendTime",
            ),
            (
                "leader.replication.throttled.replicas",
                "foo",
                "Invalid value [foo] for configuration leader.replication.throttled.replicas: leader.replication.throttled.replicas \
                 must be the literal '*' or a list of replicas in the following format: \
                 [partitionId]:[brokerId],[partitionId]:[brokerId],...",
            ),
        ];
        for (name, text, words) in cases {
            assert_eq!(says(name, text), words);
        }
    }

    #[test]
    fn blanks_around_values_and_items_do_not_count() {
        assert_eq!(says("retention.ms", " 5 "), "5");
        assert_eq!(
            says("cleanup.policy", " delete , compact "),
            "delete,compact"
        );
        assert_eq!(says("cleanup.policy", ""), "");
        assert_eq!(says("preallocate", "TRUE"), "true");
        assert_eq!(
            says("leader.replication.throttled.replicas", "0:1,1:2"),
            "0:1,1:2"
        );
    }
}
