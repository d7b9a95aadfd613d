//! The judgement of a cluster: what is wrong, and what an operator can do about it.
//!
//! Owns no question to a broker: what was answered goes in, sentences come out.

use std::collections::BTreeMap;
use std::fmt;

use client::{BrokerInfo, LogDir, Partition, QuorumInfo, ReplicaInfo, Topic};

use super::sights::Voter;
use super::unheard::{IS_FULL, Unheard, is_it};
use super::{Moving, Seen, Still, address_of, now};

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
    /// Without a leader, or with one that serves nothing like all others.
    pub(super) offline: Vec<Named<'a>>,
    /// With a leader, and with fewer replicas in sync than `min.insync.replicas`.
    pub(super) below_min: Vec<Named<'a>>,
    /// With a leader, and with replicas that are not in sync, those below the minimum among them.
    pub(super) under_replicated: Vec<Named<'a>>,
}

impl<'a> Partitions<'a> {
    pub(super) fn of(seen: &'a Seen) -> Partitions<'a> {
        let mut found = Partitions::default();
        let moving = seen.moving.iter();
        let moving = moving.map(|it| ((it.topic.as_str(), it.partition), &it.adding));
        let moving: BTreeMap<(&str, i32), &Vec<i32>> = moving.collect();
        for topic in &seen.topics {
            let min = seen.details.in_sync_min.get(&topic.name).copied();
            for partition in &topic.partitions {
                let (in_sync, all) = (partition.isr.len(), partition.replicas.len());
                let named = Named {
                    topic: &topic.name,
                    partition,
                };
                if partition.leader.is_none() || seen.is_unserved {
                    found.offline.push(named);
                    continue;
                }
                // More than there are replicas is never asked for.
                if min.is_some_and(|min| in_sync < min.min(all)) {
                    found.below_min.push(named);
                }
                // Those that a reassignment adds are on their way.
                let adding = moving.get(&(topic.name.as_str(), partition.index));
                let adding = adding.into_iter().flat_map(|adding| adding.iter());
                let on_their_way = adding.filter(|id| !partition.isr.contains(id)).count();
                if in_sync + on_their_way < all {
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
        Ok(quorum) => {
            if seen.is_unserved {
                found.push(unheard(seen, quorum));
            }
            voters(seen, quorum, &mut found);
        }
        Err(why) => found.push(nobody_decides(seen, why)),
    }
    // Without a controller nobody fences brokers or elects leaders: what is known of them is of the moment before.
    if !seen.is_unserved {
        brokers(seen, &mut found);
    }
    directories(seen, &mut found);
    if !seen.is_unserved {
        partitions(seen, &mut found);
        reassignments(seen, &mut found);
    }
    found
}

/// The quorum has a leader, and no broker hears from it.
fn unheard(seen: &Seen, quorum: &QuorumInfo) -> Finding {
    let said: Vec<&str> = seen.cut_off.values().map(String::as_str).collect();
    let place = address_of(seen, quorum.leader);
    let place = place.map(|at| format!(" at {at}")).unwrap_or_default();
    finding(
        format!(
            "no partition is served: {}",
            model::printable(&said.join(", "))
        ),
        format!(
            "do the brokers reach node {}{place}, the active controller? Their logs say what they wait for",
            quorum.leader
        ),
    )
}

fn nobody_decides(seen: &Seen, why: &str) -> Finding {
    let (served, todo) = if seen.is_unserved {
        (
            "no partition is served and ",
            "start controllers until a majority of the voters runs, in a new cluster all of them, and see to it that they reach each other: partitions are served again then",
        )
    } else {
        (
            "",
            "start controllers until a majority of the voters runs, in a new cluster all of them, and see to it that they reach each other",
        )
    };
    finding(
        format!(
            "nobody answers for the quorum, so that {served}nothing can be created or changed: {why}"
        ),
        todo,
    )
}

fn brokers(seen: &Seen, found: &mut Vec<Finding>) {
    for broker in seen.cluster.brokers.iter().filter(|it| it.is_fenced) {
        found.push(finding(
            format!("broker {} is fenced and serves no clients", broker.id),
            unfence(seen, broker),
        ));
    }
    for broker in &seen.serves_nothing {
        found.push(finding(
            format!("nothing is served by broker {broker}, though it leads partitions: it acts as no leader"),
            "it has had no answer of the active controller for most of its session, or is stopping: its log says which. Does it reach the \
             controllers?",
        ));
    }
}

/// The way to bring a fenced broker back.
fn unfence(seen: &Seen, broker: &BrokerInfo) -> String {
    let at = super::address(broker);
    if let Some(words) = seen.cut_off.get(&broker.id) {
        return format!(
            "it runs at {at} and says: {}. Does it reach the controllers? Its log says what it waits for",
            model::printable(words)
        );
    }
    match seen.log_dirs.get(&broker.id) {
        Some(Err(late @ Unheard::Late { is_open, .. })) => {
            format!("it {late} at {at}: {}", is_it(*is_open))
        }
        Some(Err(Unheard::Ended(_))) => format!(
            "it runs at {at} and ends connections: {IS_FULL} Or has it just started? One that has is let in within seconds, ask again"
        ),
        Some(Ok(_) | Err(Unheard::Refuses(_))) => format!(
            "it runs at {at}: one that has just started is let in within seconds, ask again; if it stays so, its log says what it waits for"
        ),
        Some(Err(Unheard::Down(_) | Unheard::Unreached(_))) | None => {
            format!(
                "the controller hears nothing from it: start it, or see what it reports at {at}"
            )
        }
    }
}

fn is_fenced(seen: &Seen, broker: i32) -> bool {
    let mut brokers = seen.cluster.brokers.iter();
    brokers.any(|it| it.id == broker && it.is_fenced)
}

fn directories(seen: &Seen, found: &mut Vec<Finding>) {
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
            // That it is fenced is said above with what to do, where somebody fences.
            Err(_) if is_fenced(seen, *broker) => {}
            Err(late @ Unheard::Late { is_open, .. }) if !seen.is_unserved => found.push(finding(
                format!("broker {broker} {late}, and the controller has not fenced it"),
                format!(
                    "{} The controller fences it when its session is over (broker.session.timeout.ms), and others lead its partitions \
                     then: ask again",
                    is_it(*is_open)
                ),
            )),
            Err(why) => {
                let reached =
                    "is its process up, and is its advertised address one that can be reached from here?";
                let todo = match why {
                    Unheard::Ended(_) => format!("{IS_FULL} If not: {reached}"),
                    _ => reached.to_owned(),
                };
                found.push(finding(format!("broker {broker} {why}"), todo));
            }
        }
    }
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

/// A broker keeps this much free for what must be written. One that takes no records for another reason names what it needs itself.
const RESERVE_BYTES: i64 = 64 << 20;

/// The free bytes below which the directory takes no records, if it has fewer.
fn full_below(dir: &LogDir) -> Option<i64> {
    let is_low = |left: &i64| *left < RESERVE_BYTES;
    let reserve = dir.usable_bytes.filter(is_low).map(|_| RESERVE_BYTES);
    dir.full_below_bytes.or(reserve).filter(|_| !dir.is_failed)
}

pub(super) fn is_full(dir: &LogDir) -> bool {
    full_below(dir).is_some()
}

fn full(dir: &LogDir) -> Finding {
    finding(
        format!(
            "directory {} of broker {} is full: {} MiB are left, and it takes records while there are {}",
            model::printable(&dir.path),
            dir.broker,
            dir.usable_bytes.unwrap_or(0) >> 20,
            full_below(dir).unwrap_or(RESERVE_BYTES) >> 20,
        ),
        "make room on its volume, or shorten the retention of large topics: others lead its partitions where they can, and it goes on by itself",
    )
}

/// Hints at faults that are none yet.
pub(super) fn notes(seen: &Seen) -> Vec<String> {
    let mut notes = Vec::new();
    if lacks_eligible_leaders(seen) {
        let note = "eligible.leader.replicas.version is 0 though several nodes vote: raise it with \
                    `kafka-features upgrade --feature eligible.leader.replicas.version=1`";
        notes.push(note.to_owned());
    }
    notes.extend(seen.topics.iter().filter_map(|topic| lone(seen, topic)));
    notes
}

/// An internal topic of the time when the cluster was one node: with that node, groups or transactions are gone.
fn lone(seen: &Seen, topic: &Topic) -> Option<String> {
    let live = seen.cluster.brokers.iter().filter(|it| !it.is_fenced);
    let (live, wanted) = (live.count(), live_replicas(seen));
    let is_lone = |partition: &Partition| partition.replicas.len() == 1;
    let lone = topic.partitions.iter().filter(|it| is_lone(it)).count();
    let needs_more = topic.is_internal && 2 <= live && 0 < lone;
    needs_more.then(|| {
        format!(
            "{} has {lone} partitions of one replica, though {live} brokers live: give them {wanted} with `kafka-reassign-partitions`, \
             or the loss of one broker stops groups or transactions",
            model::printable(&topic.name)
        )
    })
}

/// As many replicas as an internal topic has at most.
fn live_replicas(seen: &Seen) -> usize {
    const REPLICAS_MAX: usize = 3;
    let live = seen.cluster.brokers.iter().filter(|it| !it.is_fenced);
    live.count().min(REPLICAS_MAX)
}

/// True if several nodes vote and the cluster has no eligible leaders, as one that grew or was upgraded.
fn lacks_eligible_leaders(seen: &Seen) -> bool {
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

/// Reassignments that do not move: one finding for all with the same cause.
fn reassignments(seen: &Seen, found: &mut Vec<Finding>) {
    let mut by_cause: BTreeMap<(Vec<i32>, Vec<i32>), Vec<&Moving>> = BTreeMap::new();
    for moving in &seen.moving {
        let fenced = moving.adding.iter().copied();
        let fenced: Vec<i32> = fenced.filter(|id| is_fenced(seen, *id)).collect();
        if moving.stands_still.is_some() || !fenced.is_empty() {
            let others = if fenced.is_empty() {
                moving.adding.clone()
            } else {
                Vec::new()
            };
            by_cause.entry((fenced, others)).or_default().push(moving);
        }
    }
    for ((fenced, others), all) in by_cause {
        let names = all
            .iter()
            .map(|it| format!("{}-{}", it.topic, it.partition));
        let names = some_of(&names.collect::<Vec<String>>());
        let is = if all.len() == 1 {
            "reassignment of"
        } else {
            "reassignments of"
        };
        let has = if all.len() == 1 { "has" } else { "have" };
        let time = still_for(&all);
        let (why, todo) = if fenced.is_empty() {
            (
                format!("{} got nothing", all_of(&others)),
                "run this command again: if it stays so, look for a throttle that is too low, a full directory there, or the log of that \
                 broker; `kafka-reassign-partitions --cancel` takes the reassignment back"
                    .to_owned(),
            )
        } else {
            let (are, do_) = match fenced.len() {
                1 => ("is", "does"),
                _ => ("are", "do"),
            };
            (
                format!("{} {are} fenced ({do_} not heartbeat)", all_of(&fenced)),
                format!(
                    "bring {} back, as is said of it above; `kafka-reassign-partitions --cancel` takes the reassignment back",
                    all_of(&fenced)
                ),
            )
        };
        found.push(finding(
            format!("{is} {names} {has} not moved{time}: {why}"),
            todo,
        ));
    }
}

/// The longest time for which one of several reassignments has not moved.
fn still_for(all: &[&Moving]) -> String {
    let told = all.iter().filter_map(|it| match it.stands_still? {
        Still::For(time) => Some(time),
        Still::AtLeast(_) => None,
    });
    let at_least = all.iter().filter_map(|it| match it.stands_still? {
        Still::AtLeast(time) => Some(time),
        Still::For(_) => None,
    });
    match (told.max(), at_least.max()) {
        (Some(time), _) => format!(" for {} s", time.as_secs()),
        (None, Some(time)) => format!(" for at least {} s", time.as_secs()),
        (None, None) => String::new(),
    }
}

/// Voters that fetch, the leader among them.
pub(super) fn following(quorum: &QuorumInfo) -> Vec<&ReplicaInfo> {
    let voters = quorum.voters.iter();
    let fetches = |voter: &ReplicaInfo| silence_ms(quorum, voter).is_some_and(|it| it < SILENT_MS);
    voters
        .filter(|voter| fetches(voter) && successor(quorum, voter).is_none())
        .collect()
}

/// The replica that fetches in the place of a voter: the same node with another directory.
fn successor<'a>(quorum: &'a QuorumInfo, voter: &ReplicaInfo) -> Option<&'a ReplicaInfo> {
    let mut observers = quorum.observers.iter();
    observers.find(|it| {
        it.node == voter.node
            && it.directory != voter.directory
            && silence_ms(quorum, it).is_some_and(|silence| silence < SILENT_MS)
            && voter.last_fetch_ms < it.last_fetch_ms
    })
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
    let margin = match spare {
        0 => "no other voter may be lost until then".to_owned(),
        spare => format!("{spare} more may be lost until then"),
    };
    for voter in &quorum.voters {
        if following.contains(&voter) {
            found.extend(unregistered(seen, voter.node));
        } else {
            let (what, todo) = silent(seen, quorum, voter);
            found.push(finding(what, format!("{todo}; {margin}")));
        }
    }
}

/// A voter that follows, and is a broker that no client can use yet.
fn unregistered(seen: &Seen, node: i32) -> Option<Finding> {
    if seen.cluster.brokers.iter().any(|broker| broker.id == node) {
        return None;
    }
    let words = seen.voters.get(&node)?.cut_off.as_ref()?;
    Some(finding(
        format!(
            "node {node} votes and is not registered as a broker yet: no topic can have a replica there"
        ),
        format!(
            "a node that has just started registers within seconds: ask again; if it stays so, see its log (it says: {})",
            model::printable(words)
        ),
    ))
}

/// A voter that does not follow, and what to do about it.
fn silent(seen: &Seen, quorum: &QuorumInfo, voter: &ReplicaInfo) -> (String, String) {
    let node = voter.node;
    if let Some(successor) = successor(quorum, voter) {
        let what = format!(
            "node {node} runs with another directory ({}) than it votes with ({}), and has no vote",
            successor.directory, voter.directory
        );
        let todo = format!(
            "if the old directory will not come back: `esker cluster remove-voter {node}`, then `esker cluster add-voter {node}`"
        );
        return (what, todo);
    }
    let place = address_of(seen, node);
    let place = place.map(|at| format!(" at {at}")).unwrap_or_default();
    let what = match silence_ms(quorum, voter) {
        Some(silence) => format!(
            "voter {node} has not fetched the metadata for {} s",
            silence / 1000
        ),
        None => format!(
            "voter {node} has not fetched the metadata since node {} leads",
            quorum.leader
        ),
    };
    let todo = match seen.voters.get(&node) {
        None if runs(seen, node) => {
            format!("it runs{place}: its log says why it does not follow")
        }
        None if is_late(seen, node) => {
            format!(
                "it does not answer{place}: is its process paused, or its host down or cut off?"
            )
        }
        None => format!("start node {node}{place}, or see what it reports"),
        Some(Voter {
            cluster_id: Some(other),
            ..
        }) if *other != seen.cluster.cluster_id => format!(
            "a node of another cluster ({}) answers{place}: it was started without --voters and --bootstrap-controller, or with others; \
             start it with those of this cluster",
            model::printable(other)
        ),
        Some(Voter {
            cut_off: Some(words),
            ..
        }) => format!(
            "it runs{place} and says: {}; its log says more",
            model::printable(words)
        ),
        Some(_) => format!("it runs{place}: its log says why it does not follow"),
    };
    (what, todo)
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
    let all = seen.topics.iter().map(|topic| topic.partitions.len());
    let others = if offline.len() < all.sum() && seen.quorum.is_ok() {
        "; other partitions are served"
    } else {
        ""
    };
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
                "broker {} has all that was acknowledged: they come back with it and its directories{others}",
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

/// True if a broker does not have to be started: it says that it is cut off, answers, or refuses to.
fn runs(seen: &Seen, broker: i32) -> bool {
    let dirs = seen.log_dirs.get(&broker);
    let answers = dirs.is_some_and(|dirs| dirs.as_ref().map_or_else(Unheard::runs, |_| true));
    answers || seen.cut_off.contains_key(&broker)
}

/// True if nobody knows whether a broker runs: it may be paused, or its host is away.
fn is_late(seen: &Seen, broker: i32) -> bool {
    let late = matches!(seen.log_dirs.get(&broker), Some(Err(Unheard::Late { .. })));
    late && !runs(seen, broker)
}

/// The way to bring replicas back into sync: brokers that are down have to be started, those that run be mended, and others catch up.
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
    let is_listed = |id: &i32| seen.cluster.brokers.iter().any(|broker| broker.id == *id);
    let (away, gone): (Vec<i32>, Vec<i32>) = away.into_iter().partition(is_listed);
    let (outside, away): (Vec<i32>, Vec<i32>) =
        (away.into_iter()).partition(|id| runs(seen, *id) || is_late(seen, *id));
    let (stuck, alive): (Vec<i32>, Vec<i32>) =
        alive.into_iter().partition(|id| is_stuck(seen, *id));
    let back = format!(
        "{} {} fenced: see what is said of {} above; replicas catch up by themselves then",
        all_of(&outside),
        if outside.len() == 1 { "is" } else { "are" },
        if outside.len() == 1 { "it" } else { "them" }
    );
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
    let reassign = format!(
        "{} {} not on the list of brokers: give the replicas to others with `kafka-reassign-partitions`",
        all_of(&gone),
        if gone.len() == 1 { "is" } else { "are" }
    );
    let all = [
        (&away, start),
        (&outside, back),
        (&gone, reassign),
        (&stuck, cannot),
        (&alive, watch),
    ];
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
    let names = partitions.iter().map(Named::to_string);
    some_of(&names.collect::<Vec<String>>())
}

fn some_of(names: &[String]) -> String {
    let shown: Vec<String> = (names.iter().take(NAMED_MAX))
        .map(|name| model::printable(name).into_owned())
        .collect();
    let more = names.len() - shown.len();
    if more == 0 {
        shown.join(", ")
    } else {
        format!("{} and {more} more", shown.join(", "))
    }
}
