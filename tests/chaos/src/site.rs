//! Where a broker runs and how it dies there: by `kill -9`, or with the power of its file system.
//!
//! Owns the directory, the volume below it and what the deaths took. Frozen first where the power goes, so that the broker cannot
//! answer anybody during the errors of its own funeral.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::broker::{Broker, Launch};
use crate::kills::Moments;
use crate::place::Place;
use crate::volume::{FileSystem, Volume};
use crate::{Outcome, Plan, Verdict};

const VOLUME_MEBIBYTES: u64 = 1024;

pub(crate) struct Site {
    pub(crate) launch: Launch,
    volume: Option<Volume>,
    /// Deaths, and those that hit what the scenario asked about.
    pub(crate) deaths: usize,
    pub(crate) hits: usize,
    /// Bytes that the broker had written and that went with the power.
    pub(crate) lost: usize,
    /// How long each start after a death took.
    pub(crate) starts: Vec<Duration>,
}

impl Site {
    pub(crate) fn of_kills(plan: &Plan, place: &Place) -> Result<Site, String> {
        let launch = Launch::new(plan, place, &place.dir.join("data"))?;
        Ok(Site::new(launch, None))
    }

    /// A scenario on a volume whose power can be cut; skipped where that is not permitted.
    pub(crate) fn with_power(
        plan: &Plan,
        place: &Place,
        scenario: impl FnOnce(Site) -> Outcome,
    ) -> Outcome {
        Site::with_power_of(FileSystem::Ext4, plan, place, scenario)
    }

    pub(crate) fn with_power_of(
        kind: FileSystem,
        plan: &Plan,
        place: &Place,
        scenario: impl FnOnce(Site) -> Outcome,
    ) -> Outcome {
        let made = Volume::new(place, "power", kind, VOLUME_MEBIBYTES);
        let volume = made.and_then(|mut volume| {
            // Not every file system can be shut down; better to hear it now.
            volume.cut_power()?;
            volume.unmount()?;
            volume.mount(false)?;
            Ok(volume)
        });
        let volume = match volume {
            Ok(volume) => volume,
            Err(why) => {
                return Ok(Verdict::Skipped(format!(
                    "needs root, loop devices and a file system that can be shut down ({why})"
                )));
            }
        };
        let launch = Launch::new(plan, place, &volume.mount.join("data"))?;
        scenario(Site::new(launch, Some(volume)))
    }

    fn new(launch: Launch, volume: Option<Volume>) -> Site {
        Site {
            launch,
            volume,
            deaths: 0,
            hits: 0,
            lost: 0,
            starts: Vec::new(),
        }
    }

    pub(crate) fn has_power(&self) -> bool {
        self.volume.is_some()
    }

    /// The broker dies, and another starts on what is left; `is_hit` is asked at the last moment.
    pub(crate) fn strike(
        &mut self,
        broker: Broker,
        moments: &mut Moments,
        is_hit: impl FnOnce() -> bool,
    ) -> Result<Broker, String> {
        self.deaths += 1;
        match &mut self.volume {
            None => {
                self.hits += usize::from(is_hit());
                broker.kill();
                // Sometimes the clients meet a port that nobody listens on, sometimes the next broker at once.
                std::thread::sleep(Duration::from_millis(moments.next(3) * 40));
                // And sometimes the recovery itself is killed.
                for _ in 0..moments.next(3) {
                    self.launch
                        .start_and_kill(Duration::from_millis(moments.next(60)))?;
                }
            }
            Some(volume) => {
                broker.signal("STOP")?;
                // The clients have taken every answer that was on its way before we look.
                std::thread::sleep(Duration::from_millis(20));
                self.hits += usize::from(is_hit());
                let written = contents(&self.launch.data);
                volume.cut_power()?;
                broker.kill();
                volume.unmount()?;
                volume.mount(false)?;
                self.lost += lost_bytes(&written, &contents(&self.launch.data));
            }
        }
        let broker = self.launch.start()?;
        self.starts.push(broker.start_time);
        Ok(broker)
    }

    pub(crate) fn describe(&self) -> String {
        let mut starts = self.starts.clone();
        starts.sort_unstable();
        let millis = |at: usize| {
            starts
                .get(at)
                .map_or(0.0, |start| start.as_secs_f64() * 1e3)
        };
        let lost = if self.has_power() {
            format!(", {} written bytes were lost with the power", self.lost)
        } else {
            String::new()
        };
        format!(
            "{} {}, {} with open work{lost}; start after one: median {:.0} ms, longest {:.0} ms",
            self.deaths,
            if self.has_power() {
                "power cuts"
            } else {
                "kills"
            },
            self.hits,
            millis(starts.len() / 2),
            millis(starts.len().saturating_sub(1)),
        )
    }

    /// Deaths that met nobody, and power that took nothing, prove nothing.
    pub(crate) fn check_hits(&self) -> Result<(), String> {
        if self.hits * 2 < self.deaths || self.has_power() && self.lost == 0 {
            Err(format!("vacuous: {}", self.describe()))
        } else {
            Ok(())
        }
    }
}

/// Content of every file of segments and journal.
pub(crate) fn contents(data: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
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
pub(crate) fn lost_bytes(
    before: &BTreeMap<PathBuf, Vec<u8>>,
    after: &BTreeMap<PathBuf, Vec<u8>>,
) -> usize {
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
