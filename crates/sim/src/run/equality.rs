//! The replicas of a partition are the same when nothing happens any more, and nothing is left of those that were moved away.

use std::collections::BTreeMap;

use bytes::Bytes;
use env::sim::HostId;
use wire::Records;
use wire::messages::FetchRequest;
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::records::{Batch, Source};

use super::{DRAIN_MAX, LIVE_MAX, Run, Strike};
use crate::client::line::{Line, PORT};

/// A partition by the name of its topic and its number.
type Place = (String, i32);

/// Shows whatever the replica has.
const DEBUGGING: i32 = -2;
const FETCH_VERSION: i16 = 12;
const FETCH_BYTES: i32 = 1 << 20;

impl Run {
    /// Every replica is in sync, no reassignment is on its way, and the logs are equal, byte for byte.
    pub(super) fn demand_equality(&mut self) {
        if self.plan.replicas < 2 || self.plan.strikes.contains(&Strike::Rot) {
            return;
        }
        self.demand_whole();
        if !self.clients.notes.violations.is_empty() {
            return;
        }
        if !self.until(LIVE_MAX, |run| run.are_ends_equal()) {
            if self.clients.notes.violations.is_empty() {
                let what = "replicas in sync do not come to the same end".to_owned();
                self.clients.notes.violation(what);
                self.describe_replicas();
            }
            return;
        }
        for (place, holders) in self.places() {
            if let Some(wrong) = self.unequal(&place, &holders) {
                self.clients.notes.violation(wrong);
                self.describe_replicas();
                return;
            }
        }
        let are_gone = |run: &Run| run.left_behind().is_none();
        if !self.until(DRAIN_MAX, are_gone)
            && self.clients.notes.violations.is_empty()
            && let Some(left) = self.left_behind()
        {
            self.clients.notes.violation(left);
        }
    }

    /// The partitions of the load's topics, the nodes that have them, and where each of the logs starts and ends.
    fn places(&self) -> BTreeMap<Place, Vec<(HostId, [i64; 3])>> {
        let mut places: BTreeMap<Place, Vec<(HostId, [i64; 3])>> = BTreeMap::new();
        for node in self.cluster.nodes() {
            let replicas = self.cluster.node(node).broker().map(|it| it.replicas());
            for it in replicas.into_iter().flatten() {
                // Each replica compacts those of the coordinators by itself.
                if !it.name.starts_with("__") {
                    let bounds = it.bounds;
                    let bounds = [bounds.log_start, bounds.high_watermark, bounds.log_end];
                    let place = (it.name.to_string(), it.partition);
                    let holders = places.entry(place).or_default();
                    holders.push((node, bounds.map(|offset| offset.0)));
                }
            }
        }
        places
    }

    fn are_ends_equal(&self) -> bool {
        self.places().values().all(|holders| {
            let [_, committed, end] = holders[0].1;
            let mut bounds = holders.iter().map(|(_, bounds)| bounds);
            committed == end && bounds.all(|[_, other, last]| (*other, *last) == (committed, end))
        })
    }

    /// The difference between two replicas of a partition.
    fn unequal(&mut self, place: &Place, holders: &[(HostId, [i64; 3])]) -> Option<String> {
        let from = holders.iter().map(|(_, bounds)| bounds[0]).max()?;
        let end = holders[0].1[2];
        let mut first: Option<(HostId, Vec<u8>)> = None;
        for (node, _) in holders {
            let log = match self.log(*node, place, from, end) {
                Ok(log) => log,
                Err(why) => return Some(format!("{place:?} of node {}: {why}", node.0)),
            };
            match &first {
                None => first = Some((*node, log)),
                Some((other, known)) if *known != log => {
                    let (a, b) = (other.0, node.0);
                    let (one, two) = (known.len(), log.len());
                    return Some(format!(
                        "{place:?}: the logs of nodes {a} and {b} differ from {from} on, {one} and {two} bytes"
                    ));
                }
                Some(_) => {}
            }
        }
        None
    }

    /// The batches of a replica, as its node shows them.
    fn log(
        &mut self,
        node: HostId,
        (topic, partition): &Place,
        from: i64,
        end: i64,
    ) -> Result<Vec<u8>, String> {
        let address = self.cluster.machines.address(node, PORT);
        let line = Line::open(&self.cluster.world, address);
        let mut line = line.map_err(|error| error.to_string())?;
        let (mut next, mut log) = (from, Vec::new());
        while next < end {
            let request = FetchRequest {
                replica_id: DEBUGGING,
                max_bytes: FETCH_BYTES,
                session_epoch: -1,
                topics: vec![FetchTopic {
                    topic: topic.clone(),
                    partitions: vec![FetchPartition {
                        partition: *partition,
                        fetch_offset: next,
                        partition_max_bytes: FETCH_BYTES,
                        ..FetchPartition::default()
                    }],
                    ..FetchTopic::default()
                }],
                ..FetchRequest::default()
            };
            line.ask(&request, FETCH_VERSION, true);
            let limit = self.cluster.now().plus(LIVE_MAX);
            let answer = loop {
                match line.poll() {
                    Ok(Some(answer)) => break answer,
                    Ok(None) if self.cluster.now() < limit => self.step(limit),
                    other => return Err(format!("no answer: {:?}", other.err())),
                }
            };
            let told = answer.decode::<FetchRequest>();
            let told = told.map_err(|error| format!("{error:?}"))?;
            let part = told.responses.into_iter().flat_map(|of| of.partitions);
            let part = part.into_iter().next().ok_or("nothing is said of it")?;
            let Some(Records::Bytes(bytes)) = part.records else {
                return Err(format!("no records at {next}: {}", part.error_code));
            };
            let before = next;
            next = gather(&bytes, next, &mut log)?;
            if next == before {
                return Err(format!("nothing at {next}: {}", part.error_code));
            }
        }
        Ok(log)
    }

    /// Files of a partition on a node that has no replica of it.
    fn left_behind(&self) -> Option<String> {
        for node in self.cluster.nodes() {
            let host = self.cluster.node(node);
            let replicas = host.broker().map(|it| it.replicas());
            let here = replicas.into_iter().flatten();
            let here: Vec<String> = here
                .map(|it| format!("{}-{}", it.name, it.partition))
                .collect();
            let disk = host.machine.env().disk;
            for dir in &host.config().log_dirs {
                let entries = disk.read_dir(dir).unwrap_or_default();
                let names = entries.into_iter().map(|entry| entry.name);
                let mut ours = names.filter(|name| self.is_of_load(name));
                if let Some(left) = ours.find(|name| !here.contains(name)) {
                    return Some(format!("node {} still has files of {left}", node.0));
                }
            }
        }
        None
    }

    /// True for the directory of a partition of the load, where it is in use.
    fn is_of_load(&self, name: &str) -> bool {
        let Some((topic, number)) = name.rsplit_once('-') else {
            return false;
        };
        let mut topics = self.clients.topics.iter();
        number.parse::<i32>().is_ok() && topics.any(|(known, _)| known == topic)
    }
}

/// Adds the batches at and behind `next` to a log; where they end.
fn gather(bytes: &Bytes, next: i64, log: &mut Vec<u8>) -> Result<i64, String> {
    let mut end = next;
    for batch in Batch::cut(bytes, Source::Log) {
        let batch = batch.map_err(|error| error.to_string())?;
        // The first one may have begun before.
        if end <= batch.last_offset().0 {
            log.extend_from_slice(batch.head());
            log.extend_from_slice(batch.body());
            end = batch.next_offset().0;
        }
    }
    Ok(end)
}
