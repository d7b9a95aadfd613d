//! How far one partition has come, and which tickets that redeems.
//!
//! A machine without IO: events say what was appended, what is synced here and at followers, which replicas are in sync and what
//! our role is. Invariant: `start <= committed <= durable <= end`. The committed offset is the smallest synced end of the replicas
//! in sync; it stands still while fewer of them than the minimum are, and never falls. A ticket belongs to the leader epoch that
//! it was taken in: when that ends, its tickets fail before anything else changes, so that no later leader redeems them.
//!
//! A log that is cut or restarted has another life from then on; reports of an older life count for nothing.

#[path = "progress/lags.rs"]
mod lags;
#[path = "progress/marks.rs"]
mod marks;
#[path = "progress/nearest.rs"]
mod nearest;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use model::{BrokerId, Instant, LeaderEpoch, Offset, Ticket};

use crate::life::Life;
use crate::news::News;

use marks::Marks;

pub use lags::FollowerLag;

/// Our part in a partition under one leader epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Another broker leads, or none: nothing of clients is appended or shown here.
    NotLeading,
    Leading(Replicas),
    /// Leads a log whose appends and commits a quorum decides: [`Progress::on_committed`] reports them.
    Elected,
}

impl Role {
    fn leads(&self) -> bool {
        !matches!(self, Role::NotLeading)
    }

    /// Leads a partition that has no other replica.
    #[must_use]
    pub fn alone(me: BrokerId) -> Role {
        Role::Leading(Replicas {
            me,
            all: vec![me],
            in_sync: vec![me],
            partition_epoch: 0,
        })
    }
}

/// The replicas of a partition, as its leader knows them from the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replicas {
    pub me: BrokerId,
    pub all: Vec<BrokerId>,
    pub in_sync: Vec<BrokerId>,
    /// Rises with each change of the partition in the metadata.
    pub partition_epoch: i32,
}

/// The report of a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerAt {
    /// Leader epoch in which the broker follows: a report of another epoch is of another log.
    pub epoch: LeaderEpoch,
    pub broker: BrokerId,
    /// Epoch of the broker's registration; -1 where the follower names none.
    pub broker_epoch: i64,
    /// Where the follower's log starts.
    pub log_start: Offset,
    /// Everything below is synced there; on a Kafka broker only appended.
    pub synced: Offset,
}

/// The replicas that a leader wants to be in sync (KIP-497), and the registrations that they fetched under (KIP-903).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsrWish {
    pub leader_epoch: LeaderEpoch,
    pub partition_epoch: i32,
    pub isr: Vec<(BrokerId, i64)>,
    /// Replicas in sync that are to leave the ISR.
    pub without: Vec<BrokerId>,
}

/// The followers in sync that a leader does without.
#[derive(Clone, Copy)]
pub struct Laggards<'a> {
    /// Longest time that a follower may go without having had everything.
    pub lag_max: Duration,
    /// True for a follower that was not heard of at all for a while: done without if it lacks something, as long as enough others are in sync.
    pub is_silent: &'a dyn Fn(BrokerId) -> bool,
}

/// The offsets that a log has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Points {
    pub start: Offset,
    /// The end of what readers are shown; Kafka's high watermark.
    pub committed: Offset,
    /// The end of what this broker has synced, or written where the topic is relaxed.
    pub durable: Offset,
    pub end: Offset,
}

/// The point that a ticket waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Durable,
    Committed,
    /// The same for an append of a client, which fails when too few replicas are in sync for it.
    CommittedSoon,
}

/// A ticket and the log end that it waits for.
#[derive(Clone, Copy, Debug)]
struct Awaiting {
    until: Offset,
    ticket: Ticket,
    /// Leader epoch in which the ticket was taken.
    epoch: LeaderEpoch,
    wanted: Wanted,
}

