//! The worker that follows leaders: a connection and a fetch session for each broker that leads partitions of this one, and another one
//! for those of them that have far to go.
//!
//! Batches of a leader are appended in the order of its answers, as it is, and synced by the rounds of its directory, together with what
//! this broker leads there. An answer is taken, the round is committed where that is quick, and the next request reports how much
//! is synced. Also the keeper of time of the leaders here: followers that lag are found by it.

mod asking;
mod cuts;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::{Poller, Readiness, Turn, Worker};
use model::{BrokerId, InboxId, Instant, LeaderEpoch, Offset, Ticket, WaiterKey};
use partition::{
    Asked, Commit, FollowError, FollowPoint, Laggards, Moment, News, Partition, ReceiveBuffer,
    Restart, Stamp, Synced, Wait,
};
use replica::{Brought, Engine, Key, Point, Step, Way};
use wire::Uuid;
use wire::messages::FetchResponse;

use self::cuts::LateCuts;
use super::dirs::DirWishes;
use super::isr::{self, IsrWishes};
use super::repair::Repairer;
use super::unheard::{Fallen, Followers, Leaders};
use crate::mail::calls::{Call, Recipient};
use crate::mail::followers::Mailbox;
use crate::mail::inboxes::Redeemed;
use crate::peers::{Answer, Encodable, Lane, Links, Reply};
use crate::shared::Shared;

/// Commits faster than this run on the worker itself.
const INLINE_COMMIT_MAX: Duration = Duration::from_micros(400);
/// A follower sends a fetch every 5 s at least: one is answered by then, whatever its follower asks for. One that sends none for so long, or
/// for `broker.session.timeout.ms` if that is longer, is silent.
const SILENT_AFTER_MIN: Duration = Duration::from_secs(10);
/// A log that is being cut takes batches again soon.
const CUT_REST: Duration = Duration::from_millis(20);
/// A request to the controller is given up after so long, and goes again.
const CONTROLLER_WAIT_MAX: Duration = Duration::from_secs(2);
/// A leader whose wish was refused looks again after this pause.
const REFUSED_REST: Duration = Duration::from_millis(200);
/// The key of tickets for answers of the controller; those of partitions have the number of a place as theirs.
const ISR_KEY: WaiterKey = WaiterKey(u64::MAX);
const DIR_KEY: WaiterKey = WaiterKey(u64::MAX - 1);
/// The key of news of damage.
const DAMAGE_KEY: WaiterKey = WaiterKey(u64::MAX - 2);

/// A partition that this broker follows.
struct Followed {
    partition: Arc<Partition>,
    leader: BrokerId,
    epoch: LeaderEpoch,
    /// Of its tickets.
    number: usize,
    /// Where the log ended when it was asked for anew, because of a gap in front of an answer.
    asked_anew: Option<Offset>,
    /// The sync that was reported last.
    seen: Synced,
    is_watched: bool,
}

pub(crate) struct ReplicaWorker {
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox>,
    inbox: InboxId,
    poller: Box<dyn Poller>,
    ready: Vec<Readiness>,
    links: Links<(BrokerId, Way)>,
    engines: BTreeMap<BrokerId, Engine>,
    leaders: Leaders,
    followers: Followers,
    /// Bytes that came to partitions that keep up.
    tail_bytes: u64,
    followed: BTreeMap<Key, Followed>,
    late_cuts: LateCuts,
    /// Partitions by the number that their tickets have. A late ticket may find another one, which is looked at for nothing.
    numbered: Vec<Option<Key>>,
    free_numbers: Vec<usize>,
    wishes: IsrWishes,
    dir_wishes: DirWishes,
    repairer: Repairer,
    /// When the leaders here are looked at for followers that lag.
    look_at: Instant,
    /// No records are asked for until then, because a log directory has as much to write as it may.
    full_until: Option<Instant>,
    /// A round waits for company.
    commit_at: Option<Instant>,
    news: Vec<News>,
}

