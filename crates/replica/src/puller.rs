//! One fetch session: partitions that this broker follows at one other broker.
//!
//! A request names only the partitions that changed since the one before: new ones, those that were cut,
//! and those of which more is synced here. Two requests are under way at most: one waits at the leader for records, and the other
//! one reports what is synced, which has the leader answer the first. Answers come in the order of the requests. The requests of a bulk
//! session go when all that came is synced, so that no more is asked of a disk than it takes. So do those to a leader of Kafka, one at
//! a time: it takes the fetch offset for what is synced. A partition that cannot go on rests by itself; a link that is lost rests,
//! and then all partitions are fetched in a new session.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use model::lineage::EpochEnd;
use model::{BrokerId, Instant, LeaderEpoch, Offset, PartitionIndex};
use wire::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic, ReplicaState};
use wire::messages::fetch_response::PartitionData;
use wire::messages::{FetchRequest, FetchResponse};
use wire::{ErrorCode, Records, Uuid};

/// Requests of a session under way.
const UNDER_WAY_MAX: usize = 2;

/// Metadata that one broker has come to the other one about as soon.
const METADATA_WAIT: Duration = Duration::from_millis(20);

pub type Key = (Uuid, PartitionIndex);

/// Where a replica stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    pub end: Offset,
    /// Epoch of its last record.
    pub last_epoch: LeaderEpoch,
    pub log_start: Offset,
    /// Everything below is on its disk.
    pub synced: Offset,
}

/// The bounds of requests, as the settings have them.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// So long the leader keeps a request for which it has no records.
    pub wait_max: Duration,
    /// 0 asks for no records, and reports what is synced.
    pub bytes_max: i32,
    pub partition_bytes_max: i32,
    /// A partition that was refused, or a link that was lost, rests so long.
    pub backoff: Duration,
}

/// A consequence of an answer, for the driver.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Append these, if there are any, and believe what the leader says of its log. [`Puller::on_moved`] reports the new end.
    Take {
        key: Key,
        epoch: LeaderEpoch,
        records: Option<Bytes>,
        high_watermark: Offset,
        log_start: Offset,
    },
    /// The logs part: cut, and report with [`Puller::on_cut`].
    Cut {
        key: Key,
        epoch: LeaderEpoch,
        told: EpochEnd,
    },
    /// The leader's log begins behind the end of this one, with a record of this epoch: restart the log there, and report with
    /// [`Puller::on_cut`].
    Restart {
        key: Key,
        epoch: LeaderEpoch,
        at: EpochEnd,
    },
    /// The leader refuses the partition; it is asked again later.
    Refused { key: Key, code: ErrorCode },
}

/// Which of the two sessions with a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Partitions that are at the end of the leader's log, or near.
    Tail,
    /// Partitions that have far to go.
    Bulk,
}

#[derive(Debug)]
struct Part {
    epoch: LeaderEpoch,
    at: Point,
    /// The leader is to forget what it has sent of this partition.
    is_new: bool,
    /// Answers to requests before this one mean nothing for it.
    listed_in: u64,
    /// Until when the partition is left out of requests; for ever with `Some(None)`.
    rests: Option<Option<Instant>>,
}

/// See the module.
#[derive(Debug)]
pub struct Puller {
    me: BrokerId,
    way: Way,
    /// The leader counts what is synced here, and not what it was asked for.
    counts_synced: bool,
    /// The registration that the session is of; -1 before the first.
    broker_epoch: i64,
    session: Session,
    parts: BTreeMap<Key, Part>,
    changed: BTreeSet<Key>,
    forgotten: BTreeSet<Key>,
    /// Fetched partitions whose logs have more than is synced.
    unsynced: BTreeSet<Key>,
    /// Partitions that are asked for again, and when.
    resting: BTreeSet<(Instant, Key)>,
    /// Numbers of the requests under way.
    under_way: VecDeque<u64>,
    last_number: u64,
    /// Number of the request that began the session; those before it were of another one. `u64::MAX` before there is one.
    begun_in: u64,
    /// The link rests.
    rests_until: Option<Instant>,
}

/// The session as the leader knows it; id and epoch are 0 for one that is to be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Session {
    id: i32,
    epoch: i32,
}

