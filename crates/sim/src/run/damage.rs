//! M-07 and U-08 for one node: bytes of a stopped broker's files change, and what is wrong is told, never served.
//!
//! There is no copy to repair from, so a damaged place may answer with an error or keep the broker from starting. What must not
//! happen is that a record reads differently, that acknowledged records are gone without a word, that a log comes back so short
//! that their offsets would be used again, or that a second start shows something else than the first. Only the last round of
//! a journal that was not closed cannot be told from one that was never finished. A broker verifies what an earlier life wrote before
//! it promises it to a reader, so rot in it is told as CORRUPT_MESSAGE and no reader ever meets it. Beside rot there is what a write gone
//! astray leaves: bytes of one file in the place of another's.

use std::path::{Path, PathBuf};

use env::sim::{Chance, Faults, Machine, Rot};
use wire::ErrorCode;

use super::host::{End, lone_settings};
use super::plan::Plan;
use super::survey::{Known, REFUSED_START, survey};
use super::table_damage;
use super::{Run, Topics};
use crate::client::keeper::{self, Keeper};

#[derive(Clone, Debug, Default)]
pub struct Damages {
    pub tried: usize,
    /// Told by an error, or by a start that was refused.
    pub reported: usize,
    /// Without any effect on what is read.
    pub harmless: usize,
    /// In files of a table that was compacted before.
    pub of_tables: usize,
    pub failures: Vec<String>,
}

pub(super) const FAILURES_MAX: usize = 3;

/// Damages the files of one short run in `count` ways, one at a time.
#[must_use]
pub fn damages(seed: u64, count: usize) -> Damages {
    let plan = Plan::to_damage(seed, Faults::default());
    let mut run = Run::new(seed, &plan);
    run.done_at = Some(Vec::new());
    run.set_up();
    run.strike(&plan);
    run.cluster.home_mut().stop(&mut run.clients.notes);
    run.strike(&plan);
    run.drain();
    let is_clean = seed.is_multiple_of(2);
    if is_clean {
        run.cluster.home_mut().stop(&mut run.clients.notes);
    } else {
        run.cluster.home_mut().end(End::Kill);
    }
    let topics: Topics = run.clients.topics.clone();
    // The number of the operation stands in for its time.
    let done_at: Vec<usize> = (0..run.clients.notes.history.ops.len()).collect();
    let last = last_moment(&run);
    let known = Known::new(&mut run.clients.notes, &topics, &done_at);
    let tape = run.cluster.home().machine.tape();
    let volume = tape.last();
    let config = lone_settings(&plan);
    let files = files(
        &Machine::on(seed, Faults::default(), volume.clone()),
        Path::new("/data"),
    );

    let mut chance = Chance::new(seed);
    let mut tally = Damages {
        failures: run.clients.notes.violations.clone(),
        ..Damages::default()
    };
    let judged = |tally: &mut Damages, machine: &Machine, path: &Path, what: String| {
        tally.tried += 1;
        let is_compacted = run
            .clients
            .keeper
            .as_ref()
            .is_some_and(|it| it.compacted > 0);
        let is_of_table = place_of(path).is_some_and(|place| place.starts_with(keeper::TOPIC));
        tally.of_tables += usize::from(is_of_table && is_compacted);
        let is_open_journal = !is_clean && path.starts_with("/data/0/journal");
        let point = if is_open_journal { last } else { usize::MAX };
        let hurt = Hurt {
            path,
            was_told: false,
            is_rot: true,
            may_refuse_start: false,
            point,
            table: run.clients.keeper.as_ref(),
        };
        let (told, problems) = judge(machine, &config, &topics, &known, &hurt);
        *(if told {
            &mut tally.reported
        } else {
            &mut tally.harmless
        }) += 1;
        let name = |problem| format!("seed {seed}, {what} of {}: {problem}", path.display());
        tally.failures.extend(problems.into_iter().map(name));
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
        let what = format!("{rot:?} of {bytes} bytes at {at}");
        judged(&mut tally, &machine, &path, what);
    }
    // As many again, with chances of their own.
    let mut chance = Chance::new(!seed);
    for _ in 0..count {
        if tally.failures.len() >= FAILURES_MAX {
            break;
        }
        let (from, _) = chance.pick(&files).clone();
        // Of the same kind, at the same place: what comes may be taken for what was there.
        let kin = |file: &&(PathBuf, u64)| file.0.extension() == from.extension() && file.0 != from;
        let others: Vec<_> = files.iter().filter(kin).cloned().collect();
        if others.is_empty() {
            continue;
        }
        let (path, len) = chance.pick(&others).clone();
        let machine = Machine::on(seed, Faults::default(), volume.clone());
        let at = chance.below(len) & !511;
        // More might take all the last rounds of a journal, as if they had never been.
        let doublings = if path.starts_with("/data/0/journal") {
            1
        } else {
            8
        };
        let end = at + (512 << chance.below(doublings));
        let changed = machine.misdirect(&from, at..end, &path, at);
        if changed.expect("files that were listed are there") > 0 {
            let what = format!("{at}..{end} of {} in the place", from.display());
            judged(&mut tally, &machine, &path, what);
        }
    }
    tally
}

