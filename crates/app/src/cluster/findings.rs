//! The judgement of a cluster: what is wrong, and what an operator can do about it.
//!
//! Owns no question to a broker: what was answered goes in, sentences come out.

use std::collections::BTreeMap;
use std::fmt;

use client::{LogDir, Partition, QuorumInfo, ReplicaInfo};

use super::{Seen, address_of, now};

/// A voter that has not fetched for so long does not follow: five times Kafka's `controller.quorum.fetch.timeout.ms`.
const SILENT_MS: i64 = 10_000;
/// Partitions that a sentence names; the others are counted.
const NAMED_MAX: usize = 5;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) what: String,
    pub(super) todo: String,
}

fn finding(what: impl Into<String>, todo: impl Into<String>) -> Finding {
    Finding {
        what: what.into(),
        todo: todo.into(),
    }
}

/// A partition, by the name that people give it.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    topic: &'a str,
    partition: &'a Partition,
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}", self.topic, self.partition.index)
    }
}

/// Partitions that are not as they should be.
#[derive(Default)]
pub(super) struct Partitions<'a> {
    /// Without a leader.
    pub(super) offline: Vec<Named<'a>>,
    /// With a leader, and with fewer replicas in sync than `min.insync.replicas`.
    pub(super) below_min: Vec<Named<'a>>,
    /// With a leader, and with replicas that are not in sync, those below the minimum among them.
    pub(super) under_replicated: Vec<Named<'a>>,
}

