//! `kill -9` at random moments under load, again and again on the same directory.

use std::time::Duration;

use crate::broker::Launch;
use crate::ledger::judge;
use crate::load::{Load, TOPIC, create_topic, read_all};
use crate::place::Place;
use crate::{Outcome, Plan, Verdict, stock};

/// Random enough to choose moments.
pub(crate) struct Moments(pub(crate) u64);

impl Moments {
    pub(crate) fn next(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

pub(crate) fn run(plan: &Plan, place: &Place) -> Outcome {
    let launch = Launch::new(plan, place, &place.dir.join("data"))?;
    let mut moments = Moments(plan.seed);
    let mut broker = launch.start()?;
    create_topic(&launch.address(), TOPIC)?;
    let load = Load::start(&launch.address());
    let (mut starts, mut hits) = (Vec::new(), 0);
    for _ in 0..plan.kills {
        load.wait_for_acks(50)?;
        std::thread::sleep(Duration::from_millis(moments.next(900)));
        let before = load.progress();
        broker.kill();
        hits += usize::from(before.sent > before.acked);
        // Sometimes the clients meet a port that nobody listens on, sometimes the next broker at once.
        std::thread::sleep(Duration::from_millis(moments.next(3) * 40));
        // And sometimes the recovery itself is killed.
        for _ in 0..moments.next(3) {
            launch.start_and_kill(Duration::from_millis(moments.next(60)))?;
        }
        broker = launch.start()?;
        starts.push(broker.start_time);
    }
    load.wait_for_acks(50)?;
    let (accounts, shown) = load.finish()?;
    let log = read_all(&launch.address())?;
    let counts = judge(&accounts, &shown, &log)?;
    stock::check_log(&launch.address(), TOPIC, &log)?;
    stock::tell(place);
    starts.sort_unstable();
    let longest = starts.last().copied().unwrap_or_default();
    place.say(&format!(
"{} kills, {hits} with unacknowledged work; {} records acknowledged, {} there, {} repeated by plain producers, {} shown before",
        plan.kills, counts.acked, counts.records, counts.repeated, counts.shown
    ));
    place.say(&format!(
        "start after a kill: median {:.0} ms, longest {:.0} ms",
        starts
            .get(starts.len() / 2)
            .copied()
            .unwrap_or_default()
            .as_secs_f64()
            * 1e3,
        longest.as_secs_f64() * 1e3
    ));
    launch.check_words()?;
    let replayed = launch.words().matches("recovered").count();
    if hits * 2 < plan.kills || replayed * 2 < plan.kills || counts.shown == 0 {
        return Err(format!(
            "vacuous: {hits} kills hit unacknowledged work, {replayed} starts replayed a journal"
        ));
    }
    Ok(Verdict::Passed)
}
