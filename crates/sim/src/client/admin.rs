//! A simulated administrator: creates the topics of the run, deletes records, and makes and removes topics beside the load.
//!
//! Keeps a model of what it was told: a topic that was created stays until its deletion was asked for, a deleted one does not
//! come back, also not after a power cut.

use std::collections::BTreeMap;
use std::time::Duration;

use env::sim::{Chance, HostId, Outside};
use model::Instant;
use wire::messages::alter_replica_log_dirs_request::{AlterReplicaLogDir, AlterReplicaLogDirTopic};
use wire::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::{
    AlterReplicaLogDirsRequest, CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    DescribeLogDirsRequest, IncrementalAlterConfigsRequest, MetadataRequest,
};
use wire::{ApiKey, ErrorCode};

use super::aging::Keep;
use super::keep::{Client, Link};
use super::line::{LineError, RawAnswer, nonsense};
use super::notes::Notes;
use super::requests::{STRAY_MAX, alter};
use crate::checker::{EndSeen, Kind, Op};

const RECONNECT: Duration = Duration::from_millis(250);
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// Topics whose logs the coordinators write, and what their batches may have when they are squeezed: nothing, or one commit of an
/// offset and no more.
const COORDINATED: [&str; 2] = ["__consumer_offsets", "__transaction_state"];
const NOTHING_FITS: u64 = 1;
const SQUEEZED: [u64; 4] = [NOTHING_FITS, NOTHING_FITS, 150, 400];

