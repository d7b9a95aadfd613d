//! A group, its log, its topics and its clients on a moved clock, for tests.
//!
//! Clients behave as Kafka's: they take over what they are told at once, report what they have when that changed, and drop all of
//! it when they are fenced. After every step the log, compacted, is replayed into a fresh group, which must be the same.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use model::{Instant, PartitionIndex, Timestamp};
use wire::group::GroupRecord;
use wire::{ErrorCode, Uuid};

use super::member::{JOIN, LEAVE, LEAVE_STATIC};
use super::{ConsumerGroup, Context, Settings};
use crate::group::ask::{ConsumerHeartbeat, Standing, TopicPartitions};
use crate::group::{Answer, Client as From, Refusal, record};
use crate::{Moment, Step, Topics};

#[derive(Debug, Default)]
pub(super) struct FakeTopics {
    pub(super) topics: BTreeMap<String, (Uuid, i32)>,
    pub(super) version: u64,
    names_version: u64,
}

impl Topics for FakeTopics {
    fn topic(&self, name: &str) -> Option<(Uuid, i32)> {
        self.topics.get(name).copied()
    }

    fn name(&self, id: Uuid) -> Option<&str> {
        (self.topics.iter())
            .find(|(_, (it, _))| *it == id)
            .map(|(name, _)| name.as_str())
    }

    fn names(&self) -> Vec<&str> {
        self.topics.keys().map(String::as_str).collect()
    }

    fn racks(&self, _: &str) -> Vec<Vec<&str>> {
        Vec::new()
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn names_version(&self) -> u64 {
        self.names_version
    }
}

impl FakeTopics {
    /// Creates, grows, or deletes (0) a topic. A topic that comes again has another id.
    pub(super) fn set(&mut self, name: &str, partitions: i32) {
        self.version += 1;
        if partitions == 0 || !self.topics.contains_key(name) {
            self.names_version += 1;
        }
        if partitions == 0 {
            self.topics.remove(name);
        } else {
            let mut id = [0; 16];
            id[0] = name.as_bytes()[0];
            id[8..].copy_from_slice(&self.version.to_be_bytes());
            let topic = self.topics.entry(name.to_owned());
            topic.or_insert((Uuid(id), 0)).1 = partitions;
        }
    }
}

pub(super) type TestPartition = (Uuid, i32);

/// The outcome of a heartbeat.
pub(super) struct Told(pub(super) Result<Standing, Refusal>);

#[derive(Clone, Debug, Default)]
pub(super) struct TestClient {
    pub(super) id: String,
    pub(super) instance: Option<String>,
    pub(super) names: Vec<String>,
    pub(super) pattern: Option<String>,
    pub(super) assignor: Option<String>,
    pub(super) epoch: i32,
    pub(super) has: BTreeSet<TestPartition>,
    reported: Option<BTreeSet<TestPartition>>,
}

pub(super) struct World {
    pub(super) topics: FakeTopics,
    pub(super) group: ConsumerGroup,
    /// Compacted: of each key the last record, unless that is a tombstone.
    log: Vec<(Bytes, GroupRecord)>,
    pub(super) settings: Settings,
    pub(super) batch_bytes_max: usize,
    pub(super) at: Moment,
    pub(super) clients: BTreeMap<String, TestClient>,
    /// Bytes of the largest batch.
    pub(super) largest: usize,
    fresh: u8,
}

pub(super) const REBALANCE_MS: i32 = 60_000;

impl World {
    pub(super) fn new() -> Self {
        World {
            topics: FakeTopics::default(),
            group: ConsumerGroup::new("g"),
            log: Vec::new(),
            settings: Settings::default(),
            batch_bytes_max: 1 << 20,
            at: Moment {
                now: Instant(1_000_000),
                wall: Timestamp(1_700_000_000_000),
            },
            clients: BTreeMap::new(),
            largest: 0,
            fresh: 0,
        }
    }

