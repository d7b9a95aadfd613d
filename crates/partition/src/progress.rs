//! Watermarks: what a returned sync means for those who wait.

use std::sync::Arc;

use model::Offset;

use crate::news::{Awaiting, News, Ticket, WaiterKey};
use crate::partition::Partition;

impl Partition {
    /// Everything below `up_to`, and the oldest `trims` trims, are durable. Returns whether the partition must be put on the
    /// segment writer's list.
    pub(crate) fn on_durable(
        self: &Arc<Self>,
        up_to: Offset,
        trims: usize,
        news: &mut Vec<News>,
    ) -> bool {
        let mut state = self.state.lock();
        if up_to > state.high_watermark {
            state.high_watermark = up_to;
            news.extend(state.watchers.drain(..).map(News::Readable));
        }
        while let Some(awaiting) = state.awaiting.front().copied() {
            if awaiting.until > state.high_watermark {
                break;
            }
            state.awaiting.pop_front();
            news.push(News::Committed(awaiting.ticket));
        }
        for _ in 0..trims {
            let Some((start, ticket)) = state.trims.pop_front() else {
                break;
            };
            state.log_start = state.log_start.max(start);
            state.has_trimmed = true;
            news.extend(ticket.map(News::Committed));
        }
        !std::mem::replace(&mut state.dirty, true)
    }

    /// Redeems `ticket` when everything appended so far is durable; `false` when it is already.
    pub fn await_end(&self, ticket: Ticket) -> bool {
        let mut state = self.state.lock();
        let until = state.tail.end();
        let waits = until > state.high_watermark;
        if waits {
            state.awaiting.push_back(Awaiting { until, ticket });
        }
        waits
    }

    /// Tells `watcher` once when the high watermark passes `seen`; `false` when it already has.
    pub fn watch(&self, watcher: Ticket, seen: Offset) -> bool {
        let mut state = self.state.lock();
        let is_current = state.high_watermark <= seen && !state.is_deleted && !self.dir.is_failed();
        if is_current {
            state.watchers.push(watcher);
        }
        is_current
    }

    pub fn unwatch(&self, watcher: WaiterKey) {
        self.state
            .lock()
            .watchers
            .retain(|known| known.waiter != watcher);
    }
}
