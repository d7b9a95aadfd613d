//! Subscriptions by pattern: which topics each of them stands for.
//!
//! A heartbeat that brings a new pattern compiles it, and looks for its topics if that is little work. All else is done by ticks, a
//! little at a time, and written in batches of its own: nobody's heartbeat waits for the patterns of others, or fails by them. Where
//! topics came or went, the patterns of a group are looked at again with its next heartbeat: at once where that is the first change since the
//! group has any, and then not more often than Kafka does. Topics that the member may not see whose heartbeat began a look are left
//! out; where somebody decides about that, the group looks again after a while though no topic changed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use model::{Instant, Timestamp};
use wire::ErrorCode;
use wire::group::GroupRecord;

use super::fence::{BATCH_BYTES, RETRY};
use super::member::Member;
use super::records::{self, Resolved};
use super::settle::{Entry, Outlook};
use super::{ConsumerGroup, Context, reason};
use crate::Pattern;
use crate::group::Refusal;
use crate::group::ask::Sight;
use crate::group::record;

/// Between two looks at all patterns of a group.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Between two looks where nothing changed but perhaps what members may see: Kafka's default.
const SIGHT_INTERVAL: Duration = Duration::from_secs(600);
/// Distinct patterns of one group: each remembers all its topics, which is half a megabyte for 10,000 of them.
const PATTERNS_MAX: usize = 256;
/// Steps of 20 nanoseconds, at most, that one group may take at once: the topics of a plain pattern among 20,000.
const STEPS_MAX: i64 = 1_000_000;
/// A group may use a fifth of its shard's time in the long run, and uses a hundredth unless somebody means ill.
const STEPS_PER_MICROSECOND: i64 = 10;
/// Steps that a look which used up its own has to wait for.
const STEPS_LEAST: i64 = 250_000;

/// The patterns that a group is looking for. Soft: begun anew after a restart.
#[derive(Debug, Default)]
pub(super) struct Lookout {
    credit: Credit,
    /// When all patterns were last looked at, and among which names.
    last: Option<(Instant, u64)>,
    /// Nothing but the first pattern was looked for: a topic that was made a moment before, at another broker, may be missing.
    is_fresh: bool,
    /// The eyes of the member that was heard last, and of the one whose heartbeat began the look under way.
    offered: Sight,
    sight: Sight,
    waiting: VecDeque<String>,
    search: Option<Search>,
    /// Topics that are not written yet.
    found: BTreeMap<String, Resolved>,
    /// When a tick goes on.
    next: Option<Instant>,
}

/// Steps that may be taken. Below zero, a step was longer than what was left.
#[derive(Debug)]
struct Credit {
    steps: i64,
    at: Instant,
}

impl Default for Credit {
    fn default() -> Self {
        Credit {
            steps: STEPS_MAX,
            at: Instant(0),
        }
    }
}

impl Credit {
    fn renew(&mut self, now: Instant) {
        let micros = now.0.saturating_sub(self.at.0) / 1_000;
        let more =
            i64::try_from(micros).map_or(i64::MAX, |it| it.saturating_mul(STEPS_PER_MICROSECOND));
        self.steps = self.steps.saturating_add(more).min(STEPS_MAX);
        self.at = now;
    }

    fn spend(&mut self, steps: u64) {
        let steps = i64::try_from(steps).unwrap_or(i64::MAX);
        self.steps = self.steps.saturating_sub(steps).max(-STEPS_MAX);
    }

    /// When there is enough again to go on.
    fn enough_at(&self, now: Instant) -> Instant {
        let lacking = (STEPS_LEAST - self.steps).max(0);
        now.plus(Duration::from_micros(
            (lacking / STEPS_PER_MICROSECOND).unsigned_abs(),
        ))
    }
}

/// One pattern, and how far the names were compared with it.
#[derive(Debug)]
struct Search {
    pattern: String,
    compiled: Pattern,
    through: Option<String>,
    found: Resolved,
}

