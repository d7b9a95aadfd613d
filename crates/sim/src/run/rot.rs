//! Rot in the files of replicas: where it strikes, and the demand that it is repaired from the others.
//!
//! Of each partition one node's files rot, so that there is a good copy of everything elsewhere. They are closed when it strikes, here and
//! on another node; what the log becomes afterwards, by cuts and retention, is another matter. Readers are judged by their history as ever: a wrong record
//! is a violation, and so is one that nobody can read in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use env::disk::Open;
use env::sim::{Chance, HostId, Machine, Rot};
use wire::records::{Batch, Source};

use super::Run;
use super::cluster::Cluster;
use super::damage::files;
use crate::client::admin::Topic;

/// The scrub begins ten minutes after a start, and gives way to what else there is to do.
const REPAIRED_MAX: Duration = Duration::from_secs(40 * 60);
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Topic and number of the partition that a segment file is of.
fn partition_of(path: &Path) -> Option<(&str, u64)> {
    let dir = path.parent()?.file_name()?.to_str()?;
    let (topic, number) = dir.rsplit_once('-')?;
    Some((topic, number.parse().ok()?))
}

/// Segments of the partitions of these topics, by the directory of each partition, the oldest first.
fn segments(machine: &Machine, topics: &[Topic]) -> BTreeMap<PathBuf, Vec<(PathBuf, u64)>> {
    let mut all: BTreeMap<PathBuf, Vec<(PathBuf, u64)>> = BTreeMap::new();
    for (path, len) in files(machine, Path::new("/data")) {
        let is_segment = path.extension().is_some_and(|extension| extension == "log");
        let is_of_topic =
            |topic: &Topic| partition_of(&path).is_some_and(|(name, _)| *topic.name == *name);
        if let (true, true, Some(dir)) = (is_segment, topics.iter().any(is_of_topic), path.parent())
        {
            all.entry(dir.to_path_buf()).or_default().push((path, len));
        }
    }
    all.values_mut().for_each(|of| of.sort());
    all
}

/// Changes bytes of a closed segment, of a partition that may rot on this node, and of which another node has all, in closed segments
/// as well. Returns the name of the partition; `None` where there is none.
pub(super) fn strike(
    cluster: &Cluster,
    node: HostId,
    topics: &[Topic],
    chance: &mut Chance,
) -> Option<String> {
    let machine = |node| &cluster.node(node).machine;
    let nodes = cluster.nodes().count() as u64;
    let rots_here = |path: &Path| {
        let number = partition_of(path).map(|(_, number)| number);
        number.is_some_and(|number| number % nodes + 1 == u64::from(node.0))
    };
    let others = cluster.nodes().filter(|other| *other != node);
    let others: Vec<_> = others.map(|it| segments(machine(it), topics)).collect();
    let mut closed = Vec::new();
    for (dir, of) in segments(machine(node), topics) {
        // Names of segments have the order of their offsets.
        let same = |other: &&PathBuf| other.file_name() == dir.file_name();
        let elsewhere = others.iter().flatten();
        let elsewhere = elsewhere.filter(|(other, _)| same(other));
        let last = elsewhere.filter_map(|(_, of)| of.last()?.0.file_name());
        let Some(last) = last.max() else {
            continue;
        };
        let pairs = of.iter().zip(of.iter().skip(1));
        let both_closed = pairs
            .filter(|((path, _), (next, _))| next.file_name() <= Some(last) && rots_here(path));
        closed.extend(both_closed.map(|(one, _)| one.clone()));
    }
    let machine = machine(node);
    if closed.is_empty() {
        return None;
    }
    let (path, len) = chance.pick(&closed).clone();
    let at = chance.below(len);
    let bit = chance.below(8) as u8;
    let (bytes, rot) = match chance.below(3) {
        0 => (1, Rot::Flip { bit }),
        1 => (512, Rot::Flip { bit }),
        _ => (chance.between(1, 4096), Rot::Zero),
    };
    let end = (at + bytes).min(len);
    machine.rot(&path, at..end, rot).ok()?;
    partition_of(&path).map(|(topic, number)| format!("{topic}-{number}"))
}

