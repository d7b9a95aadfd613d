//! Power cuts under plain load: the file system loses everything un-synced, and a new broker starts on what is left.

use std::time::Duration;

use crate::kills::Moments;
use crate::ledger::judge;
use crate::load::{Load, TOPIC, create_topic, read_all};
use crate::place::Place;
use crate::site::Site;
use crate::volume::FileSystem;
use crate::{Outcome, Plan, Verdict, stock};

pub(crate) fn run(plan: &Plan, place: &Place) -> Outcome {
    on(FileSystem::Ext4, plan, place)
}

pub(crate) fn on_xfs(plan: &Plan, place: &Place) -> Outcome {
    on(FileSystem::Xfs, plan, place)
}

fn on(kind: FileSystem, plan: &Plan, place: &Place) -> Outcome {
    Site::with_power_of(kind, plan, place, |mut site| {
        let address = site.launch.address();
        let mut moments = Moments(plan.seed);
        let mut broker = site.launch.start()?;
        create_topic(&address, TOPIC)?;
        let load = Load::start(&address);
        for _ in 0..plan.cuts {
            load.wait_for_acks(50)?;
            std::thread::sleep(Duration::from_millis(moments.next(900)));
            broker = site.strike(broker, &mut moments, || {
                let progress = load.progress();
                progress.sent > progress.acked
            })?;
        }
        load.wait_for_acks(50)?;
        let (accounts, shown) = load.finish()?;
        let log = read_all(&address)?;
        stock::check_log(&address, TOPIC, &log)?;
        stock::tell(place);
        broker.kill();
        let counts = judge(&accounts, &shown, &log)?;
        place.say(&site.describe());
        place.say(&format!(
            "{} records acknowledged, {} there, {} shown before",
            counts.acked, counts.records, counts.shown
        ));
        site.launch.check_words()?;
        site.check_hits()?;
        Ok(Verdict::Passed)
    })
}