impl Search {
    fn new(pattern: &str, compiled: Pattern, cx: &Context) -> Self {
        Search {
            pattern: pattern.to_owned(),
            compiled,
            through: None,
            found: Resolved {
                topics: BTreeSet::new(),
                version: i64::try_from(cx.topics.version()).unwrap_or(i64::MAX),
                at: Timestamp(cx.at.wall.0),
            },
        }
    }

    /// True if it came to the end.
    fn go_on(&mut self, names: &[&str], sight: &Sight, credit: &mut Credit) -> bool {
        let through = self.through.as_deref();
        let from = names.partition_point(|&name| Some(name) <= through);
        let mut last = None;
        for &name in names.iter().skip(from) {
            if credit.steps <= 0 {
                if let Some(last) = last {
                    self.through = Some(String::from(last));
                }
                return false;
            }
            credit.spend(self.compiled.steps(name));
            if self.compiled.matches(name) && sight.sees(name) {
                self.found.topics.insert(name.to_owned());
            }
            last = Some(name);
        }
        true
    }
}

impl Lookout {
    /// A member is heard, and would look with these eyes.
    pub(super) fn offer(&mut self, sight: &Sight) {
        self.offered.clone_from(sight);
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// The topics that were found are written; the rest follows.
    pub(super) fn on_written(&mut self, pattern: &str) {
        if self.found.remove(pattern).is_some() {
            self.next = Some(Instant(0));
        }
    }
}

impl ConsumerGroup {
    /// The pattern that a member brings: its topics, if they are found at once. Known ones are not looked at.
    pub(super) fn take_pattern(
        &mut self,
        entry: &Entry,
        member: &Member,
        cx: &Context,
    ) -> Result<Option<Resolved>, Refusal> {
        let pattern = &member.pattern;
        if pattern.is_empty()
            || *pattern == entry.before.pattern
            || self.pattern_counts.contains_key(pattern)
        {
            return Ok(None);
        }
        if self.pattern_counts.len() >= PATTERNS_MAX {
            return Err(Refusal::new(
                ErrorCode::GroupMaxSizeReached,
                format!(
                    "The consumer group has {PATTERNS_MAX} regular expressions, and may have no more."
                ),
            ));
        }
        let compiled = Pattern::new(pattern).map_err(|error| {
            Refusal::new(
                ErrorCode::InvalidRegularExpression,
                format!(
                    "SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}."
                ),
            )
        })?;
        let lookout = &mut self.lookout;
        if self.pattern_counts.is_empty() {
            lookout.last = Some((cx.at.now, cx.topics.names_version()));
            lookout.is_fresh = true;
        }
        lookout.credit.renew(cx.at.now);
        lookout.credit.spend(compiled.steps_to_make());
        let mut search = Search::new(pattern, compiled, cx);
        let names = cx.topics.names();
        if search.go_on(&names, &lookout.offered, &mut lookout.credit)
            && bytes(&search.found) <= record::step_bytes_max(usize::MAX)
        {
            return Ok(Some(search.found));
        }
        let counts = &self.pattern_counts;
        lookout.waiting.retain(|it| counts.contains_key(it));
        lookout.waiting.push_back(search.pattern);
        if lookout.next.is_none() {
            lookout.sight.clone_from(&lookout.offered);
        }
        lookout
            .next
            .get_or_insert(lookout.credit.enough_at(cx.at.now));
        Ok(None)
    }

    /// True if it is time to look at all patterns again; then the next ticks do.
    pub(super) fn looks_again(&mut self, cx: &Context) -> bool {
        let lookout = &mut self.lookout;
        if self.pattern_counts.is_empty() || lookout.next.is_some() {
            return false;
        }
        let names = cx.topics.names_version();
        let is_due = lookout.last.is_none_or(|(at, before)| {
            let is_over = at.plus(LOOK_INTERVAL) <= cx.at.now;
            let is_stale = before != names;
            let is_seen_anew = lookout.offered.is_limited() && at.plus(SIGHT_INTERVAL) <= cx.at.now;
            lookout.is_fresh && is_stale
                || is_over && (is_stale || self.pattern_counts.len() != self.resolved.len())
                || is_seen_anew
        });
        if is_due {
            lookout.is_fresh = false;
            lookout.last = Some((cx.at.now, names));
            lookout.sight.clone_from(&lookout.offered);
            lookout.waiting = self.pattern_counts.keys().cloned().collect();
            lookout.next = Some(cx.at.now);
        }
        is_due
    }

