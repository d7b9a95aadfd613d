//! Admission and eviction: connections are accepted while there is room for them, and closed when they keep it for nothing. What comes
//! beyond that is a guest (see [`crate::net::guests`]).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use env::logs::CONNECTIONS;
use env::{ConnId, Socket};
use model::Instant;

use super::shard::{IDLE_CHECK, Shard};
use crate::asker::Asker;
use crate::complaints::foreign_protocol;
use crate::kafka::Caller;
use crate::mail::inboxes::Post;
use crate::meters::meter::Refusal;
use crate::net::connection::Connection;

/// While there are as many connections as may be, new ones wait in the backlog, and are looked for so often.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// The first request of a node is not longer: a fetch of some 60,000 partitions.
const JUDGED_BYTES_MAX: usize = 4 << 20;

/// Connections of a shard that may log in at a time, however few places there are.
const STRANGERS_MIN: usize = 16;
/// The time for a login.
const LOGIN_MAX: Duration = Duration::from_secs(10);

impl Shard {
    pub(super) fn accept(&mut self) {
        self.accept_at = None;
        self.seat_guests();
        loop {
            let is_full =
                !self.desk.shared.doors.has_room_for_connection() && !self.desk.is_stopping;
            let settings = self.desk.shared.catalog.config();
            let protected = &settings.protected_ports[..];
            if is_full {
                self.accept_at = Some(self.desk.now.plus(ACCEPT_PAUSE));
                self.complain_of_crowd();
            }
            // Nodes among themselves neither wait for clients to go nor make room for them.
            let has_room = !is_full || self.has_room_for_guest();
            match self.poller.accept((!has_room).then_some(protected)) {
                // The listener stays: where nobody listens, other nodes take this process for dead, and its answers still count.
                Ok(Some(socket)) if self.desk.is_stopping => drop(socket),
                Ok(Some(socket))
                    if is_full
                        && !socket.is_administrator
                        && !protected.contains(&socket.local.port()) =>
                {
                    self.take_as_guest(socket);
                }
                Ok(Some(socket)) => self.admit(socket),
                Ok(None) => return,
                Err(error) => {
                    // Out of descriptors, most likely: the backlog keeps the peer waiting until one is free. The poller asks again.
                    if let Some(kept_back) = self.desk.complaints.accepts.admit(self.desk.now) {
                        tracing::error!(
                            target: CONNECTIONS, kept_back = kept_back.count(),
                            "cannot accept a connection: {error}",
                        );
                    }
                    return;
                }
            }
        }
    }

    /// Alone a node has nobody to let in before clients, and these wait in the backlog.
    fn has_room_for_guest(&self) -> bool {
        !self.desk.shared.state.is_alone() && self.guests.has_room(self.desk.now)
    }

    fn take_as_guest(&mut self, socket: Socket) {
        if let Some(conn) = self.guests.in_the_way(self.desk.now) {
            self.desk.meter().on_refused(Refusal::Places);
            self.close(conn);
        }
        if let Some(conn) = self.open(socket) {
            self.guests.add(conn, self.desk.now);
        }
    }

    /// Places that are free go to the guests that wait longest.
    fn seat_guests(&mut self) {
        while self.desk.shared.doors.has_room_for_connection()
            && let Some(conn) = self.guests.oldest()
        {
            if self.seat(conn) {
                self.connections.active.insert(conn);
            }
        }
    }

    /// Gives a guest a place; false if it is closed because its address has too many.
    fn seat(&mut self, conn: ConnId) -> bool {
        let Some(connection) = self.connections.get_mut(conn) else {
            return false;
        };
        let peer = connection.peer;
        connection.is_outside = false;
        if !self.has_place_for(peer) {
            self.close(conn);
            return false;
        }
        self.guests.remove(conn)
    }

