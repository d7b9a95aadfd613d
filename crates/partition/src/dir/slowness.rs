//! Whether the syncs of a directory take so long that another broker should lead what is in it.
//!
//! A machine without IO. One sync of [`SYNC_MAX`] makes a directory slow, whether it has ended or not. It recovers when none took half as
//! long for a while, and the while doubles each time it gets slow again soon after: leaderships do not go back and forth with a disk
//! that is slow now and then. Why not shorter: a rotating disk under load, or a cloud volume out of credits, has syncs of a second, and
//! then all replicas have them.

use std::time::Duration;

use model::Instant;

/// A sync that takes so long keeps every producer of the directory waiting.
const SYNC_MAX: Duration = Duration::from_secs(2);
/// Without such a sync, and without one of half that time, so long a directory is slow still.
const REST: Duration = Duration::from_secs(10);
/// However often it got slow again.
const REST_MAX: Duration = Duration::from_secs(160);
/// One that was well for so long begins with [`REST`] anew.
const FORGET_AFTER: Duration = Duration::from_secs(600);

#[derive(Debug, Default)]
pub(super) struct Slowness {
    /// Slow until then.
    until: Option<Instant>,
    rest: Option<Duration>,
}

impl Slowness {
    /// A sync took so long, or takes so long already.
    pub(super) fn on_sync(&mut self, took: Duration, now: Instant) {
        let is_slow = self.is_slow(now);
        if took < SYNC_MAX && !(is_slow && SYNC_MAX / 2 <= took) {
            return;
        }
        if !is_slow {
            let forgets_at = self.until.map(|until| until.plus(FORGET_AFTER));
            let is_again = forgets_at.is_some_and(|at| now < at);
            let before = self.rest.filter(|_| is_again);
            self.rest = Some(before.map_or(REST, |rest| (rest * 2).min(REST_MAX)));
        }
        self.until = Some(now.plus(self.rest.unwrap_or(REST)));
    }

    pub(super) fn is_slow(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(0).plus(Duration::from_millis(ms))
    }

    fn sync(slowness: &mut Slowness, took_ms: u64, now_ms: u64) -> bool {
        slowness.on_sync(Duration::from_millis(took_ms), at(now_ms));
        slowness.is_slow(at(now_ms))
    }

    #[test]
    fn one_long_sync_makes_a_directory_slow_until_syncs_are_short_for_a_while() {
        let mut slowness = Slowness::default();
        assert!(!sync(&mut slowness, 1_999, 0));
        assert!(sync(&mut slowness, 2_000, 5_000));
        assert!(sync(&mut slowness, 900, 14_000));
        assert!(slowness.is_slow(at(14_999)) && !slowness.is_slow(at(15_000)));
        let mut slowness = Slowness::default();
        assert!(sync(&mut slowness, 2_500, 0));
        assert!(
            sync(&mut slowness, 1_000, 9_000),
            "half as long is no recovery"
        );
        assert!(slowness.is_slow(at(18_999)) && !slowness.is_slow(at(19_000)));
    }

    #[test]
    fn one_that_gets_slow_again_soon_rests_longer() {
        let mut slowness = Slowness::default();
        let mut now = 0;
        for rest in [10, 20, 40, 80, 160, 160] {
            assert!(sync(&mut slowness, 3_000, now));
            now += rest * 1_000;
            assert!(slowness.is_slow(at(now - 1)) && !slowness.is_slow(at(now)));
            now += 1_000;
        }
        now += 600_000;
        assert!(sync(&mut slowness, 3_000, now));
        assert!(!slowness.is_slow(at(now + 10_000)), "it was well for long");
    }
}
