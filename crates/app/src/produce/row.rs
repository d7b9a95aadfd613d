//! The record in one unit of the input: a line, a row of CSV, or an object as `esker consume --json` writes it.

use serde_json::Value;

use super::csv::Csv;
use super::{ProduceArgs, Separator};
use crate::template;

/// A record as it is to be written.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Row {
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
    pub(super) headers: Vec<(String, Option<Vec<u8>>)>,
    /// The time of writing when not given.
    pub(super) timestamp: Option<i64>,
    pub(super) partition: Option<i32>,
}

/// How rows are read.
pub(super) enum Shape {
    Lines,
    Csv(Box<Csv>),
    Json { keeps_partition: bool },
}

impl Shape {
    pub(super) fn of(args: &ProduceArgs) -> Shape {
        match args.input {
            super::Input::Lines => Shape::Lines,
            super::Input::Csv => Shape::Csv(Box::new(Csv::new(&args.csv))),
            super::Input::Json => Shape::Json {
                keeps_partition: args.keep_partition,
            },
        }
    }

    /// A file begins: its first row may name the columns.
    pub(super) fn begin(&mut self) {
        if let Shape::Csv(csv) = self {
            csv.begin();
        }
    }
}

/// Key and value of a line; all of it is the value where the separator is missing.
pub(super) fn split<'a>(
    line: &'a [u8],
    separator: Option<&Separator>,
) -> (Option<&'a [u8]>, &'a [u8]) {
    let Some(Separator(separator)) = separator else {
        return (None, line);
    };
    match line
        .windows(separator.len())
        .position(|window| window == separator)
    {
        Some(at) => (Some(&line[..at]), &line[at + separator.len()..]),
        None => (None, line),
    }
}

/// A row of JSON; `None` for a blank line.
pub(super) fn of_json(line: &[u8], keeps_partition: bool) -> Result<Option<Row>, String> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let object: Value =
        serde_json::from_slice(line).map_err(|error| format!("no JSON: {error}"))?;
    if !object.is_object() {
        return Err("it is no JSON object".to_owned());
    }
    if !(has(&object, "value")) {
        return Err("the object has no member `value`".to_owned());
    }
    let mut headers = Vec::new();
    let listed = object["headers"].as_array().into_iter().flatten();
    for header in listed {
        let name = header["name"]
            .as_str()
            .ok_or("a header has no name that is text")?;
        headers.push((name.to_owned(), member(header, "value")?));
    }
    let partition = object["partition"].as_i64();
    Ok(Some(Row {
        key: member(&object, "key")?,
        value: member(&object, "value")?,
        headers,
        // -1 is a record without a time.
        timestamp: object["timestamp"].as_i64().filter(|time| 0 <= *time),
        partition: partition
            .filter(|_| keeps_partition)
            .and_then(|partition| i32::try_from(partition).ok()),
    }))
}

fn has(object: &Value, name: &str) -> bool {
    let encoded = format!("{name}_base64");
    object.get(name).or_else(|| object.get(&encoded)).is_some()
}

/// The bytes of a member: text as it is, of `NAME_base64` what it stands for, other JSON as it is written.
fn member(object: &Value, name: &str) -> Result<Option<Vec<u8>>, String> {
    let encoded = format!("{name}_base64");
    if let Some(encoded_value) = object.get(&encoded) {
        let bytes = encoded_value.as_str().and_then(template::unbase64);
        return bytes.map(Some).ok_or(format!("`{encoded}` is not base64"));
    }
    Ok(match object.get(name) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone().into_bytes()),
        Some(other) => Some(other.to_string().into_bytes()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_ends_at_the_first_separator() {
        let tab = Separator(b"\t".to_vec());
        assert_eq!(
            split(b"k\tv\tw", Some(&tab)),
            (Some(&b"k"[..]), &b"v\tw"[..])
        );
        assert_eq!(split(b"no key", Some(&tab)), (None, &b"no key"[..]));
        assert_eq!(split(b"\tv", Some(&tab)), (Some(&b""[..]), &b"v"[..]));
        assert_eq!(split(b"a:b", None), (None, &b"a:b"[..]));
    }

    #[test]
    fn an_object_as_consume_writes_it_is_the_record_again() {
        let headers: [(&[u8], Option<&[u8]>); 2] = [(b"h", Some(b"\xff")), (b"n", None)];
        let shown = template::Shown {
            topic: "t",
            partition: 2,
            offset: 7,
            timestamp: 99,
            key: Some(b"k\n"),
            value: Some(b"a\xffb"),
            headers: &headers,
        };
        let mut line = Vec::new();
        template::write_json(&shown, &mut line).unwrap();
        let row = |keeps| of_json(&line, keeps).unwrap().unwrap();
        let want = Row {
            key: Some(b"k\n".to_vec()),
            value: Some(b"a\xffb".to_vec()),
            headers: vec![("h".into(), Some(b"\xff".to_vec())), ("n".into(), None)],
            timestamp: Some(99),
            partition: None,
        };
        assert_eq!(row(false), want);
        assert_eq!(row(true).partition, Some(2));
    }

    #[test]
    fn objects_written_by_hand_need_a_value_alone() {
        let row = |text: &str| of_json(text.as_bytes(), false);
        assert_eq!(row(" \r").unwrap(), None);
        let parsed = row(r#"{"value": {"a": [1, 2.5]}, "timestamp": -1}"#)
            .unwrap()
            .unwrap();
        assert_eq!(parsed.value.as_deref(), Some(&br#"{"a":[1,2.5]}"#[..]));
        assert_eq!((parsed.key, parsed.timestamp), (None, None));
        assert_eq!(row(r#"{"value": null}"#).unwrap().unwrap().value, None);
        for (text, word) in [
            ("nothing", "JSON"),
            ("[1]", "object"),
            (r#"{"key": "k"}"#, "value"),
            (r#"{"value_base64": "&"}"#, "base64"),
            (r#"{"value": 1, "headers": [{"value": 1}]}"#, "header"),
        ] {
            assert!(row(text).unwrap_err().contains(word), "{text}");
        }
    }
}
