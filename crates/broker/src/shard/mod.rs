//! One network shard: a single-threaded loop that owns its connections and takes requests from bytes to answers.
//!
//! A turn drains the sockets, commits once for everything that arrived, and sends the answers in batches; no request costs a
//! channel hop or a wake-up of its own. Invariant: when a turn ends with `Sleep`, every edge that was reported has been used
//! up or is remembered in its connection.

mod admission;
#[cfg(test)]
pub(crate) mod bench;
mod by_id;
mod connection;
mod inbox;
pub(crate) mod memory;
mod overdue;
mod pending;
mod reply;
mod timer;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use env::{ConnId, Poller, Readiness, Turn, Worker};
use model::{InboxId, Instant, Ticket, Timestamp, WaiterKey};
use partition::{Commit, News, Wait};
use wire::{ApiKey, ErrorCode, Message};

use by_id::ById;
pub(crate) use connection::{Connection, SlotNumber};
use inbox::Frame;
use memory::Account;
pub(crate) use pending::Address;
use pending::Pending;
pub(crate) use reply::{Chunk, Reply};
use timer::Timers;

use crate::coordinate::{Asking, Coordinators, Marking};
use crate::held::Held;
use crate::inboxes::{Redeemed, ShardId};
use crate::kafka::api::delete_records::Trim;
use crate::kafka::api::fetch::Fetch;
use crate::kafka::api::list_offsets::Search;
use crate::kafka::api::produce::Produce;
use crate::kafka::change::Change;
use crate::kafka::session::Sessions;
use crate::shared::{Post, Shared};
use crate::topics::Topics;

/// Receive calls per connection and turn: a fast sender does not starve the others.
const RECEIVES_MAX: usize = 8;
/// Polls in one turn before a commit: drain until idle, but not for ever.
const DRAINS_MAX: usize = 16;
/// Commits faster than this run on the shard itself; slower ones go to a commit thread, so that reads go on meanwhile.
const INLINE_COMMIT_MAX: Duration = Duration::from_micros(400);
/// And none does when somebody asked so recently for something that needs no commit: a disk may become slow at any time, and he
/// would wait for the first commit that finds out. Consumers ask every `fetch.max.wait.ms`, half a second.
const ASKED_RECENTLY: Duration = Duration::from_millis(600);
/// Connections that are served before a round begins with what they brought, on a slow disk. When all of many wait for the same
/// round, they come back together as well, and the disk idles meanwhile.
const SERVED_BEFORE_ROUND: usize = 16;
/// Answers to one commit that leave before the next ones are made.
const SENDS_EARLY_MIN: usize = 8;
/// While a log directory is overloaded the sockets are left alone for this long.
const OVERLOAD_PAUSE: Duration = Duration::from_millis(5);
/// How often idle connections are looked for.
const IDLE_CHECK: Duration = Duration::from_secs(5);
/// Connections that wait for memory try again so often; others are asked for theirs so often meanwhile.
const DENIED_RETRY: Duration = Duration::from_millis(10);
const SHORT_CHECK: Duration = Duration::from_millis(500);
/// Record bytes in memory that an answer gets while readers keep too many of them; 64 KiB, or one batch.
const ANSWER_MEMORY_SHORT: usize = 64 << 10;

/// What became of a request.
pub(crate) enum Outcome {
    Reply(Reply),
    /// Answered later, through its waiter key.
    Waits,
    /// No answer is wanted.
    Silent,
    /// The client is to be cut off once earlier answers are out.
    Close,
}

/// A request that waits.
pub(crate) enum Waiting {
    Produce(Produce),
    Fetch(Fetch),
    Search(Arc<Search>),
    Trim(Trim),
    Change(Change),
    Asking(Asking),
}

/// What waits under a key of this shard.
enum Parked {
    Request((Waiting, Address)),
    /// Nobody asked: the markers of a transaction.
    Marking(Marking),
}