impl ReplicaWorker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        inbox: InboxId,
        poller: Box<dyn Poller>,
    ) -> ReplicaWorker {
        let mailbox = Arc::clone(&shared.mail.followers);
        let look_at = shared.env.clock.now();
        let links = Links::new(
            shared.ceilings.clone(),
            shared.identity.clone(),
            Arc::clone(&shared.names),
        );
        // Those that the start has opened.
        mailbox.on_topics(shared.catalog.topics().sorted().map(|topic| topic.id));
        let (key, part) = (DAMAGE_KEY, 0);
        let repairer = Repairer::begin(&shared, Ticket { inbox, key, part });
        ReplicaWorker {
            shared,
            mailbox,
            inbox,
            poller,
            ready: Vec::new(),
            links,
            engines: BTreeMap::new(),
            leaders: Leaders::default(),
            followers: Followers::default(),
            tail_bytes: 0,
            followed: BTreeMap::new(),
            late_cuts: LateCuts::default(),
            numbered: Vec::new(),
            free_numbers: Vec::new(),
            wishes: IsrWishes::default(),
            dir_wishes: DirWishes::default(),
            repairer,
            look_at,
            full_until: None,
            commit_at: None,
            news: Vec::new(),
        }
    }

    fn lag_max(&self) -> Duration {
        let ms = self
            .shared
            .catalog
            .config()
            .broker
            .number("replica.lag.time.max.ms");
        Duration::from_millis(ms.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(30_000))
    }

    fn take_mail(&mut self) {
        let mail = self.mailbox.take();
        for topic in mail.topics {
            self.follow_topic(topic);
            self.dir_wishes.look(&self.shared, topic);
            self.look_at_led(topic);
        }
        if mail.have_brokers_changed {
            self.look_at = self.shared.env.clock.now();
        }
        for partition in mail.caught_up {
            self.look_at(&partition);
        }
        for redeemed in mail.redeemed {
            match redeemed {
                Redeemed::News(news) => self.on_news(news),
                Redeemed::Replied(ticket, answer) if ticket.key == DIR_KEY => {
                    self.dir_wishes
                        .on_reply(answer, self.shared.env.clock.now());
                }
                Redeemed::Replied(_, answer) => self.on_isr_reply(answer),
                Redeemed::Answered(_)
                | Redeemed::Piece(..)
                | Redeemed::Quorum(..)
                | Redeemed::Verdict(..) => {}
            }
        }
    }

    /// Looks for other ISRs in what this broker leads of a topic that the metadata changed: a follower that caught up while a wish was in doubt
    /// says nothing more.
    fn look_at_led(&mut self, topic: Uuid) {
        let me = self.shared.catalog.config().broker.node_id;
        let topics = self.shared.catalog.topics();
        let Some(topic) = topics.with_id(topic) else {
            return;
        };
        for (partition, _) in topic.led_by(me) {
            self.look_at(partition);
        }
        let image = self.shared.catalog.image();
        let planned = image.topic_by_id(topic.id);
        let led = planned.iter().flat_map(|of| &of.partitions);
        let led = led.filter(|of| of.leader == me);
        let in_sync = led.flat_map(|of| of.isr.iter().copied());
        self.followers.on_in_sync(in_sync.filter(|it| *it != me));
    }

    /// Looks whether a leader here wants another ISR.
    fn look_at(&mut self, partition: &Arc<Partition>) {
        let followers = &self.followers;
        let laggards = Laggards {
            lag_max: self.lag_max(),
            is_silent: &|broker| followers.is_silent(broker),
        };
        let without = self.wishes.look(&self.shared, partition, laggards);
        for broker in without {
            self.followers.on_fallen(broker);
        }
    }

    /// Takes the leaders of a topic's partitions from the metadata.
    fn follow_topic(&mut self, id: Uuid) {
        let me = self.shared.catalog.config().broker.node_id;
        let topics = self.shared.catalog.topics();
        let topic = topics.with_id(id);
        let sites = topic.map_or(&[][..], |topic| &topic.sites[..]);
        let mut wanted: BTreeMap<Key, (Arc<Partition>, BrokerId, LeaderEpoch)> = BTreeMap::new();
        for site in sites {
            let leader = site.leader.broker.filter(|leader| *leader != me);
            if let (Some(here), Some(leader)) = (&site.here, leader) {
                let key = (id, here.index);
                wanted.insert(key, (Arc::clone(here), leader, site.leader.epoch));
            }
        }
        let (first, last) = (
            (id, model::PartitionIndex(i32::MIN)),
            (id, model::PartitionIndex(i32::MAX)),
        );
        let known: Vec<Key> = self
            .followed
            .range(first..=last)
            .map(|(key, _)| *key)
            .collect();
        for key in known {
            let is_same = |followed: &Followed| {
                wanted.get(&key).is_some_and(|(partition, leader, epoch)| {
                    Arc::ptr_eq(partition, &followed.partition)
                        && (*leader, *epoch) == (followed.leader, followed.epoch)
                })
            };
            if self.followed.get(&key).is_some_and(is_same) {
                wanted.remove(&key);
            } else if let Some(followed) = self.followed.remove(&key) {
                self.numbered[followed.number] = None;
                self.free_numbers.push(followed.number);
                if let Some(engine) = self.engines.get_mut(&followed.leader) {
                    engine.unfollow(key);
                }
            }
        }
        for (key, (partition, leader, epoch)) in wanted {
            self.follow(key, partition, leader, epoch);
        }
    }

    fn follow(
        &mut self,
        key: Key,
        partition: Arc<Partition>,
        leader: BrokerId,
        epoch: LeaderEpoch,
    ) {
        let at = partition.follow_point();
        let number = self.free_numbers.pop().unwrap_or_else(|| {
            self.numbered.push(None);
            self.numbered.len() - 1
        });
        self.numbered[number] = Some(key);
        let me = self.shared.catalog.config().broker.node_id;
        let image = self.shared.catalog.image();
        let planned = image.topic_by_id(key.0);
        let planned = planned.and_then(|of| of.partitions.get(usize::try_from(key.1.0).ok()?));
        // A replica in sync is waited for.
        let way = match planned.is_some_and(|of| of.isr.contains(&me)) {
            true => Way::Tail,
            false => Way::Bulk,
        };
        let engine = self.engines.entry(leader);
        let engine = engine.or_insert_with(|| Engine::new(me));
        engine.follow(key, epoch, point(at), way);
        let followed = Followed {
            partition,
            leader,
            epoch,
            number,
            asked_anew: None,
            seen: at.synced,
            is_watched: false,
        };
        let is_offline = followed.partition.is_offline();
        self.followed.insert(key, followed);
        if is_offline {
            self.rest(key, None);
        } else if at.lost_from.is_some() {
            self.cut_lost(key);
        } else {
            self.report(key);
        }
    }

    /// Has the next sync of a partition reported. False if there was one since it was looked at.
    fn watch(&mut self, key: Key) -> bool {
        let Some(followed) = self.followed.get_mut(&key) else {
            return true;
        };
        let ticket = Ticket {
            inbox: self.inbox,
            key: WaiterKey(followed.number as u64),
            part: 0,
        };
        if !followed.is_watched {
            followed.is_watched = followed.partition.watch_synced(ticket, followed.seen);
        }
        followed.is_watched
    }

    fn on_news(&mut self, news: News) {
        let ticket = news.ticket();
        if ticket.key == DAMAGE_KEY {
            return self.repairer.look(&self.shared);
        }
        let number = usize::try_from(ticket.key.0).unwrap_or(usize::MAX);
        let Some(key) = self.numbered.get(number).copied().flatten() else {
            return;
        };
        if let Some(followed) = self.followed.get_mut(&key) {
            followed.is_watched = false;
        }
        self.report(key);
    }

    /// Has the next request to the leader say how far this replica is.
    fn report(&mut self, key: Key) {
        loop {
            let Some(followed) = self.followed.get_mut(&key) else {
                return;
            };
            // Its directory has failed for the life of the process: a word of it would have the leader count on it.
            if followed.partition.is_offline() {
                return self.rest(key, None);
            }
            let at = followed.partition.follow_point();
            followed.seen = at.synced;
            if let Some(engine) = self.engines.get_mut(&followed.leader) {
                engine.on_moved(key, point(at));
            }
            // A round that ends between the look (1) and the watch (2) is told to nobody, and a session that asks only when all is synced
            // would wait for it for ever.
            let is_deleted = followed.partition.is_deleted();
            if self.watch(key) || is_deleted {
                return;
            }
        }
    }

    /// Takes what came: first what keeps up, whose round does not wait for the rest.
    fn take_replies(&mut self) {
        let replies = self.links.take_replies().into_iter();
        let (tail, bulk): (Vec<_>, Vec<_>) = replies.partition(|reply| way_of(reply) == Way::Tail);
        let is_mixed = !tail.is_empty() && !bulk.is_empty();
        tail.into_iter().for_each(|reply| self.take_reply(reply));
        if is_mixed {
            self.commit();
        }
        bulk.into_iter().for_each(|reply| self.take_reply(reply));
    }

    fn take_reply(&mut self, reply: Reply<(BrokerId, Way)>) {
        let (terms, now) = (self.terms(), self.shared.env.clock.now());
        match reply {
            Reply::Failed {
                of: (leader, way), ..
            } => {
                if let Some(engine) = self.engines.get_mut(&leader)
                    && !engine.is_idle(way)
                {
                    engine.on_lost(way, terms, now);
                    self.on_unanswered(leader, now);
                }
            }
            Reply::Answered {
                of: (leader, way),
                answer,
                ..
            } => {
                let answer_bytes = answer.body.len();
                let response: Option<FetchResponse> = answer.read();
                self.on_answered(leader, now);
                let Some(engine) = self.engines.get_mut(&leader) else {
                    return;
                };
                match response {
                    Some(response) => {
                        let steps = engine.on_answer(way, response, terms, now);
                        self.take_steps(steps, answer_bytes);
                    }
                    // Nothing else that comes on the connection can be read either.
                    None => {
                        engine.on_lost(way, terms, now);
                        if let Some(endpoint) = self.shared.catalog.endpoint_of(leader) {
                            let target = (endpoint, lane(way));
                            self.links.hang_up(&mut *self.poller, &target);
                        }
                    }
                }
            }
        }
    }

    /// `answer_bytes` is the size of the answer that their records lie in.
    fn take_steps(&mut self, steps: Vec<Step>, answer_bytes: usize) {
        let mut stamp = Stamp::default();
        let mut buffer = ReceiveBuffer::new(answer_bytes);
        for step in &steps {
            if let Step::Take { key, records, .. } = step
                && let (Some(records), Some(followed)) = (records, self.followed.get(key))
            {
                buffer.expect(followed.partition.dir().id, records.len());
            }
        }
        for step in steps {
            match step {
                Step::Take {
                    key,
                    epoch,
                    records,
                    high_watermark,
                    log_start,
                } => {
                    let records = records.as_ref().map(|records| (records, &mut buffer));
                    let said = (high_watermark, log_start);
                    self.take(key, epoch, records, said, &mut stamp);
                }
                Step::Cut { key, epoch, told } => self.cut_parted(key, epoch, told),
                Step::Restart { key, at, .. } => self.cut(key, |partition| {
                    tracing::info!(
                        target: env::logs::REPLICATION,
                        "{}-{}: the log of the leader begins at {}: begun anew there",
                        partition.topic, partition.index, at.end,
                    );
                    partition
                        .restart(Restart {
                            log_start: at.end,
                            at: at.end,
                            epoch: at.epoch,
                        })
                        .map(drop)
                }),
                Step::Refused { key, code } => {
                    let known = self.followed.get(&key);
                    if let Some(followed) = known {
                        tracing::debug!(
                            target: env::logs::REPLICATION,
                            "{}-{}: broker {} refuses to be followed: {code}",
                            followed.partition.topic, followed.partition.index, followed.leader,
                        );
                    }
                }
            }
        }
    }

    fn take(
        &mut self,
        key: Key,
        epoch: LeaderEpoch,
        records: Option<(&Bytes, &mut ReceiveBuffer)>,
        (high_watermark, log_start): (Offset, Offset),
        stamp: &mut Stamp,
    ) {
        let Some(followed) = self.followed.get(&key) else {
            return;
        };
        let (partition, leader) = (Arc::clone(&followed.partition), followed.leader);
        let at = partition.follow_point();
        if at.lost_from.is_some() {
            return self.cut_lost(key);
        }
        let (mut brought, end) = (Brought::nothing(high_watermark), at.end);
        if let Some(records) = records {
            let clock = &self.shared.env.clock;
            let moment = Moment {
                now: clock.now(),
                wall: clock.wall_ms(),
                stamp,
            };
            let asked = Asked {
                epoch,
                from: followed.asked_anew,
            };
            let bytes = records.0.len();
            match partition.follow(records, asked, moment) {
                Ok(taken) => {
                    brought.bytes = bytes;
                    brought.offsets = taken.end.0 - end.0;
                }
                Err(why) => return self.on_not_taken(key, &partition, &why),
            }
        }
        partition.on_leader_at(epoch, high_watermark, log_start, &mut self.news);
        self.report(key);
        let following = &self.shared.catalog.throttles.following;
        following.take(key, brought.bytes, self.shared.env.clock.now());
        brought.is_throttled = following.has(key);
        let terms = self.terms();
        if let Some(engine) = self.engines.get_mut(&leader) {
            self.shared.meters.counts.on_replicated(brought.bytes);
            if engine.way(key) == Some(Way::Tail) {
                self.tail_bytes += brought.bytes as u64;
            }
            engine.on_taken(key, brought, terms);
        }
    }

    /// Batches of the leader could not be appended: they are asked for again.
    fn on_not_taken(&mut self, key: Key, partition: &Partition, why: &FollowError) {
        let now = self.shared.env.clock.now();
        let (is_loud, until) = match why {
            // The metadata say what is to be done. A replica that was removed and added at once goes on under the same leader.
            FollowError::Deleted | FollowError::Leading | FollowError::EpochChanged { .. } => {
                (false, Some(now.plus(self.terms().backoff)))
            }
            FollowError::Lost { .. } => return self.cut_lost(key),
            FollowError::Cutting => (false, Some(now.plus(CUT_REST))),
            FollowError::Storage { full: false } => (false, None),
            FollowError::Storage { full: true } => (false, Some(now.plus(self.terms().backoff))),
            // Where the answer to the same question, asked anew, has nothing in between either, nor has the leader.
            FollowError::Gap { got, end } if end < got => {
                if let Some(followed) = self.followed.get_mut(&key) {
                    followed.asked_anew = Some(*end);
                }
                (false, Some(now.plus(CUT_REST)))
            }
            FollowError::Gap { .. } | FollowError::Epoch { .. } | FollowError::Batch(_) => {
                (true, Some(now.plus(self.terms().backoff)))
            }
        };
        if is_loud {
            tracing::warn!(
                target: env::logs::REPLICATION,
                "{}-{}: what the leader sent is not taken: {why}", partition.topic, partition.index,
            );
        }
        self.rest(key, until);
    }

    fn rest(&mut self, key: Key, until: Option<Instant>) {
        if let Some(followed) = self.followed.get(&key)
            && let Some(engine) = self.engines.get_mut(&followed.leader)
        {
            engine.on_cut(key, point(followed.partition.follow_point()));
            engine.rest(key, until);
        }
    }

    /// Commits what was appended, here where that is quick.
    fn commit(&mut self) {
        self.commit_at = None;
        for at in 0..self.shared.volumes.dirs().len() {
            let dir = Arc::clone(&self.shared.volumes.dirs()[at]);
            if !dir.has_queued() {
                continue;
            }
            if dir.commit_average() > INLINE_COMMIT_MAX && !self.shared.lifetime.is_stopping() {
                self.shared.volumes.ring_committer(at);
                continue;
            }
            match dir.commit_wait(self.shared.env.clock.now()) {
                Wait::Until(until) if !self.shared.lifetime.is_stopping() => {
                    let next = self.commit_at.map_or(until, |at| at.min(until));
                    self.commit_at = Some(next);
                }
                Wait::Busy => {} // the thread that is at it looks again
                Wait::No | Wait::Until(_) => {
                    while dir.commit(&mut self.news) == Commit::Done && dir.has_queued() {}
                    if dir.is_failed() {
                        self.shared.volumes.check_health();
                    }
                }
            }
        }
    }

    fn spread(&mut self) {
        let (own, others): (Vec<News>, Vec<News>) = std::mem::take(&mut self.news)
            .into_iter()
            .partition(|news| news.inbox() == self.inbox);
        if !others.is_empty() {
            self.shared.mail.spread(others);
        }
        for news in own {
            self.on_news(news);
        }
    }

    /// Asks the controller for the ISRs that leaders here want.
    fn ask_for_isrs(&mut self) {
        let now = self.shared.env.clock.now();
        self.look_for_silent(now);
        if self.look_at <= now {
            self.look_at = now.plus(self.lag_max() / 2);
            self.followers.begin();
            for topic in self.shared.catalog.topics().sorted() {
                self.look_at_led(topic.id);
            }
        }
        self.report_fallen(now);
        let Some(request) = self.wishes.request(&self.shared, now) else {
            return;
        };
        self.ask_controller(ISR_KEY, request, now);
    }

    /// Has followers that hold up commits and send no fetch fall out of their ISRs before they lag for too long.
    fn look_for_silent(&mut self, now: Instant) {
        if !self.followers.is_due(now) {
            return;
        }
        let session = self.shared.catalog.config().broker.quorum.session_timeout;
        let heard = self.mailbox.heard();
        if (self.followers).look(&heard, session.max(SILENT_AFTER_MIN), now) {
            self.look_at = now;
        }
    }

    fn report_fallen(&mut self, now: Instant) {
        let lag_max = self.lag_max();
        for fallen in self.followers.take_fallen(lag_max, now) {
            let Fallen {
                broker,
                partitions,
                is_silent,
            } = fallen;
            if is_silent {
                tracing::warn!(
                    target: env::logs::REPLICATION,
                    "broker {broker} is to leave the ISR of {partitions} partition(s) that this broker leads: it sends no fetch, though the \
                     controller may hear it. See whether the two brokers reach each other",
                );
            } else {
                tracing::warn!(
                    target: env::logs::REPLICATION,
                    "broker {broker} is to leave the ISR of {partitions} partition(s) that this broker leads: it has not had all of their \
                     records for replica.lag.time.max.ms ({} ms)",
                    lag_max.as_millis(),
                );
            }
        }
    }

    /// A request to a leader failed.
    fn on_unanswered(&mut self, leader: BrokerId, now: Instant) {
        let Some(silent_for) = self.leaders.on_failed(leader, now) else {
            return;
        };
        let followed = self.followed.values();
        let count = followed.filter(|of| of.leader == leader).count();
        tracing::warn!(
            target: env::logs::REPLICATION,
            "broker {leader} has not answered for {} s: {count} partition(s) that it leads are not followed here. Appends with acks=all wait \
             until it does, or until this broker is out of their ISR",
            silent_for.as_secs(),
        );
    }

    fn on_answered(&mut self, leader: BrokerId, now: Instant) {
        if let Some(silent_for) = self.leaders.on_answered(leader, now) {
            tracing::info!(
                target: env::logs::REPLICATION,
                "broker {leader} answers again after {} s: what it leads is followed here", silent_for.as_secs(),
            );
        }
    }

    /// Reports the directories of replicas here that the metadata have elsewhere.
    fn ask_for_dirs(&mut self) {
        let now = self.shared.env.clock.now();
        let Some(request) = self.dir_wishes.request(&self.shared, now) else {
            return;
        };
        self.ask_controller(DIR_KEY, request, now);
    }

    /// Sends a request to the active controller; the answer comes as mail.
    fn ask_controller(&self, key: WaiterKey, request: impl Encodable + 'static, now: Instant) {
        let ticket = Ticket {
            inbox: self.inbox,
            key,
            part: 0,
        };
        let until = now.plus(CONTROLLER_WAIT_MAX);
        let recipient = (ticket, Recipient::Controller);
        let call = Call::new(recipient, request, until);
        self.shared.mail.calls.call(call);
    }

    fn on_isr_reply(&mut self, answer: Option<Answer>) {
        let now = self.shared.env.clock.now();
        if self.wishes.on_reply(answer, now, &mut self.news) == isr::Refused::Some {
            self.look_at = self.look_at.min(now.plus(REFUSED_REST));
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let engines = self.engines.values().filter_map(Engine::next_deadline);
        [
            engines.min(),
            self.links.next_deadline(),
            self.wishes.next_deadline(),
            self.dir_wishes.next_deadline(),
            self.repairer.next_deadline(),
            self.commit_at,
            self.full_until,
            Some(self.look_at),
            self.followers.next_look(),
            self.leaders.next_turn(),
            self.late_cuts.next_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn poll(&mut self, timeout: Option<Duration>) {
        if let Err(error) = self.poller.wait(timeout, &mut self.ready) {
            tracing::error!(target: env::logs::REPLICATION, "replication cannot poll: {error}");
        }
    }
}

impl Worker for ReplicaWorker {
    fn turn(&mut self) -> Turn {
        if self.ready.is_empty() {
            self.poll(Some(Duration::ZERO));
        }
        for ready in std::mem::take(&mut self.ready) {
            self.links.on_ready(&mut *self.poller, ready);
            self.repairer.on_ready(&mut *self.poller, ready);
        }
        self.links.dial_named(&mut *self.poller);
        let now = self.shared.env.clock.now();
        self.leaders.on_turn(now);
        self.links.expire(&mut *self.poller, now);
        self.take_replies();
        // After the poll: it swallows the wake-up of whatever was put in before it.
        self.take_mail();
        self.commit();
        self.spread();
        if self.shared.lifetime.is_stopping() {
            self.shared.lifetime.on_loop_ended();
            return Turn::Done;
        }
        self.send();
        self.repairer.ask(&self.shared, &mut *self.poller);
        self.take_replies();
        self.cut_late();
        self.ask_for_isrs();
        self.ask_for_dirs();
        self.spread();
        match self.next_deadline() {
            Some(at) if at <= self.shared.env.clock.now() => Turn::Again,
            until => Turn::Sleep { until },
        }
    }

    fn park(&mut self, until: Option<Instant>) {
        let timeout = until.map(|until| until.since(self.shared.env.clock.now()));
        self.poll(timeout);
    }
}

fn lane(way: Way) -> Lane {
    match way {
        Way::Tail => Lane::Replica,
        Way::Bulk => Lane::Bulk,
    }
}

fn way_of(reply: &Reply<(BrokerId, Way)>) -> Way {
    match reply {
        Reply::Failed { of: (_, way), .. } | Reply::Answered { of: (_, way), .. } => *way,
    }
}

fn point(at: FollowPoint) -> Point {
    Point {
        end: at.end,
        last_epoch: at.last_epoch,
        log_start: at.log_start,
        synced: at
            .lost_from
            .map_or(at.synced.up_to, |lost| at.synced.up_to.min(lost)),
    }
}
