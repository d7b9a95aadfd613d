//! M-07 for transactions: bytes of a stopped broker's files change, those of the coordinators' logs and of what is derived from
//! transactions with them. Whoever is hurt says so, and nobody else; what nobody reports is judged as if nothing had happened,
//! also where somebody else has reported something.

use std::collections::BTreeSet;
use std::path::Path;

use env::sim::{Chance, Faults, Machine, Rot};
use wire::ErrorCode;
use wire::messages::{InitProducerIdRequest, OffsetFetchRequest};

use super::damage::{Damages, FAILURES_MAX, files, is_told_as_rot, place_of};
use super::host::lone_settings;
use super::plan::Plan;
use super::survey::{REFUSED_START, call};
use super::txn_images::{Found, find, history, wrong_commits};
use super::{GROUP, Run};
use crate::checker::{Anomaly, History, Isolation, Key, check};
use crate::client::transactor::TxnHabits;

/// NOT_COORDINATOR.
const NOT_COORDINATOR: i16 = ErrorCode::NotCoordinator as i16;

/// Where coordinators keep their records, and the broker its own.
const TRANSACTIONS: &str = "__transaction_state";
const OFFSETS: &str = "__consumer_offsets";
const METADATA: &str = "__cluster_metadata";

/// The anomalies that reported damage may have left.
const MISSING: [Anomaly; 6] = [
    Anomaly::LostWrite,
    Anomaly::Unseen,
    Anomaly::LevelsDiffer,
    Anomaly::TornTransaction,
    Anomaly::PollSkip,
    Anomaly::PollSkipInside,
];

/// Damages the files of one short run of transactions in `count` ways, one at a time.
#[must_use]
pub fn txn_damages(seed: u64, count: usize) -> Damages {
    let plan = Plan::short_transactions(seed);
    let mut run = Run::new(seed, &plan);
    run.done_at = Some(Vec::new());
    run.set_up();
    run.strike(&plan);
    run.cluster.home_mut().stop(&mut run.clients.notes);
    run.strike(&plan);
    run.drain();
    run.cluster.home_mut().stop(&mut run.clients.notes);
    let mut tally = Damages {
        failures: run.clients.notes.violations.clone(),
        ..Damages::default()
    };
    let volume = run.cluster.home().machine.tape().last();
    let config = lone_settings(&plan);
    let files = files(
        &Machine::on(seed, Faults::default(), volume.clone()),
        Path::new("/data"),
    );
    let mut chance = Chance::new(seed);
    while tally.tried < count && tally.failures.len() < FAILURES_MAX {
        let (path, len) = chance.pick(&files).clone();
        let machine = Machine::on(seed, Faults::default(), volume.clone());
        let at = chance.below(len);
        let bit = chance.below(8) as u8;
        let (bytes, rot) = match chance.below(3) {
            0 => (1, Rot::Flip { bit }),
            1 => (512, Rot::Flip { bit: 3 }),
            _ => (chance.between(1, 4096), Rot::Zero),
        };
        let changed = machine.rot(&path, at..(at + bytes).min(len), rot);
        changed.expect("a file that was listed is there");
        tally.tried += 1;
        let hurt = Hurt {
            path: &path,
            was_refused: false,
            is_rot: true,
        };
        let (is_told, problems) = judge(&machine, &config, &plan, &mut run, &hurt);
        *(if is_told {
            &mut tally.reported
        } else {
            &mut tally.harmless
        }) += 1;
        let what = format!(
            "seed {seed}, {rot:?} of {bytes} bytes at {at} of {}",
            path.display()
        );
        let name = |problem| format!("{what}: {problem}");
        tally.failures.extend(problems.into_iter().map(name));
    }
    tally
}

/// The damage done to a disk.
pub(super) struct Hurt<'a> {
    /// Of a partition's file only that partition may suffer, and those whom its records coordinate.
    pub(super) path: &'a Path,
    /// A broker did not start already.
    pub(super) was_refused: bool,
    /// Bytes have changed, and none fails to be read: whoever asks for them is told that they are damaged.
    pub(super) is_rot: bool,
}

impl Hurt<'_> {
    /// Reports of places that are sound, and reports of something else than there is.
    fn misplaced(&self, told: &[String], excused: &Excused) -> Vec<String> {
        let rot = told
            .iter()
            .filter(|told| self.is_rot && !is_told_as_rot(told));
        let mut problems: Vec<String> = rot.map(|told| format!("rot is told as {told}")).collect();
        let place = place_of(self.path).filter(|place| !place.starts_with(METADATA));
        let Some(place) = place.filter(|_| !self.was_refused) else {
            return problems;
        };
        let is_elsewhere = |told: &&String| {
            let may_be_refused = told.starts_with(REFUSED_START) && !self.is_rot;
            !may_be_refused && !told.starts_with(&format!("{place}: "))
        };
        let told = told.iter().filter(is_elsewhere).cloned();
        let is_other = |topic: &&&str| !place.starts_with(**topic);
        let refusing = excused.refusing.iter().filter(is_other);
        let told = told.chain(refusing.map(|topic| format!("a coordinator of {topic} refuses")));
        problems.extend(told.map(|told| format!("damage of {place} is felt elsewhere: {told}")));
        problems
    }
}

