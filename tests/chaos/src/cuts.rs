//! Power cuts: the broker is frozen, its file system loses everything un-synced, and a new broker starts on what is left.
//!
//! Frozen first, so that the broker cannot answer anybody during the errors of its own funeral.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::broker::{Dir, Launch};
use crate::kills::Moments;
use crate::ledger::judge;
use crate::load::{Load, TOPIC, create_topic, read_all};
use crate::volume::Volume;
use crate::{Outcome, Plan, Verdict};

pub(crate) fn run(plan: &Plan) -> Outcome {
    let dir = Dir::new("cuts")?;
    let mut volume = match Volume::new(&dir.0, "cuts", 1024) {
        Ok(volume) => volume,
        Err(why) => {
            return Ok(Verdict::Skipped(format!(
                "needs root and loop devices ({why})"
            )));
        }
    };
    let launch = Launch::new(plan, &volume.mount.join("data"), &dir.0)?;
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
        let sizes = segment_sizes(&launch.data);
        if let Err(why) = volume.cut_power() {
            return Ok(Verdict::Skipped(format!(
                "this file system cannot be shut down ({why})"
            )));
        }
        broker.kill();
        volume.unmount()?;
        volume.mount(false)?;
        let after = segment_sizes(&launch.data);
        lost += sizes
            .iter()
            .map(|(path, size)| size.saturating_sub(after.get(path).copied().unwrap_or(0)))
            .sum::<u64>();
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
    println!(
        "  {} power cuts, {hits} with unacknowledged work, {lost} bytes of segments were lost and recovered from the journal",
        plan.cuts
    );
    println!(
        "  {} records acknowledged, {} there, {} shown before; start after a cut: median {:.0} ms, longest {:.0} ms",
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
    );
    launch.check_words()?;
    if hits * 2 < plan.cuts || lost == 0 {
        return Err(format!(
            "vacuous: {hits} cuts hit unacknowledged work, {lost} bytes were lost"
        ));
    }
    Ok(Verdict::Passed)
}

/// Length of every segment file.
fn segment_sizes(data: &Path) -> BTreeMap<PathBuf, u64> {
    let entries = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
    entries(data)
        .flat_map(|topic| entries(&topic.path()).collect::<Vec<_>>())
        .filter(|file| {
            file.path()
                .extension()
                .is_some_and(|extension| extension == "log")
        })
        .filter_map(|file| Some((file.path(), file.metadata().ok()?.len())))
        .collect()
}