pub(crate) struct Shard {
    pub(crate) id: ShardId,
    /// Where news of its tickets are put.
    pub(crate) inbox: InboxId,
    pub(crate) shared: Arc<Shared>,
    pub(crate) connections: ById<ConnId, Connection>,
    pub(crate) sessions: Sessions,
    pub(crate) coordinators: Coordinators,
    /// Time of the current turn.
    pub(crate) now: Instant,
    pub(crate) wall: Timestamp,
    poller: Box<dyn Poller>,
    ready: Vec<Readiness>,
    /// Connections to be read or flushed in this turn.
    active: BTreeSet<ConnId>,
    answers_unsent: usize,
    parked: Pending<Parked>,
    timers: Timers,
    pub(crate) news: Vec<News>,
    /// More to read for those that wait: each looks once at all that came together.
    readable: Vec<Ticket>,
    topics: Arc<Topics>,
    request_bytes: usize,
    /// Memory for requests that are not whole.
    account: Account,
    /// Bytes of answers in memory that clients have not taken.
    unsent_memory: usize,
    retry_denied: Option<Instant>,
    paused_until: Option<Instant>,
    idle_check: Instant,
    /// Peers may wait to be accepted until somebody goes.
    accept_at: Option<Instant>,
    /// When a request came last that needs no commit.
    asked_at: Option<Instant>,
    may_complain: Instant,
    is_stopping: bool,
}

impl Shard {
    pub(crate) fn new(id: ShardId, shared: Arc<Shared>, poller: Box<dyn Poller>) -> Shard {
        let now = shared.env.clock.now();
        Shard {
            id,
            inbox: shared.inbox_of(id),
            connections: ById::default(),
            sessions: Sessions::new(
                shared.config().fetch_session_slots / shared.shards_count().max(1),
            ),
            coordinators: Coordinators::default(),
            now,
            wall: shared.env.clock.wall_ms(),
            poller,
            ready: Vec::new(),
            active: BTreeSet::new(),
            answers_unsent: 0,
            parked: Pending::new(),
            timers: Timers::default(),
            news: Vec::new(),
            readable: Vec::new(),
            topics: shared.topics(),
            request_bytes: 0,
            account: Account::new(Arc::clone(&shared.unfinished)),
            unsent_memory: 0,
            retry_denied: None,
            paused_until: None,
            idle_check: now.plus(IDLE_CHECK),
            accept_at: None,
            asked_at: None,
            may_complain: now,
            is_stopping: false,
            shared,
        }
    }

    /// The partitions as they are now; cheap, a clone of a shared pointer.
    pub(crate) fn topics(&mut self) -> Arc<Topics> {
        self.shared.refresh_topics(&mut self.topics);
        Arc::clone(&self.topics)
    }

    /// Nothing more of this connection is handled before `unhold`: it must not overtake the request that waits.
    pub(crate) fn hold(&mut self, address: &Address) {
        if let Some(connection) = self.connections.get_mut(&address.conn) {
            connection.is_held = true;
        }
    }

    pub(crate) fn unhold(&mut self, address: &Address) {
        if let Some(connection) = self.connections.get_mut(&address.conn) {
            connection.is_held = false;
            self.active.insert(address.conn);
        }
    }

