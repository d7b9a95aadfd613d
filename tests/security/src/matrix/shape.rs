//! An answer as a line of text in which what differs from run to run is gone.
//!
//! Reads what `Debug` writes of a decoded message, so that no message needs code of its own. Fields that are 0, false or null are
//! left out: answers of several versions become one line. What is rubbed out is listed here and nowhere else.

use std::fmt::Write as _;

use wire::ErrorCode;

/// The text of `Debug` as a tree.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    Struct(Vec<(String, Shape)>),
    List(Vec<Shape>),
    /// A string; bytes as their length.
    Text(String),
    Bytes(usize),
    /// Numbers, truth values, identities, `None`.
    Word(String),
}

/// Times, and texts for people: errors are compared by their codes alone.
const DROPPED: &[&str] = &[
    "throttle_time_ms",
    "error_message",
    "log_append_time_ms",
    "transaction_start_time_ms",
    "total_bytes",
    "usable_bytes",
    "documentation",
    "last_rebalance",
    // The versions on offer are compared elsewhere; here it is who gets an answer.
    "api_keys",
    "supported_features",
    "finalized_features",
    "finalized_features_epoch",
];
/// Numbers that a broker gives out as it likes; -1 and 0 mean "none" and stay.
const NUMBERS: &[&str] = &[
    "port",
    "producer_id",
    "producer_epoch",
    "broker_epoch",
    "session_id",
    "subscription_id",
    "last_timestamp",
    "last_caught_up_timestamp",
    "last_fetch_timestamp",
    "high_watermark_checkpoint",
];
/// Numbers of the metadata log, which each broker writes as it likes.
const OF_METADATA: &[&str] = &["high_watermark", "log_end_offset", "leader_epoch"];
const METADATA: &str = "__cluster_metadata";
/// Names that a broker makes up.
const NAMES: &[&str] = &[
    "cluster_id",
    "log_dir",
    "client_id",
    "directory_id",
    "replica_directory_id",
];
/// Member ids that are not ours are made up.
const STRANGER: &str = "stranger";

/// Reads one line of `Debug` without alternate form. None where it is not understood.
pub(crate) fn read(debug: &str) -> Option<Shape> {
    let mut rest = debug;
    let shape = value(&mut rest)?;
    rest.is_empty().then_some(shape)
}

fn value(rest: &mut &str) -> Option<Shape> {
    if let Some(after) = rest.strip_prefix('[') {
        *rest = after;
        return list(rest);
    }
    if let Some(after) = rest.strip_prefix("b\"") {
        *rest = after;
        return Some(Shape::Bytes(quoted(rest)?.chars().count()));
    }
    if let Some(after) = rest.strip_prefix('"') {
        *rest = after;
        return Some(Shape::Text(quoted(rest)?));
    }
    let end = rest
        .find([',', ')', '}', ']', '(', ' '])
        .unwrap_or(rest.len());
    let (word, after) = rest.split_at(end);
    *rest = after;
    if let Some(inside) = rest.strip_prefix('(') {
        // `Some(..)`, or a variant around a message: what is inside says enough.
        *rest = inside;
        let inner = value(rest)?;
        *rest = rest.strip_prefix(')')?;
        return Some(inner);
    }
    if let Some(inside) = rest.strip_prefix(" { ") {
        *rest = inside;
        return fields(rest);
    }
    Some(Shape::Word(word.to_owned()))
}

fn list(rest: &mut &str) -> Option<Shape> {
    let mut items = Vec::new();
    loop {
        if let Some(after) = rest.strip_prefix(']') {
            *rest = after;
            return Some(Shape::List(items));
        }
        items.push(value(rest)?);
        *rest = rest.strip_prefix(", ").unwrap_or(rest);
    }
}

fn fields(rest: &mut &str) -> Option<Shape> {
    let mut all = Vec::new();
    loop {
        let (name, after) = rest.split_once(": ")?;
        *rest = after;
        all.push((name.to_owned(), value(rest)?));
        if let Some(after) = rest.strip_prefix(" }") {
            *rest = after;
            return Some(Shape::Struct(all));
        }
        *rest = rest.strip_prefix(", ")?;
    }
}

/// Up to the quote that ends it; each escape counts as one character and stays no longer than it must.
fn quoted(rest: &mut &str) -> Option<String> {
    let mut text = String::new();
    let mut chars = rest.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                *rest = &rest[at + 1..];
                return Some(text);
            }
            '\\' => match chars.next()?.1 {
                'x' => {
                    chars.next()?;
                    chars.next()?;
                    text.push('?');
                }
                escaped => text.push(escaped),
            },
            c => text.push(c),
        }
    }
    None
}

