//! The replicas of a partition, held against each other byte by byte after a clean stop.

use std::collections::BTreeSet;
use std::path::Path;

use crate::cluster::nodes::{COUNT, Nodes};

/// Every replica of the topics is the same; how many partitions and bytes were compared. If it `trims`, one may have removed more of its
/// oldest segments than another.
pub(crate) fn compare(
    nodes: &Nodes,
    topics: &[&str],
    trims: bool,
) -> Result<(usize, usize), String> {
    let mut names = BTreeSet::new();
    for node in 1..=COUNT {
        let entries = std::fs::read_dir(nodes.data(node)).map_err(|error| error.to_string())?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some((topic, number)) = name.rsplit_once('-')
                && topics.contains(&topic)
                && number.parse::<u32>().is_ok()
            {
                names.insert(name);
            }
        }
    }
    let mut bytes = 0;
    for name in &names {
        let first = log(&nodes.data(1).join(name))?;
        bytes += first.len();
        for node in 2..=COUNT {
            let other = log(&nodes.data(node).join(name))?;
            let common = first.len().min(other.len());
            let is_same = if trims {
                first[first.len() - common..] == other[other.len() - common..]
            } else {
                first == other
            };
            if !is_same {
                let same = first.iter().zip(&other).take_while(|(a, b)| a == b).count();
                return Err(format!(
                    "replicas of {name} differ: {} bytes on node 1, {} on node {node}, the same up to byte {same}",
                    first.len(),
                    other.len()
                ));
            }
        }
    }
    if names.is_empty() || bytes == 0 {
        return Err("vacuous: no replicas to compare".to_owned());
    }
    Ok((names.len(), bytes))
}

/// The content of all its segments, one after the other. Nodes may roll at different places.
fn log(dir: &Path) -> Result<Vec<u8>, String> {
    let entries = std::fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let mut segments: Vec<_> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .collect();
    segments.sort();
    let mut bytes = Vec::new();
    for segment in segments {
        let read = std::fs::read(&segment);
        bytes.extend(read.map_err(|error| format!("{}: {error}", segment.display()))?);
    }
    Ok(bytes)
}
