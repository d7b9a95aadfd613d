//! The mailboxes of one broker's threads.

use std::sync::Arc;

use model::InboxId;
use partition::News;

use super::lifetime::EndListener;
use crate::control;
use crate::inboxes::{Inboxes, Redeemed};
use crate::replication;

pub(crate) struct Mail {
    /// For those that wait for something under a ticket.
    pub(crate) inboxes: Inboxes,
    /// Orders for the worker of the quorum.
    pub(crate) quorum: Arc<control::Mailbox>,
    /// News for the worker that follows leaders.
    pub(crate) followers: Arc<replication::Mailbox>,
}

impl Mail {
    /// With one shard nobody else waits for the disk, so commits need no thread of their own while they are short.
    pub(crate) fn commits_inline(&self) -> bool {
        self.inboxes.shards_count() == 1
    }

    pub(crate) fn put(&self, to: InboxId, redeemed: Redeemed) {
        self.inboxes.put(to, vec![redeemed]);
    }

    /// Puts each piece of news where its ticket waits.
    pub(crate) fn spread(&self, news: Vec<News>) {
        self.inboxes.spread(news);
    }
}

impl EndListener for Mail {
    fn on_leaving(&self) {
        self.quorum.wake();
    }

    fn on_stopping(&self) {
        self.inboxes.wake_shards();
        self.followers.wake();
    }

    fn on_shard_ended(&self, is_last: bool) {
        if is_last {
            self.quorum.wake();
        } else {
            self.inboxes.wake_shards();
        }
    }
}