impl Puller {
    #[must_use]
    pub fn new(me: BrokerId, way: Way) -> Puller {
        Puller {
            me,
            way,
            counts_synced: false,
            broker_epoch: -1,
            session: Session::default(),
            parts: BTreeMap::new(),
            changed: BTreeSet::new(),
            forgotten: BTreeSet::new(),
            unsynced: BTreeSet::new(),
            resting: BTreeSet::new(),
            under_way: VecDeque::new(),
            last_number: 0,
            begun_in: u64::MAX,
            rests_until: None,
        }
    }

    /// True if nothing is followed there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    #[must_use]
    pub fn has(&self, key: Key) -> bool {
        self.parts.contains_key(&key)
    }

    /// The epoch in which a partition is followed, and where it is; `None` if it rests.
    #[must_use]
    pub fn place(&self, key: Key) -> Option<(LeaderEpoch, Point)> {
        let part = self.parts.get(&key).filter(|part| part.rests.is_none())?;
        Some((part.epoch, part.at))
    }

    /// True if nothing is under way, and all that came is synced.
    #[must_use]
    pub fn is_in_step(&self) -> bool {
        self.under_way.is_empty() && self.unsynced.is_empty()
    }

    /// Follows a partition from `at` on, in a leader epoch.
    pub fn follow(&mut self, key: Key, epoch: LeaderEpoch, at: Point) {
        self.drop_part(key);
        let part = Part {
            epoch,
            at,
            is_new: true,
            listed_in: u64::MAX,
            rests: None,
        };
        self.parts.insert(key, part);
        self.forgotten.remove(&key);
        self.changed.insert(key);
        self.look_at_synced(key);
    }

    pub fn unfollow(&mut self, key: Key) {
        if self.drop_part(key) {
            self.changed.remove(&key);
            self.forgotten.insert(key);
        }
    }

    fn look_at_synced(&mut self, key: Key) {
        let is_unsynced = |part: &Part| part.rests.is_none() && part.at.synced < part.at.end;
        if self.parts.get(&key).is_some_and(is_unsynced) {
            self.unsynced.insert(key);
        } else {
            self.unsynced.remove(&key);
        }
    }

    fn drop_part(&mut self, key: Key) -> bool {
        let part = self.parts.remove(&key);
        self.unsynced.remove(&key);
        if let Some(until) = part.as_ref().and_then(|part| part.rests.flatten()) {
            self.resting.remove(&(until, key));
        }
        part.is_some()
    }

    /// The log has grown, or more of it is synced. A log that has less than was reported is another one: all of it is reported again.
    pub fn on_moved(&mut self, key: Key, at: Point) {
        let is_less = |part: &Part| at.end < part.at.end || at.synced < part.at.synced;
        if self.parts.get(&key).is_some_and(is_less) {
            return self.on_cut(key, at);
        }
        if let Some(part) = self.parts.get_mut(&key) {
            // The leader knows what it has sent.
            let is_news = part.at.synced != at.synced || part.at.log_start != at.log_start;
            part.at = at;
            if is_news && part.rests.is_none() {
                self.changed.insert(key);
            }
        }
        self.look_at_synced(key);
    }

    /// The log was truncated or restarted, or what was sent could not be taken: the leader continues at its end.
    pub fn on_cut(&mut self, key: Key, at: Point) {
        if let Some(part) = self.parts.get_mut(&key) {
            (part.at, part.is_new, part.listed_in) = (at, true, u64::MAX);
            if part.rests.is_none() {
                self.changed.insert(key);
            }
        }
        self.look_at_synced(key);
    }

    /// The partition cannot go on here; it is asked for again after a pause, or under another leader if there is none.
    pub fn rest(&mut self, key: Key, until: Option<Instant>) {
        if let Some(part) = self.parts.get_mut(&key) {
            if let Some(before) = part.rests.flatten() {
                self.resting.remove(&(before, key));
            }
            (part.is_new, part.listed_in, part.rests) = (true, u64::MAX, Some(until));
            self.resting.extend(until.map(|until| (until, key)));
            self.changed.remove(&key);
            self.forgotten.insert(key);
        }
        self.look_at_synced(key);
    }

    /// Has those among the partitions rest that `is_held`.
    pub fn hold(&mut self, is_held: impl Fn(Key) -> bool, until: Option<Instant>) {
        let awake = self.parts.iter().filter(|(_, part)| part.rests.is_none());
        let held: Vec<Key> = (awake.map(|(key, _)| *key))
            .filter(|key| is_held(*key))
            .collect();
        held.into_iter().for_each(|key| self.rest(key, until));
    }