    /// Looks on for a while. The records are those of patterns that stand for other topics now, as many as fit a batch.
    pub(super) fn look(&mut self, cx: &Context, batch_bytes_max: usize) -> Vec<GroupRecord> {
        let now = cx.at.now;
        if self.lookout.next.is_none_or(|next| now < next) {
            return Vec::new();
        }
        let room = record::step_bytes_max(batch_bytes_max);
        self.search(cx, room);
        let changed = self.take_found(room, batch_bytes_max);
        let lookout = &mut self.lookout;
        if changed.is_empty() {
            let is_done = lookout.search.is_none() && lookout.waiting.is_empty();
            lookout.next = (!is_done).then(|| lookout.credit.enough_at(now));
            return Vec::new();
        }
        // Their replay goes on at once.
        lookout.next = Some(now.plus(RETRY));
        let mut records: Vec<GroupRecord> = (changed.iter())
            .map(|(pattern, resolved)| records::pattern(&self.id, pattern, Some(resolved)))
            .collect();
        let outlook = Outlook {
            group: self,
            gone: &BTreeSet::new(),
            member: None,
            resolved: &changed,
        };
        let hash = outlook.metadata_hash(cx.topics);
        records.push(records::epoch(&self.id, self.epoch + 1, hash));
        if self.has_partition_metadata {
            records.push(records::partition_metadata_tombstone(&self.id));
        }
        self.hashed = Some((cx.topics.version(), hash));
        self.moves_on(reason::TOPICS_CHANGED.to_owned(), cx);
        records
    }

    /// Compares names with patterns until the steps are used up, or what was found fills a batch.
    fn search(&mut self, cx: &Context, room: usize) {
        let lookout = &mut self.lookout;
        lookout.credit.renew(cx.at.now);
        let names = cx.topics.names();
        let mut found: usize = lookout.found.values().map(bytes).sum();
        while lookout.credit.steps > 0 && found <= room {
            let search = lookout.search.take().or_else(|| {
                let pattern = lookout.waiting.pop_front()?;
                // One that does not compile was accepted before, by another engine: it stands for what it stood for.
                let compiled = Pattern::new(&pattern).ok()?;
                lookout.credit.spend(compiled.steps_to_make());
                Some(Search::new(&pattern, compiled, cx))
            });
            let Some(mut search) = search else {
                if lookout.waiting.is_empty() {
                    return;
                }
                continue;
            };
            if !self.pattern_counts.contains_key(&search.pattern) {
                continue;
            }
            if !search.go_on(&names, &lookout.sight, &mut lookout.credit) {
                lookout.search = Some(search);
                return;
            }
            let known = self.resolved.get(&search.pattern);
            if known.map(|known| &known.topics) != Some(&search.found.topics) {
                found += bytes(&search.found);
                lookout.found.insert(search.pattern, search.found);
            }
        }
    }

    /// The next finding to write that is still subscribed to. One that does not fit a batch by itself stands for what it stood for.
    fn take_found(&mut self, room: usize, batch_bytes_max: usize) -> BTreeMap<String, Resolved> {
        let counts = &self.pattern_counts;
        self.lookout.found.retain(|pattern, resolved| {
            let bytes = BATCH_BYTES + pattern.len() + bytes(resolved);
            counts.contains_key(pattern) && bytes <= batch_bytes_max / 16 * 15
        });
        let mut taken = BTreeMap::new();
        let mut left = room;
        for (pattern, resolved) in &self.lookout.found {
            let bytes = pattern.len() + bytes(resolved);
            if left < bytes && !taken.is_empty() {
                break;
            }
            left = left.saturating_sub(bytes);
            taken.insert(pattern.clone(), resolved.clone());
        }
        taken
    }
}

/// About how many the record of it takes.
fn bytes(resolved: &Resolved) -> usize {
    100 + (resolved.topics.iter())
        .map(|name| name.len() + 3)
        .sum::<usize>()
}
