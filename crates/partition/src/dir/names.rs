//! Names in a log directory: partitions, on their way in or out or put aside, and the files of a log.

use std::io;
use std::path::Path;

use env::Disk;
use env::disk::Entry;
use log::store::COMPACTION_FILE;
use log::{epochs, metadata};
use model::{Offset, PartitionIndex};
use wire::Uuid;

/// Suffix of directories of deleted topics, until their files are gone.
pub(super) const GRAVE_SUFFIX: &str = "-delete";
/// Suffix of directories with a part of a partition that was on its way here from another directory.
pub(super) const FUTURE_SUFFIX: &str = "-future";
/// Suffix of directories that are set aside for an operator: no start takes them for a partition.
pub(super) const STRAY_SUFFIX: &str = "-stray";
const RESCUED_SUFFIX: &str = "-rescued";
const RESTART_SUFFIX: &str = ".restart";

pub(super) fn grave_name(topic: &str, index: PartitionIndex, id: Uuid) -> String {
    name_with(topic, &format!("-{index}.{id}{GRAVE_SUFFIX}"))
}

/// The directory for a partition's files that are not complete yet: the copy of a move, or a log that is to be set aside.
pub(super) fn future_name(topic: &str, index: PartitionIndex, id: Uuid) -> String {
    name_with(topic, &format!("-{index}.{}{FUTURE_SUFFIX}", hex(id)))
}

/// The directory for the records of a partition whose files a start could not read.
pub(super) fn rescued_name(topic: &str, index: PartitionIndex, id: Uuid) -> String {
    name_with(topic, &format!("-{index}.{id}{RESCUED_SUFFIX}"))
}

/// The directory for what was behind a loss at `at`. That of an earlier loss at the same place is of the same records.
pub(super) fn aside_name(topic: &str, (id, index): (Uuid, PartitionIndex), at: Offset) -> String {
    let mut unique = id.0;
    for (byte, of) in unique.iter_mut().skip(8).zip(at.0.to_be_bytes()) {
        *byte ^= of;
    }
    name_with(
        topic,
        &format!("-{index}.{}{STRAY_SUFFIX}", hex(Uuid(unique))),
    )
}

/// The file of a log that restarts at `at` (see [`log::restart::Carried`]). It lies beside the partition's directory, which a restart may
/// come before.
pub(crate) fn restart_name((id, index): (Uuid, PartitionIndex), at: Offset) -> String {
    format!("{}-{index}.{at}{RESTART_SUFFIX}", hex(id))
}

/// True of the name of such a file, whole or half written.
pub(super) fn is_restart_name(name: &str) -> bool {
    let name = name.strip_suffix(".tmp").unwrap_or(name);
    let parts = name.strip_suffix(RESTART_SUFFIX).and_then(|name| {
        let (partition, at) = name.split_once('.')?;
        let (id, index) = partition.split_once('-')?;
        Some([id, index, at])
    });
    let is_hex = |text: &str| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_number = |text: &str| text.parse::<u64>().is_ok();
    parts.is_some_and(|[id, index, at]| is_hex(id) && is_number(index) && is_number(at))
}

pub(super) fn is_rescued_name(name: &str) -> bool {
    name.ends_with(RESCUED_SUFFIX)
}

/// The partition that was put aside under this name, and as much of its topic's name as has room.
pub(super) fn rescued_partition_of(name: &str) -> Option<(&str, PartitionIndex, Uuid)> {
    let (partition, id) = name.strip_suffix(RESCUED_SUFFIX)?.rsplit_once('.')?;
    let (topic, index) = partition_of(partition)?;
    Some((topic, index, id.parse().ok()?))
}

/// The topic and the partition that a directory is named after.
pub(super) fn partition_of(name: &str) -> Option<(&str, PartitionIndex)> {
    let (topic, index) = name.rsplit_once('-')?;
    let index = index.parse().ok().filter(|index| *index >= 0)?;
    Some((topic, PartitionIndex(index)))
}

pub(super) fn hex(id: Uuid) -> String {
    id.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The topic's name, cut to the room that a file name has, and `rest`.
pub(super) fn name_with(topic: &str, rest: &str) -> String {
    const NAME_BYTES_MAX: usize = 255;
    let room = NAME_BYTES_MAX.saturating_sub(rest.len());
    let topic = topic.get(..room.min(topic.len())).unwrap_or_default();
    format!("{topic}{rest}")
}

/// True if a log keeps something of this name in its directory.
pub(super) fn is_of_a_log(entry: &Entry) -> bool {
    let base = entry.name.split_once('.').map_or("", |(base, _)| base);
    let is_segment = base.len() == 20 && base.bytes().all(|byte| byte.is_ascii_digit());
    let mut named = [metadata::FILE_NAME, epochs::FILE_NAME, COMPACTION_FILE].iter();
    !entry.is_dir && (is_segment || named.any(|name| entry.name.starts_with(name)))
}

/// True if names that differ in case alone are one name in a directory that has `name`, which has lower case letters.
pub(super) fn folds(disk: &dyn Disk, dir: &Path, name: &str) -> io::Result<bool> {
    disk.exists(&dir.join(name.to_ascii_uppercase()))
}

/// True if something is there under this very name, which on a volume that folds names more than one may lead to.
pub(super) fn is_there(disk: &dyn Disk, path: &Path, folds: bool) -> io::Result<bool> {
    let (Some(dir), Some(name), true) = (path.parent(), path.file_name(), folds) else {
        return disk.exists(path);
    };
    let entries = disk.read_dir(dir)?;
    Ok(entries.iter().any(|entry| name == entry.name.as_str()))
}

/// Two names of which a volume that folds makes one.
pub(super) fn fold_together(one: &str, other: &str) -> bool {
    one != other && one.eq_ignore_ascii_case(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_directories_fit_a_file_system_however_long_the_topic_is_called() {
        let (index, id) = (PartitionIndex(12_345), Uuid([255; 16]));
        for name in [grave_name, future_name, rescued_name] {
            let long = name(&"t".repeat(249), index, id);
            assert_eq!(long.len(), 255, "{long}");
            assert_ne!(long, name(&"t".repeat(249), PartitionIndex(12_346), id));
            assert!(name("short", index, id).starts_with("short-12345."));
        }
    }

    #[test]
    fn files_of_restarts_are_known_and_those_of_others_are_not() {
        let name = restart_name((Uuid([255; 16]), PartitionIndex(7)), Offset(40));
        assert!(is_restart_name(&name) && is_restart_name(&(name + ".tmp")));
        assert!(!is_restart_name("before.restart") && !is_restart_name("t-0"));
    }

    #[test]
    fn what_is_put_aside_names_its_partition() {
        let id = Uuid([255; 16]);
        assert_eq!(
            rescued_partition_of(&rescued_name("short", PartitionIndex(7), id)),
            Some(("short", PartitionIndex(7), id))
        );
        assert_eq!(rescued_partition_of("short-7"), None);
    }
}