    /// When something that rests is asked for again.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let first = self.resting.first().map(|(until, _)| *until);
        first.into_iter().chain(self.rests_until).min()
    }

    /// The next request, if one is to go now. A broker that has not registered asks for nothing: a leader cannot distinguish its word from that of
    /// an earlier life. Each registration begins a new session, in which all partitions are reported again (KIP-903).
    pub fn request(
        &mut self,
        broker_epoch: i64,
        terms: Terms,
        now: Instant,
    ) -> Option<FetchRequest> {
        if self.rests_until.is_some_and(|until| now < until) {
            return None;
        }
        self.rests_until = None;
        self.wake(now);
        let at_once = if self.counts_synced { UNDER_WAY_MAX } else { 1 };
        let has_synced = self.way == Way::Tail && self.counts_synced || self.unsynced.is_empty();
        if broker_epoch < 0 || at_once <= self.under_way.len() || !has_synced {
            return None;
        }
        // A leader of Kafka sends a batch whatever the bound is, and hears nothing of what is synced.
        if terms.bytes_max == 0 && !self.counts_synced {
            return None;
        }
        let is_registered_anew = broker_epoch != self.broker_epoch;
        if is_registered_anew {
            self.broker_epoch = broker_epoch;
            self.begin_anew();
        }
        let has_news = !self.changed.is_empty() || !self.forgotten.is_empty();
        let is_any_awake = || self.parts.values().any(|part| part.rests.is_none());
        let is_due = match self.under_way.len() {
            // A leader of Kafka would keep one that asks for nothing, and what wakes meanwhile would wait for it.
            0 => has_news && self.counts_synced || is_any_awake(),
            // A session is made by the answer to its first request.
            _ => is_registered_anew || has_news && self.session.id != 0,
        };
        if !is_due {
            return None;
        }
        self.last_number += 1;
        self.under_way.push_back(self.last_number);
        if self.session.id == 0 {
            self.begun_in = self.last_number;
            let awake = self.parts.iter().filter(|(_, part)| part.rests.is_none());
            self.changed = awake.map(|(key, _)| *key).collect();
            self.forgotten.clear();
        }
        let Session { id, epoch } = self.session;
        if id != 0 {
            self.session.epoch = epoch.checked_add(1).unwrap_or(1);
        }
        Some(FetchRequest {
            replica_state: ReplicaState {
                replica_id: self.me.0,
                replica_epoch: broker_epoch,
            },
            max_wait_ms: i32::try_from(terms.wait_max.as_millis()).unwrap_or(i32::MAX),
            min_bytes: 1,
            max_bytes: terms.bytes_max,
            session_id: id,
            session_epoch: epoch,
            topics: self.listed(terms),
            forgotten_topics_data: self.unlisted(),
            ..FetchRequest::default()
        })
    }

    fn wake(&mut self, now: Instant) {
        while let Some((until, key)) = self.resting.first().copied()
            && until <= now
        {
            self.resting.pop_first();
            if let Some(part) = self.parts.get_mut(&key) {
                part.rests = None;
                self.changed.insert(key);
                self.look_at_synced(key);
            }
        }
    }

    fn listed(&mut self, terms: Terms) -> Vec<FetchTopic> {
        let mut topics: Vec<FetchTopic> = Vec::new();
        for key in std::mem::take(&mut self.changed) {
            let Some(part) = self.parts.get_mut(&key) else {
                continue;
            };
            let is_new = std::mem::take(&mut part.is_new);
            if is_new {
                part.listed_in = self.last_number;
            }
            let listed = FetchPartition {
                partition: key.1.0,
                current_leader_epoch: part.epoch.0,
                fetch_offset: part.at.end.0,
                last_fetched_epoch: part.at.last_epoch.0,
                log_start_offset: part.at.log_start.0,
                partition_max_bytes: terms.partition_bytes_max,
                synced_offset: part.at.synced.0,
                is_restart: is_new,
                ..FetchPartition::default()
            };
            match topics.last_mut().filter(|topic| topic.topic_id == key.0) {
                Some(topic) => topic.partitions.push(listed),
                None => topics.push(FetchTopic {
                    topic_id: key.0,
                    partitions: vec![listed],
                    ..FetchTopic::default()
                }),
            }
        }
        topics
    }

    fn unlisted(&mut self) -> Vec<ForgottenTopic> {
        let mut topics: Vec<ForgottenTopic> = Vec::new();
        for (id, index) in std::mem::take(&mut self.forgotten) {
            // One that is asked for again is listed already.
            if self
                .parts
                .get(&(id, index))
                .is_some_and(|part| part.rests.is_none())
            {
                continue;
            }
            match topics.last_mut().filter(|topic| topic.topic_id == id) {
                Some(topic) => topic.partitions.push(index.0),
                None => topics.push(ForgottenTopic {
                    topic_id: id,
                    partitions: vec![index.0],
                    ..ForgottenTopic::default()
                }),
            }
        }
        topics
    }

    /// The link was lost, or cannot be made: a new session begins after a pause.
    pub fn on_lost(&mut self, terms: Terms, now: Instant) {
        self.under_way.clear();
        self.begin_anew();
        self.rests_until = Some(now.plus(terms.backoff));
    }

    /// The leader answered the oldest request under way.
    pub fn on_answer(&mut self, response: FetchResponse, terms: Terms, now: Instant) -> Vec<Step> {
        let Some(number) = self.under_way.pop_front() else {
            return Vec::new();
        };
        self.counts_synced = response.counts_synced;
        if response.error_code != 0 {
            // The end of a session that is over already says nothing about the request that began the next one.
            if number < self.begun_in && self.begun_in != u64::MAX {
                return Vec::new();
            }
            // The leader has forgotten the session, or cannot have one.
            self.begin_anew();
            if response.error_code != ErrorCode::FetchSessionIdNotFound.code() {
                self.rests_until = Some(now.plus(terms.backoff));
            }
            return Vec::new();
        }
        if number == self.begun_in && response.session_id != 0 {
            self.session = Session {
                id: response.session_id,
                epoch: 1,
            };
        }
        let mut steps = Vec::new();
        for topic in response.responses {
            for data in topic.partitions {
                let key = (topic.topic_id, PartitionIndex(data.partition_index));
                let Some(part) = self.parts.get(&key) else {
                    continue;
                };
                if number < part.listed_in || part.rests.is_some() {
                    continue;
                }
                let epoch = part.epoch;
                let step = read(key, epoch, data);
                match &step {
                    Step::Refused { code, .. } => {
                        let pause = if is_of_metadata(*code) {
                            METADATA_WAIT.min(terms.backoff)
                        } else {
                            terms.backoff
                        };
                        self.rest(key, Some(now.plus(pause)));
                    }
                    // Answers under way behind this one are of the log that was.
                    Step::Cut { .. } | Step::Restart { .. } => {
                        if let Some(part) = self.parts.get_mut(&key) {
                            part.listed_in = u64::MAX;
                        }
                    }
                    Step::Take { .. } => {}
                }
                steps.push(step);
            }
        }
        steps
    }

    fn begin_anew(&mut self) {
        (self.session, self.begun_in) = (Session::default(), u64::MAX);
        self.forgotten.clear();
        for part in self.parts.values_mut() {
            (part.is_new, part.listed_in) = (true, u64::MAX);
        }
    }
}

