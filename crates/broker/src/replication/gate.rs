//! One request to the controller at a time, and a pause after one that failed.

use std::collections::BTreeMap;
use std::time::Duration;

use model::Instant;

/// The wishes of the request under way, and until when no other one goes.
pub(super) struct Gate<K, W> {
    pause: Duration,
    asked: BTreeMap<K, W>,
    rests_until: Option<Instant>,
}

impl<K: Ord, W> Gate<K, W> {
    /// A request that failed goes again after `pause`.
    pub(super) fn new(pause: Duration) -> Gate<K, W> {
        Gate {
            pause,
            asked: BTreeMap::new(),
            rests_until: None,
        }
    }

    /// True if a request may go.
    pub(super) fn is_open(&mut self, now: Instant) -> bool {
        self.rests_until = self.rests_until.filter(|until| now < *until);
        self.rests_until.is_none() && self.asked.is_empty()
    }

    /// A request with these wishes goes.
    pub(super) fn close(&mut self, asked: BTreeMap<K, W>) {
        self.asked = asked;
    }

    /// The request was answered, or failed: what it asked for.
    pub(super) fn end(&mut self) -> BTreeMap<K, W> {
        std::mem::take(&mut self.asked)
    }

    /// The wishes go again after a pause.
    pub(super) fn rest(&mut self, now: Instant) {
        self.rests_until = Some(now.plus(self.pause));
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.rests_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_nanos(10);

    #[test]
    fn one_request_goes_at_a_time_and_rests_after_a_failure() {
        let mut gate = Gate::new(PAUSE);
        assert!(gate.is_open(Instant(1)));
        gate.close(BTreeMap::from([(1, "wish")]));
        assert!(!gate.is_open(Instant(2)), "one is under way");
        assert_eq!(gate.end(), BTreeMap::from([(1, "wish")]));
        gate.rest(Instant(5));
        assert!(!gate.is_open(Instant(14)));
        assert_eq!(gate.next_deadline(), Some(Instant(15)));
        assert!(gate.is_open(Instant(15)));
        assert_eq!(gate.next_deadline(), None, "a worker would not sleep");
    }
}
