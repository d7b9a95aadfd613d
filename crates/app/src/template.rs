//! The format string of `esker consume -f`: compiled once, then bytes out for every record.
//!
//! The letters are those that kcat users know. Payloads are written as they are, never converted.

use std::fmt::Write as _;
use std::io::{self, Write};

/// One record as the templates and the JSON printer see it.
pub(crate) struct Shown<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) timestamp: i64,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    /// Names are text by convention only.
    pub(crate) headers: &'a [(&'a [u8], Option<&'a [u8]>)],
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(Vec<u8>),
    Topic,
    Partition,
    Offset,
    Timestamp,
    Key,
    KeyLen,
    Value,
    ValueLen,
    ValueLenBinary,
    Headers,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
}

impl std::str::FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Template, String> {
        let mut pieces = Vec::new();
        let mut literal = Vec::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '%' => {
                    let letter = chars
                        .next()
                        .ok_or("`%` at the end; write `%%` for a percent sign")?;
                    if letter == '%' {
                        literal.push(b'%');
                        continue;
                    }
                    if !literal.is_empty() {
                        pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                    }
                    pieces.push(piece(letter)?);
                }
                '\\' => literal.push(escape(&mut chars)?),
                other => literal.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        Ok(Template { pieces })
    }
}

fn piece(letter: char) -> Result<Piece, String> {
    Ok(match letter {
        't' => Piece::Topic,
        'p' => Piece::Partition,
        'o' => Piece::Offset,
        'T' => Piece::Timestamp,
        'k' => Piece::Key,
        'K' => Piece::KeyLen,
        's' => Piece::Value,
        'S' => Piece::ValueLen,
        'R' => Piece::ValueLenBinary,
        'h' => Piece::Headers,
        other => {
            return Err(format!(
                "`%{other}` is unknown; known are %t %p %o %T %k %K %s %S %R %h %%"
            ));
        }
    })
}

fn escape(chars: &mut std::str::Chars<'_>) -> Result<u8, String> {
    match chars.next() {
        Some('n') => Ok(b'\n'),
        Some('r') => Ok(b'\r'),
        Some('t') => Ok(b'\t'),
        Some('0') => Ok(0),
        Some('\\') => Ok(b'\\'),
        Some('x') => {
            let (high, low) = (
                chars.next().and_then(|c| c.to_digit(16)),
                chars.next().and_then(|c| c.to_digit(16)),
            );
            let (Some(high), Some(low)) = (high, low) else {
                return Err("`\\x` needs two hexadecimal digits".to_owned());
            };
            Ok((high * 16 + low) as u8)
        }
        _ => Err("a backslash is followed by one of n r t 0 \\ xHH".to_owned()),
    }
}

/// Bytes of a text with the escapes of a format string.
pub(crate) fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => bytes.push(escape(&mut chars)?),
            other => bytes.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Ok(bytes)
}

impl Template {
    pub(crate) fn write(&self, record: &Shown<'_>, out: &mut impl Write) -> io::Result<()> {
        for piece in &self.pieces {
            match piece {
                Piece::Literal(bytes) => out.write_all(bytes)?,
                Piece::Topic => out.write_all(record.topic.as_bytes())?,
                Piece::Partition => write!(out, "{}", record.partition)?,
                Piece::Offset => write!(out, "{}", record.offset)?,
                Piece::Timestamp => write!(out, "{}", record.timestamp)?,
                Piece::Key => out.write_all(record.key.unwrap_or_default())?,
                Piece::KeyLen => write!(out, "{}", length(record.key))?,
                Piece::Value => out.write_all(record.value.unwrap_or_default())?,
                Piece::ValueLen => write!(out, "{}", length(record.value))?,
                Piece::ValueLenBinary => {
                    out.write_all(&(length(record.value) as i32).to_be_bytes())?
                }
                Piece::Headers => write_headers(record, out)?,
            }
        }
        Ok(())
    }
}

/// -1 stands for null, so that it can be told from empty.
fn length(bytes: Option<&[u8]>) -> i64 {
    bytes.map_or(-1, |bytes| bytes.len() as i64)
}

fn write_headers(record: &Shown<'_>, out: &mut impl Write) -> io::Result<()> {
    for (i, (name, value)) in record.headers.iter().enumerate() {
        if i > 0 {
            out.write_all(b",")?;
        }
        out.write_all(name)?;
        out.write_all(b"=")?;
        out.write_all(value.unwrap_or(b"NULL"))?;
    }
    Ok(())
}

