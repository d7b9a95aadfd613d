//! Events of one partition that redeem tickets and wake readers: a sync, a follower, a role.

use std::sync::Arc;
use std::time::Duration;

use model::{BrokerId, InboxId, LeaderEpoch, Offset, Ticket, WaiterKey};

use crate::dir::durable::Reached;
use crate::isolation::Scope;
use crate::news::News;
use crate::partition::{Bounds, Partition, PartitionState, Watcher};
use crate::progress::{
    FollowerAt, FollowerLag, IsrWish, Laggards, Progress, Role, RoleChange, Wanted,
};
use crate::read::{Read, ReadError, ReadRequest};

/// The append will not be committed under this leader in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeverCommitted;

impl Partition {
    /// A round became durable, and the segment writer has more to write.
    pub(crate) fn on_reached(&self, reached: Reached, news: &mut Vec<News>) {
        let Reached {
            up_to,
            has_trim,
            held,
            life,
        } = reached;
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if state.is_deleted {
            return; // nobody waits, and nothing is written any more
        }
        let before = state.synced();
        state.cuts.on_durable(life);
        state.advance(news, |progress, _| progress.on_durable(up_to, life));
        if state.synced() != before {
            state.tell_sync_watchers(news);
        }
        if let Some(trim) = state.trims.pop_front_if(|_| has_trim) {
            let before = state.bounds();
            state.raise_log_start(trim.start);
            state.has_trimmed = true;
            // The leader hears of the new log start with the next fetch.
            state.tell_sync_watchers(news);
            if !trim.tickets.is_empty() {
                // Followers hear of it with the answer to the fetch that waits.
                state.tell_end_watchers(news);
                state.trims_elsewhere.push(trim);
                state.redeem_trims(news);
            }
            // The log start may have passed the beginning of an open transaction.
            state.tell_watchers(before, news);
        }
        let is_first = !std::mem::replace(&mut state.dirty, true);
        let home = Arc::clone(&state.home);
        drop(guard);
        let listed = is_first.then(|| self.key());
        home.dir.backlog.add(held, listed);
    }

    /// A follower has synced everything below an offset. True if it may join those in sync.
    pub fn on_follower_at(&self, said: FollowerAt, news: &mut Vec<News>) -> bool {
        let mut state = self.state.lock();
        let now = state.now();
        let mut may_join = false;
        state.advance(news, |progress, _| {
            may_join = progress.on_follower_at(said, now);
        });
        may_join
    }

    /// Visits the lag of each follower; there is none where this broker does not lead. Under the lock: `visit` is short.
    pub fn visit_lags(&self, visit: impl FnMut(FollowerLag)) {
        let mut state = self.state.lock();
        let now = state.now();
        let lags = state.progress.lags(now);
        lags.for_each(visit);
    }

    /// Time for which a reassignment has made no progress: of the added replicas outside the ISR the longest that one has stood still;
    /// where all are in sync the shortest, as then the controller does not go on. `None` where none of them follows here.
    pub fn coming_still(&self, coming: &[BrokerId], isr: &[BrokerId]) -> Option<Duration> {
        let mut outside: Option<Duration> = None;
        let mut inside: Option<Duration> = None;
        self.visit_lags(|follower| {
            if !coming.contains(&follower.broker) {
                return;
            }
            if isr.contains(&follower.broker) {
                inside = Some(inside.map_or(follower.still, |least| least.min(follower.still)));
            } else {
                outside = outside.max(Some(follower.still));
            }
        });
        outside.or(inside)
    }

    /// True if the replica on a broker is in sync, as this leader knows.
    pub fn has_in_sync(&self, broker: BrokerId) -> bool {
        self.state.lock().progress.has_in_sync(broker)
    }

    /// The replica among those on `near` brokers that a consumer at `request.from` is to read from, and what the leader says meanwhile.
    pub fn nearest(
        &self,
        request: &ReadRequest,
        near: &[BrokerId],
    ) -> Result<Option<(BrokerId, Read)>, ReadError> {
        let state = self.state.lock();
        if near.is_empty() || self.is_offline_in(&state) {
            return Ok(None);
        }
        let Some(nearest) = state.progress.nearest(request.from, near) else {
            return Ok(None);
        };
        let bounds = self.admit(&state, request)?;
        Ok(Some((nearest, Read::at_end(bounds))))
    }