/// Identities that have a name, for this answer.
pub(crate) type Known = [(String, &'static str)];

/// Rubs out what may differ. `is_ordered` keeps the order of lists, which is that of the request.
pub(crate) fn normal(shape: Shape, known: &Known, is_ordered: bool) -> Shape {
    match shape {
        Shape::Struct(fields) => {
            let is_metadata = fields
                .iter()
                .any(|(_, value)| *value == Shape::Text(METADATA.to_owned()));
            let kept = fields
                .into_iter()
                .filter(|(name, _)| !DROPPED.contains(&name.as_str()));
            let fields = kept.map(|(name, value)| {
                let value = rubbed(&name, normal(value, known, is_ordered), known);
                (
                    name,
                    if is_metadata {
                        without(value, OF_METADATA)
                    } else {
                        value
                    },
                )
            });
            Shape::Struct(fields.collect())
        }
        Shape::List(items) => {
            let mut items: Vec<Shape> = items
                .into_iter()
                .map(|item| normal(item, known, is_ordered))
                .collect();
            if !is_ordered {
                items.sort_by_cached_key(written);
            }
            Shape::List(items)
        }
        other => other,
    }
}

/// The same with other numbers in the fields of these names.
fn without(shape: Shape, names: &[&str]) -> Shape {
    match shape {
        Shape::Struct(fields) => Shape::Struct(
            fields
                .into_iter()
                .map(|(name, value)| match names.contains(&name.as_str()) {
                    true => (name, Shape::Word("N".to_owned())),
                    false => (name, without(value, names)),
                })
                .collect(),
        ),
        Shape::List(items) => {
            Shape::List(items.into_iter().map(|item| without(item, names)).collect())
        }
        other => other,
    }
}

fn rubbed(name: &str, value: Shape, known: &Known) -> Shape {
    let word = |text: &str| Shape::Word(text.to_owned());
    match &value {
        Shape::Word(number) if NUMBERS.contains(&name) && !matches!(&**number, "-1" | "0") => {
            word("N")
        }
        // Operations that were not asked for.
        Shape::Word(number) if number == "-2147483648" => word("unasked"),
        Shape::Word(code) if name.ends_with("error_code") => match code.parse::<i16>() {
            Ok(code) => code_named(code),
            Err(_) => value,
        },
        Shape::Word(id) if id.len() == 22 => {
            let named = known.iter().find(|(known, _)| known == id);
            word(match named {
                Some((_, name)) => name,
                None if id.bytes().all(|c| c == b'A') => "0",
                None => "ID",
            })
        }
        Shape::Text(text) if NAMES.contains(&name) && !text.is_empty() => word("NAME"),
        Shape::Text(text) if name == "member_id" && !text.is_empty() && text != STRANGER => {
            word("NAME")
        }
        Shape::Text(text) => match text.strip_prefix("fresh-") {
            Some(number) if number.bytes().all(|c| c.is_ascii_digit()) => {
                Shape::Text("fresh".to_owned())
            }
            _ => value,
        },
        _ => value,
    }
}

fn code_named(code: i16) -> Shape {
    Shape::Word(match ErrorCode::try_from(code) {
        Ok(code) if code.is_error() => code.name().to_owned(),
        _ => code.to_string(),
    })
}

/// On one line, without what says nothing.
pub(crate) fn written(shape: &Shape) -> String {
    let mut text = String::new();
    write(shape, &mut text);
    text
}

fn write(shape: &Shape, out: &mut String) {
    match shape {
        Shape::Struct(fields) => {
            out.push('{');
            let mut is_first = true;
            for (name, value) in fields {
                if matches!(value, Shape::Word(word) if matches!(&**word, "0" | "false" | "None")) {
                    continue;
                }
                if !is_first {
                    out.push(' ');
                }
                is_first = false;
                let _ = write!(out, "{name}:");
                write(value, out);
            }
            out.push('}');
        }
        Shape::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                write(item, out);
            }
            out.push(']');
        }
        Shape::Text(text) => {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.*:".contains(c);
            if !text.is_empty() && text.chars().all(is_plain) {
                out.push_str(text);
            } else {
                let _ = write!(out, "{text:?}");
            }
        }
        Shape::Bytes(length) => {
            let _ = write!(out, "bytes({length})");
        }
        Shape::Word(word) => out.push_str(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_is_rubbed_out() {
        #[derive(Debug)]
        #[allow(dead_code)]
        struct Answer {
            throttle_time_ms: i32,
            error_code: i16,
            topics: Option<Vec<Topic>>,
        }
        #[derive(Debug)]
        #[allow(dead_code)]
        struct Topic {
            name: Option<String>,
            topic_id: wire::Uuid,
            is_internal: bool,
            member_id: String,
            producer_id: i64,
            records: bytes::Bytes,
        }
        let topic = |name: &str, id| Topic {
            name: Some(name.to_owned()),
            topic_id: wire::Uuid([id; 16]),
            is_internal: false,
            member_id: "consumer-1".to_owned(),
            producer_id: i64::from(id),
            records: bytes::Bytes::from_static(b"a\0\"b"),
        };
        let answer = Answer {
            throttle_time_ms: 5,
            error_code: 29,
            topics: Some(vec![topic("there", 1), topic("fresh-17", 0)]),
        };
        let known = [(wire::Uuid([1; 16]).to_string(), "there")];
        let shape = read(&format!("{answer:?}")).expect("read");
        assert_eq!(
            written(&normal(shape, &known, false)),
            "{error_code:TOPIC_AUTHORIZATION_FAILED topics:[\
             {name:fresh member_id:NAME records:bytes(4)} \
             {name:there topic_id:there member_id:NAME producer_id:N records:bytes(4)}]}"
        );
    }
}