/// How far a follower has come.
#[derive(Clone, Debug)]
struct Follower {
    /// `None` before the follower's first report in this epoch.
    synced: Option<Offset>,
    log_start: Offset,
    /// Epoch of the registration that the follower last reported under.
    broker_epoch: i64,
    /// When the follower last had everything.
    caught_up_at: Instant,
    /// When the follower's synced end last rose, or the leader began to count it.
    moved_at: Instant,
    /// Ends of our log at earlier reports of the follower: once it has reached one, it had everything at that time.
    marks: Marks,
}

/// Fewer replicas are in sync than an append with `acks=all` needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooFew {
    pub in_sync: usize,
    pub needed: usize,
}

/// The consequence of a role that the metadata give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoleChange {
    None,
    /// The same leader has other followers, or has to hear them again.
    Followers,
    /// The older epoch, or the other role, has ended.
    Leadership,
}

/// The machine of one partition.
#[derive(Debug)]
pub(crate) struct Progress {
    points: Points,
    life: Life,
    epoch: LeaderEpoch,
    role: Role,
    /// Where the present epoch began, if we lead in it.
    epoch_start: Offset,
    /// When the present role began.
    led_since: Instant,
    /// Replicas other than ourselves, while we lead.
    followers: BTreeMap<BrokerId, Follower>,
    /// The ISR that the controller was asked for. Until the metadata say what became of it its members count as in sync too: the
    /// controller may have granted it, and elect one of them.
    pending: Option<Vec<BrokerId>>,
    /// The committed offset as the leader, another broker, named it; perhaps above what is durable here.
    told: Offset,
    /// True once another leader has named the committed offset since the start, or since this log lost what it had.
    is_told: bool,
    /// `min.insync.replicas`.
    in_sync_min: usize,
    /// Tickets in the order of the offsets that they wait for, as in the next queue.
    awaiting_durable: VecDeque<Awaiting>,
    awaiting_committed: VecDeque<Awaiting>,
}

impl Progress {
    /// The progress of a log that was found on disk: all of it is durable, and everything below `committed` is committed, as an earlier
    /// start wrote down. A role, or a leader, says how much more is.
    pub(crate) fn new(
        (start, end): (Offset, Offset),
        committed: Offset,
        epoch: LeaderEpoch,
        in_sync_min: usize,
    ) -> Progress {
        let points = Points {
            start,
            committed: committed.min(end).max(start),
            durable: end,
            end,
        };
        let mut progress = Progress {
            points,
            life: Life::default(),
            epoch,
            role: Role::NotLeading,
            epoch_start: end,
            led_since: Instant(0),
            followers: BTreeMap::new(),
            pending: None,
            told: committed.max(start),
            is_told: false,
            in_sync_min,
            awaiting_durable: VecDeque::new(),
            awaiting_committed: VecDeque::new(),
        };
        progress.set(points);
        progress
    }

    pub(crate) fn points(&self) -> Points {
        self.points
    }

    pub(crate) fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// True if this broker has led a partition that others have replicas of for less than `time`.
    pub(crate) fn has_led_for_less(&self, time: Duration, now: Instant) -> bool {
        self.is_leading() && self.has_others() && now.since(self.led_since) < time
    }

    /// True if other brokers have replicas, as far as the role shows. The log of a quorum is none of theirs.
    pub(crate) fn has_others(&self) -> bool {
        match &self.role {
            Role::NotLeading => true,
            Role::Leading(replicas) => 1 < replicas.all.len(),
            Role::Elected => false,
        }
    }

    pub(crate) fn is_leading(&self) -> bool {
        self.role.leads()
    }

    /// True if this leader has not committed yet what it found when it began to lead: the leader before may have, and may have shown it to clients.
    pub(crate) fn is_behind_epoch(&self) -> bool {
        self.is_leading() && self.points.committed < self.epoch_start
    }

    /// True if a quorum decides what is appended here.
    pub(crate) fn is_elected(&self) -> bool {
        self.role == Role::Elected
    }

    /// True if the committed offset is one that a leader named or came to, and not only what was left of an earlier start: that may be
    /// far behind what clients have seen.
    pub(crate) fn knows_committed(&self) -> bool {
        self.is_leading() || self.is_told
    }

