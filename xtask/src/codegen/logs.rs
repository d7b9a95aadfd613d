//! One enum per log: every record that it can hold, distinguished by the type number in front.

use super::schema::{Kind, Message};
use std::fmt::Write as _;

/// A log whose record values carry frame version, type and version themselves.
fn framed(messages: &[Message], name: &str) -> String {
    let records: Vec<(&str, i16, &Message)> = messages
        .iter()
        .filter(|m| m.kind == Kind::Record)
        .filter_map(|m| m.key.map(|key| (m.name.trim_end_matches("Record"), key, m)))
        .collect();
    let names: Vec<&str> = records.iter().map(|(_, _, m)| m.name.as_str()).collect();
    let mut out = format!(
        "use super::{{{}}};\nuse crate::log_record::{{decode_frame, encode_framed}};\n\
         use crate::{{DecodeError, EncodeError, Message, Reader, Record, Schema}};\nuse bytes::Bytes;\n\n\
         /// Any record of this log.\n#[derive(Clone, Debug, PartialEq)]\n#[allow(clippy::large_enum_variant)]\npub enum {name} {{\n",
        names.join(", ")
    );
    for (variant, _, message) in &records {
        let _ = writeln!(out, "{variant}({}),", message.name);
    }
    let _ = writeln!(
        out,
        "}}\n\nimpl {name} {{\n\
         /// Reads a record value: frame version, type, version, body, and nothing after it. Gives the version too.\n\
         pub fn decode(value: Bytes) -> Result<(Self, i16), DecodeError> {{\n\
         let mut r = Reader::new(value);\nlet (key, version) = decode_frame(&mut r)?;\nlet record = match key {{"
    );
    for (variant, _, message) in &records {
        let _ = writeln!(
            out,
            "{0}::API_KEY => Self::{variant}({0}::decode(&mut r, version)?),",
            message.name
        );
    }
    out.push_str(
        "_ => return Err(DecodeError::ApiKey { key }),\n};\nr.expect_end()?;\nOk((record, version))\n}\n\n\
         /// The record value, ready for a batch.\npub fn encode(&self, version: i16) -> Result<Bytes, EncodeError> { match self {\n",
    );
    for (variant, ..) in &records {
        let _ = writeln!(
            out,
            "Self::{variant}(record) => encode_framed(record, version),"
        );
    }
    out.push_str("} }\n\n/// The type number.\npub fn key(&self) -> i16 { match self {\n");
    for (variant, _, message) in &records {
        let _ = writeln!(out, "Self::{variant}(_) => {}::API_KEY,", message.name);
    }
    out.push_str("} }\n\n/// The last version this record can be written in.\npub fn max_version(&self) -> i16 { match self {\n");
    for (variant, _, message) in &records {
        let _ = writeln!(out, "Self::{variant}(_) => {}::MAX_VERSION,", message.name);
    }
    out.push_str("} }\n}\n");
    for (variant, _, message) in &records {
        let _ = writeln!(
            out,
            "\nimpl From<{0}> for {name} {{ fn from(record: {0}) -> Self {{ Self::{variant}(record) }} }}",
            message.name
        );
    }
    out
}

/// A coordinator's log: the type stands in the record key, the version in the record value.
fn paired(messages: &[Message], name: &str) -> String {
    let stems: Vec<&str> = messages
        .iter()
        .filter_map(|m| m.name.strip_suffix("Key"))
        .collect();
    let names: Vec<String> = stems
        .iter()
        .flat_map(|stem| [format!("{stem}Key"), format!("{stem}Value")])
        .collect();
    let mut out = format!(
        "use super::{{{}}};\nuse crate::log_record::{{decode_key, decode_value, encode_key, encode_value}};\n\
         use crate::{{DecodeError, EncodeError, Record, Schema}};\nuse bytes::Bytes;\n\n\
         /// Any record of this log. A missing value removes what the key names.\n#[derive(Clone, Debug, PartialEq)]\n\
         #[allow(clippy::large_enum_variant)]\npub enum {name} {{\n",
        names.join(", ")
    );
    for stem in &stems {
        let _ = writeln!(out, "{stem}({stem}Key, Option<{stem}Value>),");
    }
    let _ = writeln!(
        out,
        "}}\n\nimpl {name} {{\n\
         /// Reads a record. A type that is not known is `DecodeError::ApiKey`: a newer node may have written it.\n\
         pub fn decode(key: Bytes, value: Option<Bytes>) -> Result<Self, DecodeError> {{\n\
         let (kind, mut r) = decode_key(key)?;\nOk(match kind {{"
    );
    for stem in &stems {
        let _ = writeln!(
            out,
            "{stem}Key::API_KEY => Self::{stem}(r.key()?, decode_value(value)?),"
        );
    }
    out.push_str(
        "key => return Err(DecodeError::ApiKey { key }),\n})\n}\n\n\
         /// Key and value, ready for a batch; `version` is that of the value.\n\
         pub fn encode(&self, version: i16) -> Result<(Bytes, Option<Bytes>), EncodeError> { Ok(match self {\n",
    );
    for stem in &stems {
        let _ = writeln!(
            out,
            "Self::{stem}(key, value) => (encode_key(key)?, encode_value(value.as_ref(), version)?),"
        );
    }
    out.push_str("}) }\n\n/// The type number.\npub fn key(&self) -> i16 { match self {\n");
    for stem in &stems {
        let _ = writeln!(out, "Self::{stem}(..) => {stem}Key::API_KEY,");
    }
    out.push_str("} }\n\n/// The last version the value can be written in.\npub fn max_version(&self) -> i16 { match self {\n");
    for stem in &stems {
        let _ = writeln!(out, "Self::{stem}(..) => {stem}Value::MAX_VERSION,");
    }
    out.push_str("} }\n}\n");
    out
}

/// The module with the enum of one log, and the name of the enum. Nothing for a directory that is not one log.
pub(super) fn module(module: &str, messages: &[Message]) -> Option<(&'static str, String)> {
    let (name, body) = match module {
        "metadata" => ("MetadataRecord", framed(messages, "MetadataRecord")),
        "storage" => ("RemoteLogRecord", framed(messages, "RemoteLogRecord")),
        "group" => ("GroupRecord", paired(messages, "GroupRecord")),
        "transaction" => ("TransactionRecord", paired(messages, "TransactionRecord")),
        "share" => ("ShareRecord", paired(messages, "ShareRecord")),
        _ => return None,
    };
    let head = format!(
        "//! `{name}`: the records of this log as one type.\n//!\n//! @generated by `cargo xtask codegen`.\n\n"
    );
    Some((name, head + &body))
}
