//! Why bytes are not a message, and why a message has no bytes.
//!
//! Both are small and `Copy`: they travel through every field of every message.

/// The bytes are not what the version says. `at` is the byte of the frame body where decoding stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("{needed} bytes wanted at byte {at}, past the end")]
    Truncated { at: u32, needed: u32 },
    #[error("variable length number at byte {at} is too long")]
    Varint { at: u32 },
    #[error("length {length} at byte {at} is out of range")]
    Length { at: u32, length: i32 },
    #[error("{count} elements announced at byte {at}, more than the bytes after it can hold")]
    Count { at: u32, count: u32 },
    #[error("more than {most} elements in all lists together at byte {at}")]
    Elements { at: u32, most: u32 },
    #[error("null at byte {at} where the version allows none")]
    Null { at: u32 },
    #[error("text at byte {at} is not valid utf-8")]
    Utf8 { at: u32 },
    #[error("tagged field {tag} ends at byte {at}, not where its size says")]
    TagSize { at: u32, tag: u32 },
    #[error("{count} bytes left over at byte {at}")]
    Trailing { at: u32, count: u32 },
    #[error("version {version} is not known")]
    Version { version: i16 },
    #[error("api key {key} is not known")]
    ApiKey { key: i16 },
}

/// The message cannot be written in the version asked for. Always a fault of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    #[error("version {version} is not known")]
    Version { version: i16 },
    #[error("field {field} is set but version {version} cannot carry it")]
    Field { field: &'static str, version: i16 },
    #[error("field {field} is null where the version allows none")]
    Null { field: &'static str },
    #[error("a value of {length} bytes or elements is too long for the protocol")]
    TooLong { length: usize },
    #[error("part of the message is not in memory")]
    External,
}
