//! The operators of a soak: topics come, change and go, replicas move, old records are deleted, and visitors open connections.
//!
//! An operation may fail while a node is away; what was answered must hold. Invariant: each keeps to one operation at a time.

use std::collections::{BTreeMap, VecDeque};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use client::{
    Change, Client, Error, Isolation, NewTopic, OffsetSpec, Producer, ProducerOptions, Record,
    Resource,
};
use wire::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use wire::messages::list_partition_reassignments_request::ListPartitionReassignmentsTopics;
use wire::messages::{AlterPartitionReassignmentsRequest, ListPartitionReassignmentsRequest};

use super::monitor::Health;
use crate::cluster::loads::MOVED;
use crate::cluster::nodes::COUNT;
use crate::kills::Moments;
use crate::load::{PARTITIONS, connect};

/// Has no record, ever.
pub(super) const QUIET: &str = "quiet";
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(500);
/// Of a reassignment, while all nodes are well; the time of faults does not count.
const MOVE_MAX: Duration = Duration::from_secs(30);
const MOVE_LOOK: Duration = Duration::from_millis(200);
const TRIM_EVERY: Duration = Duration::from_secs(2);
/// Records that a trim leaves.
const LEFT: i64 = 2_000;
const VISIT_EVERY: Duration = Duration::from_millis(250);
/// Connections of each visit that say nothing, and how many visits stay.
const VISITORS: usize = 5;
const VISITS: usize = 12;

/// The operations that were answered, and those that were not.
#[derive(Default)]
struct Tally {
    done: usize,
    failed: usize,
}

impl Tally {
    fn add<T>(&mut self, told: &Result<T, Error>) {
        match told {
            Ok(_) => self.done += 1,
            Err(_) => self.failed += 1,
        }
    }

    fn told(&self, what: &str) -> Result<String, String> {
        let Tally { done, failed } = self;
        if *done == 0 {
            return Err(format!("vacuous: none of {failed} {what}"));
        }
        Ok(format!("{done} {what}, {failed} that failed"))
    }
}

/// Topics are made, written, changed, grown and deleted.
pub(super) fn topics(bootstrap: &str, health: &Health) -> Result<String, String> {
    let mut tally = Tally::default();
    for number in 0.. {
        if health.is_over() {
            break;
        }
        tally.add(&live(bootstrap, &format!("passing-{number}")));
        std::thread::sleep(PAUSE);
    }
    tally.told("lives of a topic")
}

fn live(bootstrap: &str, name: &str) -> Result<(), Error> {
    let mut client = connect(bootstrap, PATIENCE)?;
    let topic = NewTopic {
        name: name.to_owned(),
        partitions: Some(3),
        replication_factor: Some(COUNT as i16),
        configs: Vec::new(),
    };
    client.create_topic(&topic, false)?;
    let mut producer = Producer::new(connect(bootstrap, PATIENCE)?, ProducerOptions::default());
    let written = producer.topic(name)?;
    for partition in 0..3 {
        let record = Record {
            value: Some(b"passing"),
            ..Record::default()
        };
        producer.send(written, Some(partition), &record)?;
    }
    producer.flush()?;
    let change = Change::Set("retention.ms".to_owned(), "1000".to_owned());
    client.alter_configs(&Resource::Topic(name.to_owned()), &[change], false)?;
    client.create_partitions(name, 4, false)?;
    client.delete_topic(name)
}

/// Replicas of a partition with records and of one without move all the while; each move ends in time.
pub(super) fn moves(bootstrap: &str, health: &Health, seed: u64) -> Result<String, String> {
    let (mut moments, mut tally) = (Moments(seed), Tally::default());
    let mut longest = Duration::ZERO;
    while !health.is_over() {
        let parts =
            [MOVED.topic, QUIET].map(|topic| (topic, moments.next(PARTITIONS as u64) as i32));
        let away = moments.next(COUNT as u64) as i32 + 1;
        let mut replicas: Vec<i32> = (1..=COUNT as i32).filter(|node| *node != away).collect();
        if moments.next(2) == 0 {
            replicas.reverse();
        }
        let asked = connect(bootstrap, PATIENCE)
            .and_then(|mut client| reassign(&mut client, &parts, &replicas));
        tally.add(&asked);
        let (mut looked, mut time) = (Instant::now(), Duration::ZERO);
        while asked.is_ok() && !health.is_over() {
            std::thread::sleep(MOVE_LOOK);
            let open =
                connect(bootstrap, PATIENCE).and_then(|mut client| moving(&mut client, &parts));
            if health.well_since().is_some() {
                time += looked.elapsed();
            }
            looked = Instant::now();
            longest = longest.max(time);
            match open {
                Ok(open) if open.is_empty() => break,
                Ok(open) if time > MOVE_MAX => {
                    return Err(format!(
                        "a reassignment does not end: {open:?} to {replicas:?}, {} s in which all nodes were well",
                        time.as_secs()
                    ));
                }
                _ => {}
            }
        }
        if asked.is_err() {
            std::thread::sleep(PAUSE);
        }
    }
    let told = tally.told("reassignments of two partitions")?;
    Ok(format!(
        "{told}, the longest {:.1} s",
        longest.as_secs_f64()
    ))
}

