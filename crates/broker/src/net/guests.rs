//! Guests: connections that are open though all places are taken, until their first request shows whether a node asks.
//!
//! Nodes may share a listener with clients, and only what a connection asks for says whose it is. If all connections waited in the
//! backlog while clients hold all places, no node could reach this one, and a cluster that has lost its controller could elect no
//! other. A node gets a place beyond the limit; a client stays a guest until there is one, or until others come that may be nodes.

use std::collections::VecDeque;
use std::time::Duration;

use env::ConnId;
use model::Instant;

/// Guests at a time.
const GUESTS_MAX: usize = 64;
/// A guest is not sent away sooner for others that come: its first request may be on its way.
const STAY_MIN: Duration = Duration::from_millis(200);

struct Guest {
    conn: ConnId,
    since: Instant,
    /// Its first request is one of clients.
    is_client: bool,
}

/// In the order in which they came.
#[derive(Default)]
pub(crate) struct Guests {
    queue: VecDeque<Guest>,
}

impl Guests {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn contains(&self, conn: ConnId) -> bool {
        self.queue.iter().any(|guest| guest.conn == conn)
    }

    pub(crate) fn oldest(&self) -> Option<ConnId> {
        self.queue.front().map(|guest| guest.conn)
    }

    /// True if one more may come, if need be in the place of another one.
    pub(crate) fn has_room(&self, now: Instant) -> bool {
        self.queue.len() < GUESTS_MAX || self.replaceable(now).is_some()
    }

    /// The one that has to go before one more may come.
    pub(crate) fn in_the_way(&self, now: Instant) -> Option<ConnId> {
        let is_full = GUESTS_MAX <= self.queue.len();
        self.replaceable(now).filter(|_| is_full)
    }

    fn replaceable(&self, now: Instant) -> Option<ConnId> {
        let may_go = |guest: &&Guest| guest.is_client || STAY_MIN <= now.since(guest.since);
        self.queue.iter().find(may_go).map(|guest| guest.conn)
    }

    pub(crate) fn add(&mut self, conn: ConnId, now: Instant) {
        self.queue.push_back(Guest {
            conn,
            since: now,
            is_client: false,
        });
    }

    pub(crate) fn on_client(&mut self, conn: ConnId) {
        if let Some(guest) = self.queue.iter_mut().find(|guest| guest.conn == conn) {
            guest.is_client = true;
        }
    }

    /// It has a place, or is gone; true if it was a guest.
    pub(crate) fn remove(&mut self, conn: ConnId) -> bool {
        let before = self.queue.len();
        self.queue.retain(|guest| guest.conn != conn);
        self.queue.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn clients_make_way_at_once_and_others_after_a_while() {
        let mut guests = Guests::default();
        let start = Instant(SECOND);
        for conn in 0..GUESTS_MAX as u64 {
            assert_eq!(guests.in_the_way(start), None, "there is room");
            guests.add(ConnId(conn), start);
        }
        assert!(!guests.has_room(start), "all of them have just come");
        guests.on_client(ConnId(7));
        assert_eq!(guests.in_the_way(start), Some(ConnId(7)));
        assert!(guests.remove(ConnId(7)) && !guests.remove(ConnId(7)));
        guests.add(ConnId(1000), start);
        assert!(!guests.has_room(start));
        let later = start.plus(STAY_MIN);
        assert_eq!(guests.in_the_way(later), guests.oldest());
    }
}