impl<'a> Partitions<'a> {
    pub(super) fn of(seen: &'a Seen) -> Partitions<'a> {
        let mut found = Partitions::default();
        for topic in &seen.topics {
            let min = seen.details.in_sync_min.get(&topic.name).copied();
            for partition in &topic.partitions {
                let (in_sync, all) = (partition.isr.len(), partition.replicas.len());
                let named = Named {
                    topic: &topic.name,
                    partition,
                };
                if partition.leader.is_none() {
                    found.offline.push(named);
                    continue;
                }
                // More than there are replicas is never asked for.
                if min.is_some_and(|min| in_sync < min.min(all)) {
                    found.below_min.push(named);
                }
                if in_sync < all {
                    found.under_replicated.push(named);
                }
            }
        }
        found
    }
}

/// The most pressing first.
pub(super) fn of(seen: &Seen) -> Vec<Finding> {
    let mut found = Vec::new();
    match &seen.quorum {
        Ok(quorum) => voters(seen, quorum, &mut found),
        Err(why) => found.push(finding(
            format!("nobody answers for the quorum, so that nothing can be created or changed: {why}"),
            "start controllers until a majority of the voters runs, and see to it that they reach each other",
        )),
    }
    for broker in seen.cluster.brokers.iter().filter(|it| it.is_fenced) {
        found.push(finding(
            format!("broker {} is fenced and serves no clients", broker.id),
            format!(
                "the controller hears nothing from it: start it, or see what it reports at {}",
                super::address(broker)
            ),
        ));
    }
    for broker in &seen.serves_nothing {
        found.push(finding(
            format!("nothing is served by broker {broker}, though it leads partitions: it acts as no leader"),
            "it has had no answer of the active controller for most of its session, or is stopping: its log says which. Does it reach the \
             controllers?",
        ));
    }
    for (broker, dirs) in &seen.log_dirs {
        match dirs {
            Ok(dirs) => {
                for dir in dirs {
                    if dir.is_failed {
                        found.push(failed(dir));
                    } else if is_full(dir) {
                        found.push(full(dir));
                    }
                }
            }
            Err(why) => found.push(finding(
                format!("broker {broker} does not answer: {why}"),
                "is its process up, and is its advertised address one that can be reached from here?",
            )),
        }
    }
    partitions(seen, &mut found);
    reassignments(seen, &mut found);
    found
}

fn failed(dir: &LogDir) -> Finding {
    finding(
        format!(
            "directory {} of broker {} is offline",
            model::printable(&dir.path),
            dir.broker
        ),
        "the log of that broker says why; mend or replace the disk, then restart it. `esker repair` accepts what is lost",
    )
}

/// A broker keeps so much free for what must be written: below it a directory takes no records.
const RESERVE_BYTES: i64 = 64 << 20;

pub(super) fn is_full(dir: &LogDir) -> bool {
    !dir.is_failed && dir.usable_bytes.is_some_and(|left| left < RESERVE_BYTES)
}

fn full(dir: &LogDir) -> Finding {
    finding(
        format!(
            "directory {} of broker {} is full: {} MiB are left",
            model::printable(&dir.path),
            dir.broker,
            dir.usable_bytes.unwrap_or(0) >> 20
        ),
        "make room on its volume, or shorten the retention of large topics: others lead its partitions where they can, and it goes on by itself",
    )
}

/// True if several nodes vote and the cluster has no eligible leaders, as one that grew or was upgraded.
pub(super) fn lacks_eligible_leaders(seen: &Seen) -> bool {
    const SEVERAL: usize = 3;
    let voters = seen.quorum.as_ref().map_or(0, |quorum| quorum.voters.len());
    let level = seen.features.get("eligible.leader.replicas.version");
    // The first level of metadata.version that knows of them.
    let knows = seen
        .features
        .get("metadata.version")
        .is_some_and(|level| 23 <= *level);
    knows && SEVERAL <= voters && level.is_none_or(|level| *level == 0)
}

fn reassignments(seen: &Seen, found: &mut Vec<Finding>) {
    for moving in &seen.moving {
        let Some(time) = moving.stands_still else {
            continue;
        };
        let name = format!("{}-{}", moving.topic, moving.partition);
        found.push(finding(
            format!(
                "reassignment of {} has not moved for {} s: {} got nothing",
                model::printable(&name),
                time.as_secs(),
                all_of(&moving.adding)
            ),
            "run this command again: if it stays so, look for a throttle that is too low, a full directory there, or the log of that broker; \
             `kafka-reassign-partitions --cancel` takes the reassignment back",
        ));
    }
}

/// Voters that fetch, the leader among them.
pub(super) fn following(quorum: &QuorumInfo) -> Vec<&ReplicaInfo> {
    let voters = quorum.voters.iter();
    voters
        .filter(|voter| silence_ms(quorum, voter).is_some_and(|silence| silence < SILENT_MS))
        .collect()
}

/// Voters that must run for anything to be decided.
pub(super) fn majority(quorum: &QuorumInfo) -> usize {
    quorum.voters.len() / 2 + 1
}

fn silence_ms(quorum: &QuorumInfo, voter: &ReplicaInfo) -> Option<i64> {
    Some(now(quorum)? - voter.last_fetch_ms?)
}

fn voters(seen: &Seen, quorum: &QuorumInfo, found: &mut Vec<Finding>) {
    let following = following(quorum);
    let spare = following.len().saturating_sub(majority(quorum));
    let silent = quorum
        .voters
        .iter()
        .filter(|voter| !following.contains(voter));
    for voter in silent {
        let what = match silence_ms(quorum, voter) {
            Some(silence) => format!(
                "voter {} has not fetched the metadata for {} s",
                voter.node,
                silence / 1000
            ),
            None => format!(
                "voter {} has not fetched the metadata since node {} leads",
                voter.node, quorum.leader
            ),
        };
        let place = address_of(seen, voter.node);
        let place = place.map(|at| format!(" at {at}")).unwrap_or_default();
        let margin = match spare {
            0 => "no other voter may be lost until then".to_owned(),
            spare => format!("{spare} more may be lost until then"),
        };
        let todo = format!(
            "start node {}{place}, or see what it reports; {margin}",
            voter.node
        );
        found.push(finding(what, todo));
    }
}

fn partitions(seen: &Seen, found: &mut Vec<Finding>) {
    let Partitions {
        offline,
        below_min,
        mut under_replicated,
    } = Partitions::of(seen);
    leaderless(seen, &offline, found);
    let is_below = |named: &Named<'_>| {
        let mut below = below_min.iter();
        below.any(|it| std::ptr::eq(it.partition, named.partition))
    };
    under_replicated.retain(|named| !is_below(named));
    if !below_min.is_empty() {
        found.push(finding(
            format!(
                "{} fewer replicas in sync than min.insync.replicas, so that nothing is committed: {}",
                count(&below_min),
                some(&below_min)
            ),
            come_back(seen, &below_min),
        ));
    }
    if !under_replicated.is_empty() {
        found.push(finding(
            format!(
                "{} replicas that are not in sync: {}",
                count(&under_replicated),
                some(&under_replicated)
            ),
            come_back(seen, &under_replicated),
        ));
    }
}

