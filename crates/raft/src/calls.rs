//! Requests under way: at most one to a peer, with a time-out, and a pause after a failure.
//!
//! An answer counts only while its call is known here, so one that comes twice, too late, or from before a change of state is
//! nothing. That is also how the answer of a pre-vote is never taken for a vote.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{BrokerId, Instant};

use crate::timers::{Settings, sooner};

/// Names a request until its answer comes. Never used twice by a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// A peer as calls know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Target {
    Node(BrokerId),
    /// A bootstrap address by its place in the settings.
    Seed(usize),
}

#[derive(Clone, Copy, Debug)]
enum Line {
    Waiting { call: CallId, until: Instant },
    Resting { until: Instant },
}

#[derive(Debug, Default)]
pub(crate) struct Calls {
    lines: BTreeMap<Target, Line>,
    last: u64,
}

impl Calls {
    pub(crate) fn is_free(&self, target: Target) -> bool {
        !self.lines.contains_key(&target)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.lines.is_empty()
    }

    /// True if an answer is awaited from anyone.
    pub(crate) fn is_any_waiting(&self) -> bool {
        self.lines
            .values()
            .any(|line| matches!(line, Line::Waiting { .. }))
    }

    pub(crate) fn is_resting(&self, target: Target) -> bool {
        matches!(self.lines.get(&target), Some(Line::Resting { .. }))
    }

    pub(crate) fn begin(&mut self, target: Target, now: Instant, timeout: Duration) -> CallId {
        self.last += 1;
        let call = CallId(self.last);
        let until = now.plus(timeout);
        self.lines.insert(target, Line::Waiting { call, until });
        call
    }

    /// The peer that `call` went to, if its answer is still awaited.
    pub(crate) fn target_of(&self, call: CallId) -> Option<Target> {
        let mut lines = self.lines.iter();
        lines
            .find(|(_, line)| matches!(line, Line::Waiting { call: known, .. } if *known == call))
            .map(|(target, _)| *target)
    }

    pub(crate) fn end(&mut self, target: Target) {
        self.lines.remove(&target);
    }

    pub(crate) fn rest(&mut self, target: Target, now: Instant, pause: Duration) {
        let until = now.plus(pause);
        self.lines.insert(target, Line::Resting { until });
    }

    /// Ends what has run out. A peer that was silent rests, so that the next one is tried.
    pub(crate) fn expire(&mut self, now: Instant, settings: &Settings) {
        self.lines.retain(|_, line| match line {
            Line::Resting { until } => *until > now,
            Line::Waiting { until, .. } if *until <= now => {
                let until = now.plus(settings.retry_backoff);
                *line = Line::Resting { until };
                settings.retry_backoff > Duration::ZERO
            }
            Line::Waiting { .. } => true,
        });
    }

    /// Forgets all calls and pauses after a change of state: no answer to an earlier call counts.
    pub(crate) fn reset(&mut self) {
        self.lines.clear();
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let ends = self.lines.values().map(|line| match line {
            Line::Waiting { until, .. } | Line::Resting { until } => Some(*until),
        });
        ends.fold(None, sooner)
    }
}
