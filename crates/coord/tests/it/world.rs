//! A coordinator with its log, its clock and its topics: what a driver does, without a disk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coord::group::{Answer, Ask, Groups, Settings, record_version};
use coord::{Moment, Reply, Step, Topics};
use model::{InboxId, Instant, ProducerEpoch, ProducerId, Ticket, Timestamp, WaiterKey};
use wire::Uuid;
use wire::group::GroupRecord;

/// The content of the log, as bytes: a restart reads nothing else.
#[derive(Clone)]
pub(crate) enum Entry {
    Record {
        key: bytes::Bytes,
        value: Option<bytes::Bytes>,
        producer: Option<(ProducerId, ProducerEpoch)>,
    },
    Marker {
        producer: ProducerId,
        committed: bool,
    },
}

impl Entry {
    pub(crate) fn replay(&self, groups: &mut Groups) {
        match self {
            Entry::Record {
                key,
                value,
                producer,
            } => {
                let record = GroupRecord::decode(key.clone(), value.clone()).expect("own record");
                groups.replay(&record, *producer);
            }
            Entry::Marker {
                producer,
                committed,
            } => groups.replay_marker(*producer, *committed),
        }
    }
}

#[derive(Default)]
pub(crate) struct FakeTopics(pub(crate) BTreeMap<String, (Uuid, i32)>);

impl Topics for FakeTopics {
    fn topic(&self, name: &str) -> Option<(Uuid, i32)> {
        self.0.get(name).copied()
    }

    fn name(&self, id: Uuid) -> Option<&str> {
        let mut topics = self.0.iter();
        topics
            .find(|(_, (known, _))| *known == id)
            .map(|(name, _)| name.as_str())
    }

    fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
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

pub(crate) fn topic_id(number: u8) -> Uuid {
    Uuid([number; 16])
}

/// The answer that a caller got, or that its step could not be written.
pub(crate) type Told = Result<Answer, ()>;

pub(crate) fn caller(number: u64) -> Ticket {
    Ticket {
        inbox: InboxId(0),
        key: WaiterKey(number),
        part: 0,
    }
}

pub(crate) struct World {
    pub(crate) groups: Groups,
    pub(crate) settings: Arc<Settings>,
    pub(crate) log: Vec<Entry>,
    pub(crate) topics: FakeTopics,
    pub(crate) now: u64,
    /// Bytes that the log takes as one batch.
    pub(crate) batch_bytes_max: usize,
    /// The next append is refused.
    pub(crate) refuses: bool,
    /// Some append was.
    pub(crate) has_refused: bool,
    pub(crate) told: Vec<(Ticket, Told)>,
    callers: u64,
    fresh: u128,
}

impl World {
    pub(crate) fn new(settings: Settings) -> Self {
        let settings = Arc::new(settings);
        let names = ["t", "u", "v"].iter().zip(1..);
        let topics = names.map(|(name, id)| ((*name).to_owned(), (topic_id(id), 4)));
        let mut world = World {
            groups: Groups::new(Arc::clone(&settings)),
            settings,
            log: Vec::new(),
            topics: FakeTopics(topics.collect()),
            now: 1_000_000,
            batch_bytes_max: 1 << 20,
            refuses: false,
            has_refused: false,
            told: Vec::new(),
            callers: 0,
            fresh: 0,
        };
        world.groups.on_loaded(world.at());
        world
    }

    /// Wall time is monotonic time here, from another origin.
    pub(crate) fn at(&self) -> Moment {
        Moment {
            now: Instant(self.now * 1_000_000),
            wall: Timestamp(i64::try_from(self.now).expect("a time") + 5_000),
        }
    }

    pub(crate) fn fresh(&mut self) -> Uuid {
        self.fresh += 1;
        Uuid(self.fresh.to_be_bytes())
    }

    pub(crate) fn ask(&mut self, ask: Ask) -> Ticket {
        self.callers += 1;
        let caller = caller(self.callers);
        let step = self.groups.ask(caller, ask, self.at(), &self.topics);
        self.perform(step);
        caller
    }

    pub(crate) fn perform(&mut self, step: Step<GroupRecord, Answer>) {
        let anyway = step.anyway.into_iter();
        self.told.extend(anyway.map(|reply| {
            let (caller, answer) = reply.into_parts();
            (caller, Ok(answer))
        }));
        let encode = |record: &GroupRecord| record.encode(record_version(record)).expect("encodes");
        let encoded: Vec<_> = step.records.iter().map(encode).collect();
        let size = |(key, value): &(bytes::Bytes, Option<bytes::Bytes>)| {
            key.len() + value.as_ref().map_or(0, bytes::Bytes::len)
        };
        let is_too_large = encoded.iter().map(size).sum::<usize>() > self.batch_bytes_max;
        let is_refused =
            is_too_large || (!step.records.is_empty() && std::mem::take(&mut self.refuses));
        self.has_refused |= is_refused;
        for (key, value) in encoded.into_iter().filter(|_| !is_refused) {
            let entry = Entry::Record {
                key,
                value,
                producer: step.producer,
            };
            // The machine sees what the log will show it after a restart.
            entry.replay(&mut self.groups);
            self.log.push(entry);
        }
        for (caller, answer) in step.answers.into_iter().map(Reply::into_parts) {
            let told = if is_refused { Err(()) } else { Ok(answer) };
            self.told.push((caller, told));
        }
    }

    pub(crate) fn marker(&mut self, producer: i64, committed: bool) {
        let entry = Entry::Marker {
            producer: ProducerId(producer),
            committed,
        };
        entry.replay(&mut self.groups);
        self.log.push(entry);
    }

    pub(crate) fn topics_gone(&mut self, gone: &[String]) {
        for topic in gone {
            self.topics.0.remove(topic);
        }
        let at = self.at();
        let room = self.batch_bytes_max;
        let step = self.groups.on_topics_gone(gone, at, &self.topics, room);
        self.perform(step);
    }

    /// Time passes; whatever wants a tick on the way gets it on time.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + u64::try_from(time.as_millis()).expect("a time");
        for _ in 0..100_000 {
            match self.groups.next_deadline() {
                Some(deadline) if deadline.0 <= end * 1_000_000 => {
                    self.now = self.now.max(deadline.0.div_ceil(1_000_000));
                    let at = self.at();
                    let steps = self.groups.tick(at, &self.topics, self.batch_bytes_max);
                    for step in steps {
                        self.perform(step);
                    }
                }
                _ => {
                    self.now = end;
                    return;
                }
            }
        }
        panic!("ticks without an end");
    }

    /// A machine that has read this log.
    pub(crate) fn reloaded(&self) -> Groups {
        let mut groups = Groups::new(Arc::clone(&self.settings));
        for entry in &self.log {
            entry.replay(&mut groups);
        }
        groups
    }

    /// A crash, and topics that go while the log is read again.
    pub(crate) fn restart_without(&mut self, gone: &[String]) {
        for topic in gone {
            self.topics.0.remove(topic);
        }
        self.groups = self.reloaded();
        self.groups.on_topics_gone_early(gone, self.at());
        self.groups.on_loaded(self.at());
    }

    /// A crash: whoever waited is gone.
    pub(crate) fn restart(&mut self) {
        self.groups = self.reloaded();
        self.groups.on_loaded(self.at());
    }
}