/// The damage done to a disk.
pub(super) struct Hurt<'a> {
    /// Of a partition's file only that partition may suffer.
    pub(super) path: &'a Path,
    /// Someone was refused or warned already.
    pub(super) was_told: bool,
    /// Bytes have changed, and none fails to be read: whoever asks for them is told that they are damaged.
    pub(super) is_rot: bool,
    /// A start that cannot read what it needs is refused as a whole.
    pub(super) may_refuse_start: bool,
    /// Acknowledgements from here on may be missing.
    pub(super) point: usize,
    /// The owner of a table that is there as well.
    pub(super) table: Option<&'a Keeper>,
}

/// Starts a broker twice on what is left and says whether it told of damage, and what is wrong with it.
pub(super) fn judge(
    machine: &Machine,
    config: &config::Broker,
    topics: &Topics,
    known: &Known,
    hurt: &Hurt<'_>,
) -> (bool, Vec<String>) {
    let (contents, broker) = survey(machine, config, topics);
    let mut contents = contents;
    let mut problems = known.wrong(&contents);
    // Records that may be missing at the end of its log are judged by the other topics.
    if let (Some(keeper), true, usize::MAX) = (hurt.table, broker.is_some(), hurt.point) {
        let found = table_damage::read(machine, keeper);
        problems.extend(found.wrong);
        if !hurt.was_told && found.told.is_empty() {
            problems.extend(found.missing);
        }
        contents.reported.extend(found.told);
    }
    let is_told = hurt.was_told || !contents.reported.is_empty();
    let reported = contents.reported.iter();
    let others = reported.filter(|told| hurt.is_rot && !is_told_as_rot(told));
    problems.extend(others.map(|told| format!("rot is told as {told}")));
    let is_refused = contents
        .reported
        .iter()
        .any(|told| told.starts_with(REFUSED_START));
    // A place is excused by what it reports itself, and by a broker that did not start.
    let is_excused = |place: &str| {
        let tells = |told: &String| told.starts_with(&format!("{place}: "));
        hurt.was_told || is_refused || contents.reported.iter().any(tells)
    };
    // Where damage is reported, a gap is what it left.
    problems.retain(|problem| {
        let gap = problem.split_once(": a gap between");
        gap.is_none_or(|(place, _)| !is_excused(place))
    });
    problems.extend(known.short(&contents, hurt.point));
    let mut missing = known.missing(&contents, usize::MAX);
    missing.retain(|(_, _, at)| *at < hurt.point);
    let place = place_of(hurt.path)
        .filter(|place| {
            let mut names = topics.iter().map(|(topic, _)| topic.as_str());
            names.any(|topic| place.starts_with(topic)) || place.starts_with(keeper::TOPIC)
        })
        .filter(|_| !(is_refused && hurt.may_refuse_start));
    if let Some(place) = &place {
        let of_others = |told: &&String| !told.contains(&format!("{place}:"));
        problems.extend(
            contents
                .reported
                .iter()
                .filter(of_others)
                .map(|told| format!("damage of {place} is felt elsewhere: {told}")),
        );
        missing.retain(|(missing, _, _)| missing != place || !is_told);
    } else {
        missing.retain(|(missing, _, _)| !is_excused(missing));
    }
    problems.extend(
        missing.iter().take(3).map(|(place, offset, _)| {
            format!("{place} lacks offset {offset}, and nothing was said")
        }),
    );
    drop(broker);
    if machine.now().0.is_multiple_of(2) {
        machine.power_cut();
    } else {
        machine.kill();
    }
    let (second, _broker) = survey(machine, config, topics);
    problems.extend(second.violations.iter().cloned());
    let is_same = (&second.records, &second.ends) == (&contents.records, &contents.ends);
    // A start that was refused synced nothing: a power cut may take the checkpoint that it went by, and the one before has the journal
    // mend what was damaged. An index that the first could not read may be written anew by the second.
    let may_mend = is_refused || (!hurt.is_rot && !contents.reported.is_empty());
    let missing = known.missing(&second, usize::MAX);
    let is_mended = may_mend
        && second.reported.is_empty()
        && known.wrong(&second).is_empty()
        && missing.iter().all(|(_, _, at)| *at >= hurt.point);
    // A file of the journal that cannot be read is met when its turn comes: the first start may have filled it, and the second says so.
    let refused = |told: &String| told.starts_with(REFUSED_START);
    let is_told_now = !hurt.is_rot && second.reported.iter().any(refused);
    if !is_same && !is_mended && !is_told_now {
        problems.push("a second start shows something else than the first".to_owned());
    }
    (is_told, problems)
}

/// A start that is refused says why in words.
pub(super) fn is_told_as_rot(told: &str) -> bool {
    let code = format!("{:?}", ErrorCode::CorruptMessage);
    told.starts_with(REFUSED_START) || told.ends_with(&code)
}

/// The partition whose directory a file lies in.
pub(super) fn place_of(path: &Path) -> Option<String> {
    let name = path.parent()?.file_name()?.to_str()?;
    let (_, index) = name.rsplit_once('-')?;
    index.parse::<u32>().ok().map(|_| name.to_owned())
}

/// Number of the first operation that was answered together with the last one.
pub(super) fn last_moment(run: &Run) -> usize {
    /// Answers that one round of the journal may have released.
    const TOGETHER_NANOS: u64 = 50_000_000;
    let ops = &run.clients.notes.history.ops;
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
pub(super) fn files(machine: &Machine, dir: &Path) -> Vec<(PathBuf, u64)> {
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