/// Starts a broker on what is left, and says whether it told of damage, and what is wrong with what it serves.
pub(super) fn judge(
    machine: &Machine,
    config: &config::Broker,
    plan: &Plan,
    run: &mut Run,
    hurt: &Hurt<'_>,
) -> (bool, Vec<String>) {
    let (found, _broker) = find(machine, config, plan, run);
    let excused = Excused::of(machine, plan, run, &found, hurt.was_refused);
    let mut problems = found.problems.clone();
    problems.extend(hurt.misplaced(&found.told, &excused));
    if excused.somebody_waits() {
        problems.retain(|problem| !problem.contains("cannot be read to its end"));
    }
    let all = history(&run.clients.notes.history, |_| true, &found.ops);
    let mut report = check(&all);
    report
        .findings
        .retain(|anomaly, _| !excused.is_told() || !MISSING.contains(anomaly));
    problems.extend((!report.is_clean()).then(|| report.to_string()));
    if excused.is_told() && !excused.everything {
        for level in [Isolation::Committed, Isolation::Uncommitted] {
            let report = check(&excused.rest_of(&all, level));
            problems.extend((!report.is_clean()).then(|| format!("{level:?}: {report}")));
        }
    }
    for (group, offset) in &found.offsets {
        if !excused.is_group(group)
            && let Err(what) = run.clients.notes.numbers(group).judge(*offset, |_| true)
        {
            problems.push(format!("{group}: {what}"));
        }
    }
    if !excused.is_group(GROUP) {
        problems.extend(wrong_commits(run, &found, usize::MAX));
    }
    (excused.is_told(), problems)
}

/// Readers that got a report of damage, and those that suffer from it: no other may lack anything.
#[derive(Default)]
struct Excused {
    /// The broker does not start.
    everything: bool,
    /// Partitions that answer with an error.
    damaged: BTreeSet<Key>,
    /// Those where a transaction stays open because its coordinator cannot read its log: readers of committed data wait for ever.
    held_up: BTreeSet<Key>,
    /// Those whose coordinator refuses them, or the transactions that commit their offsets.
    groups: BTreeSet<String>,
    /// Topics in which a coordinator that refuses keeps its records.
    refusing: BTreeSet<&'static str>,
}

impl Excused {
    fn of(
        machine: &Machine,
        plan: &Plan,
        run: &mut Run,
        found: &Found,
        was_refused: bool,
    ) -> Excused {
        let is_refused = |told: &String| told.starts_with(REFUSED_START);
        let mut excused = Excused {
            everything: was_refused || found.told.iter().any(is_refused),
            ..Excused::default()
        };
        for (topic, partitions) in run.clients.topics.clone() {
            for partition in 0..partitions {
                let place = format!("{topic}-{partition}: ");
                if found.told.iter().any(|told| told.starts_with(&place)) {
                    excused
                        .damaged
                        .insert(run.clients.notes.key(&topic, partition));
                }
            }
        }
        for habits in &plan.transactors {
            if refuses_txns(machine, habits) {
                let places = habits.places.iter();
                let keys =
                    places.map(|(topic, partition)| run.clients.notes.key(topic, *partition));
                excused.held_up.extend(keys);
                excused.groups.extend(habits.group.clone());
                excused.refusing.insert(TRANSACTIONS);
            }
        }
        let groups = plan.transactors.iter().filter_map(|it| it.group.as_deref());
        for group in groups.chain([GROUP]) {
            if refuses_offsets(machine, group) {
                excused.groups.insert(group.to_owned());
                excused.refusing.insert(OFFSETS);
            }
        }
        excused
    }

    fn is_told(&self) -> bool {
        self.somebody_waits() || !self.groups.is_empty()
    }

    fn somebody_waits(&self) -> bool {
        self.everything || !self.damaged.is_empty() || !self.held_up.is_empty()
    }

    fn is_group(&self, group: &str) -> bool {
        self.everything || self.groups.contains(group)
    }

    /// The actions and findings of readers of a level where nothing excuses them.
    fn rest_of(&self, all: &History, level: Isolation) -> History {
        let is_excused = |key: &Key| {
            self.damaged.contains(key)
                || level == Isolation::Committed && self.held_up.contains(key)
        };
        let mut rest = History {
            read_to_the_end: vec![level],
            ..all.clone()
        };
        for op in &mut rest.ops {
            op.sends.retain(|sent| !is_excused(&sent.key));
            let is_of_level = op.isolation == level;
            op.polls
                .retain(|polled| is_of_level && !is_excused(&polled.key));
        }
        rest
    }
}

/// A coordinator whose log is damaged reports it to everyone who asks, and to nobody else: what it had not ended stays open.
fn refuses_txns(machine: &Machine, habits: &TxnHabits) -> bool {
    let request = InitProducerIdRequest {
        transactional_id: Some(habits.id.clone()),
        transaction_timeout_ms: 1_000,
        producer_id: -1,
        producer_epoch: -1,
        ..InitProducerIdRequest::default()
    };
    call(machine, &request, 3).map(|told| told.error_code) == Some(NOT_COORDINATOR)
}

fn refuses_offsets(machine: &Machine, group: &str) -> bool {
    let request = OffsetFetchRequest {
        group_id: group.to_owned(),
        ..OffsetFetchRequest::default()
    };
    call(machine, &request, 7).map(|told| told.error_code) == Some(NOT_COORDINATOR)
}
