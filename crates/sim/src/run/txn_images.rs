//! M-05 over crashes: every state that one may leave of a run with transactions is recovered, read at both levels and judged.
//!
//! Reports from before the crash are the history so far; later ones may have happened or not. The coordinator completes what
//! it had decided and aborts the rest in time, so everything can be read to its end. Then a transaction is there as a whole or not
//! at all, what readers had been shown stays, a committed offset belongs to a transaction that was committed, and acknowledged commits
//! of a group are there. A second recovery shows the same.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use broker::Broker;
use env::sim::{Chance, Faults, Image, Machine};
use wire::messages::OffsetFetchRequest;
use wire::messages::offset_fetch_request::OffsetFetchRequestTopic;

use super::host::lone_settings;
use super::images::{Tally, each_image, record};
use super::plan::Plan;
use super::survey::{REFUSED_START, call};
use super::{GROUP, Run, Topics};
use crate::checker::{History, Isolation, Key, Op, Outcome, Value, check};
use crate::client::keep::Client;
use crate::client::notes::Notes;
use crate::client::reader::Reader;
use crate::client::transactor::OFFSET_OF;

/// Virtual time in which open transactions are aborted and everything is read.
const READ_MAX: Duration = Duration::from_secs(60);
/// Processes of the readings, beyond those of the run.
const READERS_FROM: u32 = 1_000_000;

/// Recovers about `budget` of the states that the run of `seed` may leave behind.
#[must_use]
pub fn txn_images(seed: u64, budget: usize) -> Tally {
    let mut plan = Plan::short_transactions(seed);
    // The decision of a coordinator and its consequences reach the disk in one round, or in rounds of two directories, of which
    // either may be the only one that a crash leaves.
    plan.log_dirs = 1 + (seed % 2) as usize;
    let (mut run, done_at) = record(seed, &plan);
    for transactor in &mut run.clients.transactors {
        transactor.crash(&run.cluster.world, &mut run.clients.notes);
    }
    let tape = run.cluster.home().machine.tape();
    let mut tally = Tally {
        points: tape.points(),
        failures: run.clients.notes.violations.clone(),
        ..Tally::default()
    };
    let config = lone_settings(&plan);
    each_image(&tape, seed, budget, |name, image, seed| {
        tally.images += 1;
        let (records, problems) = recover(image, &config, &plan, &mut run, &done_at, seed);
        tally.records += records;
        tally.fail(name, problems)
    });
    tally
}

/// The findings of readers of both levels: level, key, offset and value.
#[derive(Default)]
pub(super) struct Found {
    pub(super) ops: Vec<Op>,
    pub(super) problems: Vec<String>,
    /// The broker's words instead of records, and of which partition.
    pub(super) told: Vec<String>,
    /// By group.
    pub(super) offsets: BTreeMap<String, i64>,
    /// Of the group with members, by partition.
    pub(super) commits: BTreeMap<i32, i64>,
}

impl Found {
    fn records(&self) -> Vec<(bool, Key, i64, Value)> {
        let mut records = Vec::new();
        for op in &self.ops {
            let is_committed = op.isolation == Isolation::Committed;
            for polled in &op.polls {
                let all = polled.records.iter();
                records.extend(all.map(|(at, value)| (is_committed, polled.key, *at, *value)));
            }
        }
        records.sort_unstable();
        records
    }
}

fn recover(
    image: Image,
    config: &config::Broker,
    plan: &Plan,
    run: &mut Run,
    done_at: &[usize],
    seed: u64,
) -> (usize, Vec<String>) {
    let point = image.point;
    let machine = Machine::on(seed, Faults::default(), image.volume);
    let (first, broker) = find(&machine, config, plan, run);
    let mut problems = first.problems.clone();
    problems.extend(first.told.iter().map(|told| format!("reported {told}")));
    let records = first.records();
    let is_done = |op: usize| done_at.get(op).is_some_and(|at| *at <= point);
    for (group, offset) in &first.offsets {
        if let Err(what) = run.clients.notes.numbers(group).judge(*offset, is_done) {
            problems.push(format!("{group}: {what}"));
        }
    }
    problems.extend(wrong_commits(run, &first, point));
    if problems.is_empty() {
        let report = check(&history(&run.clients.notes.history, is_done, &first.ops));
        if !report.is_clean() {
            problems.push(report.to_string());
        }
    }
    if problems.is_empty() {
        drop(broker);
        if seed.is_multiple_of(2) {
            let _ = machine.power_cut();
        } else {
            machine.kill();
        }
        let (second, _broker) = find(&machine, config, plan, run);
        problems.extend(second.problems.iter().cloned());
        let is_same = second.records() == records
            && (&second.offsets, &second.commits) == (&first.offsets, &first.commits);
        if !is_same {
            problems.push("a second recovery shows something else than the first".to_owned());
        }
    }
    (records.len(), problems)
}