    /// True if the next request of a connection may be read: a guest is heard as far as it says whether it is a node.
    pub(super) fn lets_in(&mut self, conn: ConnId) -> bool {
        if !self.guests.contains(conn) {
            return true;
        }
        let settings = self.desk.shared.catalog.config();
        let Some(connection) = self.connections.get_mut(conn) else {
            return false;
        };
        let mut caller = caller(connection, settings.elements_max);
        let may_be_node =
            settings.trusts(connection.asker()) && self.desk.shared.doors.has_room_for_node();
        if caller == Some(Caller::Node) && !may_be_node {
            caller = Some(Caller::Client);
        }
        match caller {
            None | Some(Caller::Unknown) => true,
            Some(Caller::Node) => self.seat(conn),
            Some(Caller::Client) if self.desk.shared.doors.has_room_for_connection() => {
                self.seat(conn)
            }
            Some(Caller::Client) => {
                connection.is_outside = true;
                self.guests.on_client(conn);
                false
            }
        }
    }

    fn complain_of_crowd(&mut self) {
        if let Some(kept_back) = self.desk.complaints.places.admit_rarely(self.desk.now) {
            let most = self.desk.shared.doors.connections_max();
            tracing::warn!(
                target: CONNECTIONS, kept_back = kept_back.count(),
                "all {most} places for connections are taken, and new clients wait: raise max.connections, or the limit of open files \
                 (LimitNOFILE of the unit, ulimit -n) where that is what bounds them (esker_connections_max)",
            );
        }
    }

    /// A frame that is too long, or none: other protocols begin with letters, which make a huge length.
    pub(super) fn complain_of_size(&mut self, peer: SocketAddr, length: i32) {
        self.desk.meter().on_refused(Refusal::Garbage);
        let Some(kept_back) = self.desk.complaints.garbage.admit(self.desk.now) else {
            return;
        };
        let kept_back = kept_back.count();
        match foreign_protocol(length.to_be_bytes()) {
            Some(protocol) => tracing::warn!(
                target: CONNECTIONS, kept_back,
                "connection from {peer} closed: it speaks {protocol}, and this port speaks the protocol of Kafka",
            ),
            None => tracing::warn!(
                target: CONNECTIONS, kept_back,
                "connection from {peer} closed: it announced a request of {length} bytes",
            ),
        }
    }

    fn admit(&mut self, socket: Socket) {
        if !self.has_place_for(socket.peer) {
            return;
        }
        match self.desk.shared.doors.place(self.id) {
            shard if shard == self.id => self.adopt(socket),
            shard => self
                .desk
                .shared
                .mail
                .inboxes
                .post(shard, Post::Socket(socket)),
        }
    }

    /// Counts a connection; false, and a line, if its address has too many.
    fn has_place_for(&mut self, peer: SocketAddr) -> bool {
        let has_place = self.desk.shared.doors.admit(peer.ip());
        if !has_place {
            self.desk.meter().on_refused(Refusal::PerIp);
            if let Some(kept_back) = self.desk.complaints.crowds.admit(self.desk.now) {
                tracing::warn!(
                    target: CONNECTIONS, kept_back = kept_back.count(),
                    "connection from {peer} refused: its address has as many as max.connections.per.ip",
                );
            }
        }
        has_place
    }

    pub(super) fn adopt(&mut self, socket: Socket) {
        let peer = socket.peer;
        if self.open(socket).is_none() {
            self.desk.shared.doors.forget(peer.ip());
        }
    }

    fn open(&mut self, socket: Socket) -> Option<ConnId> {
        let (peer, local) = (socket.peer, socket.local);
        let entrances = &self.desk.shared.entrances;
        let (asker, entrance) = match socket.is_administrator {
            true => (
                Asker::administrator(peer, local),
                entrances.administrators(),
            ),
            false => (Asker::anonymous(peer, local), entrances.at(local)),
        };
        let entrance = Arc::clone(entrance);
        match self.poller.adopt(socket) {
            Ok(conn) => {
                let asker = Asker {
                    authority: self.desk.shared.catalog.authority(),
                    ..asker
                };
                let connection = Connection::new(conn, Arc::new(asker), entrance, self.desk.now);
                self.connections.insert(connection);
                self.bound_strangers();
                self.desk.meter().on_opened();
                Some(conn)
            }
            Err(error) => {
                tracing::warn!(target: CONNECTIONS, "connection from {peer} lost: {error}");
                None
            }
        }
    }

