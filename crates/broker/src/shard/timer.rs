//! Deadlines of waiting requests. Requests that were answered before leave their entry behind until it is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use model::Instant;
use partition::WaiterKey;

#[derive(Default)]
pub(crate) struct Timers(BinaryHeap<Reverse<(Instant, WaiterKey)>>);

impl Timers {
    pub(crate) fn set(&mut self, at: Instant, key: WaiterKey) {
        self.0.push(Reverse((at, key)));
    }

    pub(crate) fn due(&mut self, now: Instant) -> Option<WaiterKey> {
        let Reverse((at, key)) = *self.0.peek()?;
        if at > now {
            return None;
        }
        self.0.pop();
        Some(key)
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }
}
