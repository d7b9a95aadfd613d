//! Disks that die and disks that dawdle, under load. The disk is a library that stands between the broker and its system calls
//! (`disk.c`), built with the C compiler of the machine; without one the scenarios are skipped.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use client::{Isolation, OffsetSpec};

use crate::broker::Launch;
use crate::children::Clock;
use crate::ledger::judge;
use crate::load::{Load, TOPIC, connect, create_topic, read_all};
use crate::place::Place;
use crate::witness::{self, Witnesses};
use crate::{Outcome, Plan, Verdict};

const SOURCE: &str = include_str!("disk.c");
/// A broker whose only disk is gone must be too, so that nobody waits for it.
const END_MAX: Duration = Duration::from_secs(10);
/// Longer than any request here may take that needs no sync.
const ANSWER_MAX: Duration = Duration::from_millis(1000);
const SYNC_MILLIS: u32 = 1500;

/// The device in front of the disk, and how it gets its orders.
#[derive(Clone)]
pub(crate) struct Disk {
    library: PathBuf,
    mood: PathBuf,
}

impl Disk {
    /// The error says why there is none.
    pub(crate) fn new(place: &Place) -> Result<Disk, String> {
        let (source, library) = (place.dir.join("disk.c"), place.dir.join("disk.so"));
        std::fs::write(&source, SOURCE).map_err(|error| error.to_string())?;
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&library, &source])
            .arg("-ldl")
            .output()
            .map_err(|error| format!("cc: {error}"))?;
        if !built.status.success() {
            return Err(String::from_utf8_lossy(&built.stderr).into_owned());
        }
        Ok(Disk {
            library,
            mood: place.dir.join("mood"),
        })
    }

    /// Another device of the same make, with orders of its own.
    pub(crate) fn beside(&self, number: usize) -> Disk {
        Disk {
            library: self.library.clone(),
            mood: self.mood.with_file_name(format!("mood-{number}")),
        }
    }

    pub(crate) fn behave(&self, how: &str) -> Result<(), String> {
        let _ = std::fs::remove_file(self.failed());
        // In one step: the broker reads it at any moment.
        let next = self.mood.with_extension("next");
        std::fs::write(&next, how).map_err(|error| error.to_string())?;
        std::fs::rename(&next, &self.mood).map_err(|error| error.to_string())
    }

    /// When the first call failed since the disk began to behave like this; every later acknowledgement is a lie, even if the bytes
    /// are found again, because what a failed sync left in memory is written by some later one or by none.
    fn failed_at(&self) -> Result<u64, String> {
        let text = std::fs::read_to_string(self.failed()).map_err(|error| error.to_string());
        let time = text.and_then(|text| text.parse().map_err(|_| format!("not a time: {text}")));
        time.map_err(|why| format!("no call failed: {why}"))
    }

    fn failed(&self) -> PathBuf {
        self.mood.with_extension("failed")
    }

    pub(crate) fn under(&self, launch: Launch) -> Launch {
        let text = |path: &Path| path.display().to_string();
        launch
            .with_variable("LD_PRELOAD", &text(&self.library))
            .with_variable("CHAOS_DISK", &text(&self.mood))
    }
}

/// From the first failed sync or write on the broker acknowledges nothing, ends by itself, and the next start has all it ever
/// acknowledged.
pub(crate) fn dying(plan: &Plan, place: &Place) -> Outcome {
    let disk = match Disk::new(place) {
        Ok(disk) => disk,
        Err(why) => return Ok(Verdict::Skipped(format!("needs a C compiler ({why})"))),
    };
    let launch = disk.under(Launch::new(plan, place, &place.dir.join("data"))?);
    let mut broker = launch.start()?;
    create_topic(&launch.address(), TOPIC)?;
    create_topic(&launch.address(), witness::TOPIC)?;
    let load = Load::start(&launch.address());
    let witnesses = Witnesses::start(&launch.address());
    let clock = Clock::new();
    let mut longest = Duration::ZERO;
    for how in ["sync-fails", "write-fails", "sync-fails", "write-fails"] {
        load.wait_for_acks(300)?;
        disk.behave(how)?;
        let begun = Instant::now();
        let status = broker.wait(END_MAX)?;
        longest = longest.max(begun.elapsed());
        let failed = disk.failed_at()?;
        // Nothing comes any more: what the broker sent is read to its end.
        witnesses.wait_for_silence()?;
        witnesses
            .judge(failed, clock.now())
            .map_err(|why| format!("{how}: {why}"))?;
        if status.success() || status.code().is_none() {
            return Err(format!("{how}: it ended with {status}"));
        }
        disk.behave("")?;
        broker = launch.start()?;
    }
    load.wait_for_acks(300)?;
    let heard = witnesses.finish()?;
    let (accounts, shown) = load.finish()?;
    let counts = judge(&accounts, &shown, &read_all(&launch.address())?)?;
    broker.stop()?;
    let words = launch.words();
    let bad = |line: &&str| line.contains("panicked") || line.contains("are damaged");
    if let Some(line) = words.lines().find(bad) {
        return Err(format!("the broker said: {line}"));
    }
    if words.matches(" offline: ").count() < 4 {
        return Err(format!(
            "it did not say why it ended: {}",
            launch.last_words()
        ));
    }
    place.say(&format!(
        "2 disks whose syncs fail, 2 whose writes fail; the broker ended within {:.0} ms; {} records acknowledged and there, {heard} \
         acknowledgements timed, none of them after a failure",
        longest.as_secs_f64() * 1e3,
        counts.acked
    ));
    Ok(Verdict::Passed)
}

/// Acknowledgements take as long as the disk; what needs no sync does not wait for it, and nobody is cut off.
pub(crate) fn slow(plan: &Plan, place: &Place) -> Outcome {
    let disk = match Disk::new(place) {
        Ok(disk) => disk,
        Err(why) => return Ok(Verdict::Skipped(format!("needs a C compiler ({why})"))),
    };
    let launch = disk.under(Launch::new(plan, place, &place.dir.join("data"))?);
    let broker = launch.start()?;
    create_topic(&launch.address(), TOPIC)?;
    let load = Load::start(&launch.address());
    load.wait_for_acks(300)?;
    disk.behave(&format!("sync-takes {SYNC_MILLIS}"))?;
    // The first slow commit may have been made where requests are served; later ones are not.
    load.wait_for_acks(50)?;
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        let begun = Instant::now();
        let asked = connect(&launch.address(), ANSWER_MAX * 10).and_then(|mut client| {
            client.resolve(TOPIC, &[(0, OffsetSpec::End)], Isolation::ReadUncommitted)
        });
        asked.map_err(|error| format!("with slow syncs: {error}"))?;
        slowest = slowest.max(begun.elapsed());
        std::thread::sleep(Duration::from_millis(100));
    }
    if slowest > ANSWER_MAX {
        return Err(format!("asking for an offset took {slowest:?}"));
    }
    let before = load.progress().acked;
    load.wait_for_acks(50)?;
    disk.behave("")?;
    load.wait_for_acks(1000)?;
    let (accounts, shown) = load.finish()?;
    let counts = judge(&accounts, &shown, &read_all(&launch.address())?)?;
    broker.stop()?;
    launch.check_words()?;
    place.say(&format!(
        "syncs of {SYNC_MILLIS} ms: {before} records acknowledged meanwhile, other requests within {:.0} ms; {} there",
        slowest.as_secs_f64() * 1e3,
        counts.acked
    ));
    Ok(Verdict::Passed)
}
