//! Groups of one partition of `__consumer_offsets`: members, generations, assignments, committed offsets.
//!
//! Owns every group whose id hashes to that partition. Invariant: what `replay` does to the durable state depends on the
//! records alone, so that a restart ends where this process was. Between `ask` or `tick` and the replay of their records
//! nothing else may be asked. A group without members whose offsets are all that is known of it has no entry of its own.

mod admin;
pub mod ask;
mod beat;
mod classic;
pub mod consumer;
mod dispatch;
mod entry;
mod mixed;
mod offsets;
mod record;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{Instant, ProducerEpoch, ProducerId, Ticket};
use wire::group::{GroupRecord, OffsetCommitKey};

use self::classic::Classic;
use self::consumer::{Context, HandedBack};
use self::entry::{Entry, Group};
use self::offsets::{LookFrom, Offsets, Retention};
use crate::{Moment, Step, Topics};

pub use self::ask::{Answer, Ask, Client, Refusal};
pub use self::classic::{ClassicState, Rebalance};
pub use self::record::record_version;
pub use self::settings::Settings;

type Out = Step<GroupRecord, Answer>;

/// For those that are not asked about topics.
struct NoTopics;

impl Topics for NoTopics {
    fn topic(&self, _name: &str) -> Option<(wire::Uuid, i32)> {
        None
    }

    fn name(&self, _id: wire::Uuid) -> Option<&str> {
        None
    }

