//! The links of one thread, by what they are for.
//!
//! One connection to an address and purpose: what may wait at its other end does not hold up anything else. A connection that fails,
//! or that is silent until the first of its requests is overdue, fails all that wait on it; the next request dials again. A link whose host is
//! looked up has no connection, and nothing but its own requests waits for the name.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::sync::Arc;

use bytes::BytesMut;
use env::{ConnId, Poller, Readiness};
use model::Instant;
use raft::Endpoint;
use wire::ApiKey;

use super::identity::Identity;
use super::link::{Fault, Link, Refused, Reply, SharedBuffer, Unknown};
use super::names::{Look, Names};
use super::request::Encodable;
use super::versions::Ceilings;

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Lane {
    Quorum,
    /// Registration and heartbeats, which must not wait behind anything.
    Lifecycle,
    /// Requests for the active controller.
    Controller,
    /// Requests for a broker.
    Broker,
    /// Requests of operations, for which a broker may wait before it answers.
    Relay,
    /// Is anybody there?
    Probe,
    /// Fetches of a follower.
    Replica,
    /// Those of replicas that have far to go.
    Bulk,
    /// Fetches of what is damaged here.
    Repair,
}

/// Where a connection leads, and its purpose.
pub(crate) type Target = (Endpoint, Lane);

/// A request that is ready to go.
pub(crate) struct Outbound<R, T> {
    pub(crate) target: Target,
    pub(crate) request: R,
    /// When its connection is given up, if it has not answered.
    pub(crate) until: Option<Instant>,
    pub(crate) of: T,
}

struct Line<T> {
    target: Target,
    link: Link<T>,
}

pub(crate) struct Links<T> {
    ceilings: Ceilings,
    identity: Identity,
    names: Arc<Names>,
    lines: BTreeMap<ConnId, Line<T>>,
    open: BTreeMap<Target, ConnId>,
    /// Links whose hosts are looked up.
    unnamed: BTreeMap<Target, Link<T>>,
    shared: SharedBuffer,
    replies: Vec<Reply<T>>,
    /// Requests that the node at an address does not know, which the log says once.
    unknown: BTreeSet<(Endpoint, ApiKey)>,
    /// Addresses that answered with garbage, which the log says once.
    garbled: BTreeSet<Endpoint>,
    /// Addresses whose nodes and this one do not trust each other, and why: the log says each once, and again once they did.
    strangers: BTreeMap<Endpoint, Refused>,
}

impl<T> Links<T> {
    pub(crate) fn new(ceilings: Ceilings, identity: Identity, names: Arc<Names>) -> Links<T> {
        Links {
            ceilings,
            identity,
            strangers: BTreeMap::new(),
            names,
            unnamed: BTreeMap::new(),
            lines: BTreeMap::new(),
            open: BTreeMap::new(),
            shared: SharedBuffer::new(),
            replies: Vec::new(),
            unknown: BTreeSet::new(),
            garbled: BTreeSet::new(),
        }
    }

