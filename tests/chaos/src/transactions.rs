//! Deaths of the broker under transactional load, by `kill -9` and with its power: committed transactions are there as a whole, others
//! not at all.
//!
//! Judged by the checker of the simulator over the whole history: what producers were told, what readers of both levels were
//! shown while the broker died and came back, and everything read from start to end at last.

use std::time::Duration;

use sim::checker::check;

use crate::kills::Moments;
use crate::load::create_topic;
use crate::place::Place;
use crate::site::Site;
use crate::txn_load::{IDS, TOPIC, TxnLoad};
use crate::{Outcome, Plan, Verdict, stock};

/// Transactions between two deaths.
const COMMITS: u64 = 10;

pub(crate) fn run(plan: &Plan, place: &Place) -> Outcome {
    judged(plan, place, Site::of_kills(plan, place)?, plan.kills)
}

pub(crate) fn cuts(plan: &Plan, place: &Place) -> Outcome {
    Site::with_power(plan, place, |site| judged(plan, place, site, plan.cuts))
}

fn judged(plan: &Plan, place: &Place, mut site: Site, deaths: usize) -> Outcome {
    let address = site.launch.address();
    let mut moments = Moments(plan.seed);
    let mut broker = site.launch.start()?;
    create_topic(&address, TOPIC)?;
    let load = TxnLoad::start(&address, plan.seed, &IDS);
    for _ in 0..deaths {
        load.wait_for_commits(COMMITS)?;
        std::thread::sleep(Duration::from_millis(moments.next(600)));
        load.wait_for_open();
        broker = site.strike(broker, &mut moments, || load.open() > 0)?;
    }
    load.wait_for_commits(COMMITS)?;
    let (history, tally) = load.finish(Vec::new())?;
    let report = check(&history);
    broker.kill();
    place.say(&site.describe());
    stock::tell(place);
    place.say(&format!("{tally}; {} events judged", report.events));
    site.launch.check_words()?;
    if !report.is_clean() {
        return Err(format!("the history is broken:\n{report}"));
    }
    site.check_hits()?;
    tally.check()?;
    Ok(Verdict::Passed)
}
