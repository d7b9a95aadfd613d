//! The content of a disk: a broker is started on it, and everything is read from start to end.
//!
//! Used on the states that crashes and damage leave behind. Knows what was sent and what was acknowledged when; says what is
//! missing, what is wrong and what the broker reported as damaged by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use broker::Broker;
use env::sim::{Chance, Machine};
use wire::Request;
use wire::messages::ListOffsetsRequest;
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};

use crate::checker::{History, Isolation, Key, Outcome, Value};
use crate::client::keep::Client;
use crate::client::line::{Line, PORT};
use crate::client::notes::Notes;
use crate::client::reader::Reader;

/// Virtual time in which everything must be read or refused.
const READ_MAX: Duration = Duration::from_secs(30);

/// How the report of a start that was refused begins.
pub(super) const REFUSED_START: &str = "start: ";

/// The content of a disk as a broker shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// By topic and partition.
    pub(super) records: BTreeMap<(String, i32), Vec<(i64, Value)>>,
    /// Log ends, of the partitions that told one.
    pub(super) ends: BTreeMap<(String, i32), i64>,
    /// Partitions that answered with an error, or a start that was refused.
    pub(super) reported: BTreeSet<String>,
    /// Findings that can never be right.
    pub(super) violations: Vec<String>,
}

/// Starts a broker, reads all it has, and leaves it running.
pub(super) fn survey(
    machine: &Machine,
    config: &config::Broker,
    topics: &[(String, i32)],
) -> (Contents, Option<Broker>) {
    let mut contents = Contents::default();
    let broker = match Broker::start(&machine.env(), config.clone()) {
        Ok(broker) => broker,
        Err(error) => {
            contents.reported.insert(format!("{REFUSED_START}{error}"));
            return (contents, None);
        }
    };
    let mut notes = Notes::default();
    let mut chance = Chance::new(1);
    let mut readers: Vec<Reader> = topics
        .iter()
        .map(|(topic, partitions)| {
            let mut reader = Reader::new(
                topic,
                0..*partitions,
                Isolation::Committed,
                chance.split(),
                &mut notes,
            );
            reader.hurry();
            reader
        })
        .collect();
    // Where a log starts is no promise here: a start beyond 0 is found and asked for.
    for (topic, partitions) in topics {
        for partition in 0..*partitions {
            let key = notes.key(topic, partition);
            notes.history.trimmed.insert(key, i64::MAX);
        }
    }
    let limit = machine.now().plus(READ_MAX);
    while machine.now() < limit
        && notes.violations.is_empty()
        && !readers.iter().all(Reader::is_settled)
    {
        let mut next = limit;
        for reader in &mut readers {
            next = next.min(reader.act(&machine.outside(), &mut notes));
        }
        machine.step_until(next);
    }
    contents.ends = ends(machine, topics, Isolation::Uncommitted);
    for reader in &readers {
        if contents.reported.is_empty() && !reader.is_settled() {
            contents
                .violations
                .push(format!("neither read nor refused: {}", reader.describe()));
        }
        contents.reported.extend(reader.errors());
    }
    contents.violations.append(&mut notes.violations);
    for (topic, partitions) in topics {
        for partition in 0..*partitions {
            let key = notes.key(topic, partition);
            let polls = notes
                .history
                .ops
                .iter()
                .flat_map(|op| &op.polls)
                .filter(|polled| polled.key == key);
            let records = polls
                .flat_map(|polled| polled.records.iter().copied())
                .collect();
            contents.records.insert((topic.clone(), partition), records);
        }
    }
    (contents, Some(broker))
}

/// Asks where the logs end for readers of a level, which is told of logs that cannot be read as well.
pub(super) fn ends(
    machine: &Machine,
    topics: &[(String, i32)],
    level: Isolation,
) -> BTreeMap<(String, i32), i64> {
    const LATEST: i64 = -1;
    let ask = |(topic, partitions): &(String, i32)| ListOffsetsTopic {
        name: topic.clone(),
        partitions: (0..*partitions)
            .map(|partition| ListOffsetsPartition {
                partition_index: partition,
                timestamp: LATEST,
                ..ListOffsetsPartition::default()
            })
            .collect(),
    };
    let request = ListOffsetsRequest {
        replica_id: -1,
        isolation_level: i8::from(level == Isolation::Committed),
        topics: topics.iter().map(ask).collect(),
        ..ListOffsetsRequest::default()
    };
    let mut ends = BTreeMap::new();
    let topics = call(machine, &request, 4).map(|response| response.topics);
    for topic in topics.into_iter().flatten() {
        for found in topic.partitions.iter().filter(|it| it.error_code == 0) {
            ends.insert((topic.name.clone(), found.partition_index), found.offset);
        }
    }
    ends
}