    pub(crate) fn life(&self) -> Life {
        self.life
    }

    /// The only place where an offset changes, but for a cut, a loss and a restart.
    fn set(&mut self, next: Points) {
        let now = self.points;
        assert!(
            now.start <= next.start
                && now.committed <= next.committed
                && now.durable <= next.durable,
            "offsets fall: {now:?} to {next:?}"
        );
        self.place(next);
    }

    fn place(&mut self, next: Points) {
        assert!(
            next.start <= next.committed
                && next.committed <= next.durable
                && next.durable <= next.end,
            "offsets out of order: {next:?}"
        );
        self.points = next;
    }

    /// The log ends at `to`, in front of its old end, in the life that is returned. Tickets failed when this broker ceased to lead.
    pub(crate) fn on_cut(&mut self, to: Offset) -> Life {
        assert!(!self.is_leading(), "a leader cuts nothing");
        let points = self.points;
        assert!(points.committed <= to, "{points:?} cut to {to}");
        let (durable, end) = (points.durable.min(to), to);
        self.place(Points {
            durable,
            end,
            ..points
        });
        self.begin_life()
    }

    /// Records at and behind `to` are lost here, committed ones too: the log ends there in the life that is returned, and others have them.
    pub(crate) fn on_lost(&mut self, to: Offset) -> Life {
        assert!(!self.is_leading(), "a leader gives up nothing");
        let points = self.points;
        assert!(points.start <= to, "{points:?} cut to {to}");
        self.told = self.told.min(to);
        self.is_told = false;
        self.place(Points {
            start: points.start,
            committed: points.committed.min(to),
            durable: points.durable.min(to),
            end: to,
        });
        self.begin_life()
    }

    /// The log is empty and ends at `at`, in the life that is returned. All in front of it is committed, and elsewhere.
    pub(crate) fn on_restart(&mut self, start: Offset, at: Offset) -> Life {
        assert!(!self.is_leading(), "a leader drops nothing");
        let points = self.points;
        assert!(points.committed <= at, "{points:?} begins anew at {at}");
        self.place(Points {
            start,
            committed: at,
            durable: at,
            end: at,
        });
        self.begin_life()
    }

    /// The replica is removed: its log has nothing, committed or not.
    pub(crate) fn on_emptied(&mut self) -> Life {
        assert!(!self.is_leading(), "a leader drops nothing");
        self.told = Offset::ZERO;
        self.is_told = false;
        self.place(Points {
            start: Offset::ZERO,
            committed: Offset::ZERO,
            durable: Offset::ZERO,
            end: Offset::ZERO,
        });
        self.begin_life()
    }

    fn begin_life(&mut self) -> Life {
        self.life = self.life.next();
        self.life
    }

    /// A leader, or the quorum, says what is committed, which may be more than is durable here.
    pub(crate) fn on_committed(&mut self, up_to: Offset) {
        let points = self.points;
        self.told = self.told.max(up_to);
        self.is_told = true;
        let committed = up_to.min(points.durable).max(points.committed);
        self.set(Points {
            committed,
            ..points
        });
    }

    /// The log has grown.
    pub(crate) fn on_appended(&mut self, end: Offset) {
        let points = self.points;
        self.set(Points { end, ..points });
    }

    /// The log start has moved up.
    pub(crate) fn on_start(&mut self, start: Offset) {
        let points = self.points;
        let start = start.max(points.start);
        self.set(Points { start, ..points });
    }

    /// Everything below `up_to` is synced here. Tickets wait for [`Progress::redeem`].
    pub(crate) fn on_durable(&mut self, up_to: Offset, life: Life) {
        // The offsets may hold other records now. When the cut itself is durable, the round that has it says so in this life.
        if life != self.life {
            return;
        }
        let points = self.points;
        let durable = up_to.max(points.durable);
        self.set(Points { durable, ..points });
        self.advance();
    }

