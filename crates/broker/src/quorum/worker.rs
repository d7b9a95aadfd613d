//! The worker of the quorum: it writes the vote file and the id of the cluster, owns the connections to other nodes, and keeps the time of the quorum, of the
//! active controller and of this broker's life in the cluster.

mod find_cluster;
mod probes;
mod register_controller;
mod snapshots;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::{Disk, Poller, Readiness, Turn, Worker};
use model::{Instant, Ticket};
use raft::{CallId, Caller, Election, Endpoint, Event, Failure, Fill, Peer, Request, Response};
use wire::{ApiKey, ErrorCode, Records};

use self::probes::{Probed, Suspect};
use super::controller_registration::ControllerRegistration;
use super::membership::{self, Membership, Waiting};
use super::snapshot_writer::SnapshotDesk;
use crate::control::lifecycle::{self, Ask, Leaving};
use crate::control::snapshot_files::SnapshotDir;
use crate::control::{log_read, vote_file};
use crate::mail::inboxes::Redeemed;
use crate::mail::quorum::{Order, Question};
use crate::peers::{
    Answer, Encodable, Lane, Links, Lost, Outbound, QuorumRequest, Reply, quorum_answer,
};
use crate::shared::Shared;

/// Where the vote file cannot be written it is tried again after this pause; nothing that rests on it happens until then.
const RETRY: Duration = Duration::from_millis(500);
/// A registration or heartbeat is given up after so long.
const LIFECYCLE_WAIT_MAX: Duration = Duration::from_secs(2);
/// A leader that stops has so long to hand its leadership on.
const HANDOVER_MAX: Duration = Duration::from_millis(500);

/// The author of a request that is under way.
enum Author {
    Quorum(CallId),
    Lifecycle(Ask),
    ControllerRegistration,
    FindCluster,
    Probe(Suspect),
}

pub(crate) struct QuorumWorker {
    shared: Arc<Shared>,
    poller: Box<dyn Poller>,
    links: Links<Author>,
    ready: Vec<Readiness>,
    /// Requests of other nodes that wait at a door.
    callers: BTreeMap<Caller, Ticket>,
    last_caller: u64,
    /// A vote, or the id of the cluster, that could not be written, and when it is tried again. In the order of the orders, with one vote in a
    /// row: an earlier one is forgotten once a later one is in the file.
    unwritten: VecDeque<Order>,
    unwritten_until: Option<Instant>,
    /// When the leader is asked for the id of the cluster, while that is not known.
    finds_cluster_at: Option<Instant>,
    clusters_asked_for: u32,
    /// Brokers that are dialled again, and when.
    suspects: Vec<(Instant, Suspect)>,
    /// `None` in a cluster of one, whose broker registers when it starts, and where this node is no broker.
    membership: Option<Membership>,
    /// The membership of a broker that is alone, for when it no longer is.
    reserve: Option<Membership>,
    /// `None` where this node is no controller.
    registration: Option<ControllerRegistration>,
    /// Lines of a controller alone that hears no leader.
    silence: Waiting,
    /// The end of the metadata that the lifecycle knows to be here.
    seen_end: i64,
    /// The controller that requests go to.
    controller: Option<Endpoint>,
    /// Set once all else has stopped: until when the leadership may be handed on.
    ends_by: Option<Instant>,
    snapshots: SnapshotDir,
    snapshot_desk: Arc<SnapshotDesk>,
    /// When this worker is to wake by itself, while it sleeps.
    sleeps_until: Option<Instant>,
    /// Of this node in requests of the quorum.
    name: Arc<str>,
}

/// A worker that wakes so much later than it asked for did not run: its process was stopped, or its machine was.
const PAUSE_MIN: Duration = Duration::from_secs(1);

