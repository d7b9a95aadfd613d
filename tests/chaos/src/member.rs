//! A member of a consumer group (KIP-848) that is alone in its process: beats, takes and gives up partitions, commits rising offsets.
//!
//! Says what it believes and what it was told, with the time of each: `took`, `gave` and `out`; `beat` when one was answered, with
//! the time at which it was sent; `found` with the time of the question, `tried` before a commit is sent, and `commit` with both times when it was acknowledged.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::{Connection, Error};
use wire::messages::consumer_group_heartbeat_request::TopicPartitions;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::{
    ConsumerGroupHeartbeatRequest, FindCoordinatorRequest, OffsetCommitRequest, OffsetFetchRequest,
};
use wire::{ErrorCode, Request, Uuid};

use crate::children::{Clock, say};
use crate::load::{TOPIC, connect};

pub(crate) const GROUP: &str = "chaos-group";
/// A broker that stays away longer than this has failed the scenario.
const PATIENCE: Duration = Duration::from_secs(40);
const ANSWER_MAX: Duration = Duration::from_secs(5);
const BEAT: Duration = Duration::from_millis(100);
const REBALANCE_MS: i32 = 5_000;
const LEAVE: i32 = -1;
/// Last versions of OffsetCommit and OffsetFetch that name topics.
const NAMED_VERSION_MAX: i16 = 9;

struct Member {
    address: String,
    connection: Option<Connection>,
    id: String,
    /// 0 while it is out.
    epoch: i32,
    topic_id: Uuid,
    /// The offset that is committed as far as it knows; `None` until it was found.
    positions: BTreeMap<i32, Option<i64>>,
    clock: Clock,
}

/// Until it is told to stop: address and id.
pub(crate) fn alone(words: &[String], stop: &AtomicBool) -> Result<(), String> {
    let [address, id] = words else {
        return Err("a member needs address and id".to_owned());
    };
    let mut member = Member {
        address: address.clone(),
        connection: None,
        id: id.clone(),
        epoch: 0,
        topic_id: Uuid::ZERO,
        positions: BTreeMap::new(),
        clock: Clock::new(),
    };
    let mut heard = Instant::now();
    while !stop.load(Ordering::Acquire) {
        match member.turn() {
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
    member.give_all("out");
    member.epoch = LEAVE;
    if member.connection.is_some() {
        // The broker may be away; then the session ends by itself.
        let _ = member.beat();
    }
    Ok(())
}

impl Member {
    fn turn(&mut self) -> Result<(), Error> {
        if self.connection.is_none() {
            let connection = connect(&self.address, ANSWER_MAX)?.open(&self.address)?;
            self.connection = Some(connection);
            self.call(&FindCoordinatorRequest {
                coordinator_keys: vec![GROUP.to_owned()],
                ..Default::default()
            })?;
        }
        self.beat()?;
        if self.epoch > 0 && self.positions.values().any(Option::is_none) {
            self.find()?;
        }
        if self.epoch > 0 && self.positions.values().any(Option::is_some) {
            self.commit()?;
        }
        Ok(())
    }

    fn call<R: Request>(&mut self, request: &R) -> Result<R::Response, Error> {
        self.call_up_to(request, i16::MAX)
    }

    fn call_up_to<R: Request>(&mut self, request: &R, limit: i16) -> Result<R::Response, Error> {
        let connection = self.connection.as_mut().expect("a turn opens one");
        connection.send_up_to(request, limit)?;
        connection.receive_as::<R>()
    }

    /// What it owns goes with every beat; what it is to give up it gives up at once.
    fn beat(&mut self) -> Result<(), Error> {
        let partitions: Vec<i32> = self.positions.keys().copied().collect();
        let owned = TopicPartitions {
            topic_id: self.topic_id,
            partitions,
        };
        let request = ConsumerGroupHeartbeatRequest {
            group_id: GROUP.to_owned(),
            member_id: self.id.clone(),
            member_epoch: self.epoch,
            rebalance_timeout_ms: REBALANCE_MS,
            subscribed_topic_names: Some(vec![TOPIC.to_owned()]),
            topic_partitions: Some(match owned.partitions.is_empty() {
                true => Vec::new(),
                false => vec![owned],
            }),
            ..Default::default()
        };
        let asked = self.clock.now();
        let told = self.call(&request)?;
        match code(told.error_code) {
            ErrorCode::None => {}
            ErrorCode::UnknownMemberId | ErrorCode::FencedMemberEpoch => {
                self.give_all("out");
                self.epoch = 0;
                return Ok(());
            }
            // The group is being loaded: the same again later.
            _ => return Ok(()),
        }
        if self.epoch == LEAVE {
            return Ok(());
        }
        say(&format!("beat {asked}"));
        self.epoch = told.member_epoch;
        let Some(assignment) = told.assignment else {
            return Ok(());
        };
        let mut target = Vec::new();
        for topic in assignment.topic_partitions {
            self.topic_id = topic.topic_id;
            target.extend(topic.partitions);
        }
        let gone: Vec<i32> = self
            .positions
            .keys()
            .copied()
            .filter(|partition| !target.contains(partition))
            .collect();
        for partition in gone {
            self.positions.remove(&partition);
            say(&format!("gave {} {partition}", self.clock.now()));
        }
        for partition in target {
            if let Entry::Vacant(new) = self.positions.entry(partition) {
                new.insert(None);
                say(&format!("took {} {partition}", self.clock.now()));
            }
        }
        Ok(())
    }

    fn give_all(&mut self, why: &str) {
        self.positions.clear();
        say(&format!("{why} {}", self.clock.now()));
    }

    fn find(&mut self) -> Result<(), Error> {
        let request = OffsetFetchRequest {
            groups: vec![OffsetFetchRequestGroup {
                group_id: GROUP.to_owned(),
                member_id: Some(self.id.clone()),
                member_epoch: self.epoch,
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
            group_id: GROUP.to_owned(),
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
