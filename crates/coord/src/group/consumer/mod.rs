//! Consumer groups of KIP-848: the group decides who reads what, members follow one heartbeat at a time.
//!
//! Three numbers drive everything. The *group epoch* counts changes of members, subscriptions and topics. The *assignment epoch*
//! is the group epoch that the target assignment was made for. A *member epoch* says how far one member has come; it moves when
//! the member has given up what is no longer its own. Invariants:
//!
//! - a partition is given to a member only when no other has it, be it that it still has to give it up;
//! - `replay` alone changes what is durable, and what is derived from that; the handlers here change timers, and return records;
//! - epochs never go back.
//!
//! | file | what |
//! |---|---|
//! | `heartbeat` | a request of a member, from check to answer |
//! | `settle` | what a changed member does to group epoch and target |
//! | `reconcile` | one member's next step towards the target |
//! | `fence` | members that leave, are late, or are gone |
//! | `pattern` | the topics that patterns stand for |
//! | `target`, `assignor` | the target assignment |
//! | `classic`, `migrate`, `embedded` | members of the classic protocol, and how groups change between the two |
//! | `reason` | why the group last moved on |
//! | `replay`, `records`, `member` | what is durable |

pub mod assignor;
mod classic;
mod commit;
mod describe;
mod embedded;
mod fence;
mod heartbeat;
mod member;
mod migrate;
#[cfg(test)]
mod migrate_test;
#[cfg(test)]
mod model_test;
mod partitions;
mod pattern;
mod reason;
mod reconcile;
mod records;
mod refusal;
mod replay;
mod settings;
mod settle;
mod target;
#[cfg(test)]
mod tests;
mod timers;
#[cfg(test)]
mod world;

pub use commit::CommitBy;
pub use describe::ConsumerState;
pub use migrate::{ClassicGroup, ClassicMember, HandedBack};
pub use refusal::check;
pub use settings::{Bounded, Migration, Overrides, Settings};

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use model::{Instant, Timestamp};
use wire::Uuid;

use crate::group::Rebalance;
use crate::{Moment, Topics};
use member::{Member, Progress};
use partitions::Target;
use pattern::Lookout;
use records::Resolved;
use timers::{Timers, Wait};

/// The surroundings that a handler may look at besides the group.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub at: Moment,
    pub topics: &'a dyn Topics,
    /// Of this group, its own settings included.
    pub settings: &'a Settings,
}

/// Group and assignment begin in the same epoch: in it nothing is assigned to anybody. So a first member that subscribes to nothing
/// has an epoch that is not that of a join, and its group is stable.
const EPOCH_INITIAL: i32 = 1;

#[derive(Debug)]
pub struct ConsumerGroup {
    id: String,
    epoch: i32,
    /// A record of its epoch is there: it lasts without members.
    has_epoch: bool,
    /// Of the topics that were subscribed to, as they were at the group epoch.
    metadata_hash: i64,
    assignment_epoch: i32,
    assigned_at: Timestamp,
    members: BTreeMap<String, Member>,
    target: BTreeMap<String, Target>,
    resolved: BTreeMap<String, Resolved>,
    /// A record of Kafka before 4.1 is still there.
    has_partition_metadata: bool,

    // Derived from the above, in `replay`.
    /// Member of each instance id.
    statics: BTreeMap<String, String>,
    /// Names, and how many members subscribe to each.
    name_counts: BTreeMap<String, usize>,
    pattern_counts: BTreeMap<String, usize>,
    /// Members of the classic protocol, and how many of them support each of theirs.
    guests_count: usize,
    protocol_counts: BTreeMap<String, usize>,
    owners: HashMap<(Uuid, i32), Arc<str>>,

    // Soft.
    timers: Timers,
    /// Members that came by replay alone: their sessions begin with the next tick.
    unwatched: BTreeSet<String>,
    /// The version of the topics that `metadata_hash` was last found to fit.
    topics_version: Option<u64>,
    /// A hash that is to be written, and the version of the topics that it is of.
    hashed: Option<(u64, i64)>,
    lookout: Lookout,
    handed_back: Option<HandedBack>,
    /// Of the epoch that was given up last, once its successor is replayed.
    last_rebalance: Option<Rebalance>,
}

impl ConsumerGroup {
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        ConsumerGroup {
            id: id.into(),
            epoch: EPOCH_INITIAL,
            has_epoch: false,
            metadata_hash: 0,
            assignment_epoch: EPOCH_INITIAL,
            assigned_at: target::NEVER,
            members: BTreeMap::new(),
            target: BTreeMap::new(),
            resolved: BTreeMap::new(),
            has_partition_metadata: false,
            statics: BTreeMap::new(),
            name_counts: BTreeMap::new(),
            pattern_counts: BTreeMap::new(),
            guests_count: 0,
            protocol_counts: BTreeMap::new(),
            owners: HashMap::new(),
            timers: Timers::default(),
            unwatched: BTreeSet::new(),
            topics_version: None,
            hashed: None,
            lookout: Lookout::default(),
            handed_back: None,
            last_rebalance: None,
        }
    }

    /// True if anything of it is durable. False for a group whose first records are not in yet, and for one that was removed.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.has_epoch || !self.members.is_empty()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    #[must_use]
    pub fn members_count(&self) -> usize {
        self.members.len()
    }

    /// True if offsets of the topic are in use (they may not be deleted then).
    #[must_use]
    pub fn subscribes_to(&self, topic: &str) -> bool {
        self.name_counts.contains_key(topic)
            || (self.pattern_counts.keys())
                .filter_map(|pattern| self.resolved.get(pattern))
                .any(|resolved| resolved.topics.contains(topic))
    }

    /// When `tick` is wanted next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        if !self.unwatched.is_empty() {
            return Some(Instant(0));
        }
        [self.timers.next(), self.lookout.next()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Every record is in: members have a whole session to be heard of again.
    pub fn on_loaded(&mut self, cx: &Context) {
        self.unwatched.extend(self.members.keys().cloned());
        self.watch(cx);
    }

    fn watch(&mut self, cx: &Context) {
        for id in std::mem::take(&mut self.unwatched) {
            let Some(member) = self.members.get(&id) else {
                continue;
            };
            let session = (member.classic.as_ref())
                .map_or(cx.settings.session_timeout_ms.value, |classic| {
                    classic.session_timeout_ms
                });
            (self.timers).set_if_absent(&id, Wait::Session, after(cx.at, session));
            if member.progress == Progress::Unrevoked && member.classic.is_none() {
                let wait = Wait::Revocation {
                    epoch: member.epoch,
                };
                let at = after(cx.at, member.rebalance_timeout_ms);
                self.timers.set(&id, wait, at);
            }
        }
    }
}

fn after(at: Moment, ms: i32) -> Instant {
    let ms = u64::try_from(ms).unwrap_or(0);
    at.now.plus(Duration::from_millis(ms))
}