    pub(super) fn cx<'a>(
        topics: &'a FakeTopics,
        settings: &'a Settings,
        at: Moment,
    ) -> Context<'a> {
        Context {
            at,
            topics,
            settings,
        }
    }

    pub(super) fn pass(&mut self, ms: i64) {
        self.at.now.0 += ms.unsigned_abs() * 1_000_000;
        self.at.wall.0 += ms;
    }

    /// Takes a step as a driver does.
    pub(super) fn take(&mut self, step: Step<GroupRecord, Answer>) -> Vec<Answer> {
        self.largest = self.largest.max(record::size(&step.records));
        for record in &step.records {
            // As the log would hold it: records that do not survive it would not survive a restart.
            let (key, value) = record.encode(record.max_version()).expect("a record");
            let record = GroupRecord::decode(key.clone(), value.clone()).expect("a record");
            self.group.replay(&record);
            self.log.retain(|(known, _)| *known != key);
            if value.is_some() {
                self.log.push((key, record));
            }
        }
        self.assert_restartable();
        step.answers
            .into_iter()
            .map(|reply| reply.into_parts().1)
            .collect()
    }

    pub(super) fn replayed(&self) -> ConsumerGroup {
        let mut group = ConsumerGroup::new("g");
        (self.log.iter()).for_each(|(_, record)| group.replay(record));
        group
    }

    fn assert_restartable(&self) {
        assert_eq!(self.replayed().durable(), self.group.durable());
    }

    pub(super) fn restart(&mut self) {
        self.group = self.replayed();
        let cx = Self::cx(&self.topics, &self.settings, self.at);
        self.group.on_loaded(&cx);
    }

    /// Ticks as they are wanted, until none is.
    pub(super) fn look_to_the_end(&mut self) {
        while let Some(next) = self.group.lookout.next() {
            let ms = next.0.saturating_sub(self.at.now.0).div_ceil(1_000_000);
            self.pass(ms.cast_signed());
            self.tick();
        }
    }

    pub(super) fn tick(&mut self) {
        let cx = Self::cx(&self.topics, &self.settings, self.at);
        let step = self.group.tick(&cx, self.batch_bytes_max);
        self.take(step);
    }

    /// Sends a heartbeat that is already made.
    pub(super) fn send(&mut self, beat: ConsumerHeartbeat) -> Told {
        self.fresh = self.fresh.wrapping_add(1);
        let beat = ConsumerHeartbeat {
            client: From {
                id: "client".into(),
                host: "/host".into(),
            },
            fresh: Uuid([self.fresh; 16]),
            ..beat
        };
        let cx = Self::cx(&self.topics, &self.settings, self.at);
        let step = self.group.heartbeat(crate::caller(&beat), &beat, &cx);
        let mut answers = self.take(step);
        match answers.pop() {
            Some(Answer::ConsumerHeartbeat(told)) if answers.is_empty() => Told(told),
            other => panic!("{other:?} {answers:?}"),
        }
    }

    /// The next heartbeat of a client, with `change` made to it.
    pub(super) fn beat(&mut self, name: &str, change: impl FnOnce(&mut ConsumerHeartbeat)) -> Told {
        let client = self.clients.entry(name.to_owned()).or_default();
        if client.id.is_empty() {
            client.id = name.to_owned();
        }
        let joins = client.epoch == JOIN;
        let mut beat = ConsumerHeartbeat {
            group_id: "g".into(),
            member_id: client.id.clone(),
            member_epoch: client.epoch,
            instance_id: client.instance.clone(),
            brings_member_id: true,
            ..ConsumerHeartbeat::default()
        };
        if joins || client.reported.as_ref() != Some(&client.has) {
            beat.owned = Some(report(&client.has));
        }
        if joins {
            beat.rebalance_timeout_ms = Some(REBALANCE_MS);
            beat.topic_names = Some(client.names.clone());
            beat.pattern.clone_from(&client.pattern);
            beat.assignor.clone_from(&client.assignor);
        }
        change(&mut beat);
        let sent = beat.owned.is_some().then(|| client.has.clone());
        let told = self.send(beat);
        let client = self.clients.entry(name.to_owned()).or_default();
        client.take(&told, sent);
        told
    }

    pub(super) fn show(&self, told: &Told) -> String {
        let standing = match &told.0 {
            Ok(standing) => standing,
            Err(refusal) => return refusal.code.name().to_owned(),
        };
        let mut text = standing.member_epoch.to_string();
        if let Some(assignment) = &standing.assignment {
            text.push(':');
            let mut places: Vec<(String, i32)> = (assignment.iter())
                .flat_map(|topic| {
                    let name = self.topics.name(topic.topic_id).unwrap_or("?").to_owned();
                    topic.partitions.iter().map(move |it| (name.clone(), it.0))
                })
                .collect();
            places.sort();
            for (name, partition) in places {
                text.push_str(&format!(" {name}{partition}"));
            }
        }
        text
    }
}

impl TestClient {
    fn take(&mut self, told: &Told, sent: Option<BTreeSet<TestPartition>>) {
        let standing = match &told.0 {
            Ok(standing) => standing,
            Err(refusal) => {
                // Fenced: everything is dropped, and the client joins again.
                let fences = [ErrorCode::FencedMemberEpoch, ErrorCode::UnknownMemberId];
                if fences.contains(&refusal.code) {
                    self.drop_all();
                }
                return;
            }
        };
        if let Some(sent) = sent {
            self.reported = Some(sent);
        }
        self.epoch = match standing.member_epoch {
            LEAVE | LEAVE_STATIC => {
                self.drop_all();
                return;
            }
            epoch => epoch,
        };
        if let Some(assignment) = &standing.assignment {
            self.has = (assignment.iter())
                .flat_map(|it| it.partitions.iter().map(|index| (it.topic_id, index.0)))
                .collect();
        }
    }

    pub(super) fn drop_all(&mut self) {
        self.epoch = JOIN;
        self.has.clear();
        self.reported = None;
    }
}

pub(super) fn report(has: &BTreeSet<TestPartition>) -> Vec<TopicPartitions> {
    let mut topics: BTreeMap<Uuid, Vec<PartitionIndex>> = BTreeMap::new();
    for &(topic, partition) in has {
        let partitions = topics.entry(topic).or_default();
        partitions.push(PartitionIndex(partition));
    }
    (topics.into_iter())
        .map(|(topic_id, partitions)| TopicPartitions {
            topic_id,
            partitions,
        })
        .collect()
}

impl ConsumerGroup {
    /// The state that a restart must bring back.
    pub(super) fn durable(&self) -> String {
        let owners: BTreeMap<_, _> = self.owners.iter().collect();
        format!(
            "{:?}",
            (
                (
                    self.epoch,
                    self.has_epoch,
                    self.metadata_hash,
                    self.assignment_epoch,
                    self.assigned_at
                ),
                (
                    &self.members,
                    &self.target,
                    &self.resolved,
                    self.has_partition_metadata
                ),
                (
                    &self.statics,
                    &self.name_counts,
                    &self.pattern_counts,
                    (self.guests_count, &self.protocol_counts),
                    owners
                ),
            )
        )
    }
}
