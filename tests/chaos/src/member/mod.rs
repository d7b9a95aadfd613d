//! A member of a consumer group that is alone in its process: joins by one of the two protocols, takes and gives up partitions, commits
//! rising offsets.
//!
//! Says what it believes and what it was told, with the time of each: `took`, `gave`, `out` and `left`; `beat` when one was answered, with
//! the time at which it was sent; `found` with the time of the question, `tried` before a commit is sent, and `commit` with both times when it was acknowledged.

mod classic;
mod consumer;
pub(crate) mod copier;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::{Connection, Error};
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::{FindCoordinatorRequest, OffsetCommitRequest, OffsetFetchRequest};
use wire::{ErrorCode, Request};

use crate::children::{Clock, say};
use crate::load::{TOPIC, connect};

pub(crate) const CLASSIC: &str = "classic";
/// KIP-848.
pub(crate) const CONSUMER: &str = "consumer";
/// A broker that stays away longer than this has failed the scenario.
const PATIENCE: Duration = Duration::from_secs(40);
/// A join is answered when the last member has come or was given up.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// A member that gets no beat answered for so long asks again where the coordinator is.
const LOST_AFTER: Duration = Duration::from_secs(1);
const BEAT: Duration = Duration::from_millis(100);
const REBALANCE_MS: i32 = 5_000;
/// Last versions of OffsetCommit and OffsetFetch that name topics.
const NAMED_VERSION_MAX: i16 = 9;

enum Protocol {
    Classic,
    Consumer(consumer::Consumer),
}

struct Member {
    address: String,
    connection: Option<Connection>,
    /// When a beat was answered last, or the connection was opened.
    beaten: Instant,
    group: String,
    id: String,
    /// Or generation; 0 while it is out.
    epoch: i32,
    /// The offset that is committed as far as it knows; `None` until it was found.
    positions: BTreeMap<i32, Option<i64>>,
    clock: Clock,
}

/// Until it is told to stop: address, group, protocol, and the id by which it is known where members choose their own.
pub(crate) fn alone(words: &[String], stop: &AtomicBool) -> Result<(), String> {
    let [address, group, protocol, id] = words else {
        return Err("a member needs address, group, protocol and id".to_owned());
    };
    let (mut member, mut protocol) = Member::new(address, group, protocol, id)?;
    let mut heard = Instant::now();
    while !stop.load(Ordering::Acquire) {
        match member.turn(&mut protocol) {
            Ok(()) => heard = Instant::now(),
            Err(error) => {
                member.connection = None;
                if heard.elapsed() > PATIENCE {
                    return Err(format!("no answer for {} s: {error}", PATIENCE.as_secs()));
                }
            }
        }
        std::thread::sleep(BEAT);
    }
    member.leave(&protocol);
    Ok(())
}

impl Member {
    /// With the id by which it is known where members choose their own.
    fn new(
        address: &str,
        group: &str,
        protocol: &str,
        id: &str,
    ) -> Result<(Member, Protocol), String> {
        let (protocol, id) = match protocol {
            CLASSIC => (Protocol::Classic, ""),
            CONSUMER => (Protocol::Consumer(Default::default()), id),
            _ => return Err(format!("{protocol} is no protocol")),
        };
        let member = Member {
            address: address.to_owned(),
            connection: None,
            beaten: Instant::now(),
            group: group.to_owned(),
            id: id.to_owned(),
            epoch: 0,
            positions: BTreeMap::new(),
            clock: Clock::new(),
        };
        Ok((member, protocol))
    }

    fn leave(&mut self, protocol: &Protocol) {
        self.end("left");
        if self.connection.is_some() {
            // The broker may be away; then the session ends by itself.
            let _ = match protocol {
                Protocol::Classic => classic::leave(self),
                Protocol::Consumer(consumer) => consumer.leave(self),
            };
        }
    }

    fn turn(&mut self, protocol: &mut Protocol) -> Result<(), Error> {
        self.beat(protocol)?;
        if self.epoch > 0 && self.positions.values().any(Option::is_none) {
            self.find(matches!(protocol, Protocol::Consumer(_)))?;
        }
        if self.epoch > 0 && self.positions.values().any(Option::is_some) {
            self.commit()?;
        }
        Ok(())
    }

    fn beat(&mut self, protocol: &mut Protocol) -> Result<(), Error> {
        if self.beaten.elapsed() > LOST_AFTER {
            // Another may be the coordinator by now.
            self.connection = None;
        }
        if self.connection.is_none() {
            self.connection = Some(self.coordinator()?);
            self.beaten = Instant::now();
        }
        match protocol {
            Protocol::Classic => classic::beat(self),
            Protocol::Consumer(consumer) => consumer.beat(self),
        }
    }

