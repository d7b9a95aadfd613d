//! Anomalies found, counted, each with the first examples.

use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Anomaly {
    /// The history contradicts itself: the harness is wrong, not the broker.
    InvalidHistory,
    /// One offset held two values.
    InconsistentOffsets,
    /// One value at two offsets.
    Duplicate,
    /// Somebody read what nobody sent.
    Phantom,
    /// Something later was read and this acknowledged value was not.
    LostWrite,
    /// Acknowledged and never read although everything was read to the end.
    Unseen,
    /// Read at one level and never at the other, though no transaction wrote to its key and both read everything.
    LevelsDiffer,
    /// A read returned a value that certainly was not written.
    AbortedRead,
    /// A transaction read its own writes.
    PrecommittedRead,
    /// Part of a transaction is there and part is not.
    TornTransaction,
    PollSkip,
    PollSkipInside,
    NonmonotonicPoll,
    NonmonotonicPollInside,
    NonmonotonicSend,
    NonmonotonicSendInside,
    /// Operations that read each other's writes.
    WriteReadCycle,
    /// The same, counting that one ended before another began.
    WriteReadCycleRealtime,
    /// A log end that does not cover what was acknowledged before the question.
    StaleEndOffset,
    /// A log end or log start that went backwards.
    EndWentBack,
}

/// Examples kept per anomaly; the count goes on.
const EXAMPLES_MAX: usize = 3;

#[derive(Clone, Debug, Default)]
pub struct Finding {
    pub count: u64,
    pub examples: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub findings: BTreeMap<Anomaly, Finding>,
    /// Sends of one operation that are not neighbours in the log: normal, worth knowing.
    pub sends_apart: u64,
    /// The longest time for which the newest record of a poll was known to be stale before the poll began.
    pub lag_max: u64,
    /// Records polled plus operations: what was judged.
    pub events: u64,
}

impl Report {
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    #[must_use]
    pub fn found(&self, anomaly: Anomaly) -> bool {
        self.findings.contains_key(&anomaly)
    }

    /// Adds one finding; the example is only written while there are few.
    pub(super) fn add(&mut self, anomaly: Anomaly, example: impl FnOnce() -> String) {
        let finding = self.findings.entry(anomaly).or_default();
        finding.count += 1;
        if finding.examples.len() < EXAMPLES_MAX {
            finding.examples.push(example());
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_clean() {
            return write!(f, "clean: {} events", self.events);
        }
        for (anomaly, finding) in &self.findings {
            writeln!(f, "{anomaly:?}: {} times", finding.count)?;
            for example in &finding.examples {
                writeln!(f, "    {example}")?;
            }
        }
        Ok(())
    }
}