    /// The ISR that this leader wants, if it is another one than the metadata have. A wish is asked for once: until the metadata change, or
    /// the wish is refused, there is no other. `eligible` judges brokers by their registrations.
    pub fn wish_isr(
        &self,
        laggards: Laggards<'_>,
        eligible: impl Fn(BrokerId, i64) -> bool,
    ) -> Option<IsrWish> {
        let mut state = self.state.lock();
        let now = state.now();
        state.progress.wish_isr(now, laggards, eligible)
    }

    /// The controller refused a wish for good.
    pub fn on_wish_refused(&self, wish: &IsrWish, news: &mut Vec<News>) {
        let mut state = self.state.lock();
        state.advance(news, |progress, _| progress.on_wish_refused(wish));
    }

    /// Notifies `watcher` once, as readable, when the log grows past `seen`, committed or not: another replica waits for it. `false`
    /// when it already has, or where this broker does not lead.
    pub fn watch_end(&self, watcher: Ticket, seen: Offset) -> bool {
        let mut state = self.state.lock();
        let is_live = !state.is_deleted && !self.is_offline_in(&state);
        let waits = is_live && state.tail.end() <= seen && state.progress.is_leading();
        if waits {
            state.end_watchers.push(watcher);
        }
        waits
    }

    /// Removes what `inbox` watches under `watcher`.
    pub fn unwatch_end(&self, inbox: InboxId, watcher: WaiterKey) {
        let mut state = self.state.lock();
        let is_of = |ticket: &Ticket| ticket.inbox == inbox && ticket.key == watcher;
        state.end_watchers.retain(|known| !is_of(known));
    }

    /// Followers in sync that are behind for longer than `lag_max`.
    pub fn behind(&self, lag_max: Duration) -> Vec<BrokerId> {
        let mut state = self.state.lock();
        let now = state.now();
        state.progress.on_tick(now, lag_max)
    }

    /// The metadata give this broker a role in the partition. Batches appended from now on are of this leader epoch; tickets of an
    /// older one fail.
    pub fn set_role(&self, epoch: LeaderEpoch, role: Role, news: &mut Vec<News>) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let now = state.now();
        let mut change = RoleChange::None;
        state.advance(news, |progress, news| {
            change = progress.on_role(epoch, role, now, news);
        });
        match change {
            RoleChange::None => return,
            // Waiting fetches of followers are answered, and the next ones say where the followers are.
            RoleChange::Followers => return state.tell_end_watchers(news),
            RoleChange::Leadership => {}
        }
        state.release_trims(news);
        // Waiting readers look again, and see whether another broker leads.
        let watchers = state.watchers.drain(..);
        news.extend(watchers.map(|watcher| News::Readable(watcher.ticket)));
        state.tell_end_watchers(news);
        if state.progress.is_leading() {
            state.begin_epoch();
        }
    }

    /// This broker does not act as leader for a while, though the metadata give it the role: requests that wait for a commit or a trim get
    /// `NotLeader`, and readers that wait for more look again. A batch that was appended may still be committed.
    pub fn release_waiting(&self, news: &mut Vec<News>) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if !state.progress.is_leading() || state.progress.is_elected() {
            return;
        }
        state.progress.fail_all(News::NotLeader, news);
        state.release_trims(news);
        let watchers = state.watchers.drain(..);
        news.extend(watchers.map(|watcher| News::Readable(watcher.ticket)));
    }

    /// Tickets of appends and trims that are not redeemed.
    pub fn waiting_count(&self) -> usize {
        let state = self.state.lock();
        let trims = state.trims.iter().chain(&state.trims_elsewhere);
        let of_trims: usize = trims.map(|trim| trim.tickets.len()).sum();
        state.progress.waiting_count() + of_trims
    }

    /// Redeems `ticket` when everything appended so far is committed; `false` when it is already.
    pub fn await_end(&self, ticket: Ticket) -> Result<bool, NeverCommitted> {
        self.await_end_in(LeaderEpoch::NONE, ticket)
    }

    /// The same for something that was appended in one leader epoch: it may be cut off in a later one, and other records may reach
    /// its offsets.
    pub fn await_end_in(&self, epoch: LeaderEpoch, ticket: Ticket) -> Result<bool, NeverCommitted> {
        let mut state = self.state.lock();
        state.check_writer(epoch).map_err(|_| NeverCommitted)?;
        let until = state.tail.end();
        if state.progress.has_reached(until, Wanted::Committed) {
            return Ok(false);
        }
        // The directory fails (1), all waiting tickets fail (2), and now one more comes: nobody would notify it any more.
        let is_over = state.is_deleted || state.home.dir.is_failed();
        if is_over || !state.progress.is_leading() {
            return Err(NeverCommitted);
        }
        state.progress.wait(until, Wanted::Committed, ticket);
        Ok(true)
    }

    /// Forgets tickets of `inbox` whose requests do not wait for a commit any more. On a full disk a commit may take hours, and a client
    /// that asks again waits once more each time.
    pub fn forget_waiters(&self, inbox: InboxId, is_waiting: impl Fn(WaiterKey) -> bool) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let is_over = |ticket: &Ticket| ticket.inbox == inbox && !is_waiting(ticket.key);
        state.progress.forget(is_over);
        for trim in state.trims.iter_mut().chain(&mut state.trims_elsewhere) {
            trim.tickets.retain(|ticket| !is_over(ticket));
        }
    }

    /// Notifies `watcher` once when what a reader of its scope sees grows past `seen`, or the partition gets another leader; `false` when
    /// it already has.
    pub fn watch(&self, watcher: Ticket, seen: Offset, scope: Scope) -> bool {
        let Scope {
            isolation,
            leader_only,
            ..
        } = scope;
        let mut state = self.state.lock();
        let end = state.bounds().end(isolation);
        let is_live = !state.is_deleted && !self.is_offline_in(&state);
        let is_served = !leader_only || state.progress.is_leading();
        let is_current = end <= seen && is_live && is_served;
        if is_current {
            state.watchers.push(Watcher {
                ticket: watcher,
                isolation,
            });
        }
        is_current
    }

    pub fn unwatch(&self, inbox: InboxId, watcher: WaiterKey) {
        let is_of = |ticket: Ticket| ticket.inbox == inbox && ticket.key == watcher;
        let mut state = self.state.lock();
        state.watchers.retain(|known| !is_of(known.ticket));
        state.sync_watchers.retain(|known| !is_of(*known));
    }
}

