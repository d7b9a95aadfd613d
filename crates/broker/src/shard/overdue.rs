//! Requests whose time is up, and those that must not keep a stopping broker.
//!
//! Whoever waits for a commit is told after a while that it is not known whether it will come: a full disk may take hours. What was
//! written stays where it is, and is committed when there is room.

use model::Instant;

use super::{Outcome, Shard, Waiting};

impl Waiting {
    /// When it is answered though what it waits for is not durable. Fetches have timers of their own.
    fn until(&self) -> Option<Instant> {
        match self {
            Waiting::Produce(produce) => Some(produce.until),
            Waiting::Trim(trim) => Some(trim.until),
            Waiting::Change(change) => change.until(),
            Waiting::Asking(asking) => asking.until(),
            Waiting::Fetch(_) | Waiting::Search(_) => None,
        }
    }

    /// Without its connection nobody needs it: what it wrote is committed all the same. A client may have asked to wait for weeks.
    fn is_for_client_alone(&self) -> bool {
        matches!(
            self,
            Waiting::Produce(_) | Waiting::Trim(_) | Waiting::Fetch(_)
        )
    }

    /// It keeps a stopping broker until what it wrote is durable. Whoever waits for a coordinator is dropped by a stop.
    fn needs_commit(&self) -> bool {
        matches!(
            self,
            Waiting::Produce(_) | Waiting::Trim(_) | Waiting::Change(_)
        )
    }
}

impl Shard {
    /// Only a commit that waits for room on a full disk takes so long. One that a stopping broker waits for may never come.
    pub(super) fn expire_waiting(&mut self) {
        let is_lost = self.is_stopping && self.shared.dirs().iter().any(|dir| dir.lacks_room());
        let (now, connections) = (self.now, &self.connections);
        let expired = self.waiting_keys(|waiting, address| {
            let is_left = !self.is_stopping
                && waiting.is_for_client_alone()
                && !connections.contains_key(&address.conn);
            is_left
                || is_lost && waiting.needs_commit()
                || waiting.until().is_some_and(|until| until <= now)
        });
        for key in expired.iter().copied() {
            match self.waiting(key) {
                Some((Waiting::Produce(_), _)) => self.time_out_produce(key),
                Some((Waiting::Trim(_), _)) => self.time_out_trim(key),
                Some((Waiting::Change(_), _)) => self.time_out_change(key, is_lost),
                Some((Waiting::Asking(_), _)) => self.time_out_asking(key),
                Some((Waiting::Fetch(_), _)) => self.drop_fetch(key),
                Some((Waiting::Search(_), _)) | None => {}
            }
        }
        if !expired.is_empty() {
            self.forget_waiters();
        }
    }

    /// A partition with something that is not durable may know of someone who waits no more.
    fn forget_waiters(&self) {
        for residents in self.shared.residents() {
            for partition in residents.uncommitted() {
                partition.forget_waiters(self.inbox, |key| self.parked.contains(key));
            }
        }
    }

    /// Those that wait for more to read, or for other members of their group, would keep the broker from ending; their clients ask
    /// again elsewhere.
    pub(super) fn drop_readers(&mut self) {
        // Markers that are missing are written after the next start.
        self.drop_markings();
        let is_reader =
            |waiting: &Waiting| matches!(waiting, Waiting::Fetch(_) | Waiting::Asking(_));
        for key in self.waiting_keys(|waiting, _| is_reader(waiting)) {
            let Some((waiting, address)) = self.take_waiting(key) else {
                continue;
            };
            if let Waiting::Fetch(fetch) = waiting {
                fetch.unwatch(self.inbox, key);
            }
            self.settle(&address, Outcome::Close);
        }
    }
}

#[cfg(test)]
mod tests;
