//! The message definitions as data: JSON with comments in, flat lists of structs out.
//!
//! Owns what a definition means (defaults, ranges a nested struct can have, which fields never reach the wire).
//! Refuses what the generator does not know: an unknown type, a tagged field that is untagged in some version.

use super::names;
use super::versions::Versions;
use serde_json::Value;

/// The types a field can have on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U16,
    U32,
    F64,
    Uuid,
    Text,
    Bytes,
    Records,
    Struct(String),
    Array(Box<Type>),
}

impl Type {
    fn parse(name: &str) -> Result<Self, String> {
        if let Some(element) = name.strip_prefix("[]") {
            return Ok(Self::Array(Box::new(Self::parse(element)?)));
        }
        Ok(match name {
            "bool" => Self::Bool,
            "int8" => Self::I8,
            "int16" => Self::I16,
            "int32" => Self::I32,
            "int64" => Self::I64,
            "uint16" => Self::U16,
            "uint32" => Self::U32,
            "float64" => Self::F64,
            "uuid" => Self::Uuid,
            "string" => Self::Text,
            "bytes" => Self::Bytes,
            "records" => Self::Records,
            _ if name.starts_with(|c: char| c.is_ascii_uppercase()) => {
                Self::Struct(name.to_owned())
            }
            _ => return Err(format!("unknown type `{name}`")),
        })
    }
}

/// The value of a field that a message does not carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Default {
    /// Zero, false, empty.
    Zero,
    Null,
    /// A number or `true`, as Rust writes it.
    Literal(String),
    Text(String),
}

#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) ty: Type,
    pub(super) versions: Versions,
    pub(super) nullable: Versions,
    pub(super) tag: Option<u32>,
    pub(super) default: Default,
    pub(super) ignorable: bool,
    /// False for the one field that keeps the old string form in flexible versions.
    pub(super) flexible: bool,
}

impl Field {
    /// True if the Rust type is an `Option`.
    pub(super) fn is_option(&self) -> bool {
        !self.nullable.is_empty() || self.ty == Type::Records
    }
}

#[derive(Clone, Debug)]
pub(super) struct Struct {
    pub(super) name: String,
    /// Versions of the message in which the struct can occur.
    pub(super) versions: Versions,
    pub(super) fields: Vec<Field>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Request,
    Response,
    /// Written to a log under a type number.
    Record,
    Plain,
}

#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) key: Option<i16>,
    pub(super) versions: Versions,
    pub(super) flexible: Versions,
    pub(super) listeners: Vec<String>,
    pub(super) latest_unstable: bool,
    /// The message itself, then its nested structs in order of appearance.
    pub(super) structs: Vec<Struct>,
}

impl Message {
    /// `None` for a definition whose versions are all removed.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, String> {
        let json: Value = serde_json::from_str(&strip_comments(text)).map_err(|e| e.to_string())?;
        let name = text_of(&json, "name")?.to_owned();
        let versions = Versions::parse(text_of(&json, "validVersions")?)?;
        if versions.is_empty() {
            return Ok(None);
        }
        let kind = match text_of(&json, "type")? {
            "request" => Kind::Request,
            "response" => Kind::Response,
            "metadata" | "coordinator-key" | "coordinator-value" => Kind::Record,
            "data" | "header" => Kind::Plain,
            other => return Err(format!("unknown message type `{other}`")),
        };
        let mut message = Self {
            kind,
            key: json
                .get("apiKey")
                .and_then(Value::as_i64)
                .and_then(|key| i16::try_from(key).ok()),
            versions,
            flexible: Versions::parse(text_of(&json, "flexibleVersions")?)?,
            listeners: list_of(&json, "listeners")
                .iter()
                .filter_map(|l| l.as_str().map(str::to_owned))
                .collect(),
            latest_unstable: json
                .get("latestVersionUnstable")
                .and_then(Value::as_bool)
                .unwrap_or(false),
            structs: Vec::new(),
            name: name.clone(),
        };
        message.add_struct(&name, versions, list_of(&json, "fields"))?;
        for common in list_of(&json, "commonStructs") {
            let versions = Versions::parse(text_of(common, "versions")?)?.and(versions);
            message.add_struct(
                text_of(common, "name")?,
                versions,
                list_of(common, "fields"),
            )?;
        }
        Ok(Some(message))
    }

    pub(super) fn find(&self, name: &str) -> Result<&Struct, String> {
        self.structs
            .iter()
            .find(|s| s.name == name)
            .ok_or_else(|| format!("{}: no struct `{name}`", self.name))
    }

    fn add_struct(
        &mut self,
        name: &str,
        versions: Versions,
        fields: &[Value],
    ) -> Result<(), String> {
        let at = self.structs.len();
        self.structs.push(Struct {
            name: name.to_owned(),
            versions,
            fields: Vec::new(),
        });
        for json in fields {
            let field = parse_field(json).map_err(|why| format!("{}.{name}: {why}", self.name))?;
            let possible = field.versions.and(versions);
            if possible.is_empty() {
                continue;
            }
            let element = match &field.ty {
                Type::Array(element) => element,
                other => other,
            };
            if let (Type::Struct(nested), Some(_)) = (element, json.get("fields")) {
                let nested = nested.clone();
                self.add_struct(&nested, possible, list_of(json, "fields"))?;
            }
            self.structs[at].fields.push(field);
        }
        Ok(())
    }
}

