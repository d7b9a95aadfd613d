//! Process chaos: a real broker under load is killed, loses its power, runs out of disk, has a disk that dies or dawdles, or a
//! crowd at its door; clients are stopped and killed as well; then everything is read back.
//!
//! Prints what it did and one closing line, `N passed, N failed, N skipped`, with what was skipped and why; before it what failed, why
//! and where everything is kept that may explain it. Needs no network beyond loopback. The scenarios that need root and loop devices
//! say so and are skipped where those are not permitted, and those that a stock client reads back pass without it where it is not
//! installed, unless `--strict` makes that a failure. Judges only by what clients were told.

#![allow(clippy::disallowed_macros, clippy::disallowed_methods)] // acts on processes, clocks and files as an operator does

mod broker;
mod children;
mod cluster;
mod controller;
mod crowd;
mod cuts;
mod device;
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

/// The finding of a scenario.
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

impl Plan {
    fn new() -> Plan {
        let esker =
            std::env::var_os("ESKER").map_or_else(|| "target/release/esker".into(), PathBuf::from);
        Plan {
            esker,
            kills: 12,
            cuts: 8,
            seed: u64::from(std::process::id()),
        }
    }
}

struct Arguments {
    plan: Plan,
    /// All if there are none.
    chosen: Vec<String>,
    /// True if a skipped or incomplete scenario has failed.
    is_strict: bool,
}

