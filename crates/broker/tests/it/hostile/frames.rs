//! Frames that no client of good will sends: requests with hostile contents, and requests that are broken as bytes.
//!
//! Of the golden vectors of `wire` the requests "with everything set by chance" are contents as well.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use wire::any::AnyRequest;
use wire::{ApiKey, Writer};

use super::hall::Served;

const CORRELATION: i32 = 0x0102_0304;

pub(crate) struct Frame {
    pub(crate) version: i16,
    pub(crate) name: String,
    /// With the length before it.
    pub(crate) bytes: Vec<u8>,
    /// Where the body begins.
    body: usize,
}

fn header(key: i16, version: i16, is_flexible: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(key.to_be_bytes());
    bytes.extend(version.to_be_bytes());
    bytes.extend(CORRELATION.to_be_bytes());
    bytes.extend([0, 4]);
    bytes.extend(b"test");
    if is_flexible {
        bytes.push(0);
    }
    bytes
}

fn with_length(rest: &[u8]) -> Vec<u8> {
    let length = u32::try_from(rest.len()).expect("a short frame");
    [&length.to_be_bytes(), rest].concat()
}

fn frame(key: ApiKey, version: i16, name: impl Into<String>, body: &[u8]) -> Frame {
    let head = header(key.key(), version, key.request_header_version(version) >= 2);
    Frame {
        version,
        name: name.into(),
        bytes: with_length(&[&head[..], body].concat()),
        body: 4 + head.len(),
    }
}