    /// A follower has synced everything below an offset. True if it may join those in sync.
    pub(crate) fn on_follower_at(&mut self, said: FollowerAt, now: Instant) -> bool {
        let FollowerAt {
            epoch,
            broker,
            broker_epoch,
            log_start,
            synced,
        } = said;
        let end = self.points.end;
        if epoch != self.epoch {
            return false;
        }
        // A broker without a replica has no say, and reports are forgotten when we do not lead. A broker that was restarted may have lost
        // what it reported before; a report of its earlier registration comes late (KIP-903).
        let Some(follower) = self.followers.get_mut(&broker) else {
            return false;
        };
        if broker_epoch < follower.broker_epoch {
            return false;
        }
        if follower.broker_epoch < broker_epoch {
            follower.synced = None;
            follower.broker_epoch = broker_epoch;
        }
        if let Some(then) = follower.marks.on_word(synced, end, now) {
            follower.caught_up_at = follower.caught_up_at.max(then);
        }
        follower.log_start = log_start;
        if follower.synced < Some(synced) {
            follower.moved_at = now;
        }
        follower.synced = follower.synced.max(Some(synced));
        self.advance();
        self.may_join(broker)
    }

    /// True if this leader counts what a broker reported under this registration. A report that comes before the metadata here have the
    /// replica is not kept, and neither is that of a replica that may have been dropped since.
    pub(crate) fn has_heard(&self, broker: BrokerId, broker_epoch: i64) -> bool {
        let follower = self.followers.get(&broker);
        follower.is_some_and(|follower| {
            follower.synced.is_some() && follower.broker_epoch == broker_epoch
        })
    }

    /// True if a replica that is not in sync has come to where the others are: to what is committed, and to what this leader found. While
    /// too few are in sync the committed offset stands still, and only the end will do (KAFKA-19996). The replica's log must not begin in
    /// front of this one: records that clients know to be deleted would come back with it as the next leader. A later beginning is fine, as
    /// each replica deletes what is old.
    fn may_join(&self, broker: BrokerId) -> bool {
        let Role::Leading(replicas) = &self.role else {
            return false;
        };
        if self.pending.is_some() || replicas.in_sync.contains(&broker) {
            return false;
        }
        let needed = if self.check_in_sync().is_ok() {
            self.points.committed.max(self.epoch_start)
        } else {
            self.points.end
        };
        let follower = self.followers.get(&broker);
        follower.is_some_and(|follower| {
            follower.synced >= Some(needed) && self.points.start <= follower.log_start
        })
    }

    /// The followers in sync that hold up what is committed and are silent, unless too few would be left. A follower without a report in
    /// this epoch does not count as silent: its first one may be on its way.
    fn silent(&self, behind: &[BrokerId], is_silent: &dyn Fn(BrokerId) -> bool) -> Vec<BrokerId> {
        let Role::Leading(replicas) = &self.role else {
            return Vec::new();
        };
        let lacks_something = |broker: &BrokerId| {
            let follower = self.followers.get(broker);
            let synced = follower.and_then(|follower| follower.synced);
            synced.is_some_and(|synced| synced < self.points.end)
        };
        let in_sync = replicas.in_sync.iter().copied();
        let silent: Vec<BrokerId> = in_sync
            .filter(|broker| !behind.contains(broker) && lacks_something(broker))
            .filter(|broker| is_silent(*broker))
            .collect();
        let left = replicas.in_sync.len() - behind.len() - silent.len();
        if left < needed(self.in_sync_min, replicas.all.len()) {
            return Vec::new();
        }
        silent
    }

