//! Incremental fetch sessions (KIP-227): what a client reads is remembered, so that requests carry only changes.
//!
//! A bounded cache per shard; a connection stays on its shard, and a client that comes back on another one is told that its
//! session is unknown, upon which it sends a full request. Decides only: clock and randomness are handed in.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use model::Instant;
use wire::messages::FetchRequest;
use wire::messages::fetch_request::FetchPartition;
use wire::{ErrorCode, Uuid};

/// A session that was used this recently is not evicted for a new one.
const EVICTION_AGE: Duration = Duration::from_secs(120);
/// Partitions that all sessions of a shard together remember, some 150 bytes each. Kafka bounds the sessions alone.
const REMEMBERED_MAX: usize = 1 << 20;
const FINAL_EPOCH: i32 = -1;
const INITIAL_EPOCH: i32 = 0;

/// One partition that a client reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FollowedPartition {
    pub(crate) topic_id: Uuid,
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
}

/// The last answer about a partition; the next one repeats it only when it changed.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    pub(crate) wanted: FetchPartition,
    pub(crate) high_watermark: i64,
    pub(crate) log_start: i64,
    pub(crate) is_told: bool,
}

impl Remembered {
    fn new(wanted: FetchPartition) -> Remembered {
        Remembered {
            wanted,
            high_watermark: -1,
            log_start: -1,
            is_told: false,
        }
    }
}

struct Session {
    epoch: i32,
    /// Its places are named by topic ids, not by names; the two are never the same place.
    uses_ids: bool,
    used: Instant,
    partitions: BTreeMap<FollowedPartition, Remembered>,
    /// Reading starts behind the last partition that filled an answer, so that none starves.
    cursor: Option<FollowedPartition>,
}

pub(crate) struct Sessions {
    sessions: BTreeMap<i32, Session>,
    slots: usize,
    /// Partitions of all sessions.
    remembered: usize,
    remembered_max: usize,
}

/// The part of an answer about a partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) high_watermark: i64,
    pub(crate) log_start: i64,
    pub(crate) content: Content,
}

/// The records that come with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Nothing,
    Records,
    Error,
}

/// How a fetch relates to sessions.
pub(crate) struct Context {
    /// 0: none.
    pub(crate) session_id: i32,
    /// The answer names only what changed.
    pub(crate) is_incremental: bool,
    pub(crate) wanted: Vec<(FollowedPartition, FetchPartition)>,
}

