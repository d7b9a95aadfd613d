//! All that is fetched from one other broker: a session for partitions that keep up, and one for those that have far to go.
//!
//! Invariant: what has far to go is never in front of what keeps up. Records of a rebuild have a session, and a connection, of their own;
//! a replica changes to the other session by what an answer leaves missing. The bulk session paces itself: while others are at work
//! it asks for little, and rests after each answer for as long as that took until it was synced, so that half of the time is
//! theirs, whatever it is that was slow.

use std::time::Duration;

use model::{BrokerId, Instant, LeaderEpoch, Offset};
use wire::messages::{FetchRequest, FetchResponse};

use crate::puller::{Key, Point, Puller, Step, Terms, Way};

/// An answer of the bulk session while others are at work: what a disk writes in a few milliseconds, which is what their next round may
/// wait for.
const BESIDE_BYTES: i32 = 1 << 20;
/// No rest is longer: what took so long was no work.
const REST_MAX: Duration = Duration::from_secs(1);
/// A replica that lacks more than so many answers of the tail session are expected to bring has far to go.
const FAR: u64 = 4;

/// Records of a partition that an answer brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Brought {
    pub bytes: usize,
    pub offsets: i64,
    /// Committed by the leader.
    pub high_watermark: Offset,
    /// The replica is throttled here: it stays in the bulk session until it lacks nothing.
    pub is_throttled: bool,
}

impl Brought {
    #[must_use]
    pub fn nothing(high_watermark: Offset) -> Brought {
        Brought {
            bytes: 0,
            offsets: 0,
            high_watermark,
            is_throttled: false,
        }
    }
}

/// The bulk session beside the work of others.
#[derive(Debug, Default)]
struct Pace {
    /// When the first request left that is not settled.
    asked_at: Option<Instant>,
    /// The work of others by then.
    others_then: u64,
    has_brought: bool,
    are_others_busy: bool,
    rests_until: Option<Instant>,
}

impl Pace {
    fn on_asked(&mut self, others: u64, now: Instant) {
        if self.asked_at.is_none() {
            (self.asked_at, self.others_then) = (Some(now), others);
        }
    }

    /// All that was asked for has come and is synced.
    fn settle(&mut self, others: u64, now: Instant) {
        let asked_at = self.asked_at.take();
        let has_brought = std::mem::take(&mut self.has_brought);
        if let Some(asked_at) = asked_at.filter(|_| has_brought) {
            self.are_others_busy = others != self.others_then;
            let rests = self.are_others_busy.then(|| now.since(asked_at));
            self.rests_until = rests.map(|time| now.plus(time.min(REST_MAX)));
        }
    }

    fn rests(&mut self, now: Instant) -> bool {
        self.rests_until = self.rests_until.filter(|until| now < *until);
        self.rests_until.is_some()
    }
}

/// See the module.
#[derive(Debug)]
pub struct Engine {
    tail: Puller,
    bulk: Puller,
    pace: Pace,
}

impl Engine {
    #[must_use]
    pub fn new(me: BrokerId) -> Engine {
        Engine {
            tail: Puller::new(me, Way::Tail),
            bulk: Puller::new(me, Way::Bulk),
            pace: Pace::default(),
        }
    }

