//! The golden vectors as data. What they hold and how they are made: `golden/src/main/java/GoldenVectors.java`.

use bytes::Bytes;
use std::sync::OnceLock;
use wire::{AnyMessage, any};

/// The meaning of a line.
pub(crate) enum Vector {
    /// Nothing set; no bytes when Kafka refuses to write that.
    Default(Option<Bytes>),
    /// Everything set by chance.
    Random(Bytes),
    /// A message in its latest version and in this one; no bytes when this one cannot carry it.
    Down { latest: Bytes, here: Option<Bytes> },
}

pub(crate) struct Line {
    pub(crate) message: &'static AnyMessage,
    pub(crate) version: i16,
    pub(crate) vector: Vector,
}

impl Line {
    /// Valid bytes of the message in this version, if the line has them.
    pub(crate) fn bytes(&self) -> Option<&Bytes> {
        match &self.vector {
            Vector::Default(bytes) | Vector::Down { here: bytes, .. } => bytes.as_ref(),
            Vector::Random(bytes) => Some(bytes),
        }
    }
}

pub(crate) fn lines() -> &'static [Line] {
    static LINES: OnceLock<Vec<Line>> = OnceLock::new();
    LINES.get_or_init(|| {
        let packed = include_bytes!("../data/messages.zst");
        let text = zstd::decode_all(&packed[..]).expect("vectors are zstd");
        std::str::from_utf8(&text)
            .expect("vectors are text")
            .lines()
            .map(parse)
            .collect()
    })
}

fn parse(line: &str) -> Line {
    let words: Vec<&str> = line.split(' ').collect();
    let [group, name, version, vector @ ..] = words.as_slice() else {
        panic!("odd line: {line}")
    };
    let message = any::ALL
        .iter()
        .find(|m| m.group == *group && m.name == *name);
    Line {
        message: message.unwrap_or_else(|| panic!("no message {group} {name}")),
        version: version.parse().expect("version"),
        vector: match vector {
            ["default", bytes] => Vector::Default(hex(bytes)),
            ["random", bytes] => Vector::Random(hex(bytes).expect("random values have bytes")),
            ["down", latest, here] => Vector::Down {
                latest: hex(latest).expect("the latest version carries everything"),
                here: hex(here),
            },
            _ => panic!("odd line: {line}"),
        },
    }
}

fn hex(text: &str) -> Option<Bytes> {
    match text {
        "!" => None,
        "." => Some(Bytes::new()),
        _ => {
            let pair = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
            Some((0..text.len()).step_by(2).map(pair).collect())
        }
    }
}
