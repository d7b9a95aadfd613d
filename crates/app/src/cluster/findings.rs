//! The judgement of a cluster: what is wrong, and what an operator can do about it.
//!
//! Owns no question to a broker: what was answered goes in, sentences come out.

use client::{LogDir, QuorumInfo, ReplicaInfo, Topic};

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

/// Partitions that are not as they should be, by name.
#[derive(Default)]
pub(super) struct Partitions {
    /// Without a leader.
    pub(super) offline: Vec<String>,
    /// With a leader, and with replicas that are not in sync.
    pub(super) under_replicated: Vec<String>,
}

impl Partitions {
    pub(super) fn of(topics: &[Topic]) -> Partitions {
        let mut found = Partitions::default();
        for topic in topics {
            for partition in &topic.partitions {
                let name = || format!("{}-{}", topic.name, partition.index);
                if partition.leader.is_none() {
                    found.offline.push(name());
                } else if partition.isr.len() < partition.replicas.len() {
                    found.under_replicated.push(name());
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
    for (broker, dirs) in &seen.log_dirs {
        match dirs {
            Ok(dirs) => dirs
                .iter()
                .filter(|dir| dir.is_failed)
                .for_each(|dir| found.push(failed(dir))),
            Err(why) => found.push(finding(
                format!("broker {broker} does not answer: {why}"),
                "is its process up, and is its advertised address one that can be reached from here?",
            )),
        }
    }
    partitions(seen, &mut found);
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
        under_replicated,
    } = Partitions::of(&seen.topics);
    if !offline.is_empty() {
        let all = seen.topics.iter().flat_map(|topic| &topic.partitions);
        let mut holders: Vec<i32> = all
            .filter(|partition| partition.leader.is_none())
            .flat_map(|partition| partition.replicas.clone())
            .collect();
        holders.sort_unstable();
        holders.dedup();
        let holders: Vec<String> = holders.iter().map(i32::to_string).collect();
        found.push(finding(
            format!("{} no leader: {}", count(&offline), some(&offline)),
            format!(
                "they come back with broker {} and the directories there; other partitions are served",
                holders.join(" or ")
            ),
        ));
    }
    if !under_replicated.is_empty() {
        found.push(finding(
            format!(
                "{} replicas that are not in sync: {}",
                count(&under_replicated),
                some(&under_replicated)
            ),
            "start the brokers that are away; replicas catch up by themselves",
        ));
    }
}

fn count(names: &[String]) -> String {
    match names.len() {
        1 => "1 partition has".to_owned(),
        count => format!("{count} partitions have"),
    }
}

fn some(names: &[String]) -> String {
    let shown: Vec<String> = names
        .iter()
        .take(NAMED_MAX)
        .map(|name| model::printable(name).into_owned())
        .collect();
    let more = names.len() - shown.len();
    if more == 0 {
        shown.join(", ")
    } else {
        format!("{} and {more} more", shown.join(", "))
    }
}