/// Asks one question; `None` when there is no answer to be had.
pub(super) fn call<R: Request>(
    machine: &Machine,
    request: &R,
    version: i16,
) -> Option<R::Response> {
    let mut line = Line::open(&machine.outside(), machine.address(PORT)).ok()?;
    line.ask(request, version, true);
    let limit = machine.now().plus(READ_MAX);
    while machine.now() < limit {
        match line.poll() {
            Ok(Some(answer)) => return answer.decode::<R>().ok(),
            Ok(None) => drop(machine.step_until(limit)),
            Err(_) => return None,
        }
    }
    None
}

/// The records that were sent, and which were acknowledged before which point.
pub(super) struct Known {
    /// Key and value to the acknowledged offset and the point of the acknowledgement; `None` for what was never acknowledged.
    sent: BTreeMap<(Key, Value), Option<(i64, usize)>>,
    trimmed: BTreeMap<Key, i64>,
    keys: BTreeMap<(String, i32), Key>,
}

impl Known {
    /// `done_at` says for each operation how many disk operations had begun when its answer was there.
    pub(super) fn new(notes: &mut Notes, topics: &[(String, i32)], done_at: &[usize]) -> Known {
        let mut keys = BTreeMap::new();
        for (topic, partitions) in topics {
            for partition in 0..*partitions {
                keys.insert((topic.clone(), partition), notes.key(topic, partition));
            }
        }
        let history: &History = &notes.history;
        let mut sent = BTreeMap::new();
        for (number, op) in history.ops.iter().enumerate() {
            for value in &op.sends {
                let at = done_at.get(number).copied().unwrap_or(usize::MAX);
                let acked = value
                    .offset
                    .filter(|_| op.outcome == Outcome::Ok)
                    .map(|offset| (offset, at));
                sent.insert((value.key, value.value), acked);
            }
        }
        Known {
            sent,
            trimmed: history.trimmed.clone(),
            keys,
        }
    }

    /// Values that nobody sent, that stand elsewhere than acknowledged, twice, or behind a gap.
    pub(super) fn wrong(&self, contents: &Contents) -> Vec<String> {
        let mut wrong = contents.violations.clone();
        for ((topic, partition), records) in &contents.records {
            let Some(key) = self.keys.get(&(topic.clone(), *partition)) else {
                continue;
            };
            let mut seen = BTreeSet::new();
            let mut before: Option<i64> = None;
            for (offset, value) in records {
                let what = match self.sent.get(&(*key, *value)) {
                    None => Some("was never sent"),
                    Some(Some((acked, _))) if acked != offset => Some("was acknowledged elsewhere"),
                    Some(_) if !seen.insert(value) => Some("stands twice"),
                    Some(_) => None,
                };
                wrong.extend(
                    what.map(|what| {
                        format!("{topic}-{partition}: value {value} at {offset} {what}")
                    }),
                );
                if before.is_some_and(|before| before + 1 != *offset) {
                    wrong.push(format!(
                        "{topic}-{partition}: a gap between {before:?} and {offset}"
                    ));
                }
                before = Some(*offset);
            }
        }
        wrong
    }

    /// Logs that end at or below an offset that was acknowledged before `point`: the next append would use it again.
    pub(super) fn short(&self, contents: &Contents, point: usize) -> Vec<String> {
        let mut short = Vec::new();
        for ((topic, partition), key) in &self.keys {
            let Some(end) = contents.ends.get(&(topic.clone(), *partition)) else {
                continue;
            };
            let sent = self.sent.range((*key, 0)..=(*key, Value::MAX));
            let acked = sent.filter_map(|(_, acked)| *acked);
            let last = acked
                .filter(|(_, at)| *at < point)
                .map(|(offset, _)| offset);
            if let Some(last) = last.max().filter(|last| end <= last) {
                short.push(format!(
                    "{topic}-{partition} ends at {end}, offset {last} was acknowledged"
                ));
            }
        }
        short
    }

    /// Acknowledged before disk operation `point`, not deleted on request, and not there: (place, offset, point of the answer).
    pub(super) fn missing(&self, contents: &Contents, point: usize) -> Vec<(String, i64, usize)> {
        let mut missing = Vec::new();
        for ((topic, partition), key) in &self.keys {
            let place = (topic.clone(), *partition);
            let there: BTreeSet<Value> = contents
                .records
                .get(&place)
                .into_iter()
                .flatten()
                .map(|(_, value)| *value)
                .collect();
            let trim = self.trimmed.get(key).copied().unwrap_or(0);
            for ((_, value), acked) in self.sent.range((*key, 0)..=(*key, Value::MAX)) {
                if let Some((offset, at)) = acked
                    && *at <= point
                    && *offset >= trim
                    && !there.contains(value)
                {
                    missing.push((format!("{topic}-{partition}"), *offset, *at));
                }
            }
        }
        missing
    }
}
