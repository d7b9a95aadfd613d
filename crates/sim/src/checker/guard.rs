//! A run in which nothing happened proves nothing, so it is a failed run. What it owes is measured by what it could do: a run that
//! a fault kept from its clients owes less than one that had them all the time.

use std::collections::BTreeSet;

use super::history::{History, Kind, Outcome};

/// A fault that was to happen, and what it really did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub name: &'static str,
    /// How often it bit: un-synced bytes lost, syncs failed, requests timed out.
    pub bit: u64,
}

/// The events that a run must contain to count.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    pub acked_sends_min: usize,
    pub polled_records_min: usize,
    /// Each of these must have succeeded at least once.
    pub kinds: Vec<Kind>,
    /// Each of these must have bitten at least once.
    pub faults: Vec<Fault>,
}

/// So many sends are enough for any run; each is read at two isolation levels in the end.
const SENDS_ENOUGH: usize = 10;
const LEVELS: usize = 2;
/// One in so many turns of a producer, at least, sends a record of which it hears: on the others it waits, or is refused.
const TURNS_PER_SEND: u64 = 4;

impl Guard {
    /// Of a run whose producers had so many turns with a connection, and of which each partition had to take a record in the end.
    #[must_use]
    pub fn of(partitions: usize, turns: u64) -> Guard {
        let sends = usize::try_from(turns / TURNS_PER_SEND).unwrap_or(usize::MAX);
        let sends = partitions.saturating_add(sends).min(SENDS_ENOUGH);
        Guard {
            acked_sends_min: sends,
            polled_records_min: LEVELS * sends,
            ..Guard::default()
        }
    }

    /// The missing events; empty when the run counts.
    #[must_use]
    pub fn complaints(&self, history: &History) -> Vec<String> {
        let ok = || history.ops.iter().filter(|op| op.outcome == Outcome::Ok);
        let acked: usize = ok().map(|op| op.sends.len()).sum();
        let polled: usize = ok()
            .flat_map(|op| &op.polls)
            .map(|polled| polled.records.len())
            .sum();
        let kinds: BTreeSet<Kind> = ok().map(|op| op.kind).collect();
        let mut complaints = Vec::new();
        if acked < self.acked_sends_min {
            complaints.push(format!(
                "{acked} sends acknowledged of at least {}",
                self.acked_sends_min
            ));
        }
        if polled < self.polled_records_min {
            complaints.push(format!(
                "{polled} records polled of at least {}",
                self.polled_records_min
            ));
        }
        for kind in self.kinds.iter().filter(|kind| !kinds.contains(kind)) {
            complaints.push(format!("no {kind:?} succeeded"));
        }
        for fault in self.faults.iter().filter(|fault| fault.bit == 0) {
            complaints.push(format!("fault without effect: {}", fault.name));
        }
        complaints
    }
}