/// The requests as far as this version can carry them, each of a name of its own, and the random instances of the API.
pub(crate) fn contents(
    key: ApiKey,
    version: i16,
    requests: &[(&'static str, AnyRequest)],
) -> Vec<Frame> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    let written = requests.iter().filter_map(|(name, request)| {
        assert_eq!(request.key(), key, "{name}");
        let count = counts.entry(name).or_default();
        *count += 1;
        let name = match count {
            1 => (*name).to_owned(),
            _ => format!("{name} ({count})"),
        };
        let mut w = Writer::new();
        request.encode(&mut w, version).ok()?;
        let body = w.finish().into_bytes().expect("in memory");
        Some(frame(key, version, name, &body))
    });
    let mut frames: Vec<Frame> = written.collect();
    assert!(!frames.is_empty(), "{key:?} version {version}");
    let by_chance = golden(&format!("{key:?}Request"), version);
    frames.extend(by_chance.map(|body| frame(key, version, "set by chance", &body)));
    frames
}

pub(crate) fn longest(frames: &[Frame]) -> &Frame {
    let longest = frames.iter().max_by_key(|frame| frame.bytes.len());
    longest.expect("a frame")
}

/// A good request cut short, overwritten or followed by other bytes, and bodies of noise.
pub(crate) fn broken(key: ApiKey, version: i16, whole: &Frame) -> Vec<Frame> {
    let body = &whole.bytes[whole.body..];
    let of = &whole.name;
    let mut frames = vec![frame(key, version, "empty body", &[])];
    let quarters: [usize; 3] = [1, 2, 3].map(|quarter| body.len() * quarter / 4);
    let cuts = quarters.into_iter().chain([body.len().saturating_sub(1)]);
    for end in cuts {
        let name = format!("{of}, {end} bytes of {}", body.len());
        frames.push(frame(key, version, name, &body[..end]));
    }
    let places = [0, 2, 4, 8].into_iter().chain(quarters);
    for at in places.filter(|at| *at < body.len()) {
        let mut bytes = body.to_vec();
        let end = bytes.len().min(at + 5);
        bytes.splice(at..end, [0x7f, 0xff, 0xff, 0xff, 0xff]);
        let name = format!("{of}, a huge number at {at} of {}", body.len());
        frames.push(frame(key, version, name, &bytes));
    }
    let name = format!("{of}, with bytes behind it");
    frames.push(frame(key, version, name, &[body, &[0xff; 9]].concat()));
    for byte in [0x00, 0x01, 0x7f, 0x80, 0xff] {
        let name = format!("64 bytes {byte:02x}");
        frames.push(frame(key, version, name, &[byte; 64]));
    }
    // Every tag is allowed in a header, and all are passed over.
    if key.request_header_version(version) >= 2 {
        let mut bytes = whole.bytes[4..].to_vec();
        let tags = whole.body - 4 - 1;
        bytes.splice(tags..=tags, [2, 0, 1, 7, 0xff, 0x7f, 2, 8, 9]);
        let mut frame = frame(key, version, format!("{of}, with tags in the header"), &[]);
        frame.bytes = with_length(&bytes);
        frames.push(frame);
    }
    frames
}

/// The API in versions that are not served.
pub(crate) fn of_other_versions(served: Served) -> Vec<Frame> {
    let versions = [i16::MIN, -1, served.min - 1, served.max + 1, i16::MAX];
    let frames = versions.into_iter().map(|version| {
        let mut frame = frame(served.key, version, "not served", &[]);
        let is_flexible = served.key.request_header_version(version) >= 2;
        let bytes = header(served.key.key(), version, is_flexible);
        frame.bytes = with_length(&[&bytes[..], &[0; 32]].concat());
        frame
    });
    frames.collect()
}

/// Requests of APIs that are not served or unknown, and bytes that are no request at all.
pub(crate) fn of_no_api(table: &[Served]) -> Vec<Frame> {
    let is_served = |key: i16| table.iter().any(|row| row.key.key() == key);
    let keys = [i16::MIN, -1]
        .into_iter()
        .chain((0..100).filter(|key| !is_served(*key)))
        .chain([999, i16::MAX]);
    let mut frames = Vec::new();
    for key in keys {
        for version in [0, 1, 5] {
            let is_flexible = ApiKey::from_key(key)
                .is_some_and(|known| known.request_header_version(version) >= 2);
            let bytes = header(key, version, is_flexible);
            frames.push(Frame {
                version,
                name: format!("key {key}"),
                bytes: with_length(&[&bytes[..], &[0; 16]].concat()),
                body: 0,
            });
        }
    }
    let raw = |name: &str, bytes: &[u8]| Frame {
        version: 0,
        name: name.to_owned(),
        bytes: bytes.to_vec(),
        body: 0,
    };
    let framed = |name: &str, bytes: &[u8]| Frame {
        version: 3,
        ..raw(name, &with_length(bytes))
    };
    let key = [0, 18, 0, 3, 0, 0, 0, 7];
    let versions = |rest: &[u8]| [&key[..], rest].concat();
    frames.extend([
        raw("length 0", &[0, 0, 0, 0]),
        raw("length -1", &[0xff; 4]),
        raw("the lowest length", &[0x80, 0, 0, 0]),
        raw("the highest length", &[0x7f, 0xff, 0xff, 0xff]),
        raw(
            "one byte more than a request may have",
            &(104_857_601_u32).to_be_bytes(),
        ),
        raw(
            "text of another protocol",
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ),
        raw(
            "the start of a TLS handshake",
            &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3],
        ),
        framed("one byte", &[0]),
        framed("a key alone", &[0, 18]),
        framed("no correlation id", &[0, 18, 0, 3]),
        framed("half a correlation id", &[0, 18, 0, 3, 0, 0]),
        framed("no client id", &key),
        framed(
            "a client id longer than the frame",
            &versions(&[0x7f, 0xff, b'a']),
        ),
        framed("a client id of length -2", &versions(&[0xff, 0xfe, 0])),
        framed(
            "a client id that is null",
            &versions(&[0xff, 0xff, 0, 2, b'a', 2, b'1', 0]),
        ),
        framed(
            "a client id that is empty",
            &versions(&[0, 0, 0, 2, b'a', 2, b'1', 0]),
        ),
        framed(
            "a client id that is no UTF-8",
            &versions(&[0, 2, 0xff, 0xfe, 0, 2, b'a', 2, b'1', 0]),
        ),
        framed(
            "a client id of control characters",
            &versions(&[0, 3, 0, 1, 10, 0, 2, b'a', 2, b'1', 0]),
        ),
        framed("no tags in the header", &versions(&[0, 1, b'c'])),
        framed(
            "more tags than bytes",
            &versions(&[0, 1, b'c', 0xff, 0xff, 0xff, 0xff, 0x0f]),
        ),
        framed(
            "a tag longer than the frame",
            &versions(&[0, 1, b'c', 1, 0, 0xff, 0xff, 0xff, 0xff, 0x07]),
        ),
        framed(
            "a count of tags in six bytes",
            &versions(&[0, 1, b'c', 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]),
        ),
    ]);
    frames
}

/// The random instances of a message, written by Kafka's own codec.
fn golden(name: &str, version: i16) -> impl Iterator<Item = Vec<u8>> + use<> {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(|| {
        let packed = include_bytes!("../../../../wire/tests/data/messages.zst");
        let text = zstd::decode_all(&packed[..]).expect("vectors are zstd");
        String::from_utf8(text).expect("vectors are text")
    });
    let start = format!("messages {name} {version} random ");
    text.lines().filter_map(move |line| {
        let digits = line.strip_prefix(&start)?;
        let pair = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex");
        if digits == "." {
            return Some(Vec::new());
        }
        Some((0..digits.len()).step_by(2).map(pair).collect())
    })
}