    /// Sends a request; its reply comes out of [`Links::take_replies`].
    pub(crate) fn send<R: Encodable + 'static>(
        &mut self,
        poller: &mut dyn Poller,
        outbound: Outbound<R, T>,
    ) {
        let Outbound {
            target,
            request,
            until,
            of,
        } = outbound;
        if target.1 == Lane::Quorum {
            self.end_asked(poller, &target);
        }
        if let Some(conn) = self.open.get(&target).copied() {
            if let Some(line) = self.lines.get_mut(&conn) {
                line.link.ask(request, until, of);
            }
            self.flush(poller, conn);
            return self.collect(poller, conn);
        }
        let known = self.unnamed.remove(&target);
        let mut link = known.unwrap_or_else(|| {
            let is_probe = target.1 == Lane::Probe;
            let login = self.identity.login().filter(|_| !is_probe);
            Link::new(self.ceilings.clone(), is_probe, login)
        });
        link.ask(request, until, of);
        self.dial(poller, target, link);
    }

    /// The quorum has one request under way to a node: it has given the one before up.
    fn end_asked(&mut self, poller: &mut dyn Poller, target: &Target) {
        let conn = self.open.get(target).copied();
        let line = conn.and_then(|conn| self.lines.get(&conn));
        if let Some(conn) = conn.filter(|_| line.is_some_and(|line| line.link.is_asked())) {
            self.end(poller, conn);
        }
        if let Some(link) = self.unnamed.remove(target) {
            self.replies.extend(link.end(false));
        }
    }

    /// Begins a connection, once the address is known.
    fn dial(&mut self, poller: &mut dyn Poller, target: Target, link: Link<T>) {
        let address = match self.names.look(&target.0, &poller.waker()) {
            Look::At(address) => address,
            Look::Unknown => return self.replies.extend(link.end(false)),
            Look::Waits => {
                self.unnamed.insert(target, link);
                return;
            }
        };
        match poller.connect(address) {
            Ok(conn) => {
                self.open.insert(target.clone(), conn);
                self.lines.insert(conn, Line { target, link });
            }
            Err(error) => {
                self.names.doubt(&target.0);
                self.replies.extend(link.end(is_refused(&error)));
            }
        }
    }

    /// Dials the nodes whose names were looked up.
    pub(crate) fn dial_named(&mut self, poller: &mut dyn Poller) {
        for (target, link) in std::mem::take(&mut self.unnamed) {
            self.dial(poller, target, link);
        }
    }

    /// Gives up connections whose first request is overdue. Records may be long on their way: as long as more of them come they are waited for.
    pub(crate) fn expire(&mut self, poller: &mut dyn Poller, now: Instant) {
        for line in self.lines.values_mut() {
            if matches!(line.target.1, Lane::Replica | Lane::Bulk) {
                line.link.extend(now);
            }
        }
        self.end_where(poller, |_, link| {
            link.deadline().is_some_and(|at| at <= now)
        });
    }

    /// Ends connections of a purpose that do not lead to `endpoint`: the node there is not the one that is meant any more.
    pub(crate) fn end_others(&mut self, poller: &mut dyn Poller, lane: Lane, endpoint: &Endpoint) {
        self.end_where(poller, |target, _| {
            target.1 == lane && target.0 != *endpoint
        });
    }

    /// Ends the connection to `target`, if there is one.
    pub(crate) fn hang_up(&mut self, poller: &mut dyn Poller, target: &Target) {
        self.end_where(poller, |known, _| known == target);
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let lines = self.lines.values().map(|line| &line.link);
        let links = lines.chain(self.unnamed.values());
        links.filter_map(Link::deadline).min()
    }

    fn end_where(&mut self, poller: &mut dyn Poller, is_over: impl Fn(&Target, &Link<T>) -> bool) {
        let unnamed = self
            .unnamed
            .extract_if(.., |target, link| is_over(target, link));
        for (_, link) in unnamed {
            self.replies.extend(link.end(false));
        }
        let over = (self.lines.iter()).filter(|(_, line)| is_over(&line.target, &line.link));
        let over: Vec<ConnId> = over.map(|(conn, _)| *conn).collect();
        over.into_iter().for_each(|conn| self.end(poller, conn));
    }

    pub(crate) fn take_replies(&mut self) -> Vec<Reply<T>> {
        std::mem::take(&mut self.replies)
    }

    pub(crate) fn on_ready(&mut self, poller: &mut dyn Poller, ready: Readiness) {
        let Readiness::Conn {
            conn,
            readable,
            writable,
        } = ready
        else {
            return;
        };
        let Some(line) = self.lines.get_mut(&conn) else {
            return;
        };
        line.link.on_connected();
        if writable {
            self.flush(poller, conn);
        }
        if readable {
            self.receive(poller, conn);
            // The answer that names the versions lets others go.
            self.flush(poller, conn);
        }
        self.collect(poller, conn);
    }

    fn flush(&mut self, poller: &mut dyn Poller, conn: ConnId) {
        loop {
            let Some(line) = self.lines.get_mut(&conn) else {
                return;
            };
            let Some(front) = line.link.unsent() else {
                return;
            };
            match poller.send(conn, &[IoSlice::new(front)]) {
                Ok(sent) => line.link.on_sent(sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.end_for(poller, conn, is_refused(&error)),
            }
        }
    }

    fn receive(&mut self, poller: &mut dyn Poller, conn: ConnId) {
        loop {
            let Some(line) = self.lines.get_mut(&conn) else {
                return;
            };
            let recv = |into: &mut BytesMut| poller.recv(conn, into);
            match line.link.receive(&mut self.shared, recv) {
                Ok(Ok(0)) => return self.end(poller, conn),
                Ok(Err(fault)) => {
                    let endpoint = line.target.0.clone();
                    match fault {
                        Fault::Garbage => self.report_garbage(endpoint),
                        Fault::Login(why) => self.report_stranger(endpoint, why),
                    }
                    return self.end(poller, conn);
                }
                Ok(Ok(_)) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.end_for(poller, conn, is_refused(&error)),
            }
        }
    }

    /// Takes what became of the requests of a link.
    fn collect(&mut self, poller: &mut dyn Poller, conn: ConnId) {
        let Some(line) = self.lines.get_mut(&conn) else {
            return;
        };
        self.replies.append(&mut line.link.take_replies());
        let unknown = line.link.take_unknown();
        let is_over = line.link.is_over();
        if !unknown.is_empty() {
            let endpoint = line.target.0.clone();
            unknown.into_iter().for_each(|of| self.tell(&endpoint, of));
        }
        if is_over {
            self.end(poller, conn);
        }
    }

    /// Says once that what listens at an address is no node.
    fn report_garbage(&mut self, endpoint: Endpoint) {
        let Endpoint { host, port, .. } = &endpoint;
        if !self.garbled.contains(&endpoint) {
            tracing::warn!(
                target: env::logs::BROKER,
                "{host}:{port} answers with what is not of the Kafka protocol: this node reaches no other one there. See which program listens at \
                 that address, and that it is a listener of a node, without TLS",
            );
            self.garbled.insert(endpoint);
        }
    }

    /// Says once that the node at an address and this one do not trust each other.
    fn report_stranger(&mut self, endpoint: Endpoint, why: Refused) {
        if self.strangers.get(&endpoint) == Some(&why) {
            return;
        }
        let Endpoint { host, port, .. } = &endpoint;
        match &why {
            Refused::Unknown => tracing::error!(
                target: env::logs::BROKER,
                "the node at {host}:{port} takes no proof that this node is one of its cluster: it has no cluster secret, or runs a build that knows none. \
                 Start it with the secret of this one (esker.cluster.secret.file); while a cluster is changed over, start all with \
                 esker.cluster.insecure=true",
            ),
            Refused::Secret(why) => tracing::error!(
                target: env::logs::BROKER,
                "the node at {host}:{port} and this one have different cluster secrets, so that neither believes the other ({why}): give all nodes of a \
                 cluster the same file (esker.cluster.secret.file)",
            ),
            Refused::SameId => tracing::error!(
                target: env::logs::BROKER,
                "the node at {host}:{port} has the node id of this one, and takes no other node by that: give this one a node.id of its own",
            ),
        }
        self.strangers.insert(endpoint, why);
    }

    /// Says once that the node at an address does not know a request.
    fn tell(&mut self, endpoint: &Endpoint, unknown: Unknown) {
        let Unknown { key, newest } = unknown;
        if !self.unknown.insert((endpoint.clone(), key)) {
            return;
        }
        let Endpoint { host, port, .. } = endpoint;
        match newest {
            None if matches!(
                key,
                ApiKey::Vote | ApiKey::BeginQuorumEpoch | ApiKey::EndQuorumEpoch
            ) =>
            {
                tracing::warn!(
                    target: env::logs::BROKER,
                    "the node at {host}:{port} takes no {key} from this one: it is a cluster of its own, or does not take this node for one of its cluster. Start it with controller.quorum.voters or controller.quorum.bootstrap.servers as the other nodes have them",
                )
            }
            None => tracing::warn!(
                target: env::logs::BROKER,
                "the node at {host}:{port} does not list {key} in a version that this node speaks: such requests for it fail until it does. It runs \
                 another build, or does not take this node for one of its cluster (esker.cluster.insecure)",
            ),
            Some(newest) => tracing::warn!(
                target: env::logs::BROKER,
                "the node at {host}:{port} knows {key} up to version {newest}, which does not say all that this node asks: such requests for it \
                 fail until it runs a newer build",
            ),
        }
    }

    fn end(&mut self, poller: &mut dyn Poller, conn: ConnId) {
        self.end_for(poller, conn, false);
    }

    fn end_for(&mut self, poller: &mut dyn Poller, conn: ConnId, is_refused: bool) {
        if let Some(line) = self.lines.remove(&conn) {
            self.open.remove(&line.target);
            self.names.doubt(&line.target.0);
            poller.close(conn);
            self.replies.extend(line.link.end(is_refused));
        }
    }
}

fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}
