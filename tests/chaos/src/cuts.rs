//! Power cuts: the broker is frozen, its file system loses everything un-synced, and a new broker starts on what is left.
//!
//! Frozen first, so that the broker cannot answer anybody during the errors of its own funeral.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::broker::Launch;
use crate::kills::Moments;
use crate::ledger::judge;
use crate::load::{Load, TOPIC, create_topic, read_all};
use crate::place::Place;
use crate::volume::Volume;
use crate::{Outcome, Plan, Verdict};

pub(crate) fn run(plan: &Plan, place: &Place) -> Outcome {
    let mut volume = match Volume::new(place, "cuts", 1024) {
        Ok(volume) => volume,
        Err(why) => {
            return Ok(Verdict::Skipped(format!(
                "needs root and loop devices ({why})"
            )));
        }
    };
    let launch = Launch::new(plan, place, &volume.mount.join("data"))?;
    let mut moments = Moments(plan.seed);
    let mut broker = launch.start()?;
    create_topic(&launch.address(), TOPIC)?;
    let load = Load::start(&launch.address());
    let (mut starts, mut hits, mut lost) = (Vec::new(), 0, 0);
    for _ in 0..plan.cuts {
        load.wait_for_acks(50)?;
        std::thread::sleep(Duration::from_millis(moments.next(900)));
        broker.signal("STOP")?;
        // The clients have taken every answer that was on its way before we look.
        std::thread::sleep(Duration::from_millis(20));
        let before = load.progress();
        let written = contents(&launch.data);
        if let Err(why) = volume.cut_power() {
            return Ok(Verdict::Skipped(format!(
                "this file system cannot be shut down ({why})"
            )));
        }
        broker.kill();
        volume.unmount()?;
        volume.mount(false)?;
        lost += lost_bytes(&written, &contents(&launch.data));
        hits += usize::from(before.sent > before.acked);
        broker = launch.start()?;
        starts.push(broker.start_time);
    }
    load.wait_for_acks(50)?;
    let (accounts, shown) = load.finish()?;
    let log = read_all(&launch.address())?;
    broker.kill();
    let counts = judge(&accounts, &shown, &log)?;
    starts.sort_unstable();
    place.say(&format!(
"{} power cuts, {hits} with unacknowledged work, {lost} written bytes were lost with the power",
        plan.cuts
    ));
    place.say(&format!(
"{} records acknowledged, {} there, {} shown before; start after a cut: median {:.0} ms, longest {:.0} ms",
        counts.acked,
        counts.records,
        counts.shown,
        starts
            .get(starts.len() / 2)
            .copied()
            .unwrap_or_default()
            .as_secs_f64()
            * 1e3,
        starts.last().copied().unwrap_or_default().as_secs_f64() * 1e3
    ));
    launch.check_words()?;
    if hits * 2 < plan.cuts || lost == 0 {
        return Err(format!(
            "vacuous: {hits} cuts hit unacknowledged work, {lost} bytes were lost"
        ));
    }
    Ok(Verdict::Passed)
}

/// Content of every file of segments and journal.
fn contents(data: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
    entries(data)
        .flat_map(|topic| entries(&topic.path()).collect::<Vec<_>>())
        .filter_map(|file| Some((file.path(), std::fs::read(file.path()).ok()?)))
        .filter(|(path, _)| {
            let extension = path.extension().and_then(|extension| extension.to_str());
            matches!(extension, Some("log" | "journal"))
        })
        .collect()
}

/// How many bytes that the broker had written are not there any more.
fn lost_bytes(before: &BTreeMap<PathBuf, Vec<u8>>, after: &BTreeMap<PathBuf, Vec<u8>>) -> usize {
    let lost = |(path, before): (&PathBuf, &Vec<u8>)| {
        let after = after.get(path).map_or(&[][..], Vec::as_slice);
        let differing = before
            .iter()
            .zip(after)
            .filter(|(before, after)| before != after);
        differing.count() + before.len().saturating_sub(after.len())
    };
    before.iter().map(lost).sum()
}