    /// A request that takes `bytes` of memory until it is answered counts as that many, if it has fewer.
    pub(crate) fn charge(&mut self, address: &Address, bytes: usize) {
        if let Some(connection) = self.connections.get_mut(&address.conn) {
            self.request_bytes += connection.charge(address.slot, bytes);
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    pub(crate) fn next_waiter(&mut self) -> WaiterKey {
        self.parked.next_key()
    }

    /// One part of what waits under `key`.
    pub(crate) fn ticket(&self, key: WaiterKey, part: u32) -> Ticket {
        Ticket {
            inbox: self.inbox,
            key,
            part,
        }
    }

    /// Parks a request under the key that `next_waiter` gave.
    pub(crate) fn wait(&mut self, waiting: Waiting, address: Address) {
        self.parked.insert(Parked::Request((waiting, address)));
    }

    pub(crate) fn waiting(&mut self, key: WaiterKey) -> Option<&mut (Waiting, Address)> {
        match self.parked.get_mut(key)? {
            Parked::Request(request) => Some(request),
            Parked::Marking(_) => None,
        }
    }

    /// Keys of the requests that `wanted` accepts.
    fn waiting_keys(&self, wanted: impl Fn(&Waiting, &Address) -> bool) -> Vec<WaiterKey> {
        self.parked.keys(|parked| match parked {
            Parked::Request((waiting, address)) => wanted(waiting, address),
            Parked::Marking(_) => false,
        })
    }

    pub(crate) fn waiting_count(&self, of: impl Fn(&Waiting) -> bool) -> usize {
        self.waiting_keys(|waiting, _| of(waiting)).len()
    }

    pub(crate) fn take_waiting(&mut self, key: WaiterKey) -> Option<(Waiting, Address)> {
        self.waiting(key)?;
        let Some(Parked::Request(taken)) = self.parked.remove(key) else {
            return None;
        };
        if let Waiting::Fetch(fetch) = &taken.0 {
            self.timers.cancel(fetch.deadline, key);
        }
        Some(taken)
    }

    /// Parks a marking under the key that `next_waiter` gave.
    pub(crate) fn park_marking(&mut self, marking: Marking) {
        self.parked.insert(Parked::Marking(marking));
    }

    pub(crate) fn marking(&mut self, key: WaiterKey) -> Option<&mut Marking> {
        match self.parked.get_mut(key)? {
            Parked::Marking(marking) => Some(marking),
            Parked::Request(_) => None,
        }
    }

    pub(crate) fn drop_marking(&mut self, key: WaiterKey) {
        if self.marking(key).is_some() {
            self.parked.remove(key);
        }
    }

    fn drop_markings(&mut self) {
        let is_marking = |parked: &Parked| matches!(parked, Parked::Marking(_));
        for key in self.parked.keys(is_marking) {
            self.parked.remove(key);
        }
    }

    pub(crate) fn set_timer(&mut self, at: Instant, key: WaiterKey) {
        self.timers.set(at, key);
    }

    pub(crate) fn reply<M: Message>(
        &mut self,
        address: &Address,
        key: ApiKey,
        response: &M,
    ) -> Outcome {
        self.reply_with(address, key, response, Vec::new())
    }

    pub(crate) fn reply_with<M: Message>(
        &mut self,
        address: &Address,
        key: ApiKey,
        response: &M,
        fillers: Vec<Vec<Chunk>>,
    ) -> Outcome {
        match wire::frame::encode_response(key, response, address.version, address.correlation_id) {
            Ok(encoded) => Outcome::Reply(Reply::new(encoded, fillers)),
            Err(error) => {
                env::tell!(
                    "{key:?} version {}: answer cannot be encoded: {error}",
                    address.version
                );
                Outcome::Close
            }
        }
    }

    /// Puts an outcome in its place in the order of answers.
    pub(crate) fn settle(&mut self, address: &Address, outcome: Outcome) {
        let Some(connection) = self.connections.get_mut(&address.conn) else {
            return;
        };
        match outcome {
            Outcome::Waits => return,
            Outcome::Reply(reply) => {
                self.unsent_memory += reply.memory;
                connection.answer(address.slot, Some(reply));
            }
            Outcome::Silent => connection.answer(address.slot, None),
            Outcome::Close => connection.drop_from(address.slot),
        }
        self.answers_unsent += 1;
        self.active.insert(address.conn);
    }

    /// What an answer may keep in memory until it is sent. Record batches stay there for it although the hot tail has let them
    /// go: readers that do not take their answers get small ones once all of them together keep too much.
    pub(crate) fn answer_memory_max(&self) -> usize {
        if self.unsent_memory < self.shared.unsent_memory_max() {
            usize::MAX
        } else {
            ANSWER_MEMORY_SHORT
        }
    }

    fn take_in(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        for readiness in ready.drain(..) {
            match readiness {
                Readiness::Accept => self.accept(),
                Readiness::Conn {
                    conn,
                    readable,
                    writable,
                } => {
                    if let Some(connection) = self.connections.get_mut(&conn) {
                        if readable {
                            connection.on_readable(self.now);
                        }
                        if writable {
                            connection.on_writable();
                        }
                        self.active.insert(conn);
                    }
                }
            }
        }
        self.ready = ready;
    }

    /// Reads and handles what the active connections have; returns whether anything was done.
    fn serve_active(&mut self) -> bool {
        let mut any = false;
        let active: Vec<ConnId> = std::mem::take(&mut self.active).into_iter().collect();
        for (number, conn) in active.into_iter().enumerate() {
            any |= self.serve(conn);
            if number % SERVED_BEFORE_ROUND == SERVED_BEFORE_ROUND - 1 {
                self.commit_early();
            }
        }
        any
    }

    fn serve(&mut self, conn: ConnId) -> bool {
        let mut any = false;
        for _ in 0..RECEIVES_MAX {
            any |= self.handle_frames(conn);
            let budget_is_spent = self.request_bytes >= self.shared.request_bytes_max();
            let Some(connection) = self.connections.get_mut(&conn) else {
                return any;
            };
            if !connection.is_readable || !connection.has_room() || budget_is_spent {
                break;
            }
            if !connection.make_room(&mut self.account) {
                self.retry_denied.get_or_insert(self.now.plus(DENIED_RETRY));
                break;
            }
            match connection.receive(&mut *self.poller, self.now) {
                Ok(0) => {
                    self.close(conn);
                    return true;
                }
                Ok(_) => {
                    connection.last_active = self.now;
                    any = true;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    connection.on_drained(self.now);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.close(conn);
                    return true;
                }
            }
        }
        any |= self.handle_frames(conn);
        self.send(conn);
        any
    }

    fn handle_frames(&mut self, conn: ConnId) -> bool {
        let mut any = false;
        loop {
            let Some(connection) = self.connections.get_mut(&conn) else {
                return any;
            };
            if !connection.has_room() {
                return any;
            }
            match connection.next_frame(self.shared.frame_bytes_max(), &mut self.account) {
                Frame::Partial => return any,
                Frame::Refused { length } => {
                    env::tell!(
                        "connection from {} closed: it announced a request of {length} bytes",
                        connection.peer
                    );
                    self.close(conn);
                    return true;
                }
                Frame::Request(frame) => {
                    let bytes = frame.len();
                    let slot = connection.open_slot(bytes);
                    self.request_bytes += bytes;
                    any = true;
                    self.on_request(conn, slot, frame);
                }
            }
        }
    }

    fn send(&mut self, conn: ConnId) {
        let Some(connection) = self.connections.get_mut(&conn) else {
            return;
        };
        self.request_bytes -= connection.collect(self.now);
        let unsent = connection.unsent_memory();
        let flushed = connection.flush(&mut *self.poller, self.now);
        self.unsent_memory -= unsent - connection.unsent_memory();
        if flushed.is_err() || (connection.is_closing && connection.is_idle()) {
            self.close(conn);
        } else if connection.is_readable && connection.has_room() {
            self.active.insert(conn);
        }
    }

    fn close(&mut self, conn: ConnId) {
        if let Some(mut connection) = self.connections.remove(&conn) {
            self.request_bytes -= connection.unanswered_bytes();
            self.unsent_memory -= connection.unsent_memory();
            connection.release(&mut self.account);
            self.shared.forget_connection(connection.peer.ip());
            self.accept_at = self.accept_at.map(|_| self.now);
            self.poller.close(conn);
            self.active.remove(&conn);
        }
    }

    /// Commits what is queued, here or on a commit thread; returns until when a commit waits for company.
    fn commit(&mut self) -> Option<Instant> {
        self.write_decisions();
        let mut wait = None;
        let is_asked = |at: Instant| self.now < at.plus(ASKED_RECENTLY);
        let commits_inline = self.shared.commits_inline() && !self.asked_at.is_some_and(is_asked);
        for at in 0..self.shared.dirs().len() {
            let dir = Arc::clone(&self.shared.dirs()[at]);
            if !dir.has_queued() {
                continue;
            }
            let by_thread = !commits_inline || dir.commit_average() > INLINE_COMMIT_MAX;
            // While stopping the commit threads may have ended already, and nobody would commit what comes after it.
            if by_thread && !self.is_stopping {
                self.shared.ring_committer(at);
                continue;
            }
            match dir.commit_wait(self.shared.env.clock.now()) {
                Wait::Until(until) => {
                    wait = Some(wait.map_or(until, |wait: Instant| wait.min(until)));
                }
                Wait::Busy => {} // whoever is at it looks again
                Wait::No => {
                    while dir.commit(&mut self.news) == Commit::Done && dir.has_queued() {}
                    if dir.is_failed() {
                        self.shared.check_health();
                    }
                }
            }
        }
        wait
    }

    /// On a slow disk a round begins while more requests come in: it need not wait for those, nor they for it.
    fn commit_early(&mut self) {
        if self.coordinators.has_unwritten() && self.shared.dirs().iter().any(|dir| dir.is_slow()) {
            self.write_decisions();
        }
        for (at, dir) in self.shared.dirs().iter().enumerate() {
            if !self.is_stopping && dir.is_slow() && dir.has_queued() {
                self.shared.ring_committer(at);
            }
        }
    }

    /// Somebody waits for an answer that depends on no commit.
    pub(crate) fn on_asked(&mut self) {
        self.asked_at = Some(self.now);
    }

    fn spread_news(&mut self) {
        while !self.news.is_empty() {
            for item in std::mem::take(&mut self.news) {
                if item.inbox() == self.inbox {
                    self.on_news(item);
                    self.send_early();
                } else {
                    self.shared.put(item.inbox(), Redeemed::News(item));
                }
            }
            self.spread_readable();
        }
    }

    fn spread_readable(&mut self) {
        let mut told = std::mem::take(&mut self.readable);
        told.sort_unstable_by_key(|ticket| (ticket.key, ticket.part));
        for tickets in told.chunk_by(|one, next| one.key == next.key) {
            self.retry_fetch(tickets[0].key, tickets);
            self.send_early();
        }
        told.clear();
        self.readable = told;
    }

    fn on_news(&mut self, news: News) {
        match news {
            News::Committed(ticket) => self.on_ticket(ticket, ErrorCode::None),
            News::Failed(ticket) => self.on_ticket(ticket, ErrorCode::KafkaStorageError),
            News::Readable(ticket) => match self.waiting(ticket.key) {
                Some((Waiting::Search(_), _)) => self.on_found(ticket),
                Some((Waiting::Fetch(_), _)) => self.readable.push(ticket),
                _ => {}
            },
        }
    }

    fn on_ticket(&mut self, ticket: Ticket, code: ErrorCode) {
        let waiting = match self.parked.get_mut(ticket.key) {
            Some(Parked::Request((waiting, _))) => waiting,
            Some(Parked::Marking(_)) => return self.on_marking_news(ticket, code),
            None => return,
        };
        match waiting {
            Waiting::Produce(_) => self.on_produce_news(ticket, code),
            Waiting::Trim(_) => self.on_trim_news(ticket, code),
            Waiting::Change(_) => self.on_change_news(ticket, code),
            Waiting::Asking(_) => self.on_asking_news(ticket, code),
            Waiting::Fetch(_) | Waiting::Search(_) => {}
        }
    }

    fn take_posts(&mut self) {
        for post in self.shared.take_posts(self.id) {
            match post {
                Post::Socket(socket) => self.adopt(socket),
                Post::Redeemed(Redeemed::News(news)) => {
                    self.on_news(news);
                    self.send_early();
                }
                Post::Redeemed(Redeemed::Answered(answered)) => self.on_answer(*answered),
                Post::Asked(asked) => self.on_question(*asked),
            }
        }
        self.spread_readable();
    }

    /// Many connections wait for one commit: the first of them think of their next request while we answer the others.
    fn send_early(&mut self) {
        if self.answers_unsent >= SENDS_EARLY_MIN {
            self.send_all();
        }
    }

    fn send_all(&mut self) {
        self.answers_unsent = 0;
        for conn in std::mem::take(&mut self.active) {
            self.send(conn);
        }
    }

    fn fire_timers(&mut self) {
        while let Some(key) = self.timers.due(self.now) {
            match self.marking(key) {
                Some(_) => self.write_markers(key),
                None => self.retry_fetch(key, &[]),
            }
        }
        if self.now >= self.idle_check {
            let is_short = self.account.is_short();
            if is_short {
                self.economise();
            }
            let pause = if is_short { SHORT_CHECK } else { IDLE_CHECK };
            self.idle_check = self.now.plus(pause);
            self.close_idle();
            self.expire_waiting();
        }
    }

    /// Lets those try again that waited for memory.
    fn retry_denied(&mut self) {
        if self.retry_denied.is_none_or(|at| self.now < at) {
            return;
        }
        self.retry_denied = None;
        // Soon enough to find out who keeps memory for nothing.
        self.idle_check = self.idle_check.min(self.now.plus(SHORT_CHECK));
        for conn in self.account.retry() {
            if let Some(connection) = self.connections.get_mut(&conn) {
                connection.is_denied = false;
                self.active.insert(conn);
            }
        }
    }

    fn is_overloaded(&self) -> bool {
        self.shared.dirs().iter().any(|dir| dir.is_overloaded())
    }

    fn refresh_time(&mut self) {
        self.now = self.shared.env.clock.now();
        self.wall = self.shared.env.clock.wall_ms();
    }

    fn tell_held(&self) {
        let held = Held {
            connections: self.connections.len(),
            request_bytes: self.request_bytes,
            unfinished_bytes: self.account.used(),
            answer_bytes: self.unsent_memory,
            waiting: self.parked.len(),
            deadlines: self.timers.len(),
            fetch_sessions: self.sessions.count(),
        };
        self.shared.tell_held(self.id, held);
    }

    fn poll(&mut self, timeout: Option<Duration>) {
        if let Err(error) = self.poller.wait(timeout, &mut self.ready) {
            env::tell!("shard {} cannot poll: {error}", self.id.0);
        }
    }
}

impl Worker for Shard {
    fn turn(&mut self) -> Turn {
        self.refresh_time();
        self.paused_until = self.is_overloaded().then(|| self.now.plus(OVERLOAD_PAUSE));
        self.retry_denied();
        self.retry_accept();
        for _ in 0..DRAINS_MAX {
            // What `park` brought comes first: no need to ask again.
            if self.ready.is_empty() {
                self.poll(Some(Duration::ZERO));
            }
            self.take_in();
            if self.paused_until.is_some() || !self.serve_active() {
                break;
            }
            self.commit_early();
        }
        // After the last poll: a poll swallows the wake-up of whatever was posted before it.
        self.take_posts();
        self.turn_coordinators();
        if !self.is_stopping && self.shared.is_stopping() {
            self.is_stopping = true;
            self.drop_readers();
        }
        let mut commit_wait = self.commit();
        self.refresh_time();
        self.spread_news();
        self.fire_timers();
        if self.is_stopping {
            self.expire_waiting();
        }
        self.spread_news();
        // A commit lets more be written (markers of a transaction, a request that waited for its topic): not one poll later.
        if self.coordinators.has_unwritten()
            || self.shared.dirs().iter().any(|dir| dir.has_queued())
        {
            commit_wait = self.commit();
            self.spread_news();
        }
        self.send_all();

        if self.is_stopping && self.parked.len() == 0 {
            let open: BTreeSet<ConnId> = self.connections.keys().copied().collect();
            open.into_iter().for_each(|conn| self.close(conn));
            self.tell_held();
            self.shared.on_loop_ended();
            return Turn::Done;
        }
        self.tell_held();
        let is_budget_left = self.request_bytes < self.shared.request_bytes_max();
        if self.coordinators.is_loading() {
            return Turn::Again;
        }
        if !self.active.is_empty() && self.paused_until.is_none() && is_budget_left {
            return Turn::Again;
        }
        let until = [
            commit_wait,
            self.timers.next(),
            self.paused_until,
            self.retry_denied,
            self.accept_at,
            self.coordinators.next_deadline(),
            Some(self.idle_check),
        ]
        .into_iter()
        .flatten()
        .min();
        Turn::Sleep { until }
    }

    fn park(&mut self, until: Option<Instant>) {
        let timeout = until.map(|until| until.since(self.shared.env.clock.now()));
        self.poll(timeout);
    }
}
