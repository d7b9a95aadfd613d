//! How long ago this leader had no more than a follower has now.

use std::collections::VecDeque;
use std::time::Duration;

use model::{Instant, Offset};

/// Shortest time between two marks. Reports of a busy follower come every few milliseconds, and overtake its syncs.
const APART: Duration = Duration::from_millis(500);
/// Marks of 32 s: `replica.lag.time.max.ms` is 30 s by default.
const COUNT_MAX: usize = 64;
/// Marks that a follower keeps room for once it has caught up.
const COUNT_KEPT_MAX: usize = 8;

/// Ends that the leader's log had, oldest first, which a follower has not reached.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks(VecDeque<(Instant, Offset)>);

impl Marks {
    /// The follower has everything below `synced`, and the log ends at `end` now. Returns when the log ended at `synced` or lower, as far
    /// as that was noted and has not been returned yet.
    pub(super) fn on_word(&mut self, synced: Offset, end: Offset, now: Instant) -> Option<Instant> {
        if end <= synced {
            self.0.clear();
            self.0.shrink_to(COUNT_KEPT_MAX);
            return Some(now);
        }
        let mut reached = None;
        while let Some((then, _)) = self.0.pop_front_if(|(_, end)| *end <= synced) {
            reached = Some(then);
        }
        let is_due = |(then, _): &(Instant, Offset)| APART <= now.since(*then);
        if self.0.len() < COUNT_MAX && self.0.back().is_none_or(is_due) {
            self.0.push_back((now, end));
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant(0).plus(Duration::from_millis(millis))
    }

    /// The log grows by a record each millisecond.
    #[test]
    fn a_steady_lag_is_known_to_half_a_second() {
        for lag in [3, 700, 25_000, 50_000] {
            let mut marks = Marks::default();
            let mut had = at(0);
            let mut most = Duration::ZERO;
            for millis in (0..200_000).step_by(5) {
                let now = at(millis);
                let synced = Offset((millis.saturating_sub(lag)) as i64);
                let reached = marks.on_word(synced, Offset(millis as i64), now);
                had = had.max(reached.unwrap_or(had));
                most = most.max(now.since(had));
            }
            let lag = Duration::from_millis(lag);
            // Marks of a longer lag have gaps, because at most 64 are kept.
            let error = if lag < Duration::from_secs(30) {
                APART + Duration::from_millis(10)
            } else {
                lag
            };
            assert!(lag <= most && most <= lag + error, "{lag:?}: {most:?}");
            assert!(marks.0.len() <= COUNT_MAX);
        }
    }
}