/// Offsets in a row that rot on one node alone.
const ROW: i64 = 8;

/// Changes one byte of every second batch of closed segments, those of each row of offsets on another node: every batch is well on two of them. Returns
/// the partitions.
pub(super) fn apart(cluster: &Cluster, topics: &[Topic]) -> BTreeSet<String> {
    let nodes = cluster.nodes().count() as i64;
    let mut struck = BTreeSet::new();
    for node in cluster.nodes() {
        let machine = &cluster.node(node).machine;
        for (_, mut of) in segments(machine, topics) {
            // The open one.
            of.pop();
            for (path, _) in of {
                let Some((topic, number)) = partition_of(&path) else {
                    continue;
                };
                let mut position = 0;
                for (at, (base, bytes)) in batches(machine, &path).into_iter().flatten().enumerate()
                {
                    let end = position + bytes.len() as u64;
                    if at % 2 == 0 && (base / ROW) % nodes + 1 == i64::from(node.0) {
                        let flipped = machine.rot(&path, end - 1..end, Rot::Flip { bit: 0 });
                        if flipped.is_ok() {
                            struck.insert(format!("{topic}-{number}"));
                        }
                    }
                    position = end;
                }
            }
        }
    }
    struck
}

/// The batches of a segment by their offsets; an error says where they end.
fn batches(machine: &Machine, path: &Path) -> Result<BTreeMap<i64, Bytes>, String> {
    let told = |error: std::io::Error| error.to_string();
    let file = machine.env().disk.open(path, Open::Read).map_err(told)?;
    let mut bytes = vec![0; file.len().map_err(told)? as usize];
    file.read_exact_at(&mut bytes, 0).map_err(told)?;
    let mut found = BTreeMap::new();
    let mut next = None;
    for batch in Batch::cut(&bytes.into(), Source::Log) {
        let batch = batch.map_err(|error| format!("behind {next:?}: {error}"))?;
        let base = batch.base_offset();
        if next.is_some_and(|next| next != base) {
            return Err(format!("offset {base} in the place of {next:?}"));
        }
        next = Some(batch.next_offset());
        found.insert(base.0, batch.to_bytes());
    }
    Ok(found)
}

impl Run {
    /// Every replica reads its disk in time, and in the end all have the same batches.
    pub(super) fn demand_repairs(&mut self) {
        if !self.plan.rots || !self.clients.notes.violations.is_empty() {
            return;
        }
        let limit = self.cluster.now().plus(REPAIRED_MAX);
        while let Some(what) = self.differs() {
            if limit <= self.cluster.now() {
                let what = format!("what rotted is not repaired: {what}");
                return self.clients.notes.violation(what);
            }
            // The clients are done.
            self.cluster.machines.run_until(LOOK_EVERY, |_| false);
        }
    }

    /// The first thing in which files of a partition differ between nodes, or do not verify. A segment that was closed when it was struck may be
    /// the open one since a cut, which no scrub reads: it waits for a reader.
    fn differs(&self) -> Option<String> {
        let mut known: BTreeMap<(String, u64), BTreeMap<i64, Bytes>> = BTreeMap::new();
        for node in self.cluster.nodes() {
            let machine = &self.cluster.node(node).machine;
            for (_, of) in segments(machine, &self.plan.topics) {
                let open = of.last().cloned();
                for (path, _) in of {
                    let (topic, number) = partition_of(&path)?;
                    let is_open = open.as_ref().is_some_and(|(open, _)| *open == path);
                    let rotted = &self.clients.notes.rotted;
                    if is_open && rotted.contains(&format!("{topic}-{number}")) {
                        continue;
                    }
                    let known = known.entry((topic.to_owned(), number)).or_default();
                    let found = match batches(machine, &path) {
                        Ok(found) => found,
                        Err(what) => {
                            return Some(format!("{} of node {}: {what}", path.display(), node.0));
                        }
                    };
                    for (base, batch) in found {
                        if *known.entry(base).or_insert_with(|| batch.clone()) != batch {
                            let path = path.display();
                            return Some(format!(
                                "{path} of node {} has another batch at {base}",
                                node.0
                            ));
                        }
                    }
                }
            }
        }
        None
    }
}
