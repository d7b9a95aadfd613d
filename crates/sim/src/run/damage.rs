//! M-07 and U-08 for one node: bytes of a stopped broker's files change, and what is wrong is told, never served.
//!
//! There is no copy to repair from, so a damaged place may answer with an error or keep the broker from starting. What must not
//! happen is that a record reads differently, or that acknowledged records are gone without a word. Only the last round of a
//! journal that was not closed cannot be told from one that was never finished. A batch whose checksum fails at the reader
//! counts as told; offsets in old segments are under no checksum, and seeds that hit one fail.

use std::path::{Path, PathBuf};

use env::sim::{Chance, Faults, Machine, Rot};

use super::host::{End, settings};
use super::plan::Plan;
use super::survey::{Known, survey};
use super::{Run, Topics};

#[derive(Clone, Debug, Default)]
pub struct Damages {
    pub tried: usize,
    /// Told by an error, or by a start that was refused.
    pub reported: usize,
    /// Without any effect on what is read.
    pub harmless: usize,
    pub failures: Vec<String>,
}

const FAILURES_MAX: usize = 3;

/// Damages the files of one short run in `count` ways, one at a time.
#[must_use]
pub fn damages(seed: u64, count: usize) -> Damages {
    let plan = Plan::short(seed, Faults::default());
    let mut run = Run::new(seed, &plan);
    run.done_at = Some(Vec::new());
    run.set_up();
    run.strike(&plan);
    run.host.stop(&mut run.notes);
    run.strike(&plan);
    run.drain();
    let is_clean = seed.is_multiple_of(2);
    if is_clean {
        run.host.stop(&mut run.notes);
    } else {
        run.host.end(End::Kill);
    }
    let topics: Topics = run.topics.clone();
    // The number of the operation stands in for its time.
    let done_at: Vec<usize> = (0..run.notes.history.ops.len()).collect();
    let last = last_moment(&run);
    let known = Known::new(&mut run.notes, &topics, &done_at);
    let tape = run.host.machine.tape();
    let volume = tape.last();
    let config = settings(&plan);
    let files = files(
        &Machine::on(seed, Faults::default(), volume.clone()),
        Path::new("/data"),
    );

    let mut chance = Chance::new(seed);
    let mut tally = Damages {
        failures: run.notes.violations.clone(),
        ..Damages::default()
    };
    while tally.tried < count && tally.failures.len() < FAILURES_MAX {
        let (path, len) = chance.pick(&files).clone();
        let machine = Machine::on(seed, Faults::default(), volume.clone());
        let at = chance.below(len);
        let (bytes, rot) = match chance.below(3) {
            0 => (
                1,
                Rot::Flip {
                    bit: chance.below(8) as u8,
                },
            ),
            1 => (512, Rot::Flip { bit: 3 }),
            _ => (chance.between(1, 4096), Rot::Zero),
        };
        let changed = machine.rot(&path, at..(at + bytes).min(len), rot);
        changed.expect("a file that was listed is there");
        tally.tried += 1;
        let (contents, _broker) = survey(&machine, &config, &topics);
        let mut missing = known.missing(&contents, usize::MAX);
        let is_open_journal = !is_clean && path.starts_with("/data/0/journal");
        missing.retain(|(_, _, at)| !(is_open_journal && *at >= last));
        let mut problems = known.wrong(&contents);
        // Where damage is reported, a gap is what it left.
        problems
            .retain(|problem| contents.reported.is_empty() || !problem.contains("a gap between"));
        if contents.reported.is_empty() {
            problems.extend(missing.iter().take(3).map(|(place, offset, _)| {
                format!("{place} lacks offset {offset}, and nothing was said")
            }));
            tally.harmless += 1;
        } else {
            tally.reported += 1;
        }
        let what = format!(
            "seed {seed}, {rot:?} of {bytes} bytes at {at} of {}",
            path.display()
        );
        tally.failures.extend(
            problems
                .into_iter()
                .map(|problem| format!("{what}: {problem}")),
        );
    }
    tally
}

/// Number of the first operation that was answered together with the last one.
fn last_moment(run: &Run) -> usize {
    /// Answers that one round of the journal may have released.
    const TOGETHER_NANOS: u64 = 50_000_000;
    let ops = &run.notes.history.ops;
    let sends = ops
        .iter()
        .filter(|op| !op.sends.is_empty())
        .map(|op| op.returned);
    let end = sends.max().unwrap_or(0).saturating_sub(TOGETHER_NANOS);
    ops.iter()
        .position(|op| !op.sends.is_empty() && op.returned >= end)
        .unwrap_or(ops.len())
}

/// All files with content below `dir`.
fn files(machine: &Machine, dir: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in machine.env().disk.read_dir(dir).unwrap_or_default() {
        let path = dir.join(&entry.name);
        if entry.is_dir {
            found.extend(files(machine, &path));
        } else if entry.len > 0 {
            found.push((path, entry.len));
        }
    }
    found
}
