//! The notes of all clients of a run: the history for the checker, and what is wrong on its face.
//!
//! A value is a number; its record carries bytes that follow from the number, so that a reader sees any change of them.

use std::collections::{BTreeMap, BTreeSet};

use env::sim::Chance;
use model::Instant;
use wire::ApiKey;

use super::aging::{Aging, Keep};
use super::member::GroupPart;
use super::offsets::Numbers;
use super::reader::DAMAGED;
use crate::checker::{Act, EndSeen, History, Key, Op, Outcome};

#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) history: History,
    /// Broken promises that need no history to be seen.
    pub(crate) violations: Vec<String>,
    /// Partitions whose files have rotted under a broker at work, which does not read again what it has verified before: a batch's own
    /// checksum is the last line then, and the same is asked for again.
    pub(crate) rotted: BTreeSet<String>,
    /// While a link between nodes refuses connections, a broker that lives is taken for dead, and answers for up to a session as leader and
    /// coordinator (`docs/decisions/fencing.md`); until then nothing is said of members, nor of a producer that it takes for out of order or for fenced.
    pub(crate) zombies_until: Option<Instant>,
    keys: BTreeMap<(String, i32), Key>,
    next_value: u64,
    next_process: u32,
    /// Highest offset that was acknowledged or read, per key.
    pub(crate) highest: BTreeMap<Key, i64>,
    /// Produce requests that came back with an error.
    pub(crate) refused: u64,
    /// Requests that got no answer.
    pub(crate) unanswered: u64,
    /// Batches sent again.
    pub(crate) resent: u64,
    /// Topics created and deleted beside the load.
    pub(crate) topics_changed: u64,
    pub(crate) records_deleted: u64,
    /// Partitions found in another log directory than before.
    pub(crate) moves: u64,
    /// Transactions whose end is known to be a commit, known to be none, or unknown.
    pub(crate) committed: u64,
    pub(crate) aborted: u64,
    pub(crate) undecided: u64,
    /// Transactional producers that found another one in their place.
    pub(crate) fenced: u64,
    /// Batches and additions of partitions that arrived when their transaction was over.
    pub(crate) late_batches: u64,
    pub(crate) late_additions: u64,
    groups: BTreeMap<(String, i32), GroupPart>,
    /// Processes that the coordinator knew for an instance of a static member, and when it was asked and had answered that.
    pub(crate) instances: BTreeMap<String, BTreeMap<u32, (Instant, Instant)>>,
    /// Static members that came back to what they had, or found another process in their place.
    pub(crate) resumed: u64,
    pub(crate) shut_out: u64,
    /// Members that changed their protocol.
    pub(crate) switched: u64,
    /// Commits of members that were acknowledged, one after the other: partition and offset.
    pub(crate) acked_commits: Vec<(i32, i64)>,
    /// Operations of the history whose outcome became known after their end, since somebody looked.
    pub(crate) decided: Vec<usize>,
    /// Offsets committed in transactions, by group.
    numbers: BTreeMap<String, Numbers>,
    /// How often such an offset was looked up.
    pub(crate) settled: u64,
    /// Partitions whose old records go by themselves.
    aging: BTreeMap<Key, Aging>,
    /// The highest wall time that the broker was told so far.
    pub(crate) wall_max: i64,
    /// Acknowledged records that went by themselves.
    pub(crate) expired: u64,
    /// Changes that left the logs of the coordinators no room for a batch.
    pub(crate) squeezes: u64,
    /// When the last of them was granted, while it lasts and no coordinator has judged a commit that was sent since.
    pub(crate) squeezed_at: Option<Instant>,
    /// Those of them during which one did.
    pub(crate) squeezes_met: u64,
    /// Commits without members that were too large for such a log, and those that were taken and then refused with everything that
    /// was decided and not written.
    pub(crate) too_large: u64,
    pub(crate) forgotten: u64,
    /// The answers about topics that several clients got at once, by name.
    pub(crate) acts: BTreeMap<String, Vec<Act>>,
}

/// Examples kept; the run has failed with the first one.
const VIOLATIONS_MAX: usize = 10;

impl Notes {
    /// True if a reader met what has rotted.
    pub(crate) fn is_rot(&self, what: &str) -> bool {
        let met = |partition| what.starts_with(&format!("fetch of {partition}: {DAMAGED}"));
        self.rotted.iter().any(met)
    }

    pub(crate) fn may_meet_zombies(&self, now: Instant) -> bool {
        self.zombies_until.is_some_and(|until| now < until)
    }

    pub(crate) fn process(&mut self) -> u32 {
        self.next_process += 1;
        self.next_process
    }

    pub(crate) fn value(&mut self) -> u64 {
        self.next_value += 1;
        self.next_value
    }

    pub(crate) fn key(&mut self, topic: &str, partition: i32) -> Key {
        let next = self.keys.len() as Key;
        *self
            .keys
            .entry((topic.to_owned(), partition))
            .or_insert(next)
    }