    /// The ISR that the leader asks the controller for, where it is not the one that the metadata have: without `laggards`, with those that
    /// have caught up and are `eligible`.
    pub(crate) fn wish_isr(
        &mut self,
        now: Instant,
        laggards: Laggards<'_>,
        eligible: impl Fn(BrokerId, i64) -> bool,
    ) -> Option<IsrWish> {
        if self.pending.is_some() {
            return None;
        }
        let mut behind = self.on_tick(now, laggards.lag_max);
        behind.extend(self.silent(&behind, laggards.is_silent));
        let Role::Leading(replicas) = &self.role else {
            return None;
        };
        let joins = |broker: &BrokerId| {
            let follower = self.followers.get(broker);
            self.may_join(*broker)
                && follower.is_some_and(|follower| eligible(*broker, follower.broker_epoch))
        };
        let stays = |broker: &&BrokerId| !behind.contains(broker);
        let mut isr: Vec<BrokerId> = replicas.in_sync.iter().filter(stays).copied().collect();
        isr.extend(replicas.all.iter().filter(|broker| joins(broker)));
        if isr.len() == replicas.in_sync.len() && behind.is_empty() {
            return None;
        }
        let epoch_of = |broker: BrokerId| {
            let follower = self.followers.get(&broker);
            follower.map_or(-1, |follower| follower.broker_epoch)
        };
        let wish = IsrWish {
            leader_epoch: self.epoch,
            partition_epoch: replicas.partition_epoch,
            isr: isr
                .iter()
                .map(|broker| (*broker, epoch_of(*broker)))
                .collect(),
            without: behind,
        };
        self.pending = Some(isr);
        Some(wish)
    }

    /// The controller did not do what was asked in `wish`, and will not: the leader may ask for something else.
    pub(crate) fn on_wish_refused(&mut self, wish: &IsrWish) {
        let Role::Leading(replicas) = &self.role else {
            return;
        };
        if self.epoch == wish.leader_epoch && replicas.partition_epoch == wish.partition_epoch {
            self.pending = None;
            self.advance();
        }
    }

    /// The replicas of a partition that this broker leads.
    fn replicas(&self) -> Option<&Replicas> {
        match &self.role {
            Role::Leading(replicas) => Some(replicas),
            Role::NotLeading | Role::Elected => None,
        }
    }

    pub(crate) fn has_in_sync(&self, broker: BrokerId) -> bool {
        let replicas = self.replicas();
        replicas.is_some_and(|replicas| replicas.in_sync.contains(&broker))
    }

    /// The metadata have other replicas, or others in sync, under the same leader. True if a follower has to say again where it is.
    fn on_replicas(&mut self, replicas: Replicas, now: Instant, news: &mut Vec<News>) -> bool {
        let others = replicas.all.iter().filter(|broker| **broker != replicas.me);
        let mut known = std::mem::take(&mut self.followers);
        // When several changes come at once, one may have removed a replica (1) and the next have added it again (2): the log that it
        // reported on is gone. A replica in sync was not removed, because only this leader could have asked for it to be in sync after (2).
        let is_next = |before: &Replicas| replicas.partition_epoch <= before.partition_epoch + 1;
        if !self.replicas().is_none_or(is_next) {
            known.retain(|broker, _| replicas.in_sync.contains(broker));
        }
        let count = known.len();
        self.followers = others
            .map(|broker| {
                let unknown = Follower {
                    synced: None,
                    log_start: self.points.start,
                    broker_epoch: -1,
                    // A new follower has as long as any other to catch up.
                    caught_up_at: now,
                    moved_at: now,
                    marks: Marks::default(),
                };
                (*broker, known.remove(broker).unwrap_or(unknown))
            })
            .collect();
        let has_unheard = !known.is_empty() || count != self.followers.len();
        let is_newer = |known: &Replicas| known.partition_epoch < replicas.partition_epoch;
        if self.replicas().is_none_or(is_newer) {
            self.pending = None;
        }
        self.role = Role::Leading(replicas);
        self.advance();
        self.refuse_waiting(news);
        has_unheard
    }

    /// `min.insync.replicas` was set.
    pub(crate) fn on_in_sync_min(&mut self, in_sync_min: usize, news: &mut Vec<News>) {
        self.in_sync_min = in_sync_min;
        self.advance();
        self.refuse_waiting(news);
    }

