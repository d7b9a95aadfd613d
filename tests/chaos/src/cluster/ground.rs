//! The machines under the nodes: plain ones, with power that can be cut, with disks that obey, or with clocks that lie.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::broker::Launch;
use crate::cluster::nodes::COUNT;
use crate::disks::Disk;
use crate::place::Place;

const CLOCK: &str = include_str!("clock.c");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    /// Each node in a control group of its own, with little memory.
    Small,
    /// Files of it are changed behind its back.
    Edits,
    /// Each node on a volume of its own.
    Power,
    /// The same on devices that lose what was not flushed.
    Caches,
    Disks,
    Clocks,
}

/// The devices of all nodes.
pub(crate) struct Ground {
    disks: Vec<Disk>,
    clocks: Vec<Clock>,
}

impl Ground {
    pub(crate) fn new(kind: Kind, place: &Place) -> Result<Ground, String> {
        let (mut disks, mut clocks) = (Vec::new(), Vec::new());
        match kind {
            Kind::Plain | Kind::Small | Kind::Edits | Kind::Power | Kind::Caches => {}
            Kind::Disks => {
                let disk = Disk::new(place)?;
                disks = (1..=COUNT).map(|node| disk.beside(node)).collect();
            }
            Kind::Clocks => {
                let library = build(place)?;
                clocks = (1..=COUNT)
                    .map(|node| Clock {
                        library: library.clone(),
                        off: place.dir.join(format!("clock-{node}")),
                    })
                    .collect();
            }
        }
        Ok(Ground { disks, clocks })
    }

    pub(crate) fn under(&self, node: usize, launch: Launch) -> Launch {
        let launch = match self.disks.get(node - 1) {
            Some(disk) => disk.under(launch),
            None => launch,
        };
        match self.clocks.get(node - 1) {
            Some(clock) => clock.under(launch),
            None => launch,
        }
    }

    pub(crate) fn disk(&self, node: usize) -> Result<&Disk, String> {
        self.disks
            .get(node - 1)
            .ok_or_else(|| "disks that do not obey".to_owned())
    }

    pub(crate) fn clock(&self, node: usize) -> Result<&Clock, String> {
        self.clocks
            .get(node - 1)
            .ok_or_else(|| "clocks that do not lie".to_owned())
    }
}

pub(crate) struct Clock {
    library: PathBuf,
    off: PathBuf,
}

impl Clock {
    /// From now on the node's time of day is off by this.
    pub(crate) fn set(&self, off_millis: i64) -> Result<(), String> {
        let next = self.off.with_extension("next");
        std::fs::write(&next, off_millis.to_string()).map_err(|error| error.to_string())?;
        std::fs::rename(&next, &self.off).map_err(|error| error.to_string())
    }

    fn under(&self, launch: Launch) -> Launch {
        let text = |path: &Path| path.display().to_string();
        launch
            .with_variable("LD_PRELOAD", &text(&self.library))
            .with_variable("CHAOS_CLOCK", &text(&self.off))
    }
}

fn build(place: &Place) -> Result<PathBuf, String> {
    let (source, library) = (place.dir.join("clock.c"), place.dir.join("clock.so"));
    std::fs::write(&source, CLOCK).map_err(|error| error.to_string())?;
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .output()
        .map_err(|error| format!("cc: {error}"))?;
    if built.status.success() {
        Ok(library)
    } else {
        Err(String::from_utf8_lossy(&built.stderr).into_owned())
    }
}