impl Sessions {
    pub(crate) fn new(slots: usize) -> Sessions {
        Sessions {
            sessions: BTreeMap::new(),
            slots,
            remembered: 0,
            remembered_max: REMEMBERED_MAX,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.sessions.len()
    }

    pub(crate) fn open(
        &mut self,
        request: FetchRequest,
        uses_ids: bool,
        now: Instant,
        random: u64,
    ) -> Result<Context, ErrorCode> {
        let (id, epoch) = (request.session_id, request.session_epoch);
        if epoch == FINAL_EPOCH || epoch == INITIAL_EPOCH {
            self.end(id);
            let wanted = places(&request);
            let session_id = if epoch == INITIAL_EPOCH {
                self.create(&wanted, uses_ids, now, random)
            } else {
                0
            };
            return Ok(Context {
                session_id,
                is_incremental: false,
                wanted,
            });
        }
        let session = self
            .sessions
            .get_mut(&id)
            .ok_or(ErrorCode::FetchSessionIdNotFound)?;
        if session.epoch != epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if session.uses_ids != uses_ids {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        session.epoch = if epoch == i32::MAX { 1 } else { epoch + 1 };
        session.used = now;
        for (place, wanted) in places(&request) {
            match session.partitions.entry(place) {
                Entry::Occupied(mut known) => known.get_mut().wanted = wanted,
                Entry::Vacant(_) if self.remembered == self.remembered_max => {
                    // The client then asks for all it wants, and gets no session.
                    self.end(id);
                    return Err(ErrorCode::FetchSessionIdNotFound);
                }
                Entry::Vacant(new) => {
                    self.remembered += 1;
                    new.insert(Remembered::new(wanted));
                }
            }
        }
        for topic in &request.forgotten_topics_data {
            let name: Arc<str> = topic.topic.as_str().into();
            for partition in &topic.partitions {
                let place = FollowedPartition {
                    topic_id: topic.topic_id,
                    topic: Arc::clone(&name),
                    partition: *partition,
                };
                self.remembered -= usize::from(session.partitions.remove(&place).is_some());
            }
        }
        let wanted = session
            .in_turn()
            .map(|(place, known)| (place.clone(), known.wanted.clone()))
            .collect();
        Ok(Context {
            session_id: id,
            is_incremental: true,
            wanted,
        })
    }

    /// Notes what an answer says of a partition; true if it has to be said at all.
    pub(crate) fn note(&mut self, id: i32, place: &FollowedPartition, answered: Answered) -> bool {
        let Some(session) = self.sessions.get_mut(&id) else {
            return true;
        };
        if answered.content == Content::Records {
            session.cursor = Some(place.clone());
        }
        let Some(known) = session.partitions.get_mut(place) else {
            return true;
        };
        let changed = !known.is_told
            || known.high_watermark != answered.high_watermark
            || known.log_start != answered.log_start;
        known.high_watermark = answered.high_watermark;
        known.log_start = answered.log_start;
        // After an error the partition is in the next answer even if nothing else changed.
        known.is_told = answered.content != Content::Error;
        changed || answered.content != Content::Nothing
    }

    fn create(
        &mut self,
        wanted: &[(FollowedPartition, FetchPartition)],
        uses_ids: bool,
        now: Instant,
        random: u64,
    ) -> i32 {
        let has_room = |sessions: &Sessions| {
            sessions.sessions.len() < sessions.slots
                && sessions.remembered + wanted.len() <= sessions.remembered_max
        };
        while !has_room(self) {
            if !self.evict(now) {
                return 0;
            }
        }
        let mut id = ((random >> 33) as i32).max(1);
        while self.sessions.contains_key(&id) {
            id = if id == i32::MAX { 1 } else { id + 1 };
        }
        let partitions: BTreeMap<FollowedPartition, Remembered> = wanted
            .iter()
            .map(|(place, wanted)| (place.clone(), Remembered::new(wanted.clone())))
            .collect();
        self.remembered += partitions.len();
        self.sessions.insert(
            id,
            Session {
                epoch: 1,
                uses_ids,
                used: now,
                partitions,
                cursor: None,
            },
        );
        id
    }

    fn end(&mut self, id: i32) {
        if let Some(session) = self.sessions.remove(&id) {
            self.remembered -= session.partitions.len();
        }
    }

    fn evict(&mut self, now: Instant) -> bool {
        let Some((id, used)) = self
            .sessions
            .iter()
            .map(|(id, session)| (*id, session.used))
            .min_by_key(|(_, used)| *used)
        else {
            return false;
        };
        let is_old = now.since(used) > EVICTION_AGE;
        if is_old {
            self.end(id);
        }
        is_old
    }
}

impl Session {
    fn in_turn(&self) -> impl Iterator<Item = (&FollowedPartition, &Remembered)> {
        use std::ops::Bound;
        let start = self
            .cursor
            .as_ref()
            .map_or(Bound::Unbounded, Bound::Excluded);
        let wrap = self
            .cursor
            .as_ref()
            .map(|cursor| self.partitions.range(..=cursor))
            .into_iter()
            .flatten();
        self.partitions.range((start, Bound::Unbounded)).chain(wrap)
    }
}

/// The partitions that a request names. One that it names again is the one partition, as it was named last: each of them is
/// watched and looked at by itself.
fn places(request: &FetchRequest) -> Vec<(FollowedPartition, FetchPartition)> {
    let mut places: Vec<(FollowedPartition, FetchPartition)> = Vec::new();
    for topic in &request.topics {
        let name: Arc<str> = topic.topic.as_str().into();
        places.extend(topic.partitions.iter().map(|partition| {
            let place = FollowedPartition {
                topic_id: topic.topic_id,
                topic: Arc::clone(&name),
                partition: partition.partition,
            };
            (place, partition.clone())
        }));
    }
    if places.is_sorted_by(|(one, _), (next, _)| one < next) {
        places
    } else {
        once_each(places)
    }
}

fn once_each(
    places: Vec<(FollowedPartition, FetchPartition)>,
) -> Vec<(FollowedPartition, FetchPartition)> {
    let mut found = HashMap::with_capacity(places.len());
    let mut kept: Vec<(FollowedPartition, FetchPartition)> = Vec::with_capacity(places.len());
    for (place, wanted) in places {
        let at = *found.entry(place.clone()).or_insert(kept.len());
        match kept.get_mut(at) {
            Some((_, known)) => *known = wanted,
            None => kept.push((place, wanted)),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::messages::fetch_request::{FetchTopic, ForgottenTopic};

    fn request(id: i32, epoch: i32, partitions: &[i32], forgotten: &[i32]) -> FetchRequest {
        FetchRequest {
            session_id: id,
            session_epoch: epoch,
            topics: vec![FetchTopic {
                topic: "t".to_owned(),
                partitions: partitions
                    .iter()
                    .map(|partition| FetchPartition {
                        partition: *partition,
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            }],
            forgotten_topics_data: vec![ForgottenTopic {
                topic: "t".to_owned(),
                partitions: forgotten.to_vec(),
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    fn partitions(context: &Context) -> Vec<i32> {
        context
            .wanted
            .iter()
            .map(|(place, _)| place.partition)
            .collect()
    }

    #[test]
    fn an_incremental_fetch_reads_what_was_asked_before() {
        let mut sessions = Sessions::new(2);
        let full = sessions
            .open(request(0, 0, &[0, 1, 2], &[]), false, Instant(0), 7 << 40)
            .expect("new session");
        assert!(!full.is_incremental && full.session_id > 0);
        let next = sessions
            .open(request(full.session_id, 1, &[], &[1]), false, Instant(1), 0)
            .expect("known session");
        assert_eq!((next.is_incremental, partitions(&next)), (true, vec![0, 2]));
        assert_eq!(
            sessions
                .open(request(full.session_id, 1, &[], &[]), false, Instant(2), 0)
                .err(),
            Some(ErrorCode::InvalidFetchSessionEpoch)
        );
        assert_eq!(
            sessions
                .open(request(9999, 1, &[], &[]), false, Instant(2), 0)
                .err(),
            Some(ErrorCode::FetchSessionIdNotFound)
        );
    }

    #[test]
    fn a_session_keeps_to_names_or_to_ids_as_it_began() {
        for uses_ids in [false, true] {
            let mut sessions = Sessions::new(1);
            let mut open = |id, epoch, uses_ids| {
                let opened =
                    sessions.open(request(id, epoch, &[0], &[]), uses_ids, Instant(0), 7 << 40);
                opened.map(|context| context.session_id)
            };
            let id = open(0, 0, uses_ids).expect("new session");
            let mixed = Err(ErrorCode::FetchSessionTopicIdError);
            assert_eq!(open(id, 1, !uses_ids), mixed);
            assert_eq!(
                open(id, 2, !uses_ids),
                Err(ErrorCode::InvalidFetchSessionEpoch)
            );
            assert_eq!(open(id, 1, uses_ids), Ok(id), "it goes on where it was");
        }
    }

    #[test]
    fn a_partition_that_filled_an_answer_goes_to_the_end() {
        let mut sessions = Sessions::new(1);
        let id = sessions
            .open(request(0, 0, &[0, 1, 2], &[]), false, Instant(0), 7 << 40)
            .expect("new session")
            .session_id;
        let place = FollowedPartition {
            topic_id: Uuid::ZERO,
            topic: "t".into(),
            partition: 1,
        };
        let mut note = |content| {
            let answered = Answered {
                high_watermark: 5,
                log_start: 0,
                content,
            };
            sessions.note(id, &place, answered)
        };
        assert!(note(Content::Records));
        assert!(!note(Content::Nothing), "nothing is new");
        assert!(note(Content::Error));
        assert!(note(Content::Nothing), "the error is over");
        let next = sessions
            .open(request(id, 1, &[], &[]), false, Instant(1), 0)
            .expect("known session");
        assert_eq!(partitions(&next), vec![2, 0, 1]);
    }

    #[test]
    fn a_full_cache_of_busy_sessions_gives_no_new_one() {
        let mut sessions = Sessions::new(1);
        assert!(
            sessions
                .open(request(0, 0, &[0], &[]), false, Instant(0), 1 << 40)
                .expect("first")
                .session_id
                > 0
        );
        assert_eq!(
            sessions
                .open(request(0, 0, &[0], &[]), false, Instant(1), 2 << 40)
                .expect("second")
                .session_id,
            0
        );
        let later = Instant(0).plus(EVICTION_AGE * 2);
        assert!(
            sessions
                .open(request(0, 0, &[0], &[]), false, later, 3 << 40)
                .expect("third")
                .session_id
                > 0
        );
    }
    #[test]
    fn a_partition_that_is_named_again_is_one() {
        let mut sessions = Sessions::new(1);
        let mut again = request(0, -1, &[1, 0, 1], &[]);
        again.topics[0].partitions[2].fetch_offset = 7;
        let context = sessions.open(again, false, Instant(0), 0).expect("opened");
        assert_eq!(partitions(&context), [1, 0]);
        assert_eq!(context.wanted[0].1.fetch_offset, 7, "the last one counts");
    }

    #[test]
    fn what_sessions_remember_is_bounded() {
        let mut sessions = Sessions::new(10);
        sessions.remembered_max = 4;
        let mut open = |id, epoch, partitions: &[i32], now| {
            let asked = request(id, epoch, partitions, &[]);
            sessions.open(asked, false, now, (id as u64 + 1) << 40)
        };
        let id = open(0, 0, &[0, 1, 2], Instant(0)).unwrap().session_id;
        assert!(id > 0);
        let large = open(0, 0, &[0, 1], Instant(0)).unwrap();
        assert_eq!((large.session_id, partitions(&large)), (0, vec![0, 1]));
        assert_eq!(
            partitions(&open(id, 1, &[3], Instant(1)).unwrap()),
            [0, 1, 2, 3]
        );
        let full = open(id, 2, &[4], Instant(2)).err();
        assert_eq!(full, Some(ErrorCode::FetchSessionIdNotFound));
        assert!(open(0, 0, &[0, 1, 2, 3], Instant(3)).unwrap().session_id > 0);
        // One that nobody used for long makes way.
        let later = Instant(3).plus(EVICTION_AGE * 2);
        assert!(open(0, 0, &[0], later).unwrap().session_id > 0);
    }
}
