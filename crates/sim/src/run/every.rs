//! M-08: the short run of a seed again and again, each time with a fault at another place: a sync that fails, a write that fails, a power
//! cut at an operation of the disk.

use env::sim::{Counts, Faults};

use super::plan::Plan;
use super::{Verdict, run};

/// A kind of fault that has a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultSite {
    Sync,
    Write,
    Operation,
}

impl FaultSite {
    /// How many such places a run had.
    fn count(self, counts: &Counts) -> u64 {
        match self {
            FaultSite::Sync => counts.syncs,
            FaultSite::Write => counts.writes,
            FaultSite::Operation => counts.disk_ops,
        }
    }

    /// How often the fault bit.
    fn bit(self, counts: &Counts) -> u64 {
        match self {
            FaultSite::Sync => counts.syncs_failed,
            FaultSite::Write => counts.writes_failed,
            FaultSite::Operation => counts.crashes_at_op,
        }
    }

    fn faults(self, at: u64) -> Faults {
        let mut faults = Faults::default();
        *match self {
            FaultSite::Sync => &mut faults.sync_fails_at,
            FaultSite::Write => &mut faults.write_fails_at,
            FaultSite::Operation => &mut faults.crash_at_op,
        } = Some(at);
        faults
    }
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Everywhere {
    /// Places that the run without a fault has.
    pub places: u64,
    pub tried: u64,
    pub failures: Vec<String>,
}

const FAILURES_MAX: usize = 3;

/// Faults at `most` places of the run, spread evenly from a start that depends on the seed.
#[must_use]
pub fn everywhere(seed: u64, place: FaultSite, most: u64) -> Everywhere {
    let sound = run(seed, &Plan::short(seed, Faults::default()), false);
    let places = place.count(&sound.counts_struck);
    let (mut tried, mut failures) = (0, Vec::new());
    let mut judge = |name: String, verdict: &Verdict, bit: bool| {
        if !verdict.is_clean() {
            let told = verdict.describe();
            failures.push(format!("{name}: {told}"));
        } else if !bit {
            failures.push(format!("{name}: nothing happened"));
        }
        failures.len() < FAILURES_MAX
    };
    judge(format!("seed {seed} without a fault"), &sound, true);
    let stride = places.div_ceil(most.max(1)).max(1);
    for at in (1 + seed % stride..=places).step_by(stride as usize) {
        let verdict = run(seed, &Plan::short(seed, place.faults(at)), false);
        let bit = place.bit(&verdict.counts) == 1;
        tried += 1;
        if !judge(format!("seed {seed}, {place:?} {at}"), &verdict, bit) {
            break;
        }
    }
    Everywhere {
        places,
        tried,
        failures,
    }
}
