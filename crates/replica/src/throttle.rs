//! A bound on the bytes per second of replication (KIP-73).
//!
//! Bytes that went count against those that time has brought, of which a second is kept at most. More may be taken while nothing is owed, so
//! one answer may go beyond the rate, and is waited for afterwards; over any longer time the rate holds.

use model::Instant;

const NANOS: i128 = 1_000_000_000;

/// See the module.
#[derive(Debug)]
pub struct Throttle {
    /// In billionths of a byte, so that no time is too short to count. Negative while more was taken than allowed.
    credit: i128,
    since: Instant,
}

impl Throttle {
    #[must_use]
    pub fn new(now: Instant) -> Throttle {
        Throttle {
            credit: 0,
            since: now,
        }
    }

    /// Bytes have gone.
    pub fn take(&mut self, bytes: usize, per_second: u64, now: Instant) {
        self.earn(per_second, now);
        self.credit -= bytes as i128 * NANOS;
    }

    /// When more may go; `None` for now. At a rate of 0 that is far away.
    pub fn opens_at(&mut self, per_second: u64, now: Instant) -> Option<Instant> {
        self.earn(per_second, now);
        let owed = -self.credit;
        if owed <= 0 && 0 < per_second {
            return None;
        }
        let nanos = owed.max(1) as u128 / u128::from(per_second.max(1)) + 1;
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        Some(Instant(now.0.saturating_add(nanos)))
    }

    fn earn(&mut self, per_second: u64, now: Instant) {
        // Threads that take at once may have looked at the clock in another order.
        let now = now.max(self.since);
        let nanos = now.since(self.since).as_nanos() as i128;
        self.since = now;
        let rate = i128::from(per_second);
        self.credit = (self.credit + rate * nanos).min(rate * NANOS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 1_000_000;

    fn millis(millis: u64) -> Instant {
        Instant(5_000_000_000 + millis * 1_000_000)
    }

    #[test]
    fn a_rate_holds_however_large_what_is_taken_at_once() {
        for bytes in [100, 65_536, 3_000_000] {
            let mut throttle = Throttle::new(millis(0));
            let (mut now, mut taken) = (millis(0), 0);
            let end = millis(20_000);
            while now < end {
                match throttle.opens_at(RATE, now) {
                    Some(at) => now = at,
                    None => {
                        throttle.take(bytes, RATE, now);
                        taken += bytes;
                    }
                }
            }
            let most = 20_000_000 + bytes;
            assert!(taken <= most, "{bytes}: {taken}");
            assert!(20_000_000 - bytes <= taken, "{bytes}: {taken}");
        }
    }

    #[test]
    fn time_that_nothing_used_counts_for_a_second() {
        let mut throttle = Throttle::new(millis(0));
        throttle.take(1_500_000, RATE, millis(60_000));
        let opens = throttle
            .opens_at(RATE, millis(60_000))
            .expect("half is owed");
        assert_eq!(
            opens.0.div_ceil(1_000_000),
            millis(60_500).0 / 1_000_000 + 1
        );
    }

    #[test]
    fn a_rate_that_rises_ends_the_wait_and_zero_lets_nothing_go() {
        let mut throttle = Throttle::new(millis(0));
        throttle.take(1 << 20, 1, millis(0));
        assert!(throttle.opens_at(1, millis(0)) > Some(millis(1_000_000)));
        let opens = throttle.opens_at(1 << 20, millis(0)).expect("it is owed");
        assert!(opens <= millis(1_001), "{opens:?}");
        assert_eq!(throttle.opens_at(i64::MAX as u64, millis(1)), None);
        assert!(Throttle::new(millis(0)).opens_at(0, millis(9)).is_some());
    }
}
