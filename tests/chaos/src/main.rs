//! Process chaos: a real broker under load is killed, loses its power, runs out of disk, has a disk that dies or dawdles, or a
//! crowd at its door; clients are stopped and killed as well; then everything is read back.
//!
//! Prints what it did and one closing line, `N passed, N failed, N skipped`, with what was skipped and why; before it what failed, why
//! and where everything is kept that may explain it. Needs no network beyond loopback. The scenarios that need root and loop devices
//! say so and are skipped where those are not permitted, unless `--strict` makes that a failure. Judges only by what clients were told.

#![allow(clippy::disallowed_macros, clippy::disallowed_methods)] // acts on processes, clocks and files as an operator does

mod broker;
mod children;
mod crowd;
mod cuts;
mod disks;
mod eos;
mod evicted;
mod full;
mod groups;
mod kills;
mod ledger;
mod load;
mod member;
mod money;
mod place;
mod reading;
mod refusals;
mod settings;
mod site;
mod stock;
mod transactions;
mod txn;
mod txn_load;
mod volume;
mod witness;
mod zombies;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use crate::place::Place;

/// What a scenario found.
pub(crate) enum Verdict {
    Passed,
    Skipped(String),
}

pub(crate) type Outcome = Result<Verdict, String>;

/// How hard to try.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) esker: PathBuf,
    pub(crate) kills: usize,
    pub(crate) cuts: usize,
    /// Chooses the moments; printed, so that a run can be repeated as far as processes can.
    pub(crate) seed: u64,
}

struct Arguments {
    plan: Plan,
    /// All if there are none.
    chosen: Vec<String>,
    /// What is skipped has failed.
    is_strict: bool,
}

type Scenario = (&'static str, fn(&Plan, &Place) -> Outcome);

const SCENARIOS: [Scenario; 23] = [
    ("kills", kills::run),
    ("transactions", transactions::run),
    ("zombies", zombies::run),
    ("groups", groups::run),
    ("eos", eos::run),
    ("evicted", evicted::run),
    ("money", money::run),
    ("settings", settings::run),
    ("cuts", cuts::run),
    ("txn-cuts", transactions::cuts),
    ("group-cuts", groups::cuts),
    ("eos-cuts", eos::cuts),
    ("settings-cuts", settings::cuts),
    ("full", full::run),
    ("dying", disks::dying),
    ("slow", disks::slow),
    ("crowd", crowd::run),
    ("stop", refusals::clean_stop),
    ("port", refusals::port_in_use),
    ("lock", refusals::second_broker),
    ("unwritable", refusals::unwritable_directory),
    ("missing", refusals::missing_directory),
    ("foreign", refusals::foreign_directory),
];

const USAGE: &str = "usage: chaos [SCENARIO]... [--kills N] [--cuts N] [--seed N] [--strict]

  --strict  a scenario that is skipped has failed";

fn arguments() -> Result<Arguments, String> {
    let esker =
        std::env::var_os("ESKER").map_or_else(|| "target/release/esker".into(), PathBuf::from);
    let mut plan = Plan {
        esker,
        kills: 12,
        cuts: 8,
        seed: u64::from(std::process::id()),
    };
    let (mut chosen, mut is_strict) = (Vec::new(), false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let value = arguments.next().and_then(|value| value.parse::<u64>().ok());
            value.ok_or_else(|| format!("{argument} takes a number\n{USAGE}"))
        };
        match argument.as_str() {
            "--kills" => plan.kills = number()? as usize,
            "--cuts" => plan.cuts = number()? as usize,
            "--seed" => plan.seed = number()?,
            "--strict" => is_strict = true,
            name if SCENARIOS.iter().any(|(known, _)| *known == name) => chosen.push(argument),
            _ => {
                let names = SCENARIOS.map(|(name, _)| name).join(", ");
                return Err(format!(
                    "{argument}: no such scenario; there are {names}\n{USAGE}"
                ));
            }
        }
    }
    Ok(Arguments {
        plan,
        chosen,
        is_strict,
    })
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() == Some(children::ROLE) {
        let words: Vec<String> = words.collect();
        return match children::run(&words) {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        };
    }
    let Arguments {
        plan,
        chosen,
        is_strict,
    } = match arguments() {
        Ok(parsed) => parsed,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    println!("broker {}, seed {}", plan.esker.display(), plan.seed);
    let (mut passed, mut failures, mut skipped) = (0, Vec::new(), Vec::new());
    for (name, run) in SCENARIOS {
        if !chosen.is_empty() && !chosen.iter().any(|known| known == name) {
            continue;
        }
        println!("{name}");
        let start = Instant::now();
        let place = match Place::new(name) {
            Ok(place) => place,
            Err(why) => {
                failures.push(format!("{name}: {why}"));
                continue;
            }
        };
        let outcome = judged(run, &plan, &place);
        let seconds = start.elapsed().as_secs_f64();
        match outcome {
            Ok(Verdict::Passed) => {
                passed += 1;
                println!("  passed in {seconds:.1} s");
                place.remove();
            }
            Ok(Verdict::Skipped(why)) => {
                println!("  skipped: {why}");
                skipped.push((name, why));
                place.remove();
            }
            Err(why) => {
                println!("  FAILED after {seconds:.1} s: {why}");
                let kept = place.keep(&format!("{name}, seed {}: {why}", plan.seed));
                failures.push(format!("{name}: {why}\n  kept in {}", kept.display()));
            }
        }
    }
    for failure in &failures {
        println!("FAILED {failure}");
    }
    println!("{}", closing_line(passed, failures.len(), &skipped));
    match failures.is_empty() && (skipped.is_empty() || !is_strict) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// A run that left something out must not look like one that tried everything.
fn closing_line(passed: usize, failed: usize, skipped: &[(&str, String)]) -> String {
    let mut line = format!(
        "{passed} passed, {failed} failed, {} skipped",
        skipped.len()
    );
    let mut reasons: Vec<&str> = skipped.iter().map(|(_, why)| why.as_str()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    for reason in reasons {
        let of_it = skipped.iter().filter(|(_, why)| why == reason);
        let names: Vec<&str> = of_it.map(|(name, _)| *name).collect();
        let reason = reason.trim().replace('\n', " ");
        line.push_str(&format!("; {} skipped: {reason}", names.join(", ")));
    }
    line
}

/// A scenario that panics has failed like any other, and the next ones still run.
fn judged(run: fn(&Plan, &Place) -> Outcome, plan: &Plan, place: &Place) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| run(plan, place))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("it panicked: {}", text.unwrap_or("without words")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_says_what_was_skipped_and_why() {
        assert_eq!(closing_line(3, 1, &[]), "3 passed, 1 failed, 0 skipped");
        let skipped = [
            ("cuts", "needs root".to_owned()),
            ("eos-cuts", "needs root".to_owned()),
            ("slow", "needs cc".to_owned()),
        ];
        assert_eq!(
            closing_line(3, 0, &skipped),
            "3 passed, 0 failed, 3 skipped; slow skipped: needs cc; cuts, eos-cuts skipped: needs root"
        );
    }
}
