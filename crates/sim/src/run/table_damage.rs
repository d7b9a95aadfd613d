//! The table in runs whose files are damaged: it is as it was written, or somebody is told.

use std::time::Duration;

use env::sim::{Chance, Machine};

use crate::client::keep::Client;
use crate::client::keeper::{Keeper, TOPIC};
use crate::client::notes::Notes;
use crate::client::reader::DAMAGED;

/// Virtual time in which the table must be read or refused.
const READ_MAX: Duration = Duration::from_secs(30);
/// The second reports what the first met on its way out.
const READINGS: u64 = 2;
/// How a record that is not what was written to its offset is told.
const FOREIGN: &str = "was never written";

/// The findings.
#[derive(Default)]
pub(super) struct Found {
    /// Errors.
    pub(super) told: Vec<String>,
    /// Findings that no report excuses.
    pub(super) wrong: Vec<String>,
    /// Findings that may be where something was reported.
    pub(super) missing: Vec<String>,
}

/// Reads the table of a broker that runs.
pub(super) fn read(machine: &Machine, keeper: &Keeper) -> Found {
    let mut notes = Notes::default();
    let mut keeper = keeper.reader(Chance::new(1), machine.now());
    let limit = machine.now().plus(READ_MAX);
    let is_over = |keeper: &Keeper| keeper.readings >= READINGS || keeper.refused.is_some();
    while machine.now() < limit && notes.violations.is_empty() && !is_over(&keeper) {
        let next = keeper.act(&machine.outside(), &mut notes).min(limit);
        machine.step_until(next);
    }
    let mut found = Found::default();
    let refused = keeper.refused.iter();
    found
        .told
        .extend(refused.map(|code| format!("{TOPIC}-0: {code:?}")));
    for what in std::mem::take(&mut notes.violations) {
        if what.contains(DAMAGED) || what.contains(FOREIGN) {
            found.wrong.push(what);
        } else {
            found.missing.push(what);
        }
    }
    if found.told.is_empty() && found.wrong.is_empty() && found.missing.is_empty() {
        let stuck = keeper.describe();
        let is_read = is_over(&keeper);
        found
            .wrong
            .extend((!is_read).then(|| format!("neither read nor refused: {stuck}")));
    }
    found
}