impl QuorumWorker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        poller: Box<dyn Poller>,
        (membership, registration): (Option<Membership>, Option<ControllerRegistration>),
    ) -> QuorumWorker {
        let name = format!("raft-client-{}", shared.catalog.config().broker.node_id).into();
        let links = Links::new(
            shared.ceilings.clone(),
            shared.identity.clone(),
            Arc::clone(&shared.names),
        );
        let (membership, reserve) = if shared.state.is_alone() {
            (None, membership)
        } else {
            (membership, None)
        };
        let snapshots = SnapshotDir::of(&shared.metadata.log_dir().path);
        let snapshot_desk = Arc::new(SnapshotDesk::new(shared.env.threads.bell()));
        QuorumWorker {
            shared,
            poller,
            links,
            ready: Vec::new(),
            callers: BTreeMap::new(),
            last_caller: 0,
            unwritten: VecDeque::new(),
            unwritten_until: None,
            finds_cluster_at: None,
            clusters_asked_for: 0,
            suspects: Vec::new(),
            membership,
            reserve,
            registration,
            silence: Waiting::default(),
            seen_end: 0,
            controller: None,
            ends_by: None,
            snapshots,
            snapshot_desk,
            sleeps_until: None,
            name,
        }
    }

    /// Has the directories know of a pause of the process: a sync that was under way is not slow for that.
    fn notice_pause(&mut self, now: Instant) {
        let Some(until) = self.sleeps_until.take() else {
            return;
        };
        let pause = now.since(until);
        if pause < PAUSE_MIN {
            return;
        }
        tracing::warn!(
            target: env::logs::BROKER,
            "this process did not run for {}.{} s: it was stopped, or its machine was, or has too little CPU time",
            pause.as_secs(),
            pause.subsec_millis() / 100,
        );
        let dirs = self.shared.volumes.dirs().iter();
        dirs.for_each(|dir| dir.on_pause(until, now));
    }

    /// Does what was ordered, and what follows from that.
    pub(crate) fn take_orders(&mut self) {
        loop {
            let orders = self.shared.mail.quorum.take();
            if orders.is_empty() {
                return;
            }
            for order in orders {
                self.carry_out(order);
            }
        }
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::StoreVote { .. } | Order::StoreCluster { .. } => self.store(order),
            Order::Send {
                call,
                peer,
                request,
            } => self.send(call, peer, request),
            Order::Answer {
                caller,
                response,
                fill,
            } => self.answer(caller, *response, fill),
            Order::Ask(question) => self.ask(*question),
            Order::WriteSnapshot {
                id,
                position,
                bytes,
            } => {
                let done = self.snapshots.write_part(self.disk(), id, position, &bytes);
                self.complain(done, "write a snapshot of the metadata");
            }
            Order::FinishSnapshot { id, size } => self.finish_snapshot(id, size),
            Order::DropSnapshot(id) => {
                let done = self.snapshots.drop_part(self.disk(), id);
                self.complain(done, "remove a part of a snapshot");
            }
            Order::DeleteSnapshot(id) => {
                let done = self.snapshots.delete(self.disk(), id);
                self.complain(done, "remove an old snapshot of the metadata");
            }
            Order::TakeSnapshot => self.take_snapshot(),
            Order::TakeLeadership(epoch) => {
                self.shared.metadata.take_leadership(epoch);
                self.probe_all();
            }
            Order::Lost(broker, epoch) => self.probe(broker, epoch),
            Order::Join => self.join(),
            Order::Look => self.shared.metadata.on_watched(),
        }
    }

    /// This broker was alone until now: from now on it lives by heartbeats, as the others do.
    fn join(&mut self) {
        let Some(mut membership) = self.reserve.take() else {
            return;
        };
        let now = self.shared.env.clock.now();
        membership.adopt(&self.shared, self.shared.state.broker_epoch(), now);
        self.membership = Some(membership);
        tracing::info!(target: env::logs::BROKER, "this broker is no longer alone in its cluster");
    }

    fn disk(&self) -> &dyn Disk {
        &*self.shared.env.disk
    }

    fn complain(&self, done: io::Result<()>, what: &str) {
        if let Err(error) = done {
            tracing::error!(target: env::logs::METADATA, "cannot {what}: {error}");
        }
    }

    /// Writes a fact that the quorum must not forget, behind those that could not be written yet.
    fn store(&mut self, order: Order) {
        let is_vote = |order: &Order| matches!(order, Order::StoreVote { .. });
        if is_vote(&order) && self.unwritten.back().is_some_and(is_vote) {
            self.unwritten.pop_back();
        }
        self.unwritten.push_back(order);
        self.write_unwritten();
    }

    fn write_unwritten(&mut self) {
        let has_failed = self.unwritten_until.take().is_some();
        while let Some(order) = self.unwritten.pop_front() {
            let written = match &order {
                Order::StoreVote {
                    number,
                    election,
                    version,
                } => self.write_vote(election, *version).map(|()| *number),
                Order::StoreCluster { number, cluster } => {
                    self.write_cluster(cluster).map(|()| *number)
                }
                _ => continue,
            };
            match written {
                Ok(number) => self.shared.metadata.step(Event::VoteStored { number }),
                Err((path, error)) => {
                    if !has_failed {
                        tracing::error!(
                            target: env::logs::METADATA,
                            "cannot write {}: {error}; it is tried again, and this node does not vote before", path.display(),
                        );
                    }
                    self.unwritten.push_front(order);
                    self.unwritten_until = Some(self.shared.env.clock.now().plus(RETRY));
                    return;
                }
            }
        }
    }

    fn write_vote(&self, election: &Election, version: i16) -> Result<(), (PathBuf, io::Error)> {
        let shared = &self.shared;
        let voters = shared.metadata.voters();
        let dir = &shared.metadata.log_dir().path;
        let stored = vote_file::store(&*shared.env.disk, dir, election, version, &voters);
        stored.map_err(|error| (dir.join(raft::quorum_state::FILE_NAME), error))
    }

    /// The directory of the metadata log must have the id before anybody is told of it. A start adds it to others that could not be written.
    fn write_cluster(&self, cluster: &str) -> Result<(), (PathBuf, io::Error)> {
        let shared = &self.shared;
        let first = &shared.metadata.log_dir().path;
        let named = partition::name_cluster(&shared.env, first, cluster);
        named.map_err(|error| (first.join("meta.properties"), error))?;
        let others = shared.volumes.dirs().iter();
        for dir in others.filter(|dir| dir.path != *first && !dir.is_failed()) {
            let named = partition::name_cluster(&shared.env, &dir.path, cluster);
            self.complain(named, "write the id of the cluster");
        }
        shared.state.set_cluster_id(cluster);
        tracing::info!(target: env::logs::METADATA, "this node is part of cluster {cluster}");
        Ok(())
    }

    fn send(&mut self, call: CallId, peer: Peer, request: Box<Request>) {
        let client = Arc::clone(&self.name);
        self.send_out(Outbound {
            target: (peer.endpoint, Lane::Quorum),
            request: QuorumRequest { request, client },
            until: None,
            of: Author::Quorum(call),
        });
    }

    fn send_out<R: Encodable + 'static>(&mut self, outbound: Outbound<R, Author>) {
        self.links.send(&mut *self.poller, outbound);
    }

    fn fail(&self, call: CallId, failure: Failure) {
        self.shared.metadata.step(Event::Failed { call, failure });
    }

    fn take_replies(&mut self) {
        for reply in self.links.take_replies() {
            match reply {
                Reply::Failed { of, why } => self.on_failed(of, why),
                Reply::Answered { of, key, answer } => self.on_answered(of, key, answer),
            }
        }
    }

    fn on_failed(&mut self, of: Author, why: Lost) {
        match of {
            Author::Quorum(call) => self.fail(
                call,
                match why {
                    Lost::Unsupported => Failure::UnsupportedVersion,
                    Lost::Refused | Lost::Ended { .. } => Failure::Disconnected,
                },
            ),
            Author::Lifecycle(ask) => self.on_lifecycle(ask, Err(ErrorCode::NetworkException)),
            Author::ControllerRegistration => self.on_controller_registered(None),
            // It is asked again.
            Author::FindCluster => {}
            Author::Probe(suspect) => self.on_probed(
                suspect,
                match why {
                    Lost::Refused => Probed::Refused,
                    Lost::Ended { .. } | Lost::Unsupported => Probed::Broken,
                },
            ),
        }
    }

    fn on_answered(&mut self, of: Author, key: ApiKey, answer: Answer) {
        match of {
            Author::Quorum(call) => match quorum_answer(key, answer) {
                Ok(response) => self.shared.metadata.step(Event::Answer { call, response }),
                Err(_) => self.fail(call, Failure::Disconnected),
            },
            Author::Lifecycle(ask) => {
                let told = membership::read(ask, answer);
                self.on_lifecycle(ask, told);
            }
            Author::ControllerRegistration => self.on_controller_registered(Some(answer)),
            Author::FindCluster => self.on_cluster_found(answer),
            Author::Probe(suspect) => self.on_probed(suspect, Probed::Answered),
        }
    }

    /// Another node is the active controller: what the one before was asked is asked of it.
    fn follow_controller(&mut self) {
        let known = self.shared.metadata.controller_endpoint();
        if known == self.controller {
            return;
        }
        if let Some(endpoint) = &known {
            let poller = &mut *self.poller;
            self.links.end_others(poller, Lane::Controller, endpoint);
            self.links.end_others(poller, Lane::Lifecycle, endpoint);
        }
        self.shared.mail.calls.set_controller(known.clone());
        self.controller = known;
    }

    fn ask(&mut self, question: Question) {
        let Question { ticket, request } = question;
        self.last_caller += 1;
        let caller = Caller(self.last_caller);
        self.callers.insert(caller, ticket);
        self.shared
            .metadata
            .step(Event::Request { caller, request });
    }

    fn answer(&mut self, caller: Caller, mut response: Response, fill: Option<Fill>) {
        let Some(ticket) = self.callers.remove(&caller) else {
            return;
        };
        if let (Some(fill @ Fill::Records { .. }), Response::Fetch(fetch)) = (fill, &mut response) {
            let records = Records::from(self.records(fill));
            let topics = fetch.responses.iter_mut();
            for part in topics.flat_map(|topic| &mut topic.partitions) {
                part.records = Some(records.clone());
            }
        }
        if let (
            Some(Fill::Snapshot {
                id,
                position,
                bytes_max,
            }),
            Response::FetchSnapshot(fetch),
        ) = (fill, &mut response)
        {
            let slice = (self.snapshots).slice(self.disk(), id, position, bytes_max);
            let bytes = slice.unwrap_or_else(|error| {
                tracing::error!(target: env::logs::METADATA, "cannot read snapshot {id} for another node: {error}");
                Bytes::new()
            });
            let topics = fetch.topics.iter_mut();
            for part in topics.flat_map(|topic| &mut topic.partitions) {
                part.unaligned_records = Some(Records::from(bytes.clone()));
            }
        }
        let answered = Redeemed::Quorum(ticket, Box::new(response));
        self.shared.mail.put(ticket.inbox, answered);
    }

    /// Whole batches of the metadata log; none where it cannot be read, or where this node ceased to lead since it was asked.
    fn records(&self, fill: Fill) -> Bytes {
        let epoch = self.shared.metadata.led_epoch();
        let bytes = log_read::records(self.shared.metadata.log(), fill);
        if epoch.is_some() && self.shared.metadata.led_epoch() == epoch {
            bytes
        } else {
            Bytes::new()
        }
    }

    fn on_lifecycle(&mut self, ask: Ask, told: Result<membership::Told, ErrorCode>) {
        let now = self.shared.env.clock.now();
        let Some(membership) = &mut self.membership else {
            return;
        };
        if let Err(code) = &told {
            tracing::debug!(target: env::logs::BROKER, ?ask, ?code, "the controller does not take it");
        }
        let turn = match (ask, told) {
            (Ask::Register, Ok(membership::Told::Registered(epoch))) => {
                membership.on_registered(&self.shared, epoch, now);
                None
            }
            (Ask::Register, told) => {
                let code = told.err().unwrap_or(ErrorCode::UnknownServerError);
                membership.complain(&self.shared, code, now);
                membership.life.on_registered(Err(code), now);
                None
            }
            (Ask::Heartbeat { .. }, Ok(membership::Told::Heard(heard, wall_ms))) => {
                if let Some(wall_ms) = wall_ms {
                    membership.hear_clock(&self.shared, wall_ms, now);
                }
                membership.life.on_heard(Ok(heard), now)
            }
            (Ask::Heartbeat { .. }, told) => {
                let code = told.err().unwrap_or(ErrorCode::UnknownServerError);
                membership.life.on_heard(Err(code), now)
            }
        };
        // Before anybody is let in.
        let until = membership.life.leads_until();
        self.shared.state.set_leads_until(until);
        self.take_turn(turn);
    }

    fn take_turn(&mut self, turn: Option<lifecycle::Turn>) {
        match turn {
            None => {}
            Some(lifecycle::Turn::Serve) => {
                self.shared.state.set_serving(self.shared.env.clock.now());
                self.shared.mail.inboxes.wake_shards();
                tracing::info!(target: env::logs::BROKER, "this broker is part of the cluster and serves clients");
            }
            Some(lifecycle::Turn::Stop) => self.shared.lifetime.stop_now(),
        }
    }

    /// Sends the request to the controller that is due, and follows the life of the broker.
    fn live(&mut self, now: Instant) {
        let image = self.shared.catalog.image();
        let end = image.end();
        let is_leaving = self.shared.lifetime.is_leaving();
        let Some(membership) = &mut self.membership else {
            if is_leaving {
                self.shared.lifetime.stop_now();
            }
            return;
        };
        let mut serves = None;
        if end != self.seen_end {
            self.seen_end = end;
            let own = image.broker(self.shared.catalog.config().broker.node_id);
            let news = lifecycle::News {
                somebody: leaving(&image),
                counts_in: own.is_some_and(|own| !own.is_fenced),
            };
            serves = membership.life.on_metadata(news, now);
        }
        if is_leaving && membership.life.leave(now) {
            self.shared.lifetime.stop_now();
        }
        membership.watch_session(&self.shared, now);
        membership.watch_dirs(&self.shared, now);
        let turn = membership.life.on_tick(now);
        if turn == Some(lifecycle::Turn::Stop) {
            tracing::warn!(
                target: env::logs::BROKER,
                "the active controller did not take over what this broker leads within {} s: it stops all the same. Partitions that nobody \
                 else can lead come back with it",
                lifecycle::LEAVE_MAX.as_secs(),
            );
        }
        let ask = membership.life.take_ask(now);
        let request = ask.map(|ask| (ask, membership.request(&self.shared, ask, end)));
        self.take_turn(serves);
        self.take_turn(turn);
        let Some((ask, request)) = request else {
            return;
        };
        // A broker registers with a cluster that it knows.
        let is_named = !self.shared.state.cluster_id().is_empty();
        let endpoint = self.controller.clone().filter(|_| is_named);
        let Some(endpoint) = endpoint else {
            return self.on_lifecycle(ask, Err(ErrorCode::NotController));
        };
        self.send_out(Outbound {
            target: (endpoint, Lane::Lifecycle),
            request,
            until: Some(now.plus(LIFECYCLE_WAIT_MAX)),
            of: Author::Lifecycle(ask),
        });
    }

    /// A controller alone has no membership that would say why nothing is decided.
    fn complain_of_silence(&mut self, now: Instant) {
        let metadata = &self.shared.metadata;
        if self.shared.catalog.config().broker.quorum.roles.broker || metadata.hears_leader() {
            self.silence = Waiting::default();
        } else if self.silence.is_due(now) {
            let why = metadata.quorum_sight().no_controller();
            tracing::warn!(target: env::logs::METADATA, "this controller hears no leader of the quorum: {why}");
        }
    }

    fn poll(&mut self, timeout: Option<Duration>) {
        if let Err(error) = self.poller.wait(timeout, &mut self.ready) {
            tracing::error!(target: env::logs::METADATA, "the quorum cannot poll: {error}");
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let lifecycle = self.membership.as_ref();
        [
            self.shared.metadata.next_deadline(),
            self.unwritten_until,
            self.finds_cluster_at,
            self.suspects.iter().map(|(at, _)| *at).min(),
            self.links.next_deadline(),
            lifecycle.and_then(|membership| membership.life.next_deadline()),
            lifecycle.and_then(Membership::silenced_at),
            lifecycle.map(Membership::looks_at),
            self.ends_by,
            self.registers_controller_at(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// All that waits for the metadata has ended. A leader hands its leadership on before it goes.
    fn is_over(&mut self, now: Instant) -> bool {
        if !self.shared.lifetime.have_shards_ended() {
            return false;
        }
        if self.shared.state.is_alone() {
            return true;
        }
        if self.ends_by.is_none() {
            self.ends_by = Some(now.plus(HANDOVER_MAX));
            if let Some(epoch) = self.shared.metadata.led_epoch() {
                self.shared.metadata.resign(epoch);
            }
        }
        let is_late = self.ends_by.is_some_and(|by| by <= now);
        is_late || !self.shared.metadata.is_handing_over()
    }
}

impl Worker for QuorumWorker {
    fn turn(&mut self) -> Turn {
        self.notice_pause(self.shared.env.clock.now());
        if self.ready.is_empty() {
            self.poll(Some(Duration::ZERO));
        }
        for ready in std::mem::take(&mut self.ready) {
            self.links.on_ready(&mut *self.poller, ready);
        }
        self.links.dial_named(&mut *self.poller);
        self.take_replies();
        // After the poll: it swallows the wake-up of whatever was ordered before it.
        self.take_orders();
        let now = self.shared.env.clock.now();
        self.links.expire(&mut *self.poller, now);
        self.take_replies();
        if self.unwritten_until.is_some_and(|at| at <= now) {
            self.write_unwritten();
        }
        if self.shared.metadata.is_quorum_due(now) {
            self.shared.metadata.step(Event::Tick);
        }
        if self.shared.metadata.is_leadership_due(now) {
            self.shared.metadata.tick(now);
        }
        self.take_snapshot_if_due(now);
        self.follow_controller();
        self.find_cluster(now);
        self.dial_again(now);
        self.live(now);
        self.complain_of_silence(now);
        self.register_controller(now);
        self.take_replies();
        self.take_orders();
        self.shared.volumes.commit_metadata();
        if self.is_over(now) {
            self.snapshot_desk.close();
            return Turn::Done;
        }
        match self.next_deadline() {
            Some(at) if at <= now => Turn::Again,
            until => {
                self.sleeps_until = until;
                Turn::Sleep { until }
            }
        }
    }

    fn park(&mut self, until: Option<Instant>) {
        let timeout = until.map(|until| until.since(self.shared.env.clock.now()));
        self.poll(timeout);
    }
}

fn leaving(image: &meta::Image) -> Leaving {
    let mut brokers = image.brokers();
    if brokers.any(|broker| broker.is_shutting_down && !broker.is_fenced) {
        Leaving::IsWaited
    } else {
        Leaving::Nobody
    }
}