/// One JSON object on one line. Bytes that are no text go into `key_base64` or `value_base64`.
pub(crate) fn write_json(record: &Shown<'_>, out: &mut impl Write) -> io::Result<()> {
    write!(
        out,
        "{{\"topic\":{},\"partition\":{},",
        quoted(record.topic)?,
        record.partition
    )?;
    write!(
        out,
        "\"offset\":{},\"timestamp\":{},",
        record.offset, record.timestamp
    )?;
    write_member(out, "key", record.key)?;
    out.write_all(b",")?;
    write_member(out, "value", record.value)?;
    out.write_all(b",\"headers\":[")?;
    for (i, (name, value)) in record.headers.iter().enumerate() {
        write!(out, "{}{{", if i == 0 { "" } else { "," })?;
        write_member(out, "name", Some(name))?;
        out.write_all(b",")?;
        write_member(out, "value", *value)?;
        out.write_all(b"}")?;
    }
    out.write_all(b"]}\n")
}

fn quoted(text: &str) -> io::Result<String> {
    Ok(serde_json::to_string(text)?)
}

fn write_member(out: &mut impl Write, name: &str, value: Option<&[u8]>) -> io::Result<()> {
    match value.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => write!(out, "\"{name}\":null"),
        Some((_, Ok(text))) => write!(out, "\"{name}\":{}", quoted(text)?),
        Some((bytes, Err(_))) => write!(out, "\"{name}_base64\":\"{}\"", base64(bytes)),
    }
}

/// The bytes that a text of base64 stands for; `None` if it is none.
pub(crate) fn unbase64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    if !text.len().is_multiple_of(4) || padding > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in digits.as_bytes().chunks(4) {
        let mut word = 0u32;
        for byte in chunk {
            let digit = DIGITS.iter().position(|digit| digit == byte)?;
            word = word << 6 | digit as u32;
        }
        // Of a chunk that is cut off, as many bytes as its digits fill.
        let (missing, whole) = (4 - chunk.len(), chunk.len() - 1);
        word <<= 6 * missing;
        bytes.extend_from_slice(&word.to_be_bytes()[1..=whole]);
    }
    Some(bytes)
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .fold(0u32, |word, byte| word << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * i) & 63) as usize];
            let _ = text.write_char(if i <= chunk.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record<'a>(headers: &'a [(&'a [u8], Option<&'a [u8]>)]) -> Shown<'a> {
        Shown {
            topic: "t",
            partition: 2,
            offset: 7,
            timestamp: 99,
            key: None,
            value: Some(b"a\xffb"),
            headers,
        }
    }

    fn check(template: &str, want: &[u8]) {
        let headers: [(&[u8], Option<&[u8]>); 2] = [(b"h", Some(b"1")), (b"n", None)];
        let mut out = Vec::new();
        template
            .parse::<Template>()
            .unwrap()
            .write(&record(&headers), &mut out)
            .unwrap();
        assert_eq!(out, want, "{template}");
    }

    #[test]
    fn every_letter_prints_its_part() {
        check(r"%t[%p]@%o %T\n", b"t[2]@7 99\n");
        check(r"%k|%K|%S|%s\t", b"|-1|3|a\xffb\t");
        check(r"%R%h", b"\0\0\0\x03h=1,n=NULL");
        check(r"100%% \x41\\", b"100% A\\");
        check("ä%o", "ä7".as_bytes());
    }

    #[test]
    fn a_wrong_format_string_says_what_is_known() {
        let error = "%q".parse::<Template>().unwrap_err();
        assert!(error.contains("%q") && error.contains("%s"), "{error}");
        for bad in ["%", r"\", r"\x4", r"\xzz", r"\q"] {
            assert!(bad.parse::<Template>().is_err(), "{bad}");
        }
    }

    #[test]
    fn json_lines_parse_and_keep_bytes_that_are_no_text() {
        let headers: [(&[u8], Option<&[u8]>); 2] = [(b"h\"", Some(b"1")), (b"n", None)];
        let mut out = Vec::new();
        write_json(&record(&headers), &mut out).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(value["value_base64"], "Yf9i");
        assert_eq!(value["key"], serde_json::Value::Null);
        assert_eq!(value["headers"][0]["name"], "h\"");
        assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1);
    }

    #[test]
    fn base64_pads_as_the_standard_says() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
            assert_eq!(unbase64(text).as_deref(), Some(bytes.as_bytes()));
        }
        for bad in ["Z", "Zg", "Zg=", "Z===", "Zg==Zg==", "Zm9!", "===="] {
            assert_eq!(unbase64(bad), None, "{bad}");
        }
    }
}
