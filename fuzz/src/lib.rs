//! A coordinator as its driver runs it, without a disk: what it decides is encoded, decoded and replayed, and the same log makes the
//! same coordinator again.
//!
//! Used by the targets `consumers` and `coordinators`, and by `seeds`, which writes down what such a coordinator wrote.

pub mod access;
pub mod acls;
pub mod files;
pub mod images;
pub mod logins;
pub mod script;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use coord::group::ask::{FetchOffsets, FetchedTopic};
use coord::group::{self, Groups, Settings, record_version};
use coord::{Moment, Reply, Step};
use model::{InboxId, Instant, ProducerEpoch, ProducerId, Ticket, Timestamp, WaiterKey};
use wire::group::GroupRecord;
use wire::{DecodeError, ErrorCode, Uuid};

/// One thing that a log holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    Record {
        key: Bytes,
        value: Option<Bytes>,
        /// Of the transaction that it belongs to.
        producer: Option<i64>,
    },
    Marker {
        producer: i64,
        committed: bool,
    },
}

const MARKER: u8 = 1;
const COMMITTED: u8 = 2;
const TRANSACTIONAL: u8 = 4;
const HAS_VALUE: u8 = 8;

impl Entry {
    /// The meaning of an input: flags, producer, and for a record key and value behind their lengths.
    pub fn read_all(mut input: &[u8]) -> Vec<Entry> {
        let mut entries = Vec::new();
        while let [flags, producer, rest @ ..] = input {
            let producer = i64::from(*producer);
            if flags & MARKER != 0 {
                let committed = flags & COMMITTED != 0;
                entries.push(Entry::Marker {
                    producer,
                    committed,
                });
                input = rest;
                continue;
            }
            let Some((key, rest)) = piece(rest) else {
                break;
            };
            let Some((value, rest)) = piece(rest) else {
                break;
            };
            entries.push(Entry::Record {
                key: Bytes::copy_from_slice(key),
                value: (flags & HAS_VALUE != 0).then(|| Bytes::copy_from_slice(value)),
                producer: (flags & TRANSACTIONAL != 0).then_some(producer),
            });
            input = rest;
        }
        entries
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Entry::Marker {
                producer,
                committed,
            } => {
                let committed = if *committed { COMMITTED } else { 0 };
                out.extend([MARKER | committed, *producer as u8]);
            }
            Entry::Record {
                key,
                value,
                producer,
            } => {
                let mut flags = 0;
                flags |= if value.is_some() { HAS_VALUE } else { 0 };
                flags |= if producer.is_some() { TRANSACTIONAL } else { 0 };
                let value = value.as_deref().unwrap_or_default();
                out.extend([flags, producer.unwrap_or(0) as u8]);
                for piece in [&key[..], value] {
                    out.extend((piece.len() as u16).to_be_bytes());
                    out.extend_from_slice(piece);
                }
            }
        }
    }
}

/// The first piece of an input, behind its length in two bytes, and the rest.
fn piece(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = input.split_first_chunk()?;
    Some(rest.split_at(usize::from(u16::from_be_bytes(*len)).min(rest.len())))
}

/// Two topics.
pub struct Topics;

const NAMES: [(&str, u8, i32); 2] = [("t", 1, 4), ("u", 2, 2)];

impl coord::Topics for Topics {
    fn topic(&self, name: &str) -> Option<(Uuid, i32)> {
        let found = NAMES.iter().find(|(known, _, _)| *known == name);
        found.map(|(_, id, partitions)| (Uuid([*id; 16]), *partitions))
    }

    fn name(&self, id: Uuid) -> Option<&str> {
        let found = NAMES.iter().find(|(_, known, _)| Uuid([*known; 16]) == id);
        found.map(|(name, _, _)| *name)
    }

    fn names(&self) -> Vec<&str> {
        NAMES.iter().map(|(name, _, _)| *name).collect()
    }

    fn racks(&self, _name: &str) -> Vec<Vec<&str>> {
        Vec::new()
    }

    fn version(&self) -> u64 {
        0
    }

    fn names_version(&self) -> u64 {
        0
    }
}

/// Wall time of the first moment.
const BEGUN_MS: u64 = 1_700_000_000_000;
/// No step is larger than a batch may be by far; what nobody asked for comes in several.
const RECORDS_MAX: usize = 10_000;
/// `max.message.bytes` of the topic.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// One of several questions.
pub fn caller(number: u64) -> Ticket {
    Ticket {
        inbox: InboxId(0),
        key: WaiterKey(number),
        part: 0,
    }
}