    fn coordinator(&self) -> Result<Connection, Error> {
        let mut client = connect(&self.address, ANSWER_MAX)?;
        let told = client.call_any(&FindCoordinatorRequest {
            coordinator_keys: vec![self.group.clone()],
            ..Default::default()
        })?;
        let found = told.coordinators.first();
        let code = found.map_or(told.error_code, |found| found.error_code);
        Error::check(code, || format!("the coordinator of {}", self.group), None)?;
        match found {
            Some(found) => client.open(&format!("{}:{}", found.host, found.port)),
            None => client.open(&format!("{}:{}", told.host, told.port)),
        }
    }

    /// One that was sent then was answered without an error.
    fn note_beat(&mut self, asked: u64) {
        self.beaten = Instant::now();
        say(&format!("beat {asked}"));
    }

    fn call<R: Request>(&mut self, request: &R) -> Result<R::Response, Error> {
        self.call_up_to(request, i16::MAX)
    }

    fn call_up_to<R: Request>(&mut self, request: &R, limit: i16) -> Result<R::Response, Error> {
        let connection = self.connection.as_mut().expect("a turn opens one");
        connection.send_up_to(request, limit)?;
        connection.receive_as::<R>()
    }

    /// Owns these from now on, and no others.
    fn own(&mut self, target: &[i32]) {
        let is_gone = |partition: &i32| !target.contains(partition);
        let gone: Vec<i32> = self.positions.keys().copied().filter(is_gone).collect();
        for partition in gone {
            self.positions.remove(&partition);
            say(&format!("gave {} {partition}", self.clock.now()));
        }
        for partition in target {
            if let Entry::Vacant(new) = self.positions.entry(*partition) {
                new.insert(None);
                say(&format!("took {} {partition}", self.clock.now()));
            }
        }
    }

    /// Everything is gone: `out` or `left`.
    fn end(&mut self, word: &str) {
        self.positions.clear();
        self.epoch = 0;
        say(&format!("{word} {}", self.clock.now()));
    }

    /// Members of the classic protocol ask as anybody may.
    fn find(&mut self, as_member: bool) -> Result<(), Error> {
        let request = OffsetFetchRequest {
            groups: vec![OffsetFetchRequestGroup {
                group_id: self.group.clone(),
                member_id: as_member.then(|| self.id.clone()),
                member_epoch: if as_member { self.epoch } else { -1 },
                topics: Some(vec![OffsetFetchRequestTopics {
                    name: TOPIC.to_owned(),
                    partition_indexes: self.positions.keys().copied().collect(),
                    ..Default::default()
                }]),
            }],
            ..Default::default()
        };
        let asked = self.clock.now();
        let told = self.call_up_to(&request, NAMED_VERSION_MAX)?;
        let groups = told.groups.iter().filter(|group| group.error_code == 0);
        let topics = groups.flat_map(|group| &group.topics);
        for found in topics.flat_map(|topic| &topic.partitions) {
            if found.error_code == 0
                && let Some(position) = self.positions.get_mut(&found.partition_index)
            {
                let offset = found.committed_offset.max(0);
                *position = Some(offset);
                say(&format!("found {asked} {} {offset}", found.partition_index));
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Error> {
        let next: BTreeMap<i32, i64> = self
            .positions
            .iter()
            .filter_map(|(partition, at)| Some((*partition, (*at)? + 1)))
            .collect();
        let partitions = next.iter().map(|(partition, offset)| {
            say(&format!("tried {} {partition} {offset}", self.clock.now()));
            OffsetCommitRequestPartition {
                partition_index: *partition,
                committed_offset: *offset,
                committed_metadata: Some(String::new()),
                ..Default::default()
            }
        });
        let request = OffsetCommitRequest {
            group_id: self.group.clone(),
            generation_id_or_member_epoch: self.epoch,
            member_id: self.id.clone(),
            topics: vec![OffsetCommitRequestTopic {
                name: TOPIC.to_owned(),
                partitions: partitions.collect(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let asked = self.clock.now();
        let told = self.call_up_to(&request, NAMED_VERSION_MAX)?;
        for partition in told.topics.iter().flat_map(|topic| &topic.partitions) {
            let index = partition.partition_index;
            let Some(offset) = next.get(&index).filter(|_| partition.error_code == 0) else {
                continue;
            };
            let acked = self.clock.now();
            say(&format!("commit {acked} {index} {offset} {asked}"));
            if let Some(position) = self.positions.get_mut(&index) {
                *position = Some(*offset);
            }
        }
        Ok(())
    }
}

fn code(code: i16) -> ErrorCode {
    ErrorCode::try_from(code).unwrap_or(ErrorCode::UnknownServerError)
}
