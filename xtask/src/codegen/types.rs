//! The generator's knowledge of types: Rust form, default, name of the codec, least size.

use super::schema::{Default, Field, Message, Struct, Type};

pub(super) fn rust_type(field: &Field) -> String {
    fn plain(ty: &Type) -> String {
        match ty {
            Type::Bool => "bool".to_owned(),
            Type::I8 => "i8".to_owned(),
            Type::I16 => "i16".to_owned(),
            Type::I32 => "i32".to_owned(),
            Type::I64 => "i64".to_owned(),
            Type::U16 => "u16".to_owned(),
            Type::U32 => "u32".to_owned(),
            Type::F64 => "f64".to_owned(),
            Type::Uuid => "Uuid".to_owned(),
            Type::Text => "String".to_owned(),
            Type::Bytes => "Bytes".to_owned(),
            Type::Records => "Records".to_owned(),
            Type::Struct(name) => name.clone(),
            Type::Array(element) => format!("Vec<{}>", plain(element)),
        }
    }
    if field.is_option() {
        format!("Option<{}>", plain(&field.ty))
    } else {
        plain(&field.ty)
    }
}

pub(super) fn default_expr(field: &Field) -> String {
    let value = match (&field.default, &field.ty) {
        (Default::Null, _) => return "None".to_owned(),
        (Default::Literal(literal), _) => literal.clone(),
        (Default::Text(text), _) => format!("\"{text}\".to_owned()"),
        (Default::Zero, Type::Bool) => "false".to_owned(),
        (Default::Zero, Type::F64) => "0.0".to_owned(),
        (Default::Zero, Type::Uuid) => "Uuid::ZERO".to_owned(),
        (Default::Zero, Type::Text) => "String::new()".to_owned(),
        (Default::Zero, Type::Bytes) => "Bytes::new()".to_owned(),
        (Default::Zero, Type::Array(_)) => "Vec::new()".to_owned(),
        (Default::Zero, Type::Struct(name)) => format!("{name}::default()"),
        (Default::Zero, _) => "0".to_owned(),
    };
    if field.is_option() {
        format!("Some({value})")
    } else {
        value
    }
}

/// The condition under which a field holds something worth writing.
pub(super) fn differs_from_default(field: &Field) -> String {
    let name = &field.name;
    match (&field.default, &field.ty) {
        (Default::Null, _) => format!("self.{name}.is_some()"),
        (Default::Literal(_), Type::Bool) => format!("!self.{name}"),
        (Default::Zero, Type::Bool) => format!("self.{name}"),
        (Default::Text(text), _) if field.is_option() => {
            format!("self.{name}.as_deref() != Some(\"{text}\")")
        }
        (Default::Text(text), _) => format!("self.{name} != \"{text}\""),
        (_, Type::Text | Type::Bytes | Type::Array(_)) if field.is_option() => {
            format!("self.{name}.as_ref().is_none_or(|value| !value.is_empty())")
        }
        (_, Type::Text | Type::Bytes | Type::Array(_)) => format!("!self.{name}.is_empty()"),
        _ => format!("self.{name} != {}", default_expr(field)),
    }
}

pub(super) fn method(ty: &Type) -> Result<&'static str, String> {
    match method_name(ty) {
        "" => Err(format!("no codec for {ty:?}")),
        name => Ok(name),
    }
}

pub(super) fn method_name(ty: &Type) -> &'static str {
    match ty {
        Type::Bool => "bool",
        Type::I8 => "i8",
        Type::I16 => "i16",
        Type::I32 => "i32",
        Type::I64 => "i64",
        Type::U16 => "u16",
        Type::U32 => "u32",
        Type::F64 => "f64",
        Type::Uuid => "uuid",
        Type::Text => "string",
        Type::Bytes => "bytes",
        Type::Records | Type::Struct(_) | Type::Array(_) => "",
    }
}

/// Smallest size of one value on the wire over all versions in which it can occur, at least 1.
pub(super) fn size_min(message: &Message, item: &Struct) -> Result<usize, String> {
    let mut least = usize::MAX;
    for version in item.versions.low..=item.versions.high {
        least = least.min(size_in(message, item, version)?);
    }
    Ok(least.max(1))
}

fn size_in(message: &Message, item: &Struct, version: i16) -> Result<usize, String> {
    let flexible = message.flexible.contains(version);
    let mut size = usize::from(flexible);
    for field in item
        .fields
        .iter()
        .filter(|f| f.versions.contains(version) && f.tag.is_none())
    {
        let compact = flexible && field.flexible;
        size += match &field.ty {
            Type::Bool | Type::I8 => 1,
            Type::I16 | Type::U16 => 2,
            Type::I32 | Type::U32 => 4,
            Type::I64 | Type::F64 => 8,
            Type::Uuid => 16,
            Type::Text => {
                if compact {
                    1
                } else {
                    2
                }
            }
            Type::Bytes | Type::Records | Type::Array(_) => {
                if compact {
                    1
                } else {
                    4
                }
            }
            Type::Struct(_) if field.nullable.contains(version) => 1,
            Type::Struct(name) => size_in(message, message.find(name)?, version)?,
        };
    }
    Ok(size)
}
