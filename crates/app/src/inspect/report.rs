//! The findings about one file, and what its name and place say.

use std::path::Path;

use model::PartitionIndex;
use serde_json::{Value, json};

/// The findings about one file.
#[derive(Debug, PartialEq)]
pub(super) struct Report {
    pub(super) kind: &'static str,
    /// Records of a segment, entries of an index, producers of a snapshot, rounds of a journal.
    pub(super) entries: u64,
    pub(super) first: Option<i64>,
    pub(super) last: Option<i64>,
    pub(super) bytes: u64,
    /// The damage, if there is some.
    pub(super) damage: Option<String>,
}

/// The number at the end of a partition directory's name.
pub(super) fn partition_of(dir: &Path) -> Option<PartitionIndex> {
    let (topic, index) = dir.file_name()?.to_str()?.rsplit_once('-')?;
    let is_number = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
    let index = index
        .parse()
        .ok()
        .filter(|_| is_number && !topic.is_empty());
    index.map(PartitionIndex)
}

pub(super) fn number(value: i64) -> Value {
    if value < 0 { Value::Null } else { json!(value) }
}