    fn names(&self) -> Vec<&str> {
        Vec::new()
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Foreign {
    Share,
    Streams,
}

/// The groups of one partition.
#[derive(Debug, Default)]
pub struct Groups {
    settings: Arc<Settings>,
    groups: BTreeMap<Arc<str>, Entry>,
    /// Groups by when they want a tick.
    wakes: BTreeSet<(Instant, Arc<str>)>,
    offsets: Offsets,
    /// Deleted topics whose offsets are not all removed yet.
    gone_topics: BTreeSet<String>,
    gone_at: Option<Instant>,
    /// The first that the last step removed of them. Still there, the step was refused.
    gone_tried: Option<OffsetCommitKey>,
    /// When expired offsets are looked for next; None before the log is loaded.
    retention_at: Option<Instant>,
    /// Where that look goes on, when it was too much for one step.
    retention_from: Option<(Arc<str>, LookFrom)>,
    /// Share and streams groups, which a Kafka log may have and this coordinator has not. Kafka cannot load a log in which a consumer
    /// group took the id of one, nor if a classic group did so in between: compaction may leave nothing of that.
    foreign: BTreeMap<String, Foreign>,
    /// Why a classic group is to be a consumer group, from the step that says so to the replay of its records.
    changed_over: Option<Rebalance>,
    /// The other way round, from the removal of the consumer group to the record of the classic one.
    handed_back: Option<(Arc<str>, HandedBack)>,
}

impl Groups {
    #[must_use]
    pub fn new(settings: Arc<Settings>) -> Self {
        Groups {
            settings,
            ..Groups::default()
        }
    }

    /// The settings that hold from now on. A timer that runs ends as it began; the next one is set anew.
    pub fn set_settings(&mut self, settings: Arc<Settings>) {
        self.settings = settings;
    }

    /// Takes in one record, when it was appended or at load. `producer` is set for offsets of a transaction.
    pub fn replay(&mut self, record: &GroupRecord, producer: Option<(ProducerId, ProducerEpoch)>) {
        match record {
            GroupRecord::OffsetCommit(key, value) => {
                let producer = producer.map(|(id, _)| id);
                self.offsets.replay(key, value.as_ref(), producer);
            }
            GroupRecord::LegacyOffsetCommit(key, value) => {
                let (key, value) = record::as_offset(key, value.as_ref());
                let producer = producer.map(|(id, _)| id);
                self.offsets.replay(&key, value.as_ref(), producer);
            }
            GroupRecord::ShareGroupMetadata(key, value) => {
                self.replay_foreign(&key.group_id, value.as_ref().map(|_| Foreign::Share));
            }
            GroupRecord::StreamsGroupMetadata(key, value) => {
                self.replay_foreign(&key.group_id, value.as_ref().map(|_| Foreign::Streams));
            }
            GroupRecord::GroupMetadata(key, Some(value)) => {
                // A group that was of the other protocol has lost its records before.
                let is_classic = |entry: &Entry| matches!(entry.group, Group::Classic(_));
                let is_new = !self.groups.get(key.group.as_str()).is_some_and(is_classic);
                if is_new {
                    self.remove(&key.group);
                }
                let is_loaded = self.retention_at.is_some();
                let handed_back = self.handed_back.take().filter(|(id, _)| **id == *key.group);
                let handed_back = handed_back.map(|(_, handed_back)| handed_back);
                let entry = self.classic_entry(&key.group, model::Timestamp::NONE);
                entry.is_written = true;
                if let Some(classic) = entry.group.classic() {
                    classic.replay(value);
                    if is_new && is_loaded {
                        classic.take_over(handed_back);
                    }
                }
                self.on_group_changed(&key.group);
            }
            GroupRecord::GroupMetadata(key, None) => {
                let is_classic = |entry: &Entry| matches!(entry.group, Group::Classic(_));
                if self.groups.get(key.group.as_str()).is_some_and(is_classic) {
                    self.remove(&key.group);
                }
            }
            record => self.replay_consumer(record),
        }
    }

    /// The transaction of `producer` ended: its pending offsets count now, or never will.
    pub fn replay_marker(&mut self, producer: ProducerId, committed: bool) {
        self.offsets.replay_marker(producer, committed);
    }

    /// Every record is in: sessions of the members that were there begin now.
    pub fn on_loaded(&mut self, at: Moment) {
        let ids: Vec<Arc<str>> = self.groups.keys().cloned().collect();
        for id in ids {
            if let Some(entry) = self.groups.get_mut(&id) {
                match &mut entry.group {
                    Group::Classic(classic) => classic.on_loaded(at, self.settings.members_max),
                    Group::Consumer(consumer) => consumer.on_loaded(&Context {
                        at,
                        topics: &NoTopics,
                        settings: self.settings.consumer_of(&id),
                    }),
                }
            }
            self.on_group_changed(&id);
        }
        self.retention_at = Some(at.now.plus(self.retention_interval()));
    }

    pub fn ask(
        &mut self,
        ticket: Ticket,
        ask: Ask,
        at: Moment,
        topics: &dyn Topics,
    ) -> Step<GroupRecord, Answer> {
        self.dispatch(ticket, ask, at, topics)
    }

    /// Sessions, rebalances and offsets whose time is up. Each group has a step of its own, and what the log does not take of one
    /// is no matter of the others; a batch may have `batch_bytes_max`.
    pub fn tick(
        &mut self,
        at: Moment,
        topics: &dyn Topics,
        batch_bytes_max: usize,
    ) -> Vec<Step<GroupRecord, Answer>> {
        let mut steps = Vec::new();
        let mut room = record::step_bytes_max(usize::MAX);
        // Each once: what it decides next depends on the replay of what it decides now.
        let due: Vec<Arc<str>> = self
            .wakes
            .iter()
            .take_while(|(when, _)| *when <= at.now)
            .map(|(_, id)| Arc::clone(id))
            .collect();
        for id in due {
            if room == 0 {
                return steps;
            }
            if let Some(entry) = self.groups.get_mut(&id) {
                let step = match &mut entry.group {
                    Group::Classic(classic) => classic.tick(at, &self.settings),
                    Group::Consumer(consumer) => {
                        let cx = Context {
                            at,
                            topics,
                            settings: self.settings.consumer_of(&id),
                        };
                        consumer.tick(&cx, batch_bytes_max)
                    }
                };
                let bytes = record::gone_size(&id, "") + record::size(&step.records);
                room = room.saturating_sub(bytes);
                if step != Out::default() {
                    steps.push(step);
                }
            }
            self.on_group_changed(&id);
        }
        if self.gone_at.is_some_and(|when| when <= at.now) {
            steps.push(self.remove_gone_topics(at, topics, batch_bytes_max));
        }
        let writes = |step: &Out| !step.records.is_empty();
        if !steps.iter().any(writes) && self.retention_at.is_some_and(|when| when <= at.now) {
            steps.push(Step {
                records: self.expire(at, topics, batch_bytes_max),
                ..Step::default()
            });
        }
        steps
    }

    /// When `tick` is wanted next.
    /// The offsets that groups have committed: group, topic, partition, offset.
    pub fn committed(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, i32, i64)> {
        self.offsets.committed()
    }

    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let groups = self.wakes.first().map(|(when, _)| *when);
        groups
            .into_iter()
            .chain(self.retention_at)
            .chain(self.gone_at)
            .min()
    }

    /// Topics were deleted: offsets that were committed for them go, at once or, if they are many, with the next ticks.
    pub fn on_topics_gone(
        &mut self,
        gone: &[String],
        at: Moment,
        topics: &dyn Topics,
        batch_bytes_max: usize,
    ) -> Step<GroupRecord, Answer> {
        self.gone_topics.extend(gone.iter().cloned());
        self.remove_gone_topics(at, topics, batch_bytes_max)
    }

    /// The same while the log is read: they go with the first tick after that.
    pub fn on_topics_gone_early(&mut self, gone: &[String], at: Moment) {
        self.gone_topics.extend(gone.iter().cloned());
        self.gone_at = Some(at.now);
    }

    /// Deleted topics that another machine of this partition has to see to, if this one is given up.
    pub fn take_gone_topics(&mut self) -> Vec<String> {
        std::mem::take(&mut self.gone_topics).into_iter().collect()
    }

    /// The partition is no longer looked after from here. Everyone who waits is given back, for another answer.
    pub fn abandon(&mut self) -> Vec<Ticket> {
        let classic = self
            .groups
            .values_mut()
            .filter_map(|entry| entry.group.classic());
        classic.flat_map(Classic::abandon).collect()
    }

    /// Why the group left its last generation, while this process remembers it.
    #[must_use]
    pub fn last_rebalance(&self, group_id: &str) -> Option<&Rebalance> {
        match &self.groups.get(group_id)?.group {
            Group::Classic(classic) => classic.last_rebalance(),
            Group::Consumer(consumer) => consumer.last_rebalance(),
        }
    }

    fn replay_foreign(&mut self, id: &str, kind: Option<Foreign>) {
        match kind {
            Some(kind) => self.foreign.insert(id.to_owned(), kind),
            None => self.foreign.remove(id),
        };
    }

    /// The group of this id, made if there is none.
    fn classic_entry(&mut self, id: &str, wall: model::Timestamp) -> &mut Entry {
        let id: Arc<str> = match self.groups.get_key_value(id) {
            Some((id, _)) => Arc::clone(id),
            None => id.into(),
        };
        self.groups.entry(Arc::clone(&id)).or_insert_with(|| Entry {
            group: Group::Classic(Classic::new(id, wall)),
            wake: None,
            is_written: false,
        })
    }

    fn remove(&mut self, id: &str) {
        if let Some((id, entry)) = self.groups.remove_entry(id)
            && let Some(wake) = entry.wake
        {
            self.wakes.remove(&(wake, id));
        }
    }

    /// After every change of a group: its place among the wakes, and whether there is anything left to remember.
    fn on_group_changed(&mut self, id: &str) {
        let Some(entry) = self.groups.get_mut(id) else {
            return;
        };
        // One that had a generation stays, so that the next is higher; a look for expired offsets removes it.
        if !entry.is_written && entry.group.is_unborn() {
            self.remove(id);
            return;
        }
        self.index(id);
    }

    /// The group is among the wakes where it wants to be.
    fn index(&mut self, id: &str) {
        let Some(entry) = self.groups.get_mut(id) else {
            return;
        };
        let wake = entry.group.wake();
        if wake != entry.wake {
            let before = std::mem::replace(&mut entry.wake, wake);
            let Some((id, _)) = self.groups.get_key_value(id) else {
                return;
            };
            if let Some(before) = before {
                self.wakes.remove(&(before, Arc::clone(id)));
            }
            if let Some(wake) = wake {
                self.wakes.insert((wake, Arc::clone(id)));
            }
        }
    }
}
