//! Names of directories that hold a partition on its way out or in.

use model::PartitionIndex;
use wire::Uuid;

/// Directories of deleted topics end so until their files are gone.
pub(super) const GRAVE_SUFFIX: &str = "-delete";
/// And these hold a part of a partition that was on its way here from another directory.
pub(super) const FUTURE_SUFFIX: &str = "-future";

pub(super) fn grave_name(topic: &str, index: PartitionIndex, id: Uuid) -> String {
    name_with(topic, &format!("-{index}.{id}{GRAVE_SUFFIX}"))
}

/// A directory of a partition while another of its directories becomes it.
pub(super) fn future_name(topic: &str, index: PartitionIndex, id: Uuid) -> String {
    name_with(topic, &format!("-{index}.{}{FUTURE_SUFFIX}", hex(id)))
}

pub(super) fn hex(id: Uuid) -> String {
    id.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// As much of the topic's name as a file name has room for, and `rest`.
pub(super) fn name_with(topic: &str, rest: &str) -> String {
    const NAME_BYTES_MAX: usize = 255;
    let room = NAME_BYTES_MAX.saturating_sub(rest.len());
    let topic = topic.get(..room.min(topic.len())).unwrap_or_default();
    format!("{topic}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_directories_fit_a_file_system_however_long_the_topic_is_called() {
        let (index, id) = (PartitionIndex(12_345), Uuid([255; 16]));
        for name in [grave_name, future_name] {
            let long = name(&"t".repeat(249), index, id);
            assert_eq!(long.len(), 255, "{long}");
            assert_ne!(long, name(&"t".repeat(249), PartitionIndex(12_346), id));
            assert!(name("short", index, id).starts_with("short-12345."));
        }
    }
}