    /// Those who have not logged in take no more than half of the places; the one that takes longest makes way.
    fn bound_strangers(&mut self) {
        let shared = &self.desk.shared;
        let shards = shared.mail.inboxes.shards_count().max(1);
        let most = (shared.doors.connections_max() / 2 / shards).max(STRANGERS_MIN);
        while most < self.connections.strangers_count()
            && let Some((_, conn)) = self.connections.oldest_stranger()
        {
            self.desk.meter().on_refused(Refusal::Login);
            self.close(conn);
        }
    }

    /// Sends away those whose login takes too long.
    fn close_strangers(&mut self) {
        while let Some((since, conn)) = self.connections.oldest_stranger()
            && LOGIN_MAX < self.desk.now.since(since)
        {
            self.desk.meter().on_refused(Refusal::Login);
            self.close(conn);
        }
    }

    /// Somebody may have gone whose place another one waits for.
    pub(super) fn retry_accept(&mut self) {
        if self.accept_at.is_some_and(|at| at <= self.desk.now) {
            self.accept();
        }
    }

    /// Memory is short: buffers that are not needed are given back, and clients that keep theirs without sending are cut off.
    pub(super) fn economise(&mut self) {
        let (now, account) = (self.desk.now, &mut self.account);
        let mut late = BTreeSet::new();
        for connection in self.connections.values_mut() {
            if !connection.economise(account, now) {
                late.insert(connection.id);
            }
        }
        for conn in late {
            self.desk.meter().on_refused(Refusal::Memory);
            if let Some(connection) = self.connections.get(conn)
                && let Some(kept_back) = self.desk.complaints.memory.admit(self.desk.now)
            {
                tracing::warn!(
                    target: CONNECTIONS, kept_back = kept_back.count(),
                    "connection from {} closed: memory for requests is short, and the rest of its request does not come",
                    connection.peer,
                );
            }
            self.close(conn);
        }
    }

    /// Clients that are silent, or that take none of the answers they asked for.
    pub(crate) fn close_idle(&mut self) {
        self.close_strangers();
        let age = self.desk.shared.catalog.config().connection_idle_max;
        let open = self.connections.values();
        let deaf: BTreeSet<ConnId> = open
            .filter(|connection| connection.unread_for(self.desk.now) > Some(age))
            .map(|connection| connection.id)
            .collect();
        deaf.into_iter().for_each(|conn| self.close(conn));
        // Ordered by connection id: the budget must not depend on hash order.
        let idle: BTreeSet<ConnId> = self
            .connections
            .values()
            .filter(|connection| connection.is_idle())
            .filter(|connection| self.desk.now.since(connection.last_active) > IDLE_CHECK)
            .map(|connection| connection.id)
            .collect();
        for conn in idle {
            if let Some(connection) = self.connections.get_mut(conn) {
                connection.shrink(&mut self.account);
                if self.desk.now.since(connection.last_active) > age {
                    self.close(conn);
                }
            }
        }
        self.close_excess();
    }

    /// The limit of connections was lowered: those that were silent longest go first.
    fn close_excess(&mut self) {
        if !self.desk.shared.doors.is_overcrowded() {
            return;
        }
        let settings = self.desk.shared.catalog.config();
        let protected = &settings.protected_ports;
        let open = self.connections.values();
        let mut by_silence: Vec<(Instant, ConnId)> = open
            .filter(|connection| {
                let is_local = connection.asker().principal.is_local();
                !is_local && !protected.contains(&connection.local.port())
            })
            .map(|connection| (connection.last_active, connection.id))
            .collect();
        by_silence.sort_unstable();
        for (_, conn) in by_silence {
            if !self.desk.shared.doors.is_overcrowded() {
                return;
            }
            self.close(conn);
        }
    }
}

/// The kind of a connection by its next request; `None` until enough of it is there.
fn caller(connection: &Connection, elements_max: usize) -> Option<Caller> {
    let head = connection.head()?;
    if JUDGED_BYTES_MAX < head.bytes {
        return Some(Caller::Client);
    }
    let of_api = Caller::of_api(head.api);
    of_api.or_else(|| Some(Caller::of_request(connection.whole()?, elements_max)))
}