    /// The metadata give us a role. A role of an older epoch than the present one is late and changes nothing.
    pub(crate) fn on_role(
        &mut self,
        epoch: LeaderEpoch,
        role: Role,
        now: Instant,
        news: &mut Vec<News>,
    ) -> RoleChange {
        if epoch < self.epoch {
            return RoleChange::None;
        }
        let goes_on = epoch == self.epoch && self.is_leading() == role.leads();
        if !goes_on {
            self.is_told |= self.is_leading() && !self.is_behind_epoch();
            // Tickets fail first. If the offsets moved first, a leader that lost the lead at 120 (1), was cut to 100 (2) and followed to
            // 130 (3) would acknowledge a record that is gone.
            self.fail_all(News::NotLeader, news);
            self.followers.clear();
            self.pending = None;
            self.epoch_start = self.points.end;
            self.led_since = now;
            // The earlier leader named this offset of a log that the new one may not continue.
            self.told = self.points.committed;
        }
        self.epoch = epoch;
        let has_unheard = match role {
            Role::Leading(replicas) => self.on_replicas(replicas, now, news),
            Role::NotLeading | Role::Elected => {
                self.role = role;
                false
            }
        };
        match (goes_on, has_unheard) {
            (false, _) => RoleChange::Leadership,
            (true, true) => RoleChange::Followers,
            (true, false) => RoleChange::None,
        }
    }

    /// Followers in sync that have not had everything for longer than `lag_max`: the leader wants them out of the ISR. A follower that has
    /// everything reports nothing more until there is more.
    pub(crate) fn on_tick(&mut self, now: Instant, lag_max: Duration) -> Vec<BrokerId> {
        self.note_caught_up(now);
        let Role::Leading(replicas) = &self.role else {
            return Vec::new();
        };
        let is_behind = |broker: &&BrokerId| {
            let follower = self.followers.get(broker);
            follower.is_some_and(|follower| lag_max < now.since(follower.caught_up_at))
        };
        let in_sync = replicas.in_sync.iter();
        in_sync.filter(is_behind).copied().collect()
    }

    /// `Ok` if `acks=all` can be promised now.
    pub(crate) fn check_in_sync(&self) -> Result<(), TooFew> {
        let Role::Leading(replicas) = &self.role else {
            return Ok(());
        };
        let in_sync = replicas.in_sync.len();
        let needed = needed(self.in_sync_min, replicas.all.len());
        if in_sync < needed {
            return Err(TooFew { in_sync, needed });
        }
        Ok(())
    }

    /// Moves the committed offset to where the replicas in sync have come.
    fn advance(&mut self) {
        let Role::Leading(replicas) = &self.role else {
            let points = self.points;
            let committed = self.told.min(points.durable).max(points.committed);
            self.set(Points {
                committed,
                ..points
            });
            return;
        };
        if self.check_in_sync().is_err() {
            return;
        }
        let mut reached = Some(self.points.durable);
        let pending = self.pending.iter().flatten();
        let counts = replicas.in_sync.iter().chain(pending);
        for broker in counts.filter(|of| **of != replicas.me) {
            // A broker that the metadata have in sync, but not as a replica, has reported nothing either.
            let synced = (self.followers.get(broker)).and_then(|follower| follower.synced);
            reached = reached.min(synced);
        }
        let points = self.points;
        let committed = reached.map_or(points.committed, |reached| reached.max(points.committed));
        self.set(Points {
            committed,
            ..points
        });
    }

    /// Lowest log start among the replicas that may lead next, 0 if one of them has not reported its own; `None` where we do not lead.
    pub(crate) fn start_everywhere(&self) -> Option<Offset> {
        let replicas = match &self.role {
            Role::NotLeading => return None,
            Role::Elected => return Some(self.points.start),
            Role::Leading(replicas) => replicas,
        };
        let others = (replicas.in_sync.iter().chain(self.pending.iter().flatten()))
            .filter(|of| **of != replicas.me);
        let start_of = |broker| {
            let follower = self.followers.get(broker);
            let follower = follower.filter(|follower| follower.synced.is_some());
            follower.map_or(Offset::ZERO, |follower| follower.log_start)
        };
        Some(others.fold(self.points.start, |start, broker| {
            start.min(start_of(broker))
        }))
    }

