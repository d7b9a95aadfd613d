//! `partition.metadata`: which topic a partition directory belongs to, in Kafka's text format.
//!
//! A topic that is deleted and made again has another id, so a directory left behind is recognised.

use std::io;
use std::path::Path;

use env::Disk;

use crate::epochs::{Syncing, read_text, replace_file};

pub const FILE_NAME: &str = "partition.metadata";

/// A topic id (a UUID) as bytes.
pub type TopicId = [u8; 16];

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Kafka writes ids in base64 for URLs, without padding: 22 characters.
#[must_use]
pub fn encode_id(id: &TopicId) -> String {
    let number = u128::from_be_bytes(*id);
    // 128 bits are 21 characters of 6 bits and one of 2, which stands in its upper bits.
    let mut text: String = (0..21)
        .map(|at| ALPHABET[(number >> (122 - 6 * at)) as usize & 63] as char)
        .collect();
    text.push(ALPHABET[(number as usize & 3) << 4] as char);
    text
}

#[must_use]
pub fn decode_id(text: &str) -> Option<TopicId> {
    if text.len() != 22 {
        return None;
    }
    let mut number = 0u128;
    for (at, byte) in text.bytes().enumerate() {
        let value = ALPHABET.iter().position(|letter| *letter == byte)? as u128;
        number = match at {
            21 if value & 15 != 0 => return None,
            21 => number << 2 | value >> 4,
            _ => number << 6 | value,
        };
    }
    Some(number.to_be_bytes())
}

/// Writes the file of `dir`.
pub fn write(disk: &dyn Disk, dir: &Path, topic_id: &TopicId, syncing: Syncing) -> io::Result<()> {
    let text = format!("version: 0\ntopic_id: {}", encode_id(topic_id));
    replace_file(disk, dir, FILE_NAME, text.as_bytes(), syncing)
}

/// The topic id of `dir`; `None` without the file, `InvalidData` when it cannot be read.
pub fn read(disk: &dyn Disk, dir: &Path) -> io::Result<Option<TopicId>> {
    let Some(text) = read_text(disk, &dir.join(FILE_NAME))? else {
        return Ok(None);
    };
    decode(&text)
        .map(Some)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn decode(text: &str) -> Option<TopicId> {
    let mut lines = text.lines();
    if lines.next()? != "version: 0" {
        return None;
    }
    decode_id(lines.next()?.strip_prefix("topic_id: ")?.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_written_as_kafka_writes_them() {
        // Topic id of Kafka's metadata log, and a random one with both special letters.
        let metadata = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        assert_eq!(encode_id(&metadata), "AAAAAAAAAAAAAAAAAAAAAQ");
        let id = [
            0xfb, 0xff, 0xbf, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0xfe,
        ];
        assert_eq!(decode_id(&encode_id(&id)), Some(id));
        assert!(encode_id(&id).starts_with("-_-_"));
        assert_eq!(
            decode_id("AAAAAAAAAAAAAAAAAAAAAR"),
            None,
            "bits beyond the end"
        );
        assert_eq!(decode_id("short"), None);
        assert_eq!(
            decode("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"),
            Some(metadata)
        );
        assert_eq!(decode("version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"), None);
    }
}
