//! Whether the syncs of a directory take so long that another broker should lead what is in it.
//!
//! A machine without IO. One sync of [`SYNC_MAX`] makes a directory slow, whether it has ended or not. The directory recovers when none
//! took half as long for a while, and the while doubles each time it gets slow again soon after: leaderships do not move to and fro with a
//! disk that is slow now and then. Why not shorter: a rotating disk under load, or a cloud volume out of credits, has syncs of 1 s, and
//! then all replicas have them.

use std::time::Duration;

use model::Instant;

/// Length of a sync that keeps every producer of the directory waiting.
const SYNC_MAX: Duration = Duration::from_secs(2);
/// A slow directory is slow until this long after its last sync of half [`SYNC_MAX`] or more.
const REST: Duration = Duration::from_secs(10);
/// Longest such rest, however often a directory gets slow again.
const REST_MAX: Duration = Duration::from_secs(160);
/// A directory that was well for this long begins with [`REST`] again.
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// Syncs that are judged once more when it turns out that the process stood still meanwhile: those of the last moment.
const KEPT_MAX: usize = 16;
const KEPT_FOR: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct Slowness {
    verdict: Verdict,
    /// The last span of time in which the process did not run.
    paused: Option<(Instant, Instant)>,
    /// Long syncs of the last moment, and the verdict before the first of them.
    kept: Vec<(Duration, Instant)>,
    before: Verdict,
}

#[derive(Clone, Copy, Debug, Default)]
struct Verdict {
    /// Slow until then.
    until: Option<Instant>,
    rest: Option<Duration>,
}

impl Slowness {
    /// A sync took so long, or takes so long already.
    pub(super) fn on_sync(&mut self, took: Duration, now: Instant) {
        let took = self.took(took, now);
        if took < SYNC_MAX / 2 {
            return;
        }
        let is_new = (self.kept.first()).is_none_or(|(_, at)| KEPT_FOR < now.since(*at));
        if is_new {
            self.kept.clear();
            self.before = self.verdict;
        }
        if self.kept.len() < KEPT_MAX {
            self.kept.push((took, now));
        }
        self.verdict.on_sync(took, now);
    }

    /// The process did not run between `from` and `to`: it was stopped, or its machine was. The disk did nothing for it meanwhile, and what
    /// a sync took then is not the disk's time. Syncs that ended before this was noticed are judged again.
    pub(super) fn on_pause(&mut self, from: Instant, to: Instant) {
        self.paused = Some((from, to));
        let kept = std::mem::take(&mut self.kept);
        if kept.first().is_some_and(|(_, at)| from <= *at) {
            self.verdict = self.before;
            for (took, at) in kept {
                self.on_sync(took, at);
            }
        }
    }

    /// The time that a sync took which ended at `now`, without a pause of the process.
    fn took(&self, took: Duration, now: Instant) -> Duration {
        let Some((from, to)) = self.paused else {
            return took;
        };
        let began = Instant(now.0.saturating_sub(Instant(0).plus(took).0));
        let stood_still = to.min(now).since(from.max(began));
        took.saturating_sub(stood_still)
    }

    pub(super) fn is_slow(&self, now: Instant) -> bool {
        self.verdict.is_slow(now)
    }
}

impl Verdict {
    fn on_sync(&mut self, took: Duration, now: Instant) {
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

    fn is_slow(&self, now: Instant) -> bool {
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

    /// A process that was stopped for 5 s had a sync under way: its directory was called slow, for up to 160 s where that came again.
    #[test]
    fn a_pause_of_the_process_is_not_the_disk() {
        // The sync ends before the pause is noticed.
        let mut slowness = Slowness::default();
        assert!(sync(&mut slowness, 5_010, 15_000));
        slowness.on_pause(at(10_000), at(14_995));
        assert!(!slowness.is_slow(at(15_001)));
        // A sync that ends after that is judged without the pause as well.
        assert!(!sync(&mut slowness, 5_100, 15_090));
        // A disk that took long before and after the pause is slow all the same.
        assert!(sync(&mut slowness, 7_100, 16_100));
        // A disk that was called slow before the pause stays slow.
        let mut slowness = Slowness::default();
        assert!(sync(&mut slowness, 2_500, 9_000));
        assert!(sync(&mut slowness, 5_010, 15_000));
        slowness.on_pause(at(10_000), at(14_995));
        assert!(slowness.is_slow(at(18_999)) && !slowness.is_slow(at(19_000)));
        // A pause before the sync began takes nothing from it.
        assert!(sync(&mut slowness, 2_500, 40_000));
    }
}
