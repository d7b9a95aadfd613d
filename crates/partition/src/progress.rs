//! Watermarks: what a returned sync means for those who wait.

use std::sync::Arc;

use model::{InboxId, Offset, Ticket, WaiterKey};

use crate::dir::durable::{NeverDurable, Reached};
use crate::news::{Awaiting, News, Watcher};
use crate::partition::{Bounds, Partition, State};
use crate::read::Isolation;

impl Partition {
    /// A round became durable, and the segment writer has more to write.
    pub(crate) fn on_reached(&self, reached: Reached, news: &mut Vec<News>) {
        let Reached {
            up_to,
            has_trim,
            bytes,
        } = reached;
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if state.is_deleted {
            return; // nobody waits, and nothing is written any more
        }
        let mut before = state.bounds();
        if up_to > state.high_watermark {
            state.high_watermark = up_to;
            state.producers.on_high_watermark(up_to);
            state.tell_watchers(before, news);
            before = state.bounds();
        }
        while let Some(awaiting) = state.awaiting.front().copied() {
            if awaiting.until > state.high_watermark {
                break;
            }
            state.awaiting.pop_front();
            news.push(News::Committed(awaiting.ticket));
        }
        if let Some(trim) = state.trims.pop_front_if(|_| has_trim) {
            state.raise_log_start(trim.start);
            state.has_trimmed = true;
            news.extend(trim.tickets.into_iter().map(News::Committed));
        }
        // The log start may have passed the beginning of an open transaction.
        state.tell_watchers(before, news);
        let is_first = !std::mem::replace(&mut state.dirty, true);
        let home = Arc::clone(&state.home);
        drop(guard);
        let listed = is_first.then(|| self.key());
        home.dir.backlog.add(bytes, listed);
    }

    /// Redeems `ticket` when everything appended so far is durable; `false` when it is already.
    pub fn await_end(&self, ticket: Ticket) -> Result<bool, NeverDurable> {
        let mut state = self.state.lock();
        let until = state.tail.end();
        if until <= state.high_watermark {
            return Ok(false);
        }
        // The directory fails (1), everyone who waits is told (2), and now one more comes: nobody would tell it any more.
        if state.is_deleted || state.home.dir.is_failed() {
            return Err(NeverDurable);
        }
        state.awaiting.push_back(Awaiting { until, ticket });
        Ok(true)
    }

    /// Forgets those of `inbox` that wait for a commit no more. On a full disk it may take hours to come, and clients that ask again
    /// wait once more each time.
    pub fn forget_waiters(&self, inbox: InboxId, is_waiting: impl Fn(WaiterKey) -> bool) {
        let mut state = self.state.lock();
        let is_over = |ticket: &Ticket| ticket.inbox == inbox && !is_waiting(ticket.key);
        state.awaiting.retain(|awaiting| !is_over(&awaiting.ticket));
        for trim in &mut state.trims {
            trim.tickets.retain(|ticket| !is_over(ticket));
        }
    }

    /// Tells `watcher` once when what a reader of its isolation sees grows past `seen`; `false` when it already has.
    pub fn watch(&self, watcher: Ticket, seen: Offset, isolation: Isolation) -> bool {
        let mut state = self.state.lock();
        let end = state.bounds().end(isolation);
        let is_current = end <= seen && !state.is_deleted && !self.is_offline_in(&state);
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
    }
}

impl State {
    /// Tells those for whom there is more to see than at `before`.
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