type Scenario = (&'static str, fn(&Plan, &Place) -> Outcome);

const SCENARIOS: [Scenario; 25] = [
    ("kills", kills::run),
    ("transactions", transactions::run),
    ("zombies", zombies::run),
    ("groups", groups::run),
    ("eos", eos::run),
    ("evicted", evicted::run),
    ("money", money::run),
    ("settings", settings::run),
    ("cuts", cuts::run),
    ("xfs-cuts", cuts::on_xfs),
    ("txn-cuts", transactions::cuts),
    ("group-cuts", groups::cuts),
    ("eos-cuts", eos::cuts),
    ("settings-cuts", settings::cuts),
    ("full", full::run),
    ("dying", disks::dying),
    ("slow", disks::slow),
    ("controller", controller::run),
    ("crowd", crowd::run),
    ("stop", refusals::clean_stop),
    ("port", refusals::port_in_use),
    ("lock", refusals::second_broker),
    ("unwritable", refusals::unwritable_directory),
    ("missing", refusals::missing_directory),
    ("foreign", refusals::foreign_directory),
];

const USAGE: &str = "usage: chaos [SCENARIO]... [--kills N] [--cuts N] [--seed N] [--strict]
       chaos cluster [SCENARIO]... [--runs N] [--seed N] [--guest CLIENT]... [--list]

  --strict  a scenario that is skipped, or that no stock client has read back, has failed";

fn arguments() -> Result<Arguments, String> {
    let mut plan = Plan::new();
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
        return if children::run(&words) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, words @ ..] = &words[..]
        && first == cluster::WORD
    {
        return cluster::main(words);
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
    let mut tally = Tally::default();
    for (name, run) in SCENARIOS {
        if !chosen.is_empty() && !chosen.iter().any(|known| known == name) {
            continue;
        }
        println!("{name}");
        let start = Instant::now();
        let place = match Place::new(name) {
            Ok(place) => place,
            Err(why) => {
                tally.failures.push(format!("{name}: {why}"));
                continue;
            }
        };
        let outcome = judged(run, &plan, &place);
        let seconds = start.elapsed().as_secs_f64();
        match outcome {
            Ok(Verdict::Passed) => {
                tally.passed += 1;
                println!("  passed in {seconds:.1} s");
                let missing = place.missing().into_iter();
                tally.incomplete.extend(missing.map(|what| (name, what)));
                place.remove();
            }
            Ok(Verdict::Skipped(why)) => {
                println!("  skipped: {why}");
                tally.skipped.push((name, why));
                place.remove();
            }
            Err(why) => {
                println!("  FAILED after {seconds:.1} s: {why}");
                let kept = place.keep(&format!("{name}, seed {}: {why}", plan.seed));
                let failure = format!("{name}: {why}\n  kept in {}", kept.display());
                tally.failures.push(failure);
            }
        }
    }
    for failure in &tally.failures {
        println!("FAILED {failure}");
    }
    println!("{}", tally.closing_line());
    if tally.is_success(is_strict) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The results of the scenarios.
#[derive(Default)]
struct Tally {
    passed: usize,
    failures: Vec<String>,
    /// By scenario, and why.
    skipped: Vec<(&'static str, String)>,
    /// Passed, but not everything was looked at: by scenario, and what was missing.
    incomplete: Vec<(&'static str, String)>,
}

impl Tally {
    fn is_success(&self, is_strict: bool) -> bool {
        let is_whole = self.skipped.is_empty() && self.incomplete.is_empty();
        self.failures.is_empty() && (is_whole || !is_strict)
    }

    /// A run that left something out must not look like one that tried everything.
    fn closing_line(&self) -> String {
        format!(
            "{} passed, {} failed, {} skipped{}{}",
            self.passed,
            self.failures.len(),
            self.skipped.len(),
            by_reason(&self.skipped, "skipped"),
            by_reason(&self.incomplete, "incomplete")
        )
    }
}

/// Scenarios with one reason stand together.
fn by_reason(left_out: &[(&str, String)], how: &str) -> String {
    let mut reasons: Vec<&str> = left_out.iter().map(|(_, why)| why.as_str()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let told = |reason: &str| {
        let of_it = left_out.iter().filter(|(_, why)| why == reason);
        let names: Vec<&str> = of_it.map(|(name, _)| *name).collect();
        let reason = reason.trim().replace('\n', " ");
        format!("; {} {how}: {reason}", names.join(", "))
    };
    reasons.into_iter().map(told).collect()
}

/// A scenario that panics has failed like any other, and the next ones still run.
fn judged(run: fn(&Plan, &Place) -> Outcome, plan: &Plan, place: &Place) -> Outcome {
    let outcome = catch_unwind(AssertUnwindSafe(|| run(plan, place))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("it panicked: {}", text.unwrap_or("without words")))
    });
    outcome.and_then(|verdict| place.search_secret().map(|()| verdict))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_says_what_was_left_out_and_why() {
        let mut tally = Tally {
            passed: 3,
            failures: vec!["full".to_owned()],
            ..Tally::default()
        };
        assert_eq!(tally.closing_line(), "3 passed, 1 failed, 0 skipped");
        tally.failures.clear();
        tally.skipped = vec![
            ("cuts", "needs root".to_owned()),
            ("eos-cuts", "needs root".to_owned()),
            ("slow", "needs cc".to_owned()),
        ];
        tally.incomplete = vec![("kills", "no kcat".to_owned())];
        assert_eq!(
            tally.closing_line(),
            "3 passed, 0 failed, 3 skipped; slow skipped: needs cc; cuts, eos-cuts skipped: needs root; kills incomplete: no kcat"
        );
    }

    #[test]
    fn what_is_left_out_is_a_failure_of_a_strict_run_alone() {
        let left_out = || vec![("kills", "no kcat".to_owned())];
        let failed = Tally {
            failures: vec!["kills".to_owned()],
            ..Tally::default()
        };
        let skipped = Tally {
            skipped: left_out(),
            ..Tally::default()
        };
        let incomplete = Tally {
            incomplete: left_out(),
            ..Tally::default()
        };
        for (tally, is_success, is_strict_success) in [
            (Tally::default(), true, true),
            (skipped, true, false),
            (incomplete, true, false),
            (failed, false, false),
        ] {
            assert_eq!(tally.is_success(false), is_success);
            assert_eq!(tally.is_success(true), is_strict_success);
        }
    }
}