pub struct World {
    pub groups: Groups,
    pub log: Vec<Entry>,
    pub told: BTreeMap<Ticket, group::Answer>,
    now_ms: u64,
    callers: u64,
}

impl World {
    /// The coordinator of this log; none where the log holds what cannot be read.
    pub fn load(log: Vec<Entry>) -> Option<World> {
        let settings = Settings {
            initial_rebalance_delay_ms: 0,
            ..Settings::default()
        };
        let mut groups = Groups::new(Arc::new(settings));
        for entry in &log {
            match entry {
                Entry::Marker {
                    producer,
                    committed,
                } => groups.replay_marker(ProducerId(*producer), *committed),
                Entry::Record {
                    key,
                    value,
                    producer,
                } => match GroupRecord::decode(key.clone(), value.clone()) {
                    Ok(record) => {
                        let producer = producer.map(|id| (ProducerId(id), ProducerEpoch(0)));
                        groups.replay(&record, producer);
                    }
                    // A kind that only a newer node knows.
                    Err(DecodeError::ApiKey { .. }) => {}
                    Err(_) => return None,
                },
            }
        }
        let mut world = World {
            groups,
            log,
            told: BTreeMap::new(),
            now_ms: 1_000,
            callers: 0,
        };
        world.groups.on_loaded(world.at());
        Some(world)
    }

    fn at(&self) -> Moment {
        Moment {
            now: Instant(self.now_ms * 1_000_000),
            wall: Timestamp((BEGUN_MS + self.now_ms) as i64),
        }
    }

    /// Asks, and lets the time pass that the answer may take.
    pub fn ask(&mut self, ask: group::Ask) -> Option<group::Answer> {
        let caller = self.send(ask);
        for _ in 0..4 {
            if self.told.contains_key(&caller) {
                break;
            }
            self.turn();
        }
        self.told.remove(&caller)
    }

    /// Asks; the answer may come with that to another question.
    pub fn send(&mut self, ask: group::Ask) -> Ticket {
        self.callers += 1;
        let caller = caller(self.callers);
        let step = self.groups.ask(caller, ask, self.at(), &Topics);
        self.perform(step);
        caller
    }

    /// Lets the time pass until something is due, and does it.
    pub fn turn(&mut self) {
        if let Some(due) = self.groups.next_deadline() {
            self.now_ms = self.now_ms.max(due.0.div_ceil(1_000_000));
        }
        for step in self.groups.tick(self.at(), &Topics, BATCH_BYTES_MAX) {
            self.perform(step);
        }
    }

    fn perform(&mut self, step: Step<GroupRecord, group::Answer>) {
        assert!(step.records.len() <= RECORDS_MAX, "a step without bound");
        for record in &step.records {
            let version = record_version(record);
            let (key, value) = record.encode(version).expect("own records encode");
            let again = GroupRecord::decode(key.clone(), value.clone()).expect("and decode");
            self.groups.replay(&again, step.producer);
            self.log.push(Entry::Record {
                key,
                value,
                producer: step.producer.map(|(id, _)| id.0),
            });
        }
        let replies = step.anyway.into_iter().chain(step.answers);
        self.told.extend(replies.map(Reply::into_parts));
    }

    pub fn mark(&mut self, producer: i64, committed: bool) {
        self.groups.replay_marker(ProducerId(producer), committed);
        self.log.push(Entry::Marker {
            producer,
            committed,
        });
    }

    /// All offsets of a group.
    pub fn offsets(&mut self, group_id: &str) -> Result<Vec<FetchedTopic>, ErrorCode> {
        let answer = self.ask(group::Ask::FetchOffsets(FetchOffsets {
            group_id: group_id.to_owned(),
            member_id: None,
            member_epoch: -1,
            topics: None,
            require_stable: false,
        }));
        match answer {
            Some(group::Answer::FetchOffsets(offsets)) => offsets,
            other => panic!("asked for offsets, told {other:?}"),
        }
    }

    /// The durable state is what the log says, and nothing else.
    pub fn check_restart(mut self, group_ids: &[String]) {
        let mut again = World::load(self.log.clone()).expect("the log could be read before");
        for id in group_ids {
            assert_eq!(self.offsets(id), again.offsets(id));
        }
    }
}