impl PartitionState {
    /// Has the machine take an event, and passes on where that leads.
    pub(crate) fn advance(
        &mut self,
        news: &mut Vec<News>,
        event: impl FnOnce(&mut Progress, &mut Vec<News>),
    ) {
        let before = self.bounds();
        event(&mut self.progress, news);
        let committed = self.progress.points().committed;
        if before.high_watermark < committed {
            self.producers.on_high_watermark(committed);
            self.tell_watchers(before, news);
        }
        self.progress.redeem(news);
        self.redeem_trims(news);
    }

    /// Trims continue, and nobody waits for them any more.
    fn release_trims(&mut self, news: &mut Vec<News>) {
        let trims = self.trims.iter_mut().chain(&mut self.trims_elsewhere);
        let tickets = trims.flat_map(|trim| std::mem::take(&mut trim.tickets));
        news.extend(tickets.map(News::NotLeader));
        self.trims_elsewhere.clear();
    }

    /// Redeems the tickets of trims that are durable on every replica that may lead next.
    fn redeem_trims(&mut self, news: &mut Vec<News>) {
        if self.trims_elsewhere.is_empty() {
            return;
        }
        let Some(start) = self.progress.start_everywhere() else {
            return;
        };
        let done = self
            .trims_elsewhere
            .extract_if(.., |trim| trim.start <= start);
        news.extend(done.flat_map(|trim| trim.tickets).map(News::Reached));
    }

    /// The log has grown, or will not grow here.
    pub(crate) fn tell_end_watchers(&mut self, news: &mut Vec<News>) {
        news.extend(self.end_watchers.drain(..).map(News::Readable));
    }

    /// Notifies readers for whom there is more to see than at `before`.
    fn tell_watchers(&mut self, before: Bounds, news: &mut Vec<News>) {
        let now = self.bounds();
        let sees_more =
            |watcher: &mut Watcher| before.end(watcher.isolation) < now.end(watcher.isolation);
        if before.high_watermark < now.high_watermark || before.last_stable < now.last_stable {
            let told = self.watchers.extract_if(.., sees_more);
            news.extend(told.map(|watcher| News::Readable(watcher.ticket)));
        }
    }
}
