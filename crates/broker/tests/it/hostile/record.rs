//! Answers as lines of text, and the files with the recorded ones.
//!
//! A line has the case, the outcome and, of an answer, its length, its bytes (or a hash of them, when they are many) and the
//! error codes by name.

#![allow(clippy::disallowed_methods)] // the files of the repository are real ones

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use wire::any::decode_response;
use wire::{ApiKey, ErrorCode, Reader, Uuid};

use super::frames::Frame;
use super::hall::Outcome;

/// How every random id of the broker begins. As text it begins with no hyphen.
pub(crate) const MARK: [u8; 12] = *b"hostile-test";
/// Answers up to this length are recorded whole.
const WHOLE_BYTES_MAX: usize = 48;
const RECORD: &str = "ESKER_RECORD_HOSTILE";
/// Lines of a difference that are shown.
const SHOWN_MAX: usize = 20;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/hostile")
}

/// The names of the files.
pub(crate) fn files() -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory()).expect("recorded answers");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let stems = paths.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
    stems.collect()
}

/// One frame and what became of it.
pub(crate) fn line(key: ApiKey, frame: &Frame, outcome: &Outcome) -> String {
    let Frame { version, name, .. } = frame;
    let outcome = match outcome {
        Outcome::Closed => "closed".to_owned(),
        Outcome::Nothing => "no answer".to_owned(),
        Outcome::Waits => "waits".to_owned(),
        Outcome::Answer(bytes) => answer(key, *version, bytes),
    };
    format!("v{version} {name}: {outcome}\n")
}

fn answer(key: ApiKey, version: i16, bytes: &[u8]) -> String {
    let masked = masked(bytes);
    let mut text = format!("{} bytes ", masked.len());
    if masked.len() <= WHOLE_BYTES_MAX {
        masked.iter().for_each(|byte| {
            write!(text, "{byte:02x}").expect("text");
        });
    } else {
        write!(text, "#{:016x}", hash(&masked)).expect("text");
    }
    write!(text, " {}", codes(key, version, bytes)).expect("text");
    text
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Random ids with zeros for what is random in them, as bytes and as text.
fn masked(bytes: &[u8]) -> Vec<u8> {
    let mut id = [0; 16];
    id[..MARK.len()].copy_from_slice(&MARK);
    let base64 = Uuid(id).to_string().into_bytes();
    let mut out = bytes.to_vec();
    mask(&mut out, &id, MARK.len());
    // Twelve bytes are sixteen digits.
    mask(&mut out, &base64, 16);
    out
}

/// Wherever the first `known` bytes of `form` stand, the rest of it follows.
fn mask(bytes: &mut [u8], form: &[u8], known: usize) {
    for at in 0..bytes.len().saturating_sub(form.len() - 1) {
        if bytes[at..].starts_with(&form[..known]) {
            bytes[at..at + form.len()].copy_from_slice(form);
        }
    }
}

/// The error codes of an answer in their order, by name; equal neighbours are counted.
fn codes(key: ApiKey, version: i16, bytes: &[u8]) -> String {
    let decoded = decoded(key, version, bytes)
        // An ApiVersions of a version that is not served is answered in version 0.
        .or_else(|| decoded(key, 0, bytes));
    let Some(decoded) = decoded else {
        return "[not readable]".to_owned();
    };
    let mut codes: Vec<(String, usize)> = Vec::new();
    for rest in decoded.split("error_code: ").skip(1) {
        let end = rest.find(|c: char| c != '-' && !c.is_ascii_digit());
        let number: i16 = rest[..end.unwrap_or(rest.len())].parse().expect("a code");
        let name = match ErrorCode::try_from(number) {
            Ok(code) => format!("{code:?}"),
            Err(_) => number.to_string(),
        };
        match codes.last_mut() {
            Some((last, count)) if *last == name => *count += 1,
            _ => codes.push((name, 1)),
        }
    }
    let codes: Vec<String> = codes
        .into_iter()
        .map(|(name, count)| match count {
            1 => name,
            _ => format!("{name} x{count}"),
        })
        .collect();
    format!("[{}]", codes.join(", "))
}

fn decoded(key: ApiKey, version: i16, bytes: &[u8]) -> Option<String> {
    let mut reader = Reader::new(Bytes::copy_from_slice(bytes));
    reader.i32().ok()?;
    if key.response_header_version(version) >= 1 {
        reader.skip_tags().ok()?;
    }
    let response = decode_response(key, version, &mut reader).ok()?;
    (reader.remaining() == 0).then(|| format!("{response:?}"))
}

/// Compares lines with the recorded ones, or records them.
#[derive(Default)]
pub(crate) struct Book {
    differences: String,
    count: usize,
    recorded: BTreeSet<String>,
}

impl Book {
    pub(crate) fn compare(&mut self, name: &str, lines: &str) {
        let path = directory().join(format!("{name}.txt"));
        // The second seed is held against what the first one recorded.
        if std::env::var_os(RECORD).is_some() && self.recorded.insert(name.to_owned()) {
            std::fs::create_dir_all(directory()).expect("a directory");
            std::fs::write(&path, lines).expect("written");
            return;
        }
        let known = std::fs::read_to_string(&path).unwrap_or_default();
        let (mut known, mut lines) = (known.lines(), lines.lines());
        loop {
            let pair = (known.next(), lines.next());
            match pair {
                (None, None) => return,
                (known, now) if known == now => {}
                (known, now) => {
                    self.count += 1;
                    if self.count <= SHOWN_MAX {
                        let (known, now) = (known.unwrap_or("-"), now.unwrap_or("-"));
                        writeln!(
                            self.differences,
                            "{name}\n  recorded {known}\n  now      {now}"
                        )
                        .expect("text");
                    }
                }
            }
        }
    }

    pub(crate) fn close(self) {
        assert!(
            self.count == 0,
            "{} answers differ from the recorded ones ({RECORD}=1 records them anew)\n{}",
            self.count,
            self.differences
        );
    }
}
