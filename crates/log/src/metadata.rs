//! `partition.metadata`: which topic a partition directory belongs to, in Kafka's text format.
//!
//! A topic that is deleted and made again has another id, so a directory left behind is recognised.

use std::io;
use std::path::Path;

use env::Disk;
use wire::Uuid;

use crate::epochs::{Syncing, read_text, replace_file};

pub const FILE_NAME: &str = "partition.metadata";

/// Writes the file of `dir`.
pub fn write(disk: &dyn Disk, dir: &Path, topic_id: Uuid, syncing: Syncing) -> io::Result<()> {
    let text = format!("version: 0\ntopic_id: {topic_id}");
    replace_file(disk, dir, FILE_NAME, text.as_bytes(), syncing)
}

/// The topic id of `dir`; `None` without the file, `InvalidData` when it cannot be read.
pub fn read(disk: &dyn Disk, dir: &Path) -> io::Result<Option<Uuid>> {
    let Some(text) = read_text(disk, &dir.join(FILE_NAME))? else {
        return Ok(None);
    };
    decode(&text)
        .map(Some)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn decode(text: &str) -> Option<Uuid> {
    let mut lines = text.lines();
    if lines.next()? != "version: 0" {
        return None;
    }
    let id = lines.next()?.strip_prefix("topic_id: ")?.trim_end();
    id.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_as_kafka_writes_it() {
        // Topic id of Kafka's metadata log.
        let mut metadata = Uuid::ZERO;
        metadata.0[15] = 1;
        assert_eq!(
            decode("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"),
            Some(metadata)
        );
        assert_eq!(decode("version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"), None);
        assert_eq!(decode("version: 0\ntopic_id: short"), None);
    }
}
