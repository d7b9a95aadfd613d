//! One network shard: a single-threaded loop that owns its connections and takes requests from bytes to answers.
//!
//! A turn drains the sockets, commits once for everything that arrived, and sends the answers in batches; no request costs a
//! channel hop or a wake-up of its own. Invariant: when a turn ends with `Sleep`, every edge that was reported has been used
//! up or is remembered in its connection.

use std::sync::Arc;
use std::time::Duration;

use env::{ConnId, Poller, Readiness, Turn, Worker};
use model::{Instant, Ticket};
use partition::{Commit, News, Wait};

use crate::budget::Account;
use crate::coordinate::{Coordinating, Coordinators};
use crate::kafka::{self, Door, Hall};
use crate::mail::inboxes::Post;
use crate::mail::inboxes::{Redeemed, ShardId};
use crate::mail::question::{Answered, Reach};
use crate::meters::held::Held;
use crate::meters::lag::ROWS_MAX;
use crate::net::connections::{Connections, Sent};
use crate::net::guests::Guests;
use crate::net::inbox::Frame;
use crate::net::pending::Pending;
use crate::net::share::{Kind, Room};
use crate::ops::Desk;
use crate::peers::Answer;
use crate::shared::Shared;

/// Receive calls per connection and turn: a fast sender does not starve the others.
const RECEIVES_MAX: usize = 8;
/// Polls in one turn before a commit: drain until idle, but not for ever.
const DRAINS_MAX: usize = 16;
/// A broker of a cluster that stops lets requests wait so long for other replicas and for the voters: then their clients ask elsewhere.
const STOP_WAIT_MAX: Duration = Duration::from_secs(3);
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
/// While a log directory is overloaded records are left in their sockets for this long.
const OVERLOAD_PAUSE: Duration = Duration::from_millis(5);
/// How often idle connections are looked for.
pub(super) const IDLE_CHECK: Duration = Duration::from_secs(5);
/// Connections that wait for memory try again so often; others are asked for theirs so often meanwhile.
const DENIED_RETRY: Duration = Duration::from_millis(10);
const SHORT_CHECK: Duration = Duration::from_millis(500);
/// The shard that accepts connections, for all.
const LISTENING: ShardId = ShardId(0);

pub(crate) struct Shard {
    pub(super) id: ShardId,
    pub(crate) desk: Desk,
    pub(crate) coordinators: Coordinators,
    pub(crate) door: Door,
    pub(crate) connections: Connections,
    pub(super) poller: Box<dyn Poller>,
    ready: Vec<Readiness>,
    /// Memory for requests that are not whole.
    pub(super) account: Account,
    retry_denied: Option<Instant>,
    paused_until: Option<Instant>,
    idle_check: Instant,
    /// Peers may wait to be accepted until another one goes.
    pub(super) accept_at: Option<Instant>,
    pub(super) guests: Guests,
}

impl Shard {
    pub(crate) fn new(id: ShardId, shared: Arc<Shared>, poller: Box<dyn Poller>) -> Shard {
        let slots =
            shared.catalog.config().fetch_session_slots / shared.mail.inboxes.shards_count().max(1);
        let unsent_memory_max = shared.doors.unsent_memory_max();
        let account = Account::new(Arc::clone(&shared.doors.unfinished));
        let coordinators = Coordinators::new(id, &shared.mail.inboxes);
        let (inbox, meter) = (shared.mail.inboxes.of_doors(id), shared.meters.of(id));
        let desk = Desk::new(inbox, Reach::ThisBroker, Arc::clone(meter), shared);
        let (now, is_open) = (desk.now, desk.shared.state.is_serving());
        Shard {
            id,
            desk,
            coordinators,
            door: Door::new(Pending::new(), slots, is_open),
            connections: Connections::new(unsent_memory_max),
            poller,
            ready: Vec::new(),
            account,
            retry_denied: None,
            paused_until: None,
            idle_check: now.plus(IDLE_CHECK),
            accept_at: None,
            guests: Guests::default(),
        }
    }

