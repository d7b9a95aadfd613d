//! Deadlines of requests that wait.
//!
//! An answered request cancels its timer: a client may ask to wait for weeks, and be answered a thousand times a second.

use std::collections::BTreeSet;

use model::Instant;
use model::WaiterKey;

#[derive(Default)]
pub(crate) struct Timers(BTreeSet<(Instant, WaiterKey)>);

impl Timers {
    pub(crate) fn set(&mut self, at: Instant, key: WaiterKey) {
        self.0.insert((at, key));
    }

    pub(crate) fn cancel(&mut self, at: Instant, key: WaiterKey) {
        self.0.remove(&(at, key));
    }

    pub(crate) fn due(&mut self, now: Instant) -> Option<WaiterKey> {
        let (at, key) = *self.0.first()?;
        if at > now {
            return None;
        }
        self.0.pop_first();
        Some(key)
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
