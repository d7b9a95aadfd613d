//! M-07 for transactions: bytes of a stopped broker's files change, those of the coordinators' logs and of what is derived from
//! transactions with them. Whoever is hurt says so; what nobody reports is judged as if nothing had happened.

use std::path::Path;

use env::sim::{Chance, Faults, Machine, Rot};
use wire::ErrorCode;
use wire::messages::{InitProducerIdRequest, OffsetFetchRequest};

use super::damage::{Damages, FAILURES_MAX, files};
use super::host::settings;
use super::plan::Plan;
use super::survey::call;
use super::txn_images::{find, history, wrong_commits};
use super::{GROUP, Run};
use crate::checker::{Anomaly, check};
use crate::client::transactor::TxnHabits;

/// NOT_COORDINATOR.
const NOT_COORDINATOR: i16 = ErrorCode::NotCoordinator as i16;

/// What damage that was told may have left.
const MISSING: [Anomaly; 5] = [
    Anomaly::LostWrite,
    Anomaly::Unseen,
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
    run.host.stop(&mut run.notes);
    run.strike(&plan);
    run.drain();
    run.host.stop(&mut run.notes);
    let mut tally = Damages {
        failures: run.notes.violations.clone(),
        ..Damages::default()
    };
    let volume = run.host.machine.tape().last();
    let config = settings(&plan);
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
        let (is_told, problems) = judge(&machine, &config, &plan, &mut run, false);
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

/// Starts a broker on what is left, and says whether it told of damage, and what is wrong with what it serves.
pub(super) fn judge(
    machine: &Machine,
    config: &config::Broker,
    plan: &Plan,
    run: &mut Run,
    was_told: bool,
) -> (bool, Vec<String>) {
    let (found, _broker) = find(machine, config, plan, run);
    let is_told = was_told || !found.told.is_empty() || a_coordinator_refuses(machine, plan);
    let mut problems = found.problems.clone();
    if is_told {
        // Who waits for what is damaged waits for ever.
        problems.retain(|problem| !problem.contains("cannot be read to its end"));
    }
    let mut report = check(&history(&run.notes.history, |_| true, &found.ops));
    report
        .findings
        .retain(|anomaly, _| !is_told || !MISSING.contains(anomaly));
    if !report.is_clean() {
        problems.push(report.to_string());
    }
    let offsets = found.offsets.iter().filter(|_| !is_told);
    for (group, offset) in offsets {
        if let Err(what) = run.notes.numbers(group).judge(*offset, |_| true) {
            problems.push(format!("{group}: {what}"));
        }
    }
    if !is_told {
        problems.extend(wrong_commits(run, &found, usize::MAX));
    }
    (is_told, problems)
}

/// A coordinator whose log is damaged tells everyone who asks it, and nobody else: what it had not ended stays open.
fn a_coordinator_refuses(machine: &Machine, plan: &Plan) -> bool {
    let refuses_txns = |habits: &TxnHabits| {
        let request = InitProducerIdRequest {
            transactional_id: Some(habits.id.clone()),
            transaction_timeout_ms: 1_000,
            producer_id: -1,
            producer_epoch: -1,
            ..InitProducerIdRequest::default()
        };
        call(machine, &request, 3).map(|told| told.error_code) == Some(NOT_COORDINATOR)
    };
    let refuses_offsets = |group: &str| {
        let request = OffsetFetchRequest {
            group_id: group.to_owned(),
            ..OffsetFetchRequest::default()
        };
        call(machine, &request, 7).map(|told| told.error_code) == Some(NOT_COORDINATOR)
    };
    let groups = plan.transactors.iter().filter_map(|it| it.group.as_deref());
    plan.transactors.iter().any(refuses_txns) || groups.chain([GROUP]).any(refuses_offsets)
}
