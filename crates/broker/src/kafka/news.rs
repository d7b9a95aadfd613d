//! From news to answers: what becomes of the requests that wait.
//!
//! Each piece of news finds its request by the key of its ticket; one that was answered long ago is not found, and its news are
//! dropped.

use std::sync::Arc;

use model::{Ticket, WaiterKey};
use partition::{News, Piece};
use wire::ErrorCode;

use super::api::{delete_records, fetch, list_offsets, produce, replica_fetch};
use super::hall::Hall;
use super::parked::{Parked, Waiting};
use super::peers;
use crate::mail::question::Answered;
use crate::net::Outcome;
use crate::ops::feed::is_of_feed;
use crate::peers::Answer;

impl Hall<'_> {
    pub(crate) fn on_news(&mut self, news: News) {
        match news {
            News::Readable(ticket) if is_of_feed(ticket) => self.door.grown.push(ticket),
            News::Readable(ticket) => self.door.readable.push(ticket),
            other => {
                if let Some((ticket, code)) = crate::error::outcome(other) {
                    self.on_ticket(ticket, code);
                }
            }
        }
    }

    /// A piece of a read has come from the reader pool.
    pub(crate) fn on_piece(&mut self, ticket: Ticket, piece: Piece) {
        if is_of_feed(ticket) {
            return replica_fetch::on_piece(self, ticket, piece);
        }
        match self.waiting(ticket.key) {
            Some(Waiting::Fetch(_)) => fetch::on_piece(self, ticket, piece),
            Some(Waiting::Search(_)) => list_offsets::on_piece(self, ticket, piece),
            _ => {}
        }
    }

    fn on_ticket(&mut self, ticket: Ticket, code: ErrorCode) {
        let key = ticket.key;
        match self.waiting(key) {
            Some(Waiting::Produce(producing)) => {
                producing.on_news(ticket, code);
                self.go_on(key);
            }
            Some(Waiting::Trim(trimming)) => {
                trimming.on_news(ticket, code);
                self.go_on(key);
            }
            Some(Waiting::Asking(asked)) => {
                asked.on_news(ticket, code);
                self.go_on(key);
            }
            Some(Waiting::Change(_)) => self.resume(key, |call, waiting| {
                let Waiting::Change(changed) = waiting else {
                    return Outcome::Waits;
                };
                changed.change.end(call.desk);
                match changed.then {
                    Some(then) if code == ErrorCode::None => then.answer(call),
                    Some(_) => Outcome::Close,
                    None => Outcome::Waits,
                }
            }),
            Some(
                Waiting::Fetch(_)
                | Waiting::Replica(_)
                | Waiting::Search(_)
                | Waiting::Quorum
                | Waiting::Remote(_)
                | Waiting::Membership(_)
                | Waiting::Password(_)
                | Waiting::Refusing(_),
            )
            | None => {}
        }
    }

    /// The quorum has answered another node.
    pub(crate) fn on_quorum(&mut self, ticket: Ticket, response: &raft::Response) {
        if matches!(self.waiting(ticket.key), Some(Waiting::Quorum)) {
            self.resume(ticket.key, |call, _| peers::respond(call, response));
        }
    }

    /// Another node has answered a request of this one, or has not.
    pub(crate) fn on_replied(&mut self, ticket: Ticket, answer: Option<Answer>) {
        match self.waiting(ticket.key) {
            Some(Waiting::Remote(_)) => self.resume(ticket.key, |call, waiting| match waiting {
                Waiting::Remote(remote) => (remote.finish)(call, answer),
                _ => Outcome::Waits,
            }),
            Some(Waiting::Produce(producing)) => {
                producing.on_replied(ticket, answer);
                self.go_on(ticket.key);
            }
            Some(Waiting::Trim(trimming)) => {
                trimming.on_replied(ticket, answer);
                self.go_on(ticket.key);
            }
            Some(Waiting::Fetch(_)) => fetch::on_replied(self, ticket, answer),
            _ => {}
        }
    }

    /// A coordinator has answered.
    pub(crate) fn on_answer(&mut self, answered: Answered) {
        let key = answered.ticket.key;
        let Some(parked) = self.door.parked.get_mut(key) else {
            return;
        };
        match &mut parked.waiting {
            Waiting::Asking(asked) => asked.on_answer(self.desk, answered),
            Waiting::Produce(producing) => producing.on_answer(self.desk, answered),
            _ => return,
        }
        self.go_on(key);
    }

    /// Answers a request that needs nothing more.
    fn go_on(&mut self, key: WaiterKey) {
        let is_ready = match self.waiting(key) {
            Some(Waiting::Produce(producing)) => producing.is_ready(),
            Some(Waiting::Trim(trimming)) => trimming.is_done(),
            Some(Waiting::Asking(asked)) => asked.is_done(),
            _ => false,
        };
        if is_ready {
            self.resume(key, |call, waiting| match waiting {
                Waiting::Produce(producing) => produce::go_on(call, producing),
                Waiting::Trim(trimming) => delete_records::respond(call, trimming),
                Waiting::Asking(asked) => asked.finish(call),
                _ => Outcome::Waits,
            });
        }
    }

    /// A fetch has more to read in these partitions.
    pub(crate) fn on_readable(&mut self, tickets: &[Ticket]) {
        if let Some(first) = tickets.first() {
            fetch::on_readable(self, first.key, tickets);
        }
    }

    pub(crate) fn fire_timers(&mut self) {
        while let Some(key) = self.door.timers.due(self.desk.now) {
            match self.waiting(key) {
                Some(Waiting::Replica(_)) => replica_fetch::on_deadline(self, key),
                Some(Waiting::Refusing(_)) => self.on_refused(key),
                _ => fetch::on_deadline(self, key),
            }
        }
    }

    /// Answers requests whose time is up, and those that a stopping broker cannot wait for. Only a commit that waits for room on a full
    /// disk takes so long.
    pub(crate) fn expire(&mut self) {
        let (is_stopping, now) = (self.desk.is_stopping, self.desk.now);
        let dirs = self.desk.shared.volumes.dirs();
        // Other replicas, or a majority of the voters, may never come.
        let is_late = self.desk.stops_by.is_some_and(|by| by <= now);
        let is_lost = is_late || is_stopping && dirs.iter().any(|dir| dir.lacks_room());
        let connections = &*self.connections;
        let expired = self.door.parked.keys(|parked| {
            let waiting = &parked.waiting;
            let is_left = !is_stopping
                && waiting.is_for_client_alone()
                && connections.get(parked.address.conn).is_none();
            is_left
                || is_late
                || is_lost && waiting.needs_commit()
                || waiting.until().is_some_and(|until| until <= now)
        });
        if is_late && !expired.is_empty() {
            tracing::warn!(
                target: env::logs::BROKER,
                "this broker stops without waiting any longer for {} requests: other replicas, or a majority of the voters, have not answered",
                expired.len(),
            );
        }
        for key in expired.iter().copied() {
            match self.waiting(key) {
                Some(Waiting::Produce(producing)) => producing.time_out(),
                Some(Waiting::Trim(trimming)) => trimming.time_out(),
                Some(Waiting::Asking(asked)) => asked.time_out(),
                Some(Waiting::Change(_)) => self.time_out_change(key, is_lost),
                // Its client has gone.
                Some(Waiting::Fetch(_)) => drop(fetch::take(self, key)),
                Some(Waiting::Replica(_) | Waiting::Password(_) | Waiting::Refusing(_)) => {
                    drop(self.door.take(key));
                }
                Some(Waiting::Membership(_)) => self.resume(key, |_, _| Outcome::Close),
                Some(Waiting::Search(_) | Waiting::Quorum | Waiting::Remote(_)) if is_late => {
                    self.resume(key, |_, _| Outcome::Close);
                }
                Some(Waiting::Search(_) | Waiting::Quorum | Waiting::Remote(_)) | None => {}
            }
            self.go_on(key);
        }
        if !expired.is_empty() {
            self.forget_waiters();
        }
        let connections = &*self.connections;
        for (conn, feed) in self.door.feeds_left(|conn| connections.get(conn).is_some()) {
            self.door.feed_of.remove(&conn);
            self.end_feed(feed);
        }
    }

    /// Its time is up. What it wrote, if anything, is still in the queue of the metadata log, and takes effect when it is durable;
    /// unless it `is_lost` to this process, which stops.
    fn time_out_change(&mut self, key: WaiterKey, is_lost: bool) {
        let Some(parked) = self.door.parked.get_mut(key) else {
            return;
        };
        let Waiting::Change(changed) = &mut parked.waiting else {
            return;
        };
        let then = changed.then.take();
        let (address, asker) = (parked.address, Arc::clone(&parked.asker));
        if (is_lost || !changed.change.writes)
            && let Some(Parked {
                waiting: Waiting::Change(changed),
                ..
            }) = self.door.take(key)
        {
            changed.change.end(self.desk);
        }
        let Some(then) = then else {
            return;
        };
        let mut call = self.call(address, asker);
        let outcome = then.answer_overdue(&mut call);
        let asker = call.asker;
        self.put_outcome(&address, &asker, outcome);
    }

    /// A partition with something that is not durable may know of a request that waits no more.
    fn forget_waiters(&self) {
        for residents in self.desk.shared.volumes.residents() {
            for partition in residents.uncommitted() {
                partition.forget_waiters(self.desk.inbox, |key| self.door.parked.contains(key));
            }
        }
    }

    /// Those that wait for more to read, or for other members of their group, would keep the broker from ending; their clients ask
    /// again elsewhere.
    pub(crate) fn drop_readers(&mut self) {
        let waits = |parked: &Parked| {
            !parked.waiting.needs_commit() && !matches!(parked.waiting, Waiting::Search(_))
        };
        for key in self.door.parked.keys(waits) {
            if let Some(parked) = fetch::take(self, key) {
                self.put_outcome(&parked.address, &parked.asker, Outcome::Close);
            }
        }
    }
}

#[cfg(test)]
mod tests;