/// Partitions that nobody leads: a finding for each set of brokers of which one is enough, and one where none is known to be.
fn leaderless(seen: &Seen, offline: &[Named<'_>], found: &mut Vec<Finding>) {
    let mut by_complete: BTreeMap<Vec<i32>, Vec<Named<'_>>> = BTreeMap::new();
    for named in offline {
        let key = (named.topic.to_owned(), named.partition.index);
        let told = seen.details.complete.get(&key);
        // A broker that says nothing of eligible ones says which are in sync, the last of which stays there.
        let mut complete = told.unwrap_or(&named.partition.isr).clone();
        complete.sort_unstable();
        complete.dedup();
        by_complete.entry(complete).or_default().push(*named);
    }
    for (complete, partitions) in by_complete {
        let what = format!("{} no leader: {}", count(&partitions), some(&partitions));
        let todo = if complete.is_empty() {
            format!(
                "no replica is known to have all that was acknowledged: bring back broker {} with its directories; if that \
                 cannot be, `kafka-leader-election --election-type unclean` has another one lead, and what that lacks is lost",
                any_of(&holders(&partitions))
            )
        } else {
            format!(
                "broker {} has all that was acknowledged: they come back with it and its directories; other partitions are served",
                any_of(&complete)
            )
        };
        found.push(finding(what, todo));
    }
}

/// The brokers with replicas of any of these.
fn holders(partitions: &[Named<'_>]) -> Vec<i32> {
    let all = partitions
        .iter()
        .flat_map(|named| &named.partition.replicas);
    let mut holders: Vec<i32> = all.copied().collect();
    holders.sort_unstable();
    holders.dedup();
    holders
}

/// The way to bring replicas back into sync: brokers that are away have to be started, others catch up.
fn come_back(seen: &Seen, partitions: &[Named<'_>]) -> String {
    let missing = partitions.iter().flat_map(|named| {
        let Partition { replicas, isr, .. } = named.partition;
        replicas.iter().filter(|broker| !isr.contains(broker))
    });
    let mut missing: Vec<i32> = missing.copied().collect();
    missing.sort_unstable();
    missing.dedup();
    let lives = |id: &i32| {
        let mut brokers = seen.cluster.brokers.iter();
        brokers.any(|broker| broker.id == *id && !broker.is_fenced)
    };
    let (alive, away): (Vec<i32>, Vec<i32>) = missing.into_iter().partition(lives);
    let (stuck, alive): (Vec<i32>, Vec<i32>) =
        alive.into_iter().partition(|id| is_stuck(seen, *id));
    let start = format!("start {}; replicas catch up by themselves", all_of(&away));
    let watch = format!(
        "{} {} catching up: `esker topic describe` shows the lag, and the log there says why if it does not fall",
        all_of(&alive),
        if alive.len() == 1 { "is" } else { "are" }
    );
    let cannot = format!(
        "{} cannot catch up: see what is said of {} above",
        all_of(&stuck),
        if stuck.len() == 1 { "it" } else { "them" }
    );
    let all = [(&away, start), (&stuck, cannot), (&alive, watch)];
    let all = all.into_iter().filter(|(brokers, _)| !brokers.is_empty());
    all.map(|(_, text)| text)
        .collect::<Vec<String>>()
        .join("; ")
}

/// True if a broker that lives cannot take records: it does not answer, acts as no leader or follower, or has a directory that is full or
/// offline.
fn is_stuck(seen: &Seen, broker: i32) -> bool {
    let cannot = |dir: &LogDir| dir.is_failed || is_full(dir);
    let dirs = seen.log_dirs.get(&broker);
    let by_dirs =
        dirs.is_some_and(|dirs| dirs.as_ref().map_or(true, |dirs| dirs.iter().any(cannot)));
    by_dirs || seen.serves_nothing.contains(&broker)
}

fn any_of(brokers: &[i32]) -> String {
    let brokers: Vec<String> = brokers.iter().map(i32::to_string).collect();
    brokers.join(" or ")
}

fn all_of(brokers: &[i32]) -> String {
    let names: Vec<String> = brokers.iter().map(i32::to_string).collect();
    let plural = if brokers.len() == 1 { "" } else { "s" };
    format!("broker{plural} {}", names.join(" and "))
}

fn count(partitions: &[Named<'_>]) -> String {
    match partitions.len() {
        1 => "1 partition has".to_owned(),
        count => format!("{count} partitions have"),
    }
}

fn some(partitions: &[Named<'_>]) -> String {
    let shown: Vec<String> = partitions
        .iter()
        .take(NAMED_MAX)
        .map(|named| model::printable(&named.to_string()).into_owned())
        .collect();
    let more = partitions.len() - shown.len();
    if more == 0 {
        shown.join(", ")
    } else {
        format!("{} and {more} more", shown.join(", "))
    }
}