/// A topic of the load.
#[derive(Clone, Debug)]
pub(crate) struct Topic {
    pub(crate) name: String,
    pub(crate) partitions: i32,
    pub(crate) configs: Vec<(&'static str, String)>,
    /// The node that is to have it; left to the cluster where none is named.
    pub(crate) node: Option<HostId>,
    pub(crate) replicas: i16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TopicState {
    /// Asked for, not known to be there.
    Wanted,
    There,
    /// Deletion was asked for, not known to be done.
    Unwanted,
    Gone,
}

enum Asked {
    Create(Vec<String>),
    Delete(String),
    Trim {
        topic: String,
        partition: i32,
        offset: i64,
    },
    Move,
    /// The topics of the coordinators take batches of so many bytes, or again what they took before.
    Squeeze(Option<u64>),
    /// Where partitions live.
    Dirs,
    Look,
}

pub(crate) struct Admin {
    topics: Vec<Topic>,
    states: BTreeMap<String, TopicState>,
    /// Chance, in percent, that a turn deletes records or changes topics.
    pub(crate) trims: u64,
    pub(crate) changes: u64,
    /// And that it moves a partition to another log directory, or looks where they are.
    pub(crate) moves: u64,
    /// And that it lets the logs of the coordinators take no batch for a moment.
    pub(crate) squeezes: u64,
    /// It did, and has not heard that they take them again; and until when such a change may arrive from a connection that was lost.
    is_tight: bool,
    tight_until: Instant,
    dirs: Vec<String>,
    places: BTreeMap<(String, i32), String>,
    chance: Chance,
    link: Link,
    asked: Option<Asked>,
    process: u32,
    created: u64,
    /// End of the names of the topics that it makes beside the load, where others make some too.
    pub(crate) suffix: String,
    pub(crate) is_quiet: bool,
    /// Partitions on their way to another directory, as they were last told of.
    pub(crate) moving: Option<usize>,
    /// Looks at the topics since the last call of `look_again`.
    pub(crate) looks: u64,
}

impl Client for Admin {
    fn link(&self) -> &Link {
        &self.link
    }

    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    fn name(&self) -> String {
        "admin".to_owned()
    }

    fn on_answer(
        &mut self,
        answer: &RawAnswer,
        world: &Outside,
        notes: &mut Notes,
    ) -> Result<(), LineError> {
        let (Some(asked), Some(since)) = (self.asked.take(), self.link.asked.take()) else {
            let key = answer.key();
            return Err(nonsense(format!("an answer to nothing: {key:?}")));
        };
        match (asked, answer.key()) {
            (Asked::Create(_), ApiKey::CreateTopics) => {
                for result in answer.decode::<CreateTopicsRequest>()?.topics {
                    let done = [ErrorCode::None.code(), ErrorCode::TopicAlreadyExists.code()];
                    if done.contains(&result.error_code) {
                        self.states.insert(result.name, TopicState::There);
                        notes.topics_changed += 1;
                    }
                }
            }
            (Asked::Delete(name), ApiKey::DeleteTopics) => {
                for result in answer.decode::<DeleteTopicsRequest>()?.responses {
                    let done = [
                        ErrorCode::None.code(),
                        ErrorCode::UnknownTopicOrPartition.code(),
                    ];
                    if done.contains(&result.error_code) {
                        self.states.insert(name.clone(), TopicState::Gone);
                        notes.topics_changed += 1;
                    }
                }
            }
            (
                Asked::Trim {
                    topic,
                    partition,
                    offset,
                },
                ApiKey::DeleteRecords,
            ) => {
                let response = answer.decode::<DeleteRecordsRequest>()?;
                let result = response
                    .topics
                    .iter()
                    .flat_map(|topic| &topic.partitions)
                    .next();
                if let Some(result) = result.filter(|result| result.error_code == 0) {
                    if result.low_watermark < offset {
                        notes.violation(format!(
                            "{topic}-{partition}: deleted up to {offset}, but the log starts at {}",
                            result.low_watermark
                        ));
                    }
                    notes.records_deleted += 1;
                    let key = notes.key(&topic, partition);
                    let (invoked, returned) = (since.0, world.now().0);
                    let log_start = Some(result.low_watermark);
                    notes.end(EndSeen {
                        key,
                        invoked,
                        returned,
                        log_start,
                        log_end: None,
                        stable_end: None,
                    });
                }
            }
            (Asked::Move, ApiKey::AlterReplicaLogDirs) => {
                let may_be = [
                    ErrorCode::None.code(),
                    ErrorCode::KafkaStorageError.code(),
                    ErrorCode::UnknownTopicOrPartition.code(),
                ];
                let results = answer.decode::<AlterReplicaLogDirsRequest>()?.results;
                for partition in results.iter().flat_map(|topic| &topic.partitions) {
                    if !may_be.contains(&partition.error_code) {
                        let code = partition.error_code;
                        notes.violation(format!("a move was answered with {code}"));
                    }
                }
            }
            (Asked::Squeeze(bytes), ApiKey::IncrementalAlterConfigs) => {
                let results = answer.decode::<IncrementalAlterConfigsRequest>()?.responses;
                let is_done = |code: i16| code == ErrorCode::None.code();
                let is_gone = |code: i16| code == ErrorCode::UnknownTopicOrPartition.code();
                match bytes {
                    Some(bytes) => {
                        let is_squeezed = results
                            .iter()
                            .any(|of| of.resource_name == COORDINATED[0] && is_done(of.error_code));
                        if is_squeezed && bytes == NOTHING_FITS {
                            notes.squeezes += 1;
                            notes.squeezed_at = Some(world.now());
                        }
                    }
                    None => {
                        let mut codes = results.iter().map(|of| of.error_code);
                        self.is_tight &= !codes.all(|code| is_done(code) || is_gone(code));
                    }
                }
            }
            (Asked::Dirs, ApiKey::DescribeLogDirs) => self.on_dirs(answer, notes)?,
            (Asked::Look, ApiKey::Metadata) => self.on_look(answer, notes)?,
            (_, key) => {
                return Err(nonsense(format!("an answer of {key:?} to something else")));
            }
        }
        let mut op = Op::new(self.process, Kind::Admin, since.0);
        op.returned = world.now().0;
        notes.done(op);
        Ok(())
    }

    fn on_wake(&mut self, world: &Outside, notes: &mut Notes) {
        let now = world.now();
        self.link.wake = now.plus(Duration::from_millis(self.chance.between(20, 200)));
        if self.link.line.is_none() {
            self.link.open(world, notes);
            self.link.wake = now.plus(RECONNECT);
            return;
        }
        if let Some(since) = self.link.asked {
            if now.since(since) > ANSWER_MAX {
                (self.link.line, self.link.asked) = (None, None);
            }
            return;
        }
        let what = self.next(now, notes);
        self.ask(what, now, notes);
    }
}

impl Admin {
    pub(crate) fn new(topics: Vec<Topic>, chance: Chance, notes: &mut Notes) -> Admin {
        Admin {
            states: topics
                .iter()
                .map(|topic| (topic.name.clone(), TopicState::Wanted))
                .collect(),
            topics,
            trims: 0,
            changes: 0,
            moves: 0,
            squeezes: 0,
            is_tight: false,
            tight_until: Instant(0),
            dirs: Vec::new(),
            places: BTreeMap::new(),
            chance,
            link: Link::new(Instant(0), RECONNECT),
            asked: None,
            process: notes.process(),
            created: 0,
            suffix: String::new(),
            is_quiet: false,
            moving: None,
            looks: 0,
        }
    }

    /// True if the topics of the coordinators may have settings under which their batches are too large, or may get them still.
    pub(crate) fn may_be_tight(&self, now: Instant) -> bool {
        self.is_tight || now < self.tight_until
    }

    /// Topics that it was told are there, and those that it was told are gone.
    pub(crate) fn told(&self) -> (Vec<&str>, Vec<&str>) {
        let of = |wanted| {
            let all = self.states.iter();
            let all = all.filter(move |(_, state)| **state == wanted);
            all.map(|(name, _)| name.as_str()).collect()
        };
        (of(TopicState::There), of(TopicState::Gone))
    }

    /// All topics of the load are there.
    pub(crate) fn is_ready(&self) -> bool {
        self.topics
            .iter()
            .all(|topic| self.states.get(&topic.name) == Some(&TopicState::There))
    }

    fn next(&mut self, now: Instant, notes: &Notes) -> Asked {
        let wanted: Vec<String> = self
            .topics
            .iter()
            .map(|topic| &topic.name)
            .filter(|name| self.states.get(*name) == Some(&TopicState::Wanted))
            .cloned()
            .collect();
        if !wanted.is_empty() {
            return Asked::Create(wanted);
        }
        if self.may_be_tight(now) && (self.is_quiet || self.chance.one_in(2)) {
            return Asked::Squeeze(None);
        }
        let draw = self.chance.below(100);
        if self.is_quiet && self.moves > 0 && self.moving != Some(0) {
            return Asked::Dirs;
        }
        let others = self.trims + self.changes + self.moves;
        if self.is_quiet || draw >= others + self.squeezes {
            return Asked::Look;
        }
        if draw >= others {
            return Asked::Squeeze(Some(*self.chance.pick(&SQUEEZED)));
        }
        if draw >= self.trims + self.changes {
            let is_known = !self.dirs.is_empty() && self.chance.one_in(2);
            return if is_known { Asked::Move } else { Asked::Dirs };
        }
        if draw < self.trims {
            let topic = self.chance.pick(&self.topics).clone();
            let partition = self.chance.below(topic.partitions as u64) as i32;
            if matches!(topic.keeps(), Some(Keep::Bytes(_))) {
                // Other deletions say nothing of what retention takes.
                return Asked::Look;
            }
            return match notes_highest(notes, &topic.name, partition) {
                Some(highest) if highest > 0 => {
                    let offset = self.chance.between(highest as u64 / 2, highest as u64) as i64;
                    Asked::Trim {
                        topic: topic.name,
                        partition,
                        offset,
                    }
                }
                _ => Asked::Look,
            };
        }
        let extra: Vec<String> = self
            .states
            .iter()
            .filter(|(name, state)| {
                name.starts_with("extra-")
                    && matches!(state, TopicState::There | TopicState::Unwanted)
            })
            .map(|(name, _)| name.clone())
            .collect();
        if extra.len() > 3 || (!extra.is_empty() && self.chance.one_in(2)) {
            return Asked::Delete(self.chance.pick(&extra).clone());
        }
        self.created += 1;
        Asked::Create(vec![format!("extra-{}{}", self.created, self.suffix)])
    }

    fn ask(&mut self, what: Asked, now: Instant, notes: &mut Notes) {
        match &what {
            Asked::Create(names) => {
                let topics = names
                    .iter()
                    .map(|name| creatable(&self.topics, name))
                    .collect();
                for name in names {
                    self.states.insert(name.clone(), TopicState::Wanted);
                }
                let request = CreateTopicsRequest {
                    topics,
                    timeout_ms: 10_000,
                    validate_only: false,
                };
                self.link.ask(&request, 5, now);
            }
            Asked::Delete(name) => {
                self.states.insert(name.clone(), TopicState::Unwanted);
                let request = DeleteTopicsRequest {
                    topic_names: vec![name.clone()],
                    timeout_ms: 10_000,
                    ..DeleteTopicsRequest::default()
                };
                self.link.ask(&request, 4, now);
            }
            Asked::Trim {
                topic,
                partition,
                offset,
            } => {
                let key = notes.key(topic, *partition);
                // From now on the records may be gone, whatever the answer.
                let trimmed = notes.history.trimmed.entry(key).or_default();
                *trimmed = (*trimmed).max(*offset);
                let partitions = vec![DeleteRecordsPartition {
                    partition_index: *partition,
                    offset: *offset,
                }];
                let topics = vec![DeleteRecordsTopic {
                    name: topic.clone(),
                    partitions,
                }];
                let request = DeleteRecordsRequest {
                    topics,
                    timeout_ms: 10_000,
                };
                self.link.ask(&request, 2, now);
            }
            Asked::Move => {
                let topic = self.chance.pick(&self.topics).clone();
                let partition = self.chance.below(topic.partitions as u64) as i32;
                let topics = vec![AlterReplicaLogDirTopic {
                    name: topic.name,
                    partitions: vec![partition],
                }];
                let path = self.chance.pick(&self.dirs).clone();
                let dirs = vec![AlterReplicaLogDir { path, topics }];
                self.link.ask(&AlterReplicaLogDirsRequest { dirs }, 2, now);
            }
            Asked::Squeeze(bytes) => {
                notes.squeezed_at = None;
                if bytes.is_some() {
                    (self.is_tight, self.tight_until) = (true, now.plus(STRAY_MAX));
                }
                let request = alter(&COORDINATED, "max.message.bytes", *bytes);
                self.link.ask(&request, 1, now);
            }
            Asked::Dirs => {
                let request = DescribeLogDirsRequest { topics: None };
                self.link.ask(&request, 4, now);
            }
            Asked::Look => {
                let request = MetadataRequest {
                    topics: None,
                    ..MetadataRequest::default()
                };
                self.link.ask(&request, 9, now);
            }
        }
        self.asked = Some(what);
    }

    fn on_dirs(&mut self, answer: &RawAnswer, notes: &mut Notes) -> Result<(), LineError> {
        let mut seen: BTreeMap<(String, i32), String> = BTreeMap::new();
        let dirs = answer.decode::<DescribeLogDirsRequest>()?.results;
        self.dirs = dirs.iter().map(|dir| dir.log_dir.clone()).collect();
        let all = dirs.iter().flat_map(|dir| &dir.topics);
        let all = all.flat_map(|topic| &topic.partitions);
        self.moving = Some(all.filter(|of| of.is_future_key).count());
        for dir in dirs {
            for topic in dir.topics {
                for partition in topic.partitions.iter().filter(|of| !of.is_future_key) {
                    let key = (topic.name.clone(), partition.partition_index);
                    if let Some(other) = seen.insert(key.clone(), dir.log_dir.clone()) {
                        notes.violation(format!("{key:?} is in {other} and {}", dir.log_dir));
                    }
                }
            }
        }
        let moved = seen.iter().filter(|(key, dir)| {
            let before = self.places.get(*key);
            before.is_some_and(|before| before != *dir)
        });
        notes.moves += moved.count() as u64;
        self.places.extend(seen);
        Ok(())
    }

    fn on_look(&mut self, answer: &RawAnswer, notes: &mut Notes) -> Result<(), LineError> {
        self.looks += 1;
        let topics = answer.decode::<MetadataRequest>()?.topics;
        let seen: BTreeMap<String, usize> = topics
            .into_iter()
            .filter(|topic| topic.error_code == 0)
            .filter_map(|topic| topic.name.map(|name| (name, topic.partitions.len())))
            .collect();
        for (name, state) in &self.states {
            match (state, seen.get(name)) {
                (TopicState::There, None) => {
                    notes.violation(format!("topic {name} was created and is not there"))
                }
                (TopicState::Gone, Some(_)) => {
                    notes.violation(format!("topic {name} was deleted and is there"))
                }
                _ => {}
            }
        }
        for topic in &self.topics {
            if let Some(partitions) = seen.get(&topic.name)
                && *partitions != topic.partitions as usize
            {
                notes.violation(format!("topic {} has {partitions} partitions", topic.name));
            }
        }
        Ok(())
    }
}

fn creatable(topics: &[Topic], name: &str) -> CreatableTopic {
    let known = topics.iter().find(|topic| topic.name == name);
    let configs = known.map_or(&[][..], |topic| &topic.configs);
    let partitions = known.map_or(2, |topic| topic.partitions);
    let node = known.and_then(|topic| topic.node);
    let assignments = node.map(|node| {
        let assigned = |partition_index| CreatableReplicaAssignment {
            partition_index,
            broker_ids: vec![i32::from(node.0)],
        };
        (0..partitions).map(assigned).collect()
    });
    let (num_partitions, replication_factor) = match assignments {
        Some(_) => (-1, -1),
        None => (partitions, known.map_or(1, |topic| topic.replicas)),
    };
    CreatableTopic {
        name: name.to_owned(),
        num_partitions,
        replication_factor,
        assignments: assignments.unwrap_or_default(),
        configs: configs
            .iter()
            .map(|(name, value)| CreatableTopicConfig {
                name: (*name).to_owned(),
                value: Some(value.clone()),
            })
            .collect(),
    }
}

fn notes_highest(notes: &Notes, topic: &str, partition: i32) -> Option<i64> {
    let key = notes.known_key(topic, partition)?;
    notes.highest.get(&key).copied()
}