    /// The knowledge about a partition of a group.
    pub(crate) fn part(&mut self, group: &str, partition: i32) -> &mut GroupPart {
        self.groups
            .entry((group.to_owned(), partition))
            .or_default()
    }

    /// Acknowledged commits of every partition of every group.
    pub(crate) fn commits(&self) -> u64 {
        self.groups.values().map(|part| part.commits).sum()
    }

    pub(crate) fn known_key(&self, topic: &str, partition: i32) -> Option<Key> {
        self.keys.get(&(topic.to_owned(), partition)).copied()
    }

    pub(crate) fn name(&self, key: Key) -> String {
        let found = self.keys.iter().find(|(_, known)| **known == key);
        found.map_or_else(String::new, |((topic, partition), _)| {
            format!("{topic}-{partition}")
        })
    }

    pub(crate) fn violation(&mut self, what: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(what);
        }
    }

    pub(crate) fn done(&mut self, op: Op) {
        for sent in &op.sends {
            if let Some(offset) = sent.offset {
                self.saw(sent.key, offset);
                if let Some(aging) = self.aging.get_mut(&sent.key) {
                    aging.acked(&op, offset);
                }
            }
        }
        for polled in &op.polls {
            if let Some((offset, _)) = polled.records.last() {
                self.saw(polled.key, *offset);
            }
        }
        self.history.ops.push(op);
    }

    fn saw(&mut self, key: Key, offset: i64) {
        let highest = self.highest.entry(key).or_insert(-1);
        *highest = (*highest).max(offset);
    }

    pub(crate) fn end(&mut self, end: EndSeen) {
        if let Some(start) = end.log_start {
            self.starts(end.key, start);
        }
        self.history.ends.push(end);
    }

    /// The records of this partition go by themselves.
    pub(crate) fn ages(&mut self, key: Key, keep: Keep) {
        self.aging.insert(key, Aging::new(keep));
    }

    pub(crate) fn aging(&self, key: Key) -> Option<&Aging> {
        self.aging.get(&key)
    }

    /// A log was seen to start here: what went by the rules of its topic is nobody's loss.
    pub(crate) fn starts(&mut self, key: Key, start: i64) {
        let Some(aging) = self.aging.get_mut(&key) else {
            return;
        };
        let trimmed = self.history.trimmed.entry(key).or_default();
        match aging.starts(start, *trimmed, self.wall_max) {
            Ok(gone) => {
                self.expired += gone as u64;
                *trimmed = start.max(*trimmed);
            }
            Err(what) => {
                let name = self.name(key);
                self.violation(format!("{name}: {what}"));
            }
        }
    }

    /// The transactions that commit offsets of a group.
    pub(crate) fn numbers(&mut self, group: &str) -> &mut Numbers {
        self.numbers.entry(group.to_owned()).or_default()
    }

    /// A committed offset was found while no transaction of its group was open.
    pub(crate) fn judge_committed(&mut self, group: &str, found: i64) {
        self.settled += 1;
        let ops = &mut self.history.ops;
        let numbers = self.numbers.entry(group.to_owned()).or_default();
        if let Err(what) = numbers.judge_committed(found, ops, &mut self.decided) {
            self.violation(format!("{group}: {what}"));
        }
    }

    /// Something that was held back was answered when its transaction was over.
    pub(crate) fn strayed(&mut self, what: ApiKey) {
        match what {
            ApiKey::Produce => self.late_batches += 1,
            ApiKey::AddPartitionsToTxn => self.late_additions += 1,
            _ => {}
        }
    }

    /// Counts the end of a transaction.
    pub(crate) fn ended(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Ok => &mut self.committed,
            Outcome::Fail => &mut self.aborted,
            Outcome::Info => &mut self.undecided,
        } += 1;
    }
}

/// The bytes of the record with this value: mostly small, sometimes large.
pub(crate) fn payload(value: u64) -> Vec<u8> {
    let mut chance = Chance::new(value);
    let len = match chance.below(100) {
        0 => chance.between(4_000, 60_000),
        1..10 => chance.between(500, 4_000),
        _ => chance.below(200),
    };
    let mut bytes = value.to_be_bytes().to_vec();
    // A short pattern repeated, so that compression has something to do.
    let mut pattern = [0; 16];
    chance.fill(&mut pattern);
    bytes.extend(pattern.iter().cycle().take(len as usize));
    bytes
}

/// The value whose record this is; `None` when the bytes are not those that were sent.
pub(crate) fn value_of(bytes: &[u8]) -> Option<u64> {
    let value = u64::from_be_bytes(*bytes.first_chunk::<8>()?);
    (payload(value) == bytes).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_record_is_not_taken_for_its_value() {
        for value in 0..200 {
            let mut bytes = payload(value);
            assert_eq!(value_of(&bytes), Some(value));
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            assert_eq!(value_of(&bytes), None);
            bytes.truncate(last);
            assert_eq!(value_of(&bytes), None);
        }
    }
}