    /// True if what ends at `until` has come to what is `wanted`.
    pub(crate) fn has_reached(&self, until: Offset, wanted: Wanted) -> bool {
        match wanted {
            Wanted::Durable => until <= self.points.durable,
            Wanted::Committed | Wanted::CommittedSoon => until <= self.points.committed,
        }
    }

    /// Keeps a ticket until the log is `wanted` up to `until`; only while we lead.
    pub(crate) fn wait(&mut self, until: Offset, wanted: Wanted, ticket: Ticket) {
        assert!(self.is_leading(), "a ticket that no event redeems");
        let queue = match wanted {
            Wanted::Durable => &mut self.awaiting_durable,
            Wanted::Committed | Wanted::CommittedSoon => &mut self.awaiting_committed,
        };
        // Most tickets wait for the end of the log; a duplicate waits with its original, further in front.
        let at = match queue.back() {
            Some(last) if until < last.until => {
                queue.partition_point(|awaiting| awaiting.until <= until)
            }
            _ => queue.len(),
        };
        let awaiting = Awaiting {
            until,
            ticket,
            epoch: self.epoch,
            wanted,
        };
        queue.insert(at, awaiting);
    }

    /// Hands out the tickets whose offsets were reached.
    pub(crate) fn redeem(&mut self, news: &mut Vec<News>) {
        let Points {
            committed, durable, ..
        } = self.points;
        for (queue, reached) in [
            (&mut self.awaiting_durable, durable),
            (&mut self.awaiting_committed, committed),
        ] {
            while let Some(awaiting) = queue.pop_front_if(|awaiting| awaiting.until <= reached) {
                assert_eq!(
                    awaiting.epoch, self.epoch,
                    "its tickets failed when it ended"
                );
                news.push(News::Reached(awaiting.ticket));
            }
        }
    }

    /// Appends that were let in when enough replicas were in sync do not wait until enough are again.
    fn refuse_waiting(&mut self, news: &mut Vec<News>) {
        if self.check_in_sync().is_err() {
            let (refused, kept): (VecDeque<_>, _) = std::mem::take(&mut self.awaiting_committed)
                .into_iter()
                .partition(|awaiting| awaiting.wanted == Wanted::CommittedSoon);
            self.awaiting_committed = kept;
            let tickets = refused.into_iter().map(|awaiting| awaiting.ticket);
            news.extend(tickets.map(News::TooFewReplicas));
        }
    }

    /// Nothing that is waited for will come.
    pub(crate) fn fail_all(&mut self, why: fn(Ticket) -> News, news: &mut Vec<News>) {
        for queue in [&mut self.awaiting_durable, &mut self.awaiting_committed] {
            news.extend(queue.drain(..).map(|awaiting| why(awaiting.ticket)));
        }
    }

    pub(crate) fn waiting_count(&self) -> usize {
        self.awaiting_durable.len() + self.awaiting_committed.len()
    }

    /// Forgets tickets that nobody waits under any more.
    pub(crate) fn forget(&mut self, is_over: impl Fn(&Ticket) -> bool) {
        for queue in [&mut self.awaiting_durable, &mut self.awaiting_committed] {
            queue.retain(|awaiting| !is_over(&awaiting.ticket));
        }
    }
}

/// Replicas that must be in sync for `acks=all`: those of the setting, but never more than there are. Kafka counts so too
/// (`Partition.effectiveMinIsr`), and its default for the log of transactions, 2, rests on that where one broker is all.
fn needed(in_sync_min: usize, replicas: usize) -> usize {
    in_sync_min.min(replicas)
}

#[cfg(test)]
#[path = "progress/tests.rs"]
mod tests;