fn reassign(client: &mut Client, parts: &[(&str, i32)], replicas: &[i32]) -> Result<(), Error> {
    let topic = |(topic, partition): &(&str, i32)| ReassignableTopic {
        name: (*topic).to_owned(),
        partitions: vec![ReassignablePartition {
            partition_index: *partition,
            replicas: Some(replicas.to_vec()),
        }],
    };
    let request = AlterPartitionReassignmentsRequest {
        timeout_ms: 10_000,
        allow_replication_factor_change: true,
        topics: parts.iter().map(topic).collect(),
    };
    let told = client.call_controller(&request)?;
    let what = || "moving replicas".to_owned();
    Error::check(told.error_code, what, told.error_message.as_deref())?;
    let parts = told.responses.iter().flat_map(|topic| &topic.partitions);
    for part in parts {
        Error::check(part.error_code, what, part.error_message.as_deref())?;
    }
    Ok(())
}

/// Those of these that still move.
fn moving(client: &mut Client, parts: &[(&str, i32)]) -> Result<Vec<String>, Error> {
    let topic = |(topic, partition): &(&str, i32)| ListPartitionReassignmentsTopics {
        name: (*topic).to_owned(),
        partition_indexes: vec![*partition],
    };
    let request = ListPartitionReassignmentsRequest {
        timeout_ms: 10_000,
        topics: Some(parts.iter().map(topic).collect()),
    };
    let told = client.call_controller(&request)?;
    let what = || "listing moves".to_owned();
    Error::check(told.error_code, what, told.error_message.as_deref())?;
    let open = told.topics.iter().flat_map(|topic| {
        let name = |part: &i32| format!("{}-{part}", topic.name);
        topic
            .partitions
            .iter()
            .map(move |part| name(&part.partition_index))
    });
    Ok(open.collect())
}

/// The oldest records are deleted, except the last 2,000; a partition begins where that was answered or asked for last.
pub(super) fn trims(bootstrap: &str, health: &Health) -> Result<String, String> {
    let mut tally = Tally::default();
    let (mut asked, mut told) = (BTreeMap::new(), BTreeMap::new());
    while !health.is_over() {
        let trimmed = trim(bootstrap, &mut asked);
        tally.add(&trimmed);
        for (partition, start) in trimmed.into_iter().flatten() {
            let known = told.entry(partition).or_insert(start);
            *known = start.max(*known);
        }
        std::thread::sleep(TRIM_EVERY);
    }
    let starts = connect(bootstrap, PATIENCE)
        .and_then(|mut client| ends(&mut client, OffsetSpec::Beginning))
        .map_err(|error| format!("where {} begins: {error}", MOVED.topic))?;
    for (partition, start) in starts {
        let least = told.get(&partition).copied().unwrap_or(0);
        let most = asked.get(&partition).copied().unwrap_or(0);
        if start < least || most < start {
            return Err(format!(
                "{}-{partition} begins at {start}: {least} was answered, {most} asked for last",
                MOVED.topic
            ));
        }
    }
    tally.told("deletions of old records")
}

fn ends(client: &mut Client, place: OffsetSpec) -> Result<BTreeMap<i32, i64>, Error> {
    let places: Vec<(i32, OffsetSpec)> = (0..PARTITIONS).map(|at| (at, place)).collect();
    client.resolve(MOVED.topic, &places, Isolation::ReadUncommitted)
}

fn trim(bootstrap: &str, asked: &mut BTreeMap<i32, i64>) -> Result<BTreeMap<i32, i64>, Error> {
    let mut client = connect(bootstrap, PATIENCE)?;
    let ends = ends(&mut client, OffsetSpec::End)?;
    let before: Vec<(i32, i64)> = ends
        .into_iter()
        .filter(|(_, end)| *end > LEFT)
        .map(|(partition, end)| (partition, end - LEFT))
        .collect();
    for (partition, before) in &before {
        let known = asked.entry(*partition).or_insert(*before);
        *known = (*before).max(*known);
    }
    if before.is_empty() {
        return Ok(BTreeMap::new());
    }
    client.delete_records(MOVED.topic, &before)
}

/// Connections come, say nothing or little, and go.
pub(super) fn visits(bootstrap: &str, health: &Health) -> Result<String, String> {
    let (mut tally, mut present) = (Tally::default(), VecDeque::new());
    while !health.is_over() {
        for address in bootstrap.split(',') {
            let asked = connect(address, VISIT_EVERY).and_then(|mut client| {
                client.describe_cluster()?;
                Ok(client)
            });
            tally.add(&asked);
            let address: SocketAddr = address
                .parse()
                .map_err(|_| format!("{address} is no address"))?;
            let open = || TcpStream::connect_timeout(&address, VISIT_EVERY).ok();
            let silent: Vec<TcpStream> = (0..VISITORS).map_while(|_| open()).collect();
            present.push_back((asked, silent));
        }
        while present.len() > VISITS * COUNT {
            present.pop_front();
        }
        std::thread::sleep(VISIT_EVERY);
    }
    tally.told("visits")
}