/// The history up to the crash, and what was read after it.
pub(super) fn history(of_run: &History, is_done: impl Fn(usize) -> bool, found: &[Op]) -> History {
    let mut history = History {
        read_to_the_end: vec![Isolation::Committed, Isolation::Uncommitted],
        ..History::default()
    };
    for (number, op) in of_run.ops.iter().enumerate() {
        let mut op = op.clone();
        if !is_done(number) {
            // Records shown then were not shown before the crash.
            op.polls.clear();
            op.sends.iter_mut().for_each(|sent| sent.offset = None);
            // A transaction whose commit was never asked for stays undone.
            if op.outcome == Outcome::Ok {
                op.outcome = Outcome::Info;
            }
        }
        history.ops.push(op);
    }
    let later = history.ops.iter().map(|op| op.returned).max().unwrap_or(0) + 1;
    for op in found {
        let mut op = op.clone();
        op.process += READERS_FROM;
        op.invoked += later;
        op.returned += later;
        history.ops.push(op);
    }
    history
}

/// Starts a broker on the machine, and reads everything once nothing is undecided.
pub(super) fn find(
    machine: &Machine,
    config: &config::Broker,
    plan: &Plan,
    run: &mut Run,
) -> (Found, Option<Broker>) {
    let mut found = Found::default();
    let broker = match Broker::start(&machine.env(), config.clone()) {
        Ok(broker) => broker,
        Err(error) => {
            found.told.push(format!("{REFUSED_START}{error}"));
            return (found, None);
        }
    };
    let mut notes = Notes::default();
    let mut chance = Chance::new(1);
    let topics: Topics = run.clients.topics.clone();
    let mut readers = Vec::new();
    for (topic, partitions) in &topics {
        for isolation in [Isolation::Committed, Isolation::Uncommitted] {
            let mut reader =
                Reader::new(topic, 0..*partitions, isolation, chance.split(), &mut notes);
            reader.hurry();
            readers.push(reader);
        }
    }
    let limit = machine.now().plus(READ_MAX);
    // A topic that is not there yet is told as unknown for ever.
    let is_done = |reader: &Reader| reader.is_done() || reader.is_unknown();
    while machine.now() < limit && notes.violations.is_empty() && !readers.iter().all(is_done) {
        let mut next = limit;
        for reader in &mut readers {
            next = next.min(reader.act(&machine.outside(), &mut notes));
        }
        machine.step_until(next);
    }
    found.problems = std::mem::take(&mut notes.violations);
    for reader in readers.iter().filter(|reader| !reader.is_unknown()) {
        found.told.extend(reader.errors());
    }
    for reader in readers.iter().filter(|reader| !is_done(reader)) {
        let stuck = reader.describe();
        found
            .problems
            .push(format!("cannot be read to its end: {stuck}"));
    }
    for group in plan.transactors.iter().filter_map(|it| it.group.as_ref()) {
        let (topic, partition) = OFFSET_OF;
        let all = offsets_of(machine, group, topic, partition..partition + 1);
        let only = all.into_values().next();
        found.offsets.extend(only.map(|only| (group.clone(), only)));
    }
    if let Some((topic, partitions)) = topics.first().filter(|_| plan.members > 0) {
        found.commits = offsets_of(machine, GROUP, topic, 0..*partitions);
    }
    let mut keys: BTreeMap<Key, Key> = BTreeMap::new();
    for (topic, partitions) in &topics {
        for partition in 0..*partitions {
            let key = run.clients.notes.key(topic, partition);
            keys.insert(notes.key(topic, partition), key);
        }
    }
    found.ops = std::mem::take(&mut notes.history.ops);
    for polled in found.ops.iter_mut().flat_map(|op| &mut op.polls) {
        polled.key = keys.get(&polled.key).copied().unwrap_or(polled.key);
    }
    (found, Some(broker))
}

/// Commits that were acknowledged before the crash are there, and none that nobody asked for.
pub(super) fn wrong_commits(run: &mut Run, found: &Found, point: usize) -> Vec<String> {
    let mut floors: BTreeMap<i32, i64> = BTreeMap::new();
    for ((partition, offset), at) in run
        .clients
        .notes
        .acked_commits
        .iter()
        .zip(&run.committed_at)
    {
        if *at <= point {
            let floor = floors.entry(*partition).or_default();
            *floor = (*floor).max(*offset);
        }
    }
    let mut wrong = Vec::new();
    for partition in 0..run.clients.topics[0].1 {
        let floor = floors.get(&partition).copied().unwrap_or(-1);
        let tried = run.clients.notes.part(GROUP, partition).tried;
        let offset = found.commits.get(&partition).copied().unwrap_or(-1);
        if offset < floor || offset > tried {
            wrong.push(format!(
                "{GROUP}: partition {partition} is committed at {offset}, acknowledged was {floor}, tried {tried}"
            ));
        }
    }
    wrong
}

/// The committed offsets of a group, where anybody can say.
fn offsets_of(
    machine: &Machine,
    group: &str,
    topic: &str,
    partitions: Range<i32>,
) -> BTreeMap<i32, i64> {
    let request = OffsetFetchRequest {
        group_id: group.to_owned(),
        topics: Some(vec![OffsetFetchRequestTopic {
            name: topic.to_owned(),
            partition_indexes: partitions.collect(),
        }]),
        require_stable: true,
        ..OffsetFetchRequest::default()
    };
    let response = call(machine, &request, 7);
    let topics = response.filter(|told| told.error_code == 0);
    let topics = topics.into_iter().flat_map(|told| told.topics);
    let found = topics.flat_map(|topic| topic.partitions);
    found
        .filter(|found| found.error_code == 0)
        .map(|found| (found.partition_index, found.committed_offset))
        .collect()
}