    pub(crate) fn hall(&mut self) -> Hall<'_> {
        Hall {
            desk: &mut self.desk,
            door: &mut self.door,
            connections: &mut self.connections,
        }
    }

    pub(crate) fn coordinating(&mut self) -> Coordinating<'_> {
        Coordinating {
            desk: &mut self.desk,
            coordinators: &mut self.coordinators,
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
                    if let Some(connection) = self.connections.get_mut(conn) {
                        if readable {
                            connection.on_readable(self.desk.now);
                        }
                        if writable {
                            connection.on_writable();
                        }
                        self.connections.active.insert(conn);
                    }
                }
            }
        }
        self.ready = ready;
    }

    /// Reads and handles what the active connections have; returns whether anything was done.
    fn serve_active(&mut self) -> bool {
        let mut any = false;
        let active = self.connections.take_active();
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
            let is_short = self.connections.is_memory_short();
            let Some(connection) = self.connections.get_mut(conn) else {
                return any;
            };
            if !connection.is_readable || !connection.has_room_while(is_short) {
                break;
            }
            if !connection.make_room(&mut self.account) {
                self.retry_denied
                    .get_or_insert(self.desk.now.plus(DENIED_RETRY));
                break;
            }
            match connection.receive(&mut *self.poller, self.desk.now) {
                Ok(0) => {
                    self.close(conn);
                    return true;
                }
                Ok(_) => {
                    connection.last_active = self.desk.now;
                    any = true;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    connection.on_drained(self.desk.now);
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

    pub(super) fn handle_frames(&mut self, conn: ConnId) -> bool {
        let mut any = false;
        loop {
            if !self.guests.is_empty() && !self.lets_in(conn) {
                return any;
            }
            let room = self.room(conn);
            let is_short = self.connections.is_memory_short();
            let Some(connection) = self.connections.get_mut(conn) else {
                return any;
            };
            if !connection.has_room_while(is_short) {
                return any;
            }
            if !connection.fits(room, &mut self.account) {
                self.connections.crowd(conn);
                return any;
            }
            let mut most = self.desk.shared.catalog.settings().frame_bytes_max;
            if connection.is_stranger() {
                most = most.min(connection.entrance.frame_bytes_max);
            }
            match connection.next_frame(most, &mut self.account) {
                Frame::Partial => {
                    if connection.turn.is_some() {
                        self.connections.begin(conn);
                    }
                    return any;
                }
                Frame::Refused { length } => {
                    let peer = connection.peer;
                    self.complain_of_size(peer, length);
                    self.close(conn);
                    return true;
                }
                Frame::Request(frame) => {
                    let kind = Kind::of_frame(&frame);
                    if self.account.is_any_denied() {
                        // Its memory is theirs.
                        self.retry_denied = Some(self.desk.now);
                    }
                    let before = connection.unanswered_bytes();
                    let slot = connection.open_slot(kind, frame.len());
                    let after = connection.unanswered_bytes();
                    self.connections.taken.change(before, after);
                    self.connections.end_turn(conn);
                    any = true;
                    kafka::on_request(&mut self.hall(), conn, slot, frame);
                    self.spread_answers();
                }
            }
        }
    }

    fn send(&mut self, conn: ConnId) {
        let sent = self
            .connections
            .send(conn, &mut *self.poller, self.desk.now);
        if sent == Sent::Over {
            self.close(conn);
        }
    }

    pub(super) fn close(&mut self, conn: ConnId) {
        if let Some(mut connection) = self.connections.remove(conn) {
            connection.release(&mut self.account);
            if !self.guests.remove(conn) {
                self.desk.shared.doors.forget(connection.peer.ip());
            }
            self.desk.meter().on_closed();
            if let Some(software) = &connection.asker().software {
                self.desk.shared.meters.software.lock().remove(software);
            }
            self.accept_at = self.accept_at.map(|_| self.desk.now);
            self.poller.close(conn);
            if let Some((broker, epoch)) = self.door.on_closed(conn) {
                self.desk.shared.metadata.on_lost(broker, epoch);
            }
        }
    }

    /// Commits what is queued, here or on a commit thread; returns until when a commit waits for company.
    fn commit(&mut self) -> Option<Instant> {
        self.coordinating().write_decisions();
        if !self.desk.shared.state.is_alone() {
            self.feed_followers();
        }
        let mut wait = None;
        let is_asked = |at: Instant| self.desk.now < at.plus(ASKED_RECENTLY);
        let commits_inline =
            self.desk.shared.mail.commits_inline() && !self.door.asked_at.is_some_and(is_asked);
        for at in 0..self.desk.shared.volumes.dirs().len() {
            let dir = Arc::clone(&self.desk.shared.volumes.dirs()[at]);
            if !dir.has_queued() {
                continue;
            }
            let by_thread = !commits_inline || dir.commit_average() > INLINE_COMMIT_MAX;
            // While stopping the commit threads may have ended already, and nobody would commit what comes after it.
            if by_thread && !self.desk.is_stopping {
                self.desk.shared.volumes.ring_committer(at);
                continue;
            }
            match dir.commit_wait(self.desk.shared.env.clock.now()) {
                Wait::Until(until) if !self.desk.is_stopping => {
                    wait = Some(wait.map_or(until, |wait: Instant| wait.min(until)));
                }
                Wait::Busy => {} // whoever is at it looks again
                Wait::No | Wait::Until(_) => {
                    while dir.commit(&mut self.desk.news) == Commit::Done && dir.has_queued() {}
                    if dir.is_failed() {
                        self.desk.shared.volumes.check_health();
                    }
                }
            }
        }
        wait
    }

    /// On a slow disk a round begins while more requests come in: it need not wait for those, nor they for it.
    fn commit_early(&mut self) {
        if self.coordinators.has_unwritten()
            && self
                .desk
                .shared
                .volumes
                .dirs()
                .iter()
                .any(|dir| dir.is_slow())
        {
            self.coordinating().write_decisions();
        }
        for (at, dir) in self.desk.shared.volumes.dirs().iter().enumerate() {
            if !self.desk.is_stopping && dir.is_slow() && dir.has_queued() {
                self.desk.shared.volumes.ring_committer(at);
            }
        }
    }

    /// Hands on what operations and commits left for inboxes, until nothing is left.
    pub(super) fn spread(&mut self) {
        loop {
            self.spread_answers();
            if self.desk.news.is_empty() {
                return;
            }
            for item in std::mem::take(&mut self.desk.news) {
                if self.coordinating().owns(item.inbox()) {
                    self.on_news(item);
                } else {
                    self.desk
                        .shared
                        .mail
                        .put(item.inbox(), Redeemed::News(item));
                }
            }
            self.spread_readable();
        }
    }

    /// Brings questions to their coordinators, and the answers of those to the requests that wait for them.
    pub(super) fn spread_answers(&mut self) {
        self.send_questions();
        while !self.desk.answered.is_empty() {
            for answered in std::mem::take(&mut self.desk.answered) {
                self.on_answer(answered);
            }
            self.send_questions();
        }
    }

    pub(crate) fn send_questions(&mut self) {
        while let Some(asked) = self.desk.asked.pop_front() {
            self.coordinating().send(asked);
        }
    }

    fn on_answer(&mut self, answered: Answered) {
        if self.coordinators.waits_for(answered.ticket) {
            self.coordinating().on_marking_answer(answered);
        } else {
            self.hall().on_answer(answered);
            self.send_early();
        }
    }

    fn on_news(&mut self, news: News) {
        if self.coordinators.waits_for(news.ticket()) {
            self.coordinating().on_marking_news(news);
        } else {
            self.hall().on_news(news);
            self.send_early();
        }
    }

    /// Another node answered a request of a coordinator or of a door, or did not.
    fn on_replied(&mut self, ticket: Ticket, answer: Option<Answer>) {
        if self.coordinators.waits_for(ticket) {
            self.coordinating().on_replied(ticket.key, answer);
        } else {
            self.hall().on_replied(ticket, answer);
        }
    }

    /// Each fetch that waits looks once at all that came together.
    fn spread_readable(&mut self) {
        let told = self.door.take_readable();
        for tickets in told.chunk_by(|one, next| one.key == next.key) {
            self.hall().on_readable(tickets);
            self.send_early();
        }
        let grown = self.door.take_grown();
        for tickets in grown.chunk_by(|one, next| one.key == next.key) {
            kafka::on_grown(&mut self.hall(), tickets);
        }
    }

    /// Followers get what was appended before it is synced here, so that the syncs of all replicas overlap.
    fn feed_followers(&mut self) {
        for dir in self.desk.shared.volumes.dirs() {
            dir.take_woken(&mut self.desk.news);
        }
        if !self.desk.news.is_empty() {
            self.spread();
            self.send_all();
        }
    }

    fn take_posts(&mut self) {
        for post in self.desk.shared.mail.inboxes.take_posts(self.id) {
            match post {
                Post::Socket(socket) => self.adopt(socket),
                Post::Redeemed(Redeemed::News(news)) => self.on_news(news),
                Post::Redeemed(Redeemed::Answered(answered)) => self.on_answer(*answered),
                Post::Redeemed(Redeemed::Piece(ticket, piece)) => {
                    self.hall().on_piece(ticket, *piece);
                    self.send_early();
                }
                Post::Redeemed(Redeemed::Quorum(ticket, response)) => {
                    self.hall().on_quorum(ticket, &response);
                }
                Post::Redeemed(Redeemed::Replied(ticket, answer)) => {
                    self.on_replied(ticket, answer);
                }
                Post::Redeemed(Redeemed::Verdict(ticket, verdict)) => {
                    self.hall().on_verdict(ticket.key, &verdict);
                }
                Post::Asked(asked) => self.coordinating().send(*asked),
            }
        }
        self.spread_answers();
        self.spread_readable();
    }

    /// Many connections wait for one commit: the first of them think of their next request while we answer the others.
    fn send_early(&mut self) {
        if self.connections.answers_unsent >= SENDS_EARLY_MIN {
            self.send_all();
        }
    }

    fn send_all(&mut self) {
        self.connections.answers_unsent = 0;
        for conn in std::mem::take(&mut self.connections.active) {
            self.send(conn);
        }
    }

    fn fire_timers(&mut self) {
        self.hall().fire_timers();
        self.coordinating().retry_markings();
        if self.desk.now >= self.idle_check {
            let is_short = self.account.is_short();
            if is_short {
                self.economise();
            }
            let pause = if is_short { SHORT_CHECK } else { IDLE_CHECK };
            self.idle_check = self.desk.now.plus(pause);
            self.close_idle();
            // The bound itself may have been raised.
            self.connections.look_again();
            self.publish_committed();
            self.hall().expire();
        }
    }

    /// Reports the offsets that groups have committed, from which their lag is computed.
    fn publish_committed(&self) {
        if self.desk.shared.meters.is_watched() {
            let rows = self.coordinators.committed(ROWS_MAX);
            self.desk.shared.meters.publish_committed(self.id, rows);
        }
    }

    /// Lets those try again that waited for memory.
    fn retry_denied(&mut self) {
        if self.retry_denied.is_none_or(|at| self.desk.now < at) {
            return;
        }
        self.retry_denied = None;
        // Soon enough to find out who keeps memory for nothing.
        self.idle_check = self.idle_check.min(self.desk.now.plus(SHORT_CHECK));
        for conn in self.account.retry() {
            self.connections.retry_denied(conn);
        }
    }

    fn room(&self, conn: ConnId) -> Room {
        Room {
            taken: self.connections.taken.counted,
            bytes_max: self.desk.shared.doors.request_bytes_max(),
            has_room_for_records: self.paused_until.is_none(),
            is_begun: self.connections.has_begun(conn),
        }
    }

    /// Lets requests go on that waited for others, or for a log directory.
    fn retry_crowded(&mut self, was_paused: bool) {
        let is_over = was_paused && self.paused_until.is_none();
        if self.connections.has_freed() || is_over {
            self.connections.retry_crowded();
        }
    }

    fn is_overloaded(&self) -> bool {
        self.desk
            .shared
            .volumes
            .dirs()
            .iter()
            .any(|dir| dir.is_overloaded())
    }

    fn tell_held(&self) {
        let held = Held {
            connections: self.connections.len(),
            request_bytes: self.connections.request_bytes(),
            unfinished_bytes: self.account.used(),
            answer_bytes: self.connections.unsent_memory,
            waiting: self.door.parked.len() + self.coordinators.markings_count(),
            deadlines: self.door.timers.len() + self.coordinators.retries_count(),
            fetch_sessions: self.door.sessions.count(),
        };
        self.desk.shared.meters.set_held(self.id, held);
        self.desk.meter().on_turn(self.desk.now);
    }

    fn poll(&mut self, timeout: Option<Duration>) {
        if let Err(error) = self.poller.wait(timeout, &mut self.ready) {
            tracing::error!(target: env::logs::CONNECTIONS, "shard {} cannot poll: {error}", self.id.0);
        }
    }
}

impl Worker for Shard {
    fn turn(&mut self) -> Turn {
        self.desk.refresh_time();
        self.connections.unsent_memory_max = self.desk.shared.doors.unsent_memory_max();
        let was_paused = self.paused_until.is_some();
        self.paused_until = self
            .is_overloaded()
            .then(|| self.desk.now.plus(OVERLOAD_PAUSE));
        if self.paused_until.is_some() {
            self.desk.meter().on_pause();
        }
        let word_until = self.desk.shared.state.awaits_word_until();
        self.paused_until = self.paused_until.or(word_until);
        self.retry_crowded(was_paused);
        self.retry_denied();
        self.retry_accept();
        for _ in 0..DRAINS_MAX {
            // Events that `park` brought come first: no need to ask again.
            if self.ready.is_empty() {
                self.poll(Some(Duration::ZERO));
            }
            self.take_in();
            if !self.serve_active() {
                break;
            }
            self.commit_early();
        }
        self.hall().open();
        let shared = &self.desk.shared;
        if shared.state.takes_release() {
            let mut news = Vec::new();
            shared.catalog.release_waiting(&mut news);
            shared.mail.spread(news);
        }
        // After the last poll: a poll swallows the wake-up of whatever was posted before it.
        self.take_posts();
        self.coordinating().turn();
        if !self.desk.is_stopping && self.desk.shared.lifetime.is_stopping() {
            self.desk.is_stopping = true;
            // Alone nothing waits but for the disk.
            let others = !self.desk.shared.state.is_alone();
            self.desk.stops_by = others.then(|| self.desk.now.plus(STOP_WAIT_MAX));
            self.hall().drop_readers();
            self.coordinators.drop_markings();
        }
        let mut commit_wait = self.commit();
        self.desk.refresh_time();
        self.spread();
        self.fire_timers();
        if self.desk.is_stopping {
            self.hall().expire();
        }
        self.spread();
        // A commit lets more be written (markers of a transaction, a request that waited for its topic): not one poll later.
        if self.coordinators.has_unwritten()
            || self
                .desk
                .shared
                .volumes
                .dirs()
                .iter()
                .any(|dir| dir.has_queued())
        {
            commit_wait = self.commit();
            self.spread();
        }
        self.coordinating().send_errands();
        self.spread();
        self.send_all();

        if self.desk.is_stopping
            && self.door.parked.len() == 0
            && self.coordinators.markings_count() == 0
        {
            let open = self.connections.ids();
            open.into_iter().for_each(|conn| self.close(conn));
            self.tell_held();
            // The one that listens is the last: where nobody does, other nodes take the process for dead, and no answer of it may
            // follow.
            if self.id == LISTENING && !self.desk.shared.lifetime.is_last_shard() {
                return Turn::Sleep { until: None };
            }
            self.desk.shared.lifetime.on_shard_ended();
            return Turn::Done;
        }
        self.tell_held();
        if self.coordinators.is_loading() {
            return Turn::Again;
        }
        if !self.connections.active.is_empty() || self.connections.has_freed() {
            return Turn::Again;
        }
        let until = [
            commit_wait,
            self.door.timers.next(),
            self.coordinators.next_retry(),
            self.paused_until
                .filter(|_| self.connections.is_any_crowded()),
            self.retry_denied,
            self.accept_at,
            self.desk.stops_by.filter(|by| self.desk.now < *by),
            self.coordinators.next_deadline(),
            self.desk.shared.state.next_release(),
            Some(self.idle_check),
        ]
        .into_iter()
        .flatten()
        .min();
        Turn::Sleep { until }
    }

    fn park(&mut self, until: Option<Instant>) {
        let timeout = until.map(|until| until.since(self.desk.shared.env.clock.now()));
        self.poll(timeout);
    }
}
