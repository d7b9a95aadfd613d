//! `kill -9` under transactional load: committed transactions are there as a whole, others not at all.
//!
//! Judged by the checker of the simulator over the whole history: what producers were told, what readers of both levels were
//! shown while the broker died and came back, and everything read from start to end at last.

use std::time::Duration;

use sim::checker::check;

use crate::broker::Launch;
use crate::kills::Moments;
use crate::load::{TOPIC, create_topic};
use crate::place::Place;
use crate::txn_load::{IDS, TxnLoad};
use crate::{Outcome, Plan, Verdict};

/// Transactions between two kills.
const COMMITS: u64 = 10;

pub(crate) fn run(plan: &Plan, place: &Place) -> Outcome {
    let launch = Launch::new(plan, place, &place.dir.join("data"))?;
    let mut moments = Moments(plan.seed);
    let mut broker = launch.start()?;
    create_topic(&launch.address(), TOPIC)?;
    let load = TxnLoad::start(&launch.address(), plan.seed, &IDS);
    let mut hits = 0;
    for _ in 0..plan.kills {
        load.wait_for_commits(COMMITS)?;
        std::thread::sleep(Duration::from_millis(moments.next(600)));
        let is_hit = load.open() > 0;
        broker.kill();
        hits += usize::from(is_hit);
        std::thread::sleep(Duration::from_millis(moments.next(3) * 40));
        for _ in 0..moments.next(3) {
            launch.start_and_kill(Duration::from_millis(moments.next(60)))?;
        }
        broker = launch.start()?;
    }
    load.wait_for_commits(COMMITS)?;
    let (history, tally) = load.finish(Vec::new())?;
    let report = check(&history);
    place.say(&format!(
        "{} kills, {hits} with open transactions; {} transactions committed, {} aborted, {} undecided, {} fenced; {} events judged",
        plan.kills, tally.committed, tally.aborted, tally.undecided, tally.fenced, report.events
    ));
    launch.check_words()?;
    if !report.is_clean() {
        return Err(format!("the history is broken:\n{report}"));
    }
    if hits * 2 < plan.kills || tally.committed == 0 || tally.aborted == 0 || tally.fenced == 0 {
        return Err("vacuous: too few kills hit an open transaction".to_owned());
    }
    Ok(Verdict::Passed)
}
