//! A run in which nothing happened proves nothing, so it is a failed run.

use std::collections::BTreeSet;

use super::history::{History, Kind, Outcome};

/// A fault that was to happen, and what it really did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub name: &'static str,
    /// How often it bit: un-synced bytes lost, syncs failed, requests timed out.
    pub bit: u64,
}

/// What a run must contain to count.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    pub acked_sends_min: usize,
    pub polled_records_min: usize,
    /// Each of these must have succeeded at least once.
    pub kinds: Vec<Kind>,
    /// Each of these must have bitten at least once.
    pub faults: Vec<Fault>,
}

impl Guard {
    /// What is missing; empty when the run counts.
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
