//! U-05 and U-06: every state that a crash may leave of a short run is recovered, read, and recovered again.
//!
//! The run is recorded operation by operation: journal rounds, segment writes, rolls, deletions, checkpoints, recycling. After
//! each crash everything acknowledged before it must be there, nothing else than what was sent, and a second recovery, after
//! another power cut, must find exactly the same.

use env::sim::{Chance, Faults, Image, Machine, Tape};

use super::host::lone_settings;
use super::plan::Plan;
use super::survey::{Known, survey};
use super::{Run, Topics};

/// The counts of an enumeration.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub points: usize,
    pub images: usize,
    pub records: usize,
    pub failures: Vec<String>,
}

/// Failures kept; the enumeration ends with them.
pub(super) const FAILURES_MAX: usize = 3;

/// Recovers about `budget` of the states that the run of `seed` may leave behind.
#[must_use]
pub fn images(seed: u64, budget: usize) -> Tally {
    let plan = Plan::short(seed, Faults::default());
    let (mut run, done_at) = record(seed, &plan);
    let tape = run.cluster.home().machine.tape();
    let topics: Topics = run.clients.topics.clone();
    let known = Known::new(&mut run.clients.notes, &topics, &done_at);
    let config = lone_settings(&plan);
    let mut tally = Tally {
        points: tape.points(),
        failures: run.clients.notes.violations.clone(),
        ..Tally::default()
    };

    each_image(&tape, seed, budget, |point, image, seed| {
        tally.images += 1;
        let (records, problems) = recover(image, &config, &topics, &known, seed);
        tally.records += records;
        tally.fail(point, problems)
    });
    tally
}

impl Tally {
    /// Takes note of problems; false when there are enough.
    pub(super) fn fail(&mut self, point: &str, problems: Vec<String>) -> bool {
        let name = |problem| format!("{point}: {problem}");
        self.failures.extend(problems.into_iter().map(name));
        self.failures.len() < FAILURES_MAX
    }
}

/// A few states of each point; when there are more points than budget, of some points. `judge` gets the name of a state, the state
/// and a seed, and says whether to go on.
pub(super) fn each_image(
    tape: &Tape,
    seed: u64,
    budget: usize,
    mut judge: impl FnMut(&str, Image, u64) -> bool,
) {
    let per_point = (budget / tape.points()).clamp(2, 64);
    let stride = (tape.points() * per_point).div_ceil(budget).max(1);
    let mut chance = Chance::new(seed);
    for point in ((seed as usize % stride)..tape.points()).step_by(stride) {
        let images = tape.images(point, per_point, seed).into_iter();
        for (number, image) in images.take(per_point).enumerate() {
            let name = format!("seed {seed}, crash before operation {point}, state {number}");
            if !judge(&name, image, chance.next_u64()) {
                return;
            }
        }
    }
}

/// Runs the load once with a clean restart in the middle, and notes when each answer came.
pub(super) fn record(seed: u64, plan: &Plan) -> (Run, Vec<usize>) {
    let mut run = Run::new(seed, plan);
    run.cluster.home().machine.record();
    run.done_at = Some(Vec::new());
    run.set_up();
    run.strike(plan);
    run.cluster.home_mut().stop(&mut run.clients.notes);
    run.strike(plan);
    let done_at = run.done_at.take().unwrap_or_default();
    for producer in &mut run.clients.producers {
        producer.give_up(&run.cluster.world, &mut run.clients.notes);
    }
    (run, done_at)
}

fn recover(
    image: Image,
    config: &config::Broker,
    topics: &[(String, i32)],
    known: &Known,
    seed: u64,
) -> (usize, Vec<String>) {
    let machine = Machine::on(seed, Faults::default(), image.volume);
    let (first, broker) = survey(&machine, config, topics);
    let mut problems: Vec<String> = known.wrong(&first);
    // A partition that does not exist yet is told as unknown; everything else that is told is a failure here.
    let told = first
        .reported
        .iter()
        .filter(|told| !told.contains("UnknownTopicOrPartition"));
    problems.extend(told.map(|told| format!("reported {told}")));
    for (place, offset, at) in known.missing(&first, image.point).into_iter().take(3) {
        problems.push(format!(
            "{place} lacks offset {offset}, acknowledged before operation {at}"
        ));
    }
    if problems.is_empty() {
        drop(broker);
        if seed.is_multiple_of(2) {
            machine.power_cut();
        } else {
            machine.kill();
        }
        let (second, _broker) = survey(&machine, config, topics);
        if second != first {
            problems.push("a second recovery shows something else than the first".to_owned());
        }
    }
    (first.records.values().map(Vec::len).sum(), problems)
}