fn parse_field(json: &Value) -> Result<Field, String> {
    let range = |key: &str| {
        json.get(key)
            .and_then(Value::as_str)
            .map(Versions::parse)
            .transpose()
    };
    let name = text_of(json, "name")?;
    let ty = Type::parse(text_of(json, "type")?)?;
    let tagged = range("taggedVersions")?;
    let versions = range("versions")?
        .or(tagged)
        .ok_or_else(|| format!("field `{name}` has no versions"))?;
    let tag = json
        .get("tag")
        .and_then(Value::as_u64)
        .and_then(|tag| u32::try_from(tag).ok());
    if tag.is_some() != tagged.is_some() || tagged.is_some_and(|tagged| tagged != versions) {
        return Err(format!("field `{name}` is tagged in some versions only"));
    }
    Ok(Field {
        name: names::field(name),
        default: parse_default(&ty, json.get("default"))
            .map_err(|why| format!("field `{name}`: {why}"))?,
        ty,
        versions,
        nullable: range("nullableVersions")?.unwrap_or(Versions::NONE),
        tag,
        ignorable: json
            .get("ignorable")
            .and_then(Value::as_bool)
            .unwrap_or(false),
        flexible: range("flexibleVersions")?.is_none_or(|flexible| !flexible.is_empty()),
    })
}

fn parse_default(ty: &Type, json: Option<&Value>) -> Result<Default, String> {
    let text = match json {
        // A JSON null says "nothing given", only the word "null" means a null.
        None | Some(Value::Null) => {
            return Ok(if *ty == Type::Records {
                Default::Null
            } else {
                Default::Zero
            });
        }
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    if text == "null" {
        return Ok(Default::Null);
    }
    match ty {
        Type::Bool => Ok(if text == "true" {
            Default::Literal(text)
        } else {
            Default::Zero
        }),
        Type::I8 | Type::I16 | Type::I32 | Type::I64 | Type::U16 | Type::U32 => {
            let number = match text.strip_prefix("0x") {
                Some(hex) => i64::from_str_radix(hex, 16),
                None => text.parse(),
            };
            let number = number.map_err(|_| format!("bad default `{text}`"))?;
            let literal = if number == i64::MAX {
                "i64::MAX".to_owned()
            } else if *ty == Type::I32 && number == i64::from(i32::MAX) {
                "i32::MAX".to_owned()
            } else if *ty == Type::I32 && number == i64::from(i32::MIN) {
                "i32::MIN".to_owned()
            } else {
                number.to_string()
            };
            Ok(if number == 0 {
                Default::Zero
            } else {
                Default::Literal(literal)
            })
        }
        Type::Text => Ok(if text.is_empty() {
            Default::Zero
        } else {
            Default::Text(text)
        }),
        _ => Err(format!("default `{text}` for this type")),
    }
}

fn text_of<'a>(json: &'a Value, key: &str) -> Result<&'a str, String> {
    json.get(key)
        .and_then(Value::as_str)
        .ok_or_else(|| format!("`{key}` missing"))
}

fn list_of<'a>(json: &'a Value, key: &str) -> &'a [Value] {
    json.get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Removes `// ...` up to the end of the line, but not inside strings.
fn strip_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let (mut in_string, mut escaped, mut end) = (false, false, line.len());
        for (i, c) in line.char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\\' if in_string => escaped = true,
                '"' => in_string = !in_string,
                '/' if !in_string && line[i..].starts_with("//") => {
                    end = i;
                    break;
                }
                _ => {}
            }
        }
        out.push_str(&line[..end]);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_go_but_addresses_in_strings_stay() {
        assert_eq!(
            strip_comments("{ \"a\": \"http://x\" } // b"),
            "{ \"a\": \"http://x\" } \n"
        );
    }

    #[test]
    fn a_struct_occurs_in_no_version_its_field_lacks() {
        let text = r#"{ "apiKey": 1, "type": "request", "name": "XRequest", "validVersions": "4-18", "flexibleVersions": "12+",
            "fields": [ { "name": "Gone", "type": "int8", "versions": "0-2" },
                        { "name": "Parts", "type": "[]Part", "versions": "7+", "fields": [
                            { "name": "Max", "type": "int64", "versions": "0+", "default": "0x7fffffffffffffff" } ] } ] }"#;
        let message = Message::parse(text).expect("parses").expect("live");
        assert_eq!(message.structs[0].fields.len(), 1);
        assert_eq!(message.structs[1].versions, Versions { low: 7, high: 18 });
        assert_eq!(
            message.structs[1].fields[0].default,
            Default::Literal("i64::MAX".to_owned())
        );
    }
}