/// One of the two brokers has not heard of a change of the metadata that the other one has.
fn is_of_metadata(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NotLeaderOrFollower
            | ErrorCode::UnknownLeaderEpoch
            | ErrorCode::FencedLeaderEpoch
            | ErrorCode::UnknownTopicId
    )
}

/// The meaning of one partition of an answer.
fn read(key: Key, epoch: LeaderEpoch, data: PartitionData) -> Step {
    let told = EpochEnd {
        epoch: LeaderEpoch(data.diverging_epoch.epoch),
        end: Offset(data.diverging_epoch.end_offset),
    };
    let code = ErrorCode::try_from(data.error_code).unwrap_or(ErrorCode::UnknownServerError);
    match code {
        ErrorCode::None if 0 <= told.end.0 => Step::Cut { key, epoch, told },
        ErrorCode::None => Step::Take {
            key,
            epoch,
            records: data.records.and_then(|records| match records {
                Records::Bytes(bytes) if !bytes.is_empty() => Some(bytes),
                _ => None,
            }),
            high_watermark: Offset(data.high_watermark),
            log_start: Offset(data.log_start_offset),
        },
        ErrorCode::OffsetOutOfRange if 0 <= told.end.0 => Step::Restart {
            key,
            epoch,
            at: told,
        },
        _ => Step::Refused { key, code },
    }
}

#[cfg(test)]
mod tests;