    /// True if nothing is followed there, and nothing is under way.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let all = [&self.tail, &self.bulk];
        all.iter().all(|it| it.is_empty() && it.is_idle())
    }

    /// True if no request of a session is under way.
    #[must_use]
    pub fn is_idle(&self, way: Way) -> bool {
        match way {
            Way::Tail => self.tail.is_idle(),
            Way::Bulk => self.bulk.is_idle(),
        }
    }

    fn session(&mut self, way: Way) -> &mut Puller {
        match way {
            Way::Tail => &mut self.tail,
            Way::Bulk => &mut self.bulk,
        }
    }

    /// The session of a partition.
    #[must_use]
    pub fn way(&self, key: Key) -> Option<Way> {
        if self.tail.has(key) {
            return Some(Way::Tail);
        }
        self.bulk.has(key).then_some(Way::Bulk)
    }

    fn of(&mut self, key: Key) -> Option<&mut Puller> {
        let way = self.way(key)?;
        Some(self.session(way))
    }

    /// Follows a partition from `at` on, in a leader epoch.
    pub fn follow(&mut self, key: Key, epoch: LeaderEpoch, at: Point, way: Way) {
        if self.way(key).is_some_and(|known| known != way) {
            self.unfollow(key);
        }
        self.session(way).follow(key, epoch, at);
    }

    pub fn unfollow(&mut self, key: Key) {
        self.tail.unfollow(key);
        self.bulk.unfollow(key);
    }

    /// See [`Puller::on_moved`].
    pub fn on_moved(&mut self, key: Key, at: Point) {
        if let Some(session) = self.of(key) {
            session.on_moved(key, at);
        }
    }

    /// See [`Puller::on_cut`].
    pub fn on_cut(&mut self, key: Key, at: Point) {
        if let Some(session) = self.of(key) {
            session.on_cut(key, at);
        }
    }

    /// See [`Puller::rest`].
    pub fn rest(&mut self, key: Key, until: Option<Instant>) {
        if let Some(session) = self.of(key) {
            session.rest(key, until);
        }
    }

    /// Has partitions in the bulk session rest that `is_held`.
    pub fn hold(&mut self, is_held: impl Fn(Key) -> bool, until: Option<Instant>) {
        self.bulk.hold(is_held, until);
    }

    /// Records of an answer were appended: their partition may change its session.
    pub fn on_taken(&mut self, key: Key, brought: Brought, terms: Terms) {
        let Some(way) = self.way(key) else {
            return;
        };
        self.pace.has_brought |= way == Way::Bulk && 0 < brought.bytes;
        let Some((epoch, at)) = self.session(way).place(key) else {
            return;
        };
        let other = other_way(way, missing(at.end, brought), brought.is_throttled, terms);
        if let Some(other) = other {
            self.session(way).unfollow(key);
            self.session(other).follow(key, epoch, at);
        }
    }

    /// The next request of a session, if one is to go now. `others` is a number that grows with what others have this broker write.
    pub fn request(
        &mut self,
        way: Way,
        broker_epoch: i64,
        terms: Terms,
        others: u64,
        now: Instant,
    ) -> Option<FetchRequest> {
        if way == Way::Tail {
            return self.tail.request(broker_epoch, terms, now);
        }
        if self.bulk.is_in_step() {
            self.pace.settle(others, now);
        }
        if self.pace.rests(now) {
            return None;
        }
        let terms = if self.pace.are_others_busy {
            Terms {
                bytes_max: terms.bytes_max.min(BESIDE_BYTES),
                partition_bytes_max: terms.partition_bytes_max.min(BESIDE_BYTES),
                ..terms
            }
        } else {
            terms
        };
        let request = self.bulk.request(broker_epoch, terms, now)?;
        self.pace.on_asked(others, now);
        Some(request)
    }

    /// The leader answered the oldest request of a session.
    pub fn on_answer(
        &mut self,
        way: Way,
        response: FetchResponse,
        terms: Terms,
        now: Instant,
    ) -> Vec<Step> {
        self.session(way).on_answer(response, terms, now)
    }

    /// The link of a session was lost, or cannot be made.
    pub fn on_lost(&mut self, way: Way, terms: Terms, now: Instant) {
        self.session(way).on_lost(terms, now);
        if way == Way::Bulk {
            self.pace.asked_at = None;
        }
    }

    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let rests = self.pace.rests_until.filter(|_| !self.bulk.is_empty());
        let sessions = [self.tail.next_deadline(), self.bulk.next_deadline(), rests];
        sessions.into_iter().flatten().min()
    }
}

/// Bytes that a replica whose log ends at `end` lacks, if they are as large as those that came; `None` if none came.
fn missing(end: Offset, brought: Brought) -> Option<u64> {
    let lacks = u128::try_from(brought.high_watermark.0 - end.0).unwrap_or(0);
    if lacks == 0 {
        return Some(0);
    }
    let offsets = u128::try_from(brought.offsets).ok().filter(|it| 0 < *it)?;
    let bytes = lacks.saturating_mul(brought.bytes as u128) / offsets;
    Some(u64::try_from(bytes).unwrap_or(u64::MAX))
}

/// The session that a replica changes to. The two bounds differ, so that no replica alternates between the sessions.
fn other_way(way: Way, missing: Option<u64>, is_throttled: bool, terms: Terms) -> Option<Way> {
    let near = u64::try_from(terms.partition_bytes_max).unwrap_or(0);
    match (way, missing?) {
        (Way::Bulk, missing) if missing == 0 || missing <= near && !is_throttled => Some(Way::Tail),
        (Way::Tail, missing) if near.saturating_mul(FAR) < missing => Some(Way::Bulk),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
