//! Clocks of nodes that are apart: when a line about one is due.
//!
//! A machine without clock. A heartbeat carries the time of its sender, and its answer that of the controller. A message that waited
//! looks like a clock that is behind, so two in a row have to say so. Lines about one node become rarer while it stays so.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{BrokerId, Instant};

/// Clocks that are less apart are called equal: heartbeats take up to 2 seconds, and clocks that are kept by NTP are within a second.
const APART: Duration = Duration::from_secs(5);
/// Between the first and the second line about a node; each further pause is twice as long.
const PAUSE: Duration = Duration::from_secs(60);
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// A line that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The other clock is ahead by so many milliseconds, or behind if below zero.
    Apart { ahead_ms: i64 },
    /// They were apart and are no longer.
    Equal,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Heartbeats in a row with a clock that is apart.
    times: u32,
    /// When the next line is due, and the pause behind it; `None` before the first.
    next: Option<(Instant, Duration)>,
}

/// The clocks of other nodes, as far as they are apart.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    apart: BTreeMap<BrokerId, Seen>,
}

impl Clocks {
    /// The clock of `node` was ahead of the own one by so much when its message came, or behind if below zero.
    pub(crate) fn on_heard(&mut self, node: BrokerId, ahead_ms: i64, now: Instant) -> Option<Due> {
        if Duration::from_millis(ahead_ms.unsigned_abs()) < APART {
            let seen = self.apart.remove(&node)?;
            return seen.next.map(|_| Due::Equal);
        }
        let seen = self.apart.entry(node).or_insert(Seen {
            times: 0,
            next: None,
        });
        seen.times = seen.times.saturating_add(1);
        let is_due = seen.next.is_none_or(|(at, _)| at <= now);
        if seen.times < 2 || !is_due {
            return None;
        }
        let pause = seen.next.map_or(PAUSE, |(_, pause)| pause);
        seen.next = Some((now.plus(pause), (pause * 2).min(PAUSE_MAX)));
        Some(Due::Apart { ahead_ms })
    }
}

/// A difference of two clocks in words: "2.0 days ahead of", "7.3 s behind".
pub(crate) fn words(ahead_ms: i64) -> String {
    const UNITS: [(u64, &str); 4] = [
        (86_400_000, "days"),
        (3_600_000, "hours"),
        (60_000, "minutes"),
        (1, ""),
    ];
    let ms = ahead_ms.unsigned_abs();
    let side = if ahead_ms < 0 { "behind" } else { "ahead of" };
    let (size, unit) = (UNITS.into_iter())
        .find(|(size, _)| size * 2 <= ms)
        .unwrap_or((1, ""));
    let (tenths, unit) = match unit {
        "" => (ms / 100, "s"),
        unit => (ms / (size / 10), unit),
    };
    format!("{}.{} {unit} {side}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant(0).plus(Duration::from_secs(seconds))
    }

    const NODE: BrokerId = BrokerId(3);
    const DAYS: i64 = 2 * 86_400_000;

    #[test]
    fn a_clock_that_is_apart_is_named_at_the_second_heartbeat_and_then_more_rarely() {
        let mut clocks = Clocks::default();
        assert_eq!(clocks.on_heard(NODE, 4_999, at(0)), None);
        assert_eq!(
            clocks.on_heard(NODE, DAYS, at(2)),
            None,
            "a message that waited"
        );
        let due = Some(Due::Apart { ahead_ms: DAYS });
        assert_eq!(clocks.on_heard(NODE, DAYS, at(4)), due);
        let mut lines = Vec::new();
        for second in (6..1_000).step_by(2) {
            if clocks.on_heard(NODE, DAYS, at(second)).is_some() {
                lines.push(second);
            }
        }
        assert_eq!(lines, [64, 184, 424, 904]);
        assert_eq!(clocks.on_heard(NODE, 10, at(1_000)), Some(Due::Equal));
        assert_eq!(clocks.on_heard(NODE, 10, at(1_002)), None);
    }

    #[test]
    fn one_message_that_waited_is_no_clock() {
        let mut clocks = Clocks::default();
        for second in [0, 4, 8] {
            assert_eq!(clocks.on_heard(NODE, -30_000, at(second)), None);
            assert_eq!(clocks.on_heard(NODE, -100, at(second + 2)), None);
        }
    }

    #[test]
    fn a_difference_is_told_in_a_unit_that_people_read() {
        for (ms, text) in [
            (DAYS, "2.0 days ahead of"),
            (-7_340, "7.3 s behind"),
            (-90_000, "90.0 s behind"),
            (150_000, "2.5 minutes ahead of"),
            (3 * 3_600_000, "3.0 hours ahead of"),
        ] {
            assert_eq!(words(ms), text);
        }
    }
}
